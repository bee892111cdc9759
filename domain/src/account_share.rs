//! The share that one account's requests have of a process.
//!
//! A process runs few requests of an account at once, and the others wait for their turn. Without that, an account with many connections
//! has as many processes of PostgreSQL at work, and each statement of every other account waits behind them.
//!
//! Only a request that uses the database or the processor is counted. One that waits for a browser, its client or another turn
//! calls [`release`] first: it keeps no other request of its account waiting.

use std::cell::Cell;
use std::thread::available_parallelism;
use std::time::Duration;

use crate::account_semaphore::{AccountPermit, AccountSemaphore};
use crate::ids::AccountId;

/// Requests of an account that run at once, by processor of the machine.
const PER_PROCESSOR: usize = 2;
/// A request runs after this time in any case, so that slow requests delay the other requests of their account by no more.
const PATIENCE: Duration = Duration::from_millis(500);
/// Requests of all accounts: as many as a semaphore counts, since connections have a bound of their own.
const OF_ALL: usize = tokio::sync::Semaphore::MAX_PERMITS;

tokio::task_local! {
    static HELD: Cell<Option<AccountPermit>>;
}

/// The accounts whose requests run in this process.
#[derive(Debug)]
pub struct AccountShares(AccountSemaphore);

impl Default for AccountShares {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self(AccountSemaphore::new(OF_ALL, PER_PROCESSOR * processors))
    }
}

impl AccountShares {
    /// Runs `request` when fewer requests of the account run than may, and after half a second in any case.
    pub async fn run<F: Future>(&self, account: AccountId, request: F) -> F::Output {
        let turn = self.0.take(account, PATIENCE).await.ok();
        HELD.scope(Cell::new(turn), request).await
    }
}

/// Lets another request of the account run, because this one is about to wait for something else than the database. Does nothing in a task
/// that runs no request.
pub fn release() {
    let _ = HELD.try_with(Cell::take);
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn request_waits_while_as_many_of_its_account_run_as_may() {
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
    async fn request_that_waits_for_something_else_keeps_no_other_waiting() {
        let shares = AccountShares(AccountSemaphore::new(OF_ALL, 1));
        let account = AccountId::generate();
        let mut waits_for_a_browser = Box::pin(shares.run(account, async {
            release();
            pending::<()>().await;
        }));
        assert!(waits_for_a_browser.as_mut().now_or_never().is_none());
        shares.run(account, ready(())).now_or_never().expect("its share is free");
    }

    #[tokio::test]
    async fn request_runs_in_the_end_beside_slow_ones() {
        let shares = AccountShares(AccountSemaphore::new(OF_ALL, 1));
        let account = AccountId::generate();
        let mut slow = Box::pin(shares.run(account, pending::<()>()));
        assert!(slow.as_mut().now_or_never().is_none());
        shares.run(account, ready(())).await;
    }
}
