use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{Pid, Uid, User, geteuid};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::metrics::{TOKEN, scraped, value};
use crate::support::app::free_port;
use crate::support::commands::run;
use crate::support::namespaces::{run_on_small_disk, small_disk};
use crate::support::{App, Builder, Client, Role, eventually};
use crate::webkit::processes::namespace;
use crate::webkit::{Scene, assert_failed, text};

/// They have another mount namespace than the service.
fn confined(app: &App) -> Vec<(Pid, String)> {
    let outside = namespace(app.pid(0), "mnt");
    let all = app.marked().into_iter();
    all.filter(|(pid, _)| namespace(*pid, "mnt").is_some_and(|own| Some(own) != outside)).collect()
}

/// A browser's folder, programs, libraries, fonts and certificates are accessible.
#[tokio::test]
async fn browser_processes_see_only_their_own_files() {
    let scene = Scene::start().await;
    scene.client.session().await;
    scene.visit("/").await;
    let data_dir = scene.app.data_dir.path();
    assert!(data_dir.join("data/browsers").exists());
    let here = std::env::current_dir().expect("a folder");
    let away = [data_dir, &here].map(|path| path.to_str().expect("UTF-8"));
    let machine = [
        "/root",
        "/home",
        "/etc/passwd",
        "/etc/shadow",
        "/etc/hostname",
        "/etc/ssl/private",
        "/var/lib",
        "/var/log",
        "/srv",
        "/mnt",
        "/opt",
    ];

    let all = scene.app.marked();
    let outside = namespace(scene.app.pid(0), "mnt");
    for name in ["kitfleet-keeper", "kitfleet-host", "Xvfb", "WebKitNetworkPr", "WebKitWebProces"] {
        let found: Vec<_> = all.iter().filter(|(_, other)| other == name).collect();
        assert!(found.len() >= 2, "{found:?} of {name}, of {all:?}");
        for (pid, _) in found {
            assert_ne!(namespace(*pid, "mnt"), outside, "a {name} is not confined");
        }
    }
    let family = confined(&scene.app);
    // Bubblewrap only starts the others and waits.
    for (pid, name) in family.iter().filter(|(_, name)| name != "bwrap") {
        let root = format!("/proc/{pid}/root");
        for path in away.iter().chain(&machine) {
            let found = fs::symlink_metadata(format!("{root}{path}"));
            assert!(found.is_err(), "{name} can see {path}");
        }
        // A process sees only the processes of its own browser.
        let seen = fs::read_dir(format!("{root}/proc")).into_iter().flatten().flatten();
        let seen = seen.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()));
        assert!(seen.count() <= 20, "{name} sees the machine's processes");
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment);
        for secret in ["DATABASE_URL", "KITFLEET_", "postgres://", "TMPDIR"] {
            assert!(!environment.contains(secret), "{name} has {secret} in {environment:?}");
        }
    }
    // Of the speech voices that WebKit is linked with, only the one that it uses is loaded.
    for name in ["kitfleet-host", "WebKitNetworkPr", "WebKitWebProces"] {
        for (pid, _) in all.iter().filter(|(_, other)| other == name) {
            let loaded = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
            assert!(loaded.contains("libflite_cmu_us_slt.so"), "{name} has not loaded the voice it uses");
            assert!(!loaded.contains("libflite_cmu_time_awb.so"), "{name} has loaded an unused voice");
        }
    }
    let hosts = scene.app.processes("kitfleet-host");
    for host in &hosts {
        let mounts = fs::read_to_string(format!("/proc/{host}/mountinfo")).expect("it runs");
        let folders: Vec<_> = mounts.lines().filter(|mount| mount.contains("/browsers/")).collect();
        assert_eq!(folders.len(), 1, "{folders:?}");
    }
    scene.app.stop().await;
}

#[tokio::test]
async fn browser_processes_have_no_capabilities() {
    let scene = Scene::start().await;
    scene.visit("/").await;
    for (pid, name) in confined(&scene.app).into_iter().filter(|(_, name)| !name.starts_with("bwrap")) {
        // A process that ends meanwhile is skipped.
        let [Some(powers), Some(bound), Some(users)] =
            ["CapEff:", "NoNewPrivs:", "Uid:"].map(|field| status_field(pid, field))
        else {
            continue;
        };
        assert_eq!(u64::from_str_radix(&powers, 16), Ok(0), "{name}");
        assert_eq!(bound, "1", "{name}");
        assert!(!users.split_whitespace().any(|uid| uid == "0"), "{name} is root");
    }
    scene.app.stop().await;
}

/// Of `/proc/<pid>/status`. `None` when the process has ended.
fn status_field(pid: Pid, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix(name)).expect("a field").trim().to_owned())
}

fn can_read_session(user: u32, process: Pid) -> bool {
    let ids = [format!("--reuid={user}"), format!("--regid={user}")];
    let folder = format!("/proc/{process}/root/session");
    let ran = Command::new("setpriv").args(ids).args(["--clear-groups", "ls", &folder]).output();
    ran.expect("setpriv runs").status.success()
}

/// Contract: workers 26.
#[tokio::test]
async fn browsers_of_a_root_worker_have_distinct_user_ids() {
    if !geteuid().is_root() {
        return;
    }
    let scene = Scene::start().await;
    scene.client.session().await;
    scene.visit("/").await;
    let user_of = |pid: Pid| status_field(pid, "Uid:")?.split_whitespace().next()?.parse::<u32>().ok();
    let displays = scene.app.processes("Xvfb");
    let users: HashSet<_> = displays.iter().filter_map(|pid| user_of(*pid)).collect();
    assert!(displays.len() >= 2, "fewer than two browsers");
    assert_eq!(users.len(), displays.len(), "two browsers share a user: {users:?}");
    for user in &users {
        let account = User::from_uid(Uid::from_raw(*user)).expect("a look-up of the user");
        assert!(account.is_none(), "{user} is the user of {account:?}");
    }
    for (pid, name) in confined(&scene.app).into_iter().filter(|(_, name)| name != "bwrap") {
        if let Some(user) = user_of(pid) {
            assert!(users.contains(&user), "{name} runs as {user}, which is the user of no browser");
        }
    }
    // The authorization file of the display is in that folder.
    let [one, other] = [displays[0], displays[1]];
    let own = user_of(one).expect("the display runs");
    assert!(can_read_session(own, one), "its own user cannot read the folder");
    for stranger in [65_534, user_of(other).expect("the display runs")] {
        assert!(!can_read_session(stranger, one), "{stranger} can read the folder of {own}");
    }
    scene.app.stop().await;
}

/// Contract: workers 27.
#[tokio::test]
async fn worker_with_browsers_does_not_start_as_user_nobody() {
    if !geteuid().is_root() {
        return;
    }
    let app = App::simulated().in_processes().start().await;
    let folder = TempDir::new().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the permissions are set");
    for args in [&["worker"][..], &["doctor", "--json"]] {
        let inner = app.command(args);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(inner.get_program()).args(inner.get_args()).env_clear().current_dir(folder.path());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        for name in ["HOME", "TMPDIR", "KITFLEET_DATA_DIR"] {
            command.env(name, folder.path());
        }
        command.env("KITFLEET_WORKER__DRIVER", "webkit");
        let ran = run(command, "").await.code(1);
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains("the user `nobody`"), "{ran:?}");
    }
    app.stop().await;
}

#[tokio::test]
async fn clipboard_is_not_shared_between_sessions() {
    let scene = Scene::start().await;
    let (client, site) = (&scene.client, &scene.site);
    let other = client.session().await;
    let field = json!({"kind": "tap", "selector": "#field"});
    let press = |key: &str| json!({"action": {"kind": "press", "key": key}});
    for session in [&scene.session, &other] {
        client.navigate(session, &site.url("/clipboard")).await;
        client.operate(session, "interact", json!({"action": field})).await.expect(200);
    }
    let typed = json!({"action": {"kind": "type", "selector": "#field", "text": "a secret of mine"}});
    client.operate(&scene.session, "interact", typed).await.expect(200);
    for key in ["Control+a", "Control+c"] {
        client.operate(&scene.session, "interact", press(key)).await.expect(200);
    }
    assert_eq!(scene.text("#copied").await, "a secret of mine", "the text was not copied");

    // The first session pastes the text that it copied, and the second session pastes nothing.
    for (session, pasted) in [(&scene.session, "a secret of mine"), (&other, "")] {
        client
            .operate(session, "interact", json!({"action": {"kind": "tap", "selector": "#target"}}))
            .await
            .expect(200);
        client.operate(session, "interact", press("Control+v")).await.expect(200);
        let seen = text(client, session, "#pasted").await;
        assert_eq!(seen, pasted, "pasted in {session}");
    }
    // Each session has its own X server, so that selections, windows, input and pictures are separate.
    let displays = scene.app.processes("Xvfb");
    assert_eq!(displays.len(), scene.app.processes("kitfleet-host").len());
    for kind in ["net", "mnt"] {
        let apart: HashSet<_> = displays.iter().map(|pid| namespace(*pid, kind)).collect();
        assert_eq!(apart.len(), displays.len());
    }
    scene.app.stop().await;
}

#[tokio::test]
async fn page_above_the_memory_limit_fails_only_its_session() {
    let bounded = scraped(App::webkit().set("worker.session_memory_bytes", "500000000"));
    let scene = beside_a_page_above_its_limit(bounded, "/eater?memory=1").await;
    let (client, site) = (&scene.client, &scene.site);
    let busy = client.session().await;
    client.navigate(&busy, &site.url("/")).await;
    client.navigate(&busy, &site.url("/eater?memory=1")).await;
    let wait = json!({"condition": {"kind": "selector", "selector": "#nowhere"}, "timeout_ms": 60_000});
    let answer = client.operate(&busy, "wait", wait).await;
    // The browser may have ended before the operation began.
    if answer.status != 410 {
        answer.problem(502, "driver-error");
    }
    scene.act(json!({"kind": "scroll"})).await.expect(200);
    scene.assert_ready().await;
    assert!((value(&scene.app, &deaths_of("memory")).await - 2.0).abs() < 0.5);
    scene.app.stop().await;
}

#[tokio::test]
async fn page_above_the_disk_limit_fails_only_its_session() {
    let bounded = scraped(App::webkit().set("worker.session_disk_bytes", "40000000"));
    let scene = beside_a_page_above_its_limit(bounded, "/eater?disk=1").await;
    scene.act(json!({"kind": "scroll"})).await.expect(200);
    scene.assert_ready().await;
    assert!((value(&scene.app, &deaths_of("disk")).await - 1.0).abs() < 0.5);
    scene.app.stop().await;
}

/// Depends on `worker.sandbox`. Bubblewrap is missing here.
#[tokio::test]
async fn worker_without_sandbox_warns_or_does_not_start() {
    let mut app = scraped(App::simulated()).start().await;
    let programs = TempDir::new().expect("a folder");
    let found = std::env::var_os("PATH").expect("a path");
    let xvfb = std::env::split_paths(&found).map(|folder| folder.join("Xvfb")).find(|path| path.exists());
    symlink(xvfb.expect("Xvfb is installed"), programs.path().join("Xvfb")).expect("a link");
    let with = |sandbox: &str, args: &[&str]| {
        let mut command = app.command(args);
        command.env("PATH", programs.path()).env("KITFLEET_WORKER__DRIVER", "webkit");
        command.env("KITFLEET_WORKER__SANDBOX", sandbox);
        // The service's own worker has the folder of the service.
        command.env("KITFLEET_DATA_DIR", programs.path().join("data"));
        command
    };
    let check = async |sandbox: &str, subject: &str| {
        let ran = run(with(sandbox, &["doctor", "--json"]), "").await;
        let checks = ran.json();
        let found = checks.as_array().expect("checks").iter().find(|check| check["subject"] == subject).cloned();
        found.unwrap_or_else(|| panic!("no {subject} in {checks}"))
    };
    let preferred = check("preferred", "sandbox").await;
    assert_eq!(preferred["status"], "warn", "{preferred}");
    assert!(preferred["finding"].as_str().is_some_and(|text| text.contains("WITHOUT CONFINEMENT")), "{preferred}");
    let shown = check("preferred", "WebKit").await;
    assert_eq!(shown["status"], "ok", "browsers do not work without the sandbox: {shown}");

    assert_eq!(check("required", "sandbox").await["status"], "fail");
    let refused = run(with("required", &["worker"]), "").await.code(1);
    assert!(format!("{}{}", refused.stdout, refused.stderr).contains("worker.sandbox"), "{refused:?}");

    // Contract: operators 7. A metric of the worker reports it.
    let (path, address) = (programs.path().display().to_string(), format!("127.0.0.1:{}", free_port()));
    let worker = [
        ("PATH", &*path),
        ("KITFLEET_WORKER__DRIVER", "webkit"),
        ("KITFLEET_WORKER__SANDBOX", "preferred"),
        ("KITFLEET_WORKER__LISTEN", &address),
    ];
    let worker = app.start_with(Role::Worker, &worker);
    let scraper = Client::new(&format!("http://{address}"), Some(TOKEN));
    eventually(Duration::from_secs(30), "the metric reports unconfined browsers", async || {
        let answer = scraper.request(Method::GET, "/metrics").send().await.ok()?;
        answer.text().await.ok()?.contains("\nservice_worker_sandboxed 0\n").then_some(())
    })
    .await;
    app.signal(worker, Signal::SIGTERM).await;
    app.stop().await;
}

#[tokio::test]
async fn nearly_full_disk_ends_the_session_that_wrote_most() {
    run_on_small_disk("webkit::confinement::on_a_small_disk").await;
}

#[tokio::test]
#[ignore = "runs on a separate disk that another test mounts"]
async fn on_a_small_disk() {
    small_disk(200);
    let scene = Scene::start().await;
    let (app, client, site) = (&scene.app, &scene.client, &scene.site);
    client.navigate(&scene.session, &site.url("/storage?n=100000")).await;
    let writer = client.session().await;
    client.navigate(&writer, &site.url("/eater?disk=1")).await;
    until_errored(client, &writer).await;
    assert_failed(app, client, &writer, "unknown", "DriverError").await;
    scene.act(json!({"kind": "scroll"})).await.expect(200);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// The page of the other session has exceeded a limit.
async fn beside_a_page_above_its_limit(app: Builder, eater: &str) -> Scene {
    let scene = Scene::of(app.start().await).await;
    scene.visit("/").await;
    let other = scene.client.session().await;
    scene.client.navigate(&other, &scene.site.url(eater)).await;
    until_errored(&scene.client, &other).await;
    assert_failed(&scene.app, &scene.client, &other, "unknown", "DriverError").await;
    scene
}

/// Contract: operators 7.
fn deaths_of(cause: &str) -> String {
    format!("service_browser_death_total{{cause=\"{cause}\"}}")
}

/// A page needs a while to exceed a limit.
async fn until_errored(client: &Client, session: &str) {
    eventually(Duration::from_secs(90), "the session fails", async || {
        (client.status(session).await == "errored").then_some(())
    })
    .await;
}
