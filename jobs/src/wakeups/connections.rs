//! State of a connection that listens: its log lines, and the channels that it is subscribed to.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

use kitfleet_types::log_throttle::LogThrottle;

pub(super) struct ConnectionLog {
    loss: &'static str,
    is_lost: AtomicBool,
    lost: LogThrottle,
    back: LogThrottle,
}

impl ConnectionLog {
    pub(super) fn new(loss: &'static str) -> Self {
        Self { loss, is_lost: AtomicBool::new(false), lost: LogThrottle::new(), back: LogThrottle::new() }
    }

    pub(super) fn is_lost(&self, error: &dyn Display) {
        self.is_lost.store(true, Ordering::Relaxed);
        self.lost.log(|held_back| tracing::warn!(%error, held_back, "{}", self.loss));
    }

    pub(super) fn note_connected(&self) {
        if self.is_lost.swap(false, Ordering::Relaxed) {
            self.back.log(|held_back| tracing::info!(held_back, after = self.loss, "receiving wake-ups again"));
        }
    }
}

#[derive(Default)]
pub(super) struct ChannelSubscriptions(pub(super) HashSet<String>);

impl ChannelSubscriptions {
    /// Returns the added and the removed channels.
    pub(super) fn become_as(&mut self, wanted: &HashSet<String>) -> (Vec<String>, Vec<String>) {
        let added = wanted.difference(&self.0).cloned().collect();
        let removed = self.0.difference(wanted).cloned().collect();
        self.0.clone_from(wanted);
        (added, removed)
    }
}
