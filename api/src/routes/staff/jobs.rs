//! Jobs: staff can list, retry and cancel them.

use std::convert::Infallible;

use axum::Json as Answer;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::request::Parts;
use kitfleet_jobs::{inspect, staff};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::both;
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{ReasonBody, cursors, filter};
use crate::http::auth::staff::Staff;
use crate::http::error::{Problem, Result};
use crate::http::json::Json;
use crate::http::kinds;
use crate::http::lists::{self, List, ListItem, Page, Paging, Query};
use crate::http::openapi::{Body, Database, InvalidQuery, NoJob, OutOfPlace, Unauthorized};
use crate::http::routing::Routes;
use crate::http::state::App;

/// Possible statuses of a job.
const STATUSES: [&str; 5] = ["pending", "running", "done", "failed", "killed"];

pub fn routes() -> Routes {
    Routes::new()
        .for_staff(routes!(list))
        .for_staff(routes!(stats))
        .for_staff(routes!(loads))
        .for_staff(routes!(get))
        .for_staff(routes!(retry))
        .for_staff(routes!(cancel))
}

/// Job ID in a path. A malformed ID is treated as the ID of an unknown job.
struct JobPath(String);

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let params = RawPathParams::from_request_parts(parts, state).await.ok();
        let id = params.and_then(|params| Some(params.iter().find(|(name, _)| *name == "id")?.1.to_owned()));
        Ok(Self(id.unwrap_or_default()))
    }
}

/// Job
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "01KB8Z5A6Q3N0M9R8T7V6W5X4Y", "queue": "emails", "status": "failed", "body": {"email": "eml_…"}, "attempts": 1,
    "run_at": null, "lock_by": null, "lock_at": null, "done_at": "2026-11-20T18:06:00.123Z",
    "result": {"Err": "attempt 1 failed (transport)"},
}))]
struct Job {
    /// Job ID. An operation's job has an ID `int_…`, a webhook delivery's job an ID `wdl_…`
    id: String,
    /// Queue of the job
    queue: String,
    /// `pending`, `running`, `done`, `failed` or `killed`
    status: String,
    /// Parameters of the job
    #[schema(value_type = Object)]
    body: Value,
    /// Number of attempts
    attempts: i32,
    /// Earliest time the job may run
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    run_at: Option<Timestamp>,
    /// Process that claimed the job
    #[schema(required = true)]
    lock_by: Option<String>,
    /// Time the job was claimed
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    lock_at: Option<Timestamp>,
    /// Time the job ended
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    done_at: Option<Timestamp>,
    /// Result of the job
    #[schema(value_type = Option<Object>, required = true)]
    result: Option<Value>,
}

impl From<inspect::JobRow> for Job {
    fn from(job: inspect::JobRow) -> Self {
        let inspect::JobRow { id, queue, status, body, attempts, run_at, lock_by, lock_at, done_at, result } = job;
        Self { id, queue, status, body, attempts, run_at, lock_by, lock_at, done_at, result }
    }
}

type JobList = Page<Job>;

impl ListItem for Job {
    const LIST: &'static str = "JobList";
    const MEANING: &'static str = "A page of jobs, newest first";
}

/// List jobs
#[utoipa::path(
    get, path = "/v1/admin/jobs", tag = "Staff", operation_id = "listJobs",
    params(
        Paging,
        ("queue" = Option<String>, Query, description = "Filter by queue"),
        ("status" = Option<String>, Query, description = "Filter by status"),
    ),
    responses((status = 200, description = "A page", body = JobList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<JobList>> {
    let known = |text: &str| STATUSES.contains(&text).then(|| text.to_owned());
    let wanted = both(filter(&query, "status", known), query.text("queue"));
    let (status, queue) = query.filters(wanted, &app.config.limits)?;
    let filters = [queue, query.text("status")?];
    let queue = queue.map(str::to_owned);
    let page =
        lists::page(&app, &query, cursors("jobs", &filters), inspect::JobRow::place, async |conn, before, limit| {
            inspect::list(conn, &inspect::Filter { queue, status, before, limit }).await
        });
    Ok(Answer(page.await?.map(Job::from)))
}

/// Job counts of a queue
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "queue": "emails", "pending": 1, "running": 0, "done": 512, "failed": 2, "killed": 0, "oldest_pending_seconds": 0.4,
}))]
struct QueueNumbers {
    /// Queue name
    queue: String,
    /// Waiting jobs
    pending: i64,
    /// Jobs that run now
    running: i64,
    /// Jobs that succeeded
    done: i64,
    /// Jobs that failed
    failed: i64,
    /// Jobs that were cancelled or stopped
    killed: i64,
    /// Seconds that the oldest due job has waited
    #[schema(required = true)]
    oldest_pending_seconds: Option<f64>,
}

impl From<inspect::QueueStats> for QueueNumbers {
    fn from(stats: inspect::QueueStats) -> Self {
        let inspect::QueueStats { queue, pending, running, done, failed, killed, oldest_pending_seconds } = stats;
        Self { queue, pending, running, done, failed, killed, oldest_pending_seconds }
    }
}

type QueueNumbersList = Page<QueueNumbers>;

impl ListItem for QueueNumbers {
    const LIST: &'static str = "QueueNumbersList";
    const MEANING: &'static str = "All queues with their job counts";
}

/// Count jobs
#[utoipa::path(
    get, path = "/v1/admin/jobs/stats", tag = "Staff", operation_id = "countJobs",
    responses((status = 200, description = "The job counts of each queue", body = QueueNumbersList), Unauthorized, Database),
)]
async fn stats(_: Staff, State(app): State<App>) -> Result<Answer<QueueNumbersList>> {
    let found = inspect::stats(&mut *app.db.acquire().await?).await?;
    Ok(Answer(found.into_iter().map(QueueNumbers::from).collect()))
}

/// Jobs of a type at present
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "job_type": "emails", "waiting": 1, "oldest_waiting_seconds": 0.4, "running": 0, "failed": 2, "ended_last_minute": 31,
    "failed_last_minute": 0,
}))]
struct JobLoad {
    /// Name of the queue, without the worker's ID
    job_type: &'static str,
    /// Due jobs; webhook deliveries are counted up to 100,000
    waiting: i64,
    /// Seconds that the oldest due job has waited
    oldest_waiting_seconds: f64,
    /// Jobs that run now
    running: i64,
    /// Failed jobs and dead letters that are kept
    failed: i64,
    /// Jobs that ended within the last minute, of those that were created within the last 15 minutes
    ended_last_minute: i64,
    /// Those of them that failed or were cancelled; 0 for operations, which are done after any outcome
    failed_last_minute: i64,
}

impl From<inspect::JobLoad> for JobLoad {
    fn from(load: inspect::JobLoad) -> Self {
        Self {
            job_type: load.job_type,
            waiting: load.waiting,
            oldest_waiting_seconds: load.age.as_secs_f64(),
            running: load.running,
            failed: load.failed,
            ended_last_minute: load.ended_last_minute,
            failed_last_minute: load.failed_last_minute,
        }
    }
}

type JobLoadList = List<JobLoad>;

impl ListItem for JobLoad {
    const LIST: &'static str = "JobLoadList";
    const MEANING: &'static str = "All types of jobs";
}

/// Get the load of each type of jobs
///
/// Does not count finished jobs, so its cost does not depend on their number.
#[utoipa::path(
    get, path = "/v1/admin/jobs/loads", tag = "Staff", operation_id = "listJobLoads",
    responses((status = 200, description = "The types of jobs", body = JobLoadList), Unauthorized, Database),
)]
async fn loads(_: Staff, State(app): State<App>) -> Result<Answer<JobLoadList>> {
    let found = inspect::loads(&mut *app.db.acquire().await?).await?;
    Ok(Answer(found.into_iter().map(JobLoad::from).collect()))
}

/// Get a job
///
/// Parameters and results of operations and deliveries belong to the customer and are not shown.
#[utoipa::path(
    get, path = "/v1/admin/jobs/{id}", tag = "Staff", operation_id = "getJob",
    params(("id" = String, Path, description = "The job")),
    responses((status = 200, description = "The job", body = Job), Unauthorized, NoJob, Database),
)]
async fn get(_: Staff, State(app): State<App>, JobPath(id): JobPath) -> Result<Answer<Job>> {
    let mut conn = app.db.acquire().await?;
    if !inspect::is_id(&id) {
        return Err(Problem::new(&kinds::NOT_FOUND, "there is no job with this id"));
    }
    shown(&mut conn, &id).await
}

/// Retry a job
///
/// Runs a failed job or a dead letter again. Browser operations are never run twice.
#[utoipa::path(
    post, path = "/v1/admin/jobs/{id}/retry", tag = "Staff", operation_id = "retryJob",
    params(("id" = String, Path, description = "The job")), request_body = ReasonBody,
    responses((status = 200, description = "The job", body = Job), Unauthorized, Body, NoJob, OutOfPlace, Database),
)]
async fn retry(
    staff: Staff,
    State(app): State<App>,
    JobPath(id): JobPath,
    Json(body): Json<ReasonBody>,
) -> Result<Answer<Job>> {
    let by = staff.because(&body.reason)?;
    let mut conn = app.db.acquire().await?;
    staff::retry_job(&mut conn, &id, &by).await?;
    shown(&mut conn, &id).await
}

/// Cancel a job
///
/// Cancels a waiting job permanently.
#[utoipa::path(
    post, path = "/v1/admin/jobs/{id}/cancel", tag = "Staff", operation_id = "cancelJob",
    params(("id" = String, Path, description = "The job")), request_body = ReasonBody,
    responses((status = 200, description = "The job", body = Job), Unauthorized, Body, NoJob, OutOfPlace, Database),
)]
async fn cancel(
    staff: Staff,
    State(app): State<App>,
    JobPath(id): JobPath,
    Json(body): Json<ReasonBody>,
) -> Result<Answer<Job>> {
    let by = staff.because(&body.reason)?;
    let mut conn = app.db.acquire().await?;
    staff::cancel_job(&mut conn, &id, &by).await?;
    shown(&mut conn, &id).await
}

async fn shown(conn: &mut PgConnection, id: &str) -> Result<Answer<Job>> {
    let found = inspect::show(conn, id).await?;
    Ok(Answer(found.ok_or_else(|| Problem::new(&kinds::NOT_FOUND, "there is no job with this id"))?.into()))
}
