//! Out through a customer's tunnel, in which names are looked up, too.

use std::net::SocketAddr;
use std::time::Duration;

use kitfleet_tunnels::{ConnectError, Credentials, Endpoint, OpenError, Stream, Tunnel, openvpn, wireguard};
use tokio::time::Instant;
use url::Host;

use crate::refusal::{Fault, Refusal};
use crate::rules::Rules;
use crate::target::Target;
use crate::upstream::Place;

/// How long a tunnel may take to open, all the addresses of its server together.
const OPENED_WITHIN: Duration = Duration::from_secs(10);

/// Opens a `WireGuard` tunnel.
pub async fn wireguard(config: &wireguard::Config, rules: &Rules) -> Result<Tunnel, Fault> {
    opened(config.endpoint(), rules, async |server, within| config.open(server, within).await).await
}

/// Opens an `OpenVPN` tunnel.
pub async fn openvpn(
    profile: &openvpn::Profile,
    credentials: Option<Credentials>,
    rules: &Rules,
) -> Result<Tunnel, Fault> {
    let open = async |server, within| profile.open(server, credentials.clone(), within).await;
    opened(profile.endpoint(), rules, open).await
}

/// Tries one address of the server after the other, each of which may be dialled. The last one gets all the time that is left, the
/// one before it half, and so on. What a server says counts for all: they are one server's addresses.
async fn opened(
    endpoint: &Endpoint,
    rules: &Rules,
    open: impl AsyncFn(SocketAddr, Duration) -> Result<Tunnel, OpenError>,
) -> Result<Tunnel, Fault> {
    let deadline = Instant::now() + OPENED_WITHIN;
    let addresses = Place::new(endpoint.host.clone(), endpoint.port, rules).addresses(deadline).await?;
    let mut failed = OpenError::Unreachable;
    for (address, shares) in addresses.iter().zip((1..=u32::try_from(addresses.len()).unwrap_or(1)).rev()) {
        let share = deadline.saturating_duration_since(Instant::now()) / shares;
        match open(*address, share).await {
            Ok(tunnel) => return Ok(tunnel),
            Err(error @ (OpenError::Unreachable | OpenError::TimedOut)) => failed = error,
            Err(error) => return Err(error.into()),
        }
    }
    Err(failed.into())
}

/// Connects to a server behind the tunnel.
pub async fn connect(tunnel: &Tunnel, target: &Target) -> Result<Stream, Refusal> {
    let connected = match &target.host {
        Host::Domain(name) => tunnel.connect_if(Host::Domain(name), target.port, Rules::permit_inside_tunnel).await,
        // Judged before, as every address that a browser spells out.
        Host::Ipv4(address) => tunnel.connect(Host::Ipv4(*address), target.port).await,
        Host::Ipv6(address) => tunnel.connect(Host::Ipv6(*address), target.port).await,
    };
    connected.map_err(ConnectError::into)
}
