//! The X server that browsers draw on: one Xvfb a worker, started again when it dies.
//!
//! Its browsers die with it, because GTK ends a program that loses its display; each session learns of that from its
//! own host.

use std::io;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::StartError;
use super::processes::{Family, Spawner};

/// Large enough for every device of the catalogue, in physical pixels, and no larger: each pixel costs memory.
const SCREEN: &str = "1640x2304x24";

/// How long Xvfb may take to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause before another attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A supervised X server.
pub struct Display {
    name: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    supervision: TaskTracker,
}

impl Display {
    /// Starts the server.
    ///
    /// # Errors
    /// When Xvfb is not installed or does not start.
    pub async fn start(spawner: &Spawner) -> Result<Self, StartError> {
        let first = Server::start(spawner).await.map_err(StartError::Display)?;
        let (name, receiver) = watch::channel(None);
        let stop = CancellationToken::new();
        let supervision = TaskTracker::new();
        supervision.spawn(supervise(first, spawner.clone(), name, stop.clone()));
        Ok(Self { name: receiver, stop, supervision })
    }

    /// What `DISPLAY` has to be. Waits while the server starts again.
    pub async fn name(&self) -> String {
        let mut name = self.name.clone();
        match name.wait_for(Option::is_some).await {
            Ok(name) => name.clone().unwrap_or_default(),
            // It is stopped for good; a browser that tries all the same fails with a clear line of GTK's.
            Err(_) => String::new(),
        }
    }

    /// Stops the server, which takes its socket and its lock away.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.supervision.close();
        self.supervision.wait().await;
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Server {
    family: Family,
    number: u32,
}

impl Server {
    async fn start(spawner: &Spawner) -> io::Result<Self> {
        // Xvfb cannot ask to die with its parent; setpriv asks for it. It is asked kindly, so that it tidies up.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "Xvfb", "-displayfd", "1", "-screen", "0", SCREEN]);
        // Nothing draws with OpenGL, and its library costs more memory than the screen.
        command.args(["-nolisten", "tcp", "-noreset", "-extension", "GLX"]);
        let mut family = spawner.spawn(command).await?;
        let (_, stdout, stderr) = family.take_pipes()?;
        let mut lines = BufReader::new(stdout).lines();
        let number = match timeout(PATIENCE, lines.next_line()).await {
            Ok(line) => line?.and_then(|line| line.trim().parse().ok()),
            Err(_) => None,
        };
        let Some(number) = number else {
            family.signal(Signal::SIGKILL);
            let mut words = String::new();
            let _ = tokio::io::AsyncReadExt::read_to_string(&mut BufReader::new(stderr), &mut words).await;
            return Err(io::Error::other(format!("Xvfb did not start: {}", words.trim())));
        };
        tokio::spawn(super::host::log_lines("xvfb", stderr));
        Ok(Self { family, number })
    }

    async fn stop(mut self) {
        self.family.signal(Signal::SIGTERM);
        let _ = timeout(PATIENCE, self.family.leader_ended()).await;
        self.bury().await;
    }

    /// Takes away what a server that was killed leaves behind. One that ended well has removed both, and its number may
    /// be another's by now: the lock tells whose it is.
    async fn bury(self) {
        let owner = self.family.id().to_string();
        self.family.end().await;
        let lock = format!("/tmp/.X{}-lock", self.number);
        if tokio::fs::read_to_string(&lock).await.is_ok_and(|pid| pid.trim() == owner) {
            for path in [lock, format!("/tmp/.X11-unix/X{}", self.number)] {
                let _ = tokio::fs::remove_file(path).await;
            }
        }
    }
}

async fn supervise(first: Server, spawner: Spawner, name: watch::Sender<Option<String>>, stop: CancellationToken) {
    let mut running = Some(first);
    loop {
        if let Some(mut server) = running.take() {
            name.send_replace(Some(format!(":{}", server.number)));
            tokio::select! {
                () = stop.cancelled() => return server.stop().await,
                status = server.family.leader_ended() => {
                    name.send_replace(None);
                    tracing::error!(%status, "Xvfb ended, and the browsers with it: starting another");
                    server.bury().await;
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            started = Server::start(&spawner) => match started {
                Ok(server) => running = Some(server),
                Err(error) => {
                    tracing::error!(%error, "Xvfb does not start");
                    sleep(RETRY_AFTER).await;
                }
            },
        }
    }
}
