//! Browsers: what a session is made of on this machine.
//!
//! A [`Pool`] keeps hot browsers, each a WebKit host that shows a blank page, and turns one into a [`Browser`] when a
//! session opens. A browser obeys one operation at a time; dropping or closing it leaves no process, no socket and no
//! file. Its only way out to the network is the guard of `kitfleet-egress`.
//!
//! A host is another program, `kitfleet-host`, told what to do over its standard input: there is no WebDriver and no
//! port that a page could reach. What a page is asked, it is asked by scripts in a world of their own (`scripts/`),
//! which share its DOM and none of its objects; what is done to it, fingers and keys do that it cannot tell from real.

mod bounds;
mod challenges;
mod confinement;
mod demand;
mod directories;
mod finding;
mod forms;
mod host;
mod input;
mod numbers;
mod pace;
mod page;
mod pool;
mod processes;
mod reading;
mod shelf;
mod simulated;
mod sites;
mod user_ids;
mod view;
mod webkit;

use std::io;
use std::path::PathBuf;

use kitfleet_domain::operations::{Failure, Operation, OperationResult, StoredResult};
use kitfleet_domain::sessions::profile_lease::HeldProfile;
use kitfleet_domain::validation::Invalid;
use kitfleet_profiles::{SaveError, Saved, Stores};
use serde_json::{Map, Value};

pub use self::challenges::ChallengeScan;
pub use self::host::Cause;
use self::host::driver_failure;
pub use self::pool::Pool;
use self::shelf::CountedBrowser;
use self::simulated::Simulated;
pub use self::view::{InputOutcome, View};
use self::webkit::Webkit;

/// One session's browser.
pub struct Browser(Engine);

enum Engine {
    /// With its place among those that the worker may have.
    Webkit(Box<Webkit>, CountedBrowser),
    Simulated(Simulated),
}

impl Browser {
    /// Does one operation, within its budget.
    ///
    /// Dropping the future abandons the operation midway: the browser is then good for nothing but [`Browser::close`].
    pub async fn run(&mut self, operation: &Operation) -> OperationEnd {
        match &mut self.0 {
            Engine::Webkit(browser, _) => browser.run(operation).await,
            Engine::Simulated(browser) => browser.run(operation).await,
        }
    }

    /// Looks for challenges on the page (contract: challenges 2). `None` when it cannot be looked at now; one that hangs does not
    /// answer. Dropping the future loses nothing.
    pub async fn look_for_challenges(&self) -> Option<ChallengeScan> {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.look_for_challenges().await,
            Engine::Simulated(browser) => Some(browser.look_for_challenges()),
        }
    }

    /// As those see it who watch.
    #[must_use]
    pub fn view(&self) -> View {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.view(),
            Engine::Simulated(browser) => browser.view(),
        }
    }

    /// Resolves when the browser has ended by itself. Dropping the future loses nothing.
    pub async fn died(&self) -> Failure {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.died().await,
            Engine::Simulated(_) => std::future::pending().await,
        }
    }

    /// What it died of, if it has ended by itself.
    pub fn cause_of_death(&self) -> Option<Cause> {
        match &self.0 {
            Engine::Webkit(browser, _) => browser.cause_of_death(),
            Engine::Simulated(_) => None,
        }
    }

    /// Gives it what a profile holds. It has not been anywhere yet.
    ///
    /// # Errors
    /// When what the profile holds cannot be had, or the browser does not take it.
    pub async fn restore(&mut self, stores: &Stores, held: &HeldProfile) -> Result<(), Failure> {
        match &mut self.0 {
            Engine::Webkit(browser, _) => browser.restore(stores, held).await,
            Engine::Simulated(_) => Ok(()),
        }
    }

    /// Ends it in good order and saves what it holds, in a few seconds at most besides what the store takes. A simulated
    /// one holds nothing that could be saved.
    ///
    /// Dropping the future kills it.
    ///
    /// # Errors
    /// When it is not there to give it away, or that cannot be saved. Nothing is left of it then either.
    pub async fn save(self, stores: &Stores, held: &HeldProfile) -> Result<Option<Saved>, NotSaved> {
        match self.0 {
            Engine::Webkit(browser, _place) => browser.save(stores, held).await.map(Some),
            Engine::Simulated(_) => Ok(None),
        }
    }

    /// Kills it, whatever it is doing, and waits until nothing is left of it.
    pub async fn close(self) {
        if let Engine::Webkit(browser, _place) = self.0 {
            browser.close().await;
        }
    }
}

/// How an operation ended.
#[derive(Debug)]
pub enum OperationEnd {
    /// It is done, and this is what it came to.
    Done(StoredResult),
    /// The engine refuses the input; the browser is as before.
    Invalid {
        /// What is wrong with it.
        invalid: Invalid,
        /// Further members of the problem document.
        members: Map<String, Value>,
    },
    /// It is done, but the result is not to be had; the browser is as before.
    Withheld {
        /// Why.
        detail: String,
        /// Further members of the problem document.
        members: Map<String, Value>,
    },
    /// It failed, and the browser is good for nothing but being closed.
    Failed(Failure),
}

impl OperationEnd {
    fn done(result: OperationResult) -> Self {
        result.store().map_or_else(|error| Self::Failed(driver_failure(error.to_string())), Self::Done)
    }

    fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid { invalid: Invalid::field(field, message), members: Map::new() }
    }
}

/// Error of saving a browser's data.
#[derive(Debug, thiserror::Error)]
pub enum NotSaved {
    /// The browser has failed.
    #[error("{}", .0.detail)]
    Browser(Failure),
    /// The data cannot be stored.
    #[error(transparent)]
    Store(#[from] SaveError),
}

/// Error of the start of a pool. Each variant names the missing part.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    /// The folder for the browsers' data cannot be written.
    #[error("cannot write to the data directory: {0}")]
    Directory(io::Error),
    /// No name server is configured.
    #[error("cannot resolve names: {0}")]
    Names(io::Error),
    /// The user is shared with unrelated services.
    #[error(
        "browsers must not run as the user `nobody`, which unrelated services share: run the worker as its own user"
    )]
    SharedUser,
    /// Confinement is required and not possible.
    #[error(
        "worker.sandbox requires confinement, but browsers cannot be confined on this machine (Debian packages `bubblewrap` and `util-linux`): {0}"
    )]
    Sandbox(String),
    /// A program of a browser is missing.
    #[error("cannot start a browser: {} is missing (worker.host_program)", .0.display())]
    Missing(PathBuf),
    /// The browser cannot be started.
    #[error("cannot start a browser: {0}")]
    Host(String),
}
