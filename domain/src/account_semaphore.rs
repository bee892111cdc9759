//! Limits concurrent expensive requests, for each account and for the whole process. Requests above the limit wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitfleet_types::ids::AccountId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

#[derive(Debug)]
pub struct AccountSemaphore {
    all: Arc<Semaphore>,
    of_account: usize,
    accounts: Mutex<HashMap<AccountId, Arc<Semaphore>>>,
}

/// Dropping it returns the permits.
#[derive(Debug)]
pub struct AccountPermit {
    _of_account: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

#[derive(Debug, thiserror::Error)]
#[error("too many of these requests are running; wait for one to end")]
pub struct AcquireTimeout;

impl AccountSemaphore {
    #[must_use]
    pub fn new(of_all: usize, of_account: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(of_all)), of_account, accounts: Mutex::default() }
    }

    /// Acquires one permit for the account and waits for it for at most `patience`.
    pub async fn take(&self, account: AccountId, patience: Duration) -> Result<AccountPermit, AcquireTimeout> {
        self.take_many(account, 1, patience).await
    }

    /// Acquires `count` permits at once. A count above the limit of an account acquires all permits of the account.
    pub async fn take_many(
        &self,
        account: AccountId,
        count: usize,
        patience: Duration,
    ) -> Result<AccountPermit, AcquireTimeout> {
        let count = u32::try_from(count.min(self.of_account)).unwrap_or(u32::MAX);
        let taken = async {
            let of_account = self.of(account).acquire_many_owned(count).await.map_err(|_| AcquireTimeout)?;
            let of_all = Arc::clone(&self.all).acquire_many_owned(count).await.map_err(|_| AcquireTimeout)?;
            Ok(AccountPermit { _of_account: of_account, _of_all: of_all })
        };
        timeout(patience, taken).await.map_err(|_| AcquireTimeout)?
    }

    /// Requests that wait for permits or hold some.
    #[must_use]
    pub fn demand(&self, account: AccountId) -> usize {
        let accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.get(&account).map_or(0, |semaphore| Arc::strong_count(semaphore) - 1)
    }

    fn of(&self, account: AccountId) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.get(&account) {
            return Arc::clone(known);
        }
        // Every request that waits or holds a permit also holds a reference to the semaphore.
        accounts.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let new = Arc::new(Semaphore::new(self.of_account));
        accounts.insert(account, Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn take_waits_no_longer_than_its_patience() {
        let semaphore = AccountSemaphore::new(1, 1);
        let account = AccountId::generate();
        let first = semaphore.take(account, Duration::ZERO).await.expect("a permit");
        semaphore.take(account, Duration::from_millis(1)).await.expect_err("the only permit is taken");
        let waiting = semaphore.take(account, Duration::from_hours(1));
        let (second, ()) = tokio::join!(waiting, async { drop(first) });
        second.expect("the next permit");
    }

    #[test]
    fn take_many_takes_at_most_the_permits_of_an_account() {
        let semaphore = AccountSemaphore::new(5, 3);
        let (greedy, other) = (AccountId::generate(), AccountId::generate());
        let take = |account, count| semaphore.take_many(account, count, Duration::from_secs(1)).now_or_never();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _inside = runtime.enter();
        let all_of_an_account = take(greedy, 100).expect("at once").expect("permits");
        assert!(take(greedy, 1).is_none());
        assert!(take(other, 3).is_none(), "two permits are free");
        drop(all_of_an_account);
        assert!(take(other, 3).is_some());
    }

    #[test]
    fn account_at_its_limit_waits_without_blocking_others() {
        let semaphore = AccountSemaphore::new(3, 2);
        let (greedy, other) = (AccountId::generate(), AccountId::generate());
        let take = |account| semaphore.take(account, Duration::from_secs(1)).now_or_never().and_then(Result::ok);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let _inside = runtime.enter();
        let (first, second) = (take(greedy).expect("a permit"), take(greedy).expect("another"));
        assert!(take(greedy).is_none());
        assert_eq!((semaphore.demand(greedy), semaphore.demand(other)), (2, 0));
        let third = take(other).expect("a permit of another account");
        assert!(take(AccountId::generate()).is_none(), "all permits of the process are taken");
        drop(first);
        assert!(take(greedy).is_some());
        drop((second, third));
        take(AccountId::generate()).expect("a permit of a new account");
        assert_eq!(semaphore.accounts.lock().expect("the accounts").len(), 1, "a new account replaces idle ones");
    }
}
