use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use kitfleet_domain::archetypes::{Archetype, Size};
use kitfleet_domain::blocking::run_blocking;
use kitfleet_host_protocol::{HostCommand, HostError, MAX_LINE_BYTES, Message, Outcome, PageEvents, Request};
use kitfleet_types::operations::{Failure, FailureClass};
use nix::unistd::Pid;
use procfs::process::Process;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument as _;

use super::bounds::{KillOrder, Watchdog};
use super::cause::Cause;
use super::confinement::Confinement;
use super::directories::BrowserDirectory;
use super::loaded_scripts::LoadedScripts;
use super::processes::{Family, Processes, Spawner};

const POLL_INTERVAL: Duration = Duration::from_millis(250);

const HOST_ENDED: &str = "the browser ended";

/// Normally 50 ms. A host whose main loop hangs ends itself after 2 s.
const ENDS_WITHIN: Duration = Duration::from_millis(2_500);

pub struct HostLaunch<'a> {
    pub program: &'a Path,
    /// Can be changed later to one of the same pixel ratio, which takes additional time.
    pub archetype: &'a Archetype,
    /// Instead of the machine's. Fixed for the life of the host.
    pub timezone: Option<&'a str>,
    pub confinement: &'a Confinement,
    /// Deleted with the host.
    pub directory: BrowserDirectory,
    pub watchdog: &'a Watchdog,
    pub spawner: &'a Spawner,
    /// Ends the host even while it is in use.
    pub stopping: &'a CancellationToken,
    /// Tracks the host until all of it is gone.
    pub tasks: &'a TaskTracker,
}

/// Dropping it kills the family and removes its folder in the background.
pub struct Host {
    /// The host's input stays open as long as this sender exists.
    requests: mpsc::UnboundedSender<String>,
    line: HostHandle,
    directory: BrowserDirectory,
    loaded_scripts: LoadedScripts,
    /// The host counts as in use as long as this sender exists.
    in_use: oneshot::Sender<ExitRequest>,
    reaper: JoinHandle<()>,
    _tasks: [AbortOnDropHandle<()>; 3],
}

/// Does not keep the host running.
#[derive(Clone)]
pub struct HostHandle {
    requests: mpsc::WeakUnboundedSender<String>,
    replies: Arc<Replies>,
    next_id: Arc<AtomicU64>,
    death: watch::Receiver<Option<Death>>,
    events: Arc<WaitingEvents>,
}

/// Whether the host has events of pages for a recording.
#[derive(Default)]
struct WaitingEvents {
    are_waiting: AtomicBool,
    announced: Notify,
}

/// Request to the task that ends a host, for an orderly exit.
struct ExitRequest {
    /// Receives a message when no process is left.
    ended: oneshot::Sender<()>,
    /// The folder is kept until the sender is dropped.
    kept: oneshot::Receiver<Infallible>,
}

/// After an orderly exit. Dropping it removes the folder in the background.
pub struct HostFolder {
    directory: BrowserDirectory,
    _keep: oneshot::Sender<Infallible>,
}

#[derive(Debug, Clone)]
struct Death {
    cause: Cause,
    failure: Failure,
}

#[derive(Debug)]
pub enum CallError {
    Dead(Failure),
    Refused(HostError),
}

impl Host {
    /// Waits until the blank page is shown. The caller limits the time.
    pub async fn start(start: HostLaunch<'_>) -> Result<Self, Failure> {
        let HostLaunch { program, archetype, timezone, confinement, directory, watchdog, spawner, stopping, tasks } =
            start;
        let failed = |error: io::Error| driver_failure(format!("{} did not start: {error}", program.display()));
        confinement.hand_over(&directory.session(), &directory).map_err(failed)?;
        let mut command = confinement.family(program, &directory, timezone);
        let size = |Size { width, height }: Size| format!("{width}x{height}");
        command.args(["--scale", &archetype.device_pixel_ratio.to_string()]);
        command.args(["--viewport", &size(archetype.viewport), "--screen", &size(archetype.screen)]);
        let mut family = spawner.spawn(command).await.map_err(failed)?;
        let (stdin, stdout, stderr) = family.take_pipes().map_err(failed)?;
        let leader = family.id();
        let kill_order = watchdog.watch(leader, directory.session());

        let (requests, queue) = mpsc::unbounded_channel();
        let (died, death) = watch::channel(None);
        let (ready, is_ready) = oneshot::channel();
        let replies = Arc::new(Replies::default());
        let events = Arc::<WaitingEvents>::default();
        let announced = (Arc::clone(&replies), Arc::clone(&events));
        let reading = read(stdout, leader, ready, announced, (Arc::clone(&kill_order), died));
        let pipes = [tokio::spawn(write(stdin, queue)), tokio::spawn(reading), tokio::spawn(log_lines("host", stderr))];
        let (in_use, released) = oneshot::channel();
        let reaper = tasks.spawn(reap(family, directory.clone(), kill_order, released, stopping.clone()));
        let line =
            HostHandle { requests: requests.downgrade(), replies, next_id: Arc::new(AtomicU64::new(1)), death, events };
        let (loaded_scripts, tasks) = (LoadedScripts::default(), pipes.map(AbortOnDropHandle::new));
        let host = Self { requests, line, directory, loaded_scripts, in_use, reaper, _tasks: tasks };
        match is_ready.await {
            Ok(()) => Ok(host),
            Err(_) => Err(host.died().await),
        }
    }

    pub fn directory(&self) -> &BrowserDirectory {
        &self.directory
    }

    pub fn loaded_scripts(&self) -> &LoadedScripts {
        &self.loaded_scripts
    }

    /// Dropping the future discards the reply, but does not undo the command.
    pub async fn call<T: DeserializeOwned>(&self, command: HostCommand) -> Result<T, CallError> {
        self.line.call(command).await
    }

    pub fn line(&self) -> HostHandle {
        self.line.clone()
    }

    /// Waits until the host, its web process or its network process has ended by itself.
    pub async fn died(&self) -> Failure {
        wait_for_death(&mut self.line.death.clone()).await
    }

    pub fn is_alive(&self) -> bool {
        self.cause_of_death().is_none()
    }

    pub fn cause_of_death(&self) -> Option<Cause> {
        self.line.death.borrow().as_ref().map(|death| death.cause)
    }

    /// Does not borrow the host.
    pub fn death(&self) -> impl Future<Output = Failure> + use<> {
        self.line.death()
    }

    /// Kills the whole family, waits until it is gone, and removes its folder.
    pub async fn end(self) {
        let Self { in_use, reaper, .. } = self;
        drop(in_use);
        // A panic of the task has already been logged.
        let _ = reaper.await;
    }

    /// The network process writes site data that is still in memory. No process changes the folder after that.
    ///
    /// # Errors
    ///
    /// When the host has already been killed.
    pub async fn end_in_order(self) -> Result<HostFolder, Failure> {
        let Self { requests, in_use, directory, _tasks: pipes, .. } = self;
        let (ended, has_ended) = oneshot::channel();
        let (keep, kept) = oneshot::channel();
        // If the host was killed, the receiver is gone, and `has_ended` fails.
        let _ = in_use.send(ExitRequest { ended, kept });
        // The host exits at the end of its input.
        drop(requests);
        let ended = has_ended.await;
        drop(pipes);
        ended.map_err(|_| driver_failure("the browser was killed"))?;
        Ok(HostFolder { directory, _keep: keep })
    }
}

impl HostHandle {
    pub async fn call<T: DeserializeOwned>(&self, command: HostCommand) -> Result<T, CallError> {
        let name = command.name();
        let span = tracing::info_span!("browser", command = name);
        self.send(name, command).instrument(span).await
    }

    async fn send<T: DeserializeOwned>(&self, name: &str, command: HostCommand) -> Result<T, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = serde_json::to_string(&Request { id, command }).expect("commands have string keys");
        let reply = self.replies.expect(id);
        // Without a writer there are no replies either, which the next line detects.
        let _ = self.requests.upgrade().map(|requests| requests.send(line));
        match reply.await {
            Some(Outcome::Ok(value)) => {
                run_blocking(value.get().len(), || serde_json::from_str(value.get())).map_err(|error| {
                    CallError::Dead(driver_failure(format!("the browser sent an invalid reply to {name}: {error}")))
                })
            }
            Some(Outcome::Error(error)) => Err(CallError::Refused(error)),
            None => Err(CallError::Dead(self.death().await)),
        }
    }

    /// Sends a command whose reply is not needed.
    pub fn post(&self, command: HostCommand) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = serde_json::to_string(&Request { id, command }).expect("commands have string keys");
        // A host that has ended needs no command.
        let _ = self.requests.upgrade().map(|requests| requests.send(line));
    }

    /// Waits until the host has events of pages for a recording. One caller waits at a time. Cancellation is safe.
    pub async fn events_waiting(&self) {
        while !self.events.are_waiting.load(Ordering::Acquire) {
            self.events.announced.notified().await;
        }
    }

    /// The host announces later events again.
    pub async fn take_events(&self) -> Result<PageEvents, CallError> {
        self.events.are_waiting.store(false, Ordering::Release);
        self.call(HostCommand::TakeEvents).await
    }

    /// Waits until the host has ended, by itself or by its owner.
    pub fn death(&self) -> impl Future<Output = Failure> + use<> {
        let mut death = self.death.clone();
        async move { wait_for_death(&mut death).await }
    }
}

impl HostFolder {
    pub fn directory(&self) -> &BrowserDirectory {
        &self.directory
    }
}

/// The host is no longer in use, has a kill order, or the pool stops. A separate task, so that it runs even if the owner's task is
/// cancelled.
async fn reap(
    family: Family,
    directory: BrowserDirectory,
    kill_order: Arc<KillOrder>,
    released: oneshot::Receiver<ExitRequest>,
    stopping: CancellationToken,
) {
    let farewell = tokio::select! {
        farewell = released => farewell.ok(),
        () = stopping.cancelled() => None,
        _ = kill_order.issued() => None,
    };
    if let Some(ExitRequest { ended, kept }) = farewell {
        family.end_in_order(ENDS_WITHIN).await;
        // The receivers may have been dropped.
        let _ = ended.send(());
        let _ = stopping.run_until_cancelled(kept).await;
    } else {
        family.end().await;
    }
    directory.remove().await;
}

pub fn driver_failure(detail: impl Into<String>) -> Failure {
    Failure { class: FailureClass::Driver, detail: detail.into() }
}

/// `None` once no further replies are possible.
struct Replies {
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Outcome>>>>,
}

impl Default for Replies {
    fn default() -> Self {
        Self { waiting: Mutex::new(Some(HashMap::new())) }
    }
}

impl Replies {
    /// `None` when the host ends first.
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
            // The caller may have been cancelled.
            let _ = sender.send(outcome);
        }
    }

    fn end(&self) {
        self.with(Option::take);
    }

    fn with<T>(&self, change: impl FnOnce(&mut Option<HashMap<u64, oneshot::Sender<Outcome>>>) -> T) -> T {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

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

/// In a task, so that a cancelled caller leaves no partial line.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Dispatches replies until the host ends, which ends its output.
async fn read(
    stdout: ChildStdout,
    leader: Pid,
    ready: oneshot::Sender<()>,
    (replies, events): (Arc<Replies>, Arc<WaitingEvents>),
    (kill_order, died): (Arc<KillOrder>, watch::Sender<Option<Death>>),
) {
    let mut lines = FramedRead::new(stdout, LinesCodec::new_with_max_length(MAX_LINE_BYTES));
    let mut ready = Some(ready);
    // The network process is watched once it runs.
    let mut network_ended = futures_util::future::pending::<(Cause, &str)>().boxed();
    let (cause, reason) = loop {
        let line = tokio::select! {
            // A browser with a kill order is also killed, so the order has priority over the end of output.
            biased;
            (cause, reason) = kill_order.issued() => break (cause, reason.to_owned()),
            line = lines.next() => line,
            (cause, reason) = &mut network_ended => break (cause, reason.to_owned()),
        };
        let message = match line {
            None => break (Cause::Host, HOST_ENDED.to_owned()),
            Some(Err(error)) => break (Cause::Host, format!("the browser sent an invalid message: {error}")),
            Some(Ok(line)) => run_blocking(line.len(), || serde_json::from_str::<Message>(&line)),
        };
        match message {
            Ok(Message::Reply { id, outcome }) => replies.arrived(id, outcome),
            Ok(Message::EventsWaiting) => {
                events.are_waiting.store(true, Ordering::Release);
                events.announced.notify_one();
            }
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
            Err(error) => break (Cause::Host, format!("the browser sent an invalid message: {error}")),
        }
    };
    died.send_replace(Some(Death { cause, failure: driver_failure(reason) }));
    replies.end();
}

/// WebKit would start a new network process and never answer the requests of the old one. It is not a child of this process, so
/// it is polled. It also ends when the host ends, while the host's keeper still has the output open.
fn watch_network_process(leader: Pid) -> io::Result<impl Future<Output = (Cause, &'static str)>> {
    let processes = Processes::now()?;
    let family = processes.below(leader);
    // The kernel truncates names to 15 characters.
    let find = |name: &str| family.iter().find(|process| process.comm == name).map(|process| process.pid);
    let network = find("WebKitNetworkPr").ok_or(io::ErrorKind::NotFound)?;
    let host = find("kitfleet-host").unwrap_or(leader.as_raw());
    Ok(async move {
        while is_running(network) {
            sleep(POLL_INTERVAL).await;
        }
        if is_running(host) {
            (Cause::NetworkProcess, "the browser's network process ended")
        } else {
            (Cause::Host, HOST_ENDED)
        }
    })
}

fn is_running(process: i32) -> bool {
    Process::new(process).and_then(|process| process.stat()).is_ok_and(|stat| stat.state != 'Z')
}

/// For debugging. It contains no typed text.
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
