//! Contract: operators 7.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use super::{Scene, until_status};
use crate::metrics::{TOKEN, value};
use crate::support::namespaces::{run_on_small_disk, small_disk};
use crate::support::{App, eventually};

/// Contract: workers 17. A create would fail there.
#[tokio::test]
async fn worker_with_a_full_disk_receives_no_sessions() {
    run_on_small_disk("webkit::deaths::full_disk_inside_mount_namespace").await;
}

#[tokio::test]
#[ignore = "runs with separate mounts that another test creates"]
async fn full_disk_inside_mount_namespace() {
    let disk = small_disk(128);
    let app = App::webkit().start().await;
    let client = app.client().await;
    let before = client.session().await;
    let filler = disk.join("filler");
    std::fs::write(&filler, vec![1; 123 * 1024 * 1024]).expect("enough free space");
    let limit = Duration::from_secs(15);
    let refused = eventually(limit, "creates are rejected", async || {
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

/// Contract: operators 7. A closed browser is not counted. A metric reports the memory of browsers.
#[tokio::test]
async fn browser_deaths_are_counted_by_cause() {
    let app = App::webkit().set("metrics.scrape_token", TOKEN).start().await;
    let mut scene = Scene::of(app).await;
    let causes =
        [("WebKitWebProcess", "page_process"), ("kitfleet-host", "host"), ("WebKitNetworkProcess", "network_process")];
    for (process, cause) in causes {
        scene.begin_again().await;
        scene.visit("/list").await;
        // A browser with a loaded page has at least this much memory of its own. The metric is updated every 10 s.
        let memory = async || value(&scene.app, "service_browser_memory_bytes").await > 20e6;
        eventually(Duration::from_secs(20), "the metric reports the memory", async || memory().await.then_some(()))
            .await;
        for pid in scene.app.processes(process) {
            kill(pid, Signal::SIGKILL).expect("it runs");
        }
        until_status(&scene.client, &scene.session, "errored").await;
        // The death is counted when the failure has been recorded.
        let deaths = format!("service_browser_death_total{{cause=\"{cause}\"}}");
        let counted = async || ((value(&scene.app, &deaths).await - 1.0).abs() < 0.5).then_some(());
        eventually(Duration::from_secs(5), cause, counted).await;
    }
    scene.app.stop().await;
}
