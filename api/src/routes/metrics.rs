//! Prometheus metrics for the operator's scraper (contract: operators 3).

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use kitfleet_domain::sessions::live_counts;
use kitfleet_domain::webhooks::reminders;
use kitfleet_domain::{byok, database, workers};
use kitfleet_jobs::{inspect, maintenance};
use subtle::ConstantTimeEq;
use utoipa_axum::routes;

use crate::http::auth::bearer_token;
use crate::http::error::{Problem, Result};
use crate::http::metrics::DeploymentState;
use crate::http::openapi::{Database, Unauthorized};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::{kinds, metrics};

/// Timeout of the database and Redis probes of a scrape.
const PROBED_WITHIN: Duration = Duration::from_secs(2);

pub fn routes() -> Routes {
    Routes::new().with_metrics_token(routes!(scrape))
}

/// Get the operator metrics
///
/// Returns the text exposition format to a scraper that presents the deployment's metrics token. Counters restart at zero with
/// the process.
#[utoipa::path(
    get, path = "/metrics", tag = "Operations", operation_id = "getMetrics",
    responses(
        (status = 200, description = "The metrics", body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"),
        Unauthorized, Database,
    ),
)]
async fn scrape(State(app): State<App>, headers: HeaderMap) -> Result<Response> {
    let Some(token) = app.config.metrics_token.as_deref().filter(|token| !token.is_empty()) else {
        return Err(Problem::new(&kinds::FEATURE_UNAVAILABLE, "this deployment has no metrics token configured"));
    };
    let given = headers.get(AUTHORIZATION).and_then(bearer_token);
    if !given.is_some_and(|given| given.as_bytes().ct_eq(token.as_bytes()).into()) {
        return Err(Problem::unauthorized("the metrics token is missing or wrong"));
    }
    metrics::note_pool(app.db.num_idle(), app.db.size());
    let (is_read, redis_answers) = tokio::join!(refresh_in_time(app.clone()), redis_answers(app.config.redis.as_ref()));
    metrics::note_reachable(is_read, redis_answers);
    let scrape = app.metrics.render();
    let scrape = if is_read { scrape } else { metrics::without_the_databases(&scrape) };
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], scrape).into_response())
}

/// Returns whether Redis answers; `None` without Redis.
async fn redis_answers(redis: Option<&redis::Client>) -> Option<bool> {
    let ping = async {
        let mut connection = redis?.get_multiplexed_async_connection().await.ok()?;
        redis::cmd("PING").query_async::<String>(&mut connection).await.ok()
    };
    redis.is_some().then_some(tokio::time::timeout(PROBED_WITHIN, ping).await.is_ok_and(|answer| answer.is_some()))
}

/// Refreshes the gauges that are read from the database. Returns false when that failed or timed out.
async fn refresh_in_time(app: App) -> bool {
    // The task continues after the timeout, so that its use of the connection is not interrupted.
    match tokio::time::timeout(PROBED_WITHIN, tokio::spawn(refresh(app))).await {
        Ok(Ok(Ok(()))) => true,
        Ok(Ok(Err(error))) => {
            tracing::debug!(%error, "cannot read the state of the deployment");
            false
        }
        Ok(Err(_)) | Err(_) => false,
    }
}

/// Reads the gauges of the deployment from the database, and checks the encryption key of this process.
async fn refresh(app: App) -> sqlx::Result<()> {
    let mut conn = app.db.acquire().await?;
    metrics::note_encryption_key(app.check_encryption_key(&mut conn).await?);
    metrics::set_deployment_state(&DeploymentState {
        sessions: live_counts::live_by_status(&mut conn).await?,
        workers: workers::count_by_status(&mut conn).await?,
        slots: workers::slots(&mut conn).await?,
        backlogs: inspect::backlogs(&mut conn).await?,
        secrets: [
            ("byok_key", byok::oldest_key_seconds(&mut conn).await?),
            ("webhook_secret", reminders::oldest_secret_seconds(&mut conn).await?),
        ],
        clock_skew: database::clock_skew(&mut conn).await?,
    });
    for (chain, pending) in maintenance::pending_chains(&mut conn).await? {
        metrics::note_chain(chain, pending);
    }
    Ok(())
}
