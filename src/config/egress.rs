//! `egress.*`

use kitfleet_domain::addresses::Destinations;
use serde::{Deserialize, Serialize};

use super::Config;

/// `egress.*`
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Egress {
    /// Whether a proxy or a tunnel's server that a customer brings may be at a loopback, link-local or private address.
    pub allow_private_proxies: bool,
}

impl Config {
    /// Where the proxies and tunnels' servers may be that customers bring.
    pub(crate) fn upstreams(&self) -> Destinations {
        let sites = self.sessions.destinations();
        Destinations { allow_private: sites.allow_private || self.egress.allow_private_proxies, ..sites }
    }
}
