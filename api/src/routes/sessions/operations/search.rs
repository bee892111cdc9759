//! Filling in a search form.

use axum::extract::State;
use kitfleet_types::ids::SessionId;
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{Operation, Search, SearchResult, require_selectors};
use kitfleet_types::validation::{Invalid, Rules};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{checked_timeout, require_real_driver};
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
    Routes::new().allow(WRITE_SESSIONS, routes!(search))
}

/// Fill in and submit a search form
///
/// Available if the deployment's driver reports this capability. Otherwise every request fails with 503, whatever its content.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/search", tag = "Sessions", operation_id = "searchInSession",
    params(IdPath<SessionId>), request_body = SearchBody,
    responses((status = 200, description = "The outcome of the search", body = SearchResult), Restricted, Body, NoSession, Driving),
)]
async fn search(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Result<Unchecked<SearchBody>>,
) -> Result<Done> {
    require_real_driver(&app)?;
    let operation = body?.check(|body| body.into_operation(&app.config.limits))?;
    dispatch::run(&app, &caller, path.id()?, Operation::Search(operation)).await
}

/// Body of `search`
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionSearch, example = json!({"query": "running shoes"}))]
pub struct SearchBody {
    /// Text to search for
    #[schema(min_length = 1, max_length = 10_000)]
    query: String,
    /// CSS selector of the search field; detected automatically if absent
    #[schema(max_length = 4_096)]
    search_selector: Option<String>,
    /// True to submit the form
    #[schema(default = true)]
    submit: Option<bool>,
    /// CSS selector of an element that appears with the results
    #[schema(max_length = 4_096)]
    wait_for_results_selector: Option<String>,
    /// Timeout of each step in seconds
    #[schema(minimum = 1, maximum = 120, default = 10)]
    timeout_seconds: Option<u64>,
}

impl SearchBody {
    /// # Errors
    /// On `query`, a selector or `timeout_seconds`.
    pub fn into_operation(self, limits: &Limits) -> Result<Search, Invalid> {
        let mut rules = Rules::default();
        rules.length(&self.query, 1, limits.query_chars, "query");
        let selectors = [
            ("search_selector", &self.search_selector),
            ("wait_for_results_selector", &self.wait_for_results_selector),
        ];
        require_selectors(&mut rules, selectors, limits);
        let step_timeout = checked_timeout(rules, self.timeout_seconds, limits)?;
        Ok(Search {
            query: self.query,
            search_selector: self.search_selector,
            submit: self.submit.unwrap_or(true),
            wait_for_results_selector: self.wait_for_results_selector,
            step_timeout,
            work: limits.form_work,
        })
    }
}
