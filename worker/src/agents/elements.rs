//! Finds the elements that a step refers to (contract: agents 17 to 21). The turn runs outside the session's actor, and sends it
//! the reads of the page.

use std::time::{Duration, Instant};

use kitfleet_domain::agents::approvals::depends_on_focus;
use kitfleet_domain::agents::steps::{ShownElement, Step, describe};
use kitfleet_types::commands::{Command, DragEnd, ElementQuery, WaitCondition};
use kitfleet_types::operations::{
    Candidate, DialogType, Failure, Locate, LocateBy, Located, MAX_CANDIDATES, Match, Operation, Refusal, StoredResult,
    Target,
};
use tokio::time::sleep;

use super::dialogs::MAX_ALERTS;
use super::step_outcomes::{LocatedElement, StepOutcome, changed, unclear};
use super::{CLAIMS_WITHIN, RunningTurn};
use crate::browser::OperationEnd;

/// First and longest pause between two searches for an element that does not exist yet.
const SEARCH_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(400));

impl RunningTurn<'_> {
    /// An approved step must find the element that was shown.
    pub(super) async fn find(&self, step: &Step, approved: bool) -> sqlx::Result<LocatedElement> {
        match &step.command {
            Command::Dialog { .. } => return Ok(self.find_dialog(step, approved).await),
            Command::SwitchPage { page } => return self.find_page(step, Some(page), approved).await,
            Command::ClosePage { page } => return self.find_page(step, page.as_ref(), approved).await,
            _ => {}
        }
        if approved && !is_independent_of_page(&step.command) {
            return self.find_again(step).await;
        }
        let (mut them, mut origin) = (Vec::new(), String::new());
        for query in preconditions(step) {
            match self.find_one(query).await? {
                // The order distinguishes the elements of a drag.
                LocatedElement::Them(found, _) if found.is_empty() && matches!(step.command, Command::Drag { .. }) => {
                    return Ok(unclear(format!("nothing on the page is {}.", query.description())));
                }
                LocatedElement::Them(found, of) => {
                    them.extend(found);
                    origin = of;
                }
                // The step itself waits for this element, so it may be missing.
                LocatedElement::Not(StepOutcome::Unclear { .. }) if matches!(step.command, Command::Wait { .. }) => {}
                not @ LocatedElement::Not(_) => return Ok(not),
            }
        }
        Ok(LocatedElement::Them(them, origin))
    }

    async fn find_again(&self, step: &Step) -> sqlx::Result<LocatedElement> {
        let Some(shown) = step.shown.first() else { return Ok(changed()) };
        if shown.selector.is_empty() {
            return Ok(match self.locate(LocateBy::Focused).await? {
                LocatedElement::Them(focused, origin)
                    if origin == shown.origin
                        && (focused.is_empty() || !matches!(step.command, Command::Press { .. })) =>
                {
                    LocatedElement::Them(Vec::new(), origin)
                }
                LocatedElement::Them(..) => changed(),
                not @ LocatedElement::Not(_) => not,
            });
        }
        let (mut them, mut origin) = (Vec::new(), String::new());
        for shown in &step.shown {
            let query = match step.command {
                Command::Press { .. } => LocateBy::Focused,
                _ => LocateBy::Target(Target::Selector(shown.selector.clone())),
            };
            match self.locate(query).await? {
                LocatedElement::Them(found, of)
                    if of == shown.origin
                        && found.first().is_some_and(|found| found.fingerprint == shown.fingerprint) =>
                {
                    them.extend(found.into_iter().take(1));
                    origin = of;
                }
                LocatedElement::Them(..) => return Ok(changed()),
                not @ LocatedElement::Not(_) => return Ok(not),
            }
        }
        Ok(LocatedElement::Them(them, origin))
    }

    async fn find_one(&self, query: StepPrecondition<'_>) -> sqlx::Result<LocatedElement> {
        let by = match query {
            StepPrecondition::Element(query) => exactly(query),
            StepPrecondition::Focused => LocateBy::Focused,
        };
        let found = self.locate(by).await?;
        let LocatedElement::Them(mut found, origin) = found else { return Ok(found) };
        Ok(match (query, found.len()) {
            (StepPrecondition::Element(ElementQuery::Described { .. }), 1) => LocatedElement::Them(found, origin),
            (StepPrecondition::Element(query @ ElementQuery::Described { .. }), 0) => {
                unclear(format!("nothing on the page is {}.", describe(query)))
            }
            (StepPrecondition::Element(query @ ElementQuery::Described { .. }), _) => {
                let one = |found: Match| Candidate { description: found.description, selector: found.selector };
                let candidates = found.into_iter().take(MAX_CANDIDATES).map(one).collect();
                let reply = format!("several elements of the page are {}; say which.", describe(query));
                LocatedElement::Not(StepOutcome::Unclear { reply, candidates })
            }
            (StepPrecondition::Element(query @ ElementQuery::Ref(_)), 0) => {
                unclear(format!("the page no longer has the element {}.", describe(query)))
            }
            // Its first match, which the operation waits for.
            _ => {
                found.truncate(1);
                LocatedElement::Them(found, origin)
            }
        })
    }

    /// Repeats the search for described elements until one appears or the time limit passes.
    async fn locate(&self, by: LocateBy) -> sqlx::Result<LocatedElement> {
        let (since, mut pause) = (Instant::now(), SEARCH_PAUSES.0);
        let waits = matches!(by, LocateBy::Described { .. });
        loop {
            let look = Operation::Locate(Locate { sought: by.clone() });
            let located: Located = match self.read(look).await? {
                Ok(result) => result.read().map_err(|error| sqlx::Error::Decode(error.into()))?,
                Err(outcome) => return Ok(LocatedElement::Not(outcome)),
            };
            let patient = since.elapsed() < self.context.config.agents.locate_timeout;
            if !(located.matches.is_empty() && waits && patient) {
                return Ok(LocatedElement::Them(located.matches, located.origin));
            }
            sleep(pause).await;
            pause = (pause * 2).min(SEARCH_PAUSES.1);
        }
    }

    /// Closes an open alert, as a person must do before anything else.
    pub(super) async fn read(&self, read: Operation) -> sqlx::Result<Result<StoredResult, StepOutcome>> {
        let mut alerts = 0;
        loop {
            let ended = self.context.sessions.read_page(self.waiting.driver, read.clone(), CLAIMS_WITHIN).await;
            if let Some(OperationEnd::Refused(Refusal::DialogOpen { dialog: Some(dialog) })) = &ended {
                self.dialogs().open = Some(dialog.clone());
                if dialog.kind == DialogType::Alert && alerts < MAX_ALERTS {
                    alerts += 1;
                    self.close_alert().await?;
                    continue;
                }
            }
            return Ok(match ended {
                Some(OperationEnd::Done(result)) => Ok(result),
                Some(OperationEnd::Invalid { invalid, .. }) => Err(StepOutcome::Unclear {
                    reply: format!("the element cannot be located: {invalid}."),
                    candidates: Vec::new(),
                }),
                Some(OperationEnd::Withheld { detail, .. } | OperationEnd::Failed(Failure { detail, .. })) => {
                    Err(not_begun(&detail))
                }
                Some(OperationEnd::Refused(refusal)) => Err(blocked(&refusal)),
                None => Err(not_begun("its browser is busy or gone")),
            });
        }
    }

    /// Locates the element for an approval request, if the step needs one and has not located it yet.
    pub(super) async fn show_focused(&self, step: &mut Step) -> sqlx::Result<()> {
        if step.shown.is_empty() && !is_independent_of_page(&step.command) {
            let query = step_target(&step.command).map_or(LocateBy::Focused, exactly);
            if let LocatedElement::Them(found, origin) = self.locate(query).await? {
                show(step, &found[..found.len().min(1)], &origin);
                if found.is_empty() {
                    let text = String::new;
                    let description = "the page".to_owned();
                    let (selector, fingerprint, size) = (text(), text(), [0; 2]);
                    step.shown = vec![ShownElement { selector, description, fingerprint, origin, size }];
                }
            }
        }
        Ok(())
    }
}

/// Outcome of a step whose element cannot be located because the browser does not answer.
fn not_begun(error: &str) -> StepOutcome {
    tracing::info!(error, "agent step was not started: the page cannot be read");
    StepOutcome::Stopped("the page cannot be read: its browser has failed, is busy, or is gone")
}

fn blocked(refusal: &Refusal) -> StepOutcome {
    tracing::info!(%refusal, "agent step was not started");
    StepOutcome::Stopped("the page cannot be read: it shows a dialog that waits for an answer")
}

/// The approval is of the step's text, independent of the page.
fn is_independent_of_page(command: &Command) -> bool {
    matches!(
        command,
        Command::Navigate { .. }
            | Command::Wait { .. }
            | Command::Capture { .. }
            | Command::Extract { .. }
            | Command::SetLocation { .. }
    )
}

#[derive(Clone, Copy)]
enum StepPrecondition<'a> {
    Element(&'a ElementQuery),
    Focused,
}

impl StepPrecondition<'_> {
    fn description(self) -> String {
        match self {
            Self::Element(query) => describe(query),
            Self::Focused => "focused".to_owned(),
        }
    }
}

/// Those that are only described, and those that determine whether the step submits data.
fn preconditions(step: &Step) -> Vec<StepPrecondition<'_>> {
    match &step.command {
        Command::Tap { target }
        | Command::DoubleTap { target }
        | Command::LongPress { target }
        | Command::Hover { target }
        | Command::Check { target, .. }
        | Command::Type { target, .. }
        | Command::Fill { target, .. }
        | Command::Swipe { target: Some(target), .. }
        | Command::Drag { target, to: DragEnd::By { .. } }
        | Command::Select { target, .. } => {
            vec![StepPrecondition::Element(target)]
        }
        Command::Drag { target, to: DragEnd::Element(end) } => {
            vec![StepPrecondition::Element(target), StepPrecondition::Element(end)]
        }
        // A file input that a selector matches may be hidden, and is then not located.
        Command::Scroll { target: Some(target), .. } | Command::Upload { target, .. }
            if !matches!(target, ElementQuery::Css(_)) =>
        {
            vec![StepPrecondition::Element(target)]
        }
        Command::Press { key } if depends_on_focus(key) || step.text_origins.is_some() => {
            vec![StepPrecondition::Focused]
        }
        // A ref has no meaning to the reader of the reply, and is not valid later.
        Command::Wait {
            condition:
                WaitCondition::Visible(what @ ElementQuery::Ref(_)) | WaitCondition::Hidden(what @ ElementQuery::Ref(_)),
        } => vec![StepPrecondition::Element(what)],
        Command::Extract { items } => {
            let one_in_words = items.iter().filter(|item| item.names_one_element());
            one_in_words.map(|item| StepPrecondition::Element(&item.target)).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn step_target(command: &Command) -> Option<&ElementQuery> {
    match command {
        Command::Tap { target }
        | Command::DoubleTap { target }
        | Command::LongPress { target }
        | Command::Hover { target }
        | Command::Check { target, .. }
        | Command::Type { target, .. }
        | Command::Fill { target, .. }
        | Command::Drag { target, .. }
        | Command::Select { target, .. }
        | Command::Upload { target, .. } => Some(target),
        Command::Scroll { target, .. } | Command::Swipe { target, .. } => target.as_ref(),
        _ => None,
    }
}

/// Records the located elements, as they are shown for approval.
pub(super) fn show(step: &mut Step, found: &[Match], origin: &str) {
    let css = |number: usize| {
        let query = match (&step.command, number) {
            (Command::Drag { to: DragEnd::Element(end), .. }, 1) => Some(end),
            (command, _) => step_target(command),
        };
        match query {
            Some(ElementQuery::Css(selector)) => Some(selector.clone()),
            _ => None,
        }
    };
    let shown = |(number, found): (usize, &Match)| ShownElement {
        selector: css(number).unwrap_or_else(|| found.selector.clone()),
        description: found.description.clone(),
        fingerprint: found.fingerprint.clone(),
        origin: origin.to_owned(),
        size: found.size,
    };
    step.shown = found.iter().enumerate().map(shown).collect();
}

fn exactly(query: &ElementQuery) -> LocateBy {
    match query {
        ElementQuery::Css(selector) => LocateBy::Target(Target::Selector(selector.clone())),
        ElementQuery::Ref(reference) => LocateBy::Target(Target::Ref(reference.clone())),
        ElementQuery::Described { role, words } => LocateBy::Described { role: role.clone(), words: words.clone() },
    }
}
