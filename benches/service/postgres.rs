//! A PostgreSQL of the bench's own, which waits for the disk as one in production does, and says what it was asked and what it waited for.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection};
use tempfile::TempDir;

use crate::Result;

pub struct Postgres {
    process: Child,
    folder: TempDir,
}

impl Postgres {
    /// Makes a cluster in the folder for temporary files, whose disk is what is measured, and starts it. Each flush of the log takes
    /// `commit_delay` longer, as on a slow disk.
    pub async fn start(commit_delay: Duration) -> Result<Self> {
        let (programs, folder) = (programs()?, TempDir::new()?);
        let data = folder.path().join("data");
        // PostgreSQL refuses to run as root.
        let user = User::from_name("postgres")?.or(User::from_name("nobody")?).filter(|_| geteuid().is_root());
        if let Some(user) = &user {
            chown(folder.path(), Some(user.uid), Some(user.gid))?;
        }
        let command = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command
                .arg("-D")
                .arg(&data)
                .current_dir("/")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if let Some(user) = &user {
                command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
            }
            command
        };
        let mut initdb = command("initdb");
        initdb.args(["--username", "kitfleet", "--encoding", "UTF8", "--no-locale", "--auth", "trust"]);
        if !initdb.status()?.success() {
            return Err("initdb failed".into());
        }
        let settings = [
            "listen_addresses=".to_owned(),
            format!("unix_socket_directories={}", folder.path().display()),
            "max_connections=2000".to_owned(),
            "shared_buffers=512MB".to_owned(),
            "max_wal_size=4GB".to_owned(),
            "shared_preload_libraries=pg_stat_statements".to_owned(),
            format!("commit_delay={}", commit_delay.as_micros()),
            "commit_siblings=0".to_owned(),
        ];
        let process = command("postgres").args(settings.iter().flat_map(|setting| ["-c", setting])).spawn()?;
        let started = Self { process, folder };
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut admin = loop {
            match started.options("postgres").connect().await {
                Ok(admin) => break admin,
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        sqlx::query("create database kitfleet").execute(&mut admin).await?;
        sqlx::query("create extension pg_stat_statements").execute(&mut started.connect().await?).await?;
        Ok(started)
    }

    pub fn url(&self) -> String {
        format!("postgres://kitfleet@localhost/kitfleet?host={}", self.folder.path().display())
    }

    pub async fn connect(&self) -> Result<PgConnection> {
        Ok(self.options("kitfleet").connect().await?)
    }

    fn options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass().socket(self.folder.path()).username("kitfleet").database(database)
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.process.id()) {
            // A process that is gone already is as good.
            let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
        }
        let _ = self.process.wait();
    }
}

/// Where the newest PostgreSQL of this machine has its programs.
fn programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")?.flatten().map(|version| version.path().join("bin"));
    let version = |path: &PathBuf| path.parent().and_then(Path::file_name)?.to_str()?.parse::<u32>().ok();
    versions
        .filter(|bin| bin.join("initdb").is_file())
        .max_by_key(version)
        .ok_or_else(|| "no PostgreSQL is here".into())
}
