//! Waiting for a condition.

use axum::extract::State;
use kitfleet_types::ids::SessionId;
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{Condition, OnTimeout, Operation, ScriptText, Wait, WaitUntil, Waited, parse_timeout};
use kitfleet_types::validation::Invalid;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::routes;

use super::targets::{self, TargetBody, element};
use super::{kind, on_timeout};
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::Unchecked;
use crate::http::openapi::{Body, Driving, NoSession, Restricted, named, one_of, tagged};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(wait))
}

/// Wait for an element, a text, a script, an address, a response, a load, a download, a new page or a period of time
///
/// Returns when the condition is met. A timeout is a 504 and errors the session, unless `on_timeout` is `return`.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/wait", tag = "Sessions", operation_id = "waitInSession",
    params(IdPath<SessionId>), request_body = WaitBody,
    responses((status = 200, description = "The outcome of the wait", body = Waited), Restricted, Body, NoSession, Driving),
)]
async fn wait(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Unchecked<WaitBody>,
) -> Result<Done> {
    let operation = body.check(|body| body.into_operation(&app.config.limits))?;
    let session = path.id()?;
    if let Some((pattern, field)) = operation.condition.pattern() {
        // Compiling the pattern takes time, so require a ready session first.
        dispatch::require_ready(&app, &caller, session).await?;
        app.patterns.compile(pattern, field).await?;
    }
    dispatch::run(&app, &caller, session, Operation::Wait(operation)).await
}

/// Body of `wait`
#[derive(Deserialize, ToSchema)]
#[schema(as = Wait, example = json!({"condition": {"kind": "selector", "selector": "#results"}, "timeout_ms": 5000}))]
pub struct WaitBody {
    /// Condition to wait for
    #[schema(schema_with = condition_schema)]
    pub condition: Map<String, Value>,
    /// Timeout in milliseconds. If absent, a `time` condition has a timeout of its `ms` plus 5,000
    #[schema(minimum = 100, maximum = 120_000, default = 30_000)]
    pub timeout_ms: Option<u64>,
    /// On a timeout, `fail` errors the session; `return` returns `matched: false` and keeps the session
    #[schema(schema_with = on_timeout)]
    pub on_timeout: Option<OnTimeout>,
}

/// Visible element
#[derive(Deserialize, ToSchema)]
struct Selector {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
}

/// Address of the page
#[derive(Deserialize, ToSchema)]
struct UrlMatches {
    /// Regular expression in the syntax of Rust's regex crate. It may match anywhere in the first 32,768 characters of the
    /// address. The compiled expression may use at most 1 MiB
    #[schema(max_length = 1_000)]
    pattern: String,
}

/// Visible text of the page, in any frame
#[derive(Deserialize, ToSchema)]
struct Text {
    /// Part of the text, compared as the words of a target
    #[schema(min_length = 1, max_length = 1_000)]
    text: String,
}

/// Script in the page's own world, which is repeated until it returns something truthy. A run that throws an exception is
/// repeated too. 409 while the session holds back submissions
#[derive(Deserialize, ToSchema)]
struct Function {
    /// Body of an async function. A syntax error is a 400
    #[schema(min_length = 1, max_length = 65_536)]
    script: String,
}

/// Response that a page of the session has received since the previous operation began, or receives during the wait. The newest
/// 1,000 responses are known
#[derive(Deserialize, ToSchema)]
struct ResponseArrives {
    /// Regular expression for the address, as `pattern` of `url_matches`
    #[schema(max_length = 1_000)]
    url_pattern: String,
    /// HTTP status; any if absent
    #[schema(minimum = 100, maximum = 599)]
    status: Option<u16>,
}

/// State of the load of the page
#[derive(Deserialize, ToSchema)]
struct LoadState {
    /// State, as `wait_until` of `navigate`
    #[schema(schema_with = load_state)]
    state: WaitUntil,
}

/// Period of time
#[derive(Deserialize, ToSchema)]
struct Time {
    /// Milliseconds to wait
    #[schema(maximum = 60_000)]
    ms: u64,
}

/// Page that was opened since the previous operation began, or is opened during the wait
#[derive(Deserialize, ToSchema)]
struct NewPage {}

/// Download that has begun since the previous operation began. It has ended, or has taken 2 s
#[derive(Deserialize, ToSchema)]
struct DownloadBegins {}

fn condition_schema() -> RefOr<Schema> {
    let variants = [
        ("selector", Selector::schema()),
        ("selector_hidden", Selector::schema()),
        ("url_matches", UrlMatches::schema()),
        ("text", Text::schema()),
        ("function", Function::schema()),
        ("response", ResponseArrives::schema()),
        ("load_state", LoadState::schema()),
        ("time", Time::schema()),
        ("page", NewPage::schema()),
        ("download", DownloadBegins::schema()),
    ];
    tagged("Condition", variants)
}

fn load_state() -> RefOr<Schema> {
    named("WaitUntil", one_of(&["load", "domcontentloaded", "networkidle"], None))
}

impl WaitBody {
    /// # Errors
    /// On a field of `condition` or `timeout_ms`.
    pub fn into_operation(self, limits: &Limits) -> Result<Wait, Invalid> {
        let Self { condition: fields, timeout_ms, on_timeout } = self;
        let parsed = condition(fields)
            .and_then(|condition| Wait::parse(condition, timeout_ms, on_timeout.unwrap_or_default(), limits));
        parsed.map_err(|invalid| invalid.and(parse_timeout(timeout_ms, limits.max_timeout, limits)))
    }
}

/// # Errors
/// On `condition.kind`, or a field of that kind.
pub fn condition(fields: Map<String, Value>) -> Result<Condition, Invalid> {
    const OF: &str = "condition";
    match kind(&fields, OF)? {
        "selector" => Unchecked::at(fields, OF)
            .check(|Selector { selector, target }| Ok(Condition::Selector { element: element(selector, target, OF)? })),
        "selector_hidden" => Unchecked::at(fields, OF).check(|Selector { selector, target }| {
            Ok(Condition::SelectorHidden { element: element(selector, target, OF)? })
        }),
        "url_matches" => {
            Unchecked::at(fields, OF).check(|UrlMatches { pattern }| Ok(Condition::UrlMatches { pattern }))
        }
        "text" => Unchecked::at(fields, OF).check(|Text { text }| Ok(Condition::Text { text })),
        "function" => Unchecked::at(fields, OF)
            .check(|Function { script }| Ok(Condition::Function { script: ScriptText(script) })),
        "response" => Unchecked::at(fields, OF)
            .check(|ResponseArrives { url_pattern, status }| Ok(Condition::Response { url_pattern, status })),
        "load_state" => Unchecked::at(fields, OF).check(|LoadState { state }| Ok(Condition::LoadState { state })),
        "time" => Unchecked::at(fields, OF).check(|Time { ms }| Ok(Condition::Time { ms })),
        "page" => Ok(Condition::Page),
        "download" => Unchecked::at(fields, OF).check(|DownloadBegins {}| Ok(Condition::Download)),
        _ => {
            let message = "must be one of selector, selector_hidden, url_matches, text, function, response, load_state, time, \
                page, download";
            Err(Invalid::field("condition.kind", message))
        }
    }
}
