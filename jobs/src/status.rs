//! The status page: subscriptions, incidents that staff post, and mails to subscribers (contract: status).

use std::time::Duration;

use kitfleet_domain::email_addresses::EmailAddress;
use kitfleet_domain::emails::{NOTICE_GOOD_FOR, Recipient, Template};
use kitfleet_domain::staff::{self, Operation, StaffActor, StaffRecord};
use kitfleet_domain::status::incidents::{self, ChangeError, Message, NewIncident, Status};
use kitfleet_domain::status::{notices, subscribers};
use kitfleet_types::ids::IncidentId;
use kitfleet_types::timestamp::Timestamp;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::emails;
use crate::refused::Refused;

impl From<ChangeError> for Refused {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Unknown => Self::Unknown,
            ChangeError::Resolved => Self::Conflict(error.to_string()),
            ChangeError::Database(error) => error.into(),
        }
    }
}

/// Does the same for known and unknown addresses. Returns the time the link expires.
pub async fn subscribe(
    conn: &mut PgConnection,
    address: &EmailAddress,
    ttl: Duration,
) -> sqlx::Result<Option<Timestamp>> {
    let mut tx = conn.begin().await?;
    let subscriber = subscribers::subscribe(&mut tx, address, ttl).await?;
    let to = Recipient::Subscriber(subscriber);
    let expires_at = emails::send(&mut tx, Template::StatusConfirm, to, json!({}), ttl).await?;
    tx.commit().await?;
    Ok(expires_at)
}

/// The token works once. Mails a notice to the address. `false` if the token is invalid.
pub async fn confirm(conn: &mut PgConnection, token: &str) -> sqlx::Result<bool> {
    let mut tx = conn.begin().await?;
    let Some(subscriber) = subscribers::confirm(&mut tx, token).await? else { return Ok(false) };
    let to = Recipient::Subscriber(subscriber);
    emails::send(&mut tx, Template::StatusSubscribed, to, json!({}), NOTICE_GOOD_FOR).await?;
    tx.commit().await?;
    Ok(true)
}

pub async fn post(conn: &mut PgConnection, incident: NewIncident, by: &StaffActor) -> Result<IncidentId, Refused> {
    let mut tx = conn.begin().await?;
    let id = incidents::post(&mut tx, incident).await?;
    staff::record(&mut tx, by, StaffRecord::to_service(Operation::IncidentPosted, id.to_string())).await?;
    tx.commit().await?;
    Ok(id)
}

pub async fn update(
    conn: &mut PgConnection,
    id: IncidentId,
    status: Status,
    message: Message,
    by: &StaffActor,
) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    incidents::update(&mut tx, id, status, message).await?;
    staff::record(&mut tx, by, StaffRecord::to_service(Operation::IncidentUpdated, id.to_string())).await?;
    Ok(tx.commit().await?)
}

pub async fn resolve(
    conn: &mut PgConnection,
    id: IncidentId,
    message: Message,
    by: &StaffActor,
) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    incidents::resolve(&mut tx, id, message).await?;
    staff::record(&mut tx, by, StaffRecord::to_service(Operation::IncidentResolved, id.to_string())).await?;
    Ok(tx.commit().await?)
}

/// Writes the next `limit` due mails, and enqueues mails up to the limit of pending jobs. `false` if no mail was due.
pub async fn send_notices(conn: &mut PgConnection, update_interval: Duration, limit: i64) -> sqlx::Result<bool> {
    let mut tx = conn.begin().await?;
    let more = notices::queue_batch(&mut tx, update_interval, limit).await?;
    tx.commit().await?;
    if more {
        // A separate transaction, so that an unsubscribe does not wait for the enqueueing too. If this process dies before it,
        // the mails stay due and are enqueued later.
        let mut tx = conn.begin().await?;
        emails::send_due(&mut tx, limit).await?;
        tx.commit().await?;
    }
    Ok(more)
}
