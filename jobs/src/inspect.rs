//! Jobs for operators and sweeps, with operations and webhook deliveries, which have tables of their own.

mod deliveries;
mod operations;

use std::cmp::Reverse;
use std::time::Duration;

use kitfleet_domain::emails;
use kitfleet_domain::webhooks::dead_letters::{self, RequeueError};
use kitfleet_types::ids::{DeliveryId, EmailId, IntentId};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sqlx::{Connection, FromRow, PgConnection};
use uuid::Uuid;

use crate::emails::EmailJob;
use crate::maintenance::MaintenanceJob;
use crate::operations::OperationJob;
use crate::queues::Queue;
use crate::webhooks::AttemptJob;
use crate::{QUEUES, wakeups};

#[derive(Debug, Serialize, FromRow)]
pub struct JobRow {
    /// ULID, or the id of an intent or a delivery.
    pub id: String,
    pub queue: String,
    /// `pending`, `running`, `done`, `failed` or `killed`.
    pub status: String,
    pub body: Value,
    pub attempts: i32,
    /// For a delivery: its next attempt, if one is due.
    pub run_at: Option<Timestamp>,
    pub lock_by: Option<String>,
    pub lock_at: Option<Timestamp>,
    pub done_at: Option<Timestamp>,
    pub result: Option<Value>,
}

#[derive(Debug, Default)]
pub struct Filter {
    pub queue: Option<String>,
    pub status: Option<String>,
    /// The [`JobRow::place`] of a job: only jobs created before it.
    pub before: Option<Uuid>,
    pub limit: i64,
}

const COLUMNS: &str =
    "id, job_type as queue, lower(status) as status, convert_from(job, 'UTF8')::jsonb as body, attempts,
     nullif(run_at, to_timestamp(0)) as run_at, lock_by, lock_at, done_at, last_result as result";

pub async fn list(conn: &mut PgConnection, filter: &Filter) -> sqlx::Result<Vec<JobRow>> {
    let Filter { queue, status, before, limit } = filter;
    let before = before.unwrap_or(Uuid::max());
    let mut jobs = Vec::new();
    if queue.as_deref().is_none_or(|queue| queue == AttemptJob::QUEUE.name) {
        jobs = deliveries::list(&mut *conn, status.as_deref(), before, *limit).await?;
    }
    if queue.as_deref() != Some(AttemptJob::QUEUE.name) {
        jobs.extend(list_queued(&mut *conn, filter, before).await?);
    }
    let worker = queue.as_deref().and_then(OperationJob::worker_of);
    if queue.is_none() || worker.is_some() {
        jobs.extend(operations::list(conn, worker, status.as_deref(), before, *limit).await?);
    }
    jobs.sort_by_key(|job| Reverse(job.place()));
    jobs.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
    Ok(jobs)
}

impl JobRow {
    /// Ids of every kind have the same length and start with their creation time.
    #[must_use]
    pub fn place(&self) -> Uuid {
        let queued = self.id.parse().map(|id: ulid::Ulid| Uuid::from_u128(id.into()));
        let delivery = || self.id.parse().map(|id: DeliveryId| id.as_uuid());
        let operation = || self.id.parse().map(|id: IntentId| id.as_uuid());
        queued.or_else(|_| delivery()).or_else(|_| operation()).unwrap_or_default()
    }
}

async fn list_queued(conn: &mut PgConnection, filter: &Filter, before: Uuid) -> sqlx::Result<Vec<JobRow>> {
    // The status is part of the text, so that the partial indexes of rare statuses serve it.
    let status = match filter.status.as_deref().map(str::to_lowercase).as_deref() {
        None => "",
        Some("pending") => "and status = 'Pending'",
        Some("running") => "and status in ('Queued', 'Running')",
        Some("done") => "and status = 'Done'",
        Some("failed") => "and status = 'Failed'",
        Some("killed") => "and status = 'Killed'",
        Some(_) => return Ok(Vec::new()),
    };
    let select = format!(
        "select {COLUMNS} from apalis.jobs
         where ($1::text is null or job_type = $1) {status} and id < $2 order by id desc limit $3"
    );
    sqlx::query_as(sqlx::AssertSqlSafe(select))
        .bind(&filter.queue)
        .bind(ulid::Ulid::from(before.as_u128()).to_string())
        .bind(filter.limit)
        .fetch_all(conn)
        .await
}

#[must_use]
pub fn is_id(text: &str) -> bool {
    text.parse::<ulid::Ulid>().is_ok() || text.parse::<DeliveryId>().is_ok() || text.parse::<IntentId>().is_ok()
}

pub async fn show(conn: &mut PgConnection, id: &str) -> sqlx::Result<Option<JobRow>> {
    if let Ok(delivery) = id.parse() {
        return deliveries::show(conn, delivery).await;
    }
    if let Ok(intent) = id.parse() {
        return operations::show(conn, intent).await;
    }
    let select = format!("select {COLUMNS} from apalis.jobs where id = $1");
    sqlx::query_as(sqlx::AssertSqlSafe(select)).bind(id).fetch_optional(conn).await
}

#[derive(Debug)]
pub enum RetryOutcome {
    Yes,
    /// No failed or killed job has this id, or it is a turn or a proxy check, which run once.
    NoSuchJob,
    /// A cancellation by an operator is final.
    Cancelled,
    /// Operations and opening browsers never run twice.
    RunsOnce,
    /// The job's mail was sent or given up.
    MailEnded,
    DeliveryStays(RequeueError),
}

const CANCELLED: &str = r#"{"Err": "an operator cancelled it"}"#;

/// Retries a job that failed or whose worker died, if the job still has something to do. Requeues a delivery in the dead letter
/// state and resets its attempt count.
pub async fn retry(conn: &mut PgConnection, id: &str) -> sqlx::Result<RetryOutcome> {
    if id.parse::<IntentId>().is_ok() {
        return Ok(RetryOutcome::RunsOnce);
    }
    let mut tx = conn.begin().await?;
    if let Ok(delivery) = id.parse() {
        return match dead_letters::requeue(&mut tx, &[delivery]).await {
            Ok(_) => tx.commit().await.map(|()| RetryOutcome::Yes),
            Err(RequeueError::Database(error)) => Err(error),
            Err(refused) => Ok(RetryOutcome::DeliveryStays(refused)),
        };
    }
    let retried: Option<(String, Value, bool)> = sqlx::query_as(
        "update apalis.jobs j
         set status = 'Pending', run_at = now(), lock_by = null, lock_at = null, done_at = null
         from (select id, status = 'Killed' and last_result = $2::jsonb as cancelled from apalis.jobs where id = $1 for update) old
         where j.id = old.id and status in ('Failed', 'Killed') and job_type not like all ($3)
         returning job_type, convert_from(job, 'UTF8')::jsonb, coalesce(old.cancelled, false)",
    )
    .bind(id)
    .bind(CANCELLED)
    .bind(exclusive_queues())
    .fetch_optional(&mut *tx)
    .await?;
    let Some((queue, body, cancelled)) = retried else { return Ok(RetryOutcome::NoSuchJob) };
    if cancelled {
        return Ok(RetryOutcome::Cancelled);
    }
    if let Some(email) = mail_of(&queue, body)?
        && emails::has_ended(&mut tx, email).await?
    {
        return Ok(RetryOutcome::MailEnded);
    }
    wakeups::wake(&mut tx, &queue).await?;
    tx.commit().await?;
    Ok(RetryOutcome::Yes)
}

/// A cancelled mail is never sent. `false` if no such job is pending.
///
/// Operations and deliveries cannot be cancelled: destroying the session ends an operation and answers its caller, and
/// pausing or deleting the endpoint ends its deliveries and notifies the customer.
pub async fn cancel(conn: &mut PgConnection, id: &str) -> sqlx::Result<bool> {
    let mut tx = conn.begin().await?;
    let cancelled: Option<(String, Value)> = sqlx::query_as(
        "update apalis.jobs set status = 'Killed', done_at = now(), last_result = $2::jsonb
         where id = $1 and status = 'Pending' and job_type not like all ($3)
         returning job_type, convert_from(job, 'UTF8')::jsonb",
    )
    .bind(id)
    .bind(CANCELLED)
    .bind(exclusive_queues())
    .fetch_optional(&mut *tx)
    .await?;
    let Some((queue, body)) = cancelled else { return Ok(false) };
    if let Some(email) = mail_of(&queue, body)? {
        emails::cancel(&mut tx, email).await?;
    }
    tx.commit().await?;
    Ok(true)
}

fn exclusive_queues() -> Vec<String> {
    QUEUES.into_iter().filter(|queue| queue.is_exclusive()).map(|queue| format!("{}:%", queue.name)).collect()
}

fn mail_of(queue: &str, body: Value) -> sqlx::Result<Option<EmailId>> {
    if queue != EmailJob::QUEUE.name {
        return Ok(None);
    }
    let job: EmailJob = serde_json::from_value(body).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(Some(job.email))
}

#[derive(Debug, Serialize, FromRow)]
pub struct QueueStats {
    pub queue: String,
    pub pending: i64,
    pub running: i64,
    pub done: i64,
    pub failed: i64,
    pub killed: i64,
    pub oldest_pending_seconds: Option<f64>,
}

/// Counts all rows.
pub async fn stats(conn: &mut PgConnection) -> sqlx::Result<Vec<QueueStats>> {
    let of_deliveries = deliveries::stats(&mut *conn).await?;
    let select = format!(
        "with counted as (
             select job_type as queue, lower(status) as status, count(*) as jobs,
                    min(run_at) filter (where run_at > to_timestamp(0) and run_at <= now()) as oldest
             from apalis.jobs group by job_type, status
             union all
             select 'operations:wrk_' || i.worker_id, {status}, count(*), min(i.created_at)
             from intents i group by i.worker_id, i.status
         )
         select queue,
                coalesce(sum(jobs) filter (where status = 'pending'), 0)::bigint as pending,
                coalesce(sum(jobs) filter (where status in ('running', 'queued')), 0)::bigint as running,
                coalesce(sum(jobs) filter (where status = 'done'), 0)::bigint as done,
                coalesce(sum(jobs) filter (where status = 'failed'), 0)::bigint as failed,
                coalesce(sum(jobs) filter (where status = 'killed'), 0)::bigint as killed,
                extract(epoch from now() - min(oldest) filter (where status = 'pending'))::float8 as oldest_pending_seconds
         from counted group by queue order by queue",
        status = operations::STATUS,
    );
    let mut queues: Vec<QueueStats> = sqlx::query_as(sqlx::AssertSqlSafe(select)).fetch_all(conn).await?;
    queues.extend(of_deliveries);
    Ok(queues)
}

/// Jobs of a type now, without a count of all rows.
#[derive(Debug)]
pub struct JobLoad {
    /// Queue name without the worker's id.
    pub job_type: &'static str,
    /// Due jobs; for webhooks at most [`MAX_COUNTED`].
    pub waiting: i64,
    /// Time the oldest has waited.
    pub age: Duration,
    pub running: i64,
    /// Failed jobs and dead letters that are kept.
    pub failed: i64,
    /// Jobs that ended within the last minute, of those that were created within the last 15 minutes.
    pub ended_last_minute: i64,
    /// Those of them that failed.
    pub failed_last_minute: i64,
}

pub async fn loads(conn: &mut PgConnection) -> sqlx::Result<Vec<JobLoad>> {
    let recent = first_id(&mut *conn, Duration::from_mins(15)).await?;
    let counted: Vec<(String, i64, i64, i64, i64)> = sqlx::query_as(
        "with counted (job_type, running, failed, ended, ended_badly) as (
             select split_part(job_type, ':', 1), count(*), 0, 0, 0 from apalis.jobs where status in ('Queued', 'Running') group by 1
             union all
             select split_part(job_type, ':', 1), 0, count(*), 0, 0 from apalis.jobs where status = 'Failed' group by 1
             union all
             select split_part(job_type, ':', 1), 0, 0, count(*), count(*) filter (where status <> 'Done')
             from apalis.jobs
             where id >= $1 and status in ('Done', 'Failed', 'Killed') and done_at > now() - interval '1 minute' group by 1
             union all
             select 'operations', count(*), 0, 0, 0
             from sessions s join intents i on i.id = s.operation_id where s.live and i.status = 'running'
             union all
             select 'operations', 0, 0, count(*), 0 from intents where outcome is not null and done_at > now() - interval '1 minute'
             union all
             select $2, count(*) filter (where status = 'in_flight'), count(*) filter (where status = 'dlq'), 0, 0
             from webhook_deliveries where status <> 'delivered'
             union all
             select $2, 0, 0, count(*), count(*) filter (where status <> 'delivered')
             from webhook_deliveries
             where id >= uuid_v7_of(now() - interval '15 minutes') and next_attempt_at is null
               and updated_at > now() - interval '1 minute'
         )
         select job_type, sum(running)::bigint, sum(failed)::bigint, sum(ended)::bigint, sum(ended_badly)::bigint
         from counted group by job_type",
    )
    .bind(recent)
    .bind(AttemptJob::QUEUE.name)
    .fetch_all(&mut *conn)
    .await?;
    let backlogs = backlogs(conn).await?.into_iter();
    Ok(backlogs
        .map(|Backlog { job_type, depth, age }| {
            let of_type = counted.iter().find(|(name, ..)| name == job_type);
            let (running, failed, ended_last_minute, failed_last_minute) = of_type
                .map_or_else(Default::default, |(_, running, failed, ended, badly)| {
                    (*running, *failed, *ended, *badly)
                });
            JobLoad { job_type, waiting: depth, age, running, failed, ended_last_minute, failed_last_minute }
        })
        .collect())
}

#[derive(Debug)]
pub struct Backlog {
    /// Queue name without the worker's id.
    pub job_type: &'static str,
    /// Number of jobs; for webhooks at most [`MAX_COUNTED`].
    pub depth: i64,
    /// Time the oldest has waited.
    pub age: Duration,
}

/// The count runs every few seconds and must not scan a million rows.
pub const MAX_COUNTED: i64 = 100_000;

pub async fn backlogs(conn: &mut PgConnection) -> sqlx::Result<Vec<Backlog>> {
    // All times are the database's, because a process's clock may be minutes off. Jobs that an earlier version enqueued have no
    // time and therefore no age.
    let waiting: Vec<(String, i64, Option<f64>)> = sqlx::query_as(
        "select split_part(job_type, ':', 1), count(*),
                extract(epoch from now() - min(run_at) filter (where run_at > to_timestamp(0)))::float8
         from apalis.jobs where status = 'Pending' and run_at <= now() group by 1
         union all
         select 'operations', count(*), extract(epoch from now() - min(created_at))::float8
         from intents where status = 'queued'
         union all
         select $1, count(*), extract(epoch from now() - min(next_attempt_at))::float8
         from (select next_attempt_at from webhook_deliveries where due limit $2) due",
    )
    .bind(AttemptJob::QUEUE.name)
    .bind(MAX_COUNTED)
    .fetch_all(conn)
    .await?;
    let of_queue = |Queue { name: job_type, .. }| {
        let (depth, age) = waiting.iter().find(|(name, ..)| name == job_type).map_or_else(Default::default, |found| {
            let (_, depth, seconds) = found;
            (*depth, seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default())
        });
        Backlog { job_type, depth, age }
    };
    Ok(QUEUES.map(of_queue).into())
}

/// The next tick of a scheduled job has its own row, and a mail gets another job.
pub async fn mark_dead(conn: &mut PgConnection) -> sqlx::Result<u64> {
    let in_apalis = QUEUES.into_iter().filter(|queue| queue.is_in_apalis());
    let of_one_worker = QUEUES.into_iter().filter(|queue| queue.is_exclusive());
    let killed = sqlx::query(
        "update apalis.jobs set status = 'Killed', done_at = now(), last_result = '{\"Err\": \"its worker is gone\"}'
         where status in ('Pending', 'Queued', 'Running') and id = any(array(
             select j.id from workers w cross join unnest($2) queue (name)
             join apalis.jobs j on j.job_type = queue.name || ':wrk_' || w.id
             where w.status in ('stopped', 'lost') and j.status = 'Pending'
             union all
             select j.id from workers w cross join unnest($1) queue (name)
             join apalis.jobs j on j.lock_by = queue.name || ':wrk_' || w.id
             where w.status in ('stopped', 'lost') and j.status in ('Queued', 'Running')))",
    )
    .bind(in_apalis.map(|queue| queue.name).collect::<Vec<_>>())
    .bind(of_one_worker.map(|queue| queue.name).collect::<Vec<_>>())
    .execute(conn)
    .await?;
    Ok(killed.rows_affected())
}

/// Ticks of scheduled jobs are deleted after an hour, and job workers after `age` without a heartbeat.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    // Old jobs are selected by id, which begins with the creation time, and ticks by queue: the end time has no index.
    let jobs = sqlx::query(
        "delete from apalis.jobs where id = any(array(
             select id from apalis.jobs where id < $1 and status in ('Done', 'Failed', 'Killed') order by id limit $2
             for update skip locked))",
    )
    .bind(first_id(&mut *conn, age).await?)
    .bind(limit)
    .execute(&mut *conn)
    .await?;
    let ticks = sqlx::query(
        "delete from apalis.jobs where id = any(array(
             select id from apalis.jobs where job_type = $2 and status in ('Done', 'Failed', 'Killed')
               and done_at < now() - least(make_interval(secs => $1), interval '1 hour')
             limit $3 for update skip locked))",
    )
    .bind(age.as_secs_f64())
    .bind(MaintenanceJob::QUEUE.name)
    .bind(limit)
    .execute(&mut *conn)
    .await?;
    // A live job worker writes a heartbeat every minute.
    sqlx::query(
        "delete from apalis.workers w
         where w.last_seen < now() - greatest(make_interval(secs => $1), interval '1 hour')
           and not exists(select from apalis.jobs j where j.lock_by = w.id)",
    )
    .bind(age.as_secs_f64())
    .execute(conn)
    .await?;
    Ok(jobs.rows_affected() + ticks.rows_affected())
}

/// Returns the smallest id that a job of this age can have.
async fn first_id(conn: &mut PgConnection, age: Duration) -> sqlx::Result<String> {
    let milliseconds: i64 =
        sqlx::query_scalar("select (extract(epoch from now() - make_interval(secs => $1)) * 1000)::bigint")
            .bind(age.as_secs_f64())
            .fetch_one(conn)
            .await?;
    Ok(ulid::Ulid::from_parts(u64::try_from(milliseconds).unwrap_or_default(), 0).to_string())
}
