//! Checks of saved proxies (contract: proxies 12 to 14). They run on workers, because sessions connect to the proxies
//! from there.

use std::sync::Arc;

use apalis::prelude::BoxDynError;
use kitfleet_domain::database::persist;
use kitfleet_domain::proxies::InUse;
use kitfleet_domain::proxies::checks::{self, Checked, WITHIN};
use kitfleet_jobs::proxies::CheckProxy;
use kitfleet_jobs::replies::{Work, notify_ended};
use tokio::time::timeout;

use crate::{Context, egress_routes};

pub(crate) async fn handle(job: CheckProxy, context: Arc<Context>) -> Result<(), BoxDynError> {
    let check = job.check;
    let take = || async { checks::take(&mut *context.db.acquire().await?, context.id, check).await };
    let Some(proxy) = persist("begin a check of a proxy", take).await? else { return Ok(()) };
    // A check that hangs is dropped with all its connections.
    let trying = timeout(WITHIN, Box::pin(check_proxy(&context, proxy)));
    let checked = match context.stopping.run_until_cancelled(trying).await {
        Some(Ok(checked)) => checked,
        Some(Err(_)) => Checked::unreachable("the check did not end in time"),
        None => Checked::unreachable("the worker that made the check was stopped"),
    };
    let finish = || async { checks::finish(&mut *context.db.acquire().await?, check, &checked).await };
    if let Some(channel) = persist("end a check of a proxy", finish).await? {
        notify_ended(&context.wakeups, &channel, Work::ProxyCheck(check));
    }
    Ok(())
}

async fn check_proxy(context: &Context, proxy: InUse) -> Checked {
    let upstream = match egress_routes::upstream(proxy, &context.opener) {
        Ok(upstream) => upstream,
        Err(error) => return Checked::unreachable(error.to_string()),
    };
    let probes = context.config.probing.as_ref().map(|probing| &probing.probes);
    match kitfleet_egress::check(upstream, context.browsers.rules(), probes).await {
        Ok(found) => Checked {
            reachable: true,
            latency_ms: u64::try_from(found.latency.as_millis()).ok(),
            exit_address: found.exit_address,
            capabilities: found.capabilities.and_then(|capabilities| serde_json::to_value(capabilities).ok()),
            error: None,
        },
        Err(fault) => Checked::unreachable(fault.to_string()),
    }
}
