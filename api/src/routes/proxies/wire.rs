//! Request and response bodies of saved proxies.

use kitfleet_domain::proxies::checks::Checked;
use kitfleet_domain::proxies::{self, Change, Endpoint, ProxyInput, Scheme};
use kitfleet_tunnels::{openvpn, wireguard};
use kitfleet_types::ids::ProxyId;
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::http::lists::{List, ListItem};
use crate::http::openapi::{named, one_of};
use crate::routes::webhooks::events::EgressCapabilities;

/// Body of a saved proxy's creation and replacement
#[derive(Deserialize, ToSchema)]
#[schema(as = ProxySave, example = json!({
    "label": "Office", "scheme": "socks5", "host": "proxy.example.com", "port": 1080, "username": "kit", "password": "open sesame",
}))]
pub struct NewProxy {
    /// Label; leading and trailing white space is removed
    #[schema(min_length = 1)]
    label: String,
    /// Protocol of the proxy
    #[schema(schema_with = scheme)]
    scheme: Scheme,
    /// Host, for `socks5` and `http`: a name or a public address
    host: Option<String>,
    /// Port, for `socks5` and `http`
    #[schema(minimum = 1, maximum = 65_535)]
    port: Option<u64>,
    /// User name sent to the proxy, 1 to 255 bytes; for `http` without a colon
    #[schema(min_length = 1, max_length = 255)]
    username: Option<String>,
    /// Password sent to the proxy, 1 to 255 bytes. On replacement, an absent password is kept, and null removes it
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    password: Change,
    /// Configuration of a tunnel: for `wireguard` the text of a wg-quick file (at most 16 KiB), for `openvpn` a client profile
    /// with inline certificates and keys (at most 64 KiB). On replacement, an absent configuration is kept
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 65_536)]
    config: Change,
}

impl NewProxy {
    /// The unvalidated parameters.
    pub fn wanted(self) -> ProxyInput {
        let Self { label, scheme, host, port, username, password, config } = self;
        ProxyInput { label, scheme, host, port, username, password, config }
    }
}

/// Reads the server's endpoint from a tunnel configuration. The error names the faulty directive, never its value.
pub fn read_config(scheme: Scheme, text: &str) -> Result<Endpoint, String> {
    let read = match scheme {
        Scheme::Wireguard => wireguard::Config::parse(text).map(|config| config.endpoint().clone()),
        Scheme::Openvpn => openvpn::Profile::parse(text).map(|profile| profile.endpoint().clone()),
        Scheme::Socks5 | Scheme::Http => return Err("is not used by this scheme".to_owned()),
    };
    let at = read.map_err(|error| error.to_string())?;
    Ok(Endpoint { host: at.host, port: at.port })
}

/// Saved proxy, without its secrets
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "prx_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "label": "Office", "scheme": "socks5", "host": "proxy.example.com",
    "port": 1080, "username": "kit", "has_password": true, "has_config": false, "created_at": "2026-11-20T18:05:00.123Z",
    "updated_at": "2026-11-20T18:05:00.123Z",
}))]
pub struct SavedProxy {
    /// Proxy ID
    #[schema(value_type = String)]
    id: ProxyId,
    /// Label set by the customer
    #[schema(min_length = 1, max_length = 120)]
    label: String,
    /// Protocol of the proxy
    #[schema(schema_with = scheme)]
    scheme: Scheme,
    /// Host of the proxy, or of the server in the tunnel configuration
    host: String,
    /// Port of the proxy or server
    port: i32,
    /// User name sent to the proxy
    #[schema(required = true)]
    username: Option<String>,
    /// True if a password is stored
    has_password: bool,
    /// True if a configuration is stored
    has_config: bool,
    /// Time the proxy was saved
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last change
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

impl ListItem for SavedProxy {
    const LIST: &'static str = "SavedProxyList";
    const MEANING: &'static str = "Saved proxies, newest first";
}

/// Result of a proxy check
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "reachable": true, "latency_ms": 84, "exit_address": "198.51.100.7",
    "capabilities": {"udp_associate": false, "quic_route": "tcp_fallback", "dns_remote_resolve": true, "warnings": []}, "error": null,
}))]
pub struct ProxyCheck {
    /// True if a session can use the proxy
    reachable: bool,
    /// Milliseconds until the proxy was ready for use
    #[schema(required = true)]
    latency_ms: Option<u64>,
    /// Public address of sessions that use the proxy, if the deployment determines it
    #[schema(required = true)]
    exit_address: Option<String>,
    /// Capabilities of the proxy; null for schemes other than `socks5`
    #[schema(value_type = Option<EgressCapabilities>, required = true)]
    capabilities: Option<Value>,
    /// Reason why sessions cannot use the proxy, as text
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
