//! Running a script in the page.

use axum::extract::State;
use kitfleet_types::ids::SessionId;
use kitfleet_types::operations::{Evaluate, Evaluated, OnTimeout, Operation};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::on_timeout;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::Unchecked;
use crate::http::openapi::{Body, Driving, NoSession, Restricted};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(evaluate))
}

/// Run a script in the page
///
/// Runs the body of an async function among the page's own scripts and returns its value. An exception of the script is a result
/// too, and the session stays ready. The script, its arguments and its value are in no log.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/evaluate", tag = "Sessions", operation_id = "evaluateInSession",
    params(IdPath<SessionId>), request_body = EvaluateBody,
    responses((status = 200, description = "The outcome of the script", body = Evaluated), Restricted, Body, NoSession, Driving),
)]
async fn evaluate(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<EvaluateBody>,
) -> Result<Done> {
    let operation = body.check(|EvaluateBody { script, args, timeout_ms, on_timeout }| {
        let (args, on_timeout) = (args.unwrap_or_default(), on_timeout.unwrap_or_default());
        Evaluate::parse(script, &args, timeout_ms, on_timeout, &app.config.limits)
    })?;
    dispatch::run(&app, &caller, path.id()?, Operation::Evaluate(operation)).await
}

/// Body of `evaluate`
#[derive(Deserialize, ToSchema)]
#[schema(as = Evaluate, example = json!({
    "script": "return document.querySelectorAll(args[0]).length", "args": ["li"], "timeout_ms": 5000,
}))]
pub struct EvaluateBody {
    /// Body of an async function, which can `return` a value and `await` promises
    #[schema(min_length = 1, max_length = 65_536)]
    script: String,
    /// Arguments, which the script gets as `args`; at most 64 KiB as JSON. By default there are none
    args: Option<Vec<Value>>,
    /// Timeout in milliseconds
    #[schema(minimum = 100, maximum = 120_000, default = 30_000)]
    timeout_ms: Option<u64>,
    /// On a timeout, `fail` errors the session; `return` returns `timed_out: true` and keeps the session, if the page still answers
    #[schema(schema_with = on_timeout)]
    on_timeout: Option<OnTimeout>,
}
