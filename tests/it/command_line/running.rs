//! Contract: command-line; workers. Starts and stops of the service.

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

/// Contract: command-line 2. The error names the address.
#[tokio::test]
async fn start_on_a_used_port_fails() {
    let app = App::simulated().start().await;
    let ran = app.run(&["api"]).await.code(1);
    let address = app.base_url.strip_prefix("http://").expect("plain HTTP");
    let output = format!("{}{}", ran.stdout, ran.stderr);
    assert!(output.contains(address), "{output}");
    app.client().await.session().await;
    app.stop().await;
}

/// Contract: command-line 1. It also creates a local owner and prints the owner's key once. The key is in a file that only the
/// owner can read.
#[tokio::test]
async fn up_starts_its_own_database() {
    let folder = TempDir::new().expect("a folder");
    // The unprivileged database process needs access to the folder.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let first = Up::start(folder.path()).await;
    let text = first.output().await;
    let [key] = &keys_in(&text)[..] else { panic!("expected one key in {text}") };
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
    assert!(text.contains(file.to_str().expect("text")), "a restart does not print the path of the key file: {text}");
    let client = Client::new(&second.base_url, Some(key));
    assert_eq!(client.status(&session).await, "errored", "the browser ended with the first run");
    client.session().await;

    // A start after SIGKILL, with stale files.
    kill(second.pid(), Signal::SIGKILL).expect("the service runs");
    let mut second = second;
    second.child.wait().await.expect("a child");
    let third = Up::start(folder.path()).await;
    let client = Client::new(&third.base_url, Some(key));
    // The lease of the killed worker has not expired, but the next start on the machine marks it as dead. A session created
    // after `/readyz` succeeds is on the new worker.
    client.session().await;
    third.stop(folder.path()).await;
}

/// Contract: workers 10. The operation continues on its worker.
#[tokio::test]
async fn stopping_api_answers_waiting_callers_with_504() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "500ms");
    let mut app = builder.start().await;
    let client = app.client().await;
    let session = client.session().await;
    let wait = client.waiting(&session, 60_000);
    app.busy(&session).await;
    let started = Instant::now();
    app.signal(0, Signal::SIGTERM).await;
    wait.await.expect("a task").problem(504, "session-timeout");
    assert!(started.elapsed() < Duration::from_secs(12), "the shutdown took {:?}", started.elapsed());
    assert_eq!(app.status_of(&session).await, "busy");
    app.stop().await;
}

/// Contract: workers 10. The request is answered with 503.
#[tokio::test]
async fn slow_body_does_not_delay_the_shutdown() {
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
    // The other request has begun once a later request to the same process was answered.
    client.get("/v1/profiles").await.expect(200);
    let started = Instant::now();
    app.signal(0, Signal::SIGTERM).await;
    assert!(started.elapsed() < Duration::from_secs(8), "the shutdown took {:?}", started.elapsed());
    let answer = raw::answer(&mut reader, Duration::from_secs(5)).await;
    assert!(raw::status(&answer) == Some(503) && answer.contains("the service is stopping"), "{answer}");
    drop(writer);
    app.stop().await;
}

/// Contract: workers 15. The error names the process that uses it.
#[tokio::test]
async fn second_worker_on_same_data_dir_fails_to_start() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let active = "select count(*) from workers where status = 'active'";
    eventually(Duration::from_secs(10), "the worker is active", async || (app.count(active).await == 1).then_some(()))
        .await;
    let data_dir = app.data_dir.path().join("data");
    for role in ["worker", "up"] {
        let mut command = app.command(&[role]);
        command.env("KITFLEET_SERVER__LISTEN", format!("127.0.0.1:{}", free_port()));
        let refused = run(command, "").await.code(1);
        let message = format!("process {} runs a worker on data_dir {}", app.pid(1), data_dir.display());
        assert!(refused.stderr.contains(&message), "{refused:?}");
    }
    assert_eq!(app.count("select count(*) from workers").await, 1);
    app.client().await.session().await;

    // The death of the worker releases the folder.
    app.signal(1, Signal::SIGKILL).await;
    app.start(Role::Worker);
    eventually(Duration::from_secs(10), "the next worker is active", async || {
        (app.count("select count(*) from workers").await == 2 && app.count(active).await == 1).then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: workers 15. Live workers are not affected.
#[tokio::test]
async fn dead_worker_is_marked_lost_at_the_next_start() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]).start().await;
    let active = "select count(*) from workers where status = 'active'";
    eventually(Duration::from_secs(10), "both workers are active", async || {
        (app.count(active).await == 2).then_some(())
    })
    .await;
    app.signal(1, Signal::SIGKILL).await;
    let started = Instant::now();
    app.start(Role::Worker);
    eventually(Duration::from_secs(10), "the third worker is registered", async || {
        (app.count("select count(*) from workers").await == 3).then_some(())
    })
    .await;
    let lost = app.count("select count(*) from workers where status = 'lost'").await;
    assert!(started.elapsed() < LEASE, "the lease expired before the check");
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
        eventually(Duration::from_mins(1), "the service is ready", async || {
            if let Some(status) = up.child.try_wait().expect("a child") {
                panic!("the service ended with {status}: {}", fs::read_to_string(&up.log).unwrap_or_default());
            }
            reqwest::get(format!("{}/readyz", up.base_url)).await.ok().filter(|answer| answer.status() == 200)
        })
        .await;
        up
    }

    /// Since the start.
    async fn output(&self) -> String {
        eventually(Duration::from_secs(10), "the output contains the address", async || {
            Some(fs::read_to_string(&self.log).expect("the output")).filter(|text| text.contains(&self.base_url))
        })
        .await
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id().expect("the service runs")).expect("a process id"))
    }

    async fn stop(mut self, folder: &Path) {
        kill(self.pid(), Signal::SIGTERM).expect("the service runs");
        let status = tokio::time::timeout(Duration::from_secs(40), self.child.wait()).await.expect("the service stops");
        assert!(status.expect("a child").success());
        let left = processes_of(folder);
        assert!(left.is_empty(), "left: {left:?}");
        let data = folder.join("data");
        let sockets: Vec<_> = walk(&data).into_iter().filter(|path| is_socket(path)).collect();
        assert!(sockets.is_empty(), "{sockets:?}");
        assert!(!data.join("postgres/postmaster.pid").exists(), "the database was not shut down");
    }
}

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
