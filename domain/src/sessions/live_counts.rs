//! Number of live sessions, for operators (contract: operators 5).

use sqlx::PgConnection;

use super::SessionStatus;

pub const LIVE: [SessionStatus; 3] = [SessionStatus::Creating, SessionStatus::Ready, SessionStatus::Busy];

/// Returns the number of live sessions by status. The query reads only live sessions.
pub async fn live_by_status(conn: &mut PgConnection) -> sqlx::Result<[(SessionStatus, i64); 3]> {
    let counted = sqlx::query!(
        r#"select status as "status: SessionStatus", count(*) as "sessions!" from sessions where live group by status"#
    )
    .fetch_all(conn)
    .await?;
    Ok(LIVE.map(|status| (status, counted.iter().find(|row| row.status == status).map_or(0, |row| row.sessions))))
}
