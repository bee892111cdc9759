//! What saved proxies look like on the wire.

use kitfleet_domain::ids::ProxyId;
use kitfleet_domain::proxies::checks::Checked;
use kitfleet_domain::proxies::{self, Change, Endpoint, Scheme, Wanted};
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_tunnels::{openvpn, wireguard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::http::lists::{List, Listed};
use crate::http::openapi::{named, one_of};
use crate::routes::webhooks::events::EgressCapabilities;

/// Body of a saved proxy's creation and replacement
#[derive(Deserialize, ToSchema)]
#[schema(as = ProxySave, example = json!({
    "label": "Office", "scheme": "socks5", "host": "proxy.example.com", "port": 1080, "username": "kit", "password": "open sesame",
}))]
pub struct NewProxy {
    /// What to call it; white space around it does not count
    #[schema(min_length = 1)]
    label: String,
    /// What it speaks
    #[schema(schema_with = scheme)]
    scheme: Scheme,
    /// Where it is, for `socks5` and `http`: a name, or a public address
    host: Option<String>,
    /// Its port, for `socks5` and `http`
    #[schema(minimum = 1, maximum = 65_535)]
    port: Option<u64>,
    /// Who it is told that asks, 1 to 255 bytes; for `http` without a colon
    #[schema(min_length = 1, max_length = 255)]
    username: Option<String>,
    /// What proves it, 1 to 255 bytes. On replacement: absent keeps it, null removes it
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    password: Change,
    /// A tunnel's: the text of a wg-quick file for `wireguard` (at most 16 KiB), of a client's profile with inline certificates and keys
    /// for `openvpn` (at most 64 KiB). On replacement: absent keeps it
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 65_536)]
    config: Change,
}

impl NewProxy {
    /// What it says, before anybody looked whether it keeps to the rules.
    pub fn wanted(self) -> Wanted {
        let Self { label, scheme, host, port, username, password, config } = self;
        Wanted { label, scheme, host, port, username, password, config }
    }
}

/// Where a tunnel's configuration says that its server is, or what is wrong with it, which names a directive and never its value.
pub fn read_config(scheme: Scheme, text: &str) -> Result<Endpoint, String> {
    let read = match scheme {
        Scheme::Wireguard => wireguard::Config::parse(text).map(|config| config.endpoint().clone()),
        Scheme::Openvpn => openvpn::Profile::parse(text).map(|profile| profile.endpoint().clone()),
        Scheme::Socks5 | Scheme::Http => return Err("is of no use to this scheme".to_owned()),
    };
    let at = read.map_err(|error| error.to_string())?;
    Ok(Endpoint { host: at.host, port: at.port })
}

/// A way out that a customer brings, without its secrets
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "prx_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "label": "Office", "scheme": "socks5", "host": "proxy.example.com",
    "port": 1080, "username": "kit", "has_password": true, "has_config": false, "created_at": "2026-11-20T18:05:00.123Z",
    "updated_at": "2026-11-20T18:05:00.123Z",
}))]
pub struct SavedProxy {
    /// Its id
    #[schema(value_type = String)]
    id: ProxyId,
    /// What its owner calls it
    #[schema(min_length = 1, max_length = 120)]
    label: String,
    /// What it speaks
    #[schema(schema_with = scheme)]
    scheme: Scheme,
    /// Where it is; of a tunnel, where its configuration says that the server is
    host: String,
    /// Its port
    port: i32,
    /// Who it is told that asks
    #[schema(required = true)]
    username: Option<String>,
    /// Whether a password is kept
    has_password: bool,
    /// Whether a configuration is kept
    has_config: bool,
    /// When it was saved
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it last changed
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

fn scheme() -> RefOr<Schema> {
    named("ProxyScheme", one_of(Scheme::NAMES, None))
}

impl From<proxies::SavedProxy> for SavedProxy {
    fn from(proxy: proxies::SavedProxy) -> Self {
        Self {
            id: proxy.id,
            label: proxy.label,
            scheme: proxy.scheme,
            host: proxy.host,
            port: proxy.port,
            username: proxy.username,
            has_password: proxy.has_password,
            has_config: proxy.has_config,
            created_at: proxy.created_at,
            updated_at: proxy.updated_at,
        }
    }
}

pub type SavedProxyList = List<SavedProxy>;

impl Listed for SavedProxy {
    const LIST: &'static str = "SavedProxyList";
    const MEANING: &'static str = "Saved proxies, newest first";
}

/// Whether a saved proxy works
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "reachable": true, "latency_ms": 84, "exit_address": "198.51.100.7",
    "capabilities": {"udp_associate": false, "quic_route": "tcp_fallback", "dns_remote_resolve": true, "warnings": []}, "error": null,
}))]
pub struct ProxyCheck {
    /// Whether a session could leave through it
    reachable: bool,
    /// Milliseconds until it could
    #[schema(required = true)]
    latency_ms: Option<u64>,
    /// The address as which it would leave, where the deployment asks for it
    #[schema(required = true)]
    exit_address: Option<String>,
    /// What it can do; null of other schemes than `socks5`
    #[schema(value_type = Option<EgressCapabilities>, required = true)]
    capabilities: Option<Value>,
    /// Why no session could, in words
    #[schema(required = true)]
    error: Option<String>,
}

impl From<Checked> for ProxyCheck {
    fn from(checked: Checked) -> Self {
        let Checked { reachable, latency_ms, exit_address, capabilities, error } = checked;
        Self {
            reachable,
            latency_ms,
            exit_address: exit_address.map(|address| address.to_string()),
            capabilities,
            error,
        }
    }
}
