//! Input of operations: taps, keys and scrolling.

use std::time::Instant;

use kitfleet_domain::agents::approvals::depends_on_focus;
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

/// Number of attempts with a covered field after which it is focused without a tap.
const PATIENCE: u32 = 10;

/// Result of [`page::REACH`].
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

/// Effect of keys on an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum InputKind {
    /// They enter text.
    Text,
    /// They choose an option of a menu.
    Choice,
    /// They have no relevant effect.
    Nothing,
}

/// Treatment of a field's existing text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingText {
    /// The new text is appended.
    Keep,
    /// The new text replaces it.
    Replace,
}

/// Returns the rule for submissions during an interaction. An approval permits one load.
fn rule_of(interact: &Interact) -> SubmissionRule {
    match (interact.hold_submissions, interact.approved) {
        (false, _) => SubmissionRule::AllowAll,
        (true, false) => SubmissionRule::HoldAll,
        (true, true) if interact.action.navigates() => SubmissionRule::AllowOneRepeat,
        (true, true) => SubmissionRule::AllowOneForm,
    }
}

/// True when requests of scripts are held during an interaction: a tap, or a key that activates an element, without
/// approval.
fn holds_requests(interact: &Interact) -> bool {
    let activates = match &interact.action {
        Action::Tap { .. } => true,
        Action::Press { key } => depends_on_focus(key),
        Action::Type { text, .. } => text.contains(['\n', '\r']),
        _ => false,
    };
    rule_of(interact) == SubmissionRule::HoldAll && activates
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
        // A submission that was held before now does not belong to this interaction.
        let held_before = self.set_submission_rule(rule_of(interact), holds_requests(interact)).await?;
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
                Some(held) => {
                    interacted.submission_held = true;
                    interacted.request_held = held == Held::Request;
                }
            }
        }
        Ok(interacted)
    }

    /// Sets the rule for submissions of the page. A page may submit long after an input, so the rule applies until the
    /// next interaction or navigation. Returns whether a submission was held that has not been reported.
    pub(super) async fn hold_submissions(&mut self, rule: SubmissionRule) -> Result<bool, OperationEnd> {
        self.set_submission_rule(rule, false).await
    }

    async fn set_submission_rule(&mut self, rule: SubmissionRule, requests: bool) -> Result<bool, OperationEnd> {
        let hold = rule != SubmissionRule::AllowAll;
        if !self.holds_submissions && !hold {
            return Ok(false);
        }
        self.holds_submissions = hold;
        Ok(self.host.call(HostCommand::HoldSubmissions { rule, requests }).await?)
    }

    /// Returns the submission that was held during the last step.
    pub(super) async fn held_submission(&mut self) -> Result<Option<Held>, OperationEnd> {
        Ok(self.host.call(HostCommand::HeldSubmission).await?)
    }

    /// Submits the form that was last held. `false` when it no longer exists.
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
        Ok(Interacted {
            ok,
            kind,
            duration_ms,
            url,
            submission_held: false,
            request_held: false,
            page_submission_held: false,
        })
    }

    /// Taps an element once it can be tapped.
    pub(super) async fn tap(&mut self, target: PageQuery<'_>) -> Result<(), OperationEnd> {
        loop {
            if let Some(TargetState::Ready(place)) = self.reach(target).await? {
                self.obstacle = "the page does not react to the tap";
                return self.touch(place).await;
            }
            sleep(POLL).await;
        }
    }

    /// Focuses a field, with a tap if the field can be tapped.
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
        // A tap would open a menu, and keys also choose an option while it is closed.
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
            Some(TargetState::Moving) => "the element is still moving",
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

    /// Types into the focused element.
    pub(super) async fn type_keys(&mut self, keys: Vec<String>, pauses: KeyDelays) -> Result<(), OperationEnd> {
        self.obstacle = "the text was not typed completely";
        if let KeyDelays::None = pauses {
            // All keys are sent at once: the host inserts a long text in chunks, which takes 1 s instead of 1 min.
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

    /// Chooses an option of a menu once it is available. If it is already chosen, no event is sent.
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
            // The script may have scrolled even if its reply is lost, so it runs only once.
            match page::ask_once(&self.host, script, &input).await? {
                Some(true) | None => return Ok(()),
                Some(false) => self.obstacle = "no element matches",
            }
            sleep(POLL).await;
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SelectedOption {
    Absent,
    Hidden,
    Locked,
    Done,
}

/// Returns the keys that type a text. A line break is the Enter key.
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
    fn text_is_converted_to_keys() {
        let keys = keys_of("né\r\n\t😀", "action.text").expect("these are keys");
        assert_eq!(keys, ["n", "é", "Enter", "Tab", "😀"]);
        assert!(matches!(keys_of("a\u{7}", "action.text"), Err(OperationEnd::Invalid { .. })));
    }
}
