//! A Redis server for a test, which can freeze and die.

use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::app::free_port;

/// Without persistence. Dropping it ends it.
pub struct Redis {
    port: u16,
    folder: TempDir,
    process: Child,
}

impl Redis {
    pub fn start() -> Self {
        let (port, folder) = (free_port(), TempDir::new().expect("a folder"));
        let process = spawn(port, &folder);
        Self { port, folder, process }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// SIGSTOP freezes the server, and SIGCONT continues it.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).expect("a process id"));
        kill(pid, signal).expect("Redis runs");
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("Redis runs");
        self.process.wait().expect("Redis is ours");
    }

    /// The server cannot store anything then.
    pub fn fill(&self) {
        self.limit_memory("1");
    }

    /// Removes the memory limit.
    pub fn make_room(&self) {
        self.limit_memory("0");
    }

    fn limit_memory(&self, bytes: &str) {
        self.send_command(&["CONFIG", "SET", "maxmemory", bytes, "maxmemory-policy", "noeviction"]);
    }

    /// The user has every permission except for channels.
    pub fn url_without_channels(&self) -> String {
        self.send_command(&["ACL", "SETUSER", "deaf", "on", ">password", "~*", "+@all", "resetchannels"]);
        format!("redis://deaf:password@127.0.0.1:{}", self.port)
    }

    fn send_command(&self, command: &[&str]) {
        let client = redis::Client::open(self.url()).expect("a URL");
        let mut connection = client.get_connection().expect("Redis runs");
        redis::cmd(command[0]).arg(&command[1..]).exec(&mut connection).expect("Redis takes it");
    }

    /// On the same port.
    pub fn restart(&mut self) {
        self.process = spawn(self.port, &self.folder);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(port: u16, folder: &TempDir) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("ops/setup installs redis-server")
}
