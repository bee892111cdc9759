//! Source of a request, for the audit log and the rate limits.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use ipnet::IpNet;
use kitfleet_domain::audit::Origin;
use kitfleet_domain::networks::Network;

use crate::http::connections::subscriber;
use crate::http::rate_limits::Key;
use crate::http::state::App;

/// Address of the peer of the connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

#[derive(Debug)]
pub struct ClientInfo {
    pub ip: Option<IpAddr>,
    pub user_agent: Option<String>,
}

impl ClientInfo {
    pub fn of(parts: &Parts, app: &App) -> Self {
        Self { ip: address(parts, &app.config.trusted_proxies), user_agent: user_agent(&parts.headers) }
    }

    pub fn origin(&self) -> Origin {
        Origin { ip_address: self.ip.map(|ip| ip.to_string()), user_agent: self.user_agent.clone() }
    }

    /// For limits that all addresses of a network share.
    pub fn network(&self) -> Key {
        let network = self.ip.map(|ip| Network::of(ip).to_string());
        Key::from(network.unwrap_or_default().as_str())
    }
}

impl FromRequestParts<App> for ClientInfo {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(Self::of(parts, app))
    }
}

/// Clients without an address share one count.
impl From<&ClientInfo> for Key {
    fn from(client: &ClientInfo) -> Self {
        let place = client.ip.map(|ip| subscriber(ip).to_string());
        Self::from(place.unwrap_or_default().as_str())
    }
}

/// The peer or, behind trusted proxies, the address that they report.
fn address(parts: &Parts, trusted: &[IpNet]) -> Option<IpAddr> {
    let Peer(peer) = parts.extensions.get()?;
    Some(behind_proxies(peer.to_canonical(), &parts.headers, trusted))
}

/// Each proxy appends the address of its caller. From the right, the first address that is not a trusted proxy is the client.
/// Entries further left can be forged.
fn behind_proxies(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    let hops = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<_> = hops.flat_map(|line| line.split(',')).map(str::trim).collect();
    let mut client = peer;
    for hop in hops.into_iter().rev() {
        if !is_trusted(&client) {
            break;
        }
        let Ok(address) = hop.parse::<IpAddr>() else { break };
        client = address.to_canonical();
    }
    client
}

/// Cut to a reasonable length.
fn user_agent(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(axum::http::header::USER_AGENT)?;
    Some(String::from_utf8_lossy(value.as_bytes()).chars().take(512).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, forwarded: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", line.parse().expect("a header value"));
        }
        let trusted = ["10.0.0.0/8".parse().expect("a prefix")];
        behind_proxies(peer.parse().expect("an address"), &headers, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_set_the_client_address() {
        assert_eq!(seen("10.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(seen("203.0.113.9", &["198.51.100.7"]), "203.0.113.9");
        assert_eq!(seen("10.0.0.1", &["1.2.3.4, 198.51.100.7, 10.0.0.2"]), "198.51.100.7");
        assert_eq!(seen("10.0.0.1", &["1.2.3.4", "198.51.100.7"]), "198.51.100.7");
        assert_eq!(seen("10.0.0.1", &["10.0.0.3"]), "10.0.0.3");
        assert_eq!(seen("10.0.0.1", &["1.2.3.4, nonsense"]), "10.0.0.1");
        assert_eq!(seen("10.0.0.1", &[]), "10.0.0.1");
    }
}
