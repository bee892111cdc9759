//! Staff of the operator: their credentials, and the log of their actions with reasons (contract: staff).
//!
//! A staff credential belongs to no account and cannot call customer routes. The transaction of an action records it in
//! two logs: in that of the affected customer, without the staff member, and in the staff log, which is append-only.

use kitfleet_types::ids::{AccountId, StaffCredentialId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{self, Invalid, Rules};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::api_keys::Secret;
use crate::area::{Area, Bound};
use crate::audit::{self, Actor, Entry};
use crate::metrics::Counter;

pub(crate) const AREA: Area = Area {
    kept: &[("staff_credentials", "staff's log refers to them"), ("staff_log", "never purged")],
    actions: &["admin.refund_recorded", "admin.support_note"],
    bounds: &[
        ("staff_credentials", Bound::Operator("one for each member of staff")),
        ("staff_log", Bound::Operator("one for each action of staff")),
    ],
    metrics: &[&LOGGED_ACTIONS],
    ..Area::named("staff")
};

const LOGGED_ACTIONS: Counter<1> =
    Counter::new("service_admin_audit_emit_total", "Logged actions of staff, by prefix of the action.", ["prefix"])
        .starting_with(|| vec![["admin"], ["job"], ["worker"]]);

const NAME_CHARS: usize = 120;
pub const REASON_CHARS: usize = 500;

#[derive(Debug, Clone, Serialize)]
pub struct StaffCredential {
    pub id: StaffCredentialId,
    pub name: String,
    pub key_prefix: String,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub enum MintError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The secret is shown once, and only its hash is stored (contract: staff 1).
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

/// Includes revoked ones, the newest first.
pub async fn list(conn: &mut PgConnection) -> sqlx::Result<Vec<StaffCredential>> {
    sqlx::query_as!(
        StaffCredential,
        "select id, name, key_prefix, created_at, last_used_at, revoked_at from staff_credentials order by id desc",
    )
    .fetch_all(conn)
    .await
}

/// A second call changes nothing.
pub async fn revoke(conn: &mut PgConnection, id: StaffCredentialId) -> sqlx::Result<bool> {
    let known =
        sqlx::query!("update staff_credentials set revoked_at = coalesce(revoked_at, now()) where id = $1", id as _,)
            .execute(conn)
            .await?;
    Ok(known.rows_affected() == 1)
}

#[derive(Debug, Clone, Copy)]
pub struct Bearer {
    pub id: StaffCredentialId,
    pub revoked: bool,
}

/// Records the use. `None` when the token is not a staff credential.
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

#[derive(Debug, Clone)]
pub struct Reason(String);

impl Reason {
    /// Contract: staff 5.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        let mut rules = Rules::default();
        rules.length(text, 1, REASON_CHARS, "reason");
        rules.check()?;
        Ok(Self(text.to_owned()))
    }
}

#[derive(Debug, Clone)]
pub struct StaffActor {
    pub credential: StaffCredentialId,
    pub reason: Reason,
}

impl StaffActor {
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::Staff(self.credential)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Operation {
    #[strum(serialize = "account.suspended")]
    AccountSuspended,
    #[strum(serialize = "account.reactivated")]
    AccountReactivated,
    #[strum(serialize = "account.tier_changed")]
    TierChanged,
    #[strum(serialize = "account.limits_set")]
    LimitsSet,
    #[strum(serialize = "account.note_written")]
    NoteWritten,
    #[strum(serialize = "account.refund_recorded")]
    RefundRecorded,
    #[strum(serialize = "webhook_delivery.requeued")]
    DeliveriesRequeued,
    #[strum(serialize = "webhook_requeue.paused")]
    RequeuePaused,
    #[strum(serialize = "webhook_requeue.resumed")]
    RequeueResumed,
    #[strum(serialize = "crypto_order.expired")]
    OrderExpired,
    #[strum(serialize = "crypto_order.settled")]
    OrderSettled,
    #[strum(serialize = "job.retried")]
    JobRetried,
    #[strum(serialize = "job.cancelled")]
    JobCancelled,
    #[strum(serialize = "session.ended")]
    SessionEnded,
    #[strum(serialize = "session.recording_read")]
    RecordingRead,
    #[strum(serialize = "worker.drained")]
    WorkerDrained,
    #[strum(serialize = "worker.undrained")]
    WorkerUndrained,
    #[strum(serialize = "incident.posted")]
    IncidentPosted,
    #[strum(serialize = "incident.updated")]
    IncidentUpdated,
    #[strum(serialize = "incident.resolved")]
    IncidentResolved,
}

impl Operation {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn action(self) -> &'static str {
        match self {
            Self::RefundRecorded => "admin.refund_recorded",
            _ => "admin.support_note",
        }
    }

    /// For notes and refunds, the action already names the operation.
    fn payload(self, mut details: Value, reason: &Reason) -> Value {
        if !matches!(self, Self::NoteWritten | Self::RefundRecorded) {
            details["operation"] = self.name().into();
        }
        details["reason"] = reason.0.clone().into();
        details
    }
}

#[derive(Debug)]
pub struct StaffRecord {
    pub operation: Operation,
    pub account: Option<AccountId>,
    pub target: Option<String>,
    pub details: Value,
}

impl StaffRecord {
    #[must_use]
    pub fn to_account(operation: Operation, account: AccountId, details: Value) -> Self {
        Self { operation, account: Some(account), target: Some(account.to_string()), details }
    }

    #[must_use]
    pub fn to_service(operation: Operation, target: String) -> Self {
        Self { operation, account: None, target: Some(target), details: json!({}) }
    }
}

/// Writes both logs in the caller's transaction (contract: staff 6).
pub async fn record(conn: &mut PgConnection, by: &StaffActor, action: StaffRecord) -> sqlx::Result<()> {
    let StaffRecord { operation, account, target, details } = action;
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
    LOGGED_ACTIONS.with([counted.split('.').next().unwrap_or_default()]).increment(1);
    Ok(())
}
