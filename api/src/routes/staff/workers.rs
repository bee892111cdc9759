//! Workers: staff can list and drain them, and read the capacity.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::samples;
use kitfleet_domain::sessions::{SessionStatus, live_counts};
use kitfleet_domain::workers::{self, LONGEST_DRAIN};
use kitfleet_jobs::staff;
use kitfleet_types::ids::WorkerId;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{ReasonBody, StaffAction, cursors, filter};
use crate::http::auth::staff::Staff;
use crate::http::error::Result;
use crate::http::json::Unchecked;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{Body, Database, InvalidQuery, NoWorker, OutOfPlace, Unauthorized};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new()
        .for_staff(routes!(list))
        .for_staff(routes!(get))
        .for_staff(routes!(impact))
        .for_staff(routes!(drain))
        .for_staff(routes!(undrain))
        .for_staff(routes!(capacity))
}

/// Worker process
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "wrk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "name": "eu-1", "status": "active", "driver": "webkit",
    "live_sessions": 3, "max_sessions": 8, "started_at": "2026-11-20T18:05:00.123Z",
    "last_seen_at": "2026-11-20T18:06:00.123Z", "drain_by": null, "drain_began_at": null, "drain_sessions": null,
    "version": "0.1.0", "is_sandboxed": true, "free_disk_bytes": 53_687_091_200_i64, "free_memory_bytes": 6_442_450_944_i64,
    "hot_browsers": 2, "processor_load": 0.4, "lease_age_seconds": 1.2,
}))]
struct WorkerRow {
    /// ID of this run of the worker
    #[schema(value_type = String)]
    id: WorkerId,
    /// Name set by the operator
    name: String,
    /// `active`, `draining`, `stopped` or `lost`
    status: String,
    /// Browser driver of the worker's sessions
    driver: &'static str,
    /// Number of live sessions
    live_sessions: i64,
    /// Maximum number of live sessions
    max_sessions: i32,
    /// Time the worker started
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Time of the last heartbeat
    #[schema(value_type = String, format = DateTime)]
    last_seen_at: Timestamp,
    /// Deadline at which a draining worker's sessions are ended; null without a deadline
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    drain_by: Option<Timestamp>,
    /// Time the drain began; null while the worker does not drain
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    drain_began_at: Option<Timestamp>,
    /// Number of live sessions when the drain began; null while the worker does not drain
    #[schema(required = true)]
    drain_sessions: Option<i64>,
    /// Version of the worker program; null if the version does not report it
    #[schema(required = true)]
    version: Option<String>,
    /// True if its browsers are sandboxed; null for a worker without real browsers, or of a version that does not report it
    #[schema(required = true)]
    is_sandboxed: Option<bool>,
    /// Free bytes on the disk of its browsers; null until reported
    #[schema(required = true)]
    free_disk_bytes: Option<i64>,
    /// Free bytes of memory of its machine or control group; null until reported
    #[schema(required = true)]
    free_memory_bytes: Option<i64>,
    /// Started browsers without a session; null for a worker without real browsers, or until reported
    #[schema(required = true)]
    hot_browsers: Option<i32>,
    /// Load of the last minute for each processor of its machine; 1 when all are in use, null until reported
    #[schema(required = true)]
    processor_load: Option<f64>,
    /// Seconds since the last heartbeat, by the clock of the database; the lease lasts 10 seconds
    lease_age_seconds: f64,
}

impl From<workers::Worker> for WorkerRow {
    fn from(worker: workers::Worker) -> Self {
        Self {
            id: worker.id,
            name: worker.name,
            status: worker.status,
            driver: worker.driver.name(),
            live_sessions: worker.live_sessions,
            max_sessions: worker.max_sessions,
            started_at: worker.started_at,
            last_seen_at: worker.last_seen_at,
            drain_by: worker.drain_by,
            drain_began_at: worker.drain_began_at,
            drain_sessions: worker.drain_sessions,
            version: worker.version,
            is_sandboxed: worker.is_sandboxed,
            free_disk_bytes: worker.free_disk_bytes,
            free_memory_bytes: worker.free_memory_bytes,
            hot_browsers: worker.hot_browsers,
            processor_load: worker.processor_load,
            lease_age_seconds: worker.lease_age_seconds,
        }
    }
}

type WorkerList = Page<WorkerRow>;

impl ListItem for WorkerRow {
    const LIST: &'static str = "WorkerList";
    const MEANING: &'static str = "A page of workers, newest first";
}

/// List workers
///
/// Returns live workers, or all workers with `all`.
#[utoipa::path(
    get, path = "/v1/admin/workers", tag = "Staff", operation_id = "listWorkers",
    params(Paging, ("all" = Option<bool>, Query, description = "Include stopped and lost workers")),
    responses((status = 200, description = "A page", body = WorkerList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<WorkerList>> {
    let all = query.filters(filter(&query, "all", |text| text.parse().ok()), &app.config.limits)?.unwrap_or_default();
    let filters = [query.text("all")?];
    let id_of = |worker: &workers::Worker| worker.id.as_uuid();
    let page = lists::page(&app, &query, cursors("workers", &filters), id_of, async |conn, before, limit| {
        workers::list_before(conn, all, before.map(WorkerId::from), limit).await
    });
    Ok(Answer(page.await?.map(WorkerRow::from)))
}

/// Get a worker
///
/// Stopped and lost workers are included.
#[utoipa::path(
    get, path = "/v1/admin/workers/{id}", tag = "Staff", operation_id = "getWorker",
    params(IdPath<WorkerId>),
    responses((status = 200, description = "The worker", body = WorkerRow), Unauthorized, NoWorker, Database),
)]
async fn get(_: Staff, State(app): State<App>, path: IdPath<WorkerId>) -> Result<Answer<WorkerRow>> {
    shown(&mut *app.db.acquire().await?, path.id()?).await
}

/// What would happen if a worker went away
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "creating_sessions": 0, "ready_sessions": 2, "busy_sessions": 1, "unsaved_profiles": 1, "agent_sessions": 0,
    "free_slots_elsewhere": 5,
}))]
struct WorkerImpact {
    /// Sessions whose browser is not open yet
    creating_sessions: i64,
    /// Sessions without an operation, which are errored
    ready_sessions: i64,
    /// Sessions with an operation, which stay busy until they are destroyed
    busy_sessions: i64,
    /// Profiles whose changes would be lost
    unsaved_profiles: i64,
    /// Agent sessions that use these sessions
    agent_sessions: i64,
    /// Free slots of the other workers
    free_slots_elsewhere: i64,
}

impl From<workers::Impact> for WorkerImpact {
    fn from(impact: workers::Impact) -> Self {
        Self {
            creating_sessions: impact.creating_sessions,
            ready_sessions: impact.ready_sessions,
            busy_sessions: impact.busy_sessions,
            unsaved_profiles: impact.unsaved_profiles,
            agent_sessions: impact.agent_sessions,
            free_slots_elsewhere: impact.free_slots_elsewhere,
        }
    }
}

/// Get what depends on a worker
///
/// Counts the sessions that would end or get stuck if the worker went away now.
#[utoipa::path(
    get, path = "/v1/admin/workers/{id}/impact", tag = "Staff", operation_id = "getWorkerImpact",
    params(IdPath<WorkerId>),
    responses((status = 200, description = "What depends on the worker", body = WorkerImpact), Unauthorized, NoWorker, Database),
)]
async fn impact(_: Staff, State(app): State<App>, path: IdPath<WorkerId>) -> Result<Answer<WorkerImpact>> {
    let found = workers::impact(&mut *app.db.acquire().await?, path.id()?).await?;
    Ok(Answer(found.ok_or_else(not_found::<WorkerId>)?.into()))
}

/// Capacity of the service
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "active_workers": 3, "draining_workers": 1, "silent_workers": 0, "slots": 24, "free_slots": 9, "largest_worker_slots": 8,
    "creating_sessions": 1, "ready_sessions": 11, "busy_sessions": 3, "waiting_creates": 0,
}))]
struct Capacity {
    /// Workers that receive sessions
    active_workers: i64,
    /// Workers that drain
    draining_workers: i64,
    /// Workers whose lease has expired, but that were not declared lost yet
    silent_workers: i64,
    /// Slots of the workers that receive sessions
    slots: i64,
    /// Slots that a session can get
    free_slots: i64,
    /// Slots of the worker that has the most
    largest_worker_slots: i64,
    /// Live sessions whose browser is not open yet
    creating_sessions: i64,
    /// Live sessions without an operation
    ready_sessions: i64,
    /// Live sessions with an operation
    busy_sessions: i64,
    /// Creates that wait for a slot, as the API processes report them every 30 seconds; null without a report
    #[schema(required = true)]
    waiting_creates: Option<f64>,
}

/// Get the capacity of the service
#[utoipa::path(
    get, path = "/v1/admin/capacity", tag = "Staff", operation_id = "getCapacity",
    responses((status = 200, description = "The capacity", body = Capacity), Unauthorized, Database),
)]
async fn capacity(_: Staff, State(app): State<App>) -> Result<Answer<Capacity>> {
    let mut conn = app.db.acquire().await?;
    let workers = workers::capacity(&mut conn).await?;
    let live = live_counts::live_by_status(&mut conn).await?;
    let of = |status| live.iter().find(|(counted, _)| *counted == status).map_or(0, |(_, sessions)| *sessions);
    Ok(Answer(Capacity {
        active_workers: workers.active,
        draining_workers: workers.draining,
        silent_workers: workers.silent,
        slots: workers.slots,
        free_slots: workers.free_slots,
        largest_worker_slots: workers.largest_worker_slots,
        creating_sessions: of(SessionStatus::Creating),
        ready_sessions: of(SessionStatus::Ready),
        busy_sessions: of(SessionStatus::Busy),
        waiting_creates: samples::gauge(&mut conn, samples::WAITING_CREATES).await?,
    }))
}

/// Drain of a worker
#[derive(Deserialize, ToSchema)]
#[schema(as = DrainWorker, example = json!({"reason": "upgrade of the kernel, ticket 4711", "deadline_seconds": 1800}))]
struct Drain {
    /// For the logs
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
    /// Seconds after which sessions that still live on the worker are ended; null for no deadline
    #[schema(minimum = 0, maximum = 2_592_000)]
    deadline_seconds: Option<i64>,
    /// Status that the caller saw, `active` or `draining`; the request is a 409 if it has changed
    from: Option<String>,
}

fn deadline(seconds: Option<i64>) -> Result<Option<Duration>, Invalid> {
    let Some(seconds) = seconds else { return Ok(None) };
    let deadline = u64::try_from(seconds).ok().map(Duration::from_secs).filter(|deadline| *deadline <= LONGEST_DRAIN);
    let message = || format!("must be 0 to {} seconds", LONGEST_DRAIN.as_secs());
    deadline.map(Some).ok_or_else(|| Invalid::field("deadline_seconds", message()))
}

/// Drain a worker
///
/// Stops placing sessions on the worker. Its live sessions continue until they end or the deadline passes. A draining worker can be given
/// another deadline.
#[utoipa::path(
    post, path = "/v1/admin/workers/{id}/drain", tag = "Staff", operation_id = "drainWorker",
    params(IdPath<WorkerId>), request_body = Drain,
    responses(
        (status = 200, description = "The worker", body = WorkerRow),
        Unauthorized, Body, NoWorker, OutOfPlace, Database,
    ),
)]
async fn drain(
    staff: Staff,
    State(app): State<App>,
    path: IdPath<WorkerId>,
    body: Unchecked<Drain>,
) -> Result<Answer<WorkerRow>> {
    let ((deadline, from), by) = body.check(|Drain { reason, deadline_seconds, from }| {
        let known = from.as_deref().is_none_or(|from| ["active", "draining"].contains(&from));
        let from = if known { Ok(from) } else { Err(Invalid::field("from", "must be active or draining")) };
        both(both(deadline(deadline_seconds), from), staff.because(&reason))
    })?;
    let id = path.id()?;
    let mut conn = app.db.acquire().await?;
    staff::drain(&mut conn, id, deadline, from.as_deref(), &by).await?;
    shown(&mut conn, id).await
}

/// Return a draining worker to service
///
/// Places sessions on the worker again. Fails for a worker that is stopping.
#[utoipa::path(
    post, path = "/v1/admin/workers/{id}/undrain", tag = "Staff", operation_id = "undrainWorker",
    params(IdPath<WorkerId>), request_body = ReasonBody,
    responses(
        (status = 200, description = "The worker", body = WorkerRow),
        Unauthorized, Body, NoWorker, OutOfPlace, Database,
    ),
)]
async fn undrain(State(app): State<App>, StaffAction { id, by }: StaffAction<WorkerId>) -> Result<Answer<WorkerRow>> {
    let returned = staff::undrain(&mut *app.db.acquire().await?, id, &by).await?;
    app.wait_queue.wake_next();
    Ok(Answer(returned.into()))
}

async fn shown(conn: &mut PgConnection, id: WorkerId) -> Result<Answer<WorkerRow>> {
    Ok(Answer(workers::find(conn, id).await?.ok_or_else(not_found::<WorkerId>)?.into()))
}
