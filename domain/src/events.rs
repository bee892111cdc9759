//! Events for webhooks (contract: events): an outbox, written in the transaction of what happened.

use std::time::Duration;

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::area::{Area, Purge};
use crate::ids::AccountId;

pub(crate) const AREA: Area = Area {
    purges: &[Purge::new("deliveries", "events", |conn, terms, limit| Box::pin(purge(conn, terms.webhooks, limit)))],
    ..Area::named("events")
};

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// A live session was destroyed.
    SessionCompleted,
    /// A session errored.
    SessionFailed,
    /// An API key was revoked.
    ApiKeyRevoked,
    /// A session's proxy reported what it can do.
    SessionEgressCapabilityChanged,
    /// A crypto order was paid.
    CryptoOrderPaid,
    /// A crypto order came to nothing.
    CryptoOrderFailed,
    /// A page asked whether a session is a person.
    SessionChallengeDetected,
    /// What a session leaves did not replace its profile.
    SessionProfileSaveFailed,
    /// Somebody asked for it. Nobody can subscribe to it.
    TestPing,
}

impl EventType {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::SessionCompleted,
        Self::SessionFailed,
        Self::ApiKeyRevoked,
        Self::SessionEgressCapabilityChanged,
        Self::CryptoOrderPaid,
        Self::CryptoOrderFailed,
        Self::SessionChallengeDetected,
        Self::SessionProfileSaveFailed,
        Self::TestPing,
    ];

    /// Those that an endpoint can be told of.
    pub const SUBSCRIBABLE: [Self; 8] = [
        Self::SessionCompleted,
        Self::SessionFailed,
        Self::ApiKeyRevoked,
        Self::SessionEgressCapabilityChanged,
        Self::CryptoOrderPaid,
        Self::CryptoOrderFailed,
        Self::SessionChallengeDetected,
        Self::SessionProfileSaveFailed,
    ];

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionCompleted => "session.completed",
            Self::SessionFailed => "session.failed",
            Self::ApiKeyRevoked => "api_key.revoked",
            Self::SessionEgressCapabilityChanged => "session.egress_capability_changed",
            Self::CryptoOrderPaid => "crypto.order.paid",
            Self::CryptoOrderFailed => "crypto.order.failed",
            Self::SessionChallengeDetected => "session.challenge_detected",
            Self::SessionProfileSaveFailed => "session.profile_save_failed",
            Self::TestPing => "test.ping",
        }
    }
}

/// Writes an event of `account`, and with it its deliveries. Answers its id.
///
/// # Errors
/// When the database fails.
pub async fn record(conn: &mut PgConnection, account: AccountId, event: EventType, data: Value) -> sqlx::Result<Uuid> {
    let id = Uuid::now_v7();
    sqlx::query!(
        "insert into events (id, account_id, type, data) values ($1, $2, $3, $4)",
        id,
        account as _,
        event.name(),
        data,
    )
    .execute(conn)
    .await?;
    Ok(id)
}

/// Deletes events that are older than `age` and that no delivery refers to (contract: retention 4), up to `limit`. Answers how
/// many.
///
/// # Errors
/// When the database fails.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from events where id in (
             select id from events e
             where id < uuid_v7_of(now() - make_interval(secs => $1))
               and not exists (select from webhook_deliveries d where d.event_id = e.id)
             order by id limit $2)",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
