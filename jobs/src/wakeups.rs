//! Wake-ups: a notification channel a queue.
//!
//! A notification only says "look"; what there is to do stands in the table. So a lost connection costs a look at every
//! queue when it is back, and nothing else.

use std::collections::HashMap;
use std::time::Duration;

use kitfleet_domain::seldom::Seldom;
use sqlx::postgres::PgListener;
use sqlx::{PgConnection, PgPool};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// The channel on which `queue` is notified.
pub(crate) fn channel(queue: &str) -> String {
    format!("jobs:{queue}")
}

/// Has whoever serves `queue` look at it, when the transaction commits.
pub(crate) async fn wake(conn: &mut PgConnection, queue: &str) -> sqlx::Result<()> {
    sqlx::query("select pg_notify($1, '')").bind(channel(queue)).execute(conn).await?;
    Ok(())
}

/// Listens for several queues on one connection of its own, until it is dropped.
#[derive(Debug)]
pub struct Wakeups {
    receivers: HashMap<String, UnboundedReceiver<()>>,
    task: JoinHandle<()>,
}

impl Wakeups {
    /// Starts to listen. From here on no wake-up of these queues is lost.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn listen(db: &PgPool, queues: &[&str]) -> sqlx::Result<Self> {
        let mut listener = PgListener::connect_with(db).await?;
        let (mut senders, mut receivers) = (HashMap::new(), HashMap::new());
        for queue in queues {
            listener.listen(&channel(queue)).await?;
            let (sender, receiver) = unbounded_channel();
            senders.insert(channel(queue), sender);
            receivers.insert((*queue).to_owned(), receiver);
        }
        Ok(Self { receivers, task: tokio::spawn(forward(listener, senders)) })
    }

    /// The wake-ups of one queue; `None` when it was not listened for, or was taken before.
    pub fn take(&mut self, queue: &str) -> Option<UnboundedReceiver<()>> {
        self.receivers.remove(queue)
    }
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut listener: PgListener, senders: HashMap<String, UnboundedSender<()>>) {
    let failed = Seldom::new();
    loop {
        match listener.try_recv().await {
            Ok(Some(notification)) => {
                if let Some(sender) = senders.get(notification.channel()) {
                    // A closed queue needs no wake-up.
                    let _ = sender.send(());
                }
            }
            // The connection was lost and is back: whatever was notified in between was not heard.
            Ok(None) => senders.values().for_each(|sender| {
                let _ = sender.send(());
            }),
            Err(error) => {
                failed.say(|held_back| tracing::warn!(%error, held_back, "cannot listen for jobs"));
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}
