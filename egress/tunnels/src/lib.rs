//! Tunnels in process: WireGuard and OpenVPN without a device, a privilege or a program of others.
//!
//! This knows nothing of browsers, sessions or where secrets are kept: it reads what a customer's configuration says, and
//! refuses what it cannot keep to.

use std::fmt;

use url::Host;
use zeroize::Zeroizing;

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
