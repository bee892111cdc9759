//! Running an operation: claims the session, notifies its worker and waits for the outcome.

use std::time::Duration;

use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use axum::response::{AppendHeaders, IntoResponse, Response};
use kitfleet_domain::answer_budget::Reservation;
use kitfleet_domain::blocking::run_blocking;
use kitfleet_domain::sessions::intents::IntentEnding;
use kitfleet_domain::sessions::{self, SessionStatus};
use kitfleet_jobs::dispatch::{DispatchError, DispatchOutcome, Dispatcher};
use kitfleet_types::ids::{IntentId, PageId, SessionId};
use kitfleet_types::operations::{OpenDialog, Operation, Outcome, Refusal};
use kitfleet_types::validation::Invalid;

use super::challenges::paused;
use super::problems::{not_ready, worker_silent};
use crate::http::auth::Caller;
use crate::http::body::CountedBody;
use crate::http::error::{Problem, Result};
use crate::http::kinds;
use crate::http::path::not_found;
use crate::http::state::App;

/// The response reports the browser's share of the time in `Server-Timing`.
pub struct Done {
    /// JSON.
    body: Vec<u8>,
    browser_time: Option<Duration>,
    reservation: Reservation,
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        let timing = self.browser_time.map(|time| {
            [(HeaderName::from_static("server-timing"), format!("browser;dur={:.3}", time.as_secs_f64() * 1e3))]
        });
        let timing = AppendHeaders(timing.into_iter().flatten());
        ([(CONTENT_TYPE, "application/json")], timing, CountedBody::of(self.body, self.reservation)).into_response()
    }
}

pub async fn run(app: &App, caller: &Caller, session: SessionId, operation: Operation) -> Result<Done> {
    let answers = Some((&app.answers, caller.account_id));
    let driving = Dispatcher { db: &app.db, wakeups: &app.wakeups, replies: &app.replies, answers };
    let whose = (caller.account_id, session);
    let actor = caller.operation_actor();
    match driving.run(whose, IntentId::generate(), operation, (&actor, &caller.request_id)).await? {
        DispatchOutcome::Ended(ending, reservation) => match *ending {
            IntentEnding { outcome: Outcome::Done, result: Some(result), browser_time, .. } => {
                let body = run_blocking(result.content_bytes(), || result.into_body());
                let body = body.map_err(|error| Problem::internal(&error))?;
                Ok(Done { body, browser_time, reservation })
            }
            other => Err(refusal(other.outcome)),
        },
        DispatchOutcome::Crowded(not_yet) => Err(not_yet.into()),
        DispatchOutcome::NotReady(status) => Err(not_ready(status)),
        DispatchOutcome::Paused(challenge) => Err(paused(challenge)),
        DispatchOutcome::DialogOpen(dialog) => Err(dialog_open(Some(dialog))),
        DispatchOutcome::WorkerGone(failure) | DispatchOutcome::Unheard(failure) => Err(failure.into()),
        DispatchOutcome::WorkerSilent => Err(worker_silent()),
        DispatchOutcome::NoSession => Err(not_found::<SessionId>()),
    }
}

impl From<DispatchError> for Problem {
    fn from(error: DispatchError) -> Self {
        match error {
            DispatchError::Database(error) => error.into(),
            DispatchError::Seal(error) => Self::internal(&error),
        }
    }
}

/// Before any work is done for the operation. The claim checks again later.
pub async fn require_ready(app: &App, caller: &Caller, session: SessionId) -> Result<()> {
    let found = sessions::find(&mut *app.db.acquire().await?, caller.account_id, session).await?;
    let found = found.ok_or_else(not_found::<SessionId>)?;
    match (found.status, found.challenge, found.dialog) {
        (SessionStatus::Ready, None, None) => Ok(()),
        (SessionStatus::Ready, Some(challenge), _) => Err(paused(challenge.0)),
        (SessionStatus::Ready, None, Some(dialog)) => Err(dialog_open(Some(dialog.0))),
        (other, ..) => Err(not_ready(other)),
    }
}

/// Contract: operations 47. The page does not answer the operation.
fn dialog_open(dialog: Option<OpenDialog>) -> Problem {
    let detail = match &dialog {
        Some(dialog) => format!(
            "the page shows a dialog ({}) that waits for an answer; answer it with the action `dialog`",
            dialog.kind.name(),
        ),
        None => "the page showed a dialog".to_owned(),
    };
    Problem::new(&kinds::CONFLICT, detail).with("dialog", dialog)
}

fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::DialogOpen { dialog } => dialog_open(dialog),
        Refusal::NoPage => not_found::<PageId>(),
        Refusal::NoDialog | Refusal::SubmissionsHeld | Refusal::LastPage | Refusal::TooManyPages => {
            Problem::new(&kinds::CONFLICT, refusal.to_string())
        }
    }
}

pub fn refusal(outcome: Outcome) -> Problem {
    match outcome {
        Outcome::Invalid { refusal: Some(refusal), .. } => refused(refusal),
        Outcome::Invalid { errors, members, refusal: None } => Problem::from(Invalid(errors)).with_members(members),
        Outcome::Withheld { detail, members } => Problem::withheld(detail, members),
        Outcome::Failed { mut failure } => {
            failure.detail =
                format!("{}; the session is errored: create a new one", failure.detail.trim_end_matches('.'));
            failure.into()
        }
        Outcome::Destroyed => {
            Problem::new(&kinds::SESSION_DESTROYED, "the session was destroyed while the operation ran")
        }
        Outcome::Unknown => {
            let detail = "the outcome of the operation is unknown, because the worker that ran it died; the session \
                          stays busy until it is destroyed";
            Problem::new(&kinds::DRIVER_ERROR, detail)
        }
        Outcome::Done => Problem::internal(&"an operation that succeeded has no result"),
    }
}
