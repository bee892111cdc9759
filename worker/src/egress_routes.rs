//! Egress route of a session: direct, or only through the proxy that its agent session names.
//!
//! The proxy's secrets exist here and in the route, for as long as the session's actor or its browser holds the route.
//! The actor therefore repeats the measurement of the proxy. A job would need the secrets as well.

use std::sync::Arc;

use kitfleet_domain::database::{begin, persist};
use kitfleet_domain::proxies::{self, InUse, Scheme};
use kitfleet_domain::sealing::Opener;
use kitfleet_domain::sessions::capabilities;
use kitfleet_egress::{Credentials, EgressRoute, Fault, Measured, Proxy, Upstream, openvpn, wireguard};
use kitfleet_types::ids::SessionId;
use kitfleet_types::operations::{Failure, FailureClass};
use tokio::time::{Instant, interval_at};

use crate::Context;

/// The text contains no secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoEgressRoute {
    #[error("the stored settings of the proxy cannot be read")]
    Unreadable,
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("the session's proxy cannot be looked up")]
    Database(#[from] sqlx::Error),
}

impl From<NoEgressRoute> for Failure {
    fn from(error: NoEgressRoute) -> Self {
        if let NoEgressRoute::Database(error) = &error {
            tracing::error!(%error, "cannot look up the proxy of a session");
        }
        Self { class: FailureClass::Driver, detail: format!("The session has no egress route: {error}.") }
    }
}

/// Never the direct route.
pub(crate) async fn open(context: &Context, session: SessionId) -> Result<EgressRoute, NoEgressRoute> {
    let look_up = || async { proxies::of_session(&mut *context.db.acquire().await?, session).await };
    let proxy = persist("look up a session's proxy", look_up).await?.ok_or(sqlx::Error::RowNotFound)?;
    Ok(EgressRoute::open(upstream(proxy, &context.opener)?, context.browsers.rules()).await?)
}

pub(crate) fn upstream(proxy: InUse, opener: &Opener) -> Result<Upstream, NoEgressRoute> {
    let secrets = proxy.open(opener).map_err(|_| NoEgressRoute::Unreadable)?;
    let password = secrets.password;
    let credentials = proxy.username.map(|username| Credentials { username, password: password.unwrap_or_default() });
    let config = || secrets.config.as_deref().ok_or(NoEgressRoute::Unreadable);
    let (host, port) = (proxy.host, proxy.port);
    Ok(match proxy.scheme {
        Scheme::Socks5 => Upstream::Socks5(Proxy { host, port, credentials }),
        Scheme::Http => Upstream::Http(Proxy { host, port, credentials }),
        Scheme::Wireguard => {
            Upstream::WireGuard(Box::new(wireguard::Config::parse(config()?).map_err(|_| NoEgressRoute::Unreadable)?))
        }
        Scheme::Openvpn => {
            let profile = openvpn::Profile::parse(config()?).map_err(|_| NoEgressRoute::Unreadable)?;
            Upstream::OpenVpn(Box::new(profile), credentials)
        }
    })
}

/// Only if the deployment measures proxies (contract: egress 17).
pub(crate) async fn measure(context: &Context, route: &EgressRoute) -> Result<Option<Measured>, NoEgressRoute> {
    match &context.config.probing {
        Some(probing) => Ok(route.measure(&probing.probes).await?),
        None => Ok(None),
    }
}

/// Reports them only when they have changed.
pub(crate) async fn report(context: &Context, session: SessionId, measured: &Measured) -> Result<(), NoEgressRoute> {
    let report = || async {
        let mut tx = begin(&context.db).await?;
        let capabilities = serde_json::to_value(&measured.capabilities);
        let capabilities = capabilities.map_err(|error| sqlx::Error::Encode(error.into()))?;
        capabilities::report(&mut tx, session, &capabilities, &measured.report).await?;
        tx.commit().await
    };
    Ok(persist("record the measurement of a session's proxy", report).await?)
}

/// Measures a session's proxy at each interval until the future is dropped.
pub(crate) async fn keep_measuring(context: Arc<Context>, session: SessionId, route: Arc<EgressRoute>) {
    let Some(probing) = &context.config.probing else { return };
    let mut ticks = interval_at(Instant::now() + probing.interval, probing.interval);
    loop {
        ticks.tick().await;
        match measure(&context, &route).await {
            Ok(Some(measured)) => {
                if let Err(error) = report(&context, session, &measured).await {
                    tracing::warn!(%error, %session, "cannot record the measurement of a session's proxy");
                }
            }
            Ok(None) => return,
            // A proxy that cannot be reached now keeps its last known capabilities.
            Err(error) => tracing::debug!(%error, %session, "cannot measure a session's proxy"),
        }
    }
}
