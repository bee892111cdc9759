//! The pages that people see in their browsers (contract: pages): what they are, and in `webkit` what they do.

mod webkit;

use reqwest::header::HeaderMap;

use crate::support::{App, Client};

/// Contract: pages 3. Tokens are in addresses, so that nothing of a page is kept or told to others; and no page runs what does
/// not come from the service, nor sends a form by itself.
#[tokio::test]
async fn a_page_keeps_its_address_to_itself_and_runs_only_scripts_of_the_service() {
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
        assert!(!text.contains("secret"), "a page is the same for everybody: {text}");
        for address in addresses(&text).filter(|address| !address.starts_with("data:")) {
            assert!(address.starts_with('/') && !address.starts_with("//"), "{page} leads to {address}");
        }
    }
    app.stop().await;
}

/// A browser may keep scripts and styles for ever, because others have another address; an address that was of another
/// version still leads to something that works.
#[tokio::test]
async fn scripts_and_styles_are_kept_as_long_as_they_are_good() {
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

async fn get(client: &Client, path: &str) -> (HeaderMap, String) {
    let answer = client.request(reqwest::Method::GET, path).send().await.expect("an answer");
    assert_eq!(answer.status(), 200, "{path}");
    let headers = answer.headers().clone();
    (headers, answer.text().await.expect("a text"))
}

/// Where a page leads, and what it loads.
fn addresses(page: &str) -> impl Iterator<Item = &str> {
    let quoted = ["href=\"", "src=\""].into_iter().flat_map(|attribute| page.split(attribute).skip(1));
    quoted.filter_map(|rest| rest.split('"').next())
}
