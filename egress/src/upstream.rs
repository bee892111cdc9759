//! What a customer brings to leave through, and where it is.
//!
//! A customer names a host, and so could name what is near us. Its name is looked up and its addresses are judged whenever it is
//! dialled, and exactly what was judged is dialled: a name that resolves differently the next time leads nowhere else.

use std::net::SocketAddr;

use kitfleet_tunnels::{Credentials, openvpn, wireguard};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use url::Host;

use crate::direct::{dial, permitted};
use crate::refusal::{Fault, Refusal};
use crate::rules::Rules;
use crate::target::Target;

/// What a customer brings.
pub enum Upstream {
    /// A SOCKS 5 proxy (RFC 1928, 1929), which looks names up.
    Socks5(Proxy),
    /// An HTTP proxy, which is asked to CONNECT (RFC 9110, 9.3.6).
    Http(Proxy),
    /// A `WireGuard` tunnel.
    WireGuard(Box<wireguard::Config>),
    /// An `OpenVPN` tunnel, and who its server is told that asks.
    OpenVpn(Box<openvpn::Profile>, Option<Credentials>),
}

/// A proxy that a customer brings.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// A name, or an address.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// Who it is told that asks.
    pub credentials: Option<Credentials>,
}

/// Where it is.
pub struct UpstreamAddress {
    target: Target,
    rules: Rules,
}

impl UpstreamAddress {
    pub fn new(host: Host, port: u16, rules: &Rules) -> Self {
        Self { target: Target { host, port }, rules: rules.clone() }
    }

    /// Where it may be dialled now.
    pub async fn addresses(&self, deadline: Instant) -> Result<Vec<SocketAddr>, Fault> {
        let found = match (self.target.address(), &self.target.host) {
            (None, Host::Domain(name)) => {
                let found = timeout_at(deadline, self.rules.names.addresses(name)).await;
                let found = found.map_err(|_| Fault::NameNotFound)?.map_err(|error| {
                    tracing::debug!(%error, "proxy host name does not resolve");
                    Fault::NameNotFound
                })?;
                found.into_iter().map(|address| SocketAddr::new(address, self.target.port)).collect()
            }
            (address, _) => Vec::from_iter(address),
        };
        permitted(found, |address| self.rules.permit_upstream(address)).map_err(fault)
    }

    pub async fn dial(&self, deadline: Instant) -> Result<TcpStream, Fault> {
        dial(&self.addresses(deadline).await?, deadline).await.map_err(fault)
    }
}

/// What dialling came to, when it was no site that was dialled.
fn fault(refusal: Refusal) -> Fault {
    match refusal {
        Refusal::NameNotFound => Fault::NameNotFound,
        Refusal::NotAllowed => Fault::NotAllowed,
        Refusal::Refused => Fault::Refused,
        Refusal::TimedOut => Fault::TimedOut,
        Refusal::Unreachable | Refusal::Unsupported | Refusal::Proxied(_) | Refusal::Tunnelled(_) => Fault::Unreachable,
        Refusal::Upstream(fault) => fault,
    }
}
