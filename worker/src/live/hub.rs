//! What the viewers of one session have in common.

use std::sync::Arc;
use std::time::Duration;

use kitfleet_domain::agents::lanes;
use kitfleet_domain::archetypes::Size;
use kitfleet_domain::ids::SessionId;
use kitfleet_domain::live as tickets;
use kitfleet_domain::log_throttle::LogThrottle;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::input_session::{InputSession, ViewerInput};
use super::pictures::Pictures;
use super::viewers::{Control, Viewers};
use crate::Context;
use crate::sessions::LiveHandle;

/// How often there is looked who the viewers are, and who drives.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The same while somebody acts.
const LOOK_WHILE_ACTING: Duration = Duration::from_secs(1);
/// How often the lane of a client that drives hears of its connection.
const HEAR_EVERY: Duration = Duration::from_secs(5);

/// What people have done that waits to be done in the browser.
const DEEDS: usize = 32;

/// The viewers of one session, and what they see.
pub struct Hub {
    /// Which session.
    pub session: SessionId,
    /// Who watches.
    pub seats: Viewers,
    /// What they see.
    pub pictures: Pictures,
    /// What those do who may act.
    pub deeds: mpsc::Sender<ViewerInput>,
    /// Cancelled when the browser has ended.
    pub ended: CancellationToken,
    viewport: Size,
    look: Notify,
    /// Told whenever there was looked who may act.
    pub looked: Notify,
}

/// What a hub runs on.
pub struct Parts {
    stage: LiveHandle,
    deeds: mpsc::Receiver<ViewerInput>,
}

impl Hub {
    /// A hub that nobody watches by yet, and what it is to run on.
    pub fn new(session: SessionId, stage: &LiveHandle) -> (Arc<Self>, Parts) {
        let stage = LiveHandle { view: stage.view.for_another(), ..stage.clone() };
        let (deeds, waiting) = mpsc::channel(DEEDS);
        let hub = Self {
            session,
            seats: Viewers::default(),
            pictures: Pictures::default(),
            deeds,
            ended: CancellationToken::new(),
            viewport: stage.view.size(),
            look: Notify::new(),
            looked: Notify::new(),
        };
        (Arc::new(hub), Parts { stage, deeds: waiting })
    }

    /// The viewport, in CSS pixels.
    pub fn viewport(&self) -> Size {
        self.viewport
    }

    /// Has somebody look soon who drives.
    pub fn look_again(&self) {
        self.look.notify_one();
    }

    /// Serves viewers until the last has left or the browser ends.
    pub async fn run(self: Arc<Self>, parts: Parts, context: Arc<Context>) {
        let Parts { stage, deeds } = parts;
        let stop = CancellationToken::new();
        let acting = InputSession::new(&self, &stage, &context);
        let watching = async {
            tokio::select! {
                _ = self.pictures.follow(&stage.view) => self.ended.cancel(),
                _ = stage.view.ended() => self.ended.cancel(),
                () = self.look_at_viewers(&stage, &context) => {}
                () = self.until_forgotten(&context) => {}
            }
            stop.cancel();
        };
        tokio::join!(watching, Box::pin(acting.run(deeds, &stop)));
        if self.ended.is_cancelled() {
            // Those who still sit there are told, and leave.
            while !context.live.forget_if_empty(&self) {
                self.seats.somebody_left().await;
            }
        }
        stage.view.unwatch().await;
    }

    async fn until_forgotten(self: &Arc<Self>, context: &Context) {
        while !context.live.forget_if_empty(self) {
            self.seats.somebody_left().await;
            // Whoever acts may have been the one.
            self.looked.notify_one();
        }
    }

    /// Looks again and again who may see this, who drives, and who is still there (contract: live 6, 11, 12).
    async fn look_at_viewers(&self, stage: &LiveHandle, context: &Context) {
        let (failed, mut heard_at) = (LogThrottle::new(), None);
        loop {
            let hear = heard_at.is_none_or(|at: Instant| at.elapsed() >= HEAR_EVERY);
            match self.look_once(context, hear).await {
                Ok(()) if hear => heard_at = Some(Instant::now()),
                Ok(()) => {}
                Err(error) => failed.say(|held_back| {
                    tracing::warn!(%error, held_back, session = %self.session, "cannot check the viewers of a session");
                }),
            }
            self.looked.notify_one();
            let is_acting = stage.claim.try_lock().map_or(true, |claim| claim.is_some());
            let next = Instant::now() + if is_acting { LOOK_WHILE_ACTING } else { LOOK_EVERY };
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.look.notified() => {}
            }
        }
    }

    async fn look_once(&self, context: &Context, hear: bool) -> sqlx::Result<()> {
        let admissions = self.seats.admissions();
        let ids: Vec<_> = admissions.iter().map(|admission| admission.id).collect();
        let patience = context.config.agents.heartbeat_timeout;
        let mut conn = context.async_commit_pool.acquire().await?;
        self.seats.withdraw(&tickets::withdrawn(&mut conn, &ids).await?);
        let standing = lanes::standing(&mut conn, self.session, patience).await?;
        self.seats.tell_control(standing.as_ref());
        let driver = standing.as_ref().and_then(|standing| standing.driver.as_deref());
        // Who may not keep the lane by a request does not by staying here, whatever they call themselves.
        let is_here =
            admissions.iter().any(|admission| admission.takes_over && Control::drives(admission, standing.as_ref()));
        if let Some(driver) = driver.filter(|_| hear && is_here) {
            lanes::hear_of(&mut conn, self.session, driver, patience).await?;
        }
        Ok(())
    }
}
