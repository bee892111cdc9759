//! Services that are started and stopped (contract: command-line; workers).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use kitfleet_domain::workers::LEASE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use super::keys_in;
use crate::support::app::free_port;
use crate::support::commands::{alone, run};
use crate::support::{App, Client, Role, eventually, raw};

/// Contract: command-line 2. A port that is taken stops the start with one clear line.
#[tokio::test]
async fn a_taken_port_stops_the_start() {
    let app = App::simulated().start().await;
    let ran = app.run(&["api"]).await.code(1);
    let address = app.base_url.strip_prefix("http://").expect("plain HTTP");
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(told.contains(address), "{told}");
    app.client().await.session().await;
    app.stop().await;
}

/// Contract: command-line 1. `kitfleet up` on a bare machine brings its own database, makes a local owner, shows his key once
/// and keeps it in a file that only he can read; SIGTERM leaves no process and no socket; a restart has everything and shows
/// the file.
#[tokio::test]
async fn up_alone_brings_its_own_database() {
    let folder = TempDir::new().expect("a folder");
    // An unprivileged database process has to get through.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let first = Up::start(folder.path()).await;
    let text = first.output().await;
    let [key] = &keys_in(&text)[..] else { panic!("not one key in {text}") };
    assert!(text.contains("curl"), "{text}");
    let client = Client::new(&first.base_url, Some(key));
    let session = client.session().await;
    let kept = files_with(&folder.path().join("data"), key);
    let [file] = &kept[..] else { panic!("the key is kept in {kept:?}") };
    let metadata = fs::metadata(file).expect("the file");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(metadata.uid(), nix::unistd::geteuid().as_raw());
    first.stop(folder.path()).await;

    let second = Up::start(folder.path()).await;
    let text = second.output().await;
    assert!(keys_in(&text).is_empty(), "the key is shown again: {text}");
    assert!(text.contains(file.to_str().expect("text")), "a restart does not say where the key is: {text}");
    let client = Client::new(&second.base_url, Some(key));
    assert_eq!(client.status(&session).await, "errored", "its browser ended with the first run");
    client.session().await;

    // A crash: the next start has to cope with what lies around.
    kill(second.pid(), Signal::SIGKILL).expect("it runs");
    let mut second = second;
    second.child.wait().await.expect("a child");
    let third = Up::start(folder.path()).await;
    let client = Client::new(&third.base_url, Some(key));
    // The lease of the second run's worker has not run out, but its machine knows that it is dead: whoever is told that the
    // third is ready gets a session of the third.
    client.session().await;
    third.stop(folder.path()).await;
}

/// Contract: workers 10. An API process by itself waits for its callers' operations no longer than it may, and tells them so;
/// the operation goes on.
#[tokio::test]
async fn an_api_that_stops_keeps_nobody_waiting() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "500ms");
    let mut app = builder.start().await;
    let client = app.client().await;
    let session = client.session().await;
    let wait = client.waiting(&session, 60_000);
    app.busy(&session).await;
    let started = Instant::now();
    app.signal(0, Signal::SIGTERM).await;
    wait.await.expect("a task").problem(504, "session-timeout");
    assert!(started.elapsed() < Duration::from_secs(12), "it took {:?} to stop", started.elapsed());
    assert_eq!(app.status_of(&session).await, "busy");
    app.stop().await;
}

/// Contract: workers 10. Who sends a body too slowly for that keeps no process from ending, and is told.
#[tokio::test]
async fn a_slow_body_does_not_hold_up_the_end() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "500ms");
    let mut app = builder.start().await;
    let client = app.client().await;
    let (mut reader, mut writer) = raw::connect(&app.base_url).await;
    let head = format!(
        "POST /v1/profiles/import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{{",
        client.key.clone().expect("a key")
    );
    writer.write_all(head.as_bytes()).await.expect("a connection");
    // It is under way when another request on the same process, made later, was answered.
    client.get("/v1/profiles").await.expect(200);
    let started = Instant::now();
    app.signal(0, Signal::SIGTERM).await;
    assert!(started.elapsed() < Duration::from_secs(8), "it took {:?} to stop", started.elapsed());
    let answer = raw::answer(&mut reader, Duration::from_secs(5)).await;
    assert!(raw::status(&answer) == Some(503) && answer.contains("the service is stopping"), "{answer}");
    drop(writer);
    app.stop().await;
}

/// Contract: workers 15. A second worker does not start on the `data_dir` of one that lives, and says which process has it.
#[tokio::test]
async fn two_workers_do_not_share_a_data_dir() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let active = "select count(*) from workers where status = 'active'";
    eventually(Duration::from_secs(10), "the worker is there", async || (app.count(active).await == 1).then_some(()))
        .await;
    let data_dir = app.data_dir.path().join("data");
    for role in ["worker", "up"] {
        let mut command = app.command(&[role]);
        command.env("KITFLEET_SERVER__LISTEN", format!("127.0.0.1:{}", free_port()));
        let refused = run(command, "").await.code(1);
        let told = format!("process {} runs a worker on data_dir {}", app.pid(1), data_dir.display());
        assert!(refused.stderr.contains(&told), "{refused:?}");
    }
    assert_eq!(app.count("select count(*) from workers").await, 1);
    app.client().await.session().await;

    // Its death frees the folder.
    app.signal(1, Signal::SIGKILL).await;
    app.start(Role::Worker);
    eventually(Duration::from_secs(10), "the next worker is there", async || {
        (app.count("select count(*) from workers").await == 2 && app.count(active).await == 1).then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: workers 15. Who starts on the data of a worker that was killed knows at once that it is dead, and spares one that
/// lives.
#[tokio::test]
async fn a_dead_worker_is_known_to_the_next_on_its_data() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]).start().await;
    let active = "select count(*) from workers where status = 'active'";
    eventually(Duration::from_secs(10), "both workers are there", async || {
        (app.count(active).await == 2).then_some(())
    })
    .await;
    app.signal(1, Signal::SIGKILL).await;
    let started = Instant::now();
    app.start(Role::Worker);
    eventually(Duration::from_secs(10), "there is a third worker", async || {
        (app.count("select count(*) from workers").await == 3).then_some(())
    })
    .await;
    let lost = app.count("select count(*) from workers where status = 'lost'").await;
    assert!(started.elapsed() < LEASE, "too late to tell");
    assert_eq!((lost, app.count(active).await), (1, 2));
    app.stop().await;
}

struct Up {
    child: tokio::process::Child,
    base_url: String,
    log: PathBuf,
}

impl Up {
    async fn start(folder: &Path) -> Self {
        let port = free_port();
        let log = folder.join(format!("{port}.log"));
        let file = fs::File::create(&log).expect("a file");
        let mut command = alone(folder, &["up"]);
        command.env("KITFLEET_DATA_DIR", folder.join("data")).env("KITFLEET_WORKER__DRIVER", "simulated");
        command.env("KITFLEET_WORKER__DRAIN_TIMEOUT", "100ms");
        command.env("KITFLEET_SERVER__LISTEN", format!("127.0.0.1:{port}"));
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("the binary starts");
        let mut up = Self { child, base_url: format!("http://127.0.0.1:{port}"), log };
        eventually(Duration::from_mins(1), "it is ready", async || {
            if let Some(status) = up.child.try_wait().expect("a child") {
                panic!("it ended with {status}: {}", fs::read_to_string(&up.log).unwrap_or_default());
            }
            reqwest::get(format!("{}/readyz", up.base_url)).await.ok().filter(|answer| answer.status() == 200)
        })
        .await;
        up
    }

    /// What it has said since it started, once it has said where it is.
    async fn output(&self) -> String {
        eventually(Duration::from_secs(10), "it says where it is", async || {
            Some(fs::read_to_string(&self.log).expect("its output")).filter(|text| text.contains(&self.base_url))
        })
        .await
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id().expect("it runs")).expect("a process id"))
    }

    async fn stop(mut self, folder: &Path) {
        kill(self.pid(), Signal::SIGTERM).expect("it runs");
        let status = tokio::time::timeout(Duration::from_secs(40), self.child.wait()).await.expect("it stops");
        assert!(status.expect("a child").success());
        let left = processes_of(folder);
        assert!(left.is_empty(), "left: {left:?}");
        let data = folder.join("data");
        let sockets: Vec<_> = walk(&data).into_iter().filter(|path| is_socket(path)).collect();
        assert!(sockets.is_empty(), "{sockets:?}");
        assert!(!data.join("postgres/postmaster.pid").exists(), "the database was not shut down");
    }
}

/// The command lines of processes that name this folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().expect("text");
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.contains(folder)).collect()
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;

    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn files_with(folder: &Path, needle: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(needle));
    walk(folder).into_iter().filter(|path| !is_socket(path)).filter(holds).collect()
}
