//! The hot browsers of a worker, and who takes them.

use kitfleet_domain::machine::Memory;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::demand::{DemandHistory, WorkerLoad};
use super::host::Host;
use crate::config::WarmPool;

/// Hot browsers, and what decides how many there are to be.
pub struct WarmShelf {
    pool: WarmPool,
    /// Sessions at most.
    most_sessions: usize,
    stock: Mutex<ShelfState>,
    /// Something has come or gone, so that others may have to.
    changed: Notify,
    /// A hot one has come.
    arrived: Notify,
}

#[derive(Default)]
struct ShelfState {
    hot: VecDeque<Host>,
    demand: DemandHistory,
    /// Sessions, each from before its browser opens until nothing is left of it.
    sessions: usize,
    /// Browsers that a customer will have in a moment.
    dressing: usize,
    /// There are to be none that are hot.
    closed: bool,
}

/// Is counted until it is dropped.
pub struct CountedBrowser {
    shelf: Arc<WarmShelf>,
    count: fn(&mut ShelfState) -> &mut usize,
}

impl WarmShelf {
    /// An empty one.
    pub fn new(pool: WarmPool, most_sessions: u32) -> Self {
        let most_sessions = usize::try_from(most_sessions).unwrap_or(usize::MAX);
        let (stock, changed, arrived) = (Mutex::default(), Notify::new(), Notify::new());
        Self { pool, most_sessions, stock, changed, arrived }
    }

    /// Counts a session.
    pub fn place(self: &Arc<Self>) -> CountedBrowser {
        self.count(|stock| &mut stock.sessions)
    }

    /// Counts a browser that a customer will have in a moment. None is started meanwhile: the processors are his.
    pub fn dressing(self: &Arc<Self>) -> CountedBrowser {
        self.count(|stock| &mut stock.dressing)
    }

    fn count(self: &Arc<Self>, count: fn(&mut ShelfState) -> &mut usize) -> CountedBrowser {
        self.with(|stock| *count(stock) += 1);
        CountedBrowser { shelf: Arc::clone(self), count }
    }

    /// Somebody wants a browser of those that may be hot.
    pub fn note(&self, now: Instant) {
        self.with(|stock| stock.demand.note(now));
    }

    /// Takes a hot one, which is replaced when its customer has it.
    pub fn take(&self) -> Option<Host> {
        self.with(|stock| {
            stock.hot.retain(Host::is_alive);
            stock.hot.pop_front()
        })
    }

    /// Takes the first hot one that comes.
    pub async fn take_next(&self) -> Host {
        loop {
            self.arrived.notified().await;
            if let Some(host) = self.take() {
                return host;
            }
        }
    }

    /// Puts a hot one there.
    pub fn put(&self, host: Host) {
        self.with(|stock| stock.hot.push_back(host));
        self.arrived.notify_one();
    }

    /// There is to be none any more.
    pub fn close(&self) {
        self.with(|stock| stock.closed = true);
        self.changed.notify_one();
    }

    /// Undoes [`Shelf::close`].
    pub fn reopen(&self) {
        self.with(|stock| stock.closed = false);
        self.changed.notify_one();
    }

    /// Waits until another number of them may have to be there.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Lets go of those that are dead, or too many, and answers how many are missing.
    pub fn settle(&self, now: Instant) -> usize {
        if self.with(|stock| stock.dressing > 0) {
            return 0;
        }
        // Who keeps a number does not ask for the machine's memory.
        let memory = (self.pool == WarmPool::Auto).then(Memory::now).flatten();
        let (missing, gone) = self.with(|stock| {
            stock.hot.retain(Host::is_alive);
            let sessions_left = self.most_sessions.saturating_sub(stock.sessions);
            let situation = WorkerLoad { hot: stock.hot.len(), sessions_left, memory };
            let most = stock.demand.most(now);
            let goal = if stock.closed { 0 } else { situation.goal(self.pool, most) };
            let gone = stock.hot.split_off(goal.min(stock.hot.len()));
            (goal - stock.hot.len(), gone)
        });
        // Each is killed, in the background.
        drop(gone);
        missing
    }

    fn with<T>(&self, change: impl FnOnce(&mut ShelfState) -> T) -> T {
        let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        let done = change(&mut stock);
        let hot = u32::try_from(stock.hot.len()).unwrap_or(u32::MAX);
        metrics::gauge!("service_browsers_hot").set(hot);
        done
    }
}

impl Drop for CountedBrowser {
    fn drop(&mut self) {
        let count = self.count;
        self.shelf.with(|stock| *count(stock) -= 1);
        self.shelf.changed.notify_one();
    }
}
