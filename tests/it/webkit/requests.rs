//! Requests of scripts that an unapproved step of an agent causes.

use std::time::Duration;

use crate::support::eventually;
use crate::webkit::agents::{Agent, assert_reply_contains, step_statuses};

/// Contract: agents 47. The page's site is the target. The approval repeats the tap.
#[tokio::test]
async fn request_of_an_unapproved_tap_waits_for_approval() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let sends = [
        "fetch('/hit', {method: 'POST', body: '1'})",
        "fetch('/hit', {method: 'POST', keepalive: true, body: '1'})",
        "const request = new XMLHttpRequest(); request.open('POST', '/hit'); request.send('1')",
        "navigator.sendBeacon('/hit', '1')",
        "Promise.resolve().then(() => fetch('/hit', {method: 'POST'}))",
        "setTimeout(() => fetch('/hit', {method: 'POST'}))",
    ];
    for (sent, script) in sends.into_iter().enumerate() {
        let taps = "log.textContent += 1";
        scene.show(&format!("<p id=log></p><button onclick=\"{taps}; {script}\">Look</button>")).await;
        let asked = agent.send_message("tap Look").await;
        assert_eq!(step_statuses(&asked), ["needs_approval"], "{script}: {asked}");
        assert_reply_contains(&asked, "a script of the page would send data");
        agent.wait_ms(300).await;
        assert_eq!((scene.site.posts(), scene.text("#log").await), (sent, "1".into()), "{script}");
        let done = agent.approve(&asked, 0).await;
        assert_eq!(step_statuses(&done), ["done"], "{script}: {done}");
        eventually(Duration::from_secs(5), "the request is sent", async || {
            (scene.site.posts() == sent + 1).then_some(())
        })
        .await;
        assert_eq!(scene.text("#log").await, "11", "{script}");
    }
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 47.
#[tokio::test]
async fn request_of_a_foreign_frame_to_its_own_site_is_held() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let inner = "<meta name=referrer content=no-referrer>
        <button onclick=\"fetch('/hit', {method: 'POST'})\">Look</button><button onclick=\"navigator.sendBeacon('/hit', '1')\">Glance</button>";
    let frame = scene.written(inner).replace("127.0.0.1", "localhost");
    scene.show(&format!("<iframe src=\"{frame}\"></iframe>")).await;
    for name in ["Look", "Glance"] {
        let asked = agent.send_message(&format!("tap {name}")).await;
        assert_eq!(step_statuses(&asked), ["needs_approval"], "{asked}");
    }
    agent.wait_ms(300).await;
    assert_eq!(scene.site.posts(), 0);
    agent.scene.app.stop().await;
}

/// Contract: agents 47. They only read, go to other sites, or follow the step.
#[tokio::test]
async fn other_requests_of_an_unapproved_tap_are_sent() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let elsewhere = scene.site.url_under("localhost", "/hit");
    let sends = [
        "fetch('/hit')".to_owned(),
        format!("fetch('{elsewhere}', {{method: 'POST', mode: 'no-cors', body: '1'}})"),
        format!("navigator.sendBeacon('{elsewhere}', '1')"),
        "setTimeout(() => fetch('/hit', {method: 'POST'}), 1500)".to_owned(),
    ];
    for (sent, script) in sends.into_iter().enumerate() {
        scene.show(&format!("<button onclick=\"{script}\">Look</button>")).await;
        let turn = agent.send_message("tap Look").await;
        assert_eq!(step_statuses(&turn), ["done"], "{script}: {turn}");
        eventually(Duration::from_secs(5), "the request is sent", async || {
            (scene.site.hits() == sent + 1).then_some(())
        })
        .await;
    }
    // The ping of a link is discarded, and its link is followed.
    scene.show("<a href=/list ping=/hit>List</a>").await;
    let turn = agent.send_message("tap \"List\", wait for the address to contain \"list\"").await;
    assert_eq!(step_statuses(&turn), ["done", "done"], "{turn}");
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 47.
#[tokio::test]
async fn requests_of_the_customers_own_taps_are_sent() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    scene.show("<button onclick=\"fetch('/hit', {method: 'POST'})\">Look</button>").await;
    let asked = agent.send_message("tap Look").await;
    assert_eq!(step_statuses(&asked), ["needs_approval"], "{asked}");
    let tap = serde_json::json!({"kind": "tap", "selector": "button"});
    let result = scene.act(tap).await.expect(200).body;
    assert!(result.get("request_held").is_none(), "{result}");
    eventually(Duration::from_secs(5), "the request is sent", async || (scene.site.posts() == 1).then_some(())).await;
    agent.scene.app.stop().await;
}
