//! A browser as its viewers use it (contract: live). Viewers use it in parallel to its operations: watching changes
//! nothing, and a person who sends input holds the session's claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kitfleet_domain::archetypes::Size;
use kitfleet_domain::operations::Failure;
use kitfleet_host_protocol::{HostCommand, HostError, LiveEvent, PageInfo, ViewerAction};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::host::{CallError, HostHandle, driver_failure};

/// View of a browser. It can be shared, and does not keep the browser running.
#[derive(Clone)]
pub struct View {
    source: Source,
    size: SharedSize,
    /// Distinguishes consecutive viewers.
    watcher: u64,
    watchers: Arc<AtomicU64>,
}

/// Size of a viewport, which changes with the orientation.
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

/// Result of a viewer's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputOutcome {
    /// The browser received the input.
    Done,
    /// The page does not answer, and the input had no effect.
    Unresponsive,
    /// The key does not exist, and the input had no effect.
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

    /// Returns the view for another viewer. An earlier viewer that stops watching does not affect it.
    #[must_use]
    pub fn for_another(&self) -> Self {
        Self { watcher: self.watchers.fetch_add(1, Ordering::Relaxed) + 1, ..self.clone() }
    }

    /// Current viewport in CSS pixels.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size.get()
    }

    /// Waits for a change, or returns the complete picture if `whole` is set. The browser paints from the first call
    /// until [`Self::unwatch`].
    ///
    /// # Errors
    /// When the browser has ended, or cannot be watched.
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

    /// Stops the painting for this viewer.
    pub async fn unwatch(&self) {
        if let Source::Host(line) = &self.source {
            // An error means that the browser has ended and does not paint.
            let _ = call::<()>(line, HostCommand::Unwatch { watcher: self.watcher }).await;
        }
    }

    /// Grants input to a person, or revokes it.
    ///
    /// # Errors
    /// When the browser has ended.
    pub async fn grant_input(&self, lend: bool) -> Result<(), Failure> {
        match &self.source {
            Source::Host(line) => call(line, HostCommand::GrantInput { lend }).await.map_err(CallError::into_failure),
            Source::Simulated(_) => Ok(()),
        }
    }

    /// Waits a limited time until the page has handled a person's input. True when it shows no dialog or menu.
    ///
    /// # Errors
    /// When the browser has ended.
    pub async fn input_idle(&self) -> Result<bool, Failure> {
        match &self.source {
            Source::Host(line) => call(line, HostCommand::InputIdle).await.map_err(CallError::into_failure),
            Source::Simulated(_) => Ok(true),
        }
    }

    /// Sends a person's input to the page.
    ///
    /// # Errors
    /// When the browser has ended, or rejects the input.
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

    /// Waits until the browser has ended for any reason.
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

/// Sends a command, and fails when the host ends first.
pub(super) async fn call<T: DeserializeOwned>(line: &HostHandle, command: HostCommand) -> Result<T, CallError> {
    tokio::select! {
        answer = line.call(command) => answer,
        failure = line.death() => Err(CallError::Dead(failure)),
    }
}
