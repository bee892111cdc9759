//! A browser as its viewers use it (contract: live). Viewers use a browser in parallel to its operations: watching changes
//! nothing, and a person who sends input holds the session's claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kitfleet_domain::archetypes::Size;
use kitfleet_host_protocol::{HostCommand, HostError, LiveEvent, PageInfo, ViewerAction};
use kitfleet_types::operations::Failure;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::host::{CallError, HostHandle, driver_failure};

/// Does not keep the browser running.
#[derive(Clone)]
pub struct View {
    source: Source,
    size: SharedSize,
    watcher: u64,
    watchers: Arc<AtomicU64>,
}

/// Changes with the orientation.
#[derive(Clone)]
pub(super) struct SharedSize(Arc<[AtomicU32; 2]>);

impl SharedSize {
    pub fn new(Size { width, height }: Size) -> Self {
        Self(Arc::new([width, height].map(AtomicU32::new)))
    }

    pub fn set(&self, Size { width, height }: Size) {
        self.0[0].store(width, Ordering::Relaxed);
        self.0[1].store(height, Ordering::Relaxed);
    }

    fn get(&self) -> Size {
        Size { width: self.0[0].load(Ordering::Relaxed), height: self.0[1].load(Ordering::Relaxed) }
    }
}

#[derive(Clone)]
enum Source {
    Host(HostHandle),
    /// Shows nothing until it ends.
    Simulated(CancellationToken),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputOutcome {
    Done,
    /// The input had no effect.
    Unresponsive,
    /// The input had no effect.
    NoSuchKey,
}

impl View {
    pub(super) fn of_host(line: HostHandle, size: SharedSize) -> Self {
        Self::of(Source::Host(line), size)
    }

    pub(super) fn simulated(ends: CancellationToken, size: SharedSize) -> Self {
        Self::of(Source::Simulated(ends), size)
    }

    fn of(source: Source, size: SharedSize) -> Self {
        Self { source, size, watcher: 0, watchers: Arc::default() }
    }

    /// An earlier viewer that stops watching does not affect it.
    #[must_use]
    pub fn for_another(&self) -> Self {
        Self { watcher: self.watchers.fetch_add(1, Ordering::Relaxed) + 1, ..self.clone() }
    }

    /// In CSS pixels.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size.get()
    }

    /// The complete picture if `whole` is set. The browser paints from the first call until [`Self::unwatch`].
    pub async fn watch(&self, whole: bool) -> Result<LiveEvent, Failure> {
        match &self.source {
            Source::Host(line) => {
                call(line, HostCommand::Watch { whole, watcher: self.watcher }).await.map_err(CallError::into_failure)
            }
            Source::Simulated(_) if whole => {
                let page = PageInfo { uri: "about:blank".to_owned(), title: Some("Simulated".to_owned()) };
                Ok(LiveEvent { page: Some(page), ..LiveEvent::default() })
            }
            Source::Simulated(_) => Err(self.ended().await),
        }
    }

    pub async fn unwatch(&self) {
        if let Source::Host(line) = &self.source {
            // An error means that the browser has ended and does not paint.
            let _ = call::<()>(line, HostCommand::Unwatch { watcher: self.watcher }).await;
        }
    }

    pub async fn grant_input(&self, lend: bool) -> Result<(), Failure> {
        match &self.source {
            Source::Host(line) => call(line, HostCommand::GrantInput { lend }).await.map_err(CallError::into_failure),
            Source::Simulated(_) => Ok(()),
        }
    }

    /// Waits a limited time. True when the page shows no dialog or menu.
    pub async fn input_idle(&self) -> Result<bool, Failure> {
        match &self.source {
            Source::Host(line) => call(line, HostCommand::InputIdle).await.map_err(CallError::into_failure),
            Source::Simulated(_) => Ok(true),
        }
    }

    pub async fn act(&self, acts: Vec<ViewerAction>) -> Result<InputOutcome, Failure> {
        match &self.source {
            Source::Host(line) => match call(line, HostCommand::Act { acts }).await {
                Ok(true) => Ok(InputOutcome::Done),
                Ok(false) => Ok(InputOutcome::Unresponsive),
                Err(CallError::Refused(HostError::UnknownKey { .. })) => Ok(InputOutcome::NoSuchKey),
                Err(error) => Err(error.into_failure()),
            },
            Source::Simulated(_) => Ok(InputOutcome::Done),
        }
    }

    pub async fn ended(&self) -> Failure {
        match &self.source {
            Source::Host(line) => line.death().await,
            Source::Simulated(ends) => {
                ends.cancelled().await;
                driver_failure("the browser ended")
            }
        }
    }
}

/// Fails when the host ends first.
pub(super) async fn call<T: DeserializeOwned>(line: &HostHandle, command: HostCommand) -> Result<T, CallError> {
    tokio::select! {
        answer = line.call(command) => answer,
        failure = line.death() => Err(CallError::Dead(failure)),
    }
}
