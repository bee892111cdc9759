use std::time::{Duration, Instant};

use kitfleet_host_protocol::{Held, HostCommand, SubmissionRule};
use kitfleet_types::operations::{Interact, Interacted, OpenDialog, Refusal};
use serde_json::Value;
use tokio::time::timeout;

use super::OperationEnd;
use super::page::PageQuery;
use super::webkit::Webkit;

const CONTINUES_WITHIN: Duration = Duration::from_secs(1);

impl Webkit {
    /// The rule for submissions stays that of the interaction that led to the dialog. An approval of the answer covers the
    /// requests that the page sends after it.
    pub(super) async fn answer(
        &mut self,
        interact: &Interact,
        (accept, text): (bool, Option<String>),
        started: Instant,
    ) -> Result<Interacted, OperationEnd> {
        let asked = self.dialogs.open().await;
        self.give_answer(accept, text.clone()).await?;
        let mut interacted = self.interacted(interact, true, started).await?;
        if !self.holds_submissions || self.dialogs.open().await.is_some() {
            return Ok(interacted);
        }
        let mut held = self.held_submission().await?;
        let is_sent = match held {
            Some(Held::Form) if interact.approved => self.release_submission().await?,
            Some(Held::Request) if interact.approved => self.repeat_tap(asked, accept, text).await?,
            _ => false,
        };
        if is_sent {
            interacted.page_submission_held = self.held_submission().await?.is_some();
            held = None;
        }
        interacted.submission_held = held.is_some();
        interacted.request_held = held == Some(Held::Request);
        Ok(interacted)
    }

    /// Gives the answer, and waits until the page continues or shows another dialog.
    async fn give_answer(&mut self, accept: bool, text: Option<String>) -> Result<(), OperationEnd> {
        let was_open: bool = self.ask_host(HostCommand::AnswerDialog { accept, text }).await?;
        if !was_open {
            return Err(OperationEnd::Refused(Refusal::NoDialog));
        }
        self.delivered = true;
        let dialogs = self.dialogs.clone();
        // WebKit defers the loads of a page that shows a dialog, and resumes them by a timer.
        let script = if self.holds_submissions { "await new Promise((done) => setTimeout(done, 50))" } else { "" };
        let continues = self.host.call::<Value>(HostCommand::Evaluate { script: script.to_owned() });
        // An error means that the page was replaced, or shows another dialog.
        tokio::select! {
            _ = timeout(CONTINUES_WITHIN, continues) => {}
            _ = dialogs.opened() => {}
        }
        Ok(())
    }

    /// Without holding requests, with the same answer to the same dialog. A request that was held back cannot be sent later.
    /// Returns `false` if the page does not ask the same again.
    async fn repeat_tap(
        &mut self,
        asked: Option<OpenDialog>,
        accept: bool,
        text: Option<String>,
    ) -> Result<bool, OperationEnd> {
        let (Some(asked), Some(element)) = (asked, self.tapped.clone()) else { return Ok(false) };
        self.set_submission_rule(SubmissionRule::AllowOneForm, false).await?;
        let (dialogs, hold_ms, field) = (self.dialogs.clone(), self.pace.hold_ms(), element.field("action"));
        let tapped = tokio::select! {
            tapped = self.tap_with(PageQuery::written(&element, &field), None, hold_ms) => tapped,
            _ = dialogs.opened() => Ok(()),
        };
        match tapped {
            Ok(()) | Err(OperationEnd::Refused(Refusal::DialogOpen { .. })) => {}
            Err(ended) => return Err(ended),
        }
        if self.dialogs.open().await != Some(asked) {
            self.set_submission_rule(SubmissionRule::HoldAll, false).await?;
            return Ok(false);
        }
        self.give_answer(accept, text).await?;
        Ok(true)
    }
}
