//! Whose turn it is to make or read a document or a copy. Each has hundreds of megabytes on disk, and a thread.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitfleet_domain::ids::AccountId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// At once, in this process and of an account: nobody's customers can take all of them alone, however slow they are.
const AT_ONCE: (usize, usize) = (16, 2);
/// How long somebody waits for his turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// The turns of this process.
pub struct Turns {
    all: Arc<Semaphore>,
    accounts: Mutex<HashMap<AccountId, Arc<Semaphore>>>,
}

/// It is somebody's turn for as long as this is there.
#[derive(Debug)]
pub struct Turn {
    _of_account: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Turns {
    pub fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE.0)), accounts: Mutex::default() }
    }

    /// Waits for the account's turn.
    ///
    /// # Errors
    /// When it does not come in time.
    pub async fn take(&self, account: AccountId) -> io::Result<Turn> {
        let taken = async {
            let of_account = self.of(account).acquire_owned().await.map_err(io::Error::other)?;
            let of_all = Arc::clone(&self.all).acquire_owned().await.map_err(io::Error::other)?;
            Ok(Turn { _of_account: of_account, _of_all: of_all })
        };
        timeout(PATIENCE, taken).await.map_err(|_| io::Error::other("too many documents and copies are under way"))?
    }

    fn of(&self, account: AccountId) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        // Who waits or has a turn refers to the semaphore too.
        accounts.retain(|_, turns| Arc::strong_count(turns) > 1);
        Arc::clone(accounts.entry(account).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE.1))))
    }
}
