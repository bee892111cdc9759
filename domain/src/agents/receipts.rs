//! Receipts of messages with an idempotency key (contract: agents 27 to 30).
//!
//! A receipt is inserted in the transaction that accepts the message, and completed in the one that ends its turn.
//! After a crash in between, it stays in progress: a repetition must not run the turn again.

use kitfleet_types::ids::{AccountId, AgentSessionId};
use sqlx::PgConnection;

use crate::vault::{UnsealError, Vault};

pub(super) const PURPOSE: &str = "agent receipts";

/// The one with the current key first.
#[derive(Debug, Clone)]
pub struct Fingerprint(Vec<Vec<u8>>);

impl Fingerprint {
    /// Covers the agent session and the approvals, in their order.
    #[must_use]
    pub fn of(vault: &Vault, session: AgentSessionId, message: &str, approvals: &[String]) -> Self {
        // A length precedes each text, so that different requests never have the same input.
        let mut text = session.as_uuid().as_bytes().to_vec();
        for part in std::iter::once(message).chain(approvals.iter().map(String::as_str)) {
            text.extend((part.len() as u64).to_be_bytes());
            text.extend(part.as_bytes());
        }
        Self(vault.fingerprints(PURPOSE, &text))
    }
}

#[derive(Debug, Clone)]
pub struct NewReceipt {
    pub key: String,
    pub fingerprint: Fingerprint,
}

#[derive(Debug)]
pub enum Receipt {
    Completed {
        status: u16,
        bytes: u64,
    },
    /// The same message is still running, or its outcome is unknown.
    InProgress,
    Mismatch,
}

/// `None` if the key was never used.
pub async fn find(conn: &mut PgConnection, account: AccountId, new: &NewReceipt) -> sqlx::Result<Option<Receipt>> {
    let row = sqlx::query!(
        "select fingerprint, http_status, octet_length(sealed_body) as bytes
         from agent_message_receipts where account_id = $1 and key = $2",
        account as _,
        new.key,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| match (row.http_status, row.bytes) {
        _ if !new.fingerprint.0.contains(&row.fingerprint) => Receipt::Mismatch,
        (Some(status), Some(bytes)) => Receipt::Completed {
            status: u16::try_from(status).unwrap_or_default(),
            bytes: u64::try_from(bytes).unwrap_or_default(),
        },
        _ => Receipt::InProgress,
    }))
}

/// `None` if it was deleted with its agent session or account.
pub async fn sealed_body(conn: &mut PgConnection, account: AccountId, key: &str) -> sqlx::Result<Option<Vec<u8>>> {
    let body = sqlx::query_scalar!(
        r#"select sealed_body as "sealed_body!" from agent_message_receipts
           where account_id = $1 and key = $2 and sealed_body is not null"#,
        account as _,
        key,
    );
    body.fetch_optional(conn).await
}

/// `false` if another transaction has reserved the key.
pub(super) async fn reserve(
    conn: &mut PgConnection,
    account: AccountId,
    session: AgentSessionId,
    new: &NewReceipt,
) -> sqlx::Result<bool> {
    let reserved = sqlx::query!(
        "insert into agent_message_receipts (account_id, key, session_id, fingerprint) values ($1, $2, $3, $4)
         on conflict do nothing",
        account as _,
        new.key,
        session as _,
        new.fingerprint.0[0],
    )
    .execute(conn)
    .await?;
    Ok(reserved.rows_affected() > 0)
}

pub(super) async fn complete(
    conn: &mut PgConnection,
    account: AccountId,
    key: &str,
    sealed_body: &[u8],
) -> sqlx::Result<()> {
    sqlx::query!(
        "with completed as (
             update agent_message_receipts
             set status = 'completed', http_status = 200, sealed_body = $3, completed_at = now()
             where account_id = $1 and key = $2 and status = 'in_progress' returning session_id
         )
         update agent_sessions a set kept_bytes = a.kept_bytes + length($3)
         from completed where a.id = completed.session_id",
        account as _,
        key,
        sealed_body,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) fn owner(account: AccountId, key: &str) -> String {
    format!("{account} {key}")
}

#[must_use]
pub fn seal(vault: &Vault, account: AccountId, key: &str, body: &[u8]) -> Vec<u8> {
    vault.seal(PURPOSE, &owner(account, key), body)
}

pub fn open(vault: &Vault, account: AccountId, key: &str, sealed: &[u8]) -> Result<Vec<u8>, UnsealError> {
    vault.open(PURPOSE, &owner(account, key), sealed)
}
