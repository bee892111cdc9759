//! Outcomes of operations in the database.

use kitfleet_domain::database::persist;
use kitfleet_domain::sessions::intents::{self, IntentEnding, ReplyNotice};
use kitfleet_types::ids::IntentId;
use kitfleet_types::operations::{Failure, FailureClass, Outcome};

use crate::Context;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// The end is recorded.
    AsItIs,
    /// The operation is recorded as failed instead, unless the database rejects that too.
    AsFailure,
    /// A destroy, or the recovery of a lost worker, ended the intent first.
    TooLate,
}

pub(super) fn failed(class: FailureClass, detail: &str) -> Outcome {
    Outcome::Failed { failure: Failure { class, detail: detail.to_owned() } }
}

/// `false` when the session had already ended, or the claim was not theirs.
pub(crate) async fn release_input(context: &Context, intent: IntentId) -> bool {
    finish(context, intent, &Outcome::Done.into()).await != WriteOutcome::TooLate
}

/// Retries until the database is reachable, because callers are notified only after the commit.
pub(super) async fn finish(context: &Context, intent: IntentId, ending: &IntentEnding) -> WriteOutcome {
    let refused = match write(context, intent, ending).await {
        Ok(true) => return WriteOutcome::AsItIs,
        Ok(false) => return WriteOutcome::TooLate,
        Err(error) => error,
    };
    tracing::error!(error = %refused, %intent, "database rejects the outcome of an operation: the operation fails");
    let failed = failed(FailureClass::Driver, "the outcome of the operation cannot be stored");
    match write(context, intent, &failed.into()).await {
        Ok(true) => WriteOutcome::AsFailure,
        Ok(false) => WriteOutcome::TooLate,
        Err(error) => {
            tracing::error!(%error, %intent, "cannot record the end of an operation");
            WriteOutcome::AsFailure
        }
    }
}

async fn write(context: &Context, intent: IntentId, ending: &IntentEnding) -> sqlx::Result<bool> {
    let finish = || async { intents::finish(&mut *context.db.acquire().await?, intent, ending).await };
    let Some(ReplyNotice { channel, payload }) = persist("record the outcome of an operation", finish).await? else {
        return Ok(false);
    };
    context.wakeups.send(&channel, payload);
    Ok(true)
}
