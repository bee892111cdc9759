//! Ways out of a browser: direct, or through what a customer brings, and the guard in front of all.
//!
//! This knows neither sessions nor SQL.

pub use kitfleet_tunnels::Credentials;
use url::Host;

/// A proxy that a customer brings.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// A name, or an address.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// Who it is told that asks.
    pub credentials: Option<Credentials>,
}
