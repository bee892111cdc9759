//! A browser as those see it who watch, and act in it (contract: live). They do so beside its operations, each of which has the browser
//! to itself otherwise: looking changes nothing, and who acts has the session's claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kitfleet_domain::archetypes::Size;
use kitfleet_domain::operations::Failure;
use kitfleet_host_protocol::{HostCommand, HostError, LiveEvent, PageInfo, ViewerAction};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::host::{CallError, HostHandle, driver_failure};

/// A browser's view. It can be shared, and keeps no browser running.
#[derive(Clone)]
pub struct View {
    source: Source,
    size: Size,
    /// Tells those who watch one after the other apart.
    watcher: u64,
    watchers: Arc<AtomicU64>,
}

#[derive(Clone)]
enum Source {
    Host(HostHandle),
    /// One that shows nothing, until it ends.
    Simulated(CancellationToken),
}

/// What became of what a person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputOutcome {
    /// The browser has it.
    Done,
    /// The page does not answer, and nothing was done.
    Unresponsive,
    /// There is no such key, and nothing was done.
    NoSuchKey,
}

impl View {
    pub(super) fn of_host(line: HostHandle, size: Size) -> Self {
        Self::of(Source::Host(line), size)
    }

    pub(super) fn simulated(ends: CancellationToken, size: Size) -> Self {
        Self::of(Source::Simulated(ends), size)
    }

    fn of(source: Source, size: Size) -> Self {
        Self { source, size, watcher: 0, watchers: Arc::default() }
    }

    /// The same for somebody else, who is not disturbed when those before release_input to watch.
    #[must_use]
    pub fn for_another(&self) -> Self {
        Self { watcher: self.watchers.fetch_add(1, Ordering::Relaxed) + 1, ..self.clone() }
    }

    /// The viewport, in CSS pixels.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Waits for something new, or for all there is. From the first time on until [`Self::unwatch`] the browser paints.
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

    /// Nobody watches any more.
    pub async fn unwatch(&self) {
        if let Source::Host(line) = &self.source {
            // One that has ended paints nothing.
            let _ = call::<()>(line, HostCommand::Unwatch { watcher: self.watcher }).await;
        }
    }

    /// From now on a person acts, or not any more.
    ///
    /// # Errors
    /// When the browser has ended.
    pub async fn grant_input(&self, lend: bool) -> Result<(), Failure> {
        match &self.source {
            Source::Host(line) => call(line, HostCommand::GrantInput { lend }).await.map_err(CallError::into_failure),
            Source::Simulated(_) => Ok(()),
        }
    }

    /// Waits until the page has handled all that a person did, for a while. Answers whether it asks nothing of them.
    ///
    /// # Errors
    /// When the browser has ended.
    pub async fn input_idle(&self) -> Result<bool, Failure> {
        match &self.source {
            Source::Host(line) => call(line, HostCommand::InputIdle).await.map_err(CallError::into_failure),
            Source::Simulated(_) => Ok(true),
        }
    }

    /// Does what a person does.
    ///
    /// # Errors
    /// When the browser has ended, or does not take it.
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

    /// Waits until the browser has ended, however.
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

/// A call that ends with its host, whoever had it end.
async fn call<T: DeserializeOwned>(line: &HostHandle, command: HostCommand) -> Result<T, CallError> {
    tokio::select! {
        answer = line.call(command) => answer,
        failure = line.death() => Err(CallError::Dead(failure)),
    }
}
