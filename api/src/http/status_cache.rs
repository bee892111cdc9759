//! Cached service status, for any number of readers (contract: status 1, 6).
//!
//! A process queries the status at most once in a few seconds, only on demand, and on a separate connection, so that an
//! exhausted pool does not look like a database outage. A reader waits at most [`PATIENCE`], and then gets the last known
//! status.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use kitfleet_domain::status::components::{self, Component, Measured, REPORTS_EVERY, State as Condition};
use kitfleet_domain::status::{self, StatusPage};
use kitfleet_types::log_throttle::LogThrottle;
use sqlx::{ConnectOptions as _, PgConnection, PgPool};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

const GOOD_FOR: Duration = Duration::from_secs(3);
/// Maximum time a reader waits for a query.
const PATIENCE: Duration = Duration::from_millis(700);
/// Timeout of a query, after its reader has stopped waiting.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct StatusCache {
    seen: Mutex<Option<(Instant, CachedStatus)>>,
    /// Lock of the reader that queries.
    turn: tokio::sync::Mutex<()>,
    /// A query that still waits for the database holds it.
    conn: Arc<tokio::sync::Mutex<Option<PgConnection>>>,
    /// Requests since the last report.
    answered: AtomicI64,
    /// Ended with a 500, since the last report.
    failed: AtomicI64,
}

#[derive(Clone, Default)]
pub struct CachedStatus {
    /// The database responds.
    pub answers: bool,
    /// The last successful query.
    pub page: Option<Arc<StatusPage>>,
}

impl CachedStatus {
    /// While the database does not respond, the states of components that depend on it are unknown, except for this API
    /// process.
    pub fn components(&self) -> Vec<Measured> {
        match &self.page {
            Some(page) if self.answers => page.components.clone(),
            _ => Component::ALL
                .iter()
                .map(|component| Measured { component: *component, state: without(*component) })
                .collect(),
        }
    }

    pub fn worst(&self) -> Condition {
        let states = self.components().into_iter().filter_map(|measured| measured.state);
        states.max().unwrap_or(Condition::Operational)
    }
}

fn without(component: Component) -> Option<Condition> {
    match component {
        Component::Database => Some(Condition::MajorOutage),
        Component::Api => Some(Condition::PartialOutage),
        Component::Workers | Component::Webhooks | Component::Mail => None,
    }
}

impl StatusCache {
    pub async fn get(&self, db: &PgPool) -> CachedStatus {
        if let Some(seen) = self.fresh() {
            return seen;
        }
        let _turn = self.turn.lock().await;
        if let Some(seen) = self.fresh() {
            return seen;
        }
        let page = self.query(db).await;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.take().and_then(|(_, seen)| seen.page);
        let now = CachedStatus { answers: page.is_some(), page: page.map(Arc::new).or(before) };
        *seen = Some((Instant::now(), now.clone()));
        now
    }

    fn fresh(&self) -> Option<CachedStatus> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().filter(|(at, _)| at.elapsed() < GOOD_FOR).map(|(_, seen)| seen.clone())
    }

    async fn query(&self, db: &PgPool) -> Option<StatusPage> {
        let mut conn = Arc::clone(&self.conn).try_lock_owned().ok()?;
        let db = db.clone();
        // The task continues after the timeout, so that its use of the connection is not interrupted.
        let page = tokio::spawn(async move {
            let page = timeout(QUERY_TIMEOUT, query(&db, conn.take())).await.ok()?.ok()?;
            *conn = Some(page.0);
            Some(page.1)
        });
        timeout(PATIENCE, page).await.ok()?.ok()?
    }

    /// To the database, periodically. Never returns.
    pub async fn report(&self, db: &PgPool) {
        let (process, failing) = (Uuid::now_v7(), LogThrottle::new());
        loop {
            let (answered, failed) = (self.answered.swap(0, Ordering::Relaxed), self.failed.swap(0, Ordering::Relaxed));
            let reported = async { components::report(&mut *db.acquire().await?, process, answered, failed).await };
            if let Err(error) = reported.await {
                failing.log(|held_back| tracing::warn!(%error, held_back, "cannot report this process's status"));
            }
            sleep(REPORTS_EVERY).await;
        }
    }
}

async fn query(db: &PgPool, conn: Option<PgConnection>) -> sqlx::Result<(PgConnection, StatusPage)> {
    let mut conn = match conn {
        Some(conn) => conn,
        None => db.connect_options().connect().await?,
    };
    let page = status::load(&mut conn).await?;
    Ok((conn, page))
}

/// Also counts those that failed with a 500.
pub async fn count(State(status_cache): State<Arc<StatusCache>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    status_cache.answered.fetch_add(1, Ordering::Relaxed);
    if response.status() == StatusCode::INTERNAL_SERVER_ERROR {
        status_cache.failed.fetch_add(1, Ordering::Relaxed);
    }
    response
}
