//! One `kitfleet-host` process: how it is started, told what to do, and known to be dead.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{env, io};

use futures_util::{FutureExt, StreamExt};
use kitfleet_domain::archetypes::{Archetype, Size};
use kitfleet_domain::blocking::run_blocking;
use kitfleet_domain::operations::{Failure, FailureClass};
use kitfleet_host_protocol::{HostCommand, HostError, MOST_LINE_BYTES, Message, Outcome, Request};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument as _;

use super::bounds::{Verdict, Watchdog};
use super::confinement::Confinement;
use super::directories::BrowserDirectory;
use super::page::LoadedScripts;
use super::processes::{Family, Processes, Spawner};

/// How often the network process is looked at.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// How long a host that ends by itself may take. It takes 50 ms; one whose main loop hangs ends itself after two seconds.
const ENDS_WITHIN: Duration = Duration::from_millis(2_500);

/// What a family that cannot be confined may know of the worker's environment, which holds secrets.
const INHERITED: [&str; 6] = ["PATH", "HOME", "LD_LIBRARY_PATH", "FONTCONFIG_FILE", "FONTCONFIG_PATH", "TMPDIR"];

/// How a host is started, and by whom.
pub struct HostLaunch<'a> {
    /// The executable.
    pub program: &'a Path,
    /// The device that it is to be: one of the same pixel ratio can still be made of it, but takes longer.
    pub archetype: &'a Archetype,
    /// How it is kept apart.
    pub confinement: &'a Confinement,
    /// A folder of its own, which goes with it.
    pub directory: BrowserDirectory,
    /// Looks at what it takes.
    pub watchdog: &'a Watchdog,
    /// Its parent.
    pub spawner: &'a Spawner,
    /// Ends it even while it is in use.
    pub stopping: &'a CancellationToken,
    /// Knows when nothing is left of it.
    pub tasks: &'a TaskTracker,
}

/// A running host. Dropping it kills the whole family and removes its folder, in the background.
pub struct Host {
    /// While this is there, the host's input does not end.
    requests: mpsc::UnboundedSender<String>,
    line: HostHandle,
    directory: BrowserDirectory,
    told: LoadedScripts,
    /// While this is there, the host is in use.
    in_use: oneshot::Sender<ExitRequest>,
    burial: JoinHandle<()>,
    _tasks: [AbortOnDropHandle<()>; 3],
}

/// The way to a running host. It can be shared, and keeps no host running.
#[derive(Clone)]
pub struct HostHandle {
    requests: mpsc::WeakUnboundedSender<String>,
    replies: Arc<Replies>,
    next_id: Arc<AtomicU64>,
    death: watch::Receiver<Option<Death>>,
}

/// Asked of whoever buries a host: to let it end by itself.
struct ExitRequest {
    /// Told when no process is left.
    ended: oneshot::Sender<()>,
    /// Until the other end is gone, the folder stays.
    kept: oneshot::Receiver<Infallible>,
}

/// The folder of a host that has ended by itself. It is removed when this is dropped, in the background.
pub struct HostFolder {
    directory: BrowserDirectory,
    _keep: oneshot::Sender<Infallible>,
}

/// What browsers die of that nobody has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// It took more memory than it may have.
    Memory,
    /// It wrote more than it may, or the disk is nearly full and it wrote most.
    Disk,
    /// The process of its page ended.
    PageProcess,
    /// Its network process ended.
    NetworkProcess,
    /// Its host ended, or said what nobody understands.
    Host,
}

impl Cause {
    /// As metrics spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A browser's end.
#[derive(Debug, Clone)]
struct Death {
    cause: Cause,
    failure: Failure,
}

/// Why a command was not done.
#[derive(Debug)]
pub enum CallError {
    /// The host is dead.
    Dead(Failure),
    /// The host says why.
    Refused(HostError),
}

impl Host {
    /// Starts a host and waits until it shows its blank page. How long that may take is the caller's business.
    ///
    /// # Errors
    /// When the program cannot be started, or ends instead.
    pub async fn start(start: HostLaunch<'_>) -> Result<Self, Failure> {
        let HostLaunch { program, archetype, confinement, directory, watchdog, spawner, stopping, tasks } = start;
        let failed = |error: io::Error| driver_failure(format!("{} did not start: {error}", program.display()));
        confinement.hand_over(&directory.session(), &directory).map_err(failed)?;
        let mut command = confinement.family(program, &directory);
        let size = |Size { width, height }: Size| format!("{width}x{height}");
        command.args(["--scale", &archetype.device_pixel_ratio.to_string()]);
        command.args(["--viewport", &size(archetype.viewport), "--screen", &size(archetype.screen)]);
        let mut family = spawner.spawn(command).await.map_err(failed)?;
        let (stdin, stdout, stderr) = family.take_pipes().map_err(failed)?;
        let leader = family.id();
        let verdict = watchdog.watch(leader, directory.session());

        let (requests, queue) = mpsc::unbounded_channel();
        let (died, death) = watch::channel(None);
        let (ready, is_ready) = oneshot::channel();
        let replies = Arc::new(Replies::default());
        let reader = read(stdout, leader, ready, Arc::clone(&replies), (Arc::clone(&verdict), died));
        let pipes = [tokio::spawn(write(stdin, queue)), tokio::spawn(reader), tokio::spawn(log_lines("host", stderr))];
        let (in_use, released) = oneshot::channel();
        let burial = tasks.spawn(bury(family, directory.clone(), verdict, released, stopping.clone()));
        let line = HostHandle { requests: requests.downgrade(), replies, next_id: Arc::new(AtomicU64::new(1)), death };
        let (told, tasks) = (LoadedScripts::default(), pipes.map(AbortOnDropHandle::new));
        let host = Self { requests, line, directory, told, in_use, burial, _tasks: tasks };
        match is_ready.await {
            Ok(()) => Ok(host),
            Err(_) => Err(host.died().await),
        }
    }

    /// Where the host keeps its data.
    pub fn directory(&self) -> &BrowserDirectory {
        &self.directory
    }

    /// What its page was told.
    pub fn told(&self) -> &LoadedScripts {
        &self.told
    }

    /// Has the host do something and decodes its reply. Dropping the future forgets the reply, but undoes nothing.
    ///
    /// # Errors
    /// When the host refuses, or dies first.
    pub async fn call<T: DeserializeOwned>(&self, command: HostCommand) -> Result<T, CallError> {
        self.line.call(command).await
    }

    /// A way to it for others.
    pub fn line(&self) -> HostHandle {
        self.line.clone()
    }

    /// Waits until the host, its web process or its network process has ended by itself.
    pub async fn died(&self) -> Failure {
        wait_for_death(&mut self.line.death.clone()).await
    }

    /// Whether it still takes commands.
    pub fn is_alive(&self) -> bool {
        self.cause_of_death().is_none()
    }

    /// What it died of.
    pub fn cause_of_death(&self) -> Option<Cause> {
        self.line.death.borrow().as_ref().map(|death| death.cause)
    }

    /// Something that waits for the end without borrowing the host.
    pub fn death(&self) -> impl Future<Output = Failure> + use<> {
        self.line.death()
    }

    /// Kills the whole family, waits until nothing is left of it, and removes its folder.
    pub async fn end(self) {
        let Self { in_use, burial, .. } = self;
        drop(in_use);
        // A panic there was reported already.
        let _ = burial.await;
    }

    /// Has the host end by itself, and waits for that, so that its network process writes down what sites have stored
    /// and WebKit has not written yet. Nothing changes its folder then.
    ///
    /// # Errors
    /// When it has been killed already.
    pub async fn end_in_order(self) -> Result<HostFolder, Failure> {
        let Self { requests, in_use, directory, _tasks: pipes, .. } = self;
        let (ended, has_ended) = oneshot::channel();
        let (keep, kept) = oneshot::channel();
        // One that was killed has nobody who hears this, and then nobody says that it has ended.
        let _ = in_use.send(ExitRequest { ended, kept });
        // End of input ends it.
        drop(requests);
        let ended = has_ended.await;
        drop(pipes);
        ended.map_err(|_| driver_failure("the browser was killed"))?;
        Ok(HostFolder { directory, _keep: keep })
    }
}

impl HostHandle {
    /// As [`Host::call`].
    ///
    /// # Errors
    /// When the host refuses, or has ended.
    pub async fn call<T: DeserializeOwned>(&self, command: HostCommand) -> Result<T, CallError> {
        let name = command.name();
        let span = tracing::info_span!("browser", command = name);
        self.send(name, command).instrument(span).await
    }

    async fn send<T: DeserializeOwned>(&self, name: &str, command: HostCommand) -> Result<T, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = serde_json::to_string(&Request { id, command }).expect("commands have string keys");
        let reply = self.replies.expect(id);
        // A dead host's writer is gone, and its replies too: the next line notices.
        let _ = self.requests.upgrade().map(|requests| requests.send(line));
        match reply.await {
            Some(Outcome::Ok(value)) => {
                run_blocking(value.get().len(), || serde_json::from_str(value.get())).map_err(|error| {
                    CallError::Dead(driver_failure(format!("the browser answered {name} oddly: {error}")))
                })
            }
            Some(Outcome::Error(error)) => Err(CallError::Refused(error)),
            None => Err(CallError::Dead(self.death().await)),
        }
    }

    /// Waits until the host has ended, by itself or because its owner had it end.
    pub fn death(&self) -> impl Future<Output = Failure> + use<> {
        let mut death = self.death.clone();
        async move { wait_for_death(&mut death).await }
    }
}

impl HostFolder {
    /// The folder.
    pub fn directory(&self) -> &BrowserDirectory {
        &self.directory
    }
}

/// What programs of the machine may know of the worker's environment.
#[allow(clippy::disallowed_methods, reason = "these are handed on as they are: no settings of ours are among them")]
pub fn inherited() -> impl Iterator<Item = (&'static str, OsString)> {
    INHERITED.into_iter().filter_map(|name| Some((name, env::var_os(name)?)))
}

/// Ends the family when its host is no longer in use, was condemned, or the pool stops. This is a task of its own, so that it is done
/// whatever becomes of the owner.
async fn bury(
    family: Family,
    directory: BrowserDirectory,
    verdict: Arc<Verdict>,
    released: oneshot::Receiver<ExitRequest>,
    stopping: CancellationToken,
) {
    let farewell = tokio::select! {
        farewell = released => farewell.ok(),
        () = stopping.cancelled() => None,
        _ = verdict.spoken() => None,
    };
    if let Some(ExitRequest { ended, kept }) = farewell {
        family.end_in_order(ENDS_WITHIN).await;
        // Whoever waits for either may have given up.
        let _ = ended.send(());
        let _ = stopping.run_until_cancelled(kept).await;
    } else {
        family.end().await;
    }
    directory.remove().await;
}

/// A failure of the browser.
pub fn driver_failure(detail: impl Into<String>) -> Failure {
    Failure { class: FailureClass::Driver, detail: detail.into() }
}

/// Commands whose reply has not come; `None` once there can be no further replies.
struct Replies {
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Outcome>>>>,
}

impl Default for Replies {
    fn default() -> Self {
        Self { waiting: Mutex::new(Some(HashMap::new())) }
    }
}

impl Replies {
    /// The reply to a command; `None` when the host dies first.
    fn expect(&self, id: u64) -> impl Future<Output = Option<Outcome>> {
        let (sender, receiver) = oneshot::channel();
        self.with(|waiting| waiting.as_mut().map(|waiting| waiting.insert(id, sender)));
        let forget = PendingReply { replies: self, id };
        receiver.map(move |outcome| {
            let _forget = &forget;
            outcome.ok()
        })
    }

    fn arrived(&self, id: u64, outcome: Outcome) {
        if let Some(sender) = self.with(|waiting| waiting.as_mut()?.remove(&id)) {
            // Whoever asked may have given up.
            let _ = sender.send(outcome);
        }
    }

    /// Tells everyone who waits that the host is dead.
    fn end(&self) {
        self.with(Option::take);
    }

    fn with<T>(&self, change: impl FnOnce(&mut Option<HashMap<u64, oneshot::Sender<Outcome>>>) -> T) -> T {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Forgets a command when nobody waits for its reply any more.
struct PendingReply<'a> {
    replies: &'a Replies,
    id: u64,
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        self.replies.with(|waiting| waiting.as_mut().map(|waiting| waiting.remove(&self.id)));
    }
}

async fn wait_for_death(death: &mut watch::Receiver<Option<Death>>) -> Failure {
    let known = death.wait_for(Option::is_some).await.ok().and_then(|death| death.clone());
    known.map_or_else(|| driver_failure("the browser ended"), |death| death.failure)
}

/// Lines are written by a task, so that a caller who gives up leaves none half-written.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Hands out replies until the host ends, which ends its output.
async fn read(
    stdout: ChildStdout,
    leader: Pid,
    ready: oneshot::Sender<()>,
    replies: Arc<Replies>,
    (verdict, died): (Arc<Verdict>, watch::Sender<Option<Death>>),
) {
    let mut lines = FramedRead::new(stdout, LinesCodec::new_with_max_length(MOST_LINE_BYTES));
    let mut ready = Some(ready);
    // Until the network process runs there is nothing to watch.
    let mut network_ended = futures_util::future::pending::<()>().boxed();
    let (cause, words) = loop {
        let line = tokio::select! {
            // Who is condemned is killed, which is not why it ends.
            biased;
            (cause, words) = verdict.spoken() => break (cause, words.to_owned()),
            line = lines.next() => line,
            () = &mut network_ended => break (Cause::NetworkProcess, "the browser's network process ended".to_owned()),
        };
        let message = match line {
            None => break (Cause::Host, "the browser ended".to_owned()),
            Some(Err(error)) => break (Cause::Host, format!("the browser said something unreadable: {error}")),
            Some(Ok(line)) => run_blocking(line.len(), || serde_json::from_str::<Message>(&line)),
        };
        match message {
            Ok(Message::Reply { id, outcome }) => replies.arrived(id, outcome),
            Ok(Message::Ready) => {
                match watch_network_process(leader) {
                    Ok(ended) => network_ended = ended.boxed(),
                    Err(error) => tracing::warn!(%error, "cannot watch the browser's network process"),
                }
                if let Some(ready) = ready.take() {
                    let _ = ready.send(());
                }
            }
            Ok(Message::WebProcessTerminated { reason }) => {
                break (Cause::PageProcess, format!("the page's process ended: {reason}"));
            }
            Err(error) => break (Cause::Host, format!("the browser said something unreadable: {error}")),
        }
    };
    died.send_replace(Some(Death { cause, failure: driver_failure(words) }));
    replies.end();
}

/// Resolves when the network process of this host ends. WebKit would start another and leave the requests of the old
/// one without an answer, for ever. It is no child of ours, so it has to be looked at from time to time.
fn watch_network_process(leader: Pid) -> io::Result<impl Future<Output = ()>> {
    let process = find_network_process(leader)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(async move {
        while kill(process, None).is_ok() {
            sleep(LOOK_AFTER).await;
        }
    })
}

fn find_network_process(leader: Pid) -> io::Result<Option<Pid>> {
    let processes = Processes::now()?;
    // The kernel cuts names to 15 characters.
    let found = processes.below(leader).into_iter().find(|process| process.comm == "WebKitNetworkPr");
    Ok(found.map(|process| Pid::from_raw(process.pid)))
}

/// Copies a child's words to the log. They are for people who debug, and hold nothing that was typed.
pub async fn log_lines(program: &'static str, output: impl AsyncRead + Unpin) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut output).take(4096).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => tracing::debug!(program, "{}", String::from_utf8_lossy(&line).trim_end()),
        }
    }
}
