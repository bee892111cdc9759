//! One connection per transport, which the process's listeners share.

use std::collections::HashSet;
use std::sync::Arc;

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
