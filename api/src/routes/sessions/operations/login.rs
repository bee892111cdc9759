//! Filling in a login form.

use axum::extract::State;
use kitfleet_types::ids::SessionId;
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{Login, LoginResult, Operation, require_selectors};
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
    Routes::new().allow(WRITE_SESSIONS, routes!(login))
}

/// Fill in and submit a login form
///
/// Available if the deployment's driver reports this capability. Otherwise every request fails with 503, whatever its content.
/// The credentials are sealed on their way to the browser. `logged_in` is an estimate, not proof.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/login", tag = "Sessions", operation_id = "loginInSession",
    params(IdPath<SessionId>), request_body = LoginBody,
    responses((status = 200, description = "The outcome of the login", body = LoginResult), Restricted, Body, NoSession, Driving),
)]
async fn login(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SessionId>,
    body: Result<Unchecked<LoginBody>>,
) -> Result<Done> {
    require_real_driver(&app)?;
    let operation = body?.check(|body| body.into_operation(&app.config.limits))?;
    dispatch::run(&app, &caller, path.id()?, Operation::Login(operation)).await
}

/// Body of `login`
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionLogin, example = json!({"username": "ada@example.com", "password": "…"}))]
pub struct LoginBody {
    #[schema(max_length = 10_000)]
    username: String,
    #[schema(max_length = 10_000, format = Password)]
    password: String,
    /// CSS selector of an element that appears after a successful login
    #[schema(max_length = 4_096)]
    success_selector: Option<String>,
    /// CSS selector of the user name field; detected automatically if absent
    #[schema(max_length = 4_096)]
    username_selector: Option<String>,
    /// CSS selector of the password field; detected automatically if absent
    #[schema(max_length = 4_096)]
    password_selector: Option<String>,
    /// CSS selector of the submit button; detected automatically if absent
    #[schema(max_length = 4_096)]
    submit_selector: Option<String>,
    /// Timeout of each step in seconds
    #[schema(minimum = 1, maximum = 120, default = 10)]
    timeout_seconds: Option<u64>,
}

impl LoginBody {
    /// # Errors
    /// On `username`, `password`, a selector or `timeout_seconds`.
    pub fn into_operation(self, limits: &Limits) -> Result<Login, Invalid> {
        let mut rules = Rules::default();
        rules.length(&self.username, 0, limits.query_chars, "username");
        rules.length(&self.password, 0, limits.query_chars, "password");
        let selectors = [
            ("success_selector", &self.success_selector),
            ("username_selector", &self.username_selector),
            ("password_selector", &self.password_selector),
            ("submit_selector", &self.submit_selector),
        ];
        require_selectors(&mut rules, selectors, limits);
        let step_timeout = checked_timeout(rules, self.timeout_seconds, limits)?;
        Ok(Login {
            username: self.username,
            password: self.password,
            success_selector: self.success_selector,
            username_selector: self.username_selector,
            password_selector: self.password_selector,
            submit_selector: self.submit_selector,
            step_timeout,
            work: limits.form_work,
        })
    }
}
