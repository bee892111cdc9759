//! Input of viewers, one viewer at a time (contract: live 7 to 16). The person who sends input holds the session's claim until
//! 1 s after their last input, so that no operation runs meanwhile.

use std::time::Duration;

use kitfleet_domain::agents::lanes::LaneError;
use kitfleet_domain::database::{begin, persist};
use kitfleet_domain::live::driving::{self, Change};
use kitfleet_domain::sessions::gui_input::{self, Claim, InputClaim};
use kitfleet_host_protocol::ViewerAction;
use kitfleet_live::messages::{Event, Refusal};
use kitfleet_types::ids::IntentId;
use kitfleet_types::operations::{Failure, FailureClass};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::hub::Hub;
use super::touch_state::TouchState;
use super::viewer_input::{InputRight, ViewerInput};
use super::viewers::ViewerId;
use crate::Context;
use crate::browser::InputOutcome;
use crate::sessions::outcomes::release_input;
use crate::sessions::registry::LiveHandle;

/// The claim is released this long after the last input.
const RELEASE_AFTER: Duration = Duration::from_secs(1);
/// Like [`RELEASE_AFTER`], while a finger is down or the page shows a dialog.
const ABANDON_AFTER: Duration = Duration::from_mins(1);
/// For the browser to accept input. A page cannot delay it.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// When nothing is due.
const IDLE_WAIT: Duration = Duration::from_hours(1);

pub struct InputSession<'a> {
    hub: &'a Hub,
    live_handle: &'a LiveHandle,
    context: &'a Context,
    touch: TouchState,
    now: Option<Now>,
}

/// Viewer who holds the claim, and the time of their last input.
#[derive(Clone, Copy)]
struct Now {
    viewer: ViewerId,
    last_input: Instant,
}

impl<'a> InputSession<'a> {
    pub fn new(hub: &'a Hub, live_handle: &'a LiveHandle, context: &'a Context) -> Self {
        Self { hub, live_handle, context, touch: TouchState::default(), now: None }
    }

    /// Input is never cancelled midway, so that a claim is always released.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<ViewerInput>, stop: &CancellationToken) {
        loop {
            let due = self.due();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.hub.looked.notified() => self.stop_unauthorized().await,
                () = sleep_until(due) => self.close_idle().await,
                Some(input) = inputs.recv() => self.take(input).await,
            }
        }
        self.end_input().await;
    }

    fn due(&self) -> Instant {
        let idle_at = self.idle_at();
        let lifts_at = self.touch.next_due();
        idle_at.into_iter().chain(lifts_at).min().unwrap_or_else(|| Instant::now() + IDLE_WAIT)
    }

    fn idle_at(&self) -> Option<Instant> {
        let waits = self.touch.any() || self.hub.pictures.asks();
        self.now.map(|now| now.last_input + if waits { ABANDON_AFTER } else { RELEASE_AFTER })
    }

    async fn close_idle(&mut self) {
        let lifted = self.touch.lift_due(Instant::now());
        self.send(lifted).await;
        if self.idle_at().is_some_and(|at| at <= Instant::now()) {
            self.end_after_idle().await;
        }
    }

    /// Unless the page opens a dialog as it handles the last input. A slow page may open it late.
    async fn end_after_idle(&mut self) {
        let Some(now) = self.now else { return };
        let waited = self.touch.any() || self.hub.pictures.asks();
        let lifted = self.touch.lift_all();
        self.send(lifted).await;
        match timeout(TAKEN_WITHIN, self.live_handle.view.input_idle()).await.unwrap_or_else(|_| Err(silent())) {
            Ok(asks_nothing) if asks_nothing || waited => self.end_input().await,
            Ok(_) => self.now = Some(Now { last_input: Instant::now(), ..now }),
            Err(failure) => self.fail(failure).await,
        }
    }

    /// Ends the input of a viewer who has left or no longer drives.
    async fn stop_unauthorized(&mut self) {
        if let Some(now) = self.now
            && !self.hub.viewers.may_act(now.viewer)
        {
            self.end_input().await;
        }
    }

    async fn take(&mut self, input: ViewerInput) {
        let ViewerInput { viewer, admission, what } = input;
        if !self.hub.viewers.has(viewer) {
            return;
        }
        match what {
            InputRight::Events(events) => self.act(viewer, admission.client_id.as_deref(), events).await,
            InputRight::Lane(change) => self.change_lane(viewer, admission.id, change).await,
        }
    }

    /// Contract: live 36. A viewer's pending input is completed before the AI continues.
    async fn change_lane(&mut self, viewer: ViewerId, admission: Uuid, change: Change) {
        if change == Change::HandBack && self.now.is_some_and(|now| now.viewer == viewer) {
            self.end_input().await;
        }
        if let Err(error) = self.try_to_change_lane(admission, change).await {
            let (reason, detail) = match error {
                LaneError::NoSession => (Refusal::Forbidden, "there is no agent session that you may drive"),
                LaneError::Closed => (Refusal::NotDriving, "the agent session is closed"),
                LaneError::NotPair => (Refusal::NotDriving, "the agent session is not in pair mode"),
                LaneError::DrivenByAnother | LaneError::HumanDrives => (Refusal::NotDriving, "another person drives"),
                LaneError::NotDriving | LaneError::NoTurn => (Refusal::NotDriving, "you do not drive"),
                LaneError::TooManyChanges(_) => {
                    (Refusal::Busy, "the account has reached its limit of changes per hour")
                }
                LaneError::Database(error) => {
                    tracing::warn!(%error, session = %self.hub.session, "cannot change the driver of a session");
                    (Refusal::Busy, "the driver cannot be changed now")
                }
            };
            self.hub.viewers.refuse(viewer, reason, detail);
        }
        self.hub.recheck();
    }

    async fn try_to_change_lane(&self, admission: Uuid, change: Change) -> Result<(), LaneError> {
        let mut tx = begin(&self.context.db).await?;
        let config = &self.context.config;
        let (patience, max) = (config.agents.heartbeat_timeout, config.limits.audited_changes_per_hour);
        let changed = driving::change(&mut tx, admission, change, patience, max).await;
        if !matches!(changed, Err(LaneError::Database(_))) {
            tx.commit().await?;
        }
        changed
    }

    async fn act(&mut self, viewer: ViewerId, client_id: Option<&str>, events: Vec<Event>) {
        let refuse = |reason, detail| self.hub.viewers.refuse(viewer, reason, detail);
        match self.now {
            Some(now) if now.viewer != viewer => return refuse(Refusal::Busy, "another person acts"),
            Some(_) => {}
            None => match self.claim(client_id).await {
                Ok(Claim::Won) => {
                    if let Some(recording) = &self.live_handle.recording {
                        recording.take_claim(client_id);
                    }
                }
                Ok(Claim::Busy) => return refuse(Refusal::Busy, "an operation is running"),
                Ok(Claim::NotDriving) => {
                    self.hub.recheck();
                    return refuse(Refusal::NotDriving, "another person drives");
                }
                Err(error) => {
                    tracing::warn!(%error, session = %self.hub.session, "cannot claim a session for a viewer's input");
                    return refuse(Refusal::Busy, "the session cannot be claimed now");
                }
            },
        }
        let begins = self.now.is_none();
        let now = Instant::now();
        self.now = Some(Now { viewer, last_input: now });
        let before = self.touch.clone();
        let acts = self.touch.acts(events, self.hub.viewport(), now);
        let lend = async { if begins { self.live_handle.view.grant_input(true).await } else { Ok(()) } };
        // The browser must receive the grant before the input.
        let done =
            timeout(TAKEN_WITHIN, async { tokio::try_join!(biased; lend, self.live_handle.view.act(acts)) }).await;
        match done.unwrap_or_else(|_| Err(silent())) {
            Ok(((), InputOutcome::Done)) => {}
            Ok(((), InputOutcome::Unresponsive)) => {
                refuse(Refusal::Unresponsive, "the page does not answer");
                let lifted = self.touch.lift_all();
                self.send(lifted).await;
            }
            Ok(((), InputOutcome::NoSuchKey)) => {
                refuse(Refusal::Invalid, "there is no such key");
                self.touch = before;
            }
            Err(failure) => self.fail(failure).await,
        }
    }

    /// Retries until the outcome is known.
    async fn claim(&self, client: Option<&str>) -> sqlx::Result<Claim> {
        let mut held = self.live_handle.claim.lock().await;
        let intent = IntentId::generate();
        *held = Some(intent);
        let person = InputClaim {
            worker: self.context.id,
            session: self.hub.session,
            client,
            patience: self.context.config.agents.heartbeat_timeout,
        };
        let reply = self.context.replies.address("live");
        let claim = || async { gui_input::claim(&mut *self.context.db.acquire().await?, person, intent, reply).await };
        let claimed = persist("claim a session for a person", claim).await;
        if !matches!(claimed, Ok(Claim::Won)) {
            *held = None;
        }
        claimed
    }

    /// Closes open dialogs, too.
    async fn end_input(&mut self) {
        let lifted = self.touch.lift_all();
        if self.now.take().is_none() {
            return;
        }
        let rests = timeout(TAKEN_WITHIN, async {
            tokio::try_join!(biased; self.live_handle.view.act(lifted), self.live_handle.view.grant_input(false))
        });
        if let Err(failure) = rests.await.unwrap_or_else(|_| Err(silent())) {
            return self.fail(failure).await;
        }
        self.note_return();
        let mut held = self.live_handle.claim.lock().await;
        if let Some(intent) = held.take() {
            release_input(self.context, intent).await;
        }
    }

    fn note_return(&self) {
        if let Some(recording) = &self.live_handle.recording {
            recording.return_claim();
        }
    }

    async fn send(&mut self, acts: Vec<ViewerAction>) {
        if acts.is_empty() {
            return;
        }
        if let Err(failure) =
            timeout(TAKEN_WITHIN, self.live_handle.view.act(acts)).await.unwrap_or_else(|_| Err(silent()))
        {
            self.fail(failure).await;
        }
    }

    /// The session's actor fails the claim with the browser. If it has ended, it knows already.
    async fn fail(&mut self, failure: Failure) {
        self.now = None;
        self.note_return();
        let _ = self.live_handle.faults.send(failure).await;
    }
}

fn silent() -> Failure {
    Failure { class: FailureClass::Driver, detail: "the browser does not accept input".to_owned() }
}
