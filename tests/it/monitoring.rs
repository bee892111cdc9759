//! Alerts, dashboards, the chart's scaling and the runbook (contract: operators 10).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::metrics::{self, samples, scraped};
use crate::support::app::free_port;
use crate::support::sink::Sink;
use crate::support::{App, Redis, eventually, plain_http};
use crate::webhooks;

/// Of Prometheus about its targets, and of the blackbox exporter.
const OF_OTHERS: [&str; 3] = ["up", "probe_success", "probe_ssl_earliest_cert_expiry"];

/// Prometheus adds them to a target, unless its configuration is static.
const TARGET_LABELS: [&str; 2] = ["namespace", "release"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("monitoring")
}

fn read(path: &str) -> String {
    fs::read_to_string(folder().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// "All" is chosen for each variable.
fn dashboard_expressions() -> Vec<String> {
    let boards = ["service", "workers"].map(|name| read(&format!("dashboards/{name}.json")));
    let panels = boards.iter().flat_map(|board| {
        let board: Value = serde_json::from_str(board).expect("JSON");
        board["panels"].as_array().expect("panels").clone()
    });
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets").clone());
    let expressions = targets.map(|target| target["expr"].as_str().expect("an expression").to_owned());
    expressions.map(|expression| expression.replace("$namespace", ".*").replace("$release", ".*")).collect()
}

fn alert_expressions() -> Vec<String> {
    let alert = Regex::new(r"(?s)\n        expr: (?:>-)?(.*?)\n        (?:for|labels):").expect("an expression");
    let expressions: Vec<_> =
        alert.captures_iter(&read("alerts.yaml")).map(|found| found[1].trim().to_owned()).collect();
    assert_eq!(expressions.len(), alerts().len());
    expressions
}

fn chart_expressions() -> Vec<String> {
    let chart = read("../packaging/helm/kitfleet/templates/worker.yaml");
    let queries = chart.lines().filter_map(|line| line.trim().strip_prefix("query: "));
    let values = Regex::new(r"\{\{[^}]*\}\}").expect("an expression");
    queries.map(|query| values.replace_all(query, "fleet").into_owned()).collect()
}

/// A metric of an expression, with the values its labels must have one of.
#[derive(Debug)]
struct Selector {
    metric: String,
    labels: Vec<(String, Vec<String>)>,
}

impl Selector {
    fn is_ours(&self) -> bool {
        !OF_OTHERS.contains(&self.metric.as_str())
    }

    fn query(&self) -> String {
        let labels: Vec<_> =
            self.labels.iter().map(|(name, values)| format!("{name}=~\"{}\"", values.join("|"))).collect();
        format!("{}{{{}}}", self.metric, labels.join(","))
    }
}

/// Names that are neither function calls nor grouping labels.
fn selectors(expression: &str) -> Vec<Selector> {
    let groups = Regex::new(r"\b(by|without|on|ignoring)\s*\([^)]*\)").expect("an expression");
    let named = Regex::new(r"\b([a-z_:][a-z0-9_:]*)\s*(?:\{([^}]*)\})?\s*(\()?").expect("an expression");
    let matcher = Regex::new(r#"(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)""#).expect("an expression");
    let expression = groups.replace_all(expression, " ");
    let found = named.captures_iter(&expression).filter(|found| found.get(3).is_none());
    let found = found.filter(|found| !["and", "or", "unless", "bool", "offset"].contains(&&found[1]));
    found
        .map(|found| {
            let matchers = found.get(2).map_or("", |labels| labels.as_str());
            let labels = matcher.captures_iter(matchers).filter(|found| !TARGET_LABELS.contains(&&found[1]));
            let labels =
                labels.map(|found| (found[1].to_owned(), found[3].split('|').map(ToOwned::to_owned).collect()));
            Selector { metric: found[1].to_owned(), labels: labels.collect() }
        })
        .collect()
}

fn watched_selectors() -> Vec<Selector> {
    let expressions = alert_expressions().into_iter().chain(dashboard_expressions()).chain(chart_expressions());
    let found: Vec<_> = expressions.flat_map(|expression| selectors(&expression)).collect();
    assert!(found.len() > 60, "{found:?}");
    found
}

/// Operations, deliveries, and requests with different results give samples of every metric.
async fn busy_service(sink: &Sink, redis: &Redis) -> App {
    let builder = App::simulated().set("worker.max_sessions", "1").set("redis.url", &redis.url());
    let app = scraped(builder.delivering_to(sink)).start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.operate(&session, "interact", json!({"action": {"kind": "tap", "selector": "#button"}})).await.expect(200);
    client.post("/v1/sessions", json!({})).await.problem(503, "capacity-exhausted");
    let endpoint = webhooks::create(&client, &sink.url("/ok"), &["session.failed"]).await;
    webhooks::test_event(&client, &webhooks::id_of(&endpoint)).await;
    eventually(Duration::from_secs(10), "the attempt is counted", async || {
        let count = "service_webhook_attempt_duration_seconds_count 1";
        samples(&app.base_url).await.iter().any(|sample| sample == count).then_some(())
    })
    .await;
    app
}

fn alerts() -> BTreeSet<String> {
    let rules = read("alerts.yaml");
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(ToOwned::to_owned).collect()
}

/// Contract: operators 10. They have every label value that is used.
#[tokio::test]
async fn watched_metrics_are_reported() {
    let (sink, redis) = (Sink::start().await, Redis::start());
    let app = busy_service(&sink, &redis).await;
    let samples = samples(&app.base_url).await;
    for selector in watched_selectors().into_iter().filter(Selector::is_ours) {
        let reported: Vec<_> = samples
            .iter()
            .filter_map(|sample| sample.strip_prefix(&selector.metric))
            .filter(|rest| rest.starts_with(['{', ' ']))
            .collect();
        assert!(!reported.is_empty(), "the service does not report {selector:?}");
        for (label, values) in &selector.labels {
            for value in values {
                let pair = format!("{label}=\"{value}\"");
                assert!(
                    reported.iter().any(|rest| rest.contains(&pair)),
                    "{pair} of {selector:?} is not reported: {reported:#?}"
                );
            }
        }
    }
    app.stop().await;
}

/// Contract: operators 10.
#[test]
fn runbook_has_a_section_for_each_alert() {
    let runbook = fs::read_to_string(folder().join("../docs/runbook.md")).expect("the runbook");
    let headings = runbook.lines().filter_map(|line| line.strip_prefix("## "));
    let headings = headings.filter(|heading| heading.starts_with("Kitfleet")).map(ToOwned::to_owned);
    assert_eq!(headings.collect::<BTreeSet<_>>(), alerts());
}

/// Unpacked by `tests/promtool/install`.
fn unpacked(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("promtool").join(name)
}

/// Prometheus's own checker of rules.
fn promtool(at: &Path, args: &[&str]) {
    let ran = Command::new(unpacked("promtool")).args(args).current_dir(at).output().expect("promtool runs");
    let output = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{args:?}: {output}");
}

/// Contract: operators 10, 11. The alerts fire in the tested cases only.
#[test]
fn promtool_accepts_the_rules() {
    promtool(&folder(), &["check", "rules", "alerts.yaml"]);
    promtool(&folder(), &["test", "rules", "alerts.test.yaml"]);
}

/// Scrapes a service twice per second and loads the alerts.
struct Prometheus {
    base_url: String,
    http: reqwest::Client,
    _process: tokio::process::Child,
    _folder: TempDir,
}

impl Prometheus {
    fn start(app: &App) -> Self {
        let folder = TempDir::new().expect("a folder");
        let target = app.base_url.strip_prefix("http://").expect("an address");
        // JSON is also YAML.
        let config = json!({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
            "rule_files": [self::folder().join("alerts.yaml")],
            "scrape_configs": [{
                "job_name": "kitfleet", "authorization": {"credentials": metrics::TOKEN}, "static_configs": [{"targets": [target]}],
            }],
        });
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, config.to_string()).expect("a file");
        let address = format!("127.0.0.1:{}", free_port());
        let process = tokio::process::Command::new(unpacked("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("Prometheus starts");
        let http = plain_http().build().expect("an HTTP client");
        Self { base_url: format!("http://{address}"), http, _process: process, _folder: folder }
    }

    /// `None` while Prometheus is not listening yet.
    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Option<Value> {
        let answer = self.http.get(format!("{}{path}", self.base_url)).query(query).send().await.ok()?;
        answer.json().await.ok()
    }

    async fn ask(&self, expression: &str) -> Vec<Value> {
        let answer = self.get("/api/v1/query", &[("query", expression)]).await.unwrap_or_default();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().expect("a vector").clone()
    }
}

/// Contract: operators 10. Every expression of a dashboard and every metric of ours has a result.
#[tokio::test]
async fn promtool_prometheus_answers_every_expression() {
    let (sink, redis) = (Sink::start().await, Redis::start());
    let app = busy_service(&sink, &redis).await;
    let prometheus = Prometheus::start(&app);
    let limit = Duration::from_secs(40);
    let rules = eventually(limit, "the rules are evaluated", async || {
        let answer = prometheus.get("/api/v1/rules", &[]).await?;
        let rules = answer["data"]["groups"][0]["rules"].as_array()?.clone();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    })
    .await;
    assert_eq!(rules.len(), alerts().len());
    assert!(rules.iter().all(|rule| rule["health"] == "ok"), "{rules:#?}");
    // A rate needs two scrapes.
    let scrapes = "min(count_over_time(service_build_info[5m]))";
    eventually(limit, "Prometheus has scraped three times", async || {
        let count = prometheus.ask(scrapes).await.first()?["value"][1].as_str()?.parse::<u32>().ok()?;
        (count >= 3).then_some(())
    })
    .await;
    let ours = watched_selectors().into_iter().filter(Selector::is_ours).map(|selector| selector.query());
    for expression in dashboard_expressions().into_iter().chain(chart_expressions()).chain(ours) {
        assert!(!prometheus.ask(&expression).await.is_empty(), "{expression} has no result");
    }
    for expression in alert_expressions() {
        prometheus.ask(&expression).await;
    }
    app.stop().await;
}
