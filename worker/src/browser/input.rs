//! Fingers: taps, keys and scrolling.

use std::time::Instant;

use kitfleet_domain::operations::{Action, Interact, Interacted, KEY_TAKES};
use kitfleet_host_protocol::{Direction, Held, HostCommand, HostError, SubmissionRule, TouchPhase, TouchStep};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use super::OperationEnd;
use super::host::CallError;
use super::pace::KeyDelays;
use super::page::{self, POLL, PageQuery};
use super::webkit::{Webkit, milliseconds};

/// How often a field may be found covered before it is focused without a finger.
const PATIENCE: u32 = 10;

/// What [`page::REACH`] finds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum TargetState {
    Absent,
    Hidden,
    Moving,
    Outside,
    Covered(ElementPosition),
    Ready(ElementPosition),
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct ElementPosition {
    x: f64,
    y: f64,
    takes: InputKind,
    locked: bool,
    has_focus: bool,
}

/// What keys do to an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum InputKind {
    /// They write.
    Text,
    /// They choose from a menu.
    Choice,
    /// They do nothing of note.
    Nothing,
}

/// Whether what stands in a field stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingText {
    /// The new text follows it.
    Keep,
    /// The new text takes its place.
    Replace,
}

/// What a page may submit by an interaction. An approval is for one load.
fn rule_of(interact: &Interact) -> SubmissionRule {
    match (interact.hold_submissions, interact.approved) {
        (false, _) => SubmissionRule::AllowAll,
        (true, false) => SubmissionRule::HoldAll,
        (true, true) if interact.action.navigates() => SubmissionRule::AllowOneRepeat,
        (true, true) => SubmissionRule::AllowOneForm,
    }
}

impl Webkit {
    pub(super) async fn interact(&mut self, interact: &Interact, started: Instant) -> Result<Interacted, OperationEnd> {
        if interact.release_submission {
            self.obstacle = "the page does not submit the form that was held back";
            let released = self.release_submission().await?;
            let mut interacted = self.interacted(interact, released, started).await?;
            interacted.page_submission_held = self.held_submission().await?.is_some();
            return Ok(interacted);
        }
        // What was held back by now is nothing of its own.
        let held_before = self.hold_submissions(rule_of(interact)).await?;
        match &interact.action {
            Action::Tap { element } => self.tap(PageQuery::written(element, &element.field("action"))).await?,
            Action::Type { element, text, delay_ms, .. } => {
                let keys = keys_of(text, "action.text")?;
                let pauses = if let Some(ms) = delay_ms {
                    KeyDelays::exactly(*ms)
                } else {
                    let needed = KEY_TAKES.saturating_mul(u32::try_from(keys.len()).unwrap_or(u32::MAX));
                    self.pace.typing(keys.len(), interact.timeout.saturating_sub(needed) / 2)
                };
                self.focus(PageQuery::written(element, &element.field("action")), ExistingText::Keep).await?;
                self.type_keys(keys, pauses).await?;
            }
            Action::Scroll { element, delta_x, delta_y } => {
                let field = element.as_ref().map(|element| element.field("action")).unwrap_or_default();
                let target = element.as_ref().map(|element| PageQuery::written(element, &field));
                self.scroll(target, *delta_x, *delta_y).await?;
            }
            Action::Press { key } => match self.press(vec![key.clone()]).await {
                Err(CallError::Refused(HostError::UnknownKey { .. })) => {
                    return Err(OperationEnd::invalid("action.key", "must be a character or the name of a key"));
                }
                pressed => pressed?,
            },
            Action::Select { element, option } => {
                self.choose(PageQuery::written(element, &element.field("action")), option).await?;
            }
            Action::Back => drop(self.load(HostCommand::GoInHistory(Direction::Back)).await?),
            Action::Forward => drop(self.load(HostCommand::GoInHistory(Direction::Forward)).await?),
            Action::Reload => drop(self.load(HostCommand::Reload).await?),
        }
        let mut interacted = self.interacted(interact, true, started).await?;
        interacted.page_submission_held = held_before;
        if interact.hold_submissions {
            match self.held_submission().await? {
                None => {}
                Some(Held::Form) if !interact.action.touches() => interacted.page_submission_held = true,
                Some(_) => interacted.submission_held = true,
            }
        }
        Ok(interacted)
    }

    /// Has the page submit forms by this rule from now on. A page may submit one long after it was touched, so that this stays until
    /// another interaction or navigation has it otherwise. Answers whether it was kept from submitting one of which nobody was told.
    pub(super) async fn hold_submissions(&mut self, rule: SubmissionRule) -> Result<bool, OperationEnd> {
        let hold = rule != SubmissionRule::AllowAll;
        if !self.holds_submissions && !hold {
            return Ok(false);
        }
        self.holds_submissions = hold;
        Ok(self.host.call(HostCommand::HoldSubmissions { rule }).await?)
    }

    /// What the page was kept from submitting by what was just done.
    pub(super) async fn held_submission(&mut self) -> Result<Option<Held>, OperationEnd> {
        Ok(self.host.call(HostCommand::HeldSubmission).await?)
    }

    /// Has the page submit what it was last kept from submitting, if that is still there.
    async fn release_submission(&mut self) -> Result<bool, OperationEnd> {
        self.holds_submissions = true;
        Ok(self.host.call(HostCommand::ReleaseSubmission).await?)
    }

    pub(super) async fn interacted(
        &self,
        interact: &Interact,
        ok: bool,
        started: Instant,
    ) -> Result<Interacted, OperationEnd> {
        let url = self.address().await?;
        let (kind, duration_ms) = (interact.action.kind(), milliseconds(started));
        Ok(Interacted { ok, kind, duration_ms, url, submission_held: false, page_submission_held: false })
    }

    /// Taps an element as soon as a finger reaches it.
    pub(super) async fn tap(&mut self, target: PageQuery<'_>) -> Result<(), OperationEnd> {
        loop {
            if let Some(TargetState::Ready(place)) = self.reach(target).await? {
                self.obstacle = "the page does not react to the tap";
                return self.touch(place).await;
            }
            sleep(POLL).await;
        }
    }

    /// Gives a field the focus, by a tap like a user's where a finger reaches it.
    pub(super) async fn focus(&mut self, target: PageQuery<'_>, existing: ExistingText) -> Result<(), OperationEnd> {
        let mut covered = 0;
        loop {
            let place = match self.reach(target).await? {
                Some(TargetState::Ready(place)) => Some(place),
                Some(TargetState::Covered(place)) => {
                    covered += 1;
                    (covered > PATIENCE || place.has_focus).then_some(place)
                }
                _ => None,
            };
            if let Some(place) = place
                && self.focus_at(target, place, covered > 0, existing).await?
            {
                return Ok(());
            }
            sleep(POLL).await;
        }
    }

    async fn focus_at(
        &mut self,
        target: PageQuery<'_>,
        place: ElementPosition,
        covered: bool,
        existing: ExistingText,
    ) -> Result<bool, OperationEnd> {
        if place.takes == InputKind::Nothing {
            return Err(OperationEnd::invalid(target.field(), "must be an element that takes text"));
        }
        if place.locked {
            self.obstacle = "the field is disabled or read-only";
            return Ok(false);
        }
        // A tap on a menu would open it, and keys choose in it just as well while it is closed.
        if !covered && !place.has_focus && place.takes == InputKind::Text {
            self.touch(place).await?;
        }
        self.obstacle = "the field does not take the focus";
        let input = self.input(json!({ "target": target, "replace": existing == ExistingText::Replace }));
        Ok(page::ask(&self.host, page::FOCUS.about(target), &input).await?.unwrap_or(false))
    }

    async fn reach(&mut self, target: PageQuery<'_>) -> Result<Option<TargetState>, OperationEnd> {
        if self.obstacle.is_empty() {
            self.obstacle = "the page does not answer";
        }
        let input = self.input(json!({ "target": target }));
        let reached = page::ask(&self.host, page::REACH.about(target), &input).await?;
        self.obstacle = match reached {
            None => "the page does not answer",
            Some(TargetState::Absent) => "no element matches",
            Some(TargetState::Hidden) => "the element is not visible",
            Some(TargetState::Moving) => "the element does not stand still",
            Some(TargetState::Outside) => "the element cannot be scrolled into view",
            Some(TargetState::Covered(_)) => "another element covers it",
            Some(TargetState::Ready(_)) => "",
        };
        Ok(reached)
    }

    async fn touch(&mut self, at: ElementPosition) -> Result<(), OperationEnd> {
        let ElementPosition { x, y, .. } = at;
        let land = TouchStep { phase: TouchPhase::Begin, x, y, after_ms: 0 };
        let lift = TouchStep { phase: TouchPhase::End, x, y, after_ms: self.pace.hold_ms() };
        Ok(self.host.call::<()>(HostCommand::Touch { steps: vec![land, lift] }).await?)
    }

    /// Types into whatever has the focus.
    pub(super) async fn type_keys(&mut self, keys: Vec<String>, pauses: KeyDelays) -> Result<(), OperationEnd> {
        self.obstacle = "the text was not typed to its end";
        if let KeyDelays::None = pauses {
            // In one piece: the host types a long text by the phrase, which takes a second where keys take a minute.
            return Ok(self.press(keys).await?);
        }
        let mut due = tokio::time::Instant::now();
        for key in keys {
            tokio::time::sleep_until(due).await;
            self.press(vec![key]).await?;
            due += pauses.next();
        }
        Ok(())
    }

    pub(super) async fn press(&mut self, keys: Vec<String>) -> Result<(), CallError> {
        self.host.call(HostCommand::Keys { keys }).await
    }

    /// Chooses an option of a menu as soon as a person could. One that it has already is chosen without a word.
    async fn choose(&mut self, target: PageQuery<'_>, option: &str) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": target, "option": option }));
        loop {
            self.obstacle = match page::ask(&self.host, page::CHOOSE.about(target), &input).await? {
                None => "the page does not answer",
                Some(SelectedOption::Absent) => "no element matches",
                Some(SelectedOption::Hidden) => "the element is not visible",
                Some(SelectedOption::Locked) => "the menu or its option is disabled",
                Some(SelectedOption::Done) => return Ok(()),
            };
            sleep(POLL).await;
        }
    }

    async fn scroll(&mut self, target: Option<PageQuery<'_>>, x: i32, y: i32) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": target, "x": x, "y": y }));
        let script = target.map_or(page::SCROLL, |target| page::SCROLL.about(target));
        loop {
            // A script that was sent may scroll even if its answer is lost, so it is sent once.
            match page::ask_once(&self.host, script, &input).await? {
                Some(true) | None => return Ok(()),
                Some(false) => self.obstacle = "no element matches",
            }
            sleep(POLL).await;
        }
    }
}

/// What became of the choice of an option.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SelectedOption {
    Absent,
    Hidden,
    Locked,
    Done,
}

/// The keys that type a text. A line break is the Enter key.
pub fn keys_of(text: &str, field: &str) -> Result<Vec<String>, OperationEnd> {
    let key_of = |character| match character {
        '\n' => Ok("Enter".to_owned()),
        '\t' => Ok("Tab".to_owned()),
        character if char::is_control(character) => {
            Err(OperationEnd::invalid(field, "must not have control characters other than line breaks and tabs"))
        }
        character => Ok(character.to_string()),
    };
    text.replace("\r\n", "\n").replace('\r', "\n").chars().map(key_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_typed_key_by_key() {
        let keys = keys_of("né\r\n\t😀", "action.text").expect("these are keys");
        assert_eq!(keys, ["n", "é", "Enter", "Tab", "😀"]);
        assert!(matches!(keys_of("a\u{7}", "action.text"), Err(OperationEnd::Invalid { .. })));
    }
}
