//! One connection per transport, which the process's listeners share.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kitfleet_types::log_throttle::LogThrottle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Hub, postgres, redis};

/// They close when the last listener is dropped.
pub(super) struct Listeners {
    pub(super) wanted: watch::Sender<HashSet<String>>,
    /// Channels that PostgreSQL listens to.
    pub(super) subscribed_channels: watch::Receiver<HashSet<String>>,
    _tasks: JoinSet<()>,
}

impl Listeners {
    pub(super) fn open(hub: &Arc<Hub>) -> Self {
        let (wanted, channels) = watch::channel(HashSet::new());
        let (publish_subscribed, subscribed_channels) = watch::channel(HashSet::new());
        let mut tasks = JoinSet::new();
        if let Some(client) = hub.redis.clone() {
            tasks.spawn(redis::listen(Arc::clone(hub), client, channels.clone()));
        }
        tasks.spawn(postgres::listen(Arc::clone(hub), channels, publish_subscribed));
        Self { wanted, subscribed_channels, _tasks: tasks }
    }
}

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
