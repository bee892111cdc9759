//! In-process WireGuard and OpenVPN tunnels, without a network device, privileges or external programs.
//!
//! A tunnel is a socket to its server, the tunnel's protocol, and a TCP/IP stack (`stack`). The tunnel's own name
//! servers resolve names, through the tunnel (`names`). This crate does not use the machine's resolver, and dials only
//! the one address that `open` receives.
//!
//! A customer's configuration with settings that cannot be honoured is rejected.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{self, AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, timeout_at};
use url::Host;
use zeroize::Zeroizing;

use crate::names::Names;
use crate::stack::{Stack, TcpStream};

mod names;
pub mod openvpn;
mod stack;
pub mod wireguard;

/// Shared by all addresses of a name.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The password is wiped on drop, and `Debug` prints neither field.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub username: String,
    pub password: Zeroizing<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(…)")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub host: Host,
    pub port: u16,
}

/// Names a directive but never its value, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{directive}: {reason}")]
pub struct ConfigError {
    pub directive: String,
    /// Contains nothing from the configuration.
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// This machine has no route to the server, or no server listens there.
    #[error("the tunnel's server is unreachable")]
    Unreachable,
    #[error("the tunnel's server refused the keys or credentials")]
    Refused,
    /// WireGuard servers also ignore unknown keys without an answer.
    #[error("the tunnel's server did not answer in time")]
    TimedOut,
    #[error("the tunnel's server broke its protocol: {0}")]
    Protocol(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("the name does not resolve inside the tunnel")]
    NameNotFound,
    #[error("the address is not allowed")]
    NotAllowed,
    #[error("the server refused the connection")]
    Refused,
    #[error("the tunnel does not lead to the server")]
    Unreachable,
    #[error("the server did not answer the connection in time")]
    TimedOut,
    /// The tunnel's server no longer answers, or has ended the tunnel.
    #[error("the tunnel is dead")]
    TunnelDead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    #[error("the tunnel's server no longer answers")]
    Silent,
    #[error("the tunnel's server ended it")]
    Ended,
    #[error("the route to the tunnel's server was lost")]
    Broken,
}

/// Dropping the last clone and the last stream ends its task and closes its socket.
#[derive(Clone)]
pub struct Tunnel {
    stack: Stack,
    names: Arc<Names>,
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tunnel(…)")
    }
}

impl Tunnel {
    fn new(stack: Stack, name_servers: &[IpAddr]) -> Result<Self, OpenError> {
        let names = Names::over(&stack, name_servers).map_err(|_| OpenError::Protocol("no name server"))?;
        Ok(Self { stack, names: Arc::new(names) })
    }

    /// Connects to a server through the tunnel within 10 s. Only the tunnel's own name servers resolve names.
    pub async fn connect(&self, host: Host<&str>, port: u16) -> Result<Stream, ConnectError> {
        self.connect_if(host, port, |_| true).await
    }

    /// Like [`Self::connect`]: the tunnel's name servers decide the addresses of a name.
    pub async fn connect_if(
        &self,
        host: Host<&str>,
        port: u16,
        allowed: impl Fn(IpAddr) -> bool,
    ) -> Result<Stream, ConnectError> {
        let deadline = Instant::now() + CONNECT_WITHIN;
        let connected = async {
            let mut addresses = match host {
                Host::Ipv4(address) => vec![address.into()],
                Host::Ipv6(address) => vec![address.into()],
                Host::Domain(name) => {
                    timeout_at(deadline, self.names.addresses(name)).await.map_err(|_| ConnectError::NameNotFound)??
                }
            };
            addresses.retain(|address| allowed(*address));
            if addresses.is_empty() {
                return Err(ConnectError::NotAllowed);
            }
            self.dial(&addresses, port, deadline).await
        };
        tokio::select! {
            biased;
            // Checked first, because every failure in a dead tunnel has that cause.
            () = self.stack.wait_until_unresponsive() => Err(ConnectError::TunnelDead),
            // Checked again, because the tunnel may have died in between.
            connected = connected => connected.or_else(|error| self.stack.refuse_when_dead().and(Err(error))),
        }
    }

    /// Dials the addresses in order. Each attempt gets the remaining time divided by the number of addresses that are left.
    async fn dial(&self, addresses: &[IpAddr], port: u16, deadline: Instant) -> Result<Stream, ConnectError> {
        let mut refusal = ConnectError::Unreachable;
        for (index, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
            match self.stack.connect(SocketAddr::new(*address, port), share).await {
                Ok(stream) => return Ok(Stream { stream, _tunnel: self.stack.clone() }),
                // An error from another address is more specific than a missing route.
                Err(ConnectError::Unreachable) => {}
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// A tunnel that has ended is not reopened.
    pub async fn closed(&self) -> Closed {
        self.stack.closed().await
    }
}

/// Keeps the tunnel open.
pub struct Stream {
    stream: TcpStream,
    _tunnel: Stack,
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Stream(…)")
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
