//! The egress route of one browser, chosen when its session opens.

use kitfleet_tunnels::Tunnel;

use crate::connection::Connection;
use crate::direct::Direct;
use crate::http::Http;
use crate::probe::{self, Measured, Probes};
use crate::refusal::{Fault, Refusal};
use crate::rules::Rules;
use crate::socks5::Socks5;
use crate::target::Target;
use crate::tunnel::{self, Plan};
use crate::upstream::Upstream;

/// A route through a proxy or tunnel never falls back to a direct connection.
pub struct EgressRoute {
    kind: Kind,
    rules: Rules,
}

enum Kind {
    Direct(Direct),
    Socks5(Socks5),
    Http(Http),
    WireGuard(Tunnel),
    OpenVpn(Tunnel),
}

impl EgressRoute {
    #[must_use]
    pub fn direct(rules: &Rules) -> Self {
        Self { kind: Kind::Direct(Direct::new(rules)), rules: rules.clone() }
    }

    /// The proxy or tunnel must answer and accept the credentials. Takes at most 10 s.
    pub async fn open(upstream: Upstream, rules: &Rules) -> Result<Self, Fault> {
        let kind = match upstream {
            Upstream::Socks5(proxy) => {
                let proxy = Socks5::new(proxy, rules)?;
                proxy.connect_and_log_in().await?;
                Kind::Socks5(proxy)
            }
            Upstream::Http(proxy) => {
                let proxy = Http::new(proxy, rules);
                proxy.check_login().await?;
                Kind::Http(proxy)
            }
            Upstream::WireGuard(config) => Kind::WireGuard(Plan::WireGuard(config).open(rules).await?),
            Upstream::OpenVpn(profile, credentials) => {
                Kind::OpenVpn(Plan::OpenVpn(profile, credentials).open(rules).await?)
            }
        };
        Ok(Self { kind, rules: rules.clone() })
    }

    /// Measures a SOCKS 5 proxy in at most 4 s. Returns `None` for other routes.
    pub async fn measure(&self, probes: &Probes) -> Result<Option<Measured>, Fault> {
        match &self.kind {
            Kind::Socks5(proxy) => probe::measure(proxy, probes).await.map(Some),
            Kind::Direct(_) | Kind::Http(_) | Kind::WireGuard(_) | Kind::OpenVpn(_) => Ok(None),
        }
    }

    pub(crate) async fn connect(&self, target: &Target) -> Result<Connection, Refusal> {
        match &self.kind {
            Kind::Direct(direct) => Ok(Box::new(direct.connect(target).await?)),
            Kind::Socks5(proxy) => Ok(Box::new(proxy.connect(self.check_target(target)?).await?)),
            Kind::Http(proxy) => proxy.connect(self.check_target(target)?).await,
            Kind::WireGuard(tunnel) | Kind::OpenVpn(tunnel) => {
                Ok(Box::new(tunnel::connect(tunnel, self.check_target(target)?).await?))
            }
        }
    }

    /// Rejects addresses that the guard would not dial directly, and names of the proxy's own machine. Other names are
    /// resolved behind the upstream and cannot be checked here.
    fn check_target<'a>(&self, target: &'a Target) -> Result<&'a Target, Refusal> {
        let allowed = match target.address() {
            Some(address) => self.rules.permit_site(address),
            None => !target.is_localhost() || self.rules.permit_private_sites(),
        };
        if allowed { Ok(target) } else { Err(Refusal::NotAllowed) }
    }
}
