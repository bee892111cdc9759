//! Carrying out one step of a turn's plan (contract: agents 17 to 21): find who is meant, ask for approval where the page says so, then
//! one operation. Finding only looks, so that it is none: the turn runs beside the browser, and asks its actor.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kitfleet_domain::agents::approvals::{depends_on_focus, may_submit, submits};
use kitfleet_domain::agents::commands::{Command, ElementQuery, ExtractItem, WaitCondition};
use kitfleet_domain::agents::steps::{ShownElement, Step, StepStatus, describe, kind};
use kitfleet_domain::agents::turn_lifecycle;
use kitfleet_domain::challenges::ChallengeState;
use kitfleet_domain::database::{is_transient, persist};
use kitfleet_domain::ids::{IntentId, StepId};
use kitfleet_domain::operations::{
    Action, Candidate, Capture, Condition, Element, Extract, Extraction, Failure, Hold, Interact, Interacted, Locate,
    LocateBy, Located, MOST_CANDIDATES, Match, Navigate, OnTimeout, Operation, Outcome, ROLES, StoredResult,
    SubmissionHeld, Take, Target, Wait, WaitUntil, Waited,
};
use kitfleet_domain::sessions::intents::IntentEnding;
use kitfleet_domain::sessions::{SessionStatus, pauses};
use kitfleet_domain::validation::Invalid;
use kitfleet_jobs::dispatch::{DispatchError, DispatchOutcome, Dispatcher};
use serde::Deserialize;
use tokio::time::sleep;

use super::RunningTurn;
use crate::browser::OperationEnd;

/// How long a step, or a look at the page, waits for an operation of the customer's own to end.
pub(super) const CLAIMS_WITHIN: Duration = Duration::from_secs(5);
/// How often it tries.
const CLAIM_AGAIN: Duration = Duration::from_millis(20);
/// How often there is looked again for an element that is not there yet: the first pause, and the longest.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(400));

/// How a step went.
pub(super) enum StepOutcome {
    /// It was done.
    Well,
    /// It failed, as it says itself.
    Wrong,
    /// It waits for approval.
    Asks {
        /// Why.
        why: String,
    },
    /// It is not clear whom it means.
    Unclear {
        /// Why.
        reply: String,
        /// Whom it could mean.
        candidates: Vec<Candidate>,
    },
    /// It was not begun.
    Stopped(&'static str),
}

/// Who was found for a step.
pub(super) enum LocatedElement {
    /// These elements, on a page of this origin.
    Them(Vec<Match>, String),
    /// The step ends without having been begun.
    Not(StepOutcome),
}

fn unclear(reply: impl Into<String>) -> LocatedElement {
    LocatedElement::Not(StepOutcome::Unclear { reply: reply.into(), candidates: Vec::new() })
}

impl RunningTurn<'_> {
    /// Finds whom the first of these steps means, if somebody has to look for that.
    pub(super) async fn look_ahead(
        &self,
        steps: &[Step],
        approved: Option<StepId>,
    ) -> sqlx::Result<Option<LocatedElement>> {
        match steps.first() {
            Some(step) if !was_done(step) => Ok(Some(self.find(step, approved == Some(step.id)).await?)),
            _ => Ok(None),
        }
    }

    /// Carries a step out, if it may be. Whom it means may have been found `ahead`.
    pub(super) async fn step(
        &self,
        step: &mut Step,
        approved: bool,
        room: &mut usize,
        ahead: Option<LocatedElement>,
    ) -> sqlx::Result<StepOutcome> {
        if !was_done(step) {
            let found = match ahead {
                Some(found) => found,
                None => self.find(step, approved).await?,
            };
            match found {
                // Whoever is meant may be there behind the challenge, so that nothing is unclear.
                LocatedElement::Not(_) if self.is_paused(step).await? => return Ok(StepOutcome::Wrong),
                LocatedElement::Not(went) => return Ok(went),
                LocatedElement::Them(found, origin) if stands_as_wished(&step.wish, &found) => {
                    show(step, &found, &origin);
                    step.status = StepStatus::Skipped;
                    return Ok(StepOutcome::Well);
                }
                LocatedElement::Them(found, origin) => {
                    step.needs_approval |= found.iter().any(|found| submits(&step.wish, found));
                    step.needs_approval |= step.text_origins.as_ref().is_some_and(|origins| !origins.allow(&origin));
                    show(step, &found, &origin);
                }
            }
        }
        if step.needs_approval && !approved {
            step.status = StepStatus::NeedsApproval;
            self.show_focused(step).await?;
            return Ok(StepOutcome::Asks { why: why_it_asks(step) });
        }
        if only_looks(&step.wish)
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
        let went = self.carry_out_one(step, operation, room).await?;
        if only_looks(&step.wish) {
            self.hold().await?;
        }
        if let StepOutcome::Asks { why } = went {
            self.show_focused(step).await?;
            let why = if why.is_empty() { why_it_asks(step) } else { why };
            return Ok(StepOutcome::Asks { why });
        }
        Ok(went)
    }

    /// Has the browser hold back what nobody has approved of, and notes whether that has happened. `Some` when it cannot be told so.
    async fn hold(&self) -> sqlx::Result<Option<StepOutcome>> {
        match self.context.sessions.look(self.waiting.driver, Operation::Hold(Hold {}), CLAIMS_WITHIN).await {
            Some(OperationEnd::Done(result)) => {
                let SubmissionHeld { held } = result.read().map_err(|error| sqlx::Error::Decode(error.into()))?;
                self.page_held.fetch_or(held, Ordering::Relaxed);
                Ok(None)
            }
            Some(OperationEnd::Failed(Failure { detail, .. }) | OperationEnd::Withheld { detail, .. }) => {
                Ok(Some(not_begun(&detail)))
            }
            Some(OperationEnd::Invalid { .. }) | None => Ok(Some(not_begun("its browser is busy or gone"))),
        }
    }

    /// Whether a challenge pauses the driver session, by which the step then fails (contract: challenges 10).
    async fn is_paused(&self, step: &mut Step) -> sqlx::Result<bool> {
        let look = || async { pauses::standing(&mut *self.context.db.acquire().await?, self.waiting.driver).await };
        let Some(challenge) = persist("check for a challenge", look).await? else { return Ok(false) };
        step.fail(paused(&challenge));
        Ok(true)
    }

    /// Of a step that is approved of by what it is done to, and for which nobody has had to look yet, looks for that.
    async fn show_focused(&self, step: &mut Step) -> sqlx::Result<()> {
        if step.shown.is_empty() && !is_its_own_word(&step.wish) {
            let sought = step_target(&step.wish).map_or(LocateBy::Focused, exactly);
            if let LocatedElement::Them(found, origin) = self.look(sought).await? {
                show(step, &found[..found.len().min(1)], &origin);
                if found.is_empty() {
                    let text = String::new;
                    let description = "the page".to_owned();
                    step.shown = vec![ShownElement { selector: text(), description, fingerprint: text(), origin }];
                }
            }
        }
        Ok(())
    }

    /// Finds whom the step means, where somebody has to look for that before anything is done. Of a step that was approved it has to
    /// be who was shown.
    async fn find(&self, step: &Step, approved: bool) -> sqlx::Result<LocatedElement> {
        if approved && !is_its_own_word(&step.wish) {
            return self.find_again(step).await;
        }
        let (mut them, mut origin) = (Vec::new(), String::new());
        for sought in sought_before(step) {
            match self.find_one(sought).await? {
                LocatedElement::Them(found, of) => {
                    them.extend(found);
                    origin = of;
                }
                // Whether it is there is what is waited for.
                LocatedElement::Not(StepOutcome::Unclear { .. }) if matches!(step.wish, Command::Wait { .. }) => {}
                not @ LocatedElement::Not(_) => return Ok(not),
            }
        }
        Ok(LocatedElement::Them(them, origin))
    }

    async fn find_again(&self, step: &Step) -> sqlx::Result<LocatedElement> {
        let changed = || {
            unclear("the page has changed since this was shown, so that it was not done. Say anew what is to be done.")
        };
        let Some(shown) = step.shown.first() else { return Ok(changed()) };
        if shown.selector.is_empty() {
            return Ok(match self.look(LocateBy::Focused).await? {
                LocatedElement::Them(focused, origin)
                    if origin == shown.origin
                        && (focused.is_empty() || !matches!(step.wish, Command::Press { .. })) =>
                {
                    LocatedElement::Them(Vec::new(), origin)
                }
                LocatedElement::Them(..) => changed(),
                not @ LocatedElement::Not(_) => not,
            });
        }
        let sought = match step.wish {
            Command::Press { .. } => LocateBy::Focused,
            _ => LocateBy::Target(Target::Selector(shown.selector.clone())),
        };
        Ok(match self.look(sought).await? {
            LocatedElement::Them(mut found, origin)
                if origin == shown.origin
                    && found.first().is_some_and(|found| found.fingerprint == shown.fingerprint) =>
            {
                found.truncate(1);
                LocatedElement::Them(found, origin)
            }
            LocatedElement::Them(..) => changed(),
            not @ LocatedElement::Not(_) => not,
        })
    }

    async fn find_one(&self, sought: StepPrecondition<'_>) -> sqlx::Result<LocatedElement> {
        let by = match sought {
            StepPrecondition::Element(sought) => exactly(sought),
            StepPrecondition::Focused => LocateBy::Focused,
        };
        let found = self.look(by).await?;
        let LocatedElement::Them(mut found, origin) = found else { return Ok(found) };
        Ok(match (sought, found.len()) {
            (StepPrecondition::Element(ElementQuery::Described { .. }), 1) => LocatedElement::Them(found, origin),
            (StepPrecondition::Element(sought @ ElementQuery::Described { .. }), 0) => {
                unclear(format!("nothing on the page is {}.", describe(sought)))
            }
            (StepPrecondition::Element(sought @ ElementQuery::Described { .. }), _) => {
                let one = |found: Match| Candidate { description: found.description, selector: found.selector };
                let candidates = found.into_iter().take(MOST_CANDIDATES).map(one).collect();
                let reply = format!("several elements of the page are {}; say which.", describe(sought));
                LocatedElement::Not(StepOutcome::Unclear { reply, candidates })
            }
            (StepPrecondition::Element(sought @ ElementQuery::Ref(_)), 0) => {
                unclear(format!("the page has no element {} any more.", describe(sought)))
            }
            // A selector means the first; when there is none, the operation waits for it.
            _ => {
                found.truncate(1);
                LocatedElement::Them(found, origin)
            }
        })
    }

    /// Looks for elements; for those that are described in words a while longer, when there are none.
    async fn look(&self, by: LocateBy) -> sqlx::Result<LocatedElement> {
        let (since, mut pause) = (Instant::now(), LOOK_AGAIN.0);
        let waits = matches!(by, LocateBy::Described { .. });
        loop {
            let look = Operation::Locate(Locate { sought: by.clone() });
            let located: Located = match self.context.sessions.look(self.waiting.driver, look, CLAIMS_WITHIN).await {
                Some(OperationEnd::Done(result)) => result.read().map_err(|error| sqlx::Error::Decode(error.into()))?,
                Some(OperationEnd::Invalid { invalid, .. }) => {
                    return Ok(unclear(format!("it cannot be looked for: {invalid}.")));
                }
                Some(OperationEnd::Withheld { detail, .. } | OperationEnd::Failed(Failure { detail, .. })) => {
                    return Ok(LocatedElement::Not(not_begun(&detail)));
                }
                None => return Ok(LocatedElement::Not(not_begun("its browser is busy or gone"))),
            };
            let patient = since.elapsed() < self.context.config.agents.locate_timeout;
            if !(located.matches.is_empty() && waits && patient) {
                return Ok(LocatedElement::Them(located.matches, located.origin));
            }
            sleep(pause).await;
            pause = (pause * 2).min(LOOK_AGAIN.1);
        }
    }

    async fn carry_out_one(
        &self,
        step: &mut Step,
        operation: Operation,
        room: &mut usize,
    ) -> sqlx::Result<StepOutcome> {
        let result = match self.drive(step.operation, operation).await? {
            Ok(IntentEnding { outcome: Outcome::Done, result: Some(result), .. }) => result,
            Ok(IntentEnding { outcome, .. }) => {
                step.fail(what_befell(&outcome));
                return Ok(StepOutcome::Wrong);
            }
            Err(error) => {
                step.fail(error);
                return Ok(StepOutcome::Wrong);
            }
        };
        let mut happened = happened(step, &result);
        if let StepEffect::Held = happened {
            step.needs_approval = true;
            step.status = StepStatus::NeedsApproval;
            // A page that is to be loaded anew was not; whatever else has had a form submitted was done.
            if matches!(step.wish, Command::Back | Command::Reload) {
                let why = "this would send a form again that has led to the page, which was held back".to_owned();
                return Ok(StepOutcome::Asks { why });
            }
            step.end.result = Some(result.json);
            return Ok(StepOutcome::Asks { why: String::new() });
        }
        if was_done(step)
            && let StepEffect::Not(error) = &mut happened
        {
            "it was done, but the form that it would have submitted is there no more".clone_into(error);
        }
        let bytes = result.json.get().len() + result.content.as_ref().map_or(0, |content| content.len() * 4 / 3);
        if bytes > *room {
            step.fail("it was done, but this turn has come to more than may be answered at once, or than the account's agent sessions may keep");
            return Ok(StepOutcome::Wrong);
        }
        *room -= bytes;
        step.end.result = Some(result.json);
        if let StepEffect::Not(error) = happened {
            step.fail(error);
            return Ok(StepOutcome::Wrong);
        }
        step.status = StepStatus::Done;
        Ok(StepOutcome::Well)
    }

    /// Has an operation done on the driver session, which may have one of the customer's own under way. An error is told in words.
    async fn drive(&self, intent: IntentId, operation: Operation) -> sqlx::Result<Result<IntentEnding, String>> {
        let RunningTurn { context, waiting, .. } = self;
        let driving =
            Dispatcher { db: &context.db, wakeups: &context.wakeups, replies: &context.replies, answers: None };
        let (whose, since) = ((waiting.account, waiting.driver), Instant::now());
        loop {
            let driven = match driving.run(whose, intent, operation.clone(), &waiting.request_id).await {
                Ok(driven) => driven,
                // Whether it was claimed nobody has heard.
                Err(DispatchError::Database(error)) if is_transient(&error) => {
                    match driving.resume(intent, operation.budget()).await? {
                        Some(driven) => driven,
                        None => continue,
                    }
                }
                Err(DispatchError::Database(error)) => return Err(error),
                Err(DispatchError::Seal(error)) => return Ok(Err(error.to_string())),
            };
            return Ok(Err(match driven {
                DispatchOutcome::Ended(ending, _) => return Ok(Ok(ending)),
                DispatchOutcome::Crowded(not_yet) => not_yet.to_string(),
                DispatchOutcome::NotReady(SessionStatus::Busy | SessionStatus::Ready)
                    if since.elapsed() < CLAIMS_WITHIN =>
                {
                    sleep(CLAIM_AGAIN).await;
                    continue;
                }
                DispatchOutcome::NotReady(SessionStatus::Busy | SessionStatus::Ready) => {
                    "another operation has the driver session".to_owned()
                }
                DispatchOutcome::Paused(challenge) => paused(&challenge),
                DispatchOutcome::NotReady(status) => format!("the driver session is {}", status.name()),
                DispatchOutcome::NoSession => "the driver session is gone".to_owned(),
                DispatchOutcome::WorkerGone(failure) | DispatchOutcome::Unheard(failure) => failure.detail,
                DispatchOutcome::WorkerSilent => "the worker has not been heard of for a while".to_owned(),
            }));
        }
    }

    /// What carries a step out.
    fn operation(&self, step: &Step, approved: bool) -> Result<Operation, Invalid> {
        let limits = &self.context.config.limits;
        let interact = |action| {
            let mut interact = Interact::parse(action, None, OnTimeout::Return, limits)?;
            interact.hold_submissions = true;
            interact.approved = approved && may_submit(&step.wish);
            interact.release_submission = was_done(step);
            Ok(Operation::Interact(interact))
        };
        // What was named by a ref is that element and no other, and no page can be so large that it has to be looked for. What was approved
        // of is what was shown.
        let meant = |sought: &ElementQuery, shown: Option<&ShownElement>| {
            element_of(sought, shown.filter(|_| approved || !matches!(sought, ElementQuery::Ref(_))))
        };
        let element = |sought: &ElementQuery| meant(sought, step.shown.first());
        match &step.wish {
            Command::Navigate { url } => {
                let destinations = &self.context.config.destinations;
                let load = Navigate::parse(url.clone(), WaitUntil::default(), None, destinations, limits)?;
                Ok(Operation::Navigate(Navigate { hold_submissions: true, ..load }))
            }
            Command::Tap { target } | Command::Check { target, .. } => {
                interact(Action::Tap { element: element(target) })
            }
            Command::Type { target, value } => {
                let (element, text) = (element(target), value.clone());
                interact(Action::Type { element, text, delay_ms: None, sensitive: true })
            }
            Command::Press { key } => interact(Action::Press { key: key.clone() }),
            Command::Select { target, option } => {
                interact(Action::Select { element: element(target), option: option.clone() })
            }
            Command::Scroll { delta_x, delta_y, target } => {
                let pixels = |delta: i64| i32::try_from(delta).unwrap_or(if delta < 0 { i32::MIN } else { i32::MAX });
                let (delta_x, delta_y) = (pixels(*delta_x), pixels(*delta_y));
                interact(Action::Scroll { element: target.as_ref().map(element), delta_x, delta_y })
            }
            Command::Back => interact(Action::Back),
            Command::Reload => interact(Action::Reload),
            Command::Wait { condition } => {
                let condition = match condition {
                    WaitCondition::Visible(sought) => Condition::Selector { element: element_of(sought, None) },
                    WaitCondition::Hidden(sought) => Condition::SelectorHidden { element: element_of(sought, None) },
                    WaitCondition::Url(pattern) => Condition::UrlMatches { pattern: pattern.clone() },
                    WaitCondition::Time { ms } => Condition::Time { ms: *ms },
                };
                Ok(Operation::Wait(Wait::parse(condition, None, OnTimeout::Return, limits)?))
            }
            Command::Capture { capture } => Ok(Operation::Capture(Capture::new(*capture, false, limits))),
            Command::Extract { items } => {
                let mut shown = step.shown.iter();
                let mut extraction = |item: &ExtractItem| Extraction {
                    name: item.name.clone(),
                    element: meant(&item.target, if item.is_one_in_words() { shown.next() } else { None }),
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
                Ok(Operation::Extract(Extract::parse(extractions, limits)?))
            }
        }
    }
}

/// Why a step is not done that meets a pause.
fn paused(challenge: &ChallengeState) -> String {
    format!("the session is paused by a challenge ({}): resolve it, or have a person do so", challenge.kind.name())
}

/// A step whose element cannot even be looked for.
fn not_begun(error: &str) -> StepOutcome {
    tracing::info!(error, "step was not started");
    StepOutcome::Stopped("the page cannot be looked at: its browser has failed, is busy, or is gone")
}

/// Whether what was wanted came about.
enum StepEffect {
    Yes,
    Not(String),
    /// A form would have been submitted, of which nobody has approved.
    Held,
}

fn happened(step: &Step, result: &StoredResult) -> StepEffect {
    match &step.wish {
        Command::Navigate { .. } | Command::Capture { .. } | Command::Extract { .. } => StepEffect::Yes,
        Command::Wait { .. } => match result.read::<Waited>() {
            Ok(Waited { matched: false, .. }) => {
                StepEffect::Not("what was waited for did not come about in time".to_owned())
            }
            _ => StepEffect::Yes,
        },
        wish => match result.read::<Interacted>() {
            Ok(Interacted { submission_held: true, .. }) => StepEffect::Held,
            Ok(Interacted { ok: false, .. }) => StepEffect::Not(match step_target(wish) {
                Some(target) => {
                    // A ref says nothing to whoever reads this.
                    let found = step.shown.first().filter(|_| matches!(target, ElementQuery::Ref(_)));
                    let target = found.map_or_else(|| describe(target), |found| found.description.clone());
                    format!("nothing could be done to {target} in time: it is not there, or cannot be reached")
                }
                None => "it was not done in time".to_owned(),
            }),
            _ => StepEffect::Yes,
        },
    }
}

/// Whether a step was done, but for a form that it would have submitted, which waits (contract: agents 35).
pub(super) fn was_done(step: &Step) -> bool {
    step.needs_approval && step.end.result.is_some()
}

impl RunningTurn<'_> {
    /// What is replied of a turn that has taken these steps, with a word on a form that a page would have submitted by itself (contract:
    /// agents 34).
    pub(super) fn with_what_was_held(&self, reply: String, steps: &[Step]) -> String {
        if self.page_held.load(Ordering::Relaxed) || steps.iter().any(met_a_form) {
            format!("{reply} The page would have submitted a form by itself, which was held back.")
        } else {
            reply
        }
    }
}

/// Whether the page would have submitted a form by itself while a step was done, or before.
fn met_a_form(step: &Step) -> bool {
    #[derive(Default, Deserialize)]
    struct Met {
        #[serde(default)]
        page_submission_held: bool,
    }
    let result = step.end.result.as_ref().filter(|_| !only_looks(&step.wish));
    result.and_then(|result| serde_json::from_str::<Met>(result.get()).ok()).unwrap_or_default().page_submission_held
}

/// What an outcome other than success was, in words.
fn what_befell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "it came to nothing".to_owned(),
        Outcome::Invalid { errors, .. } => format!("it cannot be done: {}", Invalid(errors.clone())),
        Outcome::Withheld { detail, .. } => detail.clone(),
        Outcome::Failed { failure } => failure.detail.clone(),
        Outcome::Destroyed => "the driver session was destroyed".to_owned(),
        Outcome::Unknown => "nobody knows what became of it, because the worker died".to_owned(),
    }
}

/// Whether what a step says of itself is what is approved of, on whatever page it is done.
fn is_its_own_word(wish: &Command) -> bool {
    matches!(wish, Command::Navigate { .. } | Command::Wait { .. } | Command::Capture { .. } | Command::Extract { .. })
}

/// Whether a step does nothing to the page.
fn only_looks(wish: &Command) -> bool {
    matches!(wish, Command::Wait { .. } | Command::Capture { .. } | Command::Extract { .. })
}

/// Why a step waits for approval, in words. What is named by a ref a model may have asked about.
fn why_it_asks(step: &Step) -> String {
    if was_done(step) {
        let about = step.shown.first().map(|shown| shown.description.as_str()).unwrap_or_default();
        return format!("this was done, but it would submit a form ({about}), which was held back");
    }
    if let (Some(origins), Some(ShownElement { description, origin, .. })) = (&step.text_origins, step.shown.first())
        && !origins.allow(origin)
    {
        return format!("this enters a text that none of your messages contains, on {origin} ({description})");
    }
    match (&step.wish, step.shown.first()) {
        (Command::Navigate { url }, _) => format!("this leads to an address that has to be agreed to ({url})"),
        (wish, Some(ShownElement { selector, description, .. })) => match step_target(wish) {
            Some(ElementQuery::Ref(_)) => format!("this has to be agreed to ({description})"),
            None if selector.is_empty() => format!("this has to be agreed to ({})", kind(wish)),
            _ => format!("this submits data ({description})"),
        },
        (wish, None) => format!("this has to be agreed to ({})", kind(wish)),
    }
}

/// Whom somebody has to look for before a step.
#[derive(Clone, Copy)]
enum StepPrecondition<'a> {
    Element(&'a ElementQuery),
    Focused,
}

/// Whom somebody has to look for before a step: who is only described, and who says whether it submits data.
fn sought_before(step: &Step) -> Vec<StepPrecondition<'_>> {
    match &step.wish {
        Command::Tap { target }
        | Command::Check { target, .. }
        | Command::Type { target, .. }
        | Command::Select { target, .. } => {
            vec![StepPrecondition::Element(target)]
        }
        Command::Scroll { target: Some(target), .. } if !matches!(target, ElementQuery::Css(_)) => {
            vec![StepPrecondition::Element(target)]
        }
        Command::Press { key } if depends_on_focus(key) || step.text_origins.is_some() => {
            vec![StepPrecondition::Focused]
        }
        // A ref says nothing to whoever reads of it, or does it again.
        Command::Wait {
            condition:
                WaitCondition::Visible(what @ ElementQuery::Ref(_)) | WaitCondition::Hidden(what @ ElementQuery::Ref(_)),
        } => vec![StepPrecondition::Element(what)],
        Command::Extract { items } => {
            let one_in_words = items.iter().filter(|item| item.is_one_in_words());
            one_in_words.map(|item| StepPrecondition::Element(&item.target)).collect()
        }
        _ => Vec::new(),
    }
}

fn step_target(wish: &Command) -> Option<&ElementQuery> {
    match wish {
        Command::Tap { target }
        | Command::Check { target, .. }
        | Command::Type { target, .. }
        | Command::Select { target, .. } => Some(target),
        Command::Scroll { target, .. } => target.as_ref(),
        _ => None,
    }
}

/// Whether nothing is to be done, because it is so already (contract: agent-grammar 7).
fn stands_as_wished(wish: &Command, found: &[Match]) -> bool {
    matches!((wish, found), (Command::Check { checked, .. }, [found]) if found.checked == Some(*checked))
}

/// Notes who was found, as it is shown to whoever approves.
fn show(step: &mut Step, found: &[Match], origin: &str) {
    let css = step_target(&step.wish).and_then(|target| match target {
        ElementQuery::Css(selector) => Some(selector.clone()),
        ElementQuery::Described { .. } | ElementQuery::Ref(_) => None,
    });
    let shown = |found: &Match| ShownElement {
        selector: css.clone().unwrap_or_else(|| found.selector.clone()),
        description: found.description.clone(),
        fingerprint: found.fingerprint.clone(),
        origin: origin.to_owned(),
    };
    step.shown = found.iter().map(shown).collect();
}

fn exactly(sought: &ElementQuery) -> LocateBy {
    match sought {
        ElementQuery::Css(selector) => LocateBy::Target(Target::Selector(selector.clone())),
        ElementQuery::Ref(reference) => LocateBy::Target(Target::Ref(reference.clone())),
        ElementQuery::Described { role, words } => LocateBy::Described { role: role.clone(), words: words.clone() },
    }
}

/// How an operation is told whom it is about: by who was found, or else in its own words.
fn element_of(sought: &ElementQuery, shown: Option<&ShownElement>) -> Element {
    match (sought, shown) {
        (ElementQuery::Css(selector), _) => Element::Selector(selector.clone()),
        (_, Some(shown)) => Element::Selector(shown.selector.clone()),
        (ElementQuery::Ref(reference), None) => Element::Target(Target::Ref(reference.clone())),
        (ElementQuery::Described { role: Some(role), words }, None) if ROLES.contains(&role.as_str()) => {
            let name = (!words.is_empty()).then(|| words.clone());
            Element::Target(Target::Role { role: role.clone(), name })
        }
        (ElementQuery::Described { words, .. }, None) => Element::Target(Target::Text(words.clone())),
    }
}
