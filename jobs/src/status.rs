//! The status page: subscribing, what staff tell of incidents, and how subscribers hear of it (contract: status).

use std::time::Duration;

use kitfleet_domain::email_addresses::EmailAddress;
use kitfleet_domain::emails::{NOTICE_GOOD_FOR, Recipient, Template};
use kitfleet_domain::ids::IncidentId;
use kitfleet_domain::staff::{self, Operation, StaffActor, StaffRecord};
use kitfleet_domain::status::incidents::{self, ChangeError, Message, NewIncident, Status};
use kitfleet_domain::status::{notices, subscribers};
use kitfleet_domain::timestamp::Timestamp;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::emails;
use crate::staff::Refused;

impl From<ChangeError> for Refused {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Unknown => Self::Unknown,
            ChangeError::Resolved => Self::Conflict(error.to_string()),
            ChangeError::Database(error) => error.into(),
        }
    }
}

/// Has an address asked whether it wants to be told of incidents. It does the same whether the address is known or not. Answers until
/// when the link in the mail is good.
///
/// # Errors
/// When the database fails.
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

/// Confirms by the token of a link, which is used up, and has the address told so. `false` when the token is worthless.
///
/// # Errors
/// When the database fails.
pub async fn confirm(conn: &mut PgConnection, token: &str) -> sqlx::Result<bool> {
    let mut tx = conn.begin().await?;
    let Some(subscriber) = subscribers::confirm(&mut tx, token).await? else { return Ok(false) };
    let to = Recipient::Subscriber(subscriber);
    emails::send(&mut tx, Template::StatusSubscribed, to, json!({}), NOTICE_GOOD_FOR).await?;
    tx.commit().await?;
    Ok(true)
}

/// Posts an incident.
///
/// # Errors
/// When the database fails.
pub async fn post(conn: &mut PgConnection, incident: NewIncident, by: &StaffActor) -> Result<IncidentId, Refused> {
    let mut tx = conn.begin().await?;
    let id = incidents::post(&mut tx, incident).await?;
    staff::record(&mut tx, by, StaffRecord::to_service(Operation::IncidentPosted, id.to_string())).await?;
    tx.commit().await?;
    Ok(id)
}

/// Says something more of an incident.
///
/// # Errors
/// When there is no such incident, it is resolved, or the database fails.
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

/// Resolves an incident.
///
/// # Errors
/// When there is no such incident, it is resolved, or the database fails.
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

/// Writes the next `limit` mails of incidents that are due, and enqueues them as far as there are not too many already. `false` when
/// there are none.
///
/// # Errors
/// When the database fails.
pub async fn go_on_telling(conn: &mut PgConnection, update_interval: Duration, limit: i64) -> sqlx::Result<bool> {
    let mut tx = conn.begin().await?;
    let more = notices::go_on(&mut tx, update_interval, limit).await?;
    tx.commit().await?;
    if more {
        // On its own, so that whoever unsubscribes does not wait for that, too. A mail whose process dies before is due all the same.
        let mut tx = conn.begin().await?;
        emails::send_due(&mut tx, limit).await?;
        tx.commit().await?;
    }
    Ok(more)
}
