//! `kitfleet sessions` (contract: command-line 18, 19).

use anyhow::{Context as _, Result};
use kitfleet_domain::sessions::inspection::{self, SessionDetail, SessionFilter};
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;

use super::refusal;
use crate::cli::{SessionList, Sessions};
use crate::config::Config;

/// Has the same fields as the answer to staff.
#[derive(Serialize)]
struct ShownSession {
    #[serde(flatten)]
    session: SessionDetail,
    may_read_recording: bool,
}

pub async fn run(config: &Config, conn: &mut PgConnection, order: Sessions) -> Result<()> {
    match order {
        Sessions::List(SessionList { all, status, account, worker, profile, limit, format }) => {
            let filter = SessionFilter { all, status, account, worker, profile, before: None, limit };
            let columns = [
                "id",
                "account_id",
                "status",
                "operation",
                "label",
                "worker_name",
                "profile_id",
                "agent_session_id",
                "created_at",
                "updated_at",
            ];
            format.table(&inspection::list(conn, &filter).await?, &columns)
        }
        Sessions::Show { session, format } => {
            let found = inspection::find(conn, session).await?;
            let session = found.with_context(|| format!("there is no session {session}"))?;
            format.describe_deep(&ShownSession { session, may_read_recording: config.staff.may_watch })
        }
        Sessions::Trace { .. } => unreachable!("needs a pool, and is run by the caller"),
        Sessions::Destroy { session, format } => {
            let ended = kitfleet_jobs::sessions::destroy(conn, session).await;
            let account = ended.map_err(|refused| refusal(refused, &format!("session {session}")))?;
            format.print(&json!({"id": session, "account_id": account, "status": "destroyed"}), |_| {
                format!("{session} of {account} is destroyed")
            })
        }
    }
}
