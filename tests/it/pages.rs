//! Headers and addresses of pages (contract: pages); `webkit` tests their behaviour.

mod webkit;

use kitfleet_api::permissions::ROUTES;
use reqwest::Method;
use reqwest::header::HeaderMap;

use crate::support::routes::sample;
use crate::support::{App, Client};

/// Contract: pages 3. Addresses contain tokens, so pages send no referrer either.
#[tokio::test]
async fn pages_are_not_cached_and_run_only_own_scripts() {
    let app = App::simulated().start().await;
    for page in ["/activate", "/verify-email", "/magic-link", "/reset-password", "/confirm-sign-in", "/team/accept"] {
        let (headers, text) = get(&app.stranger(), &format!("{page}?token=secret&user_code=secret")).await;
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let policy = headers["content-security-policy"].to_str().expect("text");
        for rule in ["default-src 'none'", "script-src 'self'", "form-action 'none'", "frame-ancestors 'none'"] {
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

/// A new version has another address. An address of another version still returns the file, uncached.
#[tokio::test]
async fn assets_are_cached_by_version() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let (_, page) = get(&stranger, "/activate").await;
    let assets: Vec<_> = addresses(&page).filter(|address| address.starts_with("/assets/")).collect();
    assert_eq!(assets.len(), 2, "{page}");
    for asset in assets {
        let (headers, text) = get(&stranger, asset).await;
        assert_eq!(headers["cache-control"], "public, max-age=31536000, immutable");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        let file = asset.rsplit('/').next().expect("a name");
        let media_type = if file == "page.css" { "text/css" } else { "text/javascript" };
        assert!(headers["content-type"].to_str().expect("text").starts_with(media_type), "{asset}");
        let (headers, same) = get(&stranger, &format!("/assets/another/{file}")).await;
        assert_eq!((headers["cache-control"].to_str().expect("text"), same), ("no-store", text));
    }
    stranger.get("/assets/another/nothing.js").await.problem(404, "not-found");
    app.stop().await;
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
