//! Limits how many requests of one account a process runs at a time; further requests wait.
//!
//! Without the limit, an account with many connections occupies as many PostgreSQL backends, and each statement of
//! every other account waits for them. The limit is lower while another account sends few requests, so that half of the
//! processors stays free for it. Two accounts that both send many requests have the full limit: neither would gain from
//! idle processors.
//!
//! Only a request that uses the database or the processor counts. Before a request waits for a browser, for its client
//! or for another permit, it calls [`release`].

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use kitfleet_types::ids::AccountId;

use crate::account_semaphore::{AccountPermit, AccountSemaphore};

/// A request takes one permit while no other account sends requests.
const PER_PROCESSOR: usize = 2;
/// Permits of a request while another account sends few: at most one request for each two processors.
const WHILE_SHARED: usize = 2 * PER_PROCESSOR;
/// Time after a request during which its account counts as active.
const ACTIVE_FOR: Duration = Duration::from_secs(2);
/// A request that waited this long runs without a permit, so that slow requests delay others of their account by no
/// more than this.
const PATIENCE: Duration = Duration::from_millis(500);
/// The number of connections is limited elsewhere.
const OF_ALL: usize = tokio::sync::Semaphore::MAX_PERMITS;

tokio::task_local! {
    static HELD: Cell<Option<AccountPermit>>;
}

#[derive(Debug)]
pub struct AccountShares {
    running: AccountSemaphore,
    of_account: usize,
    /// The latest first.
    latest: Mutex<[Option<(AccountId, Instant)>; 2]>,
}

impl Default for AccountShares {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self::new(PER_PROCESSOR * processors)
    }
}

impl AccountShares {
    fn new(of_account: usize) -> Self {
        Self { running: AccountSemaphore::new(OF_ALL, of_account), of_account, latest: Mutex::default() }
    }

    /// Runs `request` as soon as the account has fewer running requests than its limit, and after 500 ms in any case.
    pub async fn run<F: Future>(&self, account: AccountId, request: F) -> F::Output {
        let permits = self.other(account, Instant::now()).map_or(1, |other| self.permits_beside(other));
        let permit = self.running.take_many(account, permits, PATIENCE).await.ok();
        HELD.scope(Cell::new(permit), request).await
    }

    /// Permits of a request beside another active account: as many requests may run as the other account has, but at least
    /// one for each two processors.
    fn permits_beside(&self, other: AccountId) -> usize {
        let limit = (self.of_account / WHILE_SHARED).max(self.running.demand(other)).max(1);
        self.of_account.div_ceil(limit)
    }

    /// Returns another account that is active.
    fn other(&self, account: AccountId, now: Instant) -> Option<AccountId> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(latest[0], Some((before, _)) if before == account) {
            latest.swap(0, 1);
        }
        latest[0] = Some((account, now));
        latest[1].filter(|(_, at)| now.duration_since(*at) < ACTIVE_FOR).map(|(other, _)| other)
    }
}

/// Call it before waiting for something other than the database. Does nothing in a task that runs no request.
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
        let shares = AccountShares::new(1);
        let account = AccountId::generate();
        let mut running = Box::pin(shares.run(account, pending::<()>()));
        assert!(running.as_mut().now_or_never().is_none());
        let mut waiting = Box::pin(shares.run(account, ready(())));
        assert!(waiting.as_mut().now_or_never().is_none());
        shares.run(AccountId::generate(), ready(())).now_or_never().expect("another account does not wait");
        drop(running);
        waiting.await;
    }

    #[test]
    fn another_account_is_known_while_it_is_active() {
        let shares = AccountShares::new(4);
        let (one, other, start) = (AccountId::generate(), AccountId::generate(), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(shares.other(one, start), None);
        assert_eq!(shares.other(one, later(1)), None);
        assert_eq!(shares.other(other, later(2)), Some(one));
        assert_eq!(shares.other(one, later(3)), Some(other));
        assert_eq!(shares.other(one, later(5)), None, "the other account has sent no request for 3 s");
    }

    #[tokio::test]
    async fn account_runs_fewer_requests_while_another_is_active() {
        let shares = AccountShares::new(WHILE_SHARED);
        let (account, other) = (AccountId::generate(), AccountId::generate());
        shares.run(other, ready(())).await;
        let mut running = Box::pin(shares.run(account, pending::<()>()));
        assert!(running.as_mut().now_or_never().is_none());
        let mut waiting = Box::pin(shares.run(account, ready(())));
        assert!(waiting.as_mut().now_or_never().is_none());
        shares.run(other, ready(())).now_or_never().expect("the other account does not wait");
    }

    #[tokio::test]
    async fn two_busy_accounts_have_the_full_limit() {
        let shares = AccountShares::new(WHILE_SHARED);
        let (account, other) = (AccountId::generate(), AccountId::generate());
        let mut of_other: Vec<_> = (0..WHILE_SHARED).map(|_| Box::pin(shares.run(other, pending::<()>()))).collect();
        assert!(of_other.iter_mut().all(|running| running.as_mut().now_or_never().is_none()));
        let mut running = Box::pin(shares.run(account, pending::<()>()));
        assert!(running.as_mut().now_or_never().is_none());
        shares.run(account, ready(())).now_or_never().expect("the other account uses its limit as well");
    }

    #[tokio::test]
    async fn request_that_released_its_permit_delays_no_other() {
        let shares = AccountShares::new(1);
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
        let shares = AccountShares::new(1);
        let account = AccountId::generate();
        let mut slow = Box::pin(shares.run(account, pending::<()>()));
        assert!(slow.as_mut().now_or_never().is_none());
        shares.run(account, ready(())).await;
    }
}
