//! What a SOCKS 5 proxy can do, measured: whether it resolves names, by a CONNECT by name, and whether datagrams pass, by one there
//! and back through UDP ASSOCIATE.
//!
//! The datagram asks a QUIC server for a version that nobody has, which every one answers with those that it has (RFC 9000, 6.1),
//! without state and without cryptography. So it measures what it is about: UDP to port 443.
//!
//! Whatever a proxy says of where its relay is, datagrams are sent to the address at which the proxy itself was dialled, or not at all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{new_udp_header, parse_udp_request};
use kitfleet_domain::addresses::is_public;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::refusal::{Fault, ProxyReply, Refusal};
use crate::socks5::Socks5;
use crate::target::Target;

/// How long each measurement may take. They are made side by side.
const WITHIN: Duration = Duration::from_secs(4);

/// Datagrams get lost: how often one is sent, and how long each is waited for.
const TRIES: usize = 3;
const ANSWERED_WITHIN: Duration = Duration::from_millis(700);

/// What is asked to see what a way out can do.
#[derive(Debug, Clone)]
pub struct Probes {
    /// A site with a name, that anybody may connect to.
    pub site: Target,
    /// A QUIC server.
    pub quic_site: Target,
    /// What answers, over plain HTTP, from which address it was asked.
    pub exit_url: Url,
}

/// What a proxy can do, as sessions tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Whether datagrams go through it.
    pub udp_associate: bool,
    /// How QUIC travels. The engine speaks none and the guard relays no datagrams, so that pages use TCP in any case.
    pub quic_route: &'static str,
    /// Whether it resolves names.
    pub dns_remote_resolve: bool,
    /// What may surprise.
    pub warnings: Vec<&'static str>,
}

/// What was measured of a proxy.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What it can do.
    pub capabilities: Capabilities,
    /// What was asked, and what came of it.
    pub report: Value,
}

/// What came of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Datagram {
    Answered,
    /// It relays none.
    NotSupported,
    /// It said yes, and then nothing came back.
    Silent,
    /// Its relay is on another host.
    Elsewhere,
    /// It said no sense, or nothing.
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
            Self::Silent => Some("the proxy relays datagrams by its own account, but none came back"),
            Self::Elsewhere => Some("the proxy names a relay of datagrams on another host, which is not used"),
            Self::Failed => Some("the proxy did not say whether it relays datagrams"),
        }
    }
}

/// Measures what a proxy can do.
pub async fn measure(proxy: &Socks5, probes: &Probes) -> Result<Measured, Fault> {
    let (named, datagram) =
        tokio::join!(timed(connect(proxy, &probes.site)), timed(datagram(proxy, &probes.quic_site)));
    let ((connected, connected_ms), (datagram, datagram_ms)) = (named, datagram);
    let datagram = datagram.unwrap_or(Datagram::Silent);
    let mut warnings = Vec::new();
    let outcome = match connected.unwrap_or(Err(ProxyReply::TimedOut.into())) {
        Ok(()) => "connected".to_owned(),
        // It does not lead anywhere.
        Err(Refusal::Upstream(fault)) => return Err(fault),
        Err(Refusal::Proxied(ProxyReply::Unsupported)) => {
            warnings.push("the proxy takes no names, so that pages can be opened by address only");
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

/// What comes of something in time, and how many milliseconds that took.
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
    // No address, and a private one, which a proxy behind a router has, mean "where you reached me".
    let (own, said) = (own.ip(), relay.ip().to_canonical());
    if said != own.to_canonical() && is_public(said) {
        return Datagram::Elsewhere;
    }
    exchange(SocketAddr::new(own, relay.port()), site).await.unwrap_or(Datagram::Failed)
}

async fn exchange(relay: SocketAddr, site: &Target) -> Option<Datagram> {
    let any: IpAddr = if relay.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await.ok()?;
    // Connected: nobody else's datagrams are read.
    socket.connect(relay).await.ok()?;
    let (packet, asker) = unknown_version();
    let datagram = [new_udp_header(site.wire()).ok()?, packet].concat();
    let mut buffer = [0; 2048];
    for _ in 0..TRIES {
        // Nobody there, which an earlier one has found out.
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

/// A QUIC packet of a version that is reserved for this (RFC 9000, 15), as long as a first one has to be, and the id of who asks.
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

/// Whether this is a server's answer to that (RFC 9000, 17.2.1): of version 0, to who asked.
fn is_version_negotiation(packet: &[u8], asker: [u8; 8]) -> bool {
    matches!(packet, [first, 0, 0, 0, 0, 8, rest @ ..] if first & 0x80 != 0 && rest.starts_with(&asker))
}
