//! Who viewers are. Nobody hands out tickets yet, so that nobody is let in.

use kitfleet_domain::ids::{SessionId, WorkerId};
use kitfleet_live::messages::Role;
use sqlx::PgConnection;
use uuid::Uuid;

/// A viewer who was let in.
pub struct Admission {
    /// By which ticket.
    pub id: Uuid,
    /// As what.
    pub role: Role,
    /// What their client calls itself, if it does.
    pub client_id: Option<String>,
}

/// Uses a ticket up. `None` when it is none that is good for this session.
///
/// # Errors
/// When the database fails.
#[expect(clippy::unused_async, reason = "tickets will be rows")]
pub async fn use_up(_: &mut PgConnection, _: SessionId, _: &str, _: WorkerId) -> sqlx::Result<Option<Admission>> {
    Ok(None)
}

/// Those of these admissions that do not hold any more.
///
/// # Errors
/// When the database fails.
#[expect(clippy::unused_async, reason = "tickets will be rows")]
pub async fn withdrawn(_: &mut PgConnection, _: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    Ok(Vec::new())
}
