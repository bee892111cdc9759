//! Receipts of messages with an idempotency key (contract: agents 27 to 30).
//!
//! A receipt is written in the transaction that takes the message, and completed in the one that ends its turn. A crash between
//! leaves it in progress for ever: what the turn did is in the transcript, and nobody may do it again.

use sqlx::PgConnection;

use crate::ids::{AccountId, AgentSessionId};
use crate::vault::{UnsealError, Vault};

/// What the vault is told that receipts are for.
pub(super) const PURPOSE: &str = "agent receipts";

/// What a message is known by: by the present key first.
#[derive(Debug, Clone)]
pub struct Fingerprint(Vec<Vec<u8>>);

impl Fingerprint {
    /// Of a message to an agent session with these approvals, in their order.
    #[must_use]
    pub fn of(vault: &Vault, session: AgentSessionId, message: &str, approvals: &[String]) -> Self {
        // Each text behind its length, so that no two requests look the same.
        let mut text = session.as_uuid().as_bytes().to_vec();
        for part in std::iter::once(message).chain(approvals.iter().map(String::as_str)) {
            text.extend((part.len() as u64).to_be_bytes());
            text.extend(part.as_bytes());
        }
        Self(vault.fingerprints(PURPOSE, &text))
    }
}

/// A receipt to be.
#[derive(Debug, Clone)]
pub struct NewReceipt {
    /// The account's key.
    pub key: String,
    /// What the message is known by.
    pub fingerprint: Fingerprint,
}

/// What there is of a key.
#[derive(Debug)]
pub enum Receipt {
    /// The same message was answered.
    Completed {
        /// The HTTP status.
        status: u16,
        /// Bytes of the body, sealed.
        bytes: u64,
    },
    /// The same message is under way, or its outcome is not known.
    InProgress,
    /// Another message had the key.
    Mismatch,
}

/// What there is of the account's key; `None` when it was never used.
///
/// # Errors
/// When the database fails.
pub async fn find(conn: &mut PgConnection, account: AccountId, wanted: &NewReceipt) -> sqlx::Result<Option<Receipt>> {
    let row = sqlx::query!(
        "select fingerprint, http_status, octet_length(sealed_body) as bytes
         from agent_message_receipts where account_id = $1 and key = $2",
        account as _,
        wanted.key,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| match (row.http_status, row.bytes) {
        _ if !wanted.fingerprint.0.contains(&row.fingerprint) => Receipt::Mismatch,
        (Some(status), Some(bytes)) => Receipt::Completed {
            status: u16::try_from(status).unwrap_or_default(),
            bytes: u64::try_from(bytes).unwrap_or_default(),
        },
        _ => Receipt::InProgress,
    }))
}

/// The sealed body of the account's completed receipt; `None` when it is gone, with its agent session or its account.
///
/// # Errors
/// When the database fails.
pub async fn sealed_body(conn: &mut PgConnection, account: AccountId, key: &str) -> sqlx::Result<Option<Vec<u8>>> {
    let body = sqlx::query_scalar!(
        r#"select sealed_body as "sealed_body!" from agent_message_receipts
           where account_id = $1 and key = $2 and sealed_body is not null"#,
        account as _,
        key,
    );
    body.fetch_optional(conn).await
}

/// Takes the account's key for a message. `false` when somebody else has it by now.
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

/// Completes a receipt with what its turn was answered.
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

/// Owner that a receipt's body is bound to.
pub(super) fn owner(account: AccountId, key: &str) -> String {
    format!("{account} {key}")
}

/// Seals an answer for the receipt of the account's key.
#[must_use]
pub fn seal(vault: &Vault, account: AccountId, key: &str, body: &[u8]) -> Vec<u8> {
    vault.seal(PURPOSE, &owner(account, key), body)
}

/// # Errors
/// When it was sealed with a key that this process does not have.
pub fn open(vault: &Vault, account: AccountId, key: &str, sealed: &[u8]) -> Result<Vec<u8>, UnsealError> {
    vault.open(PURPOSE, &owner(account, key), sealed)
}
