//! Browsers of the sessions on this machine.
//!
//! A [`Pool`] keeps warm browsers, each a WebKit host that shows a blank page, and turns one into a [`Browser`] when a session
//! opens. Nothing of a browser remains after it is dropped or closed. Its traffic has no route but the guard of
//! `kitfleet-egress`.
//!
//! A host is a separate program, `kitfleet-host`, with commands over its standard input: there is no port that a page could
//! reach. Scripts (`scripts/`) read the page in an isolated world. Touch and key events change the page, and are
//! indistinguishable from a user's.

mod answering;
mod bounds;
mod cause;
mod challenges;
mod confinement;
mod cookies;
mod demand;
mod device;
mod dialogs;
mod directories;
mod emulation;
mod evaluating;
mod files;
mod finding;
mod forms;
mod host;
mod input;
mod loaded_scripts;
mod newest_pages;
mod numbers;
mod pace;
mod page;
mod page_errors;
mod pages;
mod pool;
mod processes;
mod reading;
mod recording;
mod simulated;
mod sites;
mod user_ids;
mod view;
mod waiting;
mod warm_browsers;
mod webkit;

use std::io;
use std::path::PathBuf;

use kitfleet_domain::blocking::run_blocking;
use kitfleet_domain::sessions::profile_lease::HeldProfile;
use kitfleet_profiles::{SaveError, Saved, Stores};
use kitfleet_types::ids::SessionId;
use kitfleet_types::operations::{
    Failure, OpenDialog, Operation, OperationOutput as _, OperationResult, Point, Refusal, StoredResult,
};
use kitfleet_types::validation::Invalid;
use serde_json::{Map, Value};

pub(crate) use self::bounds::BROWSER_MEMORY;
pub use self::cause::Cause;
pub use self::challenges::ChallengeScan;
pub(crate) use self::files::{Files, NotOpened, OpenDownload, UploadGuard};
use self::host::driver_failure;
pub use self::pool::Pool;
pub(crate) use self::recording::{Look, PageEvents, Wanted};
use self::simulated::Simulated;
pub use self::view::{InputOutcome, View};
pub(crate) use self::warm_browsers::BROWSERS_HOT;
use self::warm_browsers::CountedBrowser;
use self::webkit::Webkit;

pub struct Browser(Engine);

enum Engine {
    /// Holds the browser's count among the worker's sessions.
    Webkit(Box<Webkit>, CountedBrowser),
    Simulated(Box<Simulated>),
}

impl Browser {
    /// Within its time budget.
    ///
    /// Dropping the future cancels the operation midway. After that, only [`Browser::close`] is valid.
    pub async fn run(&mut self, operation: &Operation) -> OperationEnd {
        match &mut self.0 {
            Engine::Webkit(browser, _) => browser.run(operation).await,
            Engine::Simulated(browser) => browser.run(operation).await,
        }
    }

    /// Contract: challenges 2. `None` when the page cannot be checked now. Does not resolve while a page hangs. Cancellation is
    /// safe.
    pub async fn look_for_challenges(&self) -> Option<ChallengeScan> {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.look_for_challenges().await,
            Engine::Simulated(browser) => Some(browser.look_for_challenges()),
        }
    }

    #[must_use]
    pub fn view(&self) -> View {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.view(),
            Engine::Simulated(browser) => browser.view(),
        }
    }

    pub async fn dialog(&self) -> Option<OpenDialog> {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.dialog().await,
            Engine::Simulated(browser) => browser.dialog(),
        }
    }

    /// Never resolves for a browser that holds no dialogs. Cancellation is safe.
    pub async fn dialog_changed(&self, known: Option<&OpenDialog>) -> Option<OpenDialog> {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.dialog_changed(known).await,
            Engine::Simulated(browser) => browser.dialog_changed(known).await,
        }
    }

    /// For a recording. Has no picture when the page looks as in the last one, or cannot be shown. Cancellation is safe.
    pub(crate) async fn look(&self, wanted: Wanted) -> Look {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.look(wanted).await,
            Engine::Simulated(browser) => browser.look(wanted),
        }
    }

    /// Events of the pages of a recorded session.
    pub(crate) fn page_events(&self, session: SessionId) -> PageEvents {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.page_events(session),
            Engine::Simulated(browser) => browser.page_events(session),
        }
    }

    /// Point of the last touch. `None` for a simulated browser.
    pub(crate) fn touched(&self) -> Option<Point> {
        match &self.0 {
            Engine::Webkit(browser, _) => Some(browser.touched()),
            Engine::Simulated(_) => None,
        }
    }

    pub(crate) fn files(&self) -> Files {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.files.clone(),
            Engine::Simulated(browser) => browser.files.clone(),
        }
    }

    /// Cancellation is safe.
    pub async fn died(&self) -> Failure {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.died().await,
            Engine::Simulated(_) => std::future::pending().await,
        }
    }

    #[must_use]
    pub fn cause_of_death(&self) -> Option<Cause> {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.cause_of_death(),
            Engine::Simulated(_) => None,
        }
    }

    /// Restores a profile's data. The browser has not loaded a page yet.
    ///
    /// # Errors
    /// When the data cannot be read, or the browser rejects it.
    pub async fn restore(&mut self, stores: &Stores, held: &HeldProfile) -> Result<(), Failure> {
        match &mut self.0 {
            Engine::Webkit(browser, _) => browser.restore(stores, held).await,
            Engine::Simulated(_) => Ok(()),
        }
    }

    /// Takes a few seconds, plus the time of the store. A simulated browser has no data. Dropping the future kills the browser.
    ///
    /// # Errors
    ///
    /// The browser has ended.
    pub async fn save(self, stores: &Stores, held: &HeldProfile) -> Result<Option<Saved>, NotSaved> {
        match self.0 {
            Engine::Webkit(browser, _place) => browser.save(stores, held).await.map(Some),
            Engine::Simulated(_) => Ok(None),
        }
    }

    /// Also during an operation. Its processes and files are gone afterwards.
    pub async fn close(self) {
        if let Engine::Webkit(browser, _place) = self.0 {
            browser.close().await;
        }
    }
}

#[derive(Debug)]
pub enum OperationEnd {
    Done(StoredResult),
    /// The browser is unchanged.
    Invalid {
        invalid: Invalid,
        members: Map<String, Value>,
    },
    /// The browser is unchanged.
    Refused(Refusal),
    /// The operation is done, and the browser is unchanged.
    Withheld {
        detail: String,
        members: Map<String, Value>,
    },
    /// The browser must be closed.
    Failed(Failure),
}

impl OperationEnd {
    fn done(result: OperationResult) -> Self {
        let stored = run_blocking(result.weight(), || result.store());
        stored.map_or_else(|error| Self::Failed(driver_failure(error.to_string())), Self::Done)
    }

    fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid { invalid: Invalid::field(field, message), members: Map::new() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NotSaved {
    #[error("{}", .0.detail)]
    Browser(Failure),
    #[error(transparent)]
    Store(#[from] SaveError),
}

/// Each variant names the missing part.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    #[error("cannot write to the data directory: {0}")]
    Directory(io::Error),
    #[error("cannot resolve names: {0}")]
    Names(io::Error),
    #[error(
        "browsers must not run as the user `nobody`, which unrelated services share: run the worker as its own user"
    )]
    SharedUser,
    #[error(
        "worker.sandbox requires confinement, but browsers cannot be confined on this machine (Debian packages `bubblewrap` and `util-linux`): {0}"
    )]
    Sandbox(String),
    #[error("cannot start a browser: {} is missing (worker.host_program)", .0.display())]
    Missing(PathBuf),
    #[error("cannot start a browser: {0}")]
    Host(String),
}
