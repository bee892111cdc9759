//! Limits how many requests of one account a process runs at a time.
//!
//! A process runs few requests of an account at a time, and further requests wait. Without the limit, an account with
//! many connections occupies as many PostgreSQL backends, and each statement of every other account waits for them.
//!
//! Only a request that uses the database or the processor counts. Before a request waits for a browser, for its client
//! or for another permit, it calls [`release`], so that it does not delay other requests of its account.

use std::cell::Cell;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::account_semaphore::{AccountPermit, AccountSemaphore};
use crate::ids::AccountId;

/// Requests of an account that run at a time, for each processor of the machine.
const PER_PROCESSOR: usize = 2;
/// Maximum time a request waits. It then runs without a permit, so that slow requests delay others of their account by
/// no more than this.
const PATIENCE: Duration = Duration::from_millis(500);
/// Requests of all accounts, the maximum of a semaphore: the number of connections is limited elsewhere.
const OF_ALL: usize = tokio::sync::Semaphore::MAX_PERMITS;

tokio::task_local! {
    static HELD: Cell<Option<AccountPermit>>;
}

/// Requests that run in this process, by account.
#[derive(Debug)]
pub struct AccountShares(AccountSemaphore);

impl Default for AccountShares {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self(AccountSemaphore::new(OF_ALL, PER_PROCESSOR * processors))
    }
}

impl AccountShares {
    /// Runs `request` as soon as the account has fewer running requests than its limit, and after 500 ms in any case.
    pub async fn run<F: Future>(&self, account: AccountId, request: F) -> F::Output {
        let permit = self.0.take(account, PATIENCE).await.ok();
        HELD.scope(Cell::new(permit), request).await
    }
}

/// Releases the permit of the current request, which is about to wait for something other than the database. Does
/// nothing in a task that runs no request.
pub fn release() {
    let _ = HELD.try_with(Cell::take);
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn request_waits_while_its_account_is_at_the_limit() {
        let shares = AccountShares(AccountSemaphore::new(OF_ALL, 1));
        let account = AccountId::generate();
        let mut running = Box::pin(shares.run(account, pending::<()>()));
        assert!(running.as_mut().now_or_never().is_none());
        let mut waiting = Box::pin(shares.run(account, ready(())));
        assert!(waiting.as_mut().now_or_never().is_none());
        shares.run(AccountId::generate(), ready(())).now_or_never().expect("another account does not wait");
        drop(running);
        waiting.await;
    }

    #[tokio::test]
    async fn request_that_released_its_permit_delays_no_other() {
        let shares = AccountShares(AccountSemaphore::new(OF_ALL, 1));
        let account = AccountId::generate();
        let mut waits_for_a_browser = Box::pin(shares.run(account, async {
            release();
            pending::<()>().await;
        }));
        assert!(waits_for_a_browser.as_mut().now_or_never().is_none());
        shares.run(account, ready(())).now_or_never().expect("the permit was released");
    }

    #[tokio::test]
    async fn request_runs_after_the_timeout_beside_slow_ones() {
        let shares = AccountShares(AccountSemaphore::new(OF_ALL, 1));
        let account = AccountId::generate();
        let mut slow = Box::pin(shares.run(account, pending::<()>()));
        assert!(slow.as_mut().now_or_never().is_none());
        shares.run(account, ready(())).await;
    }
}
