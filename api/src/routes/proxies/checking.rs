//! Checks of saved proxies. A worker makes the connection, because sessions run on workers; the API process opens none.

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::proxies;
use kitfleet_domain::proxies::checks::{self, CheckStatus, RESULT_WITHIN};
use kitfleet_domain::workers;
use kitfleet_jobs::proxies::{CheckProxy, enqueue_without_wakeup, wake};
use kitfleet_jobs::replies::{Work, WorkWaiter};
use kitfleet_types::ids::{ProxyCheckId, ProxyId};
use tokio::time::Instant;
use utoipa_axum::routes;

use super::wire::ProxyCheck;
use super::{proxy_in_use, sealed_elsewhere};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::IgnoredBody;
use crate::http::kinds;
use crate::http::openapi::{CheckingProxy, NoProxy, RateLimited, Restricted};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

pub fn routes() -> Routes {
    Routes::new().allow(OWN_ACCOUNT, routes!(check))
}

/// Check a saved proxy
///
/// A worker connects to the proxy and through it, as a session would, and reports the result within 20 s. An account can run one
/// check at a time.
#[utoipa::path(
    post, path = "/v1/account/me/proxies/{id}/check", tag = "Proxies", operation_id = "checkProxy",
    params(IdPath<ProxyId>),
    responses((status = 200, description = "The result of the check", body = ProxyCheck), Restricted, NoProxy, CheckingProxy, RateLimited),
)]
async fn check(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProxyId>,
    _body: IgnoredBody,
) -> Result<Answer<ProxyCheck>> {
    // Without this limit, a caller could use checks as a fast port scanner.
    app.rate_limits.check(Bucket::ProxyCheck, caller.account_id.to_string().as_str()).await?;
    let check = ProxyCheckId::generate();
    let waiter = app.replies.expect_end(Work::ProxyCheck(check));
    begin(&app, &caller, check, path.id()?).await?;
    let checked = wait(&app, check, waiter).await;
    checks::forget(&mut *app.db.acquire().await?, check).await?;
    Ok(Answer(checked?))
}

/// Assigns the check to a worker.
async fn begin(app: &App, caller: &Caller, check: ProxyCheckId, proxy: ProxyId) -> Result<()> {
    let account = caller.account_id;
    let mut tx = app.db.begin().await?;
    let proxy = proxies::hold(&mut tx, account, proxy).await?.ok_or_else(not_found::<ProxyId>)?;
    if let Some(user) = proxies::session_with_same_key(&mut tx, &proxy).await? {
        return Err(proxy_in_use(&"a live session uses the proxy, and a check would divert its packets", user));
    }
    let secrets = proxy.open(app.vault()?).map_err(sealed_elsewhere)?;
    let no_worker = || Problem::new(&kinds::DRIVER_NOT_INTEGRATED, "no worker is available");
    let worker = workers::any(&mut tx).await?.ok_or_else(no_worker)?;
    let reply = app.replies.address(&caller.request_id);
    if !checks::begin(&mut tx, account, check, (&proxy, &secrets), &worker, reply.channel).await? {
        return Err(Problem::new(&kinds::CONFLICT, "another check of this account is in progress"));
    }
    enqueue_without_wakeup(&mut tx, &CheckProxy { worker: worker.id, check }).await?;
    tx.commit().await?;
    wake(&app.wakeups, worker.id);
    Ok(())
}

/// Waits for the result of the check.
async fn wait(app: &App, check: ProxyCheckId, waiter: WorkWaiter) -> Result<ProxyCheck> {
    let deadline = Instant::now() + RESULT_WITHIN;
    loop {
        let patient = waiter.changed().await && Instant::now() < deadline;
        match checks::check_status(&mut *app.db.acquire().await?, check).await? {
            CheckStatus::Done(checked) => return Ok(checked.into()),
            CheckStatus::UnderWay if patient => {}
            CheckStatus::UnderWay => return Err(Problem::unavailable_for_now("the check did not finish in time")),
            CheckStatus::Lost => return Err(Problem::unavailable_for_now("the worker that ran the check is gone")),
        }
    }
}
