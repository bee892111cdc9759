//! Scripts that a page has loaded, and the libraries that they use.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Library {
    Nothing,
    Words,
    Looks,
}

impl Library {
    pub const fn text(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Words => concat!(include_str!("scripts/accessible.js"), include_str!("scripts/targets.js")),
            Self::Looks => include_str!("scripts/looks.js"),
        }
    }
}

/// The current page has loaded these, so that they are not sent again.
#[derive(Default)]
pub struct LoadedScripts(Mutex<HashSet<(&'static str, Library)>>);

impl LoadedScripts {
    /// Clears the set before another page loads.
    pub fn forget(&self) {
        self.lock().clear();
    }

    pub fn lock(&self) -> MutexGuard<'_, HashSet<(&'static str, Library)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
