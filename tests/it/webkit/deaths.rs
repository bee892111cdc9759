//! Browsers that end by themselves (contract: operators 7).

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use super::{Scene, until_status};
use crate::metrics::{TOKEN, value};
use crate::support::namespaces::{run_on_small_disk, small_disk};
use crate::support::{App, eventually};

/// Contract: workers 17. A worker whose disk is nearly full would fail every create: nothing is placed on it until it has room.
#[tokio::test]
async fn a_worker_without_room_on_its_disk_gets_no_session() {
    run_on_small_disk("webkit::deaths::inside_a_disk_that_fills").await;
}

/// See [`a_worker_without_room_on_its_disk_gets_no_session`], which starts it.
#[tokio::test]
#[ignore = "runs with mounts of its own, where another test starts it"]
async fn inside_a_disk_that_fills() {
    let disk = small_disk(128);
    let app = App::webkit().start().await;
    let client = app.client().await;
    let before = client.session().await;
    let filler = disk.join("filler");
    std::fs::write(&filler, vec![1; 123 * 1024 * 1024]).expect("there is room");
    let limit = Duration::from_secs(15);
    let refused = eventually(limit, "creates are refused", async || {
        let answer = client.post("/v1/sessions", json!({})).await;
        (answer.status == 503).then_some(answer)
    });
    refused.await.problem(503, "capacity-exhausted");
    client.get(&format!("/v1/sessions/{before}/state")).await.expect(200);
    std::fs::remove_file(filler).expect("the file");
    let placed = async || Some(client.post("/v1/sessions", json!({})).await).filter(|answer| answer.status == 201);
    eventually(limit, "sessions are placed again", placed).await;
    app.stop().await;
}

/// Contract: operators 7. A browser that dies is counted by what it died of, and one that was closed is not; how much memory browsers have is
/// told. (Those that took too much die in `confinement`.)
#[tokio::test]
async fn a_browser_that_dies_is_counted_by_its_cause() {
    let app = App::webkit().set("metrics.scrape_token", TOKEN).start().await;
    let mut scene = Scene::of(app).await;
    let causes =
        [("WebKitWebProcess", "page_process"), ("kitfleet-host", "host"), ("WebKitNetworkProcess", "network_process")];
    for (process, cause) in causes {
        scene.begin_again().await;
        scene.visit("/list").await;
        // A browser that shows a page has that much at least, whatever it shares with others. It is measured every 10 s.
        let memory = async || value(&scene.app, "service_browser_memory_bytes").await > 20e6;
        eventually(Duration::from_secs(20), "its memory is told", async || memory().await.then_some(())).await;
        for pid in scene.app.processes(process) {
            kill(pid, Signal::SIGKILL).expect("it runs");
        }
        until_status(&scene.client, &scene.session, "errored").await;
        // It is counted when that is written down.
        let deaths = format!("service_browser_death_total{{cause=\"{cause}\"}}");
        let counted = async || ((value(&scene.app, &deaths).await - 1.0).abs() < 0.5).then_some(());
        eventually(Duration::from_secs(5), cause, counted).await;
    }
    scene.app.stop().await;
}
