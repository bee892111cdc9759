//! Measures a SOCKS 5 proxy: name resolution with a CONNECT by name, and UDP with a datagram through UDP ASSOCIATE.
//!
//! The datagram asks a QUIC server for an unknown version. Every QUIC server answers with the versions that it supports
//! (RFC 9000, 6.1), without state or cryptography, so this measures UDP to port 443.
//!
//! Datagrams go only to the address at which the proxy was dialled, whatever relay address the proxy reports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{new_udp_header, parse_udp_request};
use kitfleet_types::addresses::is_public;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::refusal::{Fault, ProxyReply, Refusal};
use crate::socks5::Socks5;
use crate::target::Target;

/// The measurements run concurrently.
const WITHIN: Duration = Duration::from_secs(4);

/// Datagrams may be lost.
const TRIES: usize = 3;
const ANSWERED_WITHIN: Duration = Duration::from_millis(700);

#[derive(Debug, Clone)]
pub struct Probes {
    pub site: Target,
    pub quic_site: Target,
    /// Plain HTTP; responds with the client's address.
    pub exit_url: Url,
}

/// Capabilities of a proxy, as sessions report them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    pub udp_associate: bool,
    /// Always TCP: the engine has no QUIC and the guard relays no datagrams.
    pub quic_route: &'static str,
    pub dns_remote_resolve: bool,
    pub warnings: Vec<&'static str>,
}

#[derive(Debug, Clone)]
pub struct Measured {
    pub capabilities: Capabilities,
    pub report: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Datagram {
    Answered,
    NotSupported,
    /// The proxy accepted the request.
    Silent,
    /// The relay is on another host.
    Elsewhere,
    Failed,
}

impl Datagram {
    fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::NotSupported => "not_supported",
            Self::Silent => "silent",
            Self::Elsewhere => "relay_elsewhere",
            Self::Failed => "failed",
        }
    }

    fn warning(self) -> Option<&'static str> {
        match self {
            Self::Answered | Self::NotSupported => None,
            Self::Silent => Some("the proxy reports a datagram relay, but none came back"),
            Self::Elsewhere => Some("the proxy names a datagram relay on another host, which is not used"),
            Self::Failed => Some("the proxy did not report whether it relays datagrams"),
        }
    }
}

pub async fn measure(proxy: &Socks5, probes: &Probes) -> Result<Measured, Fault> {
    let (named, datagram) =
        tokio::join!(timed(connect(proxy, &probes.site)), timed(datagram(proxy, &probes.quic_site)));
    let ((connected, connected_ms), (datagram, datagram_ms)) = (named, datagram);
    let datagram = datagram.unwrap_or(Datagram::Silent);
    let mut warnings = Vec::new();
    let outcome = match connected.unwrap_or(Err(ProxyReply::TimedOut.into())) {
        Ok(()) => "connected".to_owned(),
        // The proxy cannot be used at all.
        Err(Refusal::Upstream(fault)) => return Err(fault),
        Err(Refusal::Proxied(ProxyReply::Unsupported)) => {
            warnings.push("the proxy does not resolve names, so pages can be opened only by address");
            "names_not_supported".to_owned()
        }
        Err(refusal) => {
            warnings.push("the proxy did not reach the site of the probe by its name");
            refusal.to_string()
        }
    };
    warnings.extend(datagram.warning());
    let report = json!({
        "connect": {"target": probes.site.to_string(), "outcome": outcome, "ms": connected_ms},
        "datagram": {"target": probes.quic_site.to_string(), "outcome": datagram.name(), "ms": datagram_ms},
    });
    let capabilities = Capabilities {
        udp_associate: datagram == Datagram::Answered,
        quic_route: "tcp_fallback",
        dns_remote_resolve: outcome == "connected",
        warnings,
    };
    Ok(Measured { capabilities, report })
}

async fn timed<T>(measurement: impl Future<Output = T>) -> (Option<T>, u64) {
    let began = Instant::now();
    let outcome = timeout(WITHIN, measurement).await.ok();
    (outcome, u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
}

async fn connect(proxy: &Socks5, site: &Target) -> Result<(), Refusal> {
    proxy.connect(site).await.map(drop)
}

async fn datagram(proxy: &Socks5, site: &Target) -> Datagram {
    let (control, relay) = match proxy.associate().await {
        Ok((control, TargetAddr::Ip(relay))) => (control, relay),
        Ok((_, TargetAddr::Domain(..))) => return Datagram::Elsewhere,
        Err(Refusal::Proxied(ProxyReply::Unsupported | ProxyReply::NotAllowed | ProxyReply::Failed)) => {
            return Datagram::NotSupported;
        }
        Err(_) => return Datagram::Failed,
    };
    let Ok(own) = control.peer_addr() else { return Datagram::Failed };
    // An unspecified address, or a private one of a proxy behind a router, stands for the address at which it was dialled.
    let (own, reported) = (own.ip(), relay.ip().to_canonical());
    if reported != own.to_canonical() && is_public(reported) {
        return Datagram::Elsewhere;
    }
    exchange(SocketAddr::new(own, relay.port()), site).await.unwrap_or(Datagram::Failed)
}

async fn exchange(relay: SocketAddr, site: &Target) -> Option<Datagram> {
    let any: IpAddr = if relay.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await.ok()?;
    // A connected socket receives datagrams only from the relay.
    socket.connect(relay).await.ok()?;
    let (packet, asker) = unknown_version();
    let datagram = [new_udp_header(site.wire()).ok()?, packet].concat();
    let mut buffer = [0; 2048];
    for _ in 0..TRIES {
        // The error reports that an earlier datagram was rejected.
        if socket.send(&datagram).await.is_err() {
            continue;
        }
        let answered = async {
            loop {
                let length = socket.recv(&mut buffer).await.ok()?;
                if let Ok((0, _, answer)) = parse_udp_request(&buffer[..length]).await
                    && is_version_negotiation(answer, asker)
                {
                    return Some(());
                }
            }
        };
        if let Ok(Some(())) = timeout(ANSWERED_WITHIN, answered).await {
            return Some(Datagram::Answered);
        }
    }
    Some(Datagram::Silent)
}

/// An initial packet of a reserved version (RFC 9000, 15) with the required minimum length, and the client's connection
/// id.
fn unknown_version() -> (Vec<u8>, [u8; 8]) {
    const FIRST_PACKET_BYTES: usize = 1200;
    let (server, asker): ([u8; 8], [u8; 8]) = (rand::random(), rand::random());
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    packet.extend(server);
    packet.push(8);
    packet.extend(asker);
    packet.resize(FIRST_PACKET_BYTES, 0);
    (packet, asker)
}

/// RFC 9000, 17.2.1.
fn is_version_negotiation(packet: &[u8], asker: [u8; 8]) -> bool {
    matches!(packet, [first, 0, 0, 0, 0, 8, rest @ ..] if first & 0x80 != 0 && rest.starts_with(&asker))
}
