//! Queue of requests that wait for a browser slot (contract: sessions 24, 25).
//!
//! The first request in the queue checks for a slot a few times a second, and whenever one is freed in this process. Accounts
//! are served in turn; the callers of an account in order of arrival.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitfleet_domain::account_share;
use kitfleet_types::ids::AccountId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::http::client_disconnect::ClientDisconnect;
use crate::http::error::{Problem, Result};
use crate::http::metrics::{self, Refusal};

/// Interval at which the first in the queue checks for a slot.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub struct WaitQueue {
    /// The next one first.
    queues: Mutex<VecDeque<AccountQueue>>,
    /// In this process and per account.
    bounds: (usize, usize),
    freed: Notify,
    closed: CancellationToken,
}

struct AccountQueue {
    account: AccountId,
    callers: VecDeque<Arc<Notify>>,
}

impl WaitQueue {
    pub fn new(of_all: usize, of_account: usize) -> Self {
        Self {
            queues: Mutex::default(),
            bounds: (of_all, of_account),
            freed: Notify::new(),
            closed: CancellationToken::new(),
        }
    }

    /// The next request can then use a slot directly.
    pub fn is_empty(&self) -> bool {
        self.with_queues(|queues| queues.is_empty())
    }

    pub fn wake_next(&self) {
        if !self.is_empty() {
            self.freed.notify_one();
        }
    }

    /// Ends all waiting, because this process stops.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// At the end of the account's queue, until `deadline` at most.
    pub fn enter(&self, account: AccountId, deadline: Instant) -> Result<Ticket<'_>> {
        let turn = Arc::new(Notify::new());
        let entered = self.with_queues(|queues| {
            let (of_all, of_account) = self.bounds;
            let all: usize = queues.iter().map(|queue| queue.callers.len()).sum();
            let own = queues.iter_mut().find(|queue| queue.account == account);
            if all >= of_all || own.as_ref().is_some_and(|own| own.callers.len() >= of_account) {
                return false;
            }
            match own {
                Some(own) => own.callers.push_back(Arc::clone(&turn)),
                None => queues.push_back(AccountQueue { account, callers: VecDeque::from([Arc::clone(&turn)]) }),
            }
            if all == 0 {
                turn.notify_one();
            }
            true
        });
        if entered {
            metrics::note_waiting(1.0);
            Ok(Ticket { queue: self, account, deadline, turn, had_turn: false })
        } else {
            metrics::count_refusal(Refusal::LineFull);
            Err(Problem::capacity_exhausted("no browser is free, and the queue of waiting requests is full"))
        }
    }

    fn leave(&self, account: AccountId, turn: &Arc<Notify>) {
        self.with_queues(|queues| {
            let Some(at) = queues.iter().position(|queue| queue.account == account) else { return };
            let was_first = at == 0 && queues[at].callers.front().is_some_and(|first| Arc::ptr_eq(first, turn));
            queues[at].callers.retain(|caller| !Arc::ptr_eq(caller, turn));
            if queues[at].callers.is_empty() {
                queues.remove(at);
            } else if was_first {
                queues.rotate_left(1);
            }
            if was_first && let Some(next) = queues.front().and_then(|queue| queue.callers.front()) {
                next.notify_one();
            }
        });
        metrics::note_waiting(-1.0);
    }

    fn with_queues<R>(&self, act: impl FnOnce(&mut VecDeque<AccountQueue>) -> R) -> R {
        act(&mut self.queues.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Freed on drop.
pub struct Ticket<'a> {
    queue: &'a WaitQueue,
    account: AccountId,
    deadline: Instant,
    turn: Arc<Notify>,
    had_turn: bool,
}

impl Ticket<'_> {
    /// The caller should then check for a slot, and keeps its position.
    pub async fn turn(&mut self, disconnect: &ClientDisconnect) -> Result<()> {
        account_share::release();
        let queue = self.queue;
        let (refusal, detail) = tokio::select! {
            biased;
            () = disconnect.happens() => return Err(Problem::capacity_exhausted("the caller has hung up")),
            () = queue.closed.cancelled() => (Refusal::Stopping, "this process is stopping and cannot wait for a browser"),
            () = sleep_until(self.deadline) => (Refusal::Waited, "no browser became free in time"),
            () = self.wait_for_turn() => return Ok(()),
        };
        metrics::count_refusal(refusal);
        Err(Problem::capacity_exhausted(detail))
    }

    async fn wait_for_turn(&mut self) {
        if self.had_turn {
            tokio::select! {
                () = sleep(POLL_INTERVAL) => {}
                () = self.queue.freed.notified() => {}
            }
        } else {
            self.turn.notified().await;
            self.had_turn = true;
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.queue.leave(self.account, &self.turn);
    }
}
