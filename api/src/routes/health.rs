//! Whether the process lives, and whether it can serve.

use std::path::Path;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::database::{self, SchemaState};
use kitfleet_domain::encryption_key::KeyStatus;
use kitfleet_domain::machine::Room;
use kitfleet_domain::validation::Invalid;
use kitfleet_domain::workers::{self, Standing};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::error::{Problem, Result};
use crate::http::lists::Query;
use crate::http::openapi::{Database, InvalidQuery, one_of};
use crate::http::routing::Routes;
use crate::http::state::App;

/// A disk with less is as good as full: a few captures, or a segment of the database's log, take the rest.
const LEAST_FREE_BYTES: u64 = 64 * 1024 * 1024;

/// The state of the workers when none is alive.
const NO_WORKER: &str = "none";

pub fn routes() -> Routes {
    Routes::new().public(routes!(alive)).public(routes!(ready))
}

/// The process lives
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
struct Alive {
    #[schema(example = "ok")]
    status: &'static str,
}

/// The process can serve
#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
struct Ready {
    #[schema(example = "ok")]
    status: &'static str,
    #[schema(example = "ok")]
    database: &'static str,
    #[schema(example = "ok")]
    migrations: &'static str,
    /// `ok` when a worker takes sessions; `draining` when those that have browsers take no more; `no_driver` when none has browsers;
    /// `no_room` when their disks or their memory are nearly full; `none` when no worker is alive
    #[schema(schema_with = standing)]
    workers: &'static str,
    /// `ok` when the present key is the deployment's; `retired` when a retired key of this process is; `none` when no key is configured and
    /// nothing is sealed with one.
    /// With `missing` or `wrong` the process is not ready, and the 503 has this member
    #[schema(schema_with = key_status)]
    encryption_key: KeyStatus,
}

/// What a caller asks readiness for
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Serving sessions, which takes a live worker
    Sessions,
    /// Answering requests
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

fn standing() -> RefOr<Schema> {
    one_of(&[Standing::NAMES, &[NO_WORKER]].concat(), None)
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

/// Liveness
///
/// Asks nothing but the process itself.
#[utoipa::path(
    get, path = "/healthz", tag = "Operations", operation_id = "getHealth",
    responses((status = 200, description = "It lives", body = Alive)),
)]
async fn alive() -> Answer<Alive> {
    Answer(Alive { status: "ok" })
}

/// Readiness
///
/// Checks the database, its migrations, the encryption key, that a worker is alive, and that the disk has room. With `for=api` a process without a live
/// worker is ready, too: a load balancer would otherwise take all API processes away while no worker runs.
#[utoipa::path(
    get, path = "/readyz", tag = "Operations", operation_id = "getReadiness",
    params(("for" = Option<String>, Query, description = "`api`: without a live worker, too", example = "api")),
    responses((status = 200, description = "It can serve", body = Ready), InvalidQuery, Database),
)]
async fn ready(State(app): State<App>, query: Query) -> Result<Answer<Ready>> {
    let audience = query.parsed("for", Audience::parse)?.unwrap_or(Audience::Sessions);
    // In a task, so that the time limit leaves the connection's use to end by itself.
    let check = tokio::spawn(check(app.clone()));
    let found = match tokio::time::timeout(Duration::from_secs(2), check).await {
        Ok(Ok(Ok(found))) => found,
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "not ready");
            Err("the database is unavailable".into())
        }
        Ok(Err(_)) | Err(_) => Err("the database, or the disk, does not answer".into()),
    };
    match found {
        Ok((None, _)) if audience == Audience::Sessions => Err(Problem::unavailable_for_now("no worker is alive")),
        Ok((workers, encryption_key)) => Ok(Answer(Ready {
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

/// Whether the disk that holds `folder` has no room for what is written there. A folder that was not made yet holds nothing.
fn is_full(folder: &Path) -> bool {
    Room::on(folder).is_ok_and(|room| room.is_below(LEAST_FREE_BYTES))
}

/// State of the workers that are alive and status of the encryption key, or the reason why the process is not ready.
async fn check(app: App) -> sqlx::Result<Result<(Option<Standing>, KeyStatus), NotReady>> {
    let data_dir = app.config.data_dir.clone();
    // The disk may be one that does not answer. It comes first, because it is why a database that lies on it fails.
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
    Ok(Ok((workers::standing(&mut conn).await?, key)))
}
