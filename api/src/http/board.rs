//! How everything is, for however many ask (contract: status 1, 6).
//!
//! A process looks once in a few seconds, and only when somebody asks, by a connection of its own: neither do many who look cost the
//! database more than one, nor does a pool that is used up make it seem to be away. Who asks waits no longer than a look may take,
//! and is told then that the database does not answer, with what was known before.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use kitfleet_domain::seldom::Seldom;
use kitfleet_domain::status::components::{self, Component, Measured, REPORTS_EVERY, State as Condition};
use kitfleet_domain::status::{self, Look};
use sqlx::{ConnectOptions as _, PgConnection, PgPool};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// For how long a look is good.
const GOOD_FOR: Duration = Duration::from_secs(3);
/// How long whoever asks waits for one.
const PATIENCE: Duration = Duration::from_millis(700);
/// When a look is given up that nobody waits for any more.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// What this process knows of how everything is.
#[derive(Default)]
pub struct Board {
    seen: Mutex<Option<(Instant, Seen)>>,
    /// Whose turn it is to look.
    turn: tokio::sync::Mutex<()>,
    /// What a look asks by. One that still waits for the database holds it.
    conn: Arc<tokio::sync::Mutex<Option<PgConnection>>>,
    /// Requests since the last report.
    answered: AtomicI64,
    /// Those of them that ended with a 500.
    failed: AtomicI64,
}

/// How everything is, as far as it is known.
#[derive(Clone, Default)]
pub struct Seen {
    /// Whether the database answers.
    pub answers: bool,
    /// The last time that it did.
    pub look: Option<Arc<Look>>,
}

impl Seen {
    /// Each component. While the database does not answer nothing can be said of what else depends on it, except of the process
    /// that says so.
    pub fn components(&self) -> Vec<Measured> {
        match &self.look {
            Some(look) if self.answers => look.components.clone(),
            _ => Component::ALL
                .iter()
                .map(|component| Measured { component: *component, state: without(*component) })
                .collect(),
        }
    }

    /// The worst of them.
    pub fn worst(&self) -> Condition {
        let states = self.components().into_iter().filter_map(|measured| measured.state);
        states.max().unwrap_or(Condition::Operational)
    }
}

/// How a component is while the database does not answer.
fn without(component: Component) -> Option<Condition> {
    match component {
        Component::Database => Some(Condition::MajorOutage),
        Component::Api => Some(Condition::PartialOutage),
        Component::Workers | Component::Webhooks | Component::Mail => None,
    }
}

impl Board {
    /// How everything is.
    pub async fn see(&self, db: &PgPool) -> Seen {
        if let Some(seen) = self.fresh() {
            return seen;
        }
        let _turn = self.turn.lock().await;
        if let Some(seen) = self.fresh() {
            return seen;
        }
        let look = self.look(db).await;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.take().and_then(|(_, seen)| seen.look);
        let now = Seen { answers: look.is_some(), look: look.map(Arc::new).or(before) };
        *seen = Some((Instant::now(), now.clone()));
        now
    }

    fn fresh(&self) -> Option<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().filter(|(at, _)| at.elapsed() < GOOD_FOR).map(|(_, seen)| seen.clone())
    }

    async fn look(&self, db: &PgPool) -> Option<Look> {
        let mut conn = Arc::clone(&self.conn).try_lock_owned().ok()?;
        let db = db.clone();
        // In a task, so that the time limit leaves the connection's use to end by itself.
        let look = tokio::spawn(async move {
            let look = timeout(GIVEN_UP, look(&db, conn.take())).await.ok()?.ok()?;
            *conn = Some(look.0);
            Some(look.1)
        });
        timeout(PATIENCE, look).await.ok()?.ok()?
    }

    /// Tells the database how this process does, for ever.
    pub async fn report(&self, db: &PgPool) {
        let (process, failing) = (Uuid::now_v7(), Seldom::new());
        loop {
            let (answered, failed) = (self.answered.swap(0, Ordering::Relaxed), self.failed.swap(0, Ordering::Relaxed));
            let reported = async { components::report(&mut *db.acquire().await?, process, answered, failed).await };
            if let Err(error) = reported.await {
                failing.say(|held_back| tracing::warn!(%error, held_back, "cannot report this process's status"));
            }
            sleep(REPORTS_EVERY).await;
        }
    }
}

async fn look(db: &PgPool, conn: Option<PgConnection>) -> sqlx::Result<(PgConnection, Look)> {
    let mut conn = match conn {
        Some(conn) => conn,
        None => db.connect_options().connect().await?,
    };
    let look = status::look(&mut conn).await?;
    Ok((conn, look))
}

/// Counts a request, and whether the service failed.
pub async fn count(State(board): State<Arc<Board>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    board.answered.fetch_add(1, Ordering::Relaxed);
    if response.status() == StatusCode::INTERNAL_SERVER_ERROR {
        board.failed.fetch_add(1, Ordering::Relaxed);
    }
    response
}
