//! `auth.providers.*`: identity providers.

use std::collections::BTreeMap;

use kitfleet_api::ProviderConfig;
use serde::{Deserialize, Serialize};
use url::Host;

use super::values::{Secret, plain_url, secret, texts};

/// Identity providers, by the name in their routes.
pub type Providers = BTreeMap<ProviderName, Provider>;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Provider {
    /// Issuer identifier, without `/.well-known/openid-configuration`.
    pub issuer: Issuer,
    pub client_id: String,
    /// Without it only PKCE protects the exchange.
    #[serde(default, deserialize_with = "secret", skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    #[serde(with = "texts", default = "scopes")]
    pub scopes: Vec<String>,
    /// By default the configured name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

impl Provider {
    pub fn config(&self, name: &ProviderName) -> ProviderConfig {
        ProviderConfig {
            issuer: self.issuer.0.clone(),
            client_id: self.client_id.clone(),
            client_secret: self.client_secret.as_ref().map(Secret::reveal).map(str::to_owned),
            scopes: self.scopes.clone(),
            display_name: self.display_name.clone().unwrap_or_else(|| name.0.clone()),
        }
    }
}

fn scopes() -> Vec<String> {
    ["openid", "email", "profile"].map(str::to_owned).to_vec()
}

/// A path segment, under which identities are stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ProviderName(String);

impl ProviderName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ProviderName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        let sound = (1..=40).contains(&text.len()) && text.chars().all(known);
        sound
            .then_some(Self(text.clone()))
            .ok_or_else(|| format!("{text:?} is no name of up to 40 characters from a-z, 0-9, _ and -"))
    }
}

/// Exactly as the provider publishes it: a trailing slash makes it a different issuer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Issuer(String);

impl TryFrom<String> for Issuer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let url = plain_url(&text)?;
        let local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if url.scheme() != "https" && !(url.scheme() == "http" && local) {
            return Err("must be an https URL, or a URL on this machine".to_owned());
        }
        Ok(Self(text))
    }
}
