//! Submissions that the host holds back.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionRule {
    #[default]
    AllowAll,
    HoldAll,
    /// Holds back all submissions, except for one that is already approved. Replies with `false`, so that an earlier held
    /// submission is still reported later.
    HoldUnapproved,
    /// A load that sends a form again does not count as a form.
    AllowOneForm,
    /// Allows one [`super::HostCommand::GoInHistory`] or [`super::HostCommand::Reload`] that sends a form again.
    AllowOneRepeat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// Cannot be sent later: an approved step must repeat its input.
    Request,
    /// Or another load by the page that sends a form.
    Form,
    /// Would have been sent again by [`super::HostCommand::GoInHistory`] or [`super::HostCommand::Reload`].
    Resubmission,
}
