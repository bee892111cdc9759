//! `auth.*`, `mfa.*` and `api_keys.*`: credentials and their lifetimes.

use std::num::NonZeroU32;
use std::time::Duration;

use kitfleet_api::AuthConfig;
use kitfleet_domain::sign_ins::Lifetimes;
use kitfleet_domain::vault::Vault;
use serde::{Deserialize, Serialize};

use super::Config;
use super::providers::Providers;
use super::values::{EncryptionKey, duration, encryption_keys};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Auth {
    #[serde(with = "duration")]
    pub session_ttl: Duration,
    #[serde(with = "duration")]
    pub verification_ttl: Duration,
    #[serde(with = "duration")]
    pub magic_link_ttl: Duration,
    #[serde(with = "duration")]
    pub reset_ttl: Duration,
    #[serde(with = "duration")]
    pub challenge_ttl: Duration,
    /// The proof of a second factor counts as fresh.
    #[serde(with = "duration")]
    pub step_up_ttl: Duration,
    #[serde(with = "duration")]
    pub device_code_ttl: Duration,
    /// Time that the key waits for the desktop application after the activation.
    #[serde(with = "duration")]
    pub device_bound_ttl: Duration,
    /// Per client address, on each route that mails a link.
    pub send_rate_per_minute: NonZeroU32,
    #[serde(with = "duration")]
    pub oauth_token_ttl: Duration,
    pub providers: Providers,
}

impl Default for Auth {
    fn default() -> Self {
        let defaults = AuthConfig::default();
        Self {
            session_ttl: defaults.lifetimes.session,
            verification_ttl: defaults.verification_ttl,
            magic_link_ttl: defaults.magic_link_ttl,
            reset_ttl: defaults.reset_ttl,
            challenge_ttl: defaults.lifetimes.challenge,
            step_up_ttl: defaults.step_up_ttl,
            device_code_ttl: defaults.device_code_ttl,
            device_bound_ttl: defaults.device_bound_ttl,
            send_rate_per_minute: const { NonZeroU32::new(3).expect("more than none") },
            oauth_token_ttl: defaults.oauth_token_ttl,
            providers: Providers::new(),
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mfa {
    /// Seals second factors and other secrets. Without it second factors cannot be enrolled.
    pub encryption_key: Option<EncryptionKey>,
    /// They only open the secrets that they sealed.
    #[serde(with = "encryption_keys")]
    pub retired_encryption_keys: Vec<EncryptionKey>,
}

impl Mfa {
    fn vault(&self) -> Option<Vault> {
        let retired: Vec<_> = self.retired_encryption_keys.iter().map(EncryptionKey::bytes).collect();
        self.encryption_key.as_ref().map(|key| Vault::new(key.bytes(), &retired))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct ApiKeys {
    /// A rotated key works beside its successor.
    #[serde(with = "duration")]
    pub rotation_grace: Duration,
}

impl Default for ApiKeys {
    fn default() -> Self {
        Self { rotation_grace: AuthConfig::default().rotation_grace }
    }
}

impl Config {
    pub(crate) fn auth(&self) -> AuthConfig {
        let auth = &self.auth;
        AuthConfig {
            lifetimes: Lifetimes { session: auth.session_ttl, challenge: auth.challenge_ttl },
            verification_ttl: auth.verification_ttl,
            magic_link_ttl: auth.magic_link_ttl,
            reset_ttl: auth.reset_ttl,
            step_up_ttl: auth.step_up_ttl,
            device_code_ttl: auth.device_code_ttl,
            device_bound_ttl: auth.device_bound_ttl,
            rotation_grace: self.api_keys.rotation_grace,
            oauth_token_ttl: auth.oauth_token_ttl,
            providers: auth.providers.iter().map(|(name, one)| (name.as_str().to_owned(), one.config(name))).collect(),
            vault: self.mfa.vault(),
        }
    }
}
