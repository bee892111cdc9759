//! Device properties that a page can read.

use kitfleet_domain::archetypes;
use serde_json::{Value, json};

use crate::webkit::{Scene, text};

/// Contract: archetypes 4. Without an archetype they are those of the default one (contract: archetypes 2).
#[tokio::test]
async fn page_sees_the_device_of_the_catalogue() {
    let Scene { app, site, client, session } = Scene::start().await;
    let created = client.get(&format!("/v1/sessions/{session}")).await.expect(200);
    assert_eq!(created.body["archetype"], "iphone-16-ios-18");
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);

    for id in ["", "iphone-16-pro-max-ios-18", "iphone-se-3-ios-18", "ipad-10-ipados-18"] {
        let (body, id) = if id.is_empty() { (json!({}), "iphone-16-ios-18") } else { (json!({"archetype": id}), id) };
        let device = archetypes::find(id).expect("an entry of the catalogue");
        let session = client.session_with(body).await;
        let seen_before = site.user_agents().len();
        client.navigate(&session, &site.url("/device")).await;

        let seen = text(&client, &session, "#device").await;
        let mut seen: Value = serde_json::from_str(seen.as_str().expect("text")).expect("JSON");
        let webdriver = seen.as_object_mut().expect("an object").remove("webdriver");
        assert!(matches!(webdriver, None | Some(Value::Bool(false))), "{id} reports a driver: {webdriver:?}");
        let expected = json!({
            "userAgent": device.user_agent,
            "platform": device.platform,
            "innerWidth": device.viewport.width,
            "innerHeight": device.viewport.height,
            "devicePixelRatio": device.device_pixel_ratio,
            "maxTouchPoints": device.max_touch_points,
            "screen": [device.screen.width, device.screen.height],
            "coarse": true,
            "hover": false,
            "touch": true,
        });
        assert_eq!(seen, expected, "{id}");

        let agents = site.user_agents().split_off(seen_before);
        assert!(!agents.is_empty());
        assert!(agents.iter().all(|agent| *agent == device.user_agent), "{id}: {agents:?}");
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    app.stop().await;
}

/// Rows of the table in the contract: expression and value.
fn facts() -> Vec<(String, String)> {
    let page = include_str!("../../../docs/device-facts.md");
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
        cells[0].parse::<u32>().ok()?;
        let bare =
            |cell: &str| cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')).unwrap_or_default().to_owned();
        Some((bare(cells[1]), bare(cells[2])))
    };
    page.lines().filter_map(row).collect()
}

/// Contract: archetypes 4. This holds for each kind of device.
#[tokio::test]
async fn page_sees_the_facts_of_the_contract() {
    let facts = facts();
    assert!(facts.len() >= 60, "{} rows", facts.len());
    let Scene { app, site, client, .. } = Scene::start().await;
    let expressions: Vec<&String> = facts.iter().map(|(expression, _)| expression).collect();
    let page = format!(
        "<!doctype html><meta name=viewport content='width=device-width'><pre id=o></pre><script>
         const read = (text) => {{ try {{ return String((0, eval)(text)); }} catch (error) {{ return String(error); }} }};
         o.textContent = JSON.stringify({}.map(read))</script>",
        json!(expressions)
    );
    for id in ["iphone-16-ios-18", "iphone-se-3-ios-18", "ipad-10-ipados-18"] {
        let device = archetypes::find(id).expect("an entry of the catalogue");
        let session = client.session_with(json!({"archetype": id})).await;
        client.navigate(&session, &site.written(&page)).await;
        let seen = text(&client, &session, "#o").await;
        let seen: Vec<String> = serde_json::from_str(seen.as_str().expect("text")).expect("JSON");
        for ((expression, value), seen) in facts.iter().zip(seen) {
            let value = match value.as_str() {
                "{platform}" => device.platform.clone(),
                "{user_agent}" => device.user_agent.clone(),
                "{max_touch_points}" => device.max_touch_points.to_string(),
                "{device_pixel_ratio}" => device.device_pixel_ratio.to_string(),
                "{screen.width}" => device.screen.width.to_string(),
                "{screen.height}" => device.screen.height.to_string(),
                "{viewport.width}" => device.viewport.width.to_string(),
                "{viewport.height}" => device.viewport.height.to_string(),
                other => other.to_owned(),
            };
            assert_eq!(seen, value, "{expression} of {id}");
        }
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    app.stop().await;
}
