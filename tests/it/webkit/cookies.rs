//! Cookies of real browsers (contract: cookies).

use serde_json::{Value, json};

use crate::cookies::{cookies, names, set};
use crate::webkit::Scene;

/// Contract: cookies 1, 3. They can be set in another session. Pages and servers see them.
#[tokio::test]
async fn cookies_go_from_one_session_to_another() {
    let mut scene = Scene::start().await;
    scene.visit("/cookies").await;
    scene.evaluate("document.cookie = 'quoted=\"a,b c\"; path=/list'").await.expect(200);
    let read = cookies(&scene.client, &scene.session).await;
    assert_eq!(names(&read), ["hidden", "plain", "quoted"]);
    let hidden = read.iter().find(|cookie| cookie["name"] == "hidden").expect("a cookie");
    assert_eq!((&hidden["http_only"], &hidden["same_site"]), (&json!(true), &json!("strict")));
    assert!(hidden["expires"].is_string(), "{hidden}");

    scene.begin_again().await;
    assert!(cookies(&scene.client, &scene.session).await.is_empty());
    set(&scene.client, &scene.session, Value::from(read.clone())).await.expect(204);
    let again = cookies(&scene.client, &scene.session).await;
    assert_eq!(names(&again), names(&read));
    for cookie in &read {
        assert!(again.contains(cookie), "{cookie} is not in {again:?}");
    }
    scene.visit("/list").await;
    let seen = scene.evaluate("return document.cookie.split('; ').sort()").await.expect(200).body;
    assert_eq!(seen["value"], json!(["plain=1", "quoted=\"a,b c\""]));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: cookies 3, 6. The value makes no difference to a replacement.
#[tokio::test]
async fn cookies_are_replaced_and_deleted() {
    let scene = Scene::start().await;
    let (client, session) = (&scene.client, &scene.session);
    let path = format!("/v1/sessions/{session}/cookies");
    let cookie = |name: &str, value: &str, domain: &str| json!({"name": name, "value": value, "domain": domain});
    let first =
        json!([cookie("a", "1", "127.0.0.1"), cookie("b", "1", ".example.com"), cookie("b", "2", "example.com")]);
    set(client, session, first).await.expect(204);
    set(client, session, json!([cookie("a", "2", "127.0.0.1")])).await.expect(204);
    let all = cookies(client, session).await;
    assert_eq!(names(&all), ["a", "b", "b"]);
    assert!(all.iter().any(|cookie| cookie["name"] == "a" && cookie["value"] == "2"), "{all:?}");
    scene.visit("/").await;
    client.delete(&format!("{path}?domain=.example.com")).await.expect(204);
    assert_eq!(cookies(client, session).await.iter().filter(|cookie| cookie["name"] == "b").count(), 1);
    client.delete(&format!("{path}?domain=example.com&name=b")).await.expect(204);
    assert!(!names(&cookies(client, session).await).contains(&"b"));
    client.delete(&path).await.expect(204);
    assert!(cookies(client, session).await.is_empty());
    let seen = scene.evaluate("return document.cookie").await.expect(200).body;
    assert_eq!(seen["value"], "");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: cookies 4, 5. No cookie is set.
#[tokio::test]
async fn cookies_that_a_browser_would_drop_are_400() {
    let scene = Scene::start().await;
    let (client, session) = (&scene.client, &scene.session);
    let cookie = |domain: &str| json!({"name": "a", "value": "1", "domain": domain});
    for suffix in ["com", ".co.uk", "github.io"] {
        set(client, session, json!([cookie("example.com"), cookie(suffix)])).await.invalid("cookies.1.domain");
    }
    let mut expired = cookie("example.com");
    expired["expires"] = json!("2020-01-01T00:00:00Z");
    set(client, session, json!([cookie("example.com"), expired])).await.invalid("cookies.1.expires");
    assert!(cookies(client, session).await.is_empty());
    let many = (0..1_000).map(|i| json!({"name": format!("n{i}"), "value": "1", "domain": "example.com"}));
    set(client, session, many.collect()).await.expect(204);
    assert_eq!(cookies(client, session).await.len(), 1_000);
    client.delete(&format!("/v1/sessions/{session}/cookies")).await.expect(204);
    assert!(cookies(client, session).await.is_empty());
    scene.assert_ready().await;
    scene.app.stop().await;
}
