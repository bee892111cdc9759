//! A PostgreSQL server for a test or a benchmark, which counts statements. Dropping it ends it.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use tempfile::TempDir;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SETTINGS: [&str; 2] = ["listen_addresses=", "shared_preload_libraries=pg_stat_statements"];

pub struct Postgres {
    process: Child,
    folder: TempDir,
    user: Option<User>,
    settings: Vec<String>,
}

impl Postgres {
    /// Creates a cluster in a temporary folder and starts it with these settings.
    pub async fn start(settings: &[&str]) -> Result<Self> {
        let (folder, user) = (TempDir::new()?, unprivileged()?);
        if let Some(user) = &user {
            chown(folder.path(), Some(user.uid), Some(user.gid))?;
        }
        let mut initdb = command("initdb", &folder, user.as_ref())?;
        initdb.args(["--username", "kitfleet", "--encoding", "UTF8", "--no-locale", "--auth", "trust", "--no-sync"]);
        if !initdb.status()?.success() {
            return Err("initdb failed".into());
        }
        let socket = format!("unix_socket_directories={}", folder.path().display());
        let settings = SETTINGS.iter().chain(settings).copied().chain([&*socket]);
        let settings: Vec<_> = settings.flat_map(|setting| ["-c".to_owned(), setting.to_owned()]).collect();
        let process = command("postgres", &folder, user.as_ref())?.args(&settings).spawn()?;
        let started = Self { process, folder, user, settings };
        started.until_ready().await?;
        Ok(started)
    }

    async fn until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match self.options().connect().await {
                Ok(connection) => return Ok(connection.close().await?),
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// This closes all connections.
    pub fn stop(&mut self) -> Result<()> {
        kill(self.pid(), Signal::SIGINT)?;
        self.process.wait()?;
        Ok(())
    }

    pub async fn start_again(&mut self) -> Result<()> {
        self.process = command("postgres", &self.folder, self.user.as_ref())?.args(&self.settings).spawn()?;
        self.until_ready().await
    }

    /// Options to connect to the default database of the cluster.
    pub fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass().socket(self.folder.path()).username("kitfleet").database("postgres")
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().try_into().unwrap_or(i32::MAX))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = kill(self.pid(), Signal::SIGINT);
        let _ = self.process.wait();
    }
}

fn command(program: &str, folder: &TempDir, user: Option<&User>) -> Result<Command> {
    // The program ends when its parent process ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]);
    if let Some(user) = user {
        command.args(["--reuid", &user.uid.to_string(), "--regid", &user.gid.to_string(), "--clear-groups"]);
    }
    command.arg(programs()?.join(program)).arg("-D").arg(folder.path().join("data")).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// PostgreSQL refuses to run as root.
fn unprivileged() -> Result<Option<User>> {
    if geteuid().is_root() { Ok(User::from_name("postgres")?.or(User::from_name("nobody")?)) } else { Ok(None) }
}

pub fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")?.flatten().map(|version| version.path().join("bin"));
    let version = |path: &PathBuf| path.parent().and_then(Path::file_name)?.to_str()?.parse::<u32>().ok();
    versions
        .filter(|bin| bin.join("initdb").is_file())
        .max_by_key(version)
        .ok_or_else(|| "no PostgreSQL is here".into())
}
