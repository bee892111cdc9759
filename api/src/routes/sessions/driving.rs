//! The trip of an operation: claim the session, tell its worker, wait for the outcome.

use std::time::Duration;

use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use axum::response::{AppendHeaders, IntoResponse, Response};
use kitfleet_domain::ids::{IntentId, SessionId};
use kitfleet_domain::operations::{Failure, FailureClass, Operation, Outcome};
use kitfleet_domain::sealing;
use kitfleet_domain::sessions::intents::{self, Claim, Ending};
use kitfleet_domain::sessions::{self, SessionStatus};
use kitfleet_domain::validation::Invalid;
use kitfleet_jobs::operations::wake;
use sqlx::PgConnection;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::path::not_found;
use crate::http::state::App;

/// An operation that was done. As an answer it says in `Server-Timing` which part of the time was the browser's.
pub struct Done {
    /// JSON.
    body: Vec<u8>,
    browser_time: Option<Duration>,
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        let timing = self.browser_time.map(|time| {
            [(HeaderName::from_static("server-timing"), format!("browser;dur={:.3}", time.as_secs_f64() * 1e3))]
        });
        let timing = AppendHeaders(timing.into_iter().flatten());
        ([(CONTENT_TYPE, "application/json")], timing, self.body).into_response()
    }
}

/// Has `operation` done on the caller's session.
pub async fn run(app: &App, caller: &Caller, session: SessionId, mut operation: Operation) -> Result<Done> {
    let budget = operation.budget();
    let mut conn = app.db.acquire().await?;
    let sealed = seal(&mut conn, caller, session, &mut operation).await?;
    let intent = IntentId::generate();
    let mut waiter = app.replies.expect(intent);
    let (whose, reply_to) = ((caller.account_id, session), app.replies.address(&caller.request_id));
    match intents::claim(&mut conn, whose, intent, &operation, sealed.as_deref(), reply_to).await? {
        Claim::Won { worker } => wake(&app.wakeups, worker),
        Claim::Lost(status) => return Err(not_ready(status)),
        Claim::WorkerGone(failure) => return Err(failure.into()),
        Claim::WorkerSilent => return Err(worker_silent()),
        Claim::NoSession => return Err(not_found::<SessionId>()),
    }
    drop(conn);

    match waiter.outcome(budget).await? {
        Some(Ending { outcome: Outcome::Done, result: Some(result), browser_time }) => {
            let body = result.into_body().map_err(|error| Problem::internal(&error))?;
            Ok(Done { body, browser_time })
        }
        Some(other) => Err(refusal(other.outcome)),
        None => Err(give_up(app, intent).await?.into()),
    }
}

/// Refuses what would be refused of a session that is not the caller's, or not ready, before anything is made of the
/// operation. Whether it still is ready the claim finds out.
pub async fn require_ready(app: &App, caller: &Caller, session: SessionId) -> Result<()> {
    let found = sessions::find(&mut *app.db.acquire().await?, caller.account_id, session).await?;
    match found.ok_or_else(not_found::<SessionId>)?.status {
        SessionStatus::Ready => Ok(()),
        other => Err(not_ready(other)),
    }
}

/// Ends an operation of which nothing was heard. When no worker has begun it, nothing was done, and none may begin it
/// now; otherwise its outcome is not known.
async fn give_up(app: &App, intent: IntentId) -> Result<Failure> {
    let failure = Failure { class: FailureClass::Timeout, detail: "the operation did not begin in time".to_owned() };
    let mut tx = app.db.begin().await?;
    let ended = intents::give_up(&mut tx, intent, failure.clone()).await?;
    tx.commit().await?;
    if ended {
        return Ok(failure);
    }
    let detail = "nothing was heard of the operation in time; the session stays busy until it ends or is destroyed";
    Ok(Failure { class: FailureClass::Timeout, detail: detail.to_owned() })
}

/// While it is not known whether a worker lives, nothing is changed, and may be asked for again.
pub fn worker_silent() -> Problem {
    Problem::unavailable_for_now("the worker has not been heard of for a while, as after an outage of the database")
}

/// Takes what must not be stored in clear out of the operation, in a form that only the session's worker can read. Nobody can
/// when the worker is forgotten: its session has ended, and takes no operation.
async fn seal(
    conn: &mut PgConnection,
    caller: &Caller,
    session: SessionId,
    operation: &mut Operation,
) -> Result<Option<Vec<u8>>> {
    let Some(secrets) = operation.take_secrets() else { return Ok(None) };
    let key = intents::sealing_key(conn, caller.account_id, session).await?.ok_or_else(not_found::<SessionId>)?;
    let sealed = key.map(|key| sealing::seal(&secrets, &key).map_err(|error| Problem::internal(&error)));
    sealed.transpose()
}

fn not_ready(status: SessionStatus) -> Problem {
    match status {
        SessionStatus::Creating => Problem::new(&kinds::CONFLICT, "the session is still creating"),
        // Ready by now, but when it was asked another operation had it.
        SessionStatus::Busy | SessionStatus::Ready => {
            Problem::new(&kinds::CONFLICT, "the session is busy with another operation")
        }
        SessionStatus::Destroyed => Problem::new(&kinds::SESSION_DESTROYED, "the session is destroyed"),
        SessionStatus::Errored => Problem::new(&kinds::SESSION_DESTROYED, "the session is errored; create a new one"),
    }
}

/// The problem that an outcome other than success is.
pub fn refusal(outcome: Outcome) -> Problem {
    match outcome {
        Outcome::Invalid { errors, members } => Problem::from(Invalid(errors)).with_members(members),
        Outcome::Withheld { detail, members } => Problem::withheld(detail, members),
        Outcome::Failed { failure } => failure.into(),
        Outcome::Destroyed => {
            Problem::new(&kinds::SESSION_DESTROYED, "the session was destroyed while the operation ran")
        }
        Outcome::Unknown => {
            let detail = "the outcome of the operation is unknown, because the worker that ran it died; the session \
                          stays busy until it is destroyed";
            Problem::new(&kinds::DRIVER_ERROR, detail)
        }
        Outcome::Done => Problem::internal(&"an operation that was done came to nothing"),
    }
}
