//! Slots of running attempts, and the reports about them to the backend.

use kitfleet_domain::webhooks::attempts::Outcome;
use kitfleet_types::ids::WebhookId;
use tokio::sync::mpsc::UnboundedSender;

use super::fair_queue::Recipient;

#[derive(Debug)]
pub(super) enum Report {
    Went(Recipient, Outcome),
    /// The result is written, or there is none.
    Over(Recipient),
}

/// Released on drop.
#[derive(Debug)]
pub(super) struct AttemptSlot {
    recipient: Recipient,
    reports: UnboundedSender<Report>,
}

impl AttemptSlot {
    pub(super) fn new(recipient: Recipient, reports: UnboundedSender<Report>) -> Self {
        Self { recipient, reports }
    }

    pub(super) fn endpoint(&self) -> WebhookId {
        self.recipient.1
    }

    pub(super) fn report(&self, outcome: Outcome) {
        let _ = self.reports.send(Report::Went(self.recipient, outcome));
    }
}

impl Drop for AttemptSlot {
    fn drop(&mut self) {
        // The backend may be gone.
        let _ = self.reports.send(Report::Over(self.recipient));
    }
}
