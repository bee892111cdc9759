//! Liveness and readiness of the process.

use std::path::Path;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::database::{self, SchemaState};
use kitfleet_domain::encryption_key::KeyStatus;
use kitfleet_domain::machine::DiskSpace;
use kitfleet_domain::workers::{self, WorkerStatus};
use kitfleet_types::validation::Invalid;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::error::{Problem, Result};
use crate::http::lists::Query;
use crate::http::openapi::{Database, InvalidQuery, one_of};
use crate::http::routing::Routes;
use crate::http::state::App;

/// Below this free space a disk counts as full: a few captures or a segment of the database's log would use up the rest.
const MIN_FREE_BYTES: u64 = 64 * 1024 * 1024;

/// Worker state if no worker is alive.
const NO_WORKER: &str = "none";

pub fn routes() -> Routes {
    Routes::new().public(routes!(alive)).public(routes!(ready))
}

/// The process is alive
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
struct Liveness {
    #[schema(example = "ok")]
    status: &'static str,
}

/// The process is ready
#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
struct Readiness {
    #[schema(example = "ok")]
    status: &'static str,
    #[schema(example = "ok")]
    database: &'static str,
    #[schema(example = "ok")]
    migrations: &'static str,
    /// `ok`: a worker accepts sessions. `draining`: the workers with browsers accept no more. `no_driver`: no worker has
    /// browsers. `no_room`: the disks or the memory of the workers are nearly full. `none`: no worker is alive
    #[schema(schema_with = workers_schema)]
    workers: &'static str,
    /// `ok`: the current key is the deployment's. `retired`: a retired key of this process is the deployment's. `none`: no key is
    /// configured, and nothing is sealed with one. With `missing` or `wrong` the process is not ready, and the 503 has this
    /// member
    #[schema(schema_with = key_status)]
    encryption_key: KeyStatus,
}

/// Requirement that readiness is checked against
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Serving sessions, which needs a live worker
    Sessions,
    /// Answering API requests
    Api,
}

impl Audience {
    fn parse(text: &str) -> std::result::Result<Self, Invalid> {
        match text {
            "api" => Ok(Self::Api),
            _ => Err(Invalid::field("for", "must be `api`")),
        }
    }
}

fn workers_schema() -> RefOr<Schema> {
    one_of(&[WorkerStatus::NAMES, &[NO_WORKER]].concat(), None)
}

fn key_status() -> RefOr<Schema> {
    one_of(KeyStatus::NAMES, None)
}

/// Reason why the process is not ready.
struct NotReady {
    detail: &'static str,
    encryption_key: Option<KeyStatus>,
}

impl From<&'static str> for NotReady {
    fn from(detail: &'static str) -> Self {
        Self { detail, encryption_key: None }
    }
}

/// Check liveness
///
/// Checks only the process itself.
#[utoipa::path(
    get, path = "/healthz", tag = "Operations", operation_id = "getHealth",
    responses((status = 200, description = "The process is alive", body = Liveness)),
)]
async fn alive() -> Answer<Liveness> {
    Answer(Liveness { status: "ok" })
}

/// Check readiness
///
/// Checks the database, its migrations, the encryption key, a live worker, and free disk space. With `for=api` no live worker is
/// needed. A load balancer should use it: without it, the load balancer would remove all API processes while no worker runs.
#[utoipa::path(
    get, path = "/readyz", tag = "Operations", operation_id = "getReadiness",
    params(("for" = Option<String>, Query, description = "`api`: ready even without a live worker", example = "api")),
    responses((status = 200, description = "The process is ready", body = Readiness), InvalidQuery, Database),
)]
async fn ready(State(app): State<App>, query: Query) -> Result<Answer<Readiness>> {
    let audience = query.parsed("for", Audience::parse)?.unwrap_or(Audience::Sessions);
    // A separate task, so that the timeout does not interrupt the use of the connection.
    let check = tokio::spawn(check(app.clone()));
    let found = match tokio::time::timeout(Duration::from_secs(2), check).await {
        Ok(Ok(Ok(found))) => found,
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "readiness check failed: the database is unavailable");
            Err("the database is unavailable".into())
        }
        Ok(Err(_)) | Err(_) => Err("the database or the disk does not respond".into()),
    };
    match found {
        Ok((None, _)) if audience == Audience::Sessions => Err(Problem::unavailable_for_now("no worker is alive")),
        Ok((workers, encryption_key)) => Ok(Answer(Readiness {
            status: "ok",
            database: "ok",
            migrations: "ok",
            workers: workers.map_or(NO_WORKER, Into::into),
            encryption_key,
        })),
        Err(NotReady { detail, encryption_key: None }) => Err(Problem::unavailable_for_now(detail)),
        Err(NotReady { detail, encryption_key: Some(status) }) => {
            Err(Problem::unavailable_for_now(detail).with("encryption_key", status))
        }
    }
}

/// True if the disk of `folder` is full. A folder that does not exist yet needs no space.
fn is_full(folder: &Path) -> bool {
    DiskSpace::on(folder).is_ok_and(|space| space.is_below(MIN_FREE_BYTES))
}

/// State of the workers that are alive and status of the encryption key, or the reason why the process is not ready.
async fn check(app: App) -> sqlx::Result<Result<(Option<WorkerStatus>, KeyStatus), NotReady>> {
    let data_dir = app.config.data_dir.clone();
    // A disk can hang. It is checked first, because a full disk also makes a database on it fail.
    if tokio::task::spawn_blocking(move || is_full(&data_dir)).await.unwrap_or(false) {
        return Ok(Err("the disk of data_dir is full".into()));
    }
    let mut conn = app.db.acquire().await?;
    if database::schema(&mut conn).await? == SchemaState::Older {
        return Ok(Err("the database lacks migrations; run kitfleet migrate".into()));
    }
    let key = app.check_encryption_key(&mut conn).await?;
    if !key.is_usable() {
        return Ok(Err(NotReady { detail: key.description(), encryption_key: Some(key) }));
    }
    Ok(Ok((workers::best_status(&mut conn).await?, key)))
}
