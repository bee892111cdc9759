//! Reasons why a connection was not made, for the person who wants to know why a page did not load. Messages never
//! repeat text from a proxy.

use fast_socks5::ReplyError;
use kitfleet_tunnels::{ConnectError, OpenError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the name does not resolve")]
    NameNotFound,
    /// Outside the public internet, or local to this machine or its networks.
    #[error("the address is outside the public internet")]
    NotAllowed,
    #[error("the server refused the connection")]
    Refused,
    #[error("the server is unreachable")]
    Unreachable,
    #[error("the server did not answer the connection in time")]
    TimedOut,
    #[error("the session is offline")]
    Offline,
    #[error("the browser requested something other than a connection")]
    Unsupported,
    #[error(transparent)]
    Tunnelled(#[from] ConnectError),
    #[error(transparent)]
    Proxied(#[from] ProxyReply),
    #[error(transparent)]
    Upstream(#[from] Fault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyReply {
    #[error("the proxy does not permit the connection")]
    NotAllowed,
    #[error("the server refused the proxy's connection")]
    Refused,
    /// Proxies do not distinguish a name that does not resolve from a missing route.
    #[error("the proxy cannot reach the server")]
    Unreachable,
    #[error("the server did not answer the proxy in time")]
    TimedOut,
    /// Names, or IPv6 addresses.
    #[error("the proxy does not support such a connection")]
    Unsupported,
    #[error("the proxy failed to make the connection")]
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("the proxy's name does not resolve")]
    NameNotFound,
    /// Outside the public internet, or local to this machine or its networks.
    #[error("the proxy's address is outside the public internet")]
    NotAllowed,
    #[error("the proxy refused the connection")]
    Refused,
    #[error("the proxy is unreachable")]
    Unreachable,
    #[error("the proxy did not answer in time")]
    TimedOut,
    #[error("the proxy does not accept the credentials")]
    Credentials,
    #[error("the proxy does not speak its protocol")]
    Protocol,
    #[error("the proxy closed the connection without an answer")]
    HungUp,
    #[error(transparent)]
    Tunnel(#[from] OpenError),
}

impl Refusal {
    /// WebKit reports "host unreachable" and "TTL expired" as the same error, so the first is used only for names.
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
