//! Whether the process lives, and whether it can serve.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::machine::Room;
use kitfleet_domain::{database, workers};
use serde::Serialize;
use sqlx::PgPool;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::error::{Problem, Result};
use crate::http::openapi::Database;
use crate::http::routing::Routes;
use crate::http::state::App;

/// A disk with less is as good as full: a few captures, or a segment of the database's log, take the rest.
const LEAST_FREE_BYTES: u64 = 64 * 1024 * 1024;

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
    #[schema(example = "ok")]
    workers: &'static str,
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
/// Asks for the database, its migrations, a live worker, and room on the disk.
#[utoipa::path(
    get, path = "/readyz", tag = "Operations", operation_id = "getReadiness",
    responses((status = 200, description = "It can serve", body = Ready), Database),
)]
async fn ready(State(app): State<App>) -> Result<Answer<Ready>> {
    // In a task, so that the time limit leaves the connection's use to end by itself.
    let check = tokio::spawn(check(app.db.clone(), app.config.data_dir.clone()));
    let missing = match tokio::time::timeout(Duration::from_secs(2), check).await {
        Ok(Ok(Ok(missing))) => missing,
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "not ready");
            Some("the database is unavailable")
        }
        Ok(Err(_)) | Err(_) => Some("the database, or the disk, does not answer"),
    };
    match missing {
        None => Ok(Answer(Ready { status: "ok", database: "ok", migrations: "ok", workers: "ok" })),
        Some(missing) => Err(Problem::unavailable_for_now(missing)),
    }
}

/// Whether the disk that holds `folder` has no room for what is written there. A folder that was not made yet holds nothing.
fn is_full(folder: &Path) -> bool {
    Room::on(folder).is_ok_and(|room| room.is_below(LEAST_FREE_BYTES))
}

async fn check(db: PgPool, data_dir: PathBuf) -> sqlx::Result<Option<&'static str>> {
    // The disk may be one that does not answer. It comes first, because it is why a database that lies on it fails.
    if tokio::task::spawn_blocking(move || is_full(&data_dir)).await.unwrap_or(false) {
        return Ok(Some("the disk of data_dir is full"));
    }
    let mut conn = db.acquire().await?;
    if !database::is_migrated(&mut conn).await? {
        return Ok(Some("the database lacks migrations; run kitfleet migrate"));
    }
    if !workers::any_alive(&mut conn).await? {
        return Ok(Some("no worker is alive"));
    }
    Ok(None)
}
