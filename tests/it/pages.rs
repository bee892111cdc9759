//! Headers and addresses of pages (contract: pages); `webkit` tests their behaviour.

mod webkit;

use std::path::Path;

use kitfleet_api::permissions::ROUTES;
use reqwest::Method;
use reqwest::header::HeaderMap;

use crate::support::routes::sample;
use crate::support::{App, Client};

const PAGES_OF_LINKS: [&str; 7] = [
    "/activate",
    "/verify-email",
    "/magic-link",
    "/reset-password",
    "/confirm-sign-in",
    "/confirm-email",
    "/team/accept",
];

/// Contract: pages 3. Addresses contain tokens, so pages send no referrer either.
#[tokio::test]
async fn pages_are_not_cached_and_run_only_own_scripts() {
    let app = App::simulated().start().await;
    for page in PAGES_OF_LINKS {
        let (headers, text) = get(&app.stranger(), &format!("{page}?token=secret&user_code=secret")).await;
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let policy = headers["content-security-policy"].to_str().expect("text");
        let trusted = "require-trusted-types-for 'script'";
        for rule in ["default-src 'none'", "script-src 'self'", trusted, "form-action 'none'", "frame-ancestors 'none'"]
        {
            assert!(policy.split("; ").any(|one| one == rule), "{rule} is not in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(!text.contains("secret"), "the page does not depend on the query: {text}");
        for address in addresses(&text).filter(|address| !address.starts_with("data:")) {
            assert!(address.starts_with('/') && !address.starts_with("//"), "{page} links to {address}");
        }
    }
    app.stop().await;
}

/// The name of a file contains a hash of its content. No page loads the application of the dashboard.
#[tokio::test]
async fn files_of_pages_are_cached_forever() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let (_, dashboard) = get(&stranger, "/app/").await;
    let application = addresses(&dashboard).find(|address| address.contains("/index-") && is_script(address));
    let application = application.expect("the script of the application");
    for path in ["/activate", "/live/ses_unknown", "/status", "/errors", "/docs/agent-grammar"] {
        let (_, page) = get(&stranger, path).await;
        let files: Vec<_> = addresses(&page).filter(|address| address.starts_with("/app/assets/")).collect();
        assert!(files.iter().any(|file| is_file(file, "css")), "{path}: {page}");
        let runs_scripts = matches!(path, "/activate" | "/live/ses_unknown");
        assert_eq!(files.iter().any(|file| is_script(file)), runs_scripts, "{path}: {page}");
        for file in files {
            let (headers, text) = get(&stranger, file).await;
            assert_eq!(headers["cache-control"], "public, max-age=31536000, immutable");
            assert_eq!(headers["x-content-type-options"], "nosniff");
            let media_type = headers["content-type"].to_str().expect("text");
            let expected = if is_script(file) { "text/javascript" } else { "" };
            assert!(media_type.starts_with(expected), "{file}: {media_type}");
            let name = application.rsplit('/').next().expect("a name");
            assert!(file != application && !text.contains(name), "{path} loads the application by {file}");
        }
    }
    stranger.get("/app/assets/nothing.js").await.problem(404, "not-found");
    app.stop().await;
}

fn is_script(address: &str) -> bool {
    is_file(address, "js")
}

fn is_file(address: &str, extension: &str) -> bool {
    Path::new(address).extension().is_some_and(|found| found == extension)
}

/// Contract: pages 3, 7. Every other route has its media type.
#[tokio::test]
async fn every_page_has_protective_headers() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let mut pages = Vec::new();
    for route in ROUTES.iter().filter(|route| route.method == Method::GET) {
        let sampled = sample(&route.method, &route.path);
        let answer = stranger.request_of(&sampled).send().await.expect("an answer");
        let headers = answer.headers();
        assert_eq!(headers["x-content-type-options"], "nosniff", "{}", route.path);
        if is_page(headers) {
            assert_protected(headers, &route.path);
            pages.push(route.path.clone());
        }
        let is_for_programs = route.path.starts_with("/v1/") || FOR_PROGRAMS.contains(&route.path.as_str());
        assert_eq!(is_page(headers), !is_for_programs, "{}: {}", route.path, answer.status());
    }
    assert!(pages.contains(&"/docs".to_owned()) && pages.contains(&"/status".to_owned()), "{pages:?}");
    for asset in ["/docs/index.html", "/docs/oauth2-redirect.html"] {
        let (headers, _) = get(&stranger, asset).await;
        assert!(is_page(&headers), "{asset}");
        assert_protected(&headers, asset);
    }
    app.stop().await;
}

/// Outside of `/v1`; no pages.
const FOR_PROGRAMS: [&str; 5] = ["/openapi.json", "/healthz", "/readyz", "/metrics", "/traces/{secret}"];

fn is_page(headers: &HeaderMap) -> bool {
    headers.get("content-type").is_some_and(|kind| kind.to_str().expect("text").starts_with("text/html"))
}

fn assert_protected(headers: &HeaderMap, page: &str) {
    assert_eq!(headers["x-content-type-options"], "nosniff", "{page}");
    assert_eq!(headers["referrer-policy"], "no-referrer", "{page}");
    assert_eq!(headers["x-frame-options"], "DENY", "{page}");
    let policy = headers["content-security-policy"].to_str().expect("text");
    for rule in ["frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.split("; ").any(|one| one == rule), "{page}: {rule} is not in {policy}");
    }
}

async fn get(client: &Client, path: &str) -> (HeaderMap, String) {
    let answer = client.request(reqwest::Method::GET, path).send().await.expect("an answer");
    assert_eq!(answer.status(), 200, "{path}");
    let headers = answer.headers().clone();
    (headers, answer.text().await.expect("a text"))
}

fn addresses(page: &str) -> impl Iterator<Item = &str> {
    let quoted = ["href=\"", "src=\""].into_iter().flat_map(|attribute| page.split(attribute).skip(1));
    quoted.filter_map(|rest| rest.split('"').next())
}
