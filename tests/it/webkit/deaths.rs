//! Browsers that end by themselves (contract: operators 7).

use nix::sys::signal::{Signal, kill};

use super::{Scene, until_status};
use crate::metrics::{TOKEN, value};
use crate::support::App;

/// Contract: operators 7. A browser that dies is counted by what it died of, and one that was closed is not.
#[tokio::test]
async fn a_browser_that_dies_is_counted_by_its_cause() {
    let app = App::webkit().set("metrics.scrape_token", TOKEN).set("worker.warm_pool", "0").start().await;
    let mut scene = Scene::of(app).await;
    for (process, cause) in [("WebKitWebProcess", "page_process"), ("kitfleet-host", "host")] {
        scene.begin_again().await;
        scene.visit("/list").await;
        for pid in scene.app.processes(process) {
            kill(pid, Signal::SIGKILL).expect("it runs");
        }
        until_status(&scene.client, &scene.session, "errored").await;
        let deaths = value(&scene.app, &format!("service_browser_death_total{{cause=\"{cause}\"}}")).await;
        assert!((deaths - 1.0).abs() < 0.5, "{cause}: {deaths}");
    }
    scene.app.stop().await;
}
