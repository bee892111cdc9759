use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kitfleet_domain::machine::Memory;
use kitfleet_domain::metrics::Gauge;
use tokio::sync::Notify;

use super::demand::{DemandHistory, WorkerLoad};
use super::host::Host;
use crate::config::WarmPool;

pub const BROWSERS_HOT: Gauge =
    Gauge::new("service_browsers_hot", "Started browsers without a session.", []).starting_at_zero();

pub struct WarmShelf {
    pool: WarmPool,
    most_sessions: usize,
    stock: Mutex<ShelfState>,
    /// The required number of warm browsers may have changed.
    changed: Notify,
    /// Notified when a warm browser is added.
    arrived: Notify,
}

#[derive(Default)]
struct ShelfState {
    hot: VecDeque<Host>,
    demand: DemandHistory,
    /// Each counted from before its browser opens until the browser is gone.
    sessions: usize,
    /// Browsers that are being prepared for a session.
    dressing: usize,
    closed: bool,
}

pub struct CountedBrowser {
    shelf: Arc<WarmShelf>,
    count: fn(&mut ShelfState) -> &mut usize,
}

impl WarmShelf {
    pub fn new(pool: WarmPool, most_sessions: u32) -> Self {
        let most_sessions = usize::try_from(most_sessions).unwrap_or(usize::MAX);
        let (stock, changed, arrived) = (Mutex::default(), Notify::new(), Notify::new());
        Self { pool, most_sessions, stock, changed, arrived }
    }

    pub fn place(self: &Arc<Self>) -> CountedBrowser {
        self.count(|stock| &mut stock.sessions)
    }

    /// No warm browser is started meanwhile, because the preparation needs the processors.
    pub fn begin_preparation(self: &Arc<Self>) -> CountedBrowser {
        self.count(|stock| &mut stock.dressing)
    }

    fn count(self: &Arc<Self>, count: fn(&mut ShelfState) -> &mut usize) -> CountedBrowser {
        self.with(|stock| *count(stock) += 1);
        CountedBrowser { shelf: Arc::clone(self), count }
    }

    pub fn note(&self, now: Instant) {
        self.with(|stock| stock.demand.note(now));
    }

    /// Replaced when the session has opened.
    pub fn take(&self) -> Option<Host> {
        self.with(|stock| {
            stock.hot.retain(Host::is_alive);
            stock.hot.pop_front()
        })
    }

    pub fn hot(&self) -> usize {
        self.with(|stock| stock.hot.len())
    }

    pub async fn take_next(&self) -> Host {
        loop {
            self.arrived.notified().await;
            if let Some(host) = self.take() {
                return host;
            }
        }
    }

    pub fn put(&self, host: Host) {
        self.with(|stock| stock.hot.push_back(host));
        self.arrived.notify_one();
    }

    pub fn close(&self) {
        self.with(|stock| stock.closed = true);
        self.changed.notify_one();
    }

    pub fn reopen(&self) {
        self.with(|stock| stock.closed = false);
        self.changed.notify_one();
    }

    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the number of missing ones.
    pub fn settle(&self, now: Instant) -> usize {
        if self.with(|stock| stock.dressing > 0) {
            return 0;
        }
        // A fixed number does not depend on the machine's memory.
        let memory = (self.pool == WarmPool::Auto).then(Memory::now).flatten();
        let (missing, gone) = self.with(|stock| {
            stock.hot.retain(Host::is_alive);
            let sessions_left = self.most_sessions.saturating_sub(stock.sessions);
            let situation = WorkerLoad { hot: stock.hot.len(), sessions_left, memory };
            let most = stock.demand.largest_burst(now);
            let goal = if stock.closed { 0 } else { situation.target_size(self.pool, most) };
            let gone = stock.hot.split_off(goal.min(stock.hot.len()));
            (goal - stock.hot.len(), gone)
        });
        // Dropping kills each of them in the background.
        drop(gone);
        missing
    }

    fn with<T>(&self, change: impl FnOnce(&mut ShelfState) -> T) -> T {
        let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        let done = change(&mut stock);
        let hot = u32::try_from(stock.hot.len()).unwrap_or(u32::MAX);
        BROWSERS_HOT.series().set(hot);
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
