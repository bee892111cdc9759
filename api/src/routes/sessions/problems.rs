//! Problems of requests to a session whose status or worker does not allow them.

use kitfleet_domain::sessions::SessionStatus;

use crate::http::error::Problem;
use crate::http::kinds;

/// Nothing has changed, and the caller can retry.
pub fn worker_silent() -> Problem {
    Problem::unavailable_for_now("the worker has not reported recently, for example after a database outage; try again")
}

pub fn not_ready(status: SessionStatus) -> Problem {
    match status {
        SessionStatus::Creating => Problem::new(&kinds::CONFLICT, "the session is still creating"),
        // The session is ready again, but another operation claimed it first.
        SessionStatus::Busy | SessionStatus::Ready => {
            Problem::new(&kinds::CONFLICT, "the session is busy with another operation, or a person is controlling it")
        }
        SessionStatus::Destroyed => Problem::new(&kinds::SESSION_DESTROYED, "the session is destroyed"),
        SessionStatus::Errored => Problem::new(&kinds::SESSION_DESTROYED, "the session is errored; create a new one"),
    }
}
