//! Runs one step of a turn's plan (contract: agents 17 to 21): locates its element, waits for approval if the page requires it,
//! then runs one operation.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kitfleet_domain::actors::OperationActor;
use kitfleet_domain::agents::approvals::{may_submit, submits};
use kitfleet_domain::agents::steps::{ShownElement, Step, StepStatus, describe, kind};
use kitfleet_domain::agents::turn_lifecycle;
use kitfleet_domain::challenges::ChallengeState;
use kitfleet_domain::database::{is_transient, persist};
use kitfleet_domain::sessions::intents::IntentEnding;
use kitfleet_domain::sessions::{SessionStatus, pauses};
use kitfleet_jobs::dispatch::{DispatchError, DispatchOutcome, Dispatcher};
use kitfleet_types::commands::{Command, ElementQuery, ExtractItem, WaitCondition};
use kitfleet_types::emulation::Geolocation;
use kitfleet_types::ids::{IntentId, PageId, StepId};
use kitfleet_types::operations::{
    ActivatePage, Capture, Change, ClosePage, Condition, DialogType, Emulate, Extract, Extraction, Hold, Interact,
    Interacted, Match, Navigate, OnTimeout, OpenDialog, Operation, Outcome, Refusal, StoredResult, SubmissionHeld,
    Take, Wait, WaitUntil, Waited,
};
use kitfleet_types::validation::Invalid;
use serde::Deserialize;
use tokio::time::sleep;

use super::actions::{action_of, approved_element, element_of};
use super::dialogs::{MAX_ALERTS, describe_dialog, quoted};
use super::elements::{show, step_target};
use super::step_outcomes::{LocatedElement, StepOutcome};
use super::{CLAIMS_WITHIN, RunningTurn};

/// In meters.
const ACCURACY: f64 = 10.0;
const CLAIM_RETRY_PAUSE: Duration = Duration::from_millis(20);

impl RunningTurn<'_> {
    pub(super) async fn locate_first(
        &self,
        steps: &[Step],
        approved: Option<StepId>,
    ) -> sqlx::Result<Option<LocatedElement>> {
        match steps.first() {
            Some(step) if !is_done(step) => Ok(Some(self.find(step, approved == Some(step.id)).await?)),
            _ => Ok(None),
        }
    }

    /// `ahead` holds its elements if they are already located.
    pub(super) async fn step(
        &self,
        step: &mut Step,
        approved: bool,
        bytes_left: &mut usize,
        ahead: Option<LocatedElement>,
    ) -> sqlx::Result<StepOutcome> {
        if !is_done(step) {
            let found = match ahead {
                Some(found) => found,
                None => self.find(step, approved).await?,
            };
            match found {
                // The challenge may hide the element, so the step fails because of the challenge.
                LocatedElement::Not(_) if self.is_paused(step).await? => return Ok(StepOutcome::Wrong),
                LocatedElement::Not(went) => return Ok(went),
                LocatedElement::Them(found, origin) if is_already_in_state(&step.command, &found) => {
                    show(step, &found, &origin);
                    step.status = StepStatus::Skipped;
                    return Ok(StepOutcome::Well);
                }
                LocatedElement::Them(found, origin) => {
                    step.needs_approval |= found.iter().any(|found| submits(&step.command, found));
                    step.needs_approval |= step.text_origins.as_ref().is_some_and(|origins| !origins.allow(&origin));
                    show(step, &found, &origin);
                }
            }
        }
        if step.needs_approval && !approved {
            step.status = StepStatus::NeedsApproval;
            self.show_focused(step).await?;
            return Ok(StepOutcome::Asks { why: approval_reason(step) });
        }
        if is_read_only(&step.command)
            && let Some(stopped) = self.hold().await?
        {
            return Ok(stopped);
        }
        let operation = match self.operation(step, approved) {
            Ok(operation) => operation,
            Err(invalid) => {
                step.fail(format!("it cannot be done: {invalid}"));
                return Ok(StepOutcome::Wrong);
            }
        };
        let (about_to, patience) = (&*step, self.context.config.agents.heartbeat_timeout);
        let note = || async {
            let mut conn = self.context.async_commit_pool.acquire().await?;
            turn_lifecycle::step(&mut conn, self.sealer, &self.waiting, about_to, patience).await
        };
        if let Some(stop) = persist("record the start of a step", note).await? {
            return Ok(StepOutcome::Stopped(stop.reason()));
        }
        let went = self.perform_step(step, operation, bytes_left).await?;
        if is_read_only(&step.command) {
            self.hold().await?;
        }
        if let StepOutcome::Asks { why } = went {
            self.show_focused(step).await?;
            let why = if why.is_empty() { approval_reason(step) } else { why };
            return Ok(StepOutcome::Asks { why });
        }
        Ok(went)
    }

    /// Notes whether the browser has held a submission. `Some` when it does not answer.
    async fn hold(&self) -> sqlx::Result<Option<StepOutcome>> {
        let result = match self.read(Operation::Hold(Hold {})).await? {
            Ok(result) => result,
            Err(outcome) => return Ok(Some(outcome)),
        };
        let SubmissionHeld { held } = result.read().map_err(|error| sqlx::Error::Decode(error.into()))?;
        self.page_held.fetch_or(held, Ordering::Relaxed);
        Ok(None)
    }

    /// True when a challenge pauses the driver session (contract: challenges 10).
    async fn is_paused(&self, step: &mut Step) -> sqlx::Result<bool> {
        let look = || async { pauses::current(&mut *self.context.db.acquire().await?, self.waiting.driver).await };
        let Some(challenge) = persist("check for a challenge", look).await? else { return Ok(false) };
        step.fail(paused(&challenge));
        Ok(true)
    }

    async fn perform_step(
        &self,
        step: &mut Step,
        operation: Operation,
        bytes_left: &mut usize,
    ) -> sqlx::Result<StepOutcome> {
        let result = match self.drive(step.operation, operation).await? {
            Ok(IntentEnding { outcome: Outcome::Done, result: Some(result), .. }) => result,
            Ok(IntentEnding { outcome, .. }) => {
                step.fail(describe_failure(&outcome));
                return Ok(StepOutcome::Wrong);
            }
            Err(error) => {
                step.fail(error);
                return Ok(StepOutcome::Wrong);
            }
        };
        self.note_dialogs(&result);
        let mut effect_of = effect_of(step, &result);
        if let StepEffect::Held { is_request } = effect_of {
            step.needs_approval = true;
            step.status = StepStatus::NeedsApproval;
            // A held reload or "back" has not been done; every other step has, except for the submission.
            if matches!(step.command, Command::Back | Command::Forward | Command::Reload) {
                let why = "this would submit again the form that led to the page, which was held back".to_owned();
                return Ok(StepOutcome::Asks { why });
            }
            // Neither the request nor the dialog comes back.
            if is_request && matches!(step.command, Command::Dialog { .. }) {
                step.fail("the dialog was answered, but a script of the page then sent data, which was held back");
                return Ok(StepOutcome::Wrong);
            }
            // A request cannot be sent later.
            if is_request {
                let why =
                    "this was done, but a script of the page would send data, which was held back; the approved step \
                           is done again"
                        .to_owned();
                return Ok(StepOutcome::Asks { why });
            }
            step.end.result = Some(result.json);
            return Ok(StepOutcome::Asks { why: String::new() });
        }
        if is_done(step)
            && let StepEffect::Not(error) = &mut effect_of
        {
            "it was done, but the form that it would have submitted no longer exists".clone_into(error);
        }
        let bytes = result.json.get().len() + result.content.as_ref().map_or(0, |content| content.len() * 4 / 3);
        if bytes > *bytes_left {
            step.fail("it was done, but the results of this turn exceed the limit of one response, or of the account's agent sessions");
            return Ok(StepOutcome::Wrong);
        }
        *bytes_left -= bytes;
        step.end.result = Some(result.json);
        if let StepEffect::Not(error) = effect_of {
            step.fail(error);
            return Ok(StepOutcome::Wrong);
        }
        step.status = StepStatus::Done;
        Ok(StepOutcome::Well)
    }

    /// Waits for an operation of the customer. The inner error is a text for the customer.
    async fn drive(&self, intent: IntentId, operation: Operation) -> sqlx::Result<Result<IntentEnding, String>> {
        let (since, mut alerts) = (Instant::now(), 0);
        loop {
            let driven = match self.dispatch(intent, &operation).await? {
                Ok(driven) => driven,
                Err(error) => return Ok(Err(error)),
            };
            return Ok(Err(match driven {
                DispatchOutcome::Ended(ending, _) => return Ok(Ok(*ending)),
                DispatchOutcome::Crowded(not_yet) => not_yet.to_string(),
                DispatchOutcome::NotReady(SessionStatus::Busy | SessionStatus::Ready)
                    if since.elapsed() < CLAIMS_WITHIN =>
                {
                    sleep(CLAIM_RETRY_PAUSE).await;
                    continue;
                }
                DispatchOutcome::NotReady(SessionStatus::Busy | SessionStatus::Ready) => {
                    "another operation has the driver session".to_owned()
                }
                DispatchOutcome::Paused(challenge) => paused(&challenge),
                DispatchOutcome::DialogOpen(dialog) if dialog.kind == DialogType::Alert && alerts < MAX_ALERTS => {
                    alerts += 1;
                    self.close_alert().await?;
                    continue;
                }
                DispatchOutcome::DialogOpen(dialog) => {
                    let words = waits_for_answer(&dialog);
                    self.dialogs().open = Some(dialog);
                    words
                }
                DispatchOutcome::NotReady(status) => format!("the driver session is {}", status.name()),
                DispatchOutcome::NoSession => "the driver session is gone".to_owned(),
                DispatchOutcome::WorkerGone(failure) | DispatchOutcome::Unheard(failure) => failure.detail,
                DispatchOutcome::WorkerSilent => "the worker has sent no heartbeat for a while".to_owned(),
            }));
        }
    }

    /// The inner error is a text for the customer.
    pub(super) async fn dispatch(
        &self,
        intent: IntentId,
        operation: &Operation,
    ) -> sqlx::Result<Result<DispatchOutcome, String>> {
        let RunningTurn { context, waiting, .. } = self;
        let driving =
            Dispatcher { db: &context.db, wakeups: &context.wakeups, replies: &context.replies, answers: None };
        let whose = (waiting.account, waiting.driver);
        let actor = OperationActor::agent(waiting.session);
        loop {
            return match driving.run(whose, intent, operation.clone(), (&actor, &waiting.request_id)).await {
                Ok(driven) => Ok(Ok(driven)),
                // The outcome of the claim is unknown after a transient error.
                Err(DispatchError::Database(error)) if is_transient(&error) => {
                    match driving.resume(intent, operation.budget()).await? {
                        Some(driven) => Ok(Ok(driven)),
                        None => continue,
                    }
                }
                Err(DispatchError::Database(error)) => Err(error),
                Err(DispatchError::Seal(error)) => Ok(Err(error.to_string())),
            };
        }
    }

    fn operation(&self, step: &Step, approved: bool) -> Result<Operation, Invalid> {
        let limits = &self.context.config.limits;
        if let Some(action) = action_of(step, approved) {
            let mut interact = Interact::parse(action, None, OnTimeout::Return, limits)?;
            interact.hold_submissions = true;
            interact.approved = approved && may_submit(&step.command);
            interact.release_submission = is_done(step);
            return Ok(Operation::Interact(interact));
        }
        let session = self.waiting.driver;
        Ok(match &step.command {
            Command::Navigate { url } => {
                let destinations = &self.context.config.destinations;
                let load = Navigate::parse(url.clone(), WaitUntil::default(), None, destinations, limits)?;
                Operation::Navigate(Navigate { hold_submissions: true, ..load })
            }
            Command::SwitchPage { .. } => Operation::ActivatePage(ActivatePage { session, page: shown_page(step)? }),
            Command::ClosePage { .. } => Operation::ClosePage(ClosePage { session, page: shown_page(step)? }),
            Command::SetLocation { latitude, longitude } => {
                let (latitude, longitude) = (latitude.degrees(), longitude.degrees());
                let geolocation = Change::Set(Geolocation { latitude, longitude, accuracy: ACCURACY });
                Operation::Emulate(Emulate { geolocation, ..Emulate::default() }.parse()?)
            }
            Command::Wait { condition } => {
                let condition = match condition {
                    WaitCondition::Visible(query) => Condition::Selector { element: element_of(query, None) },
                    WaitCondition::Hidden(query) => Condition::SelectorHidden { element: element_of(query, None) },
                    WaitCondition::Url(pattern) => Condition::UrlMatches { pattern: pattern.clone() },
                    WaitCondition::Time { ms } => Condition::Time { ms: *ms },
                    WaitCondition::Download => Condition::Download,
                    WaitCondition::Page => Condition::Page,
                };
                Operation::Wait(Wait::parse(condition, None, OnTimeout::Return, limits)?)
            }
            Command::Capture { capture } => Operation::Capture(Capture::new(*capture, false, limits)),
            Command::Extract { items } => {
                let mut shown = step.shown.iter();
                let mut extraction = |item: &ExtractItem| Extraction {
                    name: item.name.clone(),
                    element: approved_element(
                        &item.target,
                        if item.names_one_element() { shown.next() } else { None },
                        approved,
                    ),
                    take: match (&item.attribute, item.list) {
                        (_, true) => Take::List,
                        (Some(_), false) => Take::Attribute,
                        (None, false) => Take::Text,
                    },
                    transform: None,
                    attribute: item.attribute.clone(),
                    extract: None,
                };
                let extractions = items.iter().map(&mut extraction).collect();
                Operation::Extract(Extract::parse(extractions, limits)?)
            }
            _ => unreachable!("every other command is an action"),
        })
    }
}

fn shown_page(step: &Step) -> Result<PageId, Invalid> {
    let id = step.shown.first().and_then(|shown| shown.selector.parse().ok());
    id.ok_or_else(|| Invalid::field("page", "must be a page of the browser"))
}

fn paused(challenge: &ChallengeState) -> String {
    format!("the session is paused by a challenge ({}): resolve it, or have a person resolve it", challenge.kind.name())
}

fn waits_for_answer(dialog: &OpenDialog) -> String {
    format!("the page shows a dialog ({}) that waits for an answer: {}", dialog.kind.name(), quoted(&dialog.message))
}

enum StepEffect {
    Yes,
    Not(String),
    Held {
        /// True for a request of a script, false for a form.
        is_request: bool,
    },
}

fn effect_of(step: &Step, result: &StoredResult) -> StepEffect {
    if let Some(dialog) = dialog_of(result) {
        let leaves =
            matches!(step.command, Command::Navigate { .. } | Command::Back | Command::Forward | Command::Reload);
        if is_read_only(&step.command) || leaves && dialog.kind == DialogType::BeforeUnload {
            return StepEffect::Not(waits_for_answer(&dialog));
        }
        // A part of the text may be missing.
        if matches!(step.command, Command::Type { .. }) {
            return StepEffect::Not(format!("it was interrupted: {}", waits_for_answer(&dialog)));
        }
    }
    match &step.command {
        Command::Navigate { .. }
        | Command::Capture { .. }
        | Command::Extract { .. }
        | Command::SwitchPage { .. }
        | Command::ClosePage { .. }
        | Command::SetLocation { .. } => StepEffect::Yes,
        Command::Wait { .. } => match result.read::<Waited>() {
            Ok(Waited { matched: false, .. }) => StepEffect::Not("the condition was not met in time".to_owned()),
            _ => StepEffect::Yes,
        },
        command => match result.read::<Interacted>() {
            Ok(Interacted { submission_held: true, request_held, .. }) => StepEffect::Held { is_request: request_held },
            // The input has led to the dialog.
            Ok(Interacted { dialog: Some(_), .. }) => StepEffect::Yes,
            Ok(Interacted { ok: false, .. }) => StepEffect::Not(match step_target(command) {
                Some(target) => {
                    // A ref has no meaning to the customer, so the text uses the description.
                    let found = step.shown.first().filter(|_| matches!(target, ElementQuery::Ref(_)));
                    let target = found.map_or_else(|| describe(target), |found| found.description.clone());
                    format!("{target} could not be used in time: it does not exist, or cannot be reached")
                }
                None => "it was not done in time".to_owned(),
            }),
            _ => StepEffect::Yes,
        },
    }
}

/// Returns the dialog that ended the step early, or is open after it.
fn dialog_of(result: &StoredResult) -> Option<OpenDialog> {
    #[derive(Deserialize)]
    struct Shown {
        #[serde(default)]
        dialog: Option<OpenDialog>,
    }
    result.read::<Shown>().ok()?.dialog
}

/// Done except for the form, which waits for approval (contract: agents 35).
pub(super) fn is_done(step: &Step) -> bool {
    step.needs_approval && step.end.result.is_some()
}

impl RunningTurn<'_> {
    /// Adds the held form (contract: agents 34) and the open dialog.
    pub(super) fn with_held_changes(&self, mut reply: String, steps: &[Step]) -> String {
        if self.page_held.load(Ordering::Relaxed) || steps.iter().any(held_a_form) {
            reply.push_str(" The page would have submitted a form by itself, which was held back.");
        }
        if let Some(dialog) = &self.dialogs().open {
            let is_told = reply.contains(&quoted(&dialog.message));
            if !is_told {
                // Writing to a String cannot fail.
                let shown = describe_dialog(dialog);
                let _ = write!(reply, " The page shows a dialog that waits for an answer: {shown}.");
            }
        }
        reply
    }
}

fn held_a_form(step: &Step) -> bool {
    #[derive(Default, Deserialize)]
    struct Met {
        #[serde(default)]
        page_submission_held: bool,
    }
    let result = step.end.result.as_ref().filter(|_| !is_read_only(&step.command));
    result.and_then(|result| serde_json::from_str::<Met>(result.get()).ok()).unwrap_or_default().page_submission_held
}

fn describe_failure(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "it had no result".to_owned(),
        Outcome::Invalid { refusal: Some(Refusal::DialogOpen { dialog: Some(dialog) }), .. } => {
            waits_for_answer(dialog)
        }
        Outcome::Invalid { refusal: Some(refusal), .. } => refusal.to_string(),
        Outcome::Invalid { errors, .. } => format!("it cannot be done: {}", Invalid(errors.clone())),
        Outcome::Withheld { detail, .. } => detail.clone(),
        Outcome::Failed { failure } => failure.detail.clone(),
        Outcome::Destroyed => "the driver session was destroyed".to_owned(),
        Outcome::Unknown => "its outcome is unknown, because the worker died".to_owned(),
    }
}

/// True when a step does not change the page.
fn is_read_only(command: &Command) -> bool {
    matches!(command, Command::Wait { .. } | Command::Capture { .. } | Command::Extract { .. })
}

/// For an element named by a ref, the model may have requested the approval.
fn approval_reason(step: &Step) -> String {
    if is_done(step) {
        let about = step.shown.first().map(|shown| shown.description.as_str()).unwrap_or_default();
        return format!("this was done, but it would submit a form ({about}), which was held back");
    }
    if let (Some(origins), Some(ShownElement { description, origin, .. })) = (&step.text_origins, step.shown.first())
        && !origins.allow(origin)
    {
        return format!("this enters a text that none of your messages contains, on {origin} ({description})");
    }
    match (&step.command, step.shown.first()) {
        (Command::Navigate { url }, _) => format!("this opens an address that requires approval ({url})"),
        (Command::Dialog { .. }, Some(ShownElement { description, .. })) => {
            format!("this accepts what the page asks, which stays open for a minute at most ({description})")
        }
        (command, Some(ShownElement { selector, description, .. })) => match step_target(command) {
            Some(ElementQuery::Ref(_)) => format!("this requires approval ({description})"),
            None if selector.is_empty() => format!("this requires approval ({})", kind(command)),
            _ => format!("this submits data ({description})"),
        },
        (command, None) => format!("this requires approval ({})", kind(command)),
    }
}

/// The element is already in that state (contract: agent-grammar 7).
fn is_already_in_state(command: &Command, found: &[Match]) -> bool {
    matches!((command, found), (Command::Check { checked, .. }, [found]) if found.checked == Some(*checked))
}
