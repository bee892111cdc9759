//! Why a connection was not made, in words for whoever reads why his page did not load. No word is anybody else's: what a proxy says of itself
//! is not repeated.

use fast_socks5::ReplyError;
use kitfleet_tunnels::{ConnectError, OpenError};

/// Why a connection was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The name has no address.
    #[error("the name does not resolve")]
    NameNotFound,
    /// The address is not of the public internet, or near this machine.
    #[error("the address is not of the public internet")]
    NotAllowed,
    /// The server refuses.
    #[error("the server refused the connection")]
    Refused,
    /// There is no way there.
    #[error("the server is unreachable")]
    Unreachable,
    /// The server does not answer.
    #[error("the server did not answer the connection in time")]
    TimedOut,
    /// The browser wants something else than a connection.
    #[error("the browser wanted something else than a connection")]
    Unsupported,
    /// No connection is made through the customer's tunnel.
    #[error(transparent)]
    Tunnelled(#[from] ConnectError),
    /// The customer's proxy says that it does not connect.
    #[error(transparent)]
    Proxied(#[from] ProxyReply),
    /// Nothing leads through what the customer brought.
    #[error(transparent)]
    Upstream(#[from] Fault),
}

/// What a customer's proxy says of a connection that it does not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyReply {
    /// Its rules are against it.
    #[error("the proxy does not permit the connection")]
    NotAllowed,
    /// The server refuses.
    #[error("the server refused the proxy's connection")]
    Refused,
    /// The name does not resolve, or there is no way there. Proxies do not tell these apart.
    #[error("the proxy cannot reach the server")]
    Unreachable,
    /// The server does not answer.
    #[error("the server did not answer the proxy in time")]
    TimedOut,
    /// It does not know what that is: a name, or an address of IPv6.
    #[error("the proxy does not support such a connection")]
    Unsupported,
    /// Something else, which it does not say.
    #[error("the proxy failed to make the connection")]
    Failed,
}

/// Why nothing leads through what a customer brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its name has no address.
    #[error("the proxy's name does not resolve")]
    NameNotFound,
    /// It is at an address that is not of the public internet, or near this machine.
    #[error("the proxy's address is not of the public internet")]
    NotAllowed,
    /// Nobody listens there.
    #[error("the proxy refused the connection")]
    Refused,
    /// There is no way there.
    #[error("the proxy is unreachable")]
    Unreachable,
    /// It does not answer.
    #[error("the proxy did not answer in time")]
    TimedOut,
    /// It does not know the customer.
    #[error("the proxy does not accept the credentials")]
    Credentials,
    /// What it says is not of its protocol.
    #[error("the proxy does not speak its protocol")]
    Protocol,
    /// It hangs up before it has answered.
    #[error("the proxy closed the connection without an answer")]
    HungUp,
    /// The tunnel does not open.
    #[error(transparent)]
    Tunnel(#[from] OpenError),
}

impl Refusal {
    /// WebKit makes one error of "host unreachable" and "TTL expired", so the first is kept for names alone.
    pub(crate) fn reply(self) -> ReplyError {
        match self {
            Self::NameNotFound | Self::Tunnelled(ConnectError::NameNotFound) => ReplyError::HostUnreachable,
            Self::NotAllowed | Self::Proxied(ProxyReply::NotAllowed) | Self::Tunnelled(ConnectError::NotAllowed) => {
                ReplyError::ConnectionNotAllowed
            }
            Self::Refused | Self::Proxied(ProxyReply::Refused) | Self::Tunnelled(ConnectError::Refused) => {
                ReplyError::ConnectionRefused
            }
            Self::Upstream(_) | Self::Tunnelled(ConnectError::TunnelDead) => ReplyError::GeneralFailure,
            Self::Unreachable | Self::TimedOut | Self::Proxied(_) | Self::Tunnelled(_) => {
                ReplyError::NetworkUnreachable
            }
            Self::Unsupported => ReplyError::CommandNotSupported,
        }
    }
}
