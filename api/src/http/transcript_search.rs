//! Searches in the messages of agent sessions for texts that were typed there (contract: agents 36; limits 5).
//!
//! A search is linear in the data, which can be megabytes, so it runs on a low-priority thread, one per account.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kitfleet_domain::account_semaphore::{AccountPermit, AccountSemaphore, AcquireTimeout};
use kitfleet_domain::account_share;
use kitfleet_domain::blocking::run_idle;
use kitfleet_types::ids::AccountId;

use crate::http::error::Problem;

/// In this process and per account. They share idle processor time; each can take some tens of megabytes.
const AT_ONCE: (usize, usize) = (8, 1);
/// For the account's turn.
const PATIENCE: Duration = Duration::from_secs(30);
/// A search of fewer bytes is faster than starting a thread.
const LIGHT: usize = 64 * 1024;

#[derive(Debug)]
pub struct TranscriptSearches(AccountSemaphore);

#[derive(Debug, thiserror::Error)]
pub enum ReadingError {
    #[error(transparent)]
    NotYet(#[from] AcquireTimeout),
    #[error("cannot search the messages: {0}")]
    Thread(#[from] io::Error),
}

impl Default for TranscriptSearches {
    fn default() -> Self {
        Self(AccountSemaphore::new(AT_ONCE.0, AT_ONCE.1))
    }
}

impl TranscriptSearches {
    pub async fn turn(&self, account: AccountId) -> Result<AccountPermit, AcquireTimeout> {
        account_share::release();
        self.0.take(account, PATIENCE).await
    }

    /// At most one large response of an account is read from the database, decrypted and written at a time.
    pub async fn begin(&self, account: AccountId, bytes: u64) -> Result<TranscriptSearch<'_>, AcquireTimeout> {
        let mut reading = TranscriptSearch { readings: self, account, turn: None };
        if bytes > LIGHT as u64 {
            reading.take_turn().await?;
        }
        Ok(reading)
    }

    /// Of about this many bytes, in the account's turn.
    pub async fn run<T: Send + 'static>(
        &self,
        account: AccountId,
        bytes: usize,
        search: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ReadingError> {
        self.begin(account, bytes as u64).await?.run(bytes, search).await
    }
}

pub struct TranscriptSearch<'a> {
    readings: &'a TranscriptSearches,
    account: AccountId,
    turn: Option<Arc<AccountPermit>>,
}

impl TranscriptSearch<'_> {
    async fn take_turn(&mut self) -> Result<Arc<AccountPermit>, AcquireTimeout> {
        let turn = match self.turn.take() {
            Some(turn) => turn,
            None => Arc::new(self.readings.turn(self.account).await?),
        };
        self.turn = Some(Arc::clone(&turn));
        Ok(turn)
    }

    /// Processes about this many bytes.
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
        Ok(run_idle("reading", work).await?)
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
