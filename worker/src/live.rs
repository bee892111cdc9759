//! Who watches the browsers of this worker, and acts in them (contract: live).
//!
//! A session that somebody watches has a [`Hub`] for as long as they do: it asks the browser for what is new while anybody has room for it,
//! hands that to all, does what one of them does, and looks again and again at who they are. An api process brings viewers here with the
//! ticket that they showed it, and forwards bytes from then on.

mod hub;
mod input_session;
mod pictures;
mod touch_state;
mod viewer;
mod viewers;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kitfleet_domain::ids::SessionId;
use kitfleet_domain::live::{self as tickets, Admission};
use kitfleet_domain::log_throttle::LogThrottle;
use kitfleet_live::link::{self, Greeting, Incoming, Listener, NotAdmitted};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use self::hub::Hub;
use self::viewers::ViewerHandle;
use crate::Context;

/// Connections at most that have not shown a ticket yet.
const STRANGERS: usize = 256;

/// How long after an error the next connection is waited for: without descriptors there is one after the other.
const REST: Duration = Duration::from_millis(100);

/// The hubs of this worker.
#[derive(Default)]
pub(crate) struct Live {
    hubs: Mutex<HashMap<SessionId, Arc<Hub>>>,
    /// Hubs and viewers.
    tasks: TaskTracker,
}

impl Live {
    /// Waits until nobody watches any more, whom everybody has been told to leave.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn hubs(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Hub>>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a hub that nobody watches by. Whoever comes later gets another.
    fn forget_if_empty(&self, hub: &Arc<Hub>) -> bool {
        let mut hubs = self.hubs();
        let is_empty = hub.seats.is_empty();
        if is_empty {
            hubs.remove(&hub.session);
        }
        is_empty
    }
}

/// Where viewers are brought to.
///
/// # Errors
/// When the address is not to be had.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<Listener> {
    Listener::bind(address).await
}

/// Lets viewers in, for ever.
pub(crate) async fn receive(listener: Listener, context: Arc<Context>) {
    let strangers = Arc::new(Semaphore::new(STRANGERS));
    let failed = LogThrottle::new();
    loop {
        let Ok(stranger) = Arc::clone(&strangers).acquire_owned().await else { return };
        match listener.accept().await {
            Ok(incoming) => {
                let guest = Arc::clone(&context);
                context.live.tasks.spawn(async move {
                    let welcome = welcome(incoming, &guest).await;
                    drop(stranger);
                    if let Some((stream, hub, seat)) = welcome {
                        viewer::serve(stream, &hub, seat, &guest.stopping).await;
                    }
                });
            }
            Err(error) => {
                failed.say(|held_back| tracing::warn!(%error, held_back, "cannot admit a viewer"));
                sleep(REST).await;
            }
        }
    }
}

/// Hears who somebody is, and has them sit down. Whoever says nothing of use is not answered.
async fn welcome(
    incoming: Incoming,
    context: &Arc<Context>,
) -> Option<(Box<dyn link::Stream>, Arc<Hub>, ViewerHandle)> {
    let heard = context.stopping.run_until_cancelled(incoming.greeting()).await?;
    let (mut stream, greeting) = heard.ok()?;
    let admitted = admit(&greeting, context).await;
    let (seated, answer) = match admitted {
        Ok(seated) => (Some(seated), Ok(())),
        Err(reason) => (None, Err(reason)),
    };
    link::answer(&mut stream, answer).await.ok()?;
    let (hub, seat) = seated?;
    Some((stream, hub, seat))
}

async fn admit(greeting: &Greeting, context: &Arc<Context>) -> Result<(Arc<Hub>, ViewerHandle), NotAdmitted> {
    let session = greeting.session_id;
    if context.stopping.is_cancelled() {
        return Err(NotAdmitted::Unavailable);
    }
    // Of a session that is not here the ticket stays good.
    let stage = context.sessions.stage(session).ok_or(NotAdmitted::Session)?;
    let is_full = context.live.hubs().get(&session).is_some_and(|hub| hub.seats.are_taken());
    if is_full {
        return Err(NotAdmitted::Full);
    }
    let admission = use_up(greeting, context).await.map_err(|error| {
        tracing::warn!(%error, %session, "cannot check a ticket");
        NotAdmitted::Unavailable
    })?;
    let admission = admission.ok_or(NotAdmitted::Ticket)?;
    let mut hubs = context.live.hubs();
    let (hub, is_new) = if let Some(hub) = hubs.get(&session) {
        (Arc::clone(hub), None)
    } else {
        let (hub, parts) = Hub::new(session, &stage);
        hubs.insert(session, Arc::clone(&hub));
        (hub, Some(parts))
    };
    let seat = hub.seats.take(admission).ok_or(NotAdmitted::Full)?;
    drop(hubs);
    hub.look_again();
    if let Some(parts) = is_new {
        context.live.tasks.spawn(Arc::clone(&hub).run(parts, Arc::clone(context)));
    }
    Ok((hub, seat))
}

async fn use_up(greeting: &Greeting, context: &Context) -> sqlx::Result<Option<Admission>> {
    let mut conn = context.db.acquire().await?;
    tickets::use_up(&mut conn, greeting.session_id, &greeting.ticket, context.id).await
}
