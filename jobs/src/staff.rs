//! Staff operations (contract: staff). Each runs in one transaction with its log records, and has the effect of the
//! operators' command.

use std::time::Duration;

use kitfleet_domain::accounts::{self, AccountStatus, LimitChanges};
use kitfleet_domain::billing::orders::{self, Order, Reason, Status};
use kitfleet_domain::recordings;
use kitfleet_domain::staff::{self, Operation, StaffActor, StaffRecord};
use kitfleet_domain::webhooks::dead_letters;
use kitfleet_domain::webhooks::requeues::{self, DeadLetterFilter, Requeue};
use kitfleet_domain::workers::{self, Worker};
use kitfleet_types::ids::{AccountId, DeliveryId, OrderId, RequeueId, SessionId, WorkerId};
use kitfleet_types::tiers::{OwnLimits, Tier};
use kitfleet_types::timestamp::Timestamp;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::billing::crypto;
use crate::inspect::{self, RetryOutcome};
use crate::refused::Refused;

/// Returns the number of sessions that this ended.
pub async fn suspend(conn: &mut PgConnection, account: AccountId, by: &StaffActor) -> Result<u64, Refused> {
    let mut tx = conn.begin().await?;
    require_status(&mut tx, account, AccountStatus::Active).await?;
    let reclaimed = crate::accounts::suspend(&mut tx, account).await?.ok_or(Refused::Unknown)?;
    let details = json!({"sessions_ended": reclaimed});
    staff::record(&mut tx, by, StaffRecord::to_account(Operation::AccountSuspended, account, details)).await?;
    tx.commit().await?;
    Ok(reclaimed)
}

pub async fn reactivate(conn: &mut PgConnection, account: AccountId, by: &StaffActor) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    require_status(&mut tx, account, AccountStatus::Suspended).await?;
    crate::accounts::reactivate(&mut tx, account).await?;
    staff::record(&mut tx, by, StaffRecord::to_account(Operation::AccountReactivated, account, json!({}))).await?;
    Ok(tx.commit().await?)
}

/// Locks the account until the transaction ends.
async fn require_status(conn: &mut PgConnection, account: AccountId, needed: AccountStatus) -> Result<(), Refused> {
    let status = accounts::lock_status(conn, account).await?.ok_or(Refused::Unknown)?;
    if status == needed { Ok(()) } else { Err(Refused::conflict(format!("the account is {}", status.name()))) }
}

/// `from` is the tier that the caller saw, if it must still be the account's.
pub async fn set_tier(
    conn: &mut PgConnection,
    account: AccountId,
    from: Option<Tier>,
    tier: Tier,
    by: &StaffActor,
) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    let status = accounts::lock_status(&mut tx, account).await?.ok_or(Refused::Unknown)?;
    if status == AccountStatus::Deleted {
        return Err(Refused::conflict("the account is deleted"));
    }
    let before = crate::accounts::set_tier(&mut tx, account, tier).await?.ok_or(Refused::Unknown)?;
    if before == tier {
        return Err(Refused::conflict(format!("the account is already on the tier {tier}")));
    }
    if from.is_some_and(|from| from != before) {
        return Err(Refused::conflict(format!("the account is on the tier {before} by now")));
    }
    let details = json!({"from": before, "to": tier});
    staff::record(&mut tx, by, StaffRecord::to_account(Operation::TierChanged, account, details)).await?;
    Ok(tx.commit().await?)
}

/// `from` are the limits that the caller saw, if they must still be the account's.
pub async fn change_limits(
    conn: &mut PgConnection,
    account: AccountId,
    from: Option<OwnLimits>,
    changes: LimitChanges,
    by: &StaffActor,
) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    let Some(limits) = accounts::change_limits(&mut tx, account, changes).await? else {
        accounts::find(&mut tx, account).await?.ok_or(Refused::Unknown)?;
        return Err(Refused::conflict("the account is deleted"));
    };
    if limits.from == limits.to {
        return Err(Refused::conflict("the account has these limits already"));
    }
    if from.is_some_and(|from| from != limits.from) {
        return Err(Refused::conflict("the account has other limits by now"));
    }
    staff::record(&mut tx, by, StaffRecord::to_account(Operation::LimitsSet, account, json!(limits))).await?;
    Ok(tx.commit().await?)
}

pub async fn destroy_session(conn: &mut PgConnection, session: SessionId, by: &StaffActor) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    let account = crate::sessions::destroy(&mut tx, session).await?;
    let target = Some(session.to_string());
    let deed = StaffRecord { operation: Operation::SessionEnded, account: Some(account), target, details: json!({}) };
    staff::record(&mut tx, by, deed).await?;
    Ok(tx.commit().await?)
}

/// Called before the recording is read, so that the customer also sees a read that fails.
pub async fn read_recording(conn: &mut PgConnection, session: SessionId, by: &StaffActor) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    let account = recordings::account_of(&mut tx, session).await?.ok_or(Refused::Unknown)?;
    let (target, details) = (Some(session.to_string()), json!({"session_id": session}));
    let read = StaffRecord { operation: Operation::RecordingRead, account: Some(account), target, details };
    staff::record(&mut tx, by, read).await?;
    Ok(tx.commit().await?)
}

/// The account may be deleted.
pub async fn note(conn: &mut PgConnection, account: AccountId, note: &str, by: &StaffActor) -> Result<(), Refused> {
    annotate(conn, by, StaffRecord::to_account(Operation::NoteWritten, account, json!({"note": note}))).await
}

#[derive(Debug, Clone)]
pub struct Refund {
    pub amount_cents: i64,
    pub currency: String,
    pub reference: String,
}

/// The account may be deleted. Moves no money.
pub async fn record_refund(
    conn: &mut PgConnection,
    account: AccountId,
    refund: &Refund,
    by: &StaffActor,
) -> Result<(), Refused> {
    let Refund { amount_cents, currency, reference } = refund;
    let details = json!({"amount_cents": amount_cents, "currency": currency, "reference": reference});
    annotate(conn, by, StaffRecord::to_account(Operation::RefundRecorded, account, details)).await
}

async fn annotate(conn: &mut PgConnection, by: &StaffActor, deed: StaffRecord) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    if let Some(account) = deed.account {
        accounts::find(&mut tx, account).await?.ok_or(Refused::Unknown)?;
    }
    staff::record(&mut tx, by, deed).await?;
    Ok(tx.commit().await?)
}

/// All or none.
pub async fn requeue(conn: &mut PgConnection, ids: &[DeliveryId], by: &StaffActor) -> Result<Vec<DeliveryId>, Refused> {
    let mut tx = conn.begin().await?;
    let requeued = dead_letters::requeue(&mut tx, ids).await?;
    for (account, deliveries) in dead_letters::by_account(&mut tx, &requeued).await? {
        let details = json!({"delivery_ids": deliveries});
        staff::record(&mut tx, by, StaffRecord::to_account(Operation::DeliveriesRequeued, account, details)).await?;
    }
    tx.commit().await?;
    Ok(requeued)
}

/// Dead letters created at or after `since` whose error contains `error`. A scheduled job requeues them in bounded batches; the returned row shows
/// the progress.
pub async fn requeue_all(
    conn: &mut PgConnection,
    whose: DeadLetterFilter,
    (since, error): (Option<Timestamp>, Option<&str>),
    by: &StaffActor,
) -> Result<Requeue, Refused> {
    let mut tx = conn.begin().await?;
    let begun = requeues::begin(&mut tx, whose, since, error).await?.ok_or(Refused::Unknown)?;
    let details = json!({
        "requeue_id": begun.id, "endpoint_id": begun.endpoint_id, "since": since, "error": error, "total": begun.total,
    });
    staff::record(&mut tx, by, StaffRecord::to_account(Operation::DeliveriesRequeued, begun.account_id, details))
        .await?;
    tx.commit().await?;
    Ok(begun)
}

/// The batch in progress is still requeued.
pub async fn pause_requeue(conn: &mut PgConnection, id: RequeueId, by: &StaffActor) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    let Some(account) = requeues::pause(&mut tx, id).await? else {
        return Err(conflict_of_requeue(&mut tx, id).await?);
    };
    staff::record(&mut tx, by, of_requeue(Operation::RequeuePaused, account, id)).await?;
    Ok(tx.commit().await?)
}

pub async fn resume_requeue(conn: &mut PgConnection, id: RequeueId, by: &StaffActor) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    let Some(account) = requeues::resume(&mut tx, id).await? else {
        return Err(conflict_of_requeue(&mut tx, id).await?);
    };
    staff::record(&mut tx, by, of_requeue(Operation::RequeueResumed, account, id)).await?;
    Ok(tx.commit().await?)
}

async fn conflict_of_requeue(conn: &mut PgConnection, id: RequeueId) -> Result<Refused, Refused> {
    let requeue = requeues::find(conn, id).await?.ok_or(Refused::Unknown)?;
    Ok(Refused::conflict(match (requeue.done_at, requeue.paused_at) {
        (Some(_), _) => "the requeue is done",
        (None, Some(_)) => "the requeue is already paused",
        (None, None) => "the requeue is not paused",
    }))
}

fn of_requeue(operation: Operation, account: AccountId, id: RequeueId) -> StaffRecord {
    let details = json!({"requeue_id": id});
    StaffRecord { operation, account: Some(account), target: Some(id.to_string()), details }
}

pub async fn retry_job(conn: &mut PgConnection, id: &str, by: &StaffActor) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    require_job(&mut tx, id).await?;
    if let Ok(delivery) = id.parse() {
        requeue(&mut tx, &[delivery], by).await?;
        return Ok(tx.commit().await?);
    }
    match inspect::retry(&mut tx, id).await? {
        RetryOutcome::Yes => {}
        RetryOutcome::NoSuchJob => {
            return Err(Refused::conflict("the job has not failed, or is of a type that runs once"));
        }
        RetryOutcome::Cancelled => return Err(Refused::conflict("the job was cancelled, and a cancellation is final")),
        RetryOutcome::RunsOnce => {
            return Err(Refused::conflict("the job is an operation, and operations never run twice"));
        }
        RetryOutcome::MailEnded => {
            return Err(Refused::conflict("the job has nothing to do: its mail was sent or given up"));
        }
        RetryOutcome::DeliveryStays(error) => return Err(error.into()),
    }
    staff::record(&mut tx, by, StaffRecord::to_service(Operation::JobRetried, id.to_owned())).await?;
    Ok(tx.commit().await?)
}

pub async fn cancel_job(conn: &mut PgConnection, id: &str, by: &StaffActor) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    require_job(&mut tx, id).await?;
    if !inspect::cancel(&mut tx, id).await? {
        return Err(Refused::conflict("the job is not waiting, or is of a type that cannot be cancelled"));
    }
    staff::record(&mut tx, by, StaffRecord::to_service(Operation::JobCancelled, id.to_owned())).await?;
    Ok(tx.commit().await?)
}

async fn require_job(conn: &mut PgConnection, id: &str) -> Result<(), Refused> {
    let known = inspect::is_id(id) && inspect::show(conn, id).await?.is_some();
    if known { Ok(()) } else { Err(Refused::Unknown) }
}

/// Stops assigning sessions to a worker. With a deadline, sessions that are still live then are ended. A worker that drains
/// already gets the new deadline. `from` is the status that the caller saw, if it must still be the worker's.
pub async fn drain(
    conn: &mut PgConnection,
    worker: WorkerId,
    deadline: Option<Duration>,
    from: Option<&str>,
    by: &StaffActor,
) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    if let Some(from) = from {
        let status = workers::lock_status(&mut tx, worker).await?.ok_or(Refused::Unknown)?;
        if status != from {
            return Err(Refused::conflict(format!("the worker is {status} by now")));
        }
    }
    let mut changed = workers::drain(&mut tx, worker).await?;
    if let Some(within) = deadline {
        changed |= workers::drain_within(&mut tx, worker, within).await?;
    }
    if !changed {
        let status = workers::find(&mut tx, worker).await?.ok_or(Refused::Unknown)?.status;
        return Err(Refused::conflict(format!("the worker is {status}")));
    }
    let mut deed = StaffRecord::to_service(Operation::WorkerDrained, worker.to_string());
    if let Some(within) = deadline {
        deed.details = json!({"deadline_seconds": within.as_secs()});
    }
    staff::record(&mut tx, by, deed).await?;
    Ok(tx.commit().await?)
}

pub async fn undrain(conn: &mut PgConnection, worker: WorkerId, by: &StaffActor) -> Result<Worker, Refused> {
    let mut tx = conn.begin().await?;
    let returned = crate::workers::undrain(&mut tx, worker).await?;
    staff::record(&mut tx, by, StaffRecord::to_service(Operation::WorkerUndrained, worker.to_string())).await?;
    tx.commit().await?;
    Ok(returned)
}

pub async fn expire_order(conn: &mut PgConnection, id: OrderId, by: &StaffActor) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    let order = orders::lock(&mut tx, id).await?.ok_or(Refused::Unknown)?;
    if order.status != Status::Pending {
        return Err(Refused::conflict(format!("the order is {}", order.status.name())));
    }
    if !orders::is_overdue(&mut tx, id).await? {
        return Err(Refused::conflict(format!("the order can be paid until {}", order.expires_at)));
    }
    crypto::fail(&mut tx, &order, Reason::Expired).await?;
    staff::record(&mut tx, by, of_order(Operation::OrderExpired, &order)).await?;
    Ok(tx.commit().await?)
}

/// A pending order, or a failed one that was flagged because money arrived for it.
pub async fn settle_order(
    conn: &mut PgConnection,
    id: OrderId,
    period: Duration,
    by: &StaffActor,
) -> Result<(), Refused> {
    let mut tx = conn.begin().await?;
    let order = orders::lock(&mut tx, id).await?.ok_or(Refused::Unknown)?;
    if order.status == Status::Paid || order.status == Status::Failed && order.flag.is_none() {
        return Err(Refused::conflict(format!("the order is {}", order.status.name())));
    }
    // The payment that raised the flag is the one that staff reviewed.
    let payment = order.flagged_by.as_ref().or(order.payment_id.as_ref()).map(String::as_str);
    crypto::pay(&mut tx, &order, payment, period).await?;
    staff::record(&mut tx, by, of_order(Operation::OrderSettled, &order)).await?;
    Ok(tx.commit().await?)
}

fn of_order(operation: Operation, order: &Order) -> StaffRecord {
    let details = json!({"order_id": order.id, "product": order.product});
    StaffRecord { operation, account: Some(order.account), target: Some(order.id.to_string()), details }
}
