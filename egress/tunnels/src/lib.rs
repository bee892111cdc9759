//! Tunnels in process: WireGuard and OpenVPN without a device, a privilege or a program of others.
//!
//! A tunnel is a socket to its server and a TCP/IP stack of our own (`stack`) behind the tunnel's protocol. Names are asked of
//! the tunnel's own servers, through the tunnel (`names`): nothing here knows the machine's resolver, and nothing here can
//! dial anything but the one address that `open` was given. What the tunnel does not lead to is unreachable.
//!
//! This knows nothing of browsers, sessions or where secrets are kept: it reads what a customer's configuration says, and
//! refuses what it cannot keep to.

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

/// How long resolving and connecting may take. Several addresses share it.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Who somebody says to be, to a proxy or a tunnel's server. It is forgotten with its last owner, and nowhere printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Who.
    pub username: String,
    /// What proves it.
    pub password: Zeroizing<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(…)")
    }
}

/// Where a tunnel's server is, as a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A name, or an address.
    pub host: Host,
    /// Its port.
    pub port: u16,
}

/// What of a configuration cannot be kept to. It names a directive, and never says its value, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{directive}: {reason}")]
pub struct ConfigError {
    /// The directive, as the format spells it.
    pub directive: String,
    /// What is wrong with it, in words that hold nothing of the configuration's.
    pub reason: String,
}

/// Why a tunnel was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// This machine has no way to the server, or the server has nothing there.
    #[error("the tunnel's server is unreachable")]
    Unreachable,
    /// The server does not take the keys or credentials, and says so.
    #[error("the tunnel's server refused the keys or credentials")]
    Refused,
    /// The server did not answer. WireGuard's does that, too, to keys that it does not know.
    #[error("the tunnel's server did not answer in time")]
    TimedOut,
    /// The server says something that its protocol does not know, or that cannot be kept to.
    #[error("the tunnel's server broke its protocol: {0}")]
    Protocol(&'static str),
}

/// Why a connection through a tunnel was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The tunnel's name servers know no address of the name, or none of them answers.
    #[error("the name does not resolve inside the tunnel")]
    NameNotFound,
    /// Whoever asked does not want what the name leads to.
    #[error("the address is not allowed")]
    NotAllowed,
    /// The server refuses.
    #[error("the server refused the connection")]
    Refused,
    /// The tunnel does not lead there.
    #[error("the tunnel does not lead to the server")]
    Unreachable,
    /// The server does not answer.
    #[error("the server did not answer the connection in time")]
    TimedOut,
    /// The tunnel's server does not answer any more, or has ended the tunnel.
    #[error("the tunnel is dead")]
    TunnelDead,
}

/// Why a tunnel is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// Its server has not answered for too long.
    #[error("the tunnel's server does not answer any more")]
    Silent,
    /// Its server has ended it.
    #[error("the tunnel's server ended it")]
    Ended,
    /// The machine's way to the server is gone.
    #[error("the way to the tunnel's server is gone")]
    Broken,
}

/// An open tunnel. Clones share it. When the last of them and its last stream are dropped, all ends: its task and its socket.
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
    /// A tunnel whose packets somebody carries, and whose names these servers know.
    fn new(stack: Stack, name_servers: &[IpAddr]) -> Result<Self, OpenError> {
        let names = Names::over(&stack, name_servers).map_err(|_| OpenError::Protocol("no name server"))?;
        Ok(Self { stack, names: Arc::new(names) })
    }

    /// Connects to a server behind the tunnel, within ten seconds. Names are resolved inside the tunnel, and by its servers only.
    ///
    /// # Errors
    /// When the server cannot be reached, or the tunnel is dead, which takes three seconds to say at most.
    pub async fn connect(&self, host: Host<&str>, port: u16) -> Result<Stream, ConnectError> {
        self.connect_if(host, port, |_| true).await
    }

    /// The same, to none but allowed addresses: what a name leads to is for the tunnel's name servers to say.
    ///
    /// # Errors
    /// As above, and [`ConnectError::NotAllowed`] when no address is allowed.
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
            // First, because nothing that fails in a dead tunnel fails for another reason.
            () = self.stack.silent() => Err(ConnectError::TunnelDead),
            // And asked once more, because it may have died between the two.
            connected = connected => connected.or_else(|error| self.stack.refuse_when_dead().and(Err(error))),
        }
    }

    /// Dials one address after the other. The last one gets all the time that is left, the one before it half, and so on.
    async fn dial(&self, addresses: &[IpAddr], port: u16, deadline: Instant) -> Result<Stream, ConnectError> {
        let mut refusal = ConnectError::Unreachable;
        for (index, address) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
            match self.stack.connect(SocketAddr::new(*address, port), share).await {
                Ok(stream) => return Ok(Stream { stream, _tunnel: self.stack.clone() }),
                // What another address said tells more than that there is no way to this one.
                Err(ConnectError::Unreachable) => {}
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// Waits until the tunnel is dead, and says why. Nothing leads through it from then on, and nobody opens it again.
    pub async fn closed(&self) -> Closed {
        self.stack.closed().await
    }
}

/// A connection through a tunnel, which lasts as long as it.
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
