//! The private database: a PostgreSQL cluster of our own under `data_dir/postgres`.
//!
//! It uses the machine's PostgreSQL, with the same SQL and jobs as in production, and listens only on a socket inside
//! its own folder, which only the user of the server can enter.
//!
//! PostgreSQL refuses to run as root, so root runs it as another user, which may not be able to reach the folder, for
//! example under `/root`. And a socket's path may have at most 107 bytes, but the folder's path thousands. So neither
//! side uses the folder's path: PostgreSQL gets an open descriptor of the folder as `/proc/self/fd/9` and binds its
//! socket relative to its working directory, and Kitfleet connects through its own descriptor.
//!
//! The process that runs the cluster holds a lock on `data_dir`. A thread starts PostgreSQL, restarts it when it dies,
//! and stops it. The kernel stops it when that thread dies first.

use std::cmp::Reverse;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{Connection as _, PgConnection};

const NAME: &str = "kitfleet";
const FOLDER: &str = "postgres";
/// The descriptor of the folder.
const FOLDER_DESCRIPTOR: &str = "/proc/self/fd/9";
/// Opens its first argument as that descriptor, and executes the others.
const OPEN_FOLDER: &str = r#"exec 9<"$1"; shift; exec "$@""#;
/// Time limit for the recovery of a server before a start fails.
const START_LIMIT: Duration = Duration::from_mins(5);
/// Failed attempts in a row, before the first success, after which the start fails.
const FAILED_STARTS: u32 = 3;
/// A fast shutdown, the immediate one after it, and SIGKILL.
const STOP_LIMITS: [(Signal, Duration); 3] = [
    (Signal::SIGINT, Duration::from_secs(30)),
    (Signal::SIGQUIT, Duration::from_secs(5)),
    (Signal::SIGKILL, Duration::from_secs(5)),
];
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The pause doubles after each failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// A server that lived this long restarts without a pause.
const STEADY: Duration = Duration::from_mins(1);

/// Differences from PostgreSQL's defaults: no network, and the sizes for a small machine.
const SETTINGS: [&str; 14] = [
    "listen_addresses=",
    "unix_socket_directories=.",
    "cluster_name=kitfleet",
    "max_connections=200",
    "shared_buffers=128MB",
    "max_wal_size=512MB",
    "wal_compression=on",
    "jit=off",
    // Microseconds that a commit waits for others, to share a write to the disk. A single commit does not wait.
    "commit_delay=500",
    // Sessions and jobs are small tables that change often.
    "autovacuum_naptime=10s",
    "log_destination=stderr",
    "logging_collector=off",
    "log_min_messages=warning",
    "log_line_prefix=",
];

/// Dropping it stops the server and waits for its end, some tenths of a second: inside async code use
/// [`Cluster::stop`].
pub struct Cluster {
    folder: Folder,
    stop: Option<Sender<()>>,
    supervisor: Option<JoinHandle<()>>,
    /// Held for as long as the server may run.
    _lock: Lock,
}

impl Cluster {
    /// Also stops a server left by an earlier process.
    ///
    /// The message of an error names a remedy.
    pub async fn start(data_dir: &Path, lock: Lock) -> Result<Self> {
        let path = data_dir.join(FOLDER);
        let prepared = tokio::task::spawn_blocking(move || Server::prepare(path));
        let server = prepared.await.context("preparing the embedded database")??;
        let folder = Folder::open(data_dir)?;
        let health = Arc::clone(&server.health);
        let (stop, stopped) = mpsc::channel();
        let supervisor = thread::Builder::new()
            .name("postgres".to_owned())
            .spawn(move || server.supervise(&stopped))
            .context("cannot start a thread for the embedded database")?;
        let cluster = Self { folder, stop: Some(stop), supervisor: Some(supervisor), _lock: lock };
        cluster.wait_until_ready(&health).await?;
        Ok(cluster)
    }

    async fn wait_until_ready(&self, health: &Health) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        let maintenance = self.folder.options().database("postgres");
        let mut conn = loop {
            let error = match PgConnection::connect_with(&maintenance).await {
                Ok(conn) => break conn,
                Err(error) => error,
            };
            let hopeless = health.failed_starts.load(Ordering::Relaxed) >= FAILED_STARTS;
            if hopeless || Instant::now() > deadline {
                let reason = health.last_log_line().unwrap_or_else(|| error.to_string());
                bail!("the embedded database does not start: {reason}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let exists: bool = sqlx::query_scalar("select exists(select from pg_database where datname = $1)")
            .bind(NAME)
            .fetch_one(&mut conn)
            .await?;
        if !exists {
            sqlx::query("create database kitfleet").execute(&mut conn).await?;
        }
        conn.close().await?;
        Ok(())
    }

    pub fn options(&self) -> PgConnectOptions {
        self.folder.options()
    }

    pub async fn stop(self) {
        // A panic of the supervisor is logged before its thread is joined.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join();
        }
    }
}

/// Held by the process that runs the cluster of one `data_dir`. The kernel releases it when the process dies.
pub struct Lock(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

impl Lock {
    /// `None` while another process holds the lock.
    pub fn take(data_dir: &Path) -> Result<Option<Self>> {
        let unusable = || format!("data_dir {} cannot be used", data_dir.display());
        DirBuilder::new().recursive(true).mode(0o700).create(data_dir).with_context(unusable)?;
        let file = File::create(data_dir.join("lock")).with_context(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(unusable),
        }
    }
}

/// Connections reach the socket through it; keep it open while connections are made.
pub struct Folder(File);

impl Folder {
    pub fn is_in(data_dir: &Path) -> bool {
        data_dir.join(FOLDER).exists()
    }

    /// Returns an error if no cluster exists, or this user may not enter its folder.
    pub fn open(data_dir: &Path) -> Result<Self> {
        let path = data_dir.join(FOLDER);
        Ok(Self(File::open(&path).with_context(|| format!("the embedded database in {}", path.display()))?))
    }

    pub fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
            .port(5432)
            .username(NAME)
            .database(NAME)
            .ssl_mode(PgSslMode::Disable)
    }
}

#[derive(Debug)]
pub struct Installation {
    pub major: u32,
    pub programs: PathBuf,
}

impl Installation {
    pub fn all() -> Vec<Self> {
        let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = packaged.map(|version| version.path().join("bin")).collect();
        let first_in_path = output(Command::new("sh").args(["-c", "command -v postgres"]));
        folders.extend(first_in_path.and_then(|program| Some(Path::new(&program).parent()?.to_owned())));
        folders.extend(output(Command::new("pg_config").arg("--bindir")).map(PathBuf::from));
        let mut found: Vec<Self> = folders.into_iter().filter_map(Self::at).collect();
        found.sort_by_key(|installation| Reverse(installation.major));
        found
    }

    fn at(programs: PathBuf) -> Option<Self> {
        // "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
        let version = output(Command::new(programs.join("postgres")).arg("--version"))?;
        let major = version.split_whitespace().nth(2)?.split('.').next()?.parse().ok()?;
        programs.join("initdb").exists().then_some(Self { major, programs })
    }

    /// A cluster belongs to one major version; a new one gets the newest.
    fn choose(folder: &Path) -> Result<Self> {
        let mut installed = Self::all();
        ensure!(
            !installed.is_empty(),
            "no PostgreSQL server on this machine: install one (Debian, Ubuntu: apt-get install postgresql) or set database.url"
        );
        let Ok(major) = fs::read_to_string(folder.join("PG_VERSION")) else { return Ok(installed.remove(0)) };
        let major = major.trim();
        installed.into_iter().find(|installation| installation.major.to_string() == major).with_context(|| {
            format!("PostgreSQL {major} created the embedded database and is not installed: install postgresql-{major}")
        })
    }
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

#[derive(Default)]
struct Health {
    failed_starts: AtomicU32,
    last_log_line: Mutex<Option<String>>,
}

impl Health {
    fn last_log_line(&self) -> Option<String> {
        self.last_log_line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Server {
    folder: PathBuf,
    installation: Installation,
    /// Set when Kitfleet runs as root, because PostgreSQL refuses root.
    user: Option<User>,
    health: Arc<Health>,
}

impl Server {
    fn prepare(folder: PathBuf) -> Result<Self> {
        ensure!(
            output(Command::new("setpriv").arg("--version")).is_some(),
            "setpriv is missing: install util-linux, or set database.url"
        );
        let installation = Installation::choose(&folder)?;
        let user = if geteuid().is_root() { Some(unprivileged_user()?) } else { None };
        let server = Self { folder, installation, user, health: Arc::default() };
        if server.folder.exists() {
            server.stop_previous_server()?;
        } else {
            server.create()?;
        }
        Ok(server)
    }

    /// Creates the cluster under a temporary name and then renames it, so that a partial cluster never has the final name.
    fn create(&self) -> Result<()> {
        let unfinished = self.folder.with_extension("new");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).context("removing an incomplete database")?;
        }
        DirBuilder::new().mode(0o700).create(&unfinished).context("creating the embedded database")?;
        if let Some(user) = &self.user {
            chown(&unfinished, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
                .context("changing the owner of the embedded database")?;
        }
        tracing::info!(postgres = self.installation.major, path = %self.folder.display(), "creating the embedded database");
        let initdb = self
            .command(&unfinished, "initdb")
            .args(["-D", FOLDER_DESCRIPTOR, "--username", NAME, "--encoding=UTF8", "--no-locale", "--auth=trust"])
            .output()
            .context("running initdb")?;
        ensure!(
            initdb.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&initdb.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
        );
        fs::rename(&unfinished, &self.folder).context("renaming the embedded database to its final name")
    }

    /// Stops the server of an earlier process, and removes the lock files of a killed server. They name a pid that may
    /// now belong to another process, or to a zombie.
    fn stop_previous_server(&self) -> Result<()> {
        let pid = fs::read_to_string(self.folder.join("postmaster.pid"))
            .ok()
            .and_then(|text| text.lines().next()?.trim().parse().ok());
        if let Some(pid) = pid.map(Pid::from_raw).filter(|pid| self.is_served_by(*pid)) {
            tracing::warn!(%pid, "stopping a database server left by an earlier process");
            let ended = STOP_LIMITS.into_iter().any(|(signal, limit)| {
                // The server may end on its own at any moment.
                let _ = kill(pid, signal);
                wait_until(limit, || !self.is_served_by(pid))
            });
            ensure!(ended, "the database server {pid} of an earlier process does not end");
        }
        for leftover in ["postmaster.pid", ".s.PGSQL.5432.lock", ".s.PGSQL.5432"] {
            match fs::remove_file(self.folder.join(leftover)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("removing a stale {leftover}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// True when the process is a server: its working directory is the folder.
    fn is_served_by(&self, pid: Pid) -> bool {
        let stands_in = fs::read_link(format!("/proc/{pid}/cwd"));
        matches!((stands_in, fs::canonicalize(&self.folder)), (Ok(one), Ok(other)) if one == other)
    }

    /// Runs as the right user, with `folder` open as [`FOLDER_DESCRIPTOR`], in a process group of its own, so that
    /// Ctrl-C at the terminal reaches only Kitfleet.
    fn command(&self, folder: &Path, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", OPEN_FOLDER, "sh"]).arg(folder).args(["setpriv", "--pdeathsig", "INT"]);
        if let Some(user) = &self.user {
            command.args(["--reuid", &user.uid.to_string(), "--regid", &user.gid.to_string(), "--clear-groups"]);
        }
        command.arg(self.installation.programs.join(program));
        command.current_dir("/").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        command
    }

    /// Runs the server until the other end of `stop` is dropped. The kernel interrupts it when this thread dies.
    fn supervise(self, stop: &Receiver<()>) {
        let mut pause = PAUSES.0;
        loop {
            let started = Instant::now();
            match self.serve(stop) {
                Ok(()) => return,
                Err(error) => {
                    self.health.failed_starts.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(%error, restart_in = ?pause, "embedded database ended: restarting it");
                }
            }
            pause = if started.elapsed() > STEADY { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
            if stop.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Returns `Ok` after a stop signal.
    fn serve(&self, stop: &Receiver<()>) -> Result<()> {
        self.stop_previous_server()?;
        let mut command = self.command(&self.folder, "postgres");
        command.args(["-D", FOLDER_DESCRIPTOR]).args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        let mut server = command.spawn().context("starting postgres")?;
        if let Some(messages) = server.stderr.take() {
            let health = Arc::clone(&self.health);
            thread::Builder::new().name("postgres-log".to_owned()).spawn(move || relay(messages, &health))?;
        }
        loop {
            if stop.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Disconnected) {
                return end(&mut server);
            }
            if let Some(status) = server.try_wait().context("waiting for postgres")? {
                bail!("postgres ended: {status}");
            }
        }
    }
}

fn relay(messages: ChildStderr, health: &Health) {
    for line in BufReader::new(messages).lines().map_while(Result::ok) {
        let grave = ["FATAL:", "PANIC:", "postgres:", "setpriv:", "sh:"].iter().any(|word| line.starts_with(word));
        // These lines are about one connection, not about the server.
        let passing = ["the database system is", "terminating connection"].iter().any(|words| line.contains(words));
        if grave && !passing {
            tracing::warn!(target: "postgres", "{line}");
            *health.last_log_line.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        } else {
            tracing::debug!(target: "postgres", "{line}");
        }
    }
}

/// A fast shutdown, then an immediate one, then SIGKILL.
fn end(server: &mut Child) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(server.id()).context("a process id")?);
    for (signal, limit) in STOP_LIMITS {
        // The server is a child that was not waited for, so that the id still belongs to it.
        let _ = kill(pid, signal);
        if wait_until(limit, || !matches!(server.try_wait(), Ok(None))) {
            return Ok(());
        }
        tracing::warn!(%signal, "embedded database does not stop after a signal");
    }
    Ok(())
}

fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

fn unprivileged_user() -> Result<User> {
    // Not `nobody`: unrelated services share that user, and could read all rows.
    let found = User::from_name("postgres").context("looking up the user postgres")?;
    found.context(
        "PostgreSQL does not run as root, and this machine has no user postgres: create one, start as another user, or set database.url",
    )
}
