//! Dispatches an operation: claims the session, wakes its worker and waits for the outcome.

use std::time::Duration;

use kitfleet_domain::account_semaphore::AcquireTimeout;
use kitfleet_domain::actors::OperationActor;
use kitfleet_domain::answer_budget::{AnswerBudget, Reservation};
use kitfleet_domain::challenges::ChallengeState;
use kitfleet_domain::database::persist;
use kitfleet_domain::sealing::{self, NotSealedForUs};
use kitfleet_domain::sessions::intents::{self, Claim, IntentEnding};
use kitfleet_domain::sessions::{SessionStatus, recovery};
use kitfleet_types::ids::{AccountId, IntentId, SessionId};
use kitfleet_types::operations::{Failure, FailureClass, OpenDialog, Operation};
use sqlx::{PgConnection, PgPool};

use crate::notifications;
use crate::operations::wake;
use crate::replies::{AwaitedOutcome, Replies, Waiter};
use crate::wakeups::Wakeups;

#[derive(Clone, Copy)]
pub struct Dispatcher<'a> {
    pub db: &'a PgPool,
    pub wakeups: &'a Wakeups,
    pub replies: &'a Replies,
    /// Budget that large answers reserve memory from, and the account it is charged to. `None` if the outcome is not sent as an
    /// answer.
    pub answers: Option<(&'a AnswerBudget, AccountId)>,
}

#[derive(Debug)]
pub enum DispatchOutcome {
    /// The reservation accounts for the result until it is dropped.
    Ended(Box<IntentEnding>, Reservation),
    /// The result exceeds the memory available for answers.
    Crowded(AcquireTimeout),
    NotReady(SessionStatus),
    Paused(ChallengeState),
    DialogOpen(OpenDialog),
    /// The session is now errored.
    WorkerGone(Failure),
    /// It has not renewed its lease for a while. Nothing was changed.
    WorkerSilent,
    NoSession,
    /// No outcome arrived in time.
    Unheard(Failure),
}

#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Seal(#[from] NotSealedForUs),
}

impl Dispatcher<'_> {
    /// Runs `operation` on the account's session as `intent`, for the actor of the HTTP request with this id.
    pub async fn run(
        self,
        whose: (AccountId, SessionId),
        intent: IntentId,
        mut operation: Operation,
        (actor, request_id): (&OperationActor, &str),
    ) -> Result<DispatchOutcome, DispatchError> {
        let budget = operation.budget();
        let mut conn = self.db.acquire().await?;
        let Some(sealed) = seal(&mut conn, whose, &mut operation).await? else { return Ok(DispatchOutcome::NoSession) };
        let waiter = self.replies.expect(intent);
        let reply_to = self.replies.address(request_id);
        let claimed = intents::claim(&mut conn, whose, intent, &operation, sealed.as_deref(), actor, reply_to);
        let followed = match claimed.await? {
            Claim::Won { worker, followed } => {
                wake(self.wakeups, worker);
                followed
            }
            Claim::Lost(status) => return Ok(DispatchOutcome::NotReady(status)),
            Claim::Paused(challenge) => return Ok(DispatchOutcome::Paused(challenge)),
            Claim::DialogOpen(dialog) => return Ok(DispatchOutcome::DialogOpen(dialog)),
            Claim::WorkerGone(failure) => return Ok(DispatchOutcome::WorkerGone(failure)),
            Claim::WorkerSilent => return Ok(DispatchOutcome::WorkerSilent),
            Claim::NoSession => return Ok(DispatchOutcome::NoSession),
        };
        drop(conn);
        if followed {
            notifications::notify_account(self.wakeups, whose.0);
        }
        let driven = self.end(waiter, intent, budget).await?;
        if followed {
            notifications::notify_account(self.wakeups, whose.0);
        }
        Ok(driven)
    }

    /// The operation was dispatched before a database outage. `None` if it was not claimed.
    ///
    /// Returns an error when the outage lasts longer than the operation may take.
    pub async fn resume(self, intent: IntentId, budget: Duration) -> sqlx::Result<Option<DispatchOutcome>> {
        let waiter = self.replies.expect(intent);
        let claimed = || async { intents::worker_of(&mut *self.db.acquire().await?, intent).await };
        let Some(worker) = persist("check for the claim of an operation", claimed).await? else { return Ok(None) };
        wake(self.wakeups, worker);
        self.end(waiter, intent, budget).await.map(Some)
    }

    async fn end(self, mut waiter: Waiter, intent: IntentId, budget: Duration) -> sqlx::Result<DispatchOutcome> {
        Ok(match waiter.outcome(budget, self.answers).await? {
            AwaitedOutcome::Ended(ending, reservation) => DispatchOutcome::Ended(ending, reservation),
            AwaitedOutcome::Crowded(not_yet) => DispatchOutcome::Crowded(not_yet),
            AwaitedOutcome::Nothing => DispatchOutcome::Unheard(give_up(self.db, intent).await?),
        })
    }
}

/// If no worker has started the operation, no worker can start it after this; otherwise its outcome is unknown.
async fn give_up(db: &PgPool, intent: IntentId) -> sqlx::Result<Failure> {
    let failure = Failure { class: FailureClass::Timeout, detail: "the operation did not begin in time".to_owned() };
    let mut tx = db.begin().await?;
    let ended = recovery::give_up(&mut tx, intent, failure.clone()).await?;
    tx.commit().await?;
    if ended {
        return Ok(failure);
    }
    let detail = "the operation sent no outcome in time; the session stays busy until the operation ends or the session is destroyed";
    Ok(Failure { class: FailureClass::Timeout, detail: detail.to_owned() })
}

/// Removes the operation's secrets and seals them for the session's worker. If the worker's key is gone, the session has ended
/// and accepts no operation, so the secrets are dropped. Returns `None` if the session does not exist.
async fn seal(
    conn: &mut PgConnection,
    (account, session): (AccountId, SessionId),
    operation: &mut Operation,
) -> Result<Option<Option<Vec<u8>>>, DispatchError> {
    let Some(secrets) = operation.take_secrets() else { return Ok(Some(None)) };
    let Some(key) = intents::sealing_key(conn, account, session).await? else { return Ok(None) };
    Ok(Some(key.map(|key| sealing::seal(&secrets, &key)).transpose()?))
}
