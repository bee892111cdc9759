//! Saved proxies, as a worker uses them: what a session or a check leaves through, and checks (contract: proxies 12 to 14), which are made
//! where sessions leave.

use std::sync::Arc;
use std::time::Instant;

use apalis::prelude::BoxDynError;
use kitfleet_domain::database::persist;
use kitfleet_domain::proxies::checks::{self, Checked, WITHIN};
use kitfleet_domain::proxies::{InUse, Scheme, Secrets};
use kitfleet_egress::{Credentials, Proxy, Upstream, Way};
use kitfleet_jobs::proxies::CheckProxy;
use kitfleet_jobs::replies::{Work, tell_of_end};
use tokio::time::timeout;

use crate::Context;

pub(crate) async fn handle(job: CheckProxy, context: Arc<Context>) -> Result<(), BoxDynError> {
    let check = job.check;
    let take = || async { checks::take(&mut *context.db.acquire().await?, context.id, check).await };
    let Some(proxy) = persist("begin a check of a proxy", take).await? else { return Ok(()) };
    // What hangs is dropped, with every connection that it has.
    let trying = timeout(WITHIN, try_out(&context, proxy));
    let checked = match context.stopping.run_until_cancelled(trying).await {
        Some(Ok(checked)) => checked,
        Some(Err(_)) => Checked::unreachable("nothing came of it in time"),
        None => Checked::unreachable("the worker that made the check was told to stop"),
    };
    let finish = || async { checks::finish(&mut *context.db.acquire().await?, check, &checked).await };
    if let Some(channel) = persist("end a check of a proxy", finish).await? {
        tell_of_end(&context.wakeups, &channel, Work::ProxyCheck(check));
    }
    Ok(())
}

async fn try_out(context: &Context, proxy: InUse) -> Checked {
    let upstream = match proxy.open(&context.opener) {
        Ok(secrets) => upstream(proxy, secrets),
        Err(error) => return Checked::unreachable(error.to_string()),
    };
    let began = Instant::now();
    match Way::open(upstream, context.browsers.rules()).await {
        Ok(_) => Checked {
            reachable: true,
            latency_ms: Some(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)),
            exit_address: None,
            capabilities: None,
            error: None,
        },
        Err(fault) => Checked::unreachable(fault.to_string()),
    }
}

fn upstream(proxy: InUse, secrets: Secrets) -> Upstream {
    let Secrets { password, .. } = secrets;
    let InUse { scheme, host, port, username, .. } = proxy;
    let credentials = username.map(|username| Credentials { username, password: password.unwrap_or_default() });
    let proxy = Proxy { host, port, credentials };
    match scheme {
        Scheme::Socks5 => Upstream::Socks5(proxy),
        _ => Upstream::Http(proxy),
    }
}
