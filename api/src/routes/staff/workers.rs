//! Workers: staff can list and drain them.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::ids::WorkerId;
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_domain::validation::{Invalid, both};
use kitfleet_domain::workers::{self, LONGEST_DRAIN};
use kitfleet_jobs::staff;
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
    Routes::new().for_staff(routes!(list)).for_staff(routes!(get)).for_staff(routes!(drain)).for_staff(routes!(undrain))
}

/// Worker process
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "wrk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "name": "eu-1", "status": "active", "driver": "webkit",
    "live_sessions": 3, "max_sessions": 8, "started_at": "2026-11-20T18:05:00.123Z",
    "last_seen_at": "2026-11-20T18:06:00.123Z", "drain_by": null, "version": "0.1.0", "is_sandboxed": true,
    "free_disk_bytes": 53_687_091_200_i64, "free_memory_bytes": 6_442_450_944_i64,
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
            version: worker.version,
            is_sandboxed: worker.is_sandboxed,
            free_disk_bytes: worker.free_disk_bytes,
            free_memory_bytes: worker.free_memory_bytes,
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
    let (deadline, by) =
        body.check(|Drain { reason, deadline_seconds }| both(deadline(deadline_seconds), staff.because(&reason)))?;
    let id = path.id()?;
    let mut conn = app.db.acquire().await?;
    staff::drain(&mut conn, id, deadline, &by).await?;
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
    app.line.look();
    Ok(Answer(returned.into()))
}

async fn shown(conn: &mut PgConnection, id: WorkerId) -> Result<Answer<WorkerRow>> {
    Ok(Answer(workers::find(conn, id).await?.ok_or_else(not_found::<WorkerId>)?.into()))
}
