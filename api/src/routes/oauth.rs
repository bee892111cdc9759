//! OAuth client credentials (RFC 6749, section 4.4; contract: oauth): clients, and their tokens.
//!
//! Errors of a token request use the format of RFC 6749, section 5.2, because OAuth libraries parse it and no problem documents
//! (contract: oauth 4).

use std::collections::HashMap;

use axum::Json as Answer;
use axum::extract::{FromRequest, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, PRAGMA, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kitfleet_domain::api_keys::Scopes;
use kitfleet_domain::oauth::{self, Client, CreateClientError, IssueError};
use kitfleet_types::ids::OauthClientId;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::both;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::json::{self, IgnoredBody, Unchecked};
use crate::http::kinds;
use crate::http::lists::{ListItem, Page};
use crate::http::metrics::{self, OauthOutcome};
use crate::http::openapi::{
    Body, Database, Form as FormProblems, Full, NoOauthClient, RateLimited, Restricted, grantable_scopes,
};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::problems::ForeignErrorFormat;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new()
        .allow(OWN_ACCOUNT, routes!(create, list))
        .allow(OWN_ACCOUNT, routes!(delete))
        .allow(OWN_ACCOUNT, routes!(rotate_secret))
        .public(routes!(token))
        .never_stored()
}

/// Request body of an OAuth client creation
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"name": "nightly", "scopes": ["read", "write:sessions"]}))]
struct NewClient {
    /// Name of the client, 1 to 120 characters
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    #[schema(schema_with = grantable_scopes)]
    scopes: Vec<String>,
}

/// A program that requests its own access tokens
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "client_id": "ocl_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "name": "nightly", "scopes": ["read", "write:sessions"],
    "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct OauthClient {
    /// Client ID, `ocl_<uuid>`
    #[schema(value_type = String)]
    client_id: OauthClientId,
    /// Secret of the client; only the response of the creation has it
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    client_secret: Option<String>,
    name: String,
    /// Maximum scopes of the client's tokens
    #[schema(value_type = Vec<String>)]
    scopes: Scopes,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<Client> for OauthClient {
    fn from(client: Client) -> Self {
        let Client { id, name, scopes, created_at } = client;
        Self { client_id: id, client_secret: None, name, scopes, created_at }
    }
}

type OauthClientList = Page<OauthClient>;

impl ListItem for OauthClient {
    const LIST: &'static str = "OauthClientList";
    const MEANING: &'static str = "OAuth clients of the account";
}

/// Create an OAuth client
///
/// Returns the client's secret, once. The client exchanges it for access tokens at `POST /v1/oauth/token`.
#[utoipa::path(
    post, path = "/v1/oauth/clients", tag = "Authentication", operation_id = "createOauthClient",
    request_body = NewClient,
    responses((status = 201, description = "The client, with its secret", body = OauthClient,
         example = json!({"client_id": "ocl_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "client_secret": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI",
                          "name": "nightly", "scopes": ["read", "write:sessions"], "created_at": "2026-11-20T18:05:00.123Z"})), Restricted, Body, Full, Database),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    body: Unchecked<NewClient>,
) -> Result<(StatusCode, Answer<OauthClient>)> {
    let (name, scopes) = body.check(|NewClient { name, scopes }| {
        let (_, scopes) = both(oauth::check_name(&name), Scopes::grantable(&scopes, &caller.scopes))?;
        Ok((name, scopes))
    })?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let max = app.config.limits.oauth_clients;
    let (client, secret) = oauth::create_client(&mut tx, caller.account_id, &name, scopes, max).await?;
    tx.commit().await?;
    let client_secret = Some(secret.reveal().to_owned());
    Ok((StatusCode::CREATED, Answer(OauthClient { client_secret, ..client.into() })))
}

/// List OAuth clients
///
/// Returns the account's clients, newest first.
#[utoipa::path(
    get, path = "/v1/oauth/clients", tag = "Authentication", operation_id = "listOauthClients",
    responses((status = 200, description = "All clients of the account", body = OauthClientList), Restricted, Database),
)]
async fn list(caller: Caller, State(app): State<App>) -> Result<Answer<OauthClientList>> {
    let mut conn = app.db.acquire().await?;
    let clients = oauth::list_clients(&mut conn, caller.account_id).await?;
    Ok(Answer(clients.into_iter().map(OauthClient::from).collect()))
}

/// Delete an OAuth client
///
/// The client's tokens are revoked immediately. Deleting a deleted client has no effect.
#[utoipa::path(
    delete, path = "/v1/oauth/clients/{id}", tag = "Authentication", operation_id = "deleteOauthClient",
    params(IdPath<OauthClientId>),
    responses((status = 204, description = "The client is deleted"), Restricted, NoOauthClient, Database),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<OauthClientId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut conn = app.db.acquire().await?;
    let found = oauth::delete_client(&mut conn, caller.account_id, path.id()?).await?;
    if found { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<OauthClientId>()) }
}

/// A new secret of an OAuth client, returned only once
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "client_id": "ocl_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "client_secret": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI",
    "grace_expires_at": "2026-11-21T18:05:00.123Z",
}))]
struct RotatedClientSecret {
    /// ID of the client
    #[schema(value_type = String)]
    client_id: OauthClientId,
    /// New secret of the client
    client_secret: String,
    /// Time the previous secret stops working (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    grace_expires_at: Timestamp,
}

/// Rotate the secret of an OAuth client
///
/// The previous secret works for another 24 hours, or until the next rotation. Access tokens stay valid.
#[utoipa::path(
    post, path = "/v1/oauth/clients/{id}/rotate-secret", tag = "Authentication", operation_id = "rotateOauthClientSecret",
    params(IdPath<OauthClientId>),
    responses(
        (status = 200, description = "The new secret, returned only once", body = RotatedClientSecret),
        Restricted, NoOauthClient, Database,
    ),
)]
async fn rotate_secret(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<OauthClientId>,
    _body: IgnoredBody,
) -> Result<Answer<RotatedClientSecret>> {
    let id = path.id()?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let rotated = oauth::rotate_secret(&mut tx, caller.account_id, id).await?;
    let rotated = rotated.ok_or_else(not_found::<OauthClientId>)?;
    tx.commit().await?;
    let client_secret = rotated.secret.reveal().to_owned();
    Ok(Answer(RotatedClientSecret { client_id: id, client_secret, grace_expires_at: rotated.grace_expires_at }))
}

impl From<CreateClientError> for Problem {
    fn from(error: CreateClientError) -> Self {
        match error {
            CreateClientError::Invalid(invalid) => invalid.into(),
            CreateClientError::TooMany(max) => Self::new(&kinds::CONFLICT, error.to_string()).with("limit", max),
            CreateClientError::NoAccount => Self::account_gone(),
            CreateClientError::Database(error) => error.into(),
        }
    }
}

/// A token request. A client that uses HTTP Basic authentication leaves out `client_id` and `client_secret`
#[derive(ToSchema)]
#[expect(dead_code, reason = "only documents the contract; parameters are parsed by hand as the RFC demands")]
#[schema(example = json!({"grant_type": "client_credentials", "scope": "read", "client_id": "ocl_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "client_secret": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI"}))]
struct TokenForm {
    /// The literal `client_credentials`
    grant_type: String,
    /// Space-separated scopes; all scopes of the client when absent
    scope: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// An access token (RFC 6749, section 5.1)
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"access_token": "svc_oauth_…", "token_type": "Bearer", "expires_in": 3600, "scope": "read"}))]
struct TokenAnswer {
    /// Access token, `svc_oauth_…`
    access_token: String,
    /// The literal `Bearer`
    token_type: &'static str,
    /// Lifetime of the token in seconds
    expires_in: u64,
    /// Space-separated scopes of the token
    scope: String,
}

/// An error of a token request (RFC 6749, section 5.2)
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"error": "invalid_client", "error_description": "the client ID or the client secret is wrong"}))]
struct TokenError {
    /// Error code of the RFC
    error: &'static str,
    /// Description for people
    error_description: &'static str,
}

/// Get an access token
///
/// Implements the client credentials grant (RFC 6749, section 4.4). The client authenticates by HTTP Basic or by body parameters,
/// not by both.
#[utoipa::path(
    post, path = "/v1/oauth/token", tag = "Authentication", operation_id = "createOauthToken",
    request_body(content = TokenForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 200, description = "A token", body = TokenAnswer,
         headers(("Cache-Control" = String, description = "no-store"), ("Pragma" = String, description = "no-cache"))),
        (status = 400, description = "`invalid_request`, `unsupported_grant_type`, `invalid_scope` or `unauthorized_client`",
         body = TokenError, content_type = "application/json"),
        (status = 401, description = "`invalid_client`", body = TokenError, content_type = "application/json",
         headers(("WWW-Authenticate" = String, description = "Basic"))),
        FormProblems, RateLimited, Database,
    ),
)]
async fn token(State(app): State<App>, client: ClientInfo, request: Request) -> Response {
    let issued = issue(&app, &client, request).await;
    metrics::count_oauth_token(issued.as_ref().map_or_else(Refused::outcome, |_| OauthOutcome::Ok));
    issued.map_or_else(IntoResponse::into_response, |answer| (NOT_STORED, Answer(answer)).into_response())
}

/// RFC 6749, section 5.1.
const NOT_STORED: [(HeaderName, HeaderValue); 2] =
    [(CACHE_CONTROL, HeaderValue::from_static("no-store")), (PRAGMA, HeaderValue::from_static("no-cache"))];

async fn issue(app: &App, client: &ClientInfo, request: Request) -> Result<TokenAnswer, Refused> {
    app.rate_limits.check(Bucket::OAuthToken, client).await?;
    let headers = request.headers().clone();
    let form = Form::from_request(request, app).await?;
    let (id, secret) = credentials(&headers, &form)?;
    let mut conn = app.db.acquire().await.map_err(Problem::from)?;
    let client = oauth::authenticate(&mut conn, &id, &secret).await.map_err(Problem::from)?;
    let client = client.ok_or(Refused::client("the client ID or the client secret is wrong"))?;
    match form.get("grant_type") {
        Some("client_credentials") => {}
        Some(_) => return Err(Refused::grant_type("the only supported grant type is client_credentials")),
        None => return Err(Refused::request("grant_type is missing")),
    }
    let lifetime = app.config.auth.oauth_token_ttl;
    let (token, scopes) = oauth::issue_token(&mut conn, &client, form.get("scope"), lifetime).await?;
    Ok(TokenAnswer {
        access_token: token.reveal().to_owned(),
        token_type: "Bearer",
        expires_in: lifetime.as_secs(),
        scope: scopes.names().join(" "),
    })
}

/// Returns the client ID and secret of a token request, from one of the two authentication methods (RFC 6749, section 2.3.1).
fn credentials(headers: &HeaderMap, form: &Form) -> Result<(String, String), Refused> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        let given = form.get("client_id").zip(form.get("client_secret"));
        let (id, secret) = given.ok_or(Refused::client("client_id and client_secret are missing"))?;
        return Ok((id.to_owned(), secret.to_owned()));
    };
    let (id, secret) = basic(header).ok_or(Refused::client("the Authorization header is not HTTP Basic"))?;
    // Many libraries send the client ID in addition to the header; it is no second authentication.
    if form.get("client_secret").is_some() || form.get("client_id").is_some_and(|given| given != id) {
        return Err(Refused::request(
            "the client must authenticate by the Authorization header or by the body, not by both",
        ));
    }
    Ok((id, secret))
}

/// Both parts are form-encoded inside the HTTP Basic encoding.
fn basic(header: &HeaderValue) -> Option<(String, String)> {
    let (scheme, encoded) = header.to_str().ok()?.trim().split_once(' ')?;
    let decoded = String::from_utf8(BASE64.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = decoded.split_once(':')?;
    let part = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().ok().map(String::from);
    scheme.eq_ignore_ascii_case("basic").then_some((part(id)?, part(secret)?))
}

/// Parameters of a body; each occurs once and none is empty (RFC 6749, section 3.2).
struct Form(HashMap<String, String>);

impl Form {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl FromRequest<App> for Form {
    type Rejection = Refused;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refused> {
        let (parts, body) = request.into_parts();
        let bytes = json::read(&parts, body, &app.config).await?;
        let media_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(Refused::request("the content type must be application/x-www-form-urlencoded"));
        }
        let mut form = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(&bytes) {
            if form.len() >= app.config.limits.open_body_values {
                return Err(Refused::request("too many parameters"));
            }
            if form.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(Refused::request("a parameter is repeated"));
            }
        }
        form.retain(|_, value| !value.is_empty());
        Ok(Self(form))
    }
}

/// Reason a token request fails.
enum Refused {
    /// An error that the RFC defines.
    Oauth { status: StatusCode, outcome: OauthOutcome, description: &'static str },
    /// An error outside OAuth.
    Other(Problem),
}

impl Refused {
    fn new(outcome: OauthOutcome, description: &'static str) -> Self {
        Self::Oauth { status: StatusCode::BAD_REQUEST, outcome, description }
    }

    fn request(description: &'static str) -> Self {
        Self::new(OauthOutcome::InvalidRequest, description)
    }

    fn grant_type(description: &'static str) -> Self {
        Self::new(OauthOutcome::UnsupportedGrantType, description)
    }

    fn client(description: &'static str) -> Self {
        Self::Oauth { status: StatusCode::UNAUTHORIZED, outcome: OauthOutcome::InvalidClient, description }
    }

    fn outcome(&self) -> OauthOutcome {
        match self {
            Self::Oauth { outcome, .. } => *outcome,
            Self::Other(_) => OauthOutcome::Error,
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, outcome, error_description) = match self {
            Self::Oauth { status, outcome, description } => (status, outcome, description),
            Self::Other(problem) => return problem.into_response(),
        };
        let error = TokenError { error: outcome.label(), error_description };
        let mut response = (status, NOT_STORED, Answer(error)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"kitfleet\", charset=\"UTF-8\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response.extensions_mut().insert(ForeignErrorFormat);
        response
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::Other(problem)
    }
}

impl From<IssueError> for Refused {
    fn from(error: IssueError) -> Self {
        match error {
            IssueError::Suspended => {
                Self::new(OauthOutcome::UnauthorizedClient, "the account of the client is suspended")
            }
            IssueError::Scope => {
                Self::new(OauthOutcome::InvalidScope, "a scope is unknown or was not granted to the client")
            }
            IssueError::Database(error) => Self::Other(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(header: &str) -> Option<(String, String)> {
        basic(&HeaderValue::from_str(header).expect("a header value"))
    }

    /// RFC 6749, section 2.3.1, and RFC 7617.
    #[test]
    fn both_parts_of_a_basic_header_are_decoded_twice() {
        let basic = |text: &str| given(&format!("Basic {}", BASE64.encode(text)));
        let both = |id: &str, secret: &str| Some((id.to_owned(), secret.to_owned()));
        assert_eq!(basic("ocl_1:a-b_c"), both("ocl_1", "a-b_c"));
        assert_eq!(basic("ocl%5F1:a%2Db%3A+c:d"), both("ocl_1", "a-b: c:d"));
        assert_eq!(basic("id:"), both("id", ""));
        assert_eq!(basic("id"), None);
        assert_eq!(basic("id:%ff"), None);
        assert_eq!(given("bAsIc aWQ6cw=="), both("id", "s"));
        for malformed in ["Basic", "Basic !", "Bearer aWQ6cw==", "aWQ6cw=="] {
            assert_eq!(given(malformed), None, "{malformed}");
        }
    }
}
