//! The way out of a session: direct, or through the proxy that its agent session names, and then nowhere else.
//!
//! What the proxy's secrets are is known here and in the way that is made of them, for as long as the session's actor or its browser has
//! that. So it is the actor that has a proxy measured again, and no job: whoever took that would have to be given the secrets, too.

use std::sync::Arc;

use kitfleet_domain::database::{begin, persist};
use kitfleet_domain::ids::SessionId;
use kitfleet_domain::operations::{Failure, FailureClass};
use kitfleet_domain::proxies::{self, InUse, Scheme};
use kitfleet_domain::sealing::Opener;
use kitfleet_domain::sessions::capabilities;
use kitfleet_egress::{Credentials, EgressRoute, Fault, Measured, Proxy, Upstream, openvpn, wireguard};
use tokio::time::{Instant, interval_at};

use crate::Context;

/// Why a session has no way out. It says nothing of any secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoEgressRoute {
    /// What is kept of the proxy cannot be read.
    #[error("what is kept of the proxy cannot be read")]
    Unreadable,
    /// Nothing leads through it.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// What it is cannot be looked up.
    #[error("what the session leaves through cannot be looked up")]
    Database(#[from] sqlx::Error),
}

impl From<NoEgressRoute> for Failure {
    fn from(error: NoEgressRoute) -> Self {
        if let NoEgressRoute::Database(error) = &error {
            tracing::error!(%error, "cannot look up a session's proxy");
        }
        Self { class: FailureClass::Driver, detail: format!("The session has no way out: {error}.") }
    }
}

/// Opens the way out of a session that has a proxy. It is never direct.
pub(crate) async fn open(context: &Context, session: SessionId) -> Result<EgressRoute, NoEgressRoute> {
    let look_up = || async { proxies::of_session(&mut *context.db.acquire().await?, session).await };
    let proxy = persist("look up a session's proxy", look_up).await?.ok_or(sqlx::Error::RowNotFound)?;
    Ok(EgressRoute::open(upstream(proxy, &context.opener)?, context.browsers.rules()).await?)
}

/// What a saved proxy is, with its secrets.
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

/// What a session's proxy can do, if that is to be known (contract: egress 17).
pub(crate) async fn measure(context: &Context, way: &EgressRoute) -> Result<Option<Measured>, NoEgressRoute> {
    match &context.config.probing {
        Some(probing) => Ok(way.measure(&probing.probes).await?),
        None => Ok(None),
    }
}

/// Writes what a session's proxy can do, and tells of it when that is something else than before.
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

/// Measures a session's proxy again and again, for as long as somebody has this.
pub(crate) async fn keep_measuring(context: Arc<Context>, session: SessionId, way: Arc<EgressRoute>) {
    let Some(probing) = &context.config.probing else { return };
    let mut ticks = interval_at(Instant::now() + probing.interval, probing.interval);
    loop {
        ticks.tick().await;
        match measure(&context, &way).await {
            Ok(Some(measured)) => {
                if let Err(error) = report(&context, session, &measured).await {
                    tracing::warn!(%error, "cannot record the measurement of a session's proxy");
                }
            }
            Ok(None) => return,
            // What does not lead anywhere now can do what it could, for all that anybody knows.
            Err(error) => tracing::debug!(%error, "cannot measure a session's proxy"),
        }
    }
}
