//! Events for webhooks (contract: events): an outbox, written in the transaction of what happened.

use std::time::Duration;

use serde_json::Value;
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use crate::area::{Area, Bound, Purge};
use crate::ids::AccountId;

pub(crate) const AREA: Area = Area {
    purges: &[Purge::new("deliveries", "events", |conn, terms, limit| Box::pin(purge(conn, terms.webhooks, limit)))],
    bounds: &[("events", Bound::Term("`retention.webhook_bodies` (30 days) after its last delivery ended"))],
    ..Area::named("events")
};

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray, strum::VariantNames)]
pub enum EventType {
    /// A live session was destroyed.
    #[strum(serialize = "session.completed")]
    SessionCompleted,
    /// A session errored.
    #[strum(serialize = "session.failed")]
    SessionFailed,
    /// An API key was revoked.
    #[strum(serialize = "api_key.revoked")]
    ApiKeyRevoked,
    /// A session's proxy reported what it can do.
    #[strum(serialize = "session.egress_capability_changed")]
    SessionEgressCapabilityChanged,
    /// A crypto order was paid.
    #[strum(serialize = "crypto.order.paid")]
    CryptoOrderPaid,
    /// A crypto order came to nothing.
    #[strum(serialize = "crypto.order.failed")]
    CryptoOrderFailed,
    /// A page asked whether a session is a person.
    #[strum(serialize = "session.challenge_detected")]
    SessionChallengeDetected,
    /// What a session leaves did not replace its profile.
    #[strum(serialize = "session.profile_save_failed")]
    SessionProfileSaveFailed,
    /// Somebody asked for it. Nobody can subscribe to it.
    #[strum(serialize = "test.ping")]
    TestPing,
}

impl EventType {
    /// Every one.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// Those that an endpoint can be told of.
    pub const SUBSCRIBABLE: &'static [Self] = match Self::ALL {
        [subscribable @ .., Self::TestPing] => subscribable,
        _ => panic!("the ping comes last"),
    };

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// How the contract spells those that an endpoint can be told of.
    #[must_use]
    pub fn subscribable_names() -> Vec<&'static str> {
        Self::SUBSCRIBABLE.iter().map(|event| event.name()).collect()
    }
}

/// Writes an event of `account`, and with it its deliveries. Answers its id.
///
/// # Errors
/// When the database fails.
pub async fn record(conn: &mut PgConnection, account: AccountId, event: EventType, data: Value) -> sqlx::Result<Uuid> {
    let id = Uuid::now_v7();
    sqlx::query_scalar!("select write_event($1, $2, $3, $4)", id, account as _, event.name(), data)
        .fetch_one(conn)
        .await?;
    Ok(id)
}

/// Deletes events that are older than `age` and that no delivery refers to (contract: retention 4), up to `limit`. Answers how
/// many.
///
/// # Errors
/// When the database fails.
async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from events where id = any(array(
             select id from events e
             where id < uuid_v7_of(now() - make_interval(secs => $1))
               and not exists (select from webhook_deliveries d where d.event_id = e.id)
             order by id limit $2 for update of e skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
