//! Searching what was said in agent sessions for what was typed there (contract: agents 36; limits 5).
//!
//! A search is linear in all that it looks at, and that can be megabytes. So it has a thread of its own, which yields to everything else, and
//! of an account there is one at a time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kitfleet_domain::heavy::apart;
use kitfleet_domain::ids::AccountId;
use kitfleet_domain::turns::{NotYet, Turn, Turns};

use crate::http::error::Problem;

/// Searches at once, in this process and of an account. They share what processor time nobody else wants; each may take some tens of megabytes.
const AT_ONCE: (usize, usize) = (8, 1);
/// How long a request waits for its account's turn.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes up to which a search takes less time than a thread of its own would.
const LIGHT: usize = 64 * 1024;

/// Where searches are run.
#[derive(Debug)]
pub struct Readings(Turns);

/// Why a search was not run.
#[derive(Debug, thiserror::Error)]
pub enum ReadingError {
    /// The account has others under way.
    #[error(transparent)]
    NotYet(#[from] NotYet),
    /// The machine has no thread for it.
    #[error("what was said cannot be searched: {0}")]
    Thread(#[from] io::Error),
}

impl Default for Readings {
    fn default() -> Self {
        Self(Turns::new(AT_ONCE.0, AT_ONCE.1))
    }
}

impl Readings {
    /// Waits for the account's turn.
    ///
    /// # Errors
    /// When it does not come within half a minute.
    pub async fn turn(&self, account: AccountId) -> Result<Turn, NotYet> {
        self.0.take(account, PATIENCE).await
    }

    /// Begins to read and answer about so many bytes. A large reading waits for the account's turn, and has it until it is dropped and its work
    /// is done: an account has one large answer at a time read from the database, opened and written.
    ///
    /// # Errors
    /// When the turn does not come within half a minute.
    pub async fn begin(&self, account: AccountId, bytes: u64) -> Result<Reading<'_>, NotYet> {
        let mut reading = Reading { readings: self, account, turn: None };
        if bytes > LIGHT as u64 {
            reading.take_turn().await?;
        }
        Ok(reading)
    }

    /// Runs a search of about so many bytes when it is the account's turn.
    ///
    /// # Errors
    /// When that does not come within half a minute.
    pub async fn run<T: Send + 'static>(
        &self,
        account: AccountId,
        bytes: usize,
        search: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ReadingError> {
        self.begin(account, bytes as u64).await?.run(bytes, search).await
    }
}

/// A reading that has begun.
pub struct Reading<'a> {
    readings: &'a Readings,
    account: AccountId,
    turn: Option<Arc<Turn>>,
}

impl Reading<'_> {
    async fn take_turn(&mut self) -> Result<Arc<Turn>, NotYet> {
        let turn = match self.turn.take() {
            Some(turn) => turn,
            None => Arc::new(self.readings.turn(self.account).await?),
        };
        self.turn = Some(Arc::clone(&turn));
        Ok(turn)
    }

    /// Runs a part of it that takes about so many bytes.
    ///
    /// # Errors
    /// When the account's turn does not come, or the machine has no thread.
    pub async fn run<T: Send + 'static>(
        &mut self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ReadingError> {
        if bytes <= LIGHT {
            return Ok(work());
        }
        let turn = self.take_turn().await?;
        let work = move || {
            let done = work();
            drop(turn);
            done
        };
        Ok(apart("reading", work).await?)
    }
}

impl From<ReadingError> for Problem {
    fn from(error: ReadingError) -> Self {
        match error {
            ReadingError::NotYet(not_yet) => not_yet.into(),
            ReadingError::Thread(error) => Self::internal(&error),
        }
    }
}
