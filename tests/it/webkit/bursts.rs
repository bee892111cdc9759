//! Number of warm browsers after bursts of creates.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{App, Builder, Client, at_once, eventually};
use crate::webkit::processes::below;

/// For a burst.
const REMEMBERED: Duration = Duration::from_mins(5);

/// In this process, with metrics.
fn warm_pool_app() -> Builder {
    App::webkit().here().set("worker.warm_pool", "auto").set("metrics.scrape_token", "scrape")
}

/// No other browser runs except those of this number of sessions.
async fn until_hot(app: &App, hot: usize, sessions: usize) {
    let scraper = Client::new(&app.base_url, Some("scrape"));
    let told = format!("service_browsers_hot {hot}");
    eventually(Duration::from_secs(30), &format!("{told}, beside {sessions} sessions"), async || {
        let text = scraper.request(Method::GET, "/metrics").send().await.ok()?.text().await.ok()?;
        let hosts = below(Pid::this(), "kitfleet-host").len();
        (text.lines().any(|line| line == told) && hosts == hot + sessions).then_some(())
    })
    .await;
}

/// Concurrently.
async fn burst(client: &Client, size: usize) -> Vec<String> {
    at_once((0..size).map(|_| {
        let client = client.clone();
        async move { client.session().await }
    }))
    .await
}

async fn end_all(client: &Client, sessions: Vec<String>) {
    for session in sessions {
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
}

/// Contract: workers 28; staff 19. A draining worker has none.
#[tokio::test]
async fn warm_browsers_return_after_a_drain() {
    let app = warm_pool_app().start().await;
    let (client, staff) = (app.client().await, app.staff().await);
    until_hot(&app, 1, 0).await;
    let worker = staff.get("/v1/admin/workers").await.expect(200).body["data"][0].clone();
    assert!(worker["is_sandboxed"].is_boolean(), "{worker}");
    let path = |what: &str| format!("/v1/admin/workers/{}/{what}", worker["id"].as_str().expect("an id"));
    let because = json!({"reason": "a new kernel"});
    staff.post(&path("drain"), because.clone()).await.expect(200);
    until_hot(&app, 0, 0).await;
    staff.post(&path("undrain"), because).await.expect(200);
    until_hot(&app, 1, 0).await;
    client.session().await;
    app.stop().await;
}

/// After some minutes without a burst, the extra browsers are closed.
#[tokio::test]
async fn number_of_warm_browsers_follows_recent_bursts() {
    let app = warm_pool_app().set("worker.max_sessions", "4").start().await;
    let client = app.client().await;
    until_hot(&app, 1, 0).await;

    let sessions = burst(&client, 3).await;
    until_hot(&app, 1, 3).await;
    end_all(&client, sessions).await;
    until_hot(&app, 3, 0).await;
    let victim = below(Pid::this(), "kitfleet-host")[0];
    kill(victim, Signal::SIGKILL).expect("it runs");
    eventually(Duration::from_secs(10), "the browser has ended", async || {
        (!below(Pid::this(), "kitfleet-host").contains(&victim)).then_some(())
    })
    .await;
    until_hot(&app, 3, 0).await;

    let sessions = burst(&client, 4).await;
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    until_hot(&app, 0, 4).await;
    end_all(&client, sessions).await;
    until_hot(&app, 4, 0).await;

    app.clock.advance(REMEMBERED / 2);
    end_all(&client, burst(&client, 2).await).await;
    app.clock.advance(REMEMBERED / 2);
    until_hot(&app, 2, 0).await;
    app.clock.advance(REMEMBERED);
    until_hot(&app, 1, 0).await;
    app.stop().await;
}

/// Creates during the failure fail, and later ones succeed.
#[tokio::test]
async fn failed_browser_starts_are_retried() {
    let programs = TempDir::new().expect("a folder");
    let built = Path::new(env!("CARGO_BIN_EXE_kitfleet"));
    for name in ["kitfleet-host", "kitfleet-keeper", "libkitfleet_extension.so"] {
        fs::copy(built.with_file_name(name), programs.path().join(name)).expect("a copy");
    }
    let (host, away) = (programs.path().join("kitfleet-host"), programs.path().join("away"));
    let app = warm_pool_app().set("worker.host_program", &host.display().to_string()).start().await;
    let client = app.client().await;
    fs::rename(&host, &away).expect("a rename");
    let session = client.session().await;
    client.post("/v1/sessions", json!({})).await.problem(502, "driver-error");
    fs::rename(&away, &host).expect("a rename");
    until_hot(&app, 2, 1).await;
    end_all(&client, vec![session, client.session().await]).await;
    app.stop().await;
}
