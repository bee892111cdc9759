//! Whether a saved proxy works. A worker tries it, from where sessions leave; this process dials nothing.

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::ids::{ProxyCheckId, ProxyId};
use kitfleet_domain::proxies;
use kitfleet_domain::proxies::checks::{self, HEARD_WITHIN, Standing};
use kitfleet_domain::workers;
use kitfleet_jobs::proxies::{CheckProxy, enqueue_untold, wake};
use kitfleet_jobs::replies::{Work, WorkWaiter};
use tokio::time::Instant;
use utoipa_axum::routes;

use super::wire::ProxyCheck;
use super::{proxy_in_use, sealed_elsewhere};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::Unused;
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
/// A worker connects to it and through it, as a session would, and says what came of it within 20 seconds. An account checks one at a
/// time.
#[utoipa::path(
    post, path = "/v1/account/me/proxies/{id}/check", tag = "Proxies", operation_id = "checkProxy",
    params(IdPath<ProxyId>),
    responses((status = 200, description = "What came of it", body = ProxyCheck), Restricted, NoProxy, CheckingProxy, RateLimited),
)]
async fn check(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProxyId>,
    _body: Unused,
) -> Result<Answer<ProxyCheck>> {
    // Whoever tries out hosts and ports would otherwise have a fast scanner.
    app.rate_limits.check(Bucket::ProxyCheck, caller.account_id.to_string().as_str()).await?;
    let check = ProxyCheckId::generate();
    let waiter = app.replies.expect_end(Work::ProxyCheck(check));
    begin(&app, &caller, check, path.id()?).await?;
    let checked = wait(&app, check, waiter).await;
    checks::forget(&mut *app.db.acquire().await?, check).await?;
    Ok(Answer(checked?))
}

/// Gives a worker the check.
async fn begin(app: &App, caller: &Caller, check: ProxyCheckId, proxy: ProxyId) -> Result<()> {
    let account = caller.account_id;
    let mut tx = app.db.begin().await?;
    let proxy = proxies::hold(&mut tx, account, proxy).await?.ok_or_else(not_found::<ProxyId>)?;
    if let Some(user) = proxies::would_rob(&mut tx, &proxy).await? {
        return Err(proxy_in_use(&"a live session leaves through it, from which a check would take its packets", user));
    }
    let secrets = proxy.open(app.vault()?).map_err(sealed_elsewhere)?;
    let no_worker = || Problem::new(&kinds::DRIVER_NOT_INTEGRATED, "no worker is there");
    let worker = workers::any(&mut tx).await?.ok_or_else(no_worker)?;
    let reply = app.replies.address(&caller.request_id);
    if !checks::begin(&mut tx, account, check, (&proxy, &secrets), &worker, reply.channel).await? {
        return Err(Problem::new(&kinds::CONFLICT, "another check of this account is under way"));
    }
    enqueue_untold(&mut tx, &CheckProxy { worker: worker.id, check }).await?;
    tx.commit().await?;
    wake(&app.wakeups, worker.id);
    Ok(())
}

/// What came of it.
async fn wait(app: &App, check: ProxyCheckId, waiter: WorkWaiter) -> Result<ProxyCheck> {
    let deadline = Instant::now() + HEARD_WITHIN;
    loop {
        let patient = waiter.told().await && Instant::now() < deadline;
        match checks::standing(&mut *app.db.acquire().await?, check).await? {
            Standing::Done(checked) => return Ok(checked.into()),
            Standing::UnderWay if patient => {}
            Standing::UnderWay => return Err(Problem::unavailable_for_now("nothing was heard of the check in time")),
            Standing::Lost => return Err(Problem::unavailable_for_now("the worker that made the check is gone")),
        }
    }
}
