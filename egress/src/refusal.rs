//! Reasons why a connection was not made, for the person who wants to know why a page did not load. Messages never repeat text
//! from a proxy.

use fast_socks5::ReplyError;
use kitfleet_tunnels::{ConnectError, OpenError};

/// Reason why a connection was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The name has no address.
    #[error("the name does not resolve")]
    NameNotFound,
    /// The address is outside the public internet, or local to this machine or its networks.
    #[error("the address is outside the public internet")]
    NotAllowed,
    #[error("the server refused the connection")]
    Refused,
    /// There is no route to the server.
    #[error("the server is unreachable")]
    Unreachable,
    /// The server did not answer in time.
    #[error("the server did not answer the connection in time")]
    TimedOut,
    #[error("the session is offline")]
    Offline,
    /// The browser requested something other than a connection.
    #[error("the browser requested something other than a connection")]
    Unsupported,
    /// The customer's tunnel did not make the connection.
    #[error(transparent)]
    Tunnelled(#[from] ConnectError),
    /// The customer's proxy reported that it did not connect.
    #[error(transparent)]
    Proxied(#[from] ProxyReply),
    /// The customer's proxy or tunnel does not work.
    #[error(transparent)]
    Upstream(#[from] Fault),
}

/// Failure of a connection as a customer's proxy reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyReply {
    /// The proxy's rules deny the connection.
    #[error("the proxy does not permit the connection")]
    NotAllowed,
    #[error("the server refused the proxy's connection")]
    Refused,
    /// The name does not resolve, or there is no route to the server. Proxies do not distinguish these.
    #[error("the proxy cannot reach the server")]
    Unreachable,
    /// The server did not answer in time.
    #[error("the server did not answer the proxy in time")]
    TimedOut,
    /// The proxy does not support names, or IPv6 addresses.
    #[error("the proxy does not support such a connection")]
    Unsupported,
    /// The proxy gave no specific reason.
    #[error("the proxy failed to make the connection")]
    Failed,
}

/// Reason why a customer's proxy or tunnel does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The proxy's name has no address.
    #[error("the proxy's name does not resolve")]
    NameNotFound,
    /// The proxy's address is outside the public internet, or local to this machine or its networks.
    #[error("the proxy's address is outside the public internet")]
    NotAllowed,
    /// No server listens at the proxy's address.
    #[error("the proxy refused the connection")]
    Refused,
    /// There is no route to the proxy.
    #[error("the proxy is unreachable")]
    Unreachable,
    /// The proxy did not answer in time.
    #[error("the proxy did not answer in time")]
    TimedOut,
    /// The proxy does not accept the credentials.
    #[error("the proxy does not accept the credentials")]
    Credentials,
    /// The proxy sent data that its protocol does not allow.
    #[error("the proxy does not speak its protocol")]
    Protocol,
    /// The proxy closed the connection before it answered.
    #[error("the proxy closed the connection without an answer")]
    HungUp,
    /// The tunnel does not open.
    #[error(transparent)]
    Tunnel(#[from] OpenError),
}

impl Refusal {
    /// SOCKS reply code of this refusal. WebKit reports "host unreachable" and "TTL expired" as the same error, so the first is
    /// used only for names.
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
            Self::Unreachable | Self::TimedOut | Self::Offline | Self::Proxied(_) | Self::Tunnelled(_) => {
                ReplyError::NetworkUnreachable
            }
            Self::Unsupported => ReplyError::CommandNotSupported,
        }
    }
}
