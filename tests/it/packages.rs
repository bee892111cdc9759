//! Container image, compose file, systemd units, Debian package and Helm chart (docs/deploying.md). Third-party validators
//! check them, and every setting they name must exist.

mod nginx;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::patch;
use axum::{Json, Router};
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::commands::run;
use crate::support::{App, serve};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

const REQUIRED: &str = "baseUrl: https://fleet.example.com\nexistingSecret: kitfleet\n";

/// They use every part of the chart.
const EVERYTHING: &str = "
baseUrl: https://fleet.example.com
existingSecret: kitfleet
imagePullSecrets: [{ name: registry }]
settings: { KITFLEET_EMAIL__TRANSPORT: smtp }
trustedProxies: [10.0.0.0/8, fd00::/8]
api: &pod
  podLabels: { team: browsers, app.kubernetes.io/name: other }
  podAnnotations: { team: browsers }
  nodeSelector: { pool: browsers }
  tolerations: [{ key: browsers, operator: Exists }]
  affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } }
  priorityClassName: high
worker: *pod
migrate: *pod
deletionCost: { <<: *pod, enabled: true }
keda: { enabled: true }
service: { ipFamilyPolicy: PreferDualStack, annotations: { team: browsers } }
ingress: { enabled: true, className: nginx, tlsSecret: fleet-tls }
podMonitor: { enabled: true, labels: { release: prometheus }, scrapeTimeout: 10s }
networkPolicy:
  from: [{ namespaceSelector: { matchLabels: { name: ingress } } }]
  scrapers: [{ namespaceSelector: { matchLabels: { name: monitoring } } }]
  egress: { enabled: true, postgres: { to: [{ ipBlock: { cidr: 10.1.0.0/24 } }] }, extra: [{ ports: [{ port: 587 }] }] }
";

/// Distinguishes the pods of the API, the workers and the jobs.
const COMPONENT: &str = "app.kubernetes.io/component";

/// For which `kubernetes-validate` has schemas.
const KUBERNETES: [&str; 3] = ["1.35", "1.36", "1.37"];

fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn judge(name: &str) -> Command {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("packages");
    let program = [folder.join("bin").join(name), folder.join(name)].into_iter().find(|program| program.is_file());
    Command::new(program.unwrap_or_else(|| panic!("{name} is installed by tests/packages/install")))
}

#[track_caller]
fn output(command: &mut Command) -> String {
    let done = command.output().expect("a program");
    let (out, error) = (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?}: {out}{error}");
    out
}

fn render(values: &str, release: &str) -> Output {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("values.yaml");
    fs::write(&file, values).expect("a file");
    let mut helm = judge("python");
    helm.arg(path("tests/packages/helm.py")).arg(path("packaging/helm/kitfleet")).arg(file).arg(release);
    helm.output().expect("a program")
}

#[track_caller]
fn documents(values: &str, release: &str) -> Vec<Value> {
    let done = render(values, release);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).expect("text");
    text.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn pods(documents: &[Value]) -> Vec<&Value> {
    let paths = ["/spec/template", "/spec/jobTemplate/spec/template"];
    documents.iter().filter_map(|document| paths.iter().find_map(|path| document.pointer(path))).collect()
}

#[track_caller]
fn pod<'a>(documents: &'a [Value], component: &str) -> &'a Value {
    let found = pods(documents).into_iter().find(|pod| pod["metadata"]["labels"][COMPONENT] == component);
    found.unwrap_or_else(|| panic!("no pod of {component}"))
}

#[track_caller]
fn environment(documents: &[Value], component: &str) -> BTreeMap<String, String> {
    let variables = pod(documents, component)["spec"]["containers"][0]["env"].as_array().expect("variables");
    let text = |variable: &Value, key: &str| variable[key].as_str().unwrap_or_default().to_owned();
    variables.iter().map(|variable| (text(variable, "name"), text(variable, "value"))).collect()
}

fn of_kind<'a>(documents: &'a [Value], kind: &str) -> Vec<&'a Value> {
    documents.iter().filter(|document| document["kind"] == kind).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() { files(&entry.path(), found) } else { found.push(entry.path()) }
    }
}

#[test]
fn rendered_chart_is_valid_in_three_versions_of_kubernetes() {
    let folder = TempDir::new().expect("a folder");
    for values in [REQUIRED, EVERYTHING] {
        let documents = documents(values, "fleet");
        // helm.py validates the documents of KEDA and the Prometheus operator.
        let foreign = ["ScaledObject", "PodMonitor"];
        let own = documents.iter().filter(|document| !foreign.iter().any(|kind| document["kind"] == *kind));
        let text = own.map(ToString::to_string).collect::<Vec<_>>().join("\n---\n");
        let file = folder.path().join("documents.yaml");
        fs::write(&file, text).expect("a file");
        for version in KUBERNETES {
            output(judge("kubernetes-validate").args(["-k", version, "--strict", "--quiet"]).arg(&file));
        }
    }
}

#[test]
fn incomplete_or_contradicting_values_are_refused() {
    for (values, named) in
        [("existingSecret: kitfleet", "baseUrl"), ("baseUrl: https://fleet.example.com", "existingSecret")]
    {
        let refused = render(values, "fleet");
        assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains(named), "{refused:?}");
    }
    for (values, named) in [
        ("worker: { replica: 3 }", "replica"),
        ("image: { tag: 5 }", "tag"),
        ("trustedProxies: [proxy.example.com]", "trustedProxies"),
        ("settings: { POD_IP: 10.0.0.1 }", "POD_IP"),
        ("settings: { KITFLEET_EMAIL__TRANSPORT: { kind: smtp } }", "KITFLEET_EMAIL__TRANSPORT"),
        ("settings: { KITFLEET_WORKER__DRAIN_TIMEOUT: 1h 30m }", "terminationGracePeriodSeconds"),
        ("settings: { KITFLEET_WORKER__LISTEN: '' }", "must end in :8080"),
        ("settings: { KITFLEET_DATA_DIR: /data }", "must be /var/lib/kitfleet"),
        ("worker: { hostUsers: true }", "procMount"),
        ("worker: { sessions: 4 }\nkeda: { enabled: true }", "keda.sessionsPerWorker"),
        ("podMonitor: { enabled: true }\nnetworkPolicy: { from: [{ podSelector: {} }] }", "networkPolicy.scrapers"),
    ] {
        let refused = render(&format!("{REQUIRED}{values}\n"), "fleet");
        assert!(!refused.status.success(), "{values}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(named), "{values}: {refused:?}");
    }
}

#[test]
fn every_pod_is_restricted_and_gets_no_service_variables() {
    for (values, count) in [(REQUIRED, 3), (EVERYTHING, 4)] {
        let documents = documents(values, "kitfleet");
        let pods = pods(&documents);
        assert_eq!(pods.len(), count);
        for pod in pods {
            let spec = &pod["spec"];
            assert_eq!(spec["enableServiceLinks"], json!(false), "{pod}");
            assert_eq!(spec["securityContext"]["runAsNonRoot"], json!(true), "{pod}");
            let container = &spec["containers"][0];
            assert!(container["resources"]["requests"].is_object(), "{pod}");
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], json!(false), "{pod}");
            assert_eq!(context["readOnlyRootFilesystem"], json!(true), "{pod}");
            assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}), "{pod}");
            let variables = container["env"].as_array().expect("variables");
            let names: BTreeSet<_> = variables.iter().map(|variable| variable["name"].as_str()).collect();
            assert_eq!(names.len(), variables.len(), "a name occurs twice in {variables:?}");
        }
    }
}

#[test]
fn every_pod_has_the_values_of_its_component() {
    for pod in pods(&documents(EVERYTHING, "fleet")) {
        let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
        assert_eq!(spec["imagePullSecrets"], json!([{"name": "registry"}]), "{pod}");
        assert_eq!(spec["nodeSelector"], json!({"pool": "browsers"}), "{pod}");
        assert_eq!(spec["priorityClassName"], "high", "{pod}");
        assert!(spec["tolerations"].is_array() && spec["affinity"].is_object(), "{pod}");
        assert_eq!(metadata["annotations"]["team"], "browsers", "{pod}");
        assert_eq!(metadata["labels"]["team"], "browsers", "{pod}");
        // Selectors depend on this label.
        assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "kitfleet", "{pod}");
    }
}

#[test]
fn workers_have_an_unmasked_proc_in_a_user_namespace() {
    let proc_of = |values: &str| {
        let documents = documents(values, "fleet");
        let spec = &pod(&documents, "worker")["spec"];
        (spec["hostUsers"].clone(), spec["containers"][0]["securityContext"]["procMount"].clone())
    };
    assert_eq!(proc_of(REQUIRED), (json!(false), json!("Unmasked")));
    let older = format!("{REQUIRED}worker: {{ hostUsers: true, procMount: Default }}\n");
    assert_eq!(proc_of(&older), (Value::Null, json!("Default")));
}

#[test]
fn settings_of_each_type_are_passed_as_text() {
    for (value, passed) in [
        ("17179869184", Some("17179869184")),
        ("'17179869185'", Some("17179869185")),
        ("0.25", Some("0.25")),
        ("true", Some("true")),
        ("'a \"b\" $c'", Some("a \"b\" $c")),
        ("[a&b, 'c,d', 3]", Some("[\"a&b\",\"c,d\",\"3\"]")),
        ("[]", Some("[]")),
        ("null", None),
    ] {
        let values = format!("{REQUIRED}settings: {{ KITFLEET_LOG__FILTER: {value} }}\n");
        let environment = environment(&documents(&values, "fleet"), "api");
        assert_eq!(environment.get("KITFLEET_LOG__FILTER").map(String::as_str), passed, "{value}");
    }
}

#[test]
fn settings_replace_the_charts_defaults() {
    let settings = [
        ("KITFLEET_SERVER__BASE_URL", "https://other.example.com"),
        ("KITFLEET_SERVER__TRUSTED_PROXIES", "192.0.2.1"),
        ("KITFLEET_WORKER__PLACEMENT", "spread"),
        ("KITFLEET_WORKER__SANDBOX", "preferred"),
        ("KITFLEET_WORKER__MAX_SESSIONS", "3"),
        ("KITFLEET_WORKER__DRAIN_TIMEOUT", "10m"),
        ("KITFLEET_WORKER__LIVE_LISTEN", "10.0.0.1:7401"),
    ];
    let values = format!("{REQUIRED}trustedProxies: [10.0.0.0/8]\nsettings: {}\n", json!(BTreeMap::from(settings)));
    let documents = documents(&values, "fleet");
    for component in ["api", "worker", "migrate"] {
        let environment = environment(&documents, component);
        for (name, value) in settings {
            assert_eq!(environment[name], value, "{name} of {component}");
        }
    }
    // Both are derived from the drain timeout.
    for (component, seconds) in [("api", 635), ("worker", 630)] {
        assert_eq!(pod(&documents, component)["spec"]["terminationGracePeriodSeconds"], json!(seconds));
    }
}

#[test]
fn names_fit_with_the_longest_release_name() {
    // Two names that differ only in the last character.
    let releases = [format!("{}1", "r".repeat(52)), format!("{}2", "r".repeat(52))];
    let mut names = BTreeSet::new();
    for release in &releases {
        let documents = documents(EVERYTHING, release);
        for document in &documents {
            let (kind, name) = (document["kind"].to_string(), document["metadata"]["name"].to_string());
            // The length includes the quotes of JSON.
            let max = if document["kind"] == "CronJob" { 54 } else { 65 };
            assert!(name.len() <= max, "{kind} {name}");
            assert!(names.insert((kind, name)), "two objects have the name of {document}");
            let labels = document["metadata"]["labels"].as_object().expect("labels");
            assert!(labels.values().all(|label| label.as_str().is_some_and(|label| label.len() <= 63)), "{labels:?}");
        }
    }
}

#[test]
fn release_names_that_cannot_name_a_service_are_refused() {
    for release in ["7fleet", "fleet.example"] {
        let refused = render(REQUIRED, release);
        assert!(!refused.status.success(), "{release}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot name a Service"), "{refused:?}");
    }
}

#[test]
fn listeners_follow_the_ip_family() {
    for (values, listen, live) in [
        ("", "0.0.0.0:8080", "$(POD_IP):7401"),
        ("ipFamily: IPv6\n", "[::]:8080", "[$(POD_IP)]:7401"),
        ("service: { ipFamilyPolicy: PreferDualStack }\n", "[::]:8080", "$(POD_IP):7401"),
    ] {
        let documents = documents(&format!("{REQUIRED}{values}"), "fleet");
        let (api, worker) = (environment(&documents, "api"), environment(&documents, "worker"));
        assert_eq!(api["KITFLEET_SERVER__LISTEN"], listen, "{values}");
        assert_eq!(worker["KITFLEET_WORKER__LISTEN"], listen, "{values}");
        assert_eq!(worker["KITFLEET_WORKER__LIVE_LISTEN"], live, "{values}");
        // A variable can refer only to earlier variables.
        assert_eq!(pod(&documents, "worker")["spec"]["containers"][0]["env"][0]["name"], "POD_IP");
    }
}

#[test]
fn readiness_of_the_api_does_not_depend_on_workers() {
    let documents = documents(REQUIRED, "fleet");
    let container = &pod(&documents, "api")["spec"]["containers"][0];
    for probe in ["startupProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["path"], "/readyz?for=api", "{probe}");
    }
}

#[test]
fn one_network_policy_selects_each_pod() {
    let documents = documents(EVERYTHING, "fleet");
    let policies = of_kind(&documents, "NetworkPolicy");
    for pod in pods(&documents) {
        let labels = &pod["metadata"]["labels"];
        let selects = |policy: &&&Value| {
            let selector = policy["spec"]["podSelector"]["matchLabels"].as_object().expect("labels");
            selector.iter().all(|(name, value)| labels[name] == *value)
        };
        let selecting: Vec<_> = policies.iter().filter(selects).collect();
        assert_eq!(selecting.len(), 1, "{labels}");
        let spec = &selecting[0]["spec"];
        assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]), "{labels}");
        let egress = spec["egress"].as_array().expect("rules");
        let postgres = json!({"ports": [{"port": 5432}], "to": [{"ipBlock": {"cidr": "10.1.0.0/24"}}]});
        assert!(egress.contains(&postgres), "{spec}");
        // Only the job for the deletion cost calls the Kubernetes API, and neither job calls the internet.
        let has_port = |port: u16| egress.iter().any(|rule| rule["ports"][0]["port"] == port);
        let component = labels[COMPONENT].as_str().unwrap_or_default();
        assert_eq!(has_port(443), component == "deletion-cost", "{spec}");
        assert_eq!(has_port(587), ["api", "worker"].contains(&component), "{spec}");
    }
    let api = policies.iter().find(|policy| policy["metadata"]["name"] == "fleet-api").expect("a policy");
    let from = &api["spec"]["ingress"][0]["from"];
    assert_eq!(from[1]["namespaceSelector"]["matchLabels"]["name"], "monitoring", "{from}");
}

#[test]
fn pod_monitor_sends_the_scrape_token() {
    assert!(of_kind(&documents(REQUIRED, "fleet"), "PodMonitor").is_empty());
    let documents = documents(EVERYTHING, "fleet");
    let monitor = of_kind(&documents, "PodMonitor")[0];
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let credentials = json!({"name": "kitfleet", "key": "METRICS_SCRAPE_TOKEN"});
    assert_eq!(endpoint["authorization"], json!({"type": "Bearer", "credentials": credentials}));
    // monitoring/alerts.yaml selects jobs by this prefix.
    assert_eq!(endpoint["relabelings"][0]["replacement"], "kitfleet-$1");
}

/// `monitoring` tests the Prometheus query of the autoscaler.
#[test]
fn chart_scales_workers_and_lets_them_drain() {
    let documents = documents(EVERYTHING, "fleet");
    assert_eq!(of_kind(&documents, "ScaledObject").len(), 1);
    // The autoscaler sets the number of workers.
    let mut deployments = of_kind(&documents, "Deployment").into_iter();
    let workers = deployments.find(|deployment| deployment["metadata"]["name"] == "fleet-worker").expect("workers");
    assert!(workers["spec"].get("replicas").is_none(), "{workers}");
    assert_eq!(pod(&documents, "worker")["spec"]["terminationGracePeriodSeconds"], json!(1830));
    assert_eq!(environment(&documents, "worker")["KITFLEET_WORKER__DRAIN_TIMEOUT"], "1800s");
}

/// A stand-in for the Kubernetes API serves the job. A worker without a pod does not prevent the annotations of others.
#[tokio::test]
async fn pods_are_annotated_with_their_deletion_cost() {
    let app = App::simulated().in_processes().set("worker.name", "worker-b").start().await;
    let client = app.client().await;
    client.session().await;
    client.session().await;
    let patches = Arc::<Mutex<Vec<(String, HeaderMap, Value)>>>::default();
    let kept = Arc::clone(&patches);
    let patch_pod = async move |uri: Uri, headers: HeaderMap, Json(body): Json<Value>| {
        let pod = uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        let status = if pod == "worker-b" { StatusCode::OK } else { StatusCode::NOT_FOUND };
        kept.lock().unwrap_or_else(PoisonError::into_inner).push((pod, headers, body));
        status
    };
    let routes = Router::new().route("/api/v1/namespaces/fleet/pods/{pod}", patch(patch_pod));
    let (kubernetes, _server) = serve(routes).await;
    // A worker on another machine that is not a pod.
    let elsewhere = "insert into workers (id, name, driver, max_sessions, public_key, last_seen_at)
                     values (uuid_v7(), 'elsewhere', 'none', 1, '', now() + interval '1 hour')";
    app.execute_all(elsewhere).await;

    let account = TempDir::new().expect("a folder");
    for (file, text) in [("token", "secret"), ("namespace", "fleet"), ("ca.crt", "")] {
        fs::write(account.path().join(file), text).expect("a file");
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_kitfleet")).parent().expect("a folder");
    let command = app.command(&[]);
    let mut job = Command::new("sh");
    job.arg(path("packaging/helm/kitfleet/files/deletion-cost.sh")).env_clear();
    job.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    job.env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").expect("a path")));
    job.env("KUBERNETES", &kubernetes).env("ACCOUNT", account.path());
    let ran = run(job, "").await.code(0);
    assert!(ran.stderr.contains("cannot annotate the pod elsewhere"), "{ran:?}");
    let patches = patches.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut costs: Vec<_> = patches
        .iter()
        .map(|(pod, headers, body)| {
            assert_eq!(headers["authorization"], "Bearer secret");
            assert_eq!(headers["content-type"], "application/merge-patch+json");
            (pod.as_str(), body["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"].clone())
        })
        .collect();
    costs.sort_by_key(|(pod, _)| *pod);
    assert_eq!(costs, [("elsewhere", json!("0")), ("worker-b", json!("2"))]);
    app.stop().await;
}

#[test]
fn container_compose_and_workflow_files_are_valid() {
    output(judge("hadolint").arg("--no-color").arg(path("packaging/Containerfile")));
    for (schema, file) in
        [("compose-spec", "packaging/compose.yaml"), ("github-workflows", ".github/workflows/release.yaml")]
    {
        output(judge("check-jsonschema").arg(format!("--builtin-schema=vendor.{schema}")).arg(path(file)));
    }
    let profile: Value = serde_json::from_str(&read("packaging/seccomp.json")).expect("JSON");
    let refused = profile["syscalls"][0]["names"].to_string();
    // System calls needed for the confinement of browsers.
    for call in ["clone", "unshare", "setns", "mount", "umount2", "pivot_root"] {
        assert!(!refused.contains(&format!("\"{call}\"")), "{call}");
    }
}

/// The worker's limit is higher because it creates namespaces.
#[test]
fn systemd_units_are_valid_and_hardened() {
    let folder = TempDir::new().expect("a folder");
    let names = ["api", "worker"].map(|role| format!("kitfleet-{role}.service"));
    for name in &names {
        let unit =
            read(&format!("packaging/systemd/{name}")).replace("/usr/bin/kitfleet", env!("CARGO_BIN_EXE_kitfleet"));
        fs::write(folder.path().join(name), unit).expect("a file");
    }
    let mut verify = Command::new("systemd-analyze");
    verify
        .args(["verify", "--recursive-errors=one", "--man=no"])
        .args(names.iter().map(|name| folder.path().join(name)));
    output(&mut verify);
    for (name, exposure) in names.iter().zip([20, 50]) {
        let mut security = Command::new("systemd-analyze");
        security.args(["security", "--offline=true", "--no-pager", &format!("--threshold={exposure}")]);
        output(security.arg(folder.path().join(name)));
    }
}

/// Both depend on the packages that the setup installs.
#[test]
fn debian_package_and_image_have_the_setups_packages() {
    let setup = read("ops/setup");
    let (_, list) = setup.split_once("\nrun=(").expect("a list");
    let mut needed: BTreeSet<_> = list.split_once(')').expect("an end").0.split_whitespace().collect();
    let image = read("packaging/Containerfile");
    let lacking: Vec<_> = needed.iter().filter(|package| !image.contains(*package)).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
    // Creates the user.
    needed.insert("systemd | systemd-standalone-sysusers");
    let manifest = read("Cargo.toml");
    let depends = manifest.lines().find_map(|line| line.strip_prefix("depends = ")).expect("dependencies");
    assert_eq!(depends.trim_matches('"').split(", ").collect::<BTreeSet<_>>(), needed);
    let mut config = Command::new(env!("CARGO_BIN_EXE_kitfleet"));
    config.arg("--config").arg(path("packaging/debian/kitfleet.toml")).args(["config", "--json"]).env_clear();
    output(&mut config);
}

#[test]
fn packaging_names_only_known_settings() {
    let known = read("docs/configuration.md");
    let mut all = vec![path(".github/workflows/release.yaml"), path("docs/deploying.md")];
    files(&path("packaging"), &mut all);
    let variable = Regex::new("KITFLEET_([A-Z0-9_]+)").expect("an expression");
    let mut named = BTreeSet::new();
    for file in all {
        let text = fs::read_to_string(&file).expect("text");
        named.extend(variable.captures_iter(&text).map(|found| found[1].to_lowercase().replace("__", ".")));
    }
    assert!(named.len() > 5, "{named:?}");
    // Variables of the tests and of Kubernetes services are not settings.
    let services = ["service_host", "port", "port_80_tcp_proto"];
    named.retain(|key| !key.starts_with("test_") && !services.contains(&key.as_str()));
    let unknown: Vec<_> = named.iter().filter(|key| !known.contains(&format!("| `{key}` |"))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
