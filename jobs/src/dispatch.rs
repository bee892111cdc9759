//! The trip of an operation, for whoever wants one carried out: claim the session, tell its worker, wait for the outcome.

use std::time::Duration;

use kitfleet_domain::account_semaphore::AcquireTimeout;
use kitfleet_domain::answer_budget::{AnswerBudget, Reservation};
use kitfleet_domain::challenges::ChallengeState;
use kitfleet_domain::database::persist;
use kitfleet_domain::ids::{AccountId, IntentId, SessionId};
use kitfleet_domain::operations::{Failure, FailureClass, Operation};
use kitfleet_domain::sealing::{self, NotSealedForUs};
use kitfleet_domain::sessions::intents::{self, Claim, IntentEnding};
use kitfleet_domain::sessions::{SessionStatus, recovery};
use sqlx::{PgConnection, PgPool};

use crate::notifications;
use crate::operations::wake;
use crate::replies::{AwaitedOutcome, Replies, Waiter};
use crate::wakeups::Wakeups;

/// What it takes to have operations carried out.
#[derive(Clone, Copy)]
pub struct Dispatcher<'a> {
    /// Where they are written.
    pub db: &'a PgPool,
    /// Where workers are told.
    pub wakeups: &'a Wakeups,
    /// Where outcomes come to.
    pub replies: &'a Replies,
    /// What counts large answers, and the account whose they are; `None` where what operations come to is no answer.
    pub answers: Option<(&'a AnswerBudget, AccountId)>,
}

/// What became of an operation.
#[derive(Debug)]
pub enum DispatchOutcome {
    /// It ended. What it came to is counted for as long as the reservation is there.
    Ended(IntentEnding, Reservation),
    /// It ended, and what it came to is larger than what may be under way in addition.
    Crowded(AcquireTimeout),
    /// The session was in no state to take it.
    NotReady(SessionStatus),
    /// The session is paused by a challenge.
    Paused(ChallengeState),
    /// The session's worker is gone, and the session is now errored.
    WorkerGone(Failure),
    /// Nobody has heard of the session's worker for a while. Nothing was changed.
    WorkerSilent,
    /// The account has no such session.
    NoSession,
    /// Nothing was heard of it in time.
    Unheard(Failure),
}

/// Why nobody knows what became of an operation.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// Its secrets could not be sealed.
    #[error(transparent)]
    Seal(#[from] NotSealedForUs),
}

impl Dispatcher<'_> {
    /// Has `operation` done on the account's session, as `intent`, for the HTTP request of this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run(
        self,
        whose: (AccountId, SessionId),
        intent: IntentId,
        mut operation: Operation,
        request_id: &str,
    ) -> Result<DispatchOutcome, DispatchError> {
        let budget = operation.budget();
        let mut conn = self.db.acquire().await?;
        let Some(sealed) = seal(&mut conn, whose, &mut operation).await? else { return Ok(DispatchOutcome::NoSession) };
        let waiter = self.replies.expect(intent);
        let reply_to = self.replies.address(request_id);
        let followed = match intents::claim(&mut conn, whose, intent, &operation, sealed.as_deref(), reply_to).await? {
            Claim::Won { worker, followed } => {
                wake(self.wakeups, worker);
                followed
            }
            Claim::Lost(status) => return Ok(DispatchOutcome::NotReady(status)),
            Claim::Paused(challenge) => return Ok(DispatchOutcome::Paused(challenge)),
            Claim::WorkerGone(failure) => return Ok(DispatchOutcome::WorkerGone(failure)),
            Claim::WorkerSilent => return Ok(DispatchOutcome::WorkerSilent),
            Claim::NoSession => return Ok(DispatchOutcome::NoSession),
        };
        drop(conn);
        if followed {
            notifications::tell(self.wakeups, whose.0);
        }
        let driven = self.end(waiter, intent, budget).await?;
        if followed {
            notifications::tell(self.wakeups, whose.0);
        }
        Ok(driven)
    }

    /// What became of an operation that somebody began before the database went away, once it is back. `None` when it was not claimed.
    ///
    /// # Errors
    /// When the database fails for good, or is away for longer than the operation may take.
    pub async fn resume(self, intent: IntentId, budget: Duration) -> sqlx::Result<Option<DispatchOutcome>> {
        let waiter = self.replies.expect(intent);
        let claimed = || async { intents::worker_of(&mut *self.db.acquire().await?, intent).await };
        let Some(worker) = persist("check for the claim of an operation", claimed).await? else { return Ok(None) };
        wake(self.wakeups, worker);
        self.end(waiter, intent, budget).await.map(Some)
    }

    async fn end(self, mut waiter: Waiter, intent: IntentId, budget: Duration) -> sqlx::Result<DispatchOutcome> {
        Ok(match waiter.outcome(budget, self.answers).await? {
            AwaitedOutcome::Ended(ending, reservation) => DispatchOutcome::Ended(*ending, reservation),
            AwaitedOutcome::Crowded(not_yet) => DispatchOutcome::Crowded(not_yet),
            AwaitedOutcome::Nothing => DispatchOutcome::Unheard(give_up(self.db, intent).await?),
        })
    }
}

/// Ends an operation of which nothing was heard. When no worker has begun it, nothing was done, and none may begin it
/// now; otherwise its outcome is not known.
async fn give_up(db: &PgPool, intent: IntentId) -> sqlx::Result<Failure> {
    let failure = Failure { class: FailureClass::Timeout, detail: "the operation did not begin in time".to_owned() };
    let mut tx = db.begin().await?;
    let ended = recovery::give_up(&mut tx, intent, failure.clone()).await?;
    tx.commit().await?;
    if ended {
        return Ok(failure);
    }
    let detail = "nothing was heard of the operation in time; the session stays busy until it ends or is destroyed";
    Ok(Failure { class: FailureClass::Timeout, detail: detail.to_owned() })
}

/// Takes what must not be stored in clear out of the operation, in a form that only the session's worker can read. Nobody can
/// when the worker is forgotten: its session has ended, and takes no operation. `None` when there is no such session.
async fn seal(
    conn: &mut PgConnection,
    (account, session): (AccountId, SessionId),
    operation: &mut Operation,
) -> Result<Option<Option<Vec<u8>>>, DispatchError> {
    let Some(secrets) = operation.take_secrets() else { return Ok(Some(None)) };
    let Some(key) = intents::sealing_key(conn, account, session).await? else { return Ok(None) };
    Ok(Some(key.map(|key| sealing::seal(&secrets, &key)).transpose()?))
}
