//! Actions of `interact`, and the rule for the submissions that they cause.

mod gestures;
mod taps;
mod targets;
pub(super) mod typing;
mod uploads;

use std::time::Instant;

use kitfleet_domain::agents::approvals::depends_on_focus;
use kitfleet_host_protocol::{Direction, Held, HostCommand, HostError, SubmissionRule};
use kitfleet_types::operations::{Action, Interact, Interacted};

use self::targets::InputKind;
use self::typing::ExistingText;
use super::OperationEnd;
use super::host::CallError;
use super::page::PageQuery;
use super::webkit::{Webkit, milliseconds};

/// An approval permits one load.
fn rule_of(interact: &Interact) -> SubmissionRule {
    match (interact.hold_submissions, interact.approved) {
        (false, _) => SubmissionRule::AllowAll,
        (true, false) => SubmissionRule::HoldAll,
        (true, true) if interact.action.navigates() => SubmissionRule::AllowOneRepeat,
        (true, true) => SubmissionRule::AllowOneForm,
    }
}

/// A tap, or a key that activates an element, without approval.
fn holds_requests(interact: &Interact) -> bool {
    let activates = match &interact.action {
        // A page may send a file as soon as it is selected.
        Action::Tap { .. } | Action::Check { .. } | Action::Drag { .. } | Action::Upload { .. } => true,
        Action::Press { key } => depends_on_focus(key),
        Action::Type { text, .. } | Action::Fill { value: text, .. } => text.contains(['\n', '\r']),
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
        // A dialog blocks the page: the rule for submissions cannot change before the answer.
        if let Action::Dialog { accept, text } = &interact.action {
            return self.answer(interact, (*accept, text.clone()), started).await;
        }
        self.tapped = match &interact.action {
            Action::Tap { element, .. } => element.clone(),
            _ => None,
        };
        // It does not belong to this interaction.
        let held_before = self.set_submission_rule(rule_of(interact), holds_requests(interact)).await?;
        match &interact.action {
            Action::Tap { element: Some(element), at, count, hold_ms } => {
                let hold_ms = hold_ms.unwrap_or_else(|| self.pace.hold_ms());
                self.await_single_taps(*count).await;
                self.tap_with(PageQuery::written(element, &element.field("action")), *at, hold_ms).await?;
                self.tap_again(count.saturating_sub(1), hold_ms).await?;
            }
            Action::Tap { element: None, at, count, hold_ms } => {
                let hold_ms = hold_ms.unwrap_or_else(|| self.pace.hold_ms());
                let at = self.within_viewport(at.unwrap_or_default(), "action.at")?;
                self.await_single_taps(*count).await;
                self.touch(at, false, hold_ms).await?;
                self.tap_again(count.saturating_sub(1), hold_ms).await?;
            }
            Action::Hover { element, at } => self.hover(element.as_ref(), *at).await?,
            Action::Swipe { element, direction, distance, duration_ms } => {
                self.swipe(element.as_ref(), *direction, *distance, *duration_ms).await?;
            }
            Action::Drag { element, course, duration_ms, pointer } => {
                let points = self.course(element.as_ref(), course).await?;
                self.drag(&points, *duration_ms, *pointer).await?;
            }
            Action::Check { element, checked } => {
                self.check(PageQuery::written(element, &element.field("action")), *checked).await?;
            }
            Action::Clear { element } => {
                self.replace_content(PageQuery::written(element, &element.field("action")), "").await?;
            }
            Action::Type { element, text, delay_ms, sensitive } => {
                self.is_sensitive = *sensitive;
                let field = element.field("action");
                let target = PageQuery::written(element, &field);
                let (takes, multiline) = self.enter(target, ExistingText::Keep).await?;
                if takes == InputKind::Value {
                    self.fill_value(target, text, "action.text").await?;
                } else {
                    self.type_text(interact, text, *delay_ms, multiline).await?;
                }
            }
            Action::Fill { element, value } => {
                self.replace_content(PageQuery::written(element, &element.field("action")), value).await?;
            }
            Action::Scroll { element, delta_x, delta_y } => {
                let field = element.as_ref().map(|element| element.field("action")).unwrap_or_default();
                let target = element.as_ref().map(|element| PageQuery::written(element, &field));
                self.scroll(target, *delta_x, *delta_y).await?;
            }
            Action::Press { key } => match self.press(vec![key.clone()]).await {
                Err(CallError::Refused(HostError::UnknownKey { .. })) => {
                    return Err(OperationEnd::invalid(
                        "action.key",
                        "must be a character or the name of a key, after modifiers",
                    ));
                }
                pressed => pressed?,
            },
            Action::Select { element, options, is_list } => {
                self.choose(PageQuery::written(element, &element.field("action")), options, *is_list).await?;
            }
            Action::Dialog { .. } => {}
            Action::Upload { element, upload, attached, .. } => {
                self.upload(element.as_ref(), *upload, attached.as_ref()).await?;
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

    /// A page may submit long after an input, so the rule applies until the next interaction or navigation. Returns whether a
    /// submission was held that has not been reported.
    pub(super) async fn hold_submissions(&mut self, rule: SubmissionRule) -> Result<bool, OperationEnd> {
        self.set_submission_rule(rule, false).await
    }

    pub(super) async fn set_submission_rule(
        &mut self,
        rule: SubmissionRule,
        requests: bool,
    ) -> Result<bool, OperationEnd> {
        let hold = rule != SubmissionRule::AllowAll;
        if !self.holds_submissions && !hold {
            return Ok(false);
        }
        self.holds_submissions = hold;
        Ok(self.host.call(HostCommand::HoldSubmissions { rule, requests }).await?)
    }

    pub(super) async fn held_submission(&mut self) -> Result<Option<Held>, OperationEnd> {
        Ok(self.host.call(HostCommand::HeldSubmission).await?)
    }

    /// `false` when it no longer exists.
    pub(super) async fn release_submission(&mut self) -> Result<bool, OperationEnd> {
        self.holds_submissions = true;
        Ok(self.host.call(HostCommand::ReleaseSubmission).await?)
    }

    pub(super) async fn interacted(
        &self,
        interact: &Interact,
        ok: bool,
        started: Instant,
    ) -> Result<Interacted, OperationEnd> {
        Ok(Interacted {
            ok,
            kind: interact.action.kind(),
            duration_ms: milliseconds(started),
            url: self.address().await?,
            reason: self.reason.filter(|_| !ok),
            delivered: (!ok).then_some(self.delivered),
            dialogs: Vec::new(),
            dialog: None,
            submission_held: false,
            request_held: false,
            page_submission_held: false,
        })
    }
}
