//! Outcomes of the steps of a turn, and of the search for a step's element.

use kitfleet_types::operations::{Candidate, Match};

pub(super) enum StepOutcome {
    Well,
    /// The step's `error` has the reason.
    Wrong,
    /// The step waits for approval.
    Asks {
        why: String,
    },
    Unclear {
        reply: String,
        candidates: Vec<Candidate>,
    },
    /// The step was not begun.
    Stopped(&'static str),
}

pub(super) enum LocatedElement {
    /// Elements, and the origin of their page.
    Them(Vec<Match>, String),
    /// Outcome of a step that ends before it begins.
    Not(StepOutcome),
}

pub(super) fn unclear(reply: impl Into<String>) -> LocatedElement {
    LocatedElement::Not(StepOutcome::Unclear { reply: reply.into(), candidates: Vec::new() })
}

/// The element, page or dialog of an approved step is not the one that was shown.
pub(super) fn changed() -> LocatedElement {
    unclear("the page has changed since this step was shown, so the step was not done. Send the instruction again.")
}
