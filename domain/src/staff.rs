//! Staff, who run the service: their credentials, and what they did and why (contract: staff).
//!
//! A credential of staff belongs to no account, and opens no customer's route. What it is used for is written twice, in the
//! transaction of the deed: into the log of the customer whom it concerns, without a word of who it was, and into staff's own,
//! which can only be added to.

use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::api_keys::Secret;
use crate::area::{Area, Bound};
use crate::audit::{self, Actor, Entry};
use crate::ids::{AccountId, StaffCredentialId};
use crate::timestamp::Timestamp;
use crate::validation::{self, Invalid, Rules};

pub(crate) const AREA: Area = Area {
    kept: &[("staff_credentials", "staff's log refers to them"), ("staff_log", "never purged")],
    actions: &["admin.refund_recorded", "admin.support_note"],
    bounds: &[
        ("staff_credentials", Bound::Operator("one for each member of staff")),
        ("staff_log", Bound::Operator("one for each action of staff")),
    ],
    ..Area::named("staff")
};

/// Characters of a credential's name, at most.
const NAME_CHARS: usize = 120;
/// Characters of a reason, at most.
pub const REASON_CHARS: usize = 500;

/// A credential, as operators see it.
#[derive(Debug, Clone, Serialize)]
pub struct StaffCredential {
    /// Its id.
    pub id: StaffCredentialId,
    /// Whose it is, or what it is for.
    pub name: String,
    /// How it begins.
    pub key_prefix: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// Why there is no new credential.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// The name breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Makes a credential. Its secret is shown this once, and only its hash is stored (contract: staff 1).
///
/// # Errors
/// When the name does not have 1 to 120 characters, or the database fails.
pub async fn mint(conn: &mut PgConnection, name: &str) -> Result<(StaffCredential, Secret), MintError> {
    let name = validation::name(name, NAME_CHARS)?;
    let secret = Secret::generate_for_staff();
    let credential = sqlx::query_as!(
        StaffCredential,
        "insert into staff_credentials (id, name, key_prefix, key_hash) values ($1, $2, $3, $4)
         returning id, name, key_prefix, created_at, last_used_at, revoked_at",
        StaffCredentialId::generate() as _,
        name,
        secret.shown_prefix(),
        secret.hash(),
    )
    .fetch_one(conn)
    .await?;
    Ok((credential, secret))
}

/// Every credential, revoked ones too, the newest first.
///
/// # Errors
/// When the database fails.
pub async fn list(conn: &mut PgConnection) -> sqlx::Result<Vec<StaffCredential>> {
    sqlx::query_as!(
        StaffCredential,
        "select id, name, key_prefix, created_at, last_used_at, revoked_at from staff_credentials order by id desc",
    )
    .fetch_all(conn)
    .await
}

/// Revokes a credential, for good. Once more changes nothing. `false` when there is none.
///
/// # Errors
/// When the database fails.
pub async fn revoke(conn: &mut PgConnection, id: StaffCredentialId) -> sqlx::Result<bool> {
    let known =
        sqlx::query!("update staff_credentials set revoked_at = coalesce(revoked_at, now()) where id = $1", id as _,)
            .execute(conn)
            .await?;
    Ok(known.rows_affected() == 1)
}

/// What a token says of a member of staff who sends it.
#[derive(Debug, Clone, Copy)]
pub struct Bearer {
    /// Their credential.
    pub id: StaffCredentialId,
    /// Whether it was revoked.
    pub revoked: bool,
}

/// The credential of this token, whose use is noted. `None` when it is none of staff's.
///
/// # Errors
/// When the database fails.
pub async fn find(conn: &mut PgConnection, token: &str) -> sqlx::Result<Option<Bearer>> {
    let Some(secret) = Secret::parse_of_staff(token) else { return Ok(None) };
    sqlx::query_as!(
        Bearer,
        r#"with used as (
               update staff_credentials set last_used_at = now() where key_hash = $1 and revoked_at is null
           )
           select id, revoked_at is not null as "revoked!" from staff_credentials where key_hash = $1"#,
        secret.hash(),
    )
    .fetch_optional(conn)
    .await
}

/// Why somebody of the staff did something.
#[derive(Debug, Clone)]
pub struct Reason(String);

impl Reason {
    /// # Errors
    /// On field `reason`, when it does not have 1 to 500 characters (contract: staff 5).
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        let mut rules = Rules::default();
        rules.length(text, 1, REASON_CHARS, "reason");
        rules.check()?;
        Ok(Self(text.to_owned()))
    }
}

/// Who of the staff does something, and why.
#[derive(Debug, Clone)]
pub struct StaffActor {
    /// With which credential.
    pub credential: StaffCredentialId,
    /// Why.
    pub reason: Reason,
}

impl StaffActor {
    /// As customers' logs know them.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::Staff(self.credential)
    }
}

/// What staff can do, as their log names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Operation {
    /// Stopped an account from acting.
    #[strum(serialize = "account.suspended")]
    AccountSuspended,
    /// Let it act again.
    #[strum(serialize = "account.reactivated")]
    AccountReactivated,
    /// Moved it to another tier.
    #[strum(serialize = "account.tier_changed")]
    TierChanged,
    /// Changed its limits.
    #[strum(serialize = "account.limits_set")]
    LimitsSet,
    /// Noted something about it.
    #[strum(serialize = "account.note_written")]
    NoteWritten,
    /// Noted that money was given back.
    #[strum(serialize = "account.refund_recorded")]
    RefundRecorded,
    /// Had dead letters sent once more.
    #[strum(serialize = "webhook_delivery.requeued")]
    DeliveriesRequeued,
    /// Ended a crypto order that nobody paid in time.
    #[strum(serialize = "crypto_order.expired")]
    OrderExpired,
    /// Took a crypto order for paid.
    #[strum(serialize = "crypto_order.settled")]
    OrderSettled,
    /// Let a job run once more.
    #[strum(serialize = "job.retried")]
    JobRetried,
    /// Kept a job from running.
    #[strum(serialize = "job.cancelled")]
    JobCancelled,
    /// Ended a session.
    #[strum(serialize = "session.ended")]
    SessionEnded,
    /// Took a worker out of service.
    #[strum(serialize = "worker.drained")]
    WorkerDrained,
    /// Returned a worker to service.
    #[strum(serialize = "worker.undrained")]
    WorkerUndrained,
    /// Told of something that goes wrong.
    #[strum(serialize = "incident.posted")]
    IncidentPosted,
    /// Said more of it.
    #[strum(serialize = "incident.updated")]
    IncidentUpdated,
    /// Said that it is over.
    #[strum(serialize = "incident.resolved")]
    IncidentResolved,
}

impl Operation {
    /// As the log names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// As what a customer's log has it.
    fn action(self) -> &'static str {
        match self {
            Self::RefundRecorded => "admin.refund_recorded",
            _ => "admin.support_note",
        }
    }

    /// What the customer reads of it: a note says itself what it is.
    fn payload(self, mut details: Value, reason: &Reason) -> Value {
        if !matches!(self, Self::NoteWritten | Self::RefundRecorded) {
            details["operation"] = self.name().into();
        }
        details["reason"] = reason.0.clone().into();
        details
    }
}

/// Something that staff did.
#[derive(Debug)]
pub struct StaffRecord {
    /// What.
    pub operation: Operation,
    /// To whom, if it concerns a customer, whose log then has it.
    pub account: Option<AccountId>,
    /// To what.
    pub target: Option<String>,
    /// Its details, an object.
    pub details: Value,
}

impl StaffRecord {
    /// Something done to an account.
    #[must_use]
    pub fn to_account(operation: Operation, account: AccountId, details: Value) -> Self {
        Self { operation, account: Some(account), target: Some(account.to_string()), details }
    }

    /// Something that concerns no customer.
    #[must_use]
    pub fn to_service(operation: Operation, target: String) -> Self {
        Self { operation, account: None, target: Some(target), details: json!({}) }
    }
}

/// Writes what staff did into their log and, when it concerns a customer, into that customer's, in the caller's transaction
/// (contract: staff 6).
///
/// # Errors
/// When the database fails.
pub async fn record(conn: &mut PgConnection, by: &StaffActor, deed: StaffRecord) -> sqlx::Result<()> {
    let StaffRecord { operation, account, target, details } = deed;
    sqlx::query!(
        "insert into staff_log (id, credential_id, operation, account_id, target_resource_id, reason, payload)
         values ($1, $2, $3, $4, $5, $6, $7)",
        Uuid::now_v7(),
        by.credential as _,
        operation.name(),
        account as _,
        target,
        by.reason.0,
        details,
    )
    .execute(&mut *conn)
    .await?;
    let mut counted = operation.name();
    if let Some(account) = account {
        let payload = operation.payload(details, &by.reason);
        let entry = Entry { action: operation.action(), target, payload };
        audit::record(conn, account, &by.actor(), entry).await?;
        counted = operation.action();
    }
    let prefix = counted.split('.').next().unwrap_or_default().to_owned();
    metrics::counter!("service_admin_audit_emit_total", "prefix" => prefix).increment(1);
    Ok(())
}
