//! The line of those who wait for a slot (contract: sessions 24, 25).
//!
//! Whoever is the first in it looks for a slot, a few times a second and whenever one has become free in this process; all others
//! only wait for their turn. Accounts take turns, and callers of one account come as they came. Each process has a line of its
//! own: all of them look into one database, and whoever finds a slot has it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kitfleet_domain::account_share;
use kitfleet_domain::ids::AccountId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::http::error::{Problem, Result};
use crate::http::hung_up::HungUp;
use crate::http::metrics::{self, Refusal};

/// How often the first of the line looks whether there is a slot.
const LOOK: Duration = Duration::from_millis(250);

pub struct Line {
    /// The accounts that wait, the next one first.
    queues: Mutex<VecDeque<Queue>>,
    /// How many may wait, in this process and of an account.
    bounds: (usize, usize),
    /// A slot has become free.
    freed: Notify,
    closed: CancellationToken,
}

/// An account's callers.
struct Queue {
    account: AccountId,
    callers: VecDeque<Arc<Notify>>,
}

impl Line {
    /// A line for so many callers, and so many of one account.
    pub fn new(of_all: usize, of_account: usize) -> Self {
        Self {
            queues: Mutex::default(),
            bounds: (of_all, of_account),
            freed: Notify::new(),
            closed: CancellationToken::new(),
        }
    }

    /// Whether nobody waits: then a slot is for whoever asks.
    pub fn is_empty(&self) -> bool {
        self.with_queues(|queues| queues.is_empty())
    }

    /// Tells the first of the line that it may be worth looking for a slot.
    pub fn look(&self) {
        if !self.is_empty() {
            self.freed.notify_one();
        }
    }

    /// Ends all waiting: this process stops.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// Takes the last place in the account's queue, which waits until `deadline` at most.
    ///
    /// # Errors
    /// When as many wait as may.
    pub fn enter(&self, account: AccountId, deadline: Instant) -> Result<Place<'_>> {
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
                None => queues.push_back(Queue { account, callers: VecDeque::from([Arc::clone(&turn)]) }),
            }
            if all == 0 {
                turn.notify_one();
            }
            true
        });
        if entered {
            metrics::note_waiting(1.0);
            Ok(Place { line: self, account, deadline, turn, has_looked: false })
        } else {
            metrics::count_refusal(Refusal::LineFull);
            Err(Problem::capacity_exhausted("no browser is free, and too many wait for one already"))
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

    fn with_queues<R>(&self, act: impl FnOnce(&mut VecDeque<Queue>) -> R) -> R {
        act(&mut self.queues.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Somebody's place in the line, for as long as it is there.
pub struct Place<'a> {
    line: &'a Line,
    account: AccountId,
    deadline: Instant,
    turn: Arc<Notify>,
    has_looked: bool,
}

impl Place<'_> {
    /// Waits until its caller may look for a slot. It keeps its place meanwhile, and afterwards.
    ///
    /// # Errors
    /// When its time is over, the process stops, or its caller has hung up, who hears of none of that.
    pub async fn turn(&mut self, hung_up: &HungUp) -> Result<()> {
        account_share::release();
        let line = self.line;
        let (refusal, detail) = tokio::select! {
            biased;
            () = hung_up.happens() => return Err(Problem::capacity_exhausted("the caller has hung up")),
            () = line.closed.cancelled() => (Refusal::Stopping, "this process stops, and nobody waits for a browser any longer"),
            () = sleep_until(self.deadline) => (Refusal::Waited, "no browser has become free in time"),
            () = self.may_look() => return Ok(()),
        };
        metrics::count_refusal(refusal);
        Err(Problem::capacity_exhausted(detail))
    }

    async fn may_look(&mut self) {
        if self.has_looked {
            tokio::select! {
                () = sleep(LOOK) => {}
                () = self.line.freed.notified() => {}
            }
        } else {
            self.turn.notified().await;
            self.has_looked = true;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.leave(self.account, &self.turn);
    }
}
