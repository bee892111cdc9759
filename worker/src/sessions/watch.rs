//! The watch for challenges (contract: challenges 2, 5, 8, 9). It checks the page after each load and once a second,
//! while the browser runs no operation.

use std::time::Duration;

use kitfleet_domain::challenges::{self, ChallengeOutcome, ChallengeType, Finding};
use kitfleet_domain::database::begin;
use kitfleet_domain::sessions::pauses;
use kitfleet_recording::events::ChallengeProgress;
use kitfleet_types::ids::{ChallengeId, SessionId};
use kitfleet_types::log_throttle::LogThrottle;
use kitfleet_types::operations::Operation;
use tokio::time::{Instant, sleep_until, timeout};

use crate::Context;
use crate::browser::{Browser, ChallengeScan};
use crate::recorder::RecordingLog;

const EVERY: Duration = Duration::from_secs(1);
/// Longest pause between two checks of a page that does not answer.
const SELDOM: Duration = Duration::from_secs(30);
/// Maximum time for a page's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Reported challenges of one session.
const MAX_CHALLENGES: u32 = 100;

static UNREPORTED: LogThrottle = LogThrottle::new();

pub(super) struct Watch {
    session: SessionId,
    confidence: f64,
    /// `None` until a page is loaded.
    due: Option<Instant>,
    pause: Duration,
    /// Document of the last check.
    document: Option<u64>,
    /// Challenge types already reported for that document.
    reported: Vec<ChallengeType>,
    /// Still shown. The row says whether it still pauses the session.
    shown: Option<(ChallengeId, ChallengeType)>,
    left: u32,
    recording: Option<RecordingLog>,
}

impl Watch {
    pub(super) fn new(session: SessionId, confidence: f64) -> Self {
        let (due, document, reported, shown) = (None, None, Vec::new(), None);
        Self {
            session,
            confidence,
            due,
            pause: EVERY,
            document,
            reported,
            shown,
            left: MAX_CHALLENGES,
            recording: None,
        }
    }

    pub(super) fn record(&mut self, recording: RecordingLog) {
        self.recording = Some(recording);
    }

    fn note_change(&self, state: ChallengeProgress, id: ChallengeId, kind: ChallengeType) {
        if let Some(recording) = &self.recording {
            recording.challenge(state, &id.to_string(), kind.name());
        }
    }

    pub(super) fn after(&mut self, done: &Operation) {
        if done.spec().may_load {
            (self.due, self.pause) = (Some(Instant::now()), EVERY);
        }
    }

    /// At the next due time. `None` when the page did not answer. The pause doubles for a page that hangs. Cancellation is
    /// safe: the next call checks at once.
    pub(super) async fn scan(&mut self, browser: &Browser) -> Option<ChallengeScan> {
        match self.due {
            Some(due) if self.left > 0 || self.shown.is_some() => sleep_until(due).await,
            _ => std::future::pending().await,
        }
        let begun = Instant::now();
        let seen = timeout(ANSWER_WITHIN, browser.look_for_challenges()).await.ok().flatten();
        tracing::trace!(took = ?begun.elapsed(), session = %self.session, "checked for challenges");
        self.pause = if seen.is_some() { EVERY } else { (self.pause * 2).min(SELDOM) };
        self.due = Some(Instant::now() + self.pause);
        seen
    }

    /// After a database error the next check finds the changes again.
    pub(super) async fn record_scan(&mut self, context: &Context, seen: ChallengeScan) {
        if let Err(error) = self.compare(context, seen).await {
            UNREPORTED.log(|held_back| {
                tracing::warn!(%error, session = %self.session, held_back, "cannot record a challenge: trying again after the next check");
            });
        }
    }

    async fn compare(&mut self, context: &Context, seen: ChallengeScan) -> sqlx::Result<()> {
        let ChallengeScan { document, mut found } = seen;
        found.retain(|found| found.confidence >= self.confidence);
        let shows = |kind: ChallengeType| found.iter().any(|found| found.kind == kind);
        match self.shown {
            Some((id, kind)) if !shows(kind) => self.end(context, id, kind).await?,
            // The challenge also appears on the new page. If it was resolved before, the new page starts without a
            // reported challenge.
            Some((id, _)) if self.document != Some(document) => {
                let current = pauses::current(&mut *context.db.acquire().await?, self.session).await?;
                self.shown = self.shown.filter(|_| current.is_some_and(|current| current.challenge_id == id));
            }
            _ => {}
        }
        if self.document != Some(document) {
            self.document = Some(document);
            self.reported = self.shown.iter().map(|(_, kind)| *kind).collect();
        }
        let new = found.iter().find(|found| !self.reported.contains(&found.kind));
        match new {
            Some(found) if self.shown.is_none() && self.left > 0 => self.pause(context, found).await,
            _ => Ok(()),
        }
    }

    async fn pause(&mut self, context: &Context, found: &Finding) -> sqlx::Result<()> {
        let mut tx = begin(&context.db).await?;
        let paused = pauses::pause(&mut tx, context.id, self.session, found).await?;
        tx.commit().await?;
        let Some(id) = paused else { return Ok(()) };
        challenges::count(found.kind, None);
        tracing::info!(session = %self.session, challenge = %id, kind = found.kind.name(), "session paused by a challenge");
        self.note_change(ChallengeProgress::Detected, id, found.kind);
        self.reported.push(found.kind);
        self.shown = Some((id, found.kind));
        self.left -= 1;
        if self.left == 0 {
            tracing::warn!(session = %self.session, "session reached its limit of challenges: later challenges are not reported");
        }
        Ok(())
    }

    async fn end(&mut self, context: &Context, id: ChallengeId, kind: ChallengeType) -> sqlx::Result<()> {
        let mut tx = begin(&context.db).await?;
        let ended = pauses::disappeared(&mut tx, self.session, id).await?;
        tx.commit().await?;
        if ended {
            challenges::count(kind, Some(ChallengeOutcome::Disappeared));
        }
        self.note_change(ChallengeProgress::Resolved, id, kind);
        self.shown = None;
        Ok(())
    }
}
