//! Viewers of the browsers on this worker, and their input (contract: live).
//!
//! A session has a [`Hub`] while viewers are connected, which distributes the browser's changes, forwards a viewer's input, and
//! checks periodically which viewers may stay. An API process connects a viewer to the worker with the viewer's ticket, and
//! then only forwards bytes. Transfers of files (`file_transfers.rs`) use the same listener.

mod hub;
mod hub_task;
mod input_session;
mod pictures;
mod touch_state;
mod viewer;
mod viewer_input;
mod viewers;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kitfleet_domain::file_access::AccessTickets;
use kitfleet_domain::live::{self as tickets, Admission};
use kitfleet_live::link::{self, Greeting, Incoming, Listener, NotAdmitted};
use kitfleet_types::ids::SessionId;
use kitfleet_types::log_throttle::LogThrottle;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use self::hub::Hub;
use self::viewers::ViewerHandle;
use crate::Context;
use crate::file_transfers::{self, Transfer};

/// Connections that have not shown a ticket yet.
const MAX_UNAUTHENTICATED: usize = 256;

/// After a failed accept. Without free file descriptors, each accept fails at once.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Live {
    hubs: Mutex<HashMap<SessionId, Arc<Hub>>>,
    tasks: TaskTracker,
}

impl Live {
    /// The caller has ended the sessions of the viewers.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn hubs(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Hub>>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a hub without viewers. A later viewer gets a new hub.
    fn remove_if_empty(&self, hub: &Arc<Hub>) -> bool {
        let mut hubs = self.hubs();
        let is_empty = hub.viewers.is_empty();
        if is_empty {
            hubs.remove(&hub.session);
        }
        is_empty
    }
}

pub(crate) async fn bind(address: SocketAddr) -> io::Result<Listener> {
    Listener::bind(address).await
}

/// Never returns.
pub(crate) async fn receive(listener: Listener, context: Arc<Context>) {
    let strangers = Arc::new(Semaphore::new(MAX_UNAUTHENTICATED));
    let failed = LogThrottle::new();
    loop {
        let Ok(stranger) = Arc::clone(&strangers).acquire_owned().await else { return };
        match listener.accept().await {
            Ok(incoming) => {
                let guest = Arc::clone(&context);
                context.live.tasks.spawn(async move {
                    let welcome = welcome(incoming, &guest).await;
                    drop(stranger);
                    match welcome {
                        Some((stream, Admitted::Viewer(hub, handle))) => {
                            viewer::serve(stream, &hub, handle, &guest.stopping).await;
                        }
                        Some((stream, Admitted::Transfer(transfer))) => {
                            // The connection is over, so an error has no recipient.
                            let _ = guest.stopping.run_until_cancelled(transfer.run(stream)).await;
                        }
                        None => {}
                    }
                });
            }
            Err(error) => {
                failed.log(|held_back| tracing::warn!(%error, held_back, "cannot accept the connection of a viewer"));
                sleep(ACCEPT_RETRY_PAUSE).await;
            }
        }
    }
}

enum Admitted {
    Viewer(Arc<Hub>, ViewerHandle),
    Transfer(Transfer),
}

/// Of a viewer or a transfer. An invalid greeting is not answered.
async fn welcome(incoming: Incoming, context: &Arc<Context>) -> Option<(Box<dyn link::Stream>, Admitted)> {
    let greeting_read = context.stopping.run_until_cancelled(incoming.greeting()).await?;
    let (mut stream, greeting) = greeting_read.ok()?;
    let admitted = if AccessTickets::is_ticket(&greeting.ticket) {
        file_transfers::admit(&greeting, context).await.map(Admitted::Transfer)
    } else {
        admit(&greeting, context).await.map(|(hub, handle)| Admitted::Viewer(hub, handle))
    };
    let (admitted, answer) = match admitted {
        Ok(admitted) => (Some(admitted), Ok(())),
        Err(reason) => (None, Err(reason)),
    };
    link::answer(&mut stream, answer).await.ok()?;
    Some((stream, admitted?))
}

async fn admit(greeting: &Greeting, context: &Arc<Context>) -> Result<(Arc<Hub>, ViewerHandle), NotAdmitted> {
    let session = greeting.session_id;
    if context.stopping.is_cancelled() {
        return Err(NotAdmitted::Unavailable);
    }
    // The ticket of a session on another worker stays valid.
    let live_handle = context.sessions.live_handle(session).ok_or(NotAdmitted::Session)?;
    let is_full = context.live.hubs().get(&session).is_some_and(|hub| hub.viewers.is_full());
    if is_full {
        return Err(NotAdmitted::Full);
    }
    let admission = use_up(greeting, context).await.map_err(|error| {
        tracing::warn!(%error, %session, "cannot check the ticket of a viewer");
        NotAdmitted::Unavailable
    })?;
    let admission = admission.ok_or(NotAdmitted::Ticket)?;
    let mut hubs = context.live.hubs();
    let (hub, is_new) = if let Some(hub) = hubs.get(&session) {
        (Arc::clone(hub), None)
    } else {
        let (hub, parts) = Hub::new(session, &live_handle);
        hubs.insert(session, Arc::clone(&hub));
        (hub, Some(parts))
    };
    let handle = hub.viewers.take(admission).ok_or(NotAdmitted::Full)?;
    drop(hubs);
    hub.recheck();
    if let Some(parts) = is_new {
        context.live.tasks.spawn(Arc::clone(&hub).run(parts, Arc::clone(context)));
    }
    Ok((hub, handle))
}

async fn use_up(greeting: &Greeting, context: &Context) -> sqlx::Result<Option<Admission>> {
    let mut conn = context.db.acquire().await?;
    tickets::use_up(&mut conn, greeting.session_id, &greeting.ticket, context.id).await
}
