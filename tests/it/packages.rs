//! What Kitfleet is deployed with: a container image, compose, units of systemd, a Debian package and a chart (docs/deploying.md). Programs of others
//! judge them, and every setting that they name is one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
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

/// Every value that the chart asks for, and everything in it that is switched on.
const VALUES: &str = "
baseUrl: https://fleet.example.com
existingSecret: kitfleet
settings: { KITFLEET_EMAIL__TRANSPORT: smtp }
ingress: { enabled: true, className: nginx, tlsSecret: fleet-tls }
worker: { nodeSelector: { pool: browsers }, tolerations: [{ key: browsers, operator: Exists }] }
networkPolicy:
  from: [{ namespaceSelector: { matchLabels: { name: ingress } } }]
  scrapers: [{ namespaceSelector: { matchLabels: { name: monitoring } } }]
deletionCost: { enabled: true }
";

/// A file of the project.
fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A program that `tests/packages/install` has installed.
pub fn judge(name: &str) -> Command {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("packages");
    let program = [folder.join("bin").join(name), folder.join(name)].into_iter().find(|program| program.is_file());
    Command::new(program.unwrap_or_else(|| panic!("{name} is installed by tests/packages/install")))
}

/// What a program prints.
///
/// # Panics
/// When it fails.
#[track_caller]
fn output(command: &mut Command) -> String {
    let done = command.output().expect("a program");
    let (out, error) = (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{command:?}: {out}{error}");
    out
}

/// The chart's documents with these values, as Helm's own library makes them. It fails where that finds a fault.
fn rendered(folder: &TempDir, values: &str) -> Command {
    let file = folder.path().join("values.yaml");
    fs::write(&file, values).expect("a file");
    let mut helm = judge("python");
    helm.arg(path("tests/packages/helm.py")).arg(path("packaging/helm/kitfleet")).arg(file);
    helm
}

/// The files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() { files(&entry.path(), found) } else { found.push(entry.path()) }
    }
}

/// Kubernetes takes what the chart makes, with as little as it asks for and with everything; without that little it says what is missing.
#[test]
fn kubernetes_takes_what_the_chart_makes() {
    let folder = TempDir::new().expect("a folder");
    let little = "baseUrl: https://fleet.example.com\nexistingSecret: kitfleet\n";
    for values in [little, VALUES] {
        let documents = folder.path().join("documents.yaml");
        fs::write(&documents, output(&mut rendered(&folder, values))).expect("a file");
        output(judge("kubernetes-validate").args(["--strict", "--quiet"]).arg(documents));
    }
    let misspelt = &format!("{little}worker: {{ replica: 3 }}\n");
    for (values, named) in [
        ("existingSecret: kitfleet", "baseUrl"),
        ("baseUrl: https://fleet.example.com", "existingSecret"),
        (misspelt, "replica"),
    ] {
        let refused = rendered(&folder, values).output().expect("a program");
        assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains(named), "{refused:?}");
    }
}

/// The chart scales by KEDA, a worker has time to drain before it is killed, and nothing runs as root. (What it asks Prometheus for is
/// judged in `monitoring`.)
#[test]
fn the_chart_scales_and_drains() {
    let folder = TempDir::new().expect("a folder");
    let documents = output(&mut rendered(&folder, &format!("{VALUES}keda: {{ enabled: true }}\n")));
    assert!(documents.contains("kind: ScaledObject"), "{documents}");
    assert!(documents.contains("terminationGracePeriodSeconds: 1830") && documents.contains("value: \"1800s\""));
    let restricted = documents.matches("allowPrivilegeEscalation: false").count();
    assert_eq!(restricted, documents.matches("image: kitfleet:").count());
    assert_eq!(documents.matches("runAsNonRoot: true").count(), restricted);
}

/// What the chart's job does every minute, with somebody who stands in for Kubernetes: each worker's pod is told how many sessions live
/// there, and one that is no pod keeps nobody else from being told.
#[tokio::test]
async fn pods_are_told_what_it_costs_to_delete_them() {
    let app = App::simulated().in_processes().set("worker.name", "worker-b").start().await;
    let client = app.client().await;
    client.session().await;
    client.session().await;
    let told = Arc::<Mutex<Vec<(String, HeaderMap, Value)>>>::default();
    let kept = Arc::clone(&told);
    let patch_pod = async move |uri: Uri, headers: HeaderMap, Json(body): Json<Value>| {
        let pod = uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        let status = if pod == "worker-b" { StatusCode::OK } else { StatusCode::NOT_FOUND };
        kept.lock().unwrap_or_else(PoisonError::into_inner).push((pod, headers, body));
        status
    };
    let routes = Router::new().route("/api/v1/namespaces/fleet/pods/{pod}", patch(patch_pod));
    let (kubernetes, _server) = serve(routes).await;
    // Of another machine, with sessions of its own.
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
    assert!(ran.stderr.contains("the pod elsewhere was told nothing"), "{ran:?}");
    let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut costs: Vec<_> = told
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

/// The container file, the services of compose and the release's workflow are what their readers expect.
#[test]
fn documents_are_what_their_readers_expect() {
    output(judge("hadolint").arg("--no-color").arg(path("packaging/Containerfile")));
    for (schema, file) in
        [("compose-spec", "packaging/compose.yaml"), ("github-workflows", ".github/workflows/release.yaml")]
    {
        output(judge("check-jsonschema").arg(format!("--builtin-schema=vendor.{schema}")).arg(path(file)));
    }
    let profile: Value = serde_json::from_str(&read("packaging/seccomp.json")).expect("JSON");
    let refused = profile["syscalls"][0]["names"].to_string();
    // What browsers are confined with.
    for call in ["clone", "unshare", "setns", "mount", "umount2", "pivot_root"] {
        assert!(!refused.contains(&format!("\"{call}\"")), "{call}");
    }
}

/// systemd finds nothing wrong with the units, and none of them is exposed more than it has to be: a worker makes namespaces.
#[test]
fn units_are_sound() {
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

/// The Debian package needs what the setup installs for running, and the file that comes with it is a configuration.
#[test]
fn the_debian_package_needs_what_the_setup_installs() {
    let setup = read("ops/setup");
    let (_, list) = setup.split_once("\nworker=(").expect("a list");
    let mut needed: BTreeSet<_> = list.split_once(')').expect("an end").0.split_whitespace().collect();
    // It makes the user.
    needed.insert("systemd | systemd-standalone-sysusers");
    let manifest = read("Cargo.toml");
    let depends = manifest.lines().find_map(|line| line.strip_prefix("depends = ")).expect("dependencies");
    assert_eq!(depends.trim_matches('"').split(", ").collect::<BTreeSet<_>>(), needed);
    let mut config = Command::new(env!("CARGO_BIN_EXE_kitfleet"));
    config.arg("--config").arg(path("packaging/debian/kitfleet.toml")).args(["config", "--json"]).env_clear();
    output(&mut config);
}

/// Every setting that any of this names is one.
#[test]
fn only_settings_that_there_are_are_named() {
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
    // What the tests are told is no setting of the program.
    named.retain(|key| !key.starts_with("test_"));
    let unknown: Vec<_> = named.iter().filter(|key| !known.contains(&format!("| `{key}` |"))).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
