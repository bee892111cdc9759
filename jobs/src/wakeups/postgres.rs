//! PostgreSQL as transport of wake-ups. Commits with notifications are serialized across the database: one that waits
//! for the disk would delay all others, so these do not wait.

use std::collections::HashSet;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kitfleet_domain::database::pool_options;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Acquire as _, Connection as _, PgPool};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connections::{ChannelSubscriptions, ConnectionLog};
use super::{Hub, WakeUp};

const RETRY: Duration = Duration::from_millis(200);
/// Time without a message after which the connection is pinged.
const QUIET: Duration = Duration::from_secs(10);
/// Timeout of a ping, a notification, and a change of the channels.
const PING: Duration = Duration::from_secs(5);

/// Sends notifications over its own connection.
pub(super) struct Notifier(PgPool);

impl Notifier {
    pub(super) fn new(db: &PgPool) -> Self {
        let options = (*db.connect_options()).clone().options([("synchronous_commit", "off")]);
        Self(pool_options(1).connect_lazy_with(options))
    }

    pub(super) async fn notify(&self, wakeups: &[WakeUp]) -> sqlx::Result<()> {
        let (channels, payloads): (Vec<_>, Vec<_>) =
            wakeups.iter().map(|wakeup| (wakeup.channel.as_str(), wakeup.payload.as_str())).unzip();
        let notify = sqlx::query("select pg_notify(c, p) from unnest($1::text[], $2::text[]) as told (c, p)")
            .bind(channels)
            .bind(payloads)
            .execute(&self.0);
        timeout(PING, notify).await.map_err(|_| sqlx::Error::PoolTimedOut)??;
        Ok(())
    }
}

/// Publishes the set that is in effect; never returns.
pub(super) async fn listen(
    hub: Arc<Hub>,
    mut wanted: watch::Receiver<HashSet<String>>,
    subscribed_channels: watch::Sender<HashSet<String>>,
) {
    let line = ConnectionLog::new("lost the connection that receives wake-ups");
    loop {
        let Err(error) = listen_on_one_connection(&hub, &mut wanted, &subscribed_channels, &line).await;
        line.is_lost(&error);
        sleep(RETRY).await;
    }
}

async fn listen_on_one_connection(
    hub: &Hub,
    wanted: &mut watch::Receiver<HashSet<String>>,
    subscribed_channels: &watch::Sender<HashSet<String>>,
    line: &ConnectionLog,
) -> sqlx::Result<Infallible> {
    // Uses its own pool: a listening connection would be lost to the shared pool.
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(PING).connect_lazy_with(hub.listening.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    line.note_connected();
    let mut subscribed = ChannelSubscriptions::default();
    wanted.mark_changed();
    loop {
        tokio::select! {
            Ok(()) = wanted.changed() => {
                let (added, removed) = subscribed.become_as(&wanted.borrow_and_update());
                // The timeout matters: on a dead connection, every listener of the process would receive nothing.
                let changed = timeout(PING, listen_to(&mut listener, &added, &removed)).await;
                changed.map_err(|_| sqlx::Error::PoolTimedOut)??;
                subscribed_channels.send_replace(subscribed.0.clone());
                hub.notify_missed(&added);
            }
            message = timeout(QUIET, listener.try_recv()) => match message {
                Ok(Ok(Some(message))) => {
                    hub.dispatch(message.channel(), Some(message.payload()));
                }
                Ok(Ok(None)) => return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    let connection = listener.acquire().await?;
                    timeout(PING, connection.ping()).await.map_err(|_| sqlx::Error::PoolTimedOut)??;
                }
            },
        }
    }
}

async fn listen_to(listener: &mut PgListener, added: &[String], removed: &[String]) -> sqlx::Result<()> {
    if !added.is_empty() {
        listener.listen_all(added.iter().map(String::as_str)).await?;
    }
    for channel in removed {
        listener.unlisten(channel).await?;
    }
    Ok(())
}
