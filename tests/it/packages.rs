//! What Kitfleet is deployed with: a container image, compose, units of systemd, a Debian package and a chart (docs/deploying.md). Programs of others
//! judge them, and every setting that they name is one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Every value that the chart asks for, and everything in it that is switched on.
const VALUES: &str = "
baseUrl: https://fleet.example.com
existingSecret: kitfleet
settings: { KITFLEET_EMAIL__TRANSPORT: smtp }
ingress: { enabled: true, className: nginx, tlsSecret: fleet-tls }
worker: { nodeSelector: { pool: browsers }, tolerations: [{ key: browsers, operator: Exists }] }
networkPolicy: { from: [{ namespaceSelector: { matchLabels: { name: ingress } } }] }
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

/// The chart's documents with these values.
fn rendered(folder: &TempDir, values: &str) -> Command {
    let file = folder.path().join("values.yaml");
    fs::write(&file, values).expect("a file");
    let mut render = judge("render");
    render.arg(path("packaging/helm/kitfleet")).arg(file);
    render
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
    for (values, missing) in
        [("existingSecret: kitfleet", "baseUrl"), ("baseUrl: https://fleet.example.com", "existingSecret")]
    {
        let refused = rendered(&folder, values).output().expect("a program");
        assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains(missing), "{refused:?}");
    }
}

/// The chart's query of sessions is one of metrics that there are, a worker has time to drain before it is killed, and nothing runs as root.
#[test]
fn the_chart_scales_and_drains() {
    let folder = TempDir::new().expect("a folder");
    let documents = output(&mut rendered(&folder, &format!("{VALUES}keda: {{ enabled: true }}\n")));
    assert!(documents.contains("kind: ScaledObject"), "{documents}");
    let metrics = read("api/src/http/metrics.rs");
    let queried = Regex::new("service_[a-z_]+").expect("an expression");
    let queried: BTreeSet<_> = queried.find_iter(&documents).map(|name| name.as_str()).collect();
    assert_eq!(queried.len(), 2, "{queried:?}");
    assert!(queried.iter().all(|name| metrics.contains(&format!("\"{name}\""))), "{queried:?}");
    assert!(documents.contains("terminationGracePeriodSeconds: 1830") && documents.contains("value: \"1800s\""));
    let restricted = documents.matches("allowPrivilegeEscalation: false").count();
    assert_eq!(restricted, documents.matches("image: kitfleet:").count());
    assert_eq!(documents.matches("runAsNonRoot: true").count(), restricted);
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
    let profile: serde_json::Value = serde_json::from_str(&read("packaging/seccomp.json")).expect("JSON");
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
    let names = ["migrate", "api", "worker"].map(|role| format!("kitfleet-{role}.service"));
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
    for (name, exposure) in names.iter().zip([20, 20, 50]) {
        let mut security = Command::new("systemd-analyze");
        security.args(["security", "--offline=true", "--no-pager", &format!("--threshold={exposure}")]);
        output(security.arg(folder.path().join(name)));
    }
}

/// The Debian package needs what the setup installs for running, and the file that comes with it is a configuration.
#[test]
fn the_debian_package_needs_what_the_setup_installs() {
    let setup = read("ops/setup");
    let (_, list) = setup.split_once("\nrun=(").expect("a list");
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
