//! Reading the state of a session.

use axum::extract::State;
use kitfleet_types::ids::SessionId;
use kitfleet_types::operations::{Operation, SessionState, StateCapture};
use utoipa_axum::routes;

use super::READ_STATE;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::openapi::{Driving, NoSession, Restricted};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new().allow(READ_STATE, routes!(state))
}

/// Read the session's state
///
/// Reads the state from the live browser, which claims the session like any other operation.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/state", tag = "Sessions", operation_id = "getSessionState",
    params(IdPath<SessionId>),
    responses((status = 200, description = "The state", body = SessionState), Restricted, NoSession, Driving),
)]
async fn state(caller: Caller, State(app): State<App>, path: IdPath<SessionId>) -> Result<Done> {
    dispatch::run(&app, &caller, path.id()?, Operation::StateCapture(StateCapture {})).await
}
