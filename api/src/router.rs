//! All routes, and the layers that apply to them.

use std::sync::Arc;

use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::{Extension, Router};
use kitfleet_jobs::wakeups::Wakeups;
use serde_json::Value;
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::document;
use crate::http::cors::CorsRules;
use crate::http::routing::{Routes, Rows};
use crate::http::server::Server;
use crate::http::state::{ApiConfig, App, DocumentConfig, ServeError};
use crate::http::{
    auth, cors, database_probe, deprecation, observe, own_task, page_headers, problems, rate_limits, status_cache,
    unknown_fields,
};
use crate::routes::docs::Contract;
use crate::routes::{
    accounts, agents, api_keys, archetypes, audit_log, billing, byok, credentials, dashboard, devices, docs, emails,
    health, identities, linked_identities, metrics, mfa, notifications, oauth, pages, profiles, proxies, recipes,
    sessions, sign_ins, staff, status, teams, usage, web_sessions, webhooks,
};

/// The routes, without what crosses them.
pub fn routes() -> Routes {
    Routes::new()
        .merge(sessions::routes())
        .merge(agents::routes())
        .merge(recipes::routes())
        .merge(profiles::routes())
        .merge(proxies::routes())
        .merge(accounts::routes())
        .merge(credentials::routes())
        .merge(web_sessions::routes())
        .merge(emails::routes())
        .merge(mfa::routes())
        .merge(billing::routes())
        .merge(byok::routes())
        .merge(api_keys::routes())
        .merge(oauth::routes())
        .merge(devices::routes())
        .merge(teams::routes())
        .merge(webhooks::routes())
        .merge(sign_ins::routes())
        .merge(identities::routes())
        .merge(linked_identities::routes())
        .merge(audit_log::routes())
        .merge(notifications::routes())
        .merge(usage::routes())
        .merge(archetypes::routes())
        .merge(staff::routes())
        .merge(status::routes())
        .merge(docs::routes())
        .merge(health_routes())
        .merge(pages::routes())
        .merge(dashboard::routes())
}

fn health_routes() -> Routes {
    health::routes().merge(metrics::routes())
}

/// What watches a process without the rest of the service.
fn health(app: App) -> Router {
    let (router, _, rows) = health_routes().split();
    add_common_layers(router, app, rows)
}

/// The whole service.
fn router(app: App) -> Router {
    let (router, described, rows) = routes().split();
    let config = app.config.clone();
    let contract = Contract::new({
        let rows = rows.clone();
        move || {
            let whole = document::contract(described, &rows, &config.document());
            let for_customers = document::for_customers(whole.clone());
            (whole, for_customers)
        }
    });
    add_common_layers(router.layer(Extension(contract)), app, rows)
}

/// Serves the API on `listener` until `shutdown`, and returns when every request that was accepted has been answered.
/// Operations under way are waited for no longer than the configured time; then their callers are told that nothing was
/// heard of them.
///
/// # Errors
/// When it cannot start.
pub async fn serve(
    listener: TcpListener,
    config: ApiConfig,
    db: PgPool,
    wakeups: Wakeups,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    Server::new(config, db, wakeups, router, shutdown)?.run_all(listener).await;
    Ok(())
}

/// Serves what watches a process without the rest of the API: its health and its metrics, until `shutdown`.
///
/// # Errors
/// When it cannot start.
pub async fn serve_health(
    listener: TcpListener,
    config: ApiConfig,
    db: PgPool,
    wakeups: Wakeups,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let server = Server::new(config, db, wakeups, health, shutdown)?;
    tokio::select! {
        () = server.run(listener) => {}
        () = server.report_metrics() => {}
    }
    Ok(())
}

/// The contract that a service with these settings serves as `/openapi.json`.
#[must_use]
pub fn openapi(config: &DocumentConfig<'_>) -> Value {
    let (_, described, rows) = routes().split();
    document::contract(described, &rows, config)
}

/// `router` under what crosses every route. The last layer is the outermost; all of them come after routing, so that
/// they know the route, whose row is in `rows`.
fn add_common_layers(router: Router<App>, app: App, rows: Rows) -> Router {
    let cors_rules = CorsRules::new(&app.config.cors_origins);
    router
        .layer(from_fn_with_state((app.clone(), rows.clone()), auth::admit))
        .layer(from_fn(observe::panics))
        .layer(from_fn_with_state(app.clone(), unknown_fields::report))
        .layer(from_fn(rate_limits::headers::report))
        .layer(from_fn_with_state((app.handlers.clone(), app.pulse.clone()), database_probe::answer))
        .layer(from_fn_with_state(app.clone(), problems::render))
        .layer(from_fn_with_state(rows, deprecation::announce))
        .layer(from_fn_with_state(Arc::clone(&app.status_cache), status_cache::count))
        .layer(map_response(page_headers::protect))
        .layer(from_fn_with_state(cors_rules, cors::apply))
        .layer(from_fn(observe::requests))
        .layer(from_fn_with_state(app.clone(), own_task::run))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::{Request, State};
    use axum::http::Method;
    use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
    use axum::response::{Html, IntoResponse};
    use axum::routing::get;
    use chrono::NaiveDate;
    use http_body_util::BodyExt;
    use serde_json::Value;
    use sqlx::postgres::PgPoolOptions;
    use tower::ServiceExt;
    use utoipa_axum::routes;

    use super::*;
    use crate::http::client::{ClientInfo, Peer};
    use crate::http::error::{Problem, Result};
    use crate::http::metrics;
    use crate::http::permissions::{Access, Deprecation};
    use crate::http::rate_limits::Bucket;
    use crate::http::state::ApiConfig;
    use crate::permissions::ROUTES;

    /// An API whose database does not exist.
    fn app() -> App {
        app_with(ApiConfig::default())
    }

    fn app_with(config: ApiConfig) -> App {
        let options = "postgres://nobody@127.0.0.1:1/none".parse().expect("connection options");
        let handle = metrics::install(&[]).expect("the recorder is ours");
        let db = PgPoolOptions::new().connect_lazy_with(options);
        let wakeups = Wakeups::start(&db, db.connect_options().as_ref().clone(), None).expect("there is no Redis");
        App::new(config, db, wakeups, handle).expect("threads")
    }

    /// Paths without a registered route.
    fn no_rows() -> Rows {
        Rows::from_iter([])
    }

    async fn ask(router: Router, method: Method, path: &str) -> (u16, String, Value) {
        let request = Request::builder().method(method).uri(path).header("x-request-id", "r-1");
        let answer = router.oneshot(request.body(Body::from("nope")).expect("a request")).await.expect("an answer");
        assert_eq!(answer.headers()["x-request-id"], "r-1");
        let media_type = answer.headers()["content-type"].to_str().expect("a text").to_owned();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        (status, media_type, serde_json::from_slice(&body).unwrap_or_default())
    }

    #[tokio::test]
    async fn every_error_response_is_a_problem_document() {
        for (method, path, status, title) in [
            (Method::GET, "/nope", 404, "NotFound"),
            (Method::GET, "/errors/nope", 404, "NotFound"),
            (Method::PUT, "/v1/sessions", 405, "MethodNotAllowed"),
            // The credential is checked before the request.
            (Method::POST, "/v1/sessions", 401, "Unauthorized"),
            (Method::POST, "/v1/sessions/x/search", 401, "Unauthorized"),
            (Method::GET, "/metrics", 503, "FeatureUnavailable"),
        ] {
            let (answered, media_type, body) = ask(router(app()), method, path).await;
            assert_eq!((answered, media_type.as_str()), (status, "application/problem+json"), "{path}");
            assert_eq!((&body["title"], &body["status"]), (&title.into(), &status.into()));
            assert_eq!((&body["instance"], &body["request_id"]), (&path.into(), &"r-1".into()));
        }
    }

    #[tokio::test]
    async fn empty_metrics_token_gives_no_access() {
        for (token, status) in [("", 503), ("t", 401)] {
            let config = ApiConfig { metrics_token: Some(token.to_owned()), ..ApiConfig::default() };
            assert_eq!(ask(router(app_with(config)), Method::GET, "/metrics").await.0, status, "{token:?}");
        }
    }

    #[tokio::test]
    async fn limits_of_headers_can_be_changed() {
        let mut config = ApiConfig::default();
        config.limits.archetypes_max_age = std::time::Duration::from_mins(1);
        let request = Request::builder().uri("/v1/archetypes").body(Body::empty()).expect("a request");
        let answer = router(app_with(config)).oneshot(request).await.expect("an answer");
        assert_eq!(answer.headers()["cache-control"], "public, max-age=60");
    }

    #[tokio::test]
    async fn panic_is_500_without_details() {
        async fn panics() {
            panic!("the secret is 42");
        }
        let app = app();
        let (status, _, body) =
            ask(add_common_layers(Router::new().route("/p", get(panics)), app, no_rows()), Method::GET, "/p").await;
        assert_eq!((status, &body["title"]), (500, &"Internal".into()));
        assert!(!body.to_string().contains("42"), "{body}");
    }

    /// Contract: pages 7. Whatever a handler says, its page has the headers of pages.
    #[tokio::test]
    async fn page_of_any_handler_is_protected() {
        async fn bare() -> Html<&'static str> {
            Html("<p>")
        }
        async fn own() -> impl IntoResponse {
            ([(CONTENT_SECURITY_POLICY, "default-src 'self'"), (REFERRER_POLICY, "same-origin")], Html("<p>"))
        }
        async fn framed() -> impl IntoResponse {
            ([(CONTENT_SECURITY_POLICY, "default-src 'self'; frame-ancestors https://desk.example.com")], Html("<p>"))
        }
        async fn text() -> &'static str {
            "text"
        }
        let pages = Router::new().route("/bare", get(bare)).route("/own", get(own));
        let router = add_common_layers(pages.route("/framed", get(framed)).route("/text", get(text)), app(), no_rows());
        let ask = async |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
            let headers = router.clone().oneshot(request).await.expect("an answer").headers().clone();
            assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
            let header = |name| Some(headers.get(name)?.to_str().expect("text").to_owned());
            (header("content-security-policy"), header("referrer-policy"), header("x-frame-options"))
        };
        let some = |text: &str| Some(text.to_owned());
        let (policy, referrer, framing) = ask("/bare").await;
        let policy = policy.expect("a policy");
        assert!(policy.starts_with("default-src 'none'; ") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!((referrer, framing), (some("no-referrer"), some("DENY")));
        let policy = some("default-src 'self'; frame-ancestors 'none'");
        assert_eq!(ask("/own").await, (policy, some("same-origin"), some("DENY")));
        let policy = some("default-src 'self'; frame-ancestors https://desk.example.com");
        assert_eq!(ask("/framed").await, (policy, some("no-referrer"), None));
        for other in ["/text", "/nope"] {
            assert_eq!(ask(other).await, (None, None, None), "{other}");
        }
    }

    /// Contract: versioning 4.
    #[tokio::test]
    async fn deprecated_route_sends_deprecation_headers() {
        const fn day(month: u32) -> NaiveDate {
            NaiveDate::from_ymd_opt(2027, month, 15).expect("a day")
        }
        #[utoipa::path(get, path = "/old/{id}")]
        async fn old() -> Result<()> {
            Err(Problem::forbidden("it is closed"))
        }
        #[utoipa::path(post, path = "/old/{id}")]
        async fn kept() {}
        let deprecation = Deprecation { since: day(1), sunset: day(4), replacement: "`GET /new`" };
        let registered = Routes::new().public(routes!(kept)).public(routes!(old)).deprecated(deprecation);
        let (router, _, rows) = registered.split();
        let router = add_common_layers(router, app(), rows);
        let ask = async |method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
            let answer = router.clone().oneshot(request).await.expect("an answer");
            let header = |name| Some(answer.headers().get(name)?.to_str().expect("text").to_owned());
            (answer.status().as_u16(), header("deprecation"), header("sunset"))
        };
        let (since, sunset) = ("@1799971200".to_owned(), "Thu, 15 Apr 2027 00:00:00 GMT".to_owned());
        assert_eq!(ask(Method::GET, "/old/1").await, (403, Some(since), Some(sunset)));
        assert_eq!(ask(Method::POST, "/old/1").await, (200, None, None));
        assert_eq!(ask(Method::GET, "/nowhere").await, (404, None, None));
    }

    /// Contract: requests 10; rate-limits 1. The client's address is taken by `server.trusted_proxies` only, and a refusal has
    /// `Retry-After`.
    #[tokio::test]
    async fn forwarded_address_counts_only_from_a_trusted_proxy() {
        async fn limited(client: ClientInfo, State(app): State<App>) -> Result<()> {
            app.rate_limits.check(Bucket::SendMagicLink, &client).await
        }
        let proxies = ["10.0.0.0/8".parse().expect("a prefix")];
        let config = ApiConfig { trusted_proxies: proxies.to_vec(), ..ApiConfig::default() };
        let router = add_common_layers(Router::new().route("/l", get(limited)), app_with(config), no_rows());
        let ask = async |peer: &str, forwarded: &str| {
            let request = Request::builder().uri("/l").header("x-forwarded-for", forwarded);
            let request = request.extension(Peer(peer.parse().expect("an address"))).body(Body::empty());
            router.clone().oneshot(request.expect("a request")).await.expect("an answer")
        };
        for (nth, remaining) in [(1, "2"), (2, "1"), (3, "0")] {
            let answer = ask("203.0.113.9", &format!("198.51.100.{nth}")).await;
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["ratelimit-limit"], "3");
            assert_eq!(answer.headers()["ratelimit-remaining"], remaining);
            assert_eq!(answer.headers()["ratelimit-reset"], (20 * nth).to_string());
        }
        let refused = ask("203.0.113.9", "198.51.100.4").await;
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()["retry-after"], "20");

        for _ in 0..3 {
            assert_eq!(ask("10.0.0.1", "198.51.100.7").await.status(), 200);
        }
        assert_eq!(ask("10.0.0.1", "198.51.100.7").await.status(), 429);
        assert_eq!(ask("10.0.0.1", "1.2.3.4, 198.51.100.7").await.status(), 429, "what the client wrote itself");
        assert_eq!(ask("10.0.0.1", "198.51.100.8").await.status(), 200);
    }

    #[tokio::test]
    async fn served_document_equals_the_printed_one() {
        let app = app();
        let printed = openapi(&app.config.document());
        let (status, media_type, contract) = ask(router(app), Method::GET, "/openapi.json").await;
        assert_eq!((status, media_type.as_str()), (200, "application/json"));
        assert_eq!((&contract, &contract["openapi"]), (&printed, &"3.1.0".into()));
    }

    #[tokio::test]
    async fn every_public_page_needs_no_database() {
        let public = ROUTES.iter().filter(|route| {
            let anybodys = matches!(route.access, Access::Public) && route.method == Method::GET;
            anybodys && !route.path.contains('{') && route.path != "/readyz"
        });
        for route in public {
            assert_eq!(ask(router(app()), Method::GET, &route.path).await.0, 200, "{}", route.path);
        }
    }
}
