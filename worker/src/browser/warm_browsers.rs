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

pub struct WarmBrowsers {
    pool: WarmPool,
    max_sessions: usize,
    state: Mutex<WarmState>,
    /// The required number of warm browsers may have changed.
    changed: Notify,
    /// Notified when a warm browser is added.
    arrived: Notify,
}

#[derive(Default)]
struct WarmState {
    hot: VecDeque<Host>,
    demand: DemandHistory,
    /// Each counted from before its browser opens until the browser is gone.
    sessions: usize,
    /// Browsers that are being prepared for a session.
    preparing: usize,
    closed: bool,
}

pub struct CountedBrowser {
    warm_browsers: Arc<WarmBrowsers>,
    count: fn(&mut WarmState) -> &mut usize,
}

impl WarmBrowsers {
    pub fn new(pool: WarmPool, max_sessions: u32) -> Self {
        let max_sessions = usize::try_from(max_sessions).unwrap_or(usize::MAX);
        let (state, changed, arrived) = (Mutex::default(), Notify::new(), Notify::new());
        Self { pool, max_sessions, state, changed, arrived }
    }

    pub fn place(self: &Arc<Self>) -> CountedBrowser {
        self.count(|state| &mut state.sessions)
    }

    /// No warm browser is started meanwhile, because the preparation needs the processors.
    pub fn begin_preparation(self: &Arc<Self>) -> CountedBrowser {
        self.count(|state| &mut state.preparing)
    }

    fn count(self: &Arc<Self>, count: fn(&mut WarmState) -> &mut usize) -> CountedBrowser {
        self.with(|state| *count(state) += 1);
        CountedBrowser { warm_browsers: Arc::clone(self), count }
    }

    pub fn note(&self, now: Instant) {
        self.with(|state| state.demand.note(now));
    }

    /// Replaced when the session has opened.
    pub fn take(&self) -> Option<Host> {
        self.with(|state| {
            state.hot.retain(Host::is_alive);
            state.hot.pop_front()
        })
    }

    pub fn hot(&self) -> usize {
        self.with(|state| state.hot.len())
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
        self.with(|state| state.hot.push_back(host));
        self.arrived.notify_one();
    }

    pub fn close(&self) {
        self.with(|state| state.closed = true);
        self.changed.notify_one();
    }

    pub fn reopen(&self) {
        self.with(|state| state.closed = false);
        self.changed.notify_one();
    }

    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the number of missing ones.
    pub fn settle(&self, now: Instant) -> usize {
        if self.with(|state| state.preparing > 0) {
            return 0;
        }
        // A fixed number does not depend on the machine's memory.
        let memory = (self.pool == WarmPool::Auto).then(Memory::now).flatten();
        let (missing, gone) = self.with(|state| {
            state.hot.retain(Host::is_alive);
            let sessions_left = self.max_sessions.saturating_sub(state.sessions);
            let situation = WorkerLoad { hot: state.hot.len(), sessions_left, memory };
            let max = state.demand.largest_burst(now);
            let goal = if state.closed { 0 } else { situation.target_size(self.pool, max) };
            let gone = state.hot.split_off(goal.min(state.hot.len()));
            (goal - state.hot.len(), gone)
        });
        // Dropping kills each of them in the background.
        drop(gone);
        missing
    }

    fn with<T>(&self, change: impl FnOnce(&mut WarmState) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let done = change(&mut state);
        let hot = u32::try_from(state.hot.len()).unwrap_or(u32::MAX);
        BROWSERS_HOT.series().set(hot);
        done
    }
}

impl Drop for CountedBrowser {
    fn drop(&mut self) {
        let count = self.count;
        self.warm_browsers.with(|state| *count(state) -= 1);
        self.warm_browsers.changed.notify_one();
    }
}
