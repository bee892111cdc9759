//! Events for webhooks (contract: events): an outbox that is written in the transaction of the event.

use std::time::Duration;

use kitfleet_types::ids::AccountId;
use serde_json::Value;
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use crate::area::{Area, Bound, Purge};

pub(crate) const AREA: Area = Area {
    purges: &[Purge::new("deliveries", "events", |conn, terms, limit| Box::pin(purge(conn, terms.webhooks, limit)))],
    bounds: &[("events", Bound::Term("`retention.webhook_bodies` (30 days) after its last delivery ended"))],
    ..Area::named("events")
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray, strum::VariantNames)]
pub enum EventType {
    #[strum(serialize = "session.completed")]
    SessionCompleted,
    #[strum(serialize = "session.failed")]
    SessionFailed,
    #[strum(serialize = "api_key.revoked")]
    ApiKeyRevoked,
    #[strum(serialize = "session.egress_capability_changed")]
    SessionEgressCapabilityChanged,
    #[strum(serialize = "crypto.order.paid")]
    CryptoOrderPaid,
    #[strum(serialize = "crypto.order.failed")]
    CryptoOrderFailed,
    #[strum(serialize = "session.challenge_detected")]
    SessionChallengeDetected,
    #[strum(serialize = "session.profile_save_failed")]
    SessionProfileSaveFailed,
    /// Endpoints cannot subscribe to it.
    #[strum(serialize = "test.ping")]
    TestPing,
}

impl EventType {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    pub const SUBSCRIBABLE: &'static [Self] = match Self::ALL {
        [subscribable @ .., Self::TestPing] => subscribable,
        _ => panic!("the ping comes last"),
    };

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn subscribable_names() -> Vec<&'static str> {
        Self::SUBSCRIBABLE.iter().map(|event| event.name()).collect()
    }
}

/// Also writes the deliveries.
pub async fn record(conn: &mut PgConnection, account: AccountId, event: EventType, data: Value) -> sqlx::Result<Uuid> {
    let id = Uuid::now_v7();
    sqlx::query_scalar!("select write_event($1, $2, $3, $4)", id, account as _, event.name(), data)
        .fetch_one(conn)
        .await?;
    Ok(id)
}

/// Deletes up to `limit` events that are older than `age` and that no delivery refers to (contract: retention 4).
/// Returns the number of deleted events.
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
