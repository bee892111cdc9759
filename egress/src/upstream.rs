//! A customer's proxy or tunnel, and its address.
//!
//! The customer names the host, which could be local to this machine. Its addresses are checked before each dial, and
//! exactly a checked address is dialled, so a later change of the name's addresses cannot bypass the check.

use std::net::SocketAddr;

use kitfleet_tunnels::{Credentials, openvpn, wireguard};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use url::Host;

use crate::direct::{dial, permitted};
use crate::refusal::{Fault, Refusal};
use crate::rules::Rules;
use crate::target::Target;

pub enum Upstream {
    /// RFC 1928, 1929. Resolves names.
    Socks5(Proxy),
    /// RFC 9110, 9.3.6.
    Http(Proxy),
    WireGuard(Box<wireguard::Config>),
    /// `OpenVPN` tunnel, and the credentials for its server.
    OpenVpn(Box<openvpn::Profile>, Option<Credentials>),
}

#[derive(Debug, Clone)]
pub struct Proxy {
    pub host: Host,
    pub port: u16,
    pub credentials: Option<Credentials>,
}

pub struct UpstreamAddress {
    target: Target,
    rules: Rules,
}

impl UpstreamAddress {
    pub fn new(host: Host, port: u16, rules: &Rules) -> Self {
        Self { target: Target { host, port }, rules: rules.clone() }
    }

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

fn fault(refusal: Refusal) -> Fault {
    match refusal {
        Refusal::NameNotFound => Fault::NameNotFound,
        Refusal::NotAllowed => Fault::NotAllowed,
        Refusal::Refused => Fault::Refused,
        Refusal::TimedOut => Fault::TimedOut,
        Refusal::Unreachable
        | Refusal::Offline
        | Refusal::Unsupported
        | Refusal::Proxied(_)
        | Refusal::Tunnelled(_) => Fault::Unreachable,
        Refusal::Upstream(fault) => fault,
    }
}
