//! Detection of a database that does not respond. A database that is down fails every statement immediately, but one that hangs
//! blocks statements forever. A separate connection therefore probes it every second, and waiting callers receive an error
//! after a while without an answer.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::http::error::Problem;

const PERIOD: Duration = Duration::from_secs(1);
/// A busy database answers faster.
const SILENCE: Duration = Duration::from_secs(10);
/// Most responses need no database, or have used it already.
const PATIENCE: Duration = Duration::from_secs(5);

/// True when the last probe had no answer.
#[derive(Clone, Default)]
pub struct DatabaseProbe(watch::Sender<bool>);

impl DatabaseProbe {
    /// Never returns.
    pub async fn run_probe(&self, db: &PgPool) {
        let mut conn = None;
        loop {
            let beat = timeout(SILENCE, send_ping(db, conn.take())).await;
            let silent = beat.is_err();
            if self.0.send_replace(silent) != silent {
                if silent {
                    tracing::warn!("database does not respond: requests that wait for it are answered with 503");
                } else {
                    tracing::info!("database responds again");
                }
            }
            // A database that is down fails statements itself.
            conn = beat.ok().and_then(Result::ok);
            sleep(PERIOD).await;
        }
    }

    /// Resolves when the database does not respond and the caller has waited long enough.
    async fn unresponsive(&self) {
        sleep(PATIENCE).await;
        // The sender is never dropped.
        let _ = self.0.subscribe().wait_for(|silent| *silent).await;
    }
}

/// The handler continues in its own task.
pub async fn answer(
    State((handlers, pulse)): State<(TaskTracker, DatabaseProbe)>,
    request: Request,
    next: Next,
) -> Response {
    let handler = handlers.spawn(next.run(request).in_current_span());
    tokio::select! {
        biased;
        answer = handler => answer.unwrap_or_else(|error| Problem::internal(&error).into_response()),
        () = pulse.unresponsive() => Problem::unavailable_for_now("the database does not respond").into_response(),
    }
}

async fn send_ping(db: &PgPool, conn: Option<PgConnection>) -> sqlx::Result<PgConnection> {
    let mut conn = match conn {
        Some(conn) => conn,
        None => db.connect_options().connect().await?,
    };
    conn.ping().await?;
    Ok(conn)
}
