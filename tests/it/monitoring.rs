//! What is watched: alerts, dashboards and the runbook, held against what the service tells (contract: operators 10).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::metrics::scraped;
use crate::support::{App, Client};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("monitoring")
}

fn read(path: &str) -> String {
    fs::read_to_string(folder().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The expressions of both dashboards.
fn of_dashboards() -> Vec<String> {
    let boards = ["service", "workers"].map(|name| read(&format!("dashboards/{name}.json")));
    let panels = boards.iter().flat_map(|board| {
        let board: Value = serde_json::from_str(board).expect("JSON");
        board["panels"].as_array().expect("panels").clone()
    });
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets").clone());
    targets.map(|target| target["expr"].as_str().expect("an expression").to_owned()).collect()
}

/// Words that begin as our metrics do.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("service_")).map(ToOwned::to_owned).collect()
}

fn alerts() -> BTreeSet<String> {
    let rules = read("alerts.yaml");
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(ToOwned::to_owned).collect()
}

/// Contract: operators 10. Each metric that an alert or a dashboard asks for is one that the service tells.
#[tokio::test]
async fn what_is_watched_is_told() {
    let app = scraped(App::simulated()).start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.operate(&session, "interact", json!({"action": {"kind": "tap", "selector": "#button"}})).await.expect(200);
    let scraper = Client::new(&app.base_url, Some(crate::metrics::TOKEN));
    let text = scraper.request(Method::GET, "/metrics").send().await.expect("an answer").text().await.expect("text");
    let told = metrics_in(&text);
    let asked = metrics_in(&(read("alerts.yaml") + &of_dashboards().join("\n")));
    assert!(asked.len() > 20, "{asked:?}");
    // A histogram that has measured nothing yet is not told.
    let measured_later = BTreeSet::from(["service_webhook_attempt_duration_seconds_bucket".to_owned()]);
    let missing: Vec<_> = asked.difference(&told).filter(|name| !measured_later.contains(*name)).collect();
    assert!(missing.is_empty(), "nobody tells {missing:?}");
    app.stop().await;
}

/// Contract: operators 10. The runbook has a word for each alert, and for no other.
#[test]
fn the_runbook_has_each_alert() {
    let runbook = fs::read_to_string(folder().join("../docs/runbook.md")).expect("the runbook");
    let headings = runbook.lines().filter_map(|line| line.strip_prefix("## ")).map(ToOwned::to_owned);
    assert_eq!(headings.collect::<BTreeSet<_>>(), alerts());
}

/// Runs Prometheus's own reader of rules.
fn promtool(at: &Path, args: &[&str]) {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(target).join("promtool/promtool");
    let ran = Command::new(program).args(args).current_dir(at).output().expect("promtool runs");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{args:?}: {said}");
}

/// Contract: operators 10. The alerts come when they should, and do not when they should not; Prometheus reads every expression.
#[test]
fn promtool_reads_the_rules_and_the_dashboards() {
    promtool(&folder(), &["check", "rules", "alerts.yaml"]);
    promtool(&folder(), &["test", "rules", "alerts.test.yaml"]);
    let rules: Vec<_> = of_dashboards()
        .iter()
        .enumerate()
        .map(|(number, expression)| json!({"record": format!("panel:{number}"), "expr": expression}))
        .collect();
    let scratch = TempDir::new().expect("a folder");
    // JSON is YAML.
    let file = json!({"groups": [{"name": "dashboards", "rules": rules}]}).to_string();
    fs::write(scratch.path().join("dashboards.yaml"), file).expect("a file");
    promtool(scratch.path(), &["check", "rules", "dashboards.yaml"]);
}
