//! A real `PgBouncer` in transaction mode in front of the tests' database server (tests/pgbouncer/install).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::unistd::geteuid;
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;

use super::app::free_port;
use super::eventually;

/// Dropping it ends it.
pub struct Pooler {
    port: u16,
    process: Child,
    _folder: TempDir,
}

/// To the server, per database.
pub const CONNECTIONS: u32 = 8;

impl Pooler {
    pub async fn start(server: &PgConnectOptions) -> Self {
        let (folder, port) = (TempDir::new().expect("a folder"), free_port());
        let host = server.get_socket().map_or_else(|| server.get_host().to_owned(), |path| path.display().to_string());
        // PgBouncer refuses to run as root.
        let user = if geteuid().is_root() { "user = nobody\n" } else { "" };
        let settings = format!(
            "[databases]
* = host={host} port={} user={}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_prepared_statements = 200
ignore_startup_parameters = extra_float_digits,options
default_pool_size = {CONNECTIONS}
max_client_conn = 500
{user}",
            server.get_port(),
            server.get_username(),
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).expect("a file");
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let process = Command::new(program()).arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let pooler = Self { port, process: process.expect("PgBouncer starts"), _folder: folder };
        eventually(Duration::from_secs(10), "the pooler listens", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()
        })
        .await;
        pooler
    }

    /// Through the pooler.
    pub fn url(&self, database: &str) -> String {
        let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(self.port).username("kitfleet");
        options.database(database).to_url_lossy().to_string()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program() -> PathBuf {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    Path::new(env!("CARGO_MANIFEST_DIR")).join(target).join("pgbouncer/pgbouncer")
}
