//! What keeps browsers apart, from the machine and from each other.

use std::fs;

use nix::unistd::Pid;
use serde_json::json;

use crate::support::App;
use crate::webkit::Scene;
use crate::webkit::processes::namespace;

/// The processes of browsers: whatever does not share the service's files.
fn confined(app: &App) -> Vec<(Pid, String)> {
    let outside = namespace(app.pid(0), "mnt");
    let all = app.marked().into_iter();
    all.filter(|(pid, _)| namespace(*pid, "mnt").is_some_and(|own| Some(own) != outside)).collect()
}

/// A family finds its folder, programs, libraries, fonts and certificates, and nothing else of the machine: not by any
/// of its processes.
#[tokio::test]
async fn what_a_process_of_the_family_can_open() {
    let scene = Scene::start().await;
    scene.client.session().await;
    scene.visit("/").await;
    let data_dir = scene.app.data_dir.path();
    assert!(data_dir.join("data/browsers").exists());
    let here = std::env::current_dir().expect("a folder");
    let away = [data_dir, &here].map(|path| path.to_str().expect("UTF-8"));
    let machine = ["/root", "/home", "/etc/passwd", "/etc/shadow", "/etc/hostname", "/var/lib", "/var/log", "/srv", "/mnt", "/opt"];

    let family = confined(&scene.app);
    for name in ["kitfleet-keeper", "kitfleet-host", "Xvfb", "WebKitNetworkPr", "WebKitWebProces"] {
        let found = family.iter().filter(|(_, other)| other == name).count();
        assert!(found >= 2, "{found} of {name} are confined, of {family:?}");
        assert_eq!(scene.app.processes(name).len(), found, "every {name} is confined");
    }
    for (pid, name) in &family {
        let root = format!("/proc/{pid}/root");
        for path in away.iter().chain(&machine) {
            let found = fs::symlink_metadata(format!("{root}{path}"));
            assert!(found.is_err(), "{name} finds {path}");
        }
        // It sees the processes of its family alone, and of sessions its own.
        let seen = fs::read_dir(format!("{root}/proc")).into_iter().flatten().flatten();
        let seen = seen.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()));
        assert!(seen.count() <= 20, "{name} sees the machine's processes");
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment);
        for secret in ["DATABASE_URL", "KITFLEET_", "postgres://", "TMPDIR"] {
            assert!(!environment.contains(secret), "{name} has {secret} in {environment:?}");
        }
    }
    // A folder each.
    let hosts = scene.app.processes("kitfleet-host");
    for host in &hosts {
        let mounts = fs::read_to_string(format!("/proc/{host}/mountinfo")).expect("it runs");
        let folders: Vec<_> = mounts.lines().filter(|mount| mount.contains("/browsers/")).collect();
        assert_eq!(folders.len(), 1, "{folders:?}");
    }
    scene.app.stop().await;
}

/// A worker that runs as root has nobody's browsers, and any worker's can do nothing that an ordinary process cannot.
#[tokio::test]
async fn a_browser_has_no_powers() {
    let scene = Scene::start().await;
    scene.visit("/").await;
    for (pid, name) in confined(&scene.app).into_iter().filter(|(_, name)| !name.starts_with("bwrap")) {
        // One that ends meanwhile has none.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).expect("a field").trim().to_owned();
        assert_eq!(u64::from_str_radix(&field("CapEff:"), 16), Ok(0), "{name}");
        assert_eq!(field("NoNewPrivs:"), "1", "{name}");
        assert!(!field("Uid:").split_whitespace().any(|uid| uid == "0"), "{name} is root");
    }
    scene.app.stop().await;
}

/// What somebody copies in one session, nobody pastes in another.
#[tokio::test]
async fn nothing_passes_between_sessions_by_the_clipboard() {
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
    assert_eq!(scene.text("#copied").await, "a secret of mine", "it is in the clipboard");

    // Both sessions paste: into the one comes what it copied, into the other nothing.
    for (session, pasted) in [(&scene.session, "a secret of mine"), (&other, "")] {
        client.operate(session, "interact", json!({"action": {"kind": "tap", "selector": "#target"}})).await.expect(200);
        for key in ["Control+v", "Shift+Insert"] {
            client.operate(session, "interact", press(key)).await.expect(200);
        }
        let seen = crate::webkit::text(client, session, "#pasted").await;
        assert_eq!(seen, pasted, "what {session} pastes");
    }
    // An X server each: no selection, no window, no key and no picture of one is another's.
    let displays = scene.app.processes("Xvfb");
    assert_eq!(displays.len(), scene.app.processes("kitfleet-host").len());
    for kind in ["net", "mnt"] {
        let apart: std::collections::HashSet<_> = displays.iter().map(|pid| namespace(*pid, kind)).collect();
        assert_eq!(apart.len(), displays.len());
    }
    scene.app.stop().await;
}
