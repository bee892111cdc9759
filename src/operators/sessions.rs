//! `kitfleet sessions` (contract: command-line 18, 19).

use anyhow::{Context as _, Result};
use kitfleet_domain::sessions::inspection::{self, SessionFilter};
use serde_json::json;
use sqlx::PgConnection;

use super::refusal;
use crate::cli::{SessionList, Sessions};

pub async fn run(conn: &mut PgConnection, order: Sessions) -> Result<()> {
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
            format.describe_deep(&found.with_context(|| format!("there is no session {session}"))?)
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
