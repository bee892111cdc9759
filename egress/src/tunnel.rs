//! Egress through a customer's tunnel, which also resolves names.

use std::net::SocketAddr;
use std::time::Duration;

use kitfleet_tunnels::{ConnectError, Credentials, Endpoint, OpenError, Stream, Tunnel, openvpn, wireguard};
use tokio::time::Instant;
use url::Host;

use crate::refusal::{Fault, Refusal};
use crate::rules::Rules;
use crate::target::Target;
use crate::upstream::UpstreamAddress;

/// Shared by all addresses of the server.
const OPENED_WITHIN: Duration = Duration::from_secs(10);

pub enum Plan {
    WireGuard(Box<wireguard::Config>),
    OpenVpn(Box<openvpn::Profile>, Option<Credentials>),
}

impl Plan {
    fn endpoint(&self) -> &Endpoint {
        match self {
            Self::WireGuard(config) => config.endpoint(),
            Self::OpenVpn(profile, _) => profile.endpoint(),
        }
    }

    async fn carry_out(&self, server: SocketAddr, within: Duration) -> Result<Tunnel, OpenError> {
        match self {
            Self::WireGuard(config) => config.open(server, within).await,
            Self::OpenVpn(profile, credentials) => profile.open(server, credentials.clone(), within).await,
        }
    }

    /// Tries the allowed addresses of the server in order; each attempt gets the remaining time divided by the number
    /// of addresses that are left. An error that the server reports ends the attempts, because all addresses belong to
    /// the same server.
    pub async fn open(&self, rules: &Rules) -> Result<Tunnel, Fault> {
        let deadline = Instant::now() + OPENED_WITHIN;
        let Endpoint { host, port } = self.endpoint();
        let addresses = UpstreamAddress::new(host.clone(), *port, rules).addresses(deadline).await?;
        let mut failed = OpenError::Unreachable;
        for (address, shares) in addresses.iter().rev().zip(1_u32..).collect::<Vec<_>>().into_iter().rev() {
            let share = deadline.saturating_duration_since(Instant::now()) / shares;
            match self.carry_out(*address, share).await {
                Ok(tunnel) => return Ok(tunnel),
                Err(error @ (OpenError::Unreachable | OpenError::TimedOut)) => failed = error,
                Err(error) => return Err(error.into()),
            }
        }
        Err(failed.into())
    }
}

pub async fn connect(tunnel: &Tunnel, target: &Target) -> Result<Stream, Refusal> {
    let connected = match &target.host {
        Host::Domain(name) => tunnel.connect_if(Host::Domain(name), target.port, Rules::permit_inside_tunnel).await,
        // `EgressRoute` has already checked addresses that the browser named.
        Host::Ipv4(address) => tunnel.connect(Host::Ipv4(*address), target.port).await,
        Host::Ipv6(address) => tunnel.connect(Host::Ipv6(*address), target.port).await,
    };
    connected.map_err(ConnectError::into)
}
