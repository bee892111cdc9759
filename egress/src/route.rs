//! The way out of one browser, chosen when its session opens.

use kitfleet_tunnels::Tunnel;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::direct::Direct;
use crate::http::Http;
use crate::probe::{self, Measured, Probes};
use crate::refusal::{Fault, Refusal};
use crate::rules::Rules;
use crate::socks5::Socks5;
use crate::target::Target;
use crate::tunnel::{self, Plan};
use crate::upstream::Upstream;

/// A way out. What was not opened as direct never leads anywhere but through what it was opened with.
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

/// A connection to a server, whatever it leads through.
pub type Connection = Box<dyn Stream>;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl EgressRoute {
    /// Out of this machine, to what `rules` permit.
    #[must_use]
    pub fn direct(rules: &Rules) -> Self {
        Self { kind: Kind::Direct(Direct::new(rules)), rules: rules.clone() }
    }

    /// Through what a customer brings, which answers and knows the customer. It takes ten seconds at most.
    ///
    /// # Errors
    /// When nothing leads through it.
    pub async fn open(upstream: Upstream, rules: &Rules) -> Result<Self, Fault> {
        let kind = match upstream {
            Upstream::Socks5(proxy) => {
                let proxy = Socks5::new(proxy, rules)?;
                proxy.greeted().await?;
                Kind::Socks5(proxy)
            }
            Upstream::Http(proxy) => {
                let proxy = Http::new(proxy, rules);
                proxy.greet().await?;
                Kind::Http(proxy)
            }
            Upstream::WireGuard(config) => Kind::WireGuard(Plan::WireGuard(config).open(rules).await?),
            Upstream::OpenVpn(profile, credentials) => {
                Kind::OpenVpn(Plan::OpenVpn(profile, credentials).open(rules).await?)
            }
        };
        Ok(Self { kind, rules: rules.clone() })
    }

    /// What a SOCKS 5 proxy can do, in four seconds at most; `None` of another way.
    ///
    /// # Errors
    /// When nothing leads through it.
    pub async fn measure(&self, probes: &Probes) -> Result<Option<Measured>, Fault> {
        match &self.kind {
            Kind::Socks5(proxy) => probe::measure(proxy, probes).await.map(Some),
            Kind::Direct(_) | Kind::Http(_) | Kind::WireGuard(_) | Kind::OpenVpn(_) => Ok(None),
        }
    }

    pub(crate) async fn connect(&self, target: &Target) -> Result<Connection, Refusal> {
        match &self.kind {
            Kind::Direct(direct) => Ok(Box::new(direct.connect(target).await?)),
            Kind::Socks5(proxy) => Ok(Box::new(proxy.connect(self.judged(target)?).await?)),
            Kind::Http(proxy) => proxy.connect(self.judged(target)?).await,
            Kind::WireGuard(tunnel) | Kind::OpenVpn(tunnel) => {
                Ok(Box::new(tunnel::connect(tunnel, self.judged(target)?).await?))
            }
        }
    }

    /// What may be asked of somebody else: no address that we would not dial ourselves, and no name for his own machine. What
    /// other names lead to is his to know.
    fn judged<'a>(&self, target: &'a Target) -> Result<&'a Target, Refusal> {
        let allowed = match target.address() {
            Some(address) => self.rules.permit_site(address),
            None => !target.is_localhost() || self.rules.permit_private_sites(),
        };
        if allowed { Ok(target) } else { Err(Refusal::NotAllowed) }
    }
}
