//! Failures of sessions: the event and the mail about one, and the end of an idle session.

use kitfleet_types::ids::{AccountId, SessionId, WorkerId};
use kitfleet_types::operations::{Failure, FailureClass};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::{EndReason, SessionError};
use crate::emails::{self, Template};
use crate::events::{self, EventType};

pub(super) struct SessionInfo {
    pub(super) session: SessionId,
    pub(super) account: AccountId,
    pub(super) duration_ms: i64,
}

#[must_use]
pub fn worker_gone() -> Failure {
    Failure { class: FailureClass::Driver, detail: "the worker that owned the session's browser is gone".to_owned() }
}

/// The browser died on `worker`, alone or with the worker, and `operation` found it dead. `false` if an operation or a
/// destroy changed the session first; that one then reports the failure.
pub async fn fail_idle(
    conn: &mut PgConnection,
    worker: WorkerId,
    session: SessionId,
    operation: &str,
    failure: &Failure,
    reason: EndReason,
) -> sqlx::Result<bool> {
    let idle = sqlx::query!(
        r#"update sessions set status = 'errored', dialog = null, updated_at = now(), end_reason = $3::text, error = $4
           where id = $1 and worker_id = $2 and status = 'ready'
           returning account_id, (extract(epoch from clock_timestamp() - created_at) * 1000)::bigint as "duration_ms!""#,
        session as _,
        worker as _,
        reason.name(),
        json!(SessionError::of(failure)),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(idle) = idle else { return Ok(false) };
    let of = SessionInfo { session, account: idle.account_id, duration_ms: idle.duration_ms };
    record_failure(conn, &of, operation, failure).await?;
    Ok(true)
}

pub(super) async fn record_failure(
    conn: &mut PgConnection,
    of: &SessionInfo,
    operation: &str,
    failure: &Failure,
) -> sqlx::Result<()> {
    let data: Value = json!({
        "session_id": of.session,
        "duration_ms": of.duration_ms,
        "operation": operation,
        "error_name": failure.class.name(),
        "error_message": failure.class.message(),
    });
    events::record(&mut *conn, of.account, EventType::SessionFailed, data).await?;
    sqlx::query_scalar!(
        "select write_mail_once($1, $2, $3, $4)",
        Template::SessionFailedFirst.name(),
        of.account as _,
        json!({"session_id": of.session}),
        emails::NOTICE_GOOD_FOR.as_secs_f64(),
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}
