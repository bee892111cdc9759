//! Whether the database answers at all.
//!
//! A database that is down says so, and every statement fails at once. One that stands still says nothing, and a statement
//! waits for ever. So a connection of our own asks it every second; when it has not answered for a while, callers are told
//! instead of waiting for what waits for it.

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

/// How often it is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// How long it may take to answer; also a busy one takes no longer.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a caller waits at least: most answers need no database, or have had it already.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether it was silent when it was asked last.
#[derive(Clone, Default)]
pub struct Pulse(watch::Sender<bool>);

impl Pulse {
    /// Feels it, for ever.
    pub async fn feel(&self, db: &PgPool) {
        let mut conn = None;
        loop {
            let beat = timeout(SILENCE, beat(db, conn.take())).await;
            let silent = beat.is_err();
            if self.0.send_replace(silent) != silent {
                tracing::warn!(silent, "database response state changed");
            }
            // One that is down is not silent: whoever asks it is told so.
            conn = beat.ok().and_then(Result::ok);
            sleep(PERIOD).await;
        }
    }

    /// Ends when the database is silent and a caller has waited for long enough.
    async fn lost(&self) {
        sleep(PATIENCE).await;
        // The sender is ours, and so not gone.
        let _ = self.0.subscribe().wait_for(|silent| *silent).await;
    }
}

/// Answers for a handler that the database keeps waiting. The handler goes on in a task of its own, to its end.
pub async fn answer(State((handlers, pulse)): State<(TaskTracker, Pulse)>, request: Request, next: Next) -> Response {
    let handler = handlers.spawn(next.run(request).in_current_span());
    tokio::select! {
        biased;
        answer = handler => answer.unwrap_or_else(|error| Problem::internal(&error).into_response()),
        () = pulse.lost() => Problem::unavailable_for_now("the database does not answer").into_response(),
    }
}

async fn beat(db: &PgPool, conn: Option<PgConnection>) -> sqlx::Result<PgConnection> {
    let mut conn = match conn {
        Some(conn) => conn,
        None => db.connect_options().connect().await?,
    };
    conn.ping().await?;
    Ok(conn)
}
