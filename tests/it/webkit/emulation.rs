//! Emulation of real browsers (contract: sessions 28 to 38).

use std::time::Duration;

use kitfleet_domain::archetypes;
use serde_json::{Value, json};

use crate::support::{App, Client, Site, eventually};
use crate::webkit::text;

/// Page that shows what it reads as JSON.
const SHOWN: &str = "<p id='it'></p><script>
    it.textContent = JSON.stringify({
        language: navigator.language, languages: navigator.languages,
        timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        offset: new Date(Date.UTC(2026, 0, 1)).getTimezoneOffset(),
        viewport: [innerWidth, innerHeight], screen: [screen.width, screen.height],
    });
</script>";

async fn seen(client: &Client, site: &Site, session: &str) -> Value {
    client.navigate(session, &site.written(SHOWN)).await;
    let seen = text(client, session, "#it").await;
    serde_json::from_str(seen.as_str().expect("text")).expect("JSON")
}

/// Contract: sessions 29, 30, 32. It sees a change of the orientation too.
#[tokio::test]
async fn page_sees_language_time_zone_and_orientation() {
    let app = App::webkit().start().await;
    let (site, client) = (Site::start().await, app.client().await);
    let device = archetypes::launch();
    let (viewport, screen) =
        ([device.viewport.width, device.viewport.height], [device.screen.width, device.screen.height]);
    let turned = |[width, height]: [u32; 2]| [height, width];
    let body = json!({"locale": "de-CH", "timezone": "America/St_Johns", "orientation": "landscape"});
    let session = client.session_with(body).await;
    let mut expected = json!({
        "language": "de-CH", "languages": ["de-CH"], "timezone": "America/St_Johns", "offset": 210,
        "viewport": turned(viewport), "screen": turned(screen),
    });
    assert_eq!(seen(&client, &site, &session).await, expected);

    let path = format!("/v1/sessions/{session}/emulation");
    client.patch(&path, json!({"orientation": null})).await.expect(200);
    expected["viewport"] = json!(viewport);
    expected["screen"] = json!(screen);
    assert_eq!(seen(&client, &site, &session).await, expected);
    app.stop().await;
}

/// Contract: sessions 35. It loads again when it is online.
#[tokio::test]
async fn offline_browser_loads_nothing() {
    let app = App::webkit().start().await;
    let (site, client) = (Site::start().await, app.client().await);
    let session = client.session_with(json!({"offline": true})).await;
    let path = format!("/v1/sessions/{session}/emulation");
    client.patch(&path, json!({"offline": false})).await.expect(200);
    client.navigate(&session, &site.url("/")).await;
    let hits = site.hits();
    client.patch(&path, json!({"offline": true})).await.expect(200);
    let body = json!({"url": site.url("/list")});
    let refused = client.operate(&session, "navigate", body).await.problem(502, "driver-error");
    assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.contains("offline")), "{}", refused.body);
    assert_eq!(site.hits(), hits);
    app.stop().await;
}

/// Contract: sessions 37; operations 43.
#[tokio::test]
async fn change_reaches_a_page_in_the_background() {
    let app = App::webkit().start().await;
    let (site, client) = (Site::start().await, app.client().await);
    let session = client.session().await;
    let shown = "<p id=it></p><script>setInterval(() => { it.textContent =
        [matchMedia('(prefers-color-scheme: dark)').matches, innerWidth > innerHeight] }, 50)</script>";
    client.navigate(&session, &site.written(shown)).await;
    let pages = format!("/v1/sessions/{session}/pages");
    let first = client.get(&pages).await.expect(200).body["data"][0]["id"].as_str().expect("an id").to_owned();
    client.operate(&session, "pages", json!({"url": site.written(shown)})).await.expect(201);
    let change = json!({"color_scheme": "dark", "orientation": "landscape", "extra_headers": [{"name": "X-Test", "value": "late"}]});
    client.patch(&format!("/v1/sessions/{session}/emulation"), change).await.expect(200);
    let sees_change = async |page: &str| {
        eventually(Duration::from_secs(8), page, async || {
            (text(&client, &session, "#it").await == "true,true").then_some(())
        })
        .await;
    };
    sees_change("the active page").await;
    client.post(&format!("{pages}/{first}/activate"), json!({})).await.expect(200);
    sees_change("the page that was in the background").await;
    client.navigate(&session, &site.url("/header")).await;
    assert_eq!(text(&client, &session, "#header").await, "late");
    app.stop().await;
}
