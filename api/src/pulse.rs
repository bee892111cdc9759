//! Whether the database answers at all.
//!
//! A database that is down says so, and every statement fails at once. One that stands still says nothing, and a statement
//! waits for ever. So a connection of our own asks it every second; when it has not answered for a while, callers need not
//! wait for what waits for it.

use std::time::Duration;

use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How often it is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// How long it may take to answer; also a busy one takes no longer.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a caller waits at least: most answers need no database, or have had it already.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether it was silent when it was asked last.
#[derive(Default)]
pub struct Pulse(watch::Sender<bool>);

impl Pulse {
    /// Feels it, for ever.
    pub async fn feel(&self, db: &PgPool) {
        let mut conn = None;
        loop {
            let beat = timeout(SILENCE, beat(db, conn.take())).await;
            let silent = beat.is_err();
            if self.0.send_replace(silent) != silent {
                tracing::warn!(silent, "the database began or ceased to be silent");
            }
            // One that is down is not silent: whoever asks it is told so.
            conn = beat.ok().and_then(Result::ok);
            sleep(PERIOD).await;
        }
    }

    /// Ends when the database is silent and a caller has waited for long enough.
    pub async fn lost(&self) {
        sleep(PATIENCE).await;
        // The sender is ours, and so not gone.
        let _ = self.0.subscribe().wait_for(|silent| *silent).await;
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
