//! The task of a [`Hub`]: forwards pictures and input, and checks the viewers.

use std::sync::Arc;
use std::time::Duration;

use kitfleet_domain::agents::lanes;
use kitfleet_domain::live as tickets;
use kitfleet_types::log_throttle::LogThrottle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::hub::{Hub, Parts};
use super::input_session::InputSession;
use super::viewers::Control;
use crate::Context;
use crate::sessions::registry::LiveHandle;

/// Of the viewers and of the driver.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// While a viewer sends input.
const POLL_INTERVAL_DURING_INPUT: Duration = Duration::from_secs(1);
/// A driver's connection gives its lane heartbeats.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);

impl Hub {
    /// Until the last viewer has left or the browser ends.
    pub async fn run(self: Arc<Self>, parts: Parts, context: Arc<Context>) {
        let Parts { live_handle, inputs } = parts;
        let stop = CancellationToken::new();
        let acting = InputSession::new(&self, &live_handle, &context);
        let watching = async {
            tokio::select! {
                _ = self.pictures.follow(&live_handle.view) => self.ended.cancel(),
                _ = live_handle.view.ended() => self.ended.cancel(),
                () = self.watch_viewers(&live_handle, &context) => {}
                () = self.run_until_removed(&context) => {}
            }
            stop.cancel();
        };
        tokio::join!(watching, Box::pin(acting.run(inputs, &stop)));
        if self.ended.is_cancelled() {
            // The remaining viewers are disconnected and leave.
            while !context.live.remove_if_empty(&self) {
                self.viewers.viewer_left().await;
            }
        }
        // Without viewers, no person acts.
        if let Some(recording) = &live_handle.recording {
            recording.set_driver(None);
        }
        live_handle.view.unwatch().await;
    }

    async fn run_until_removed(self: &Arc<Self>, context: &Context) {
        while !context.live.remove_if_empty(self) {
            self.viewers.viewer_left().await;
            // The viewer who left may have been sending input.
            self.looked.notify_one();
        }
    }

    /// Also sends heartbeats for the driver (contract: live 6, 11, 12).
    async fn watch_viewers(&self, live_handle: &LiveHandle, context: &Context) {
        let (failed, mut heartbeat_at) = (LogThrottle::new(), None);
        loop {
            let send_heartbeat = heartbeat_at.is_none_or(|at: Instant| at.elapsed() >= HEARTBEAT_EVERY);
            match self.check_viewers(live_handle, context, send_heartbeat).await {
                Ok(()) if send_heartbeat => heartbeat_at = Some(Instant::now()),
                Ok(()) => {}
                Err(error) => failed.log(|held_back| {
                    tracing::warn!(%error, held_back, session = %self.session, "cannot check the viewers of a session");
                }),
            }
            self.looked.notify_one();
            let is_acting = live_handle.claim.try_lock().map_or(true, |claim| claim.is_some());
            let next = Instant::now() + if is_acting { POLL_INTERVAL_DURING_INPUT } else { POLL_INTERVAL };
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.check_now.notified() => {}
            }
        }
    }

    async fn check_viewers(
        &self,
        live_handle: &LiveHandle,
        context: &Context,
        send_heartbeat: bool,
    ) -> sqlx::Result<()> {
        let admissions = self.viewers.admissions();
        let ids: Vec<_> = admissions.iter().map(|admission| admission.id).collect();
        let patience = context.config.agents.heartbeat_timeout;
        let mut conn = context.async_commit_pool.acquire().await?;
        self.viewers.withdraw(&tickets::withdrawn(&mut conn, &ids).await?);
        let lane = lanes::state(&mut conn, self.session, patience).await?;
        self.viewers.publish_control(lane.as_ref());
        let driver = lane.as_ref().and_then(|lane| lane.driver.as_deref());
        if let Some(recording) = &live_handle.recording {
            recording.set_driver(driver);
        }
        // A viewer whose ticket cannot take over must not keep the lane by staying connected, whatever client ID it
        // gives.
        let is_here =
            admissions.iter().any(|admission| admission.takes_over && Control::drives(admission, lane.as_ref()));
        if let Some(driver) = driver.filter(|_| send_heartbeat && is_here) {
            lanes::record_heartbeat(&mut conn, self.session, driver, patience).await?;
        }
        Ok(())
    }
}
