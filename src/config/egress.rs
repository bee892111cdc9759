//! `egress.*`

use std::time::Duration;

use kitfleet_egress::{Probes, Target};
use kitfleet_types::addresses::Destinations;
use kitfleet_worker::config::Probing;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::values::{BaseUrl, duration};
use super::{Config, ConfigError};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Egress {
    /// Loopback, link-local and private addresses.
    pub allow_private_proxies: bool,
    pub probes: bool,
    /// A probe connects to it by name through the proxy.
    pub probe_site: Site,
    pub probe_quic_site: Site,
    /// Answers over plain HTTP with the address of its client.
    pub probe_exit_url: BaseUrl,
    /// Interval between two measurements of a session's proxy.
    #[serde(with = "duration")]
    pub probe_interval: Duration,
}

impl Default for Egress {
    fn default() -> Self {
        let host = Site(Target { host: Host::Domain("one.one.one.one".to_owned()), port: 443 });
        Self {
            allow_private_proxies: false,
            probes: true,
            probe_site: host.clone(),
            probe_quic_site: host,
            probe_exit_url: BaseUrl::known("http://icanhazip.com"),
            probe_interval: Duration::from_mins(10),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Site(Target);

impl TryFrom<String> for Site {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

impl From<Site> for String {
    fn from(Site(target): Site) -> Self {
        target.to_string()
    }
}

impl Config {
    pub(crate) fn upstreams(&self) -> Destinations {
        let sites = self.sessions.destinations();
        Destinations { allow_private: sites.allow_private || self.egress.allow_private_proxies, ..sites }
    }

    /// `None` when measurements are off.
    pub(crate) fn probing(&self) -> Result<Option<Probing>, ConfigError> {
        let egress = &self.egress;
        if !egress.probes {
            return Ok(None);
        }
        let exit_url = Url::parse(egress.probe_exit_url.as_str()).ok().filter(|url| url.scheme() == "http");
        let exit_url = exit_url.ok_or_else(|| ConfigError("`egress.probe_exit_url` must be an http URL".to_owned()))?;
        let (Site(site), Site(quic_site)) = (egress.probe_site.clone(), egress.probe_quic_site.clone());
        Ok(Some(Probing { probes: Probes { site, quic_site, exit_url }, interval: egress.probe_interval }))
    }
}
