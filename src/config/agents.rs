//! `agents.*`: agent sessions and their models.

use std::time::Duration;

use kitfleet_domain::agents::Settings;
use kitfleet_domain::byok::{Provider, ProviderKey};
use kitfleet_models::{Credential, Payer, Prices, ProviderSettings};
use serde::{Deserialize, Serialize};

use super::values::{BaseUrl, Secret, duration, secret, word};
use super::{Config, ConfigError};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Agents {
    /// Time without a heartbeat after which a person who drives loses control.
    #[serde(with = "duration")]
    pub heartbeat_timeout: Duration,
    /// Token budget of an agent session whose create does not set one.
    pub default_token_budget: u32,
    pub max_token_budget: u32,
    pub max_steps_per_turn: usize,
    #[serde(with = "duration")]
    pub locate_timeout: Duration,
    #[serde(with = "duration")]
    pub turn_timeout: Duration,
    /// Size of the results as JSON.
    pub turn_result_bytes: usize,
    pub max_turns: u32,
    /// Bytes. Above it no further message is accepted.
    pub max_transcript_bytes: u64,
    #[serde(with = "duration")]
    pub model_timeout: Duration,
    pub max_model_calls_per_turn: u32,
    /// The owner of the key then gets a reminder.
    #[serde(with = "duration")]
    pub byok_reminder_after: Duration,
    pub anthropic: OneProvider<{ Provider::Anthropic as u8 }>,
    pub openai: OneProvider<{ Provider::Openai as u8 }>,
    pub bundled: Bundled,
}

impl Default for Agents {
    fn default() -> Self {
        let kitfleet_models::Settings { anthropic, openai, timeout, .. } = kitfleet_models::Settings::default();
        let defaults = Settings::default();
        Self {
            heartbeat_timeout: defaults.heartbeat_timeout,
            default_token_budget: defaults.default_token_budget,
            max_token_budget: defaults.max_token_budget,
            max_steps_per_turn: defaults.max_steps_per_turn,
            locate_timeout: defaults.locate_timeout,
            turn_timeout: defaults.turn_timeout,
            turn_result_bytes: defaults.turn_result_bytes,
            max_turns: defaults.max_turns,
            max_transcript_bytes: defaults.max_transcript_bytes,
            model_timeout: timeout,
            max_model_calls_per_turn: defaults.max_model_calls_per_turn,
            byok_reminder_after: Duration::from_hours(60 * 24),
            anthropic: anthropic.into(),
            openai: openai.into(),
            bundled: Bundled::default(),
        }
    }
}

/// Each has its own defaults.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "OneProvider<P>: Default"))]
pub struct OneProvider<const P: u8> {
    pub base_url: BaseUrl,
    pub model: String,
    /// Cents for a million tokens.
    pub input_price: f64,
    /// Cents for a million tokens.
    pub output_price: f64,
    /// Cents for a million tokens.
    pub cache_write_price: f64,
    /// Cents for a million tokens.
    pub cache_read_price: f64,
}

impl Default for OneProvider<{ Provider::Anthropic as u8 }> {
    fn default() -> Self {
        kitfleet_models::Settings::default().anthropic.into()
    }
}

impl Default for OneProvider<{ Provider::Openai as u8 }> {
    fn default() -> Self {
        kitfleet_models::Settings::default().openai.into()
    }
}

impl<const P: u8> From<ProviderSettings> for OneProvider<P> {
    fn from(ProviderSettings { base_url, model, prices }: ProviderSettings) -> Self {
        Self {
            base_url: BaseUrl::known(base_url),
            model,
            input_price: prices.input,
            output_price: prices.output,
            cache_write_price: prices.cache_write,
            cache_read_price: prices.cache_read,
        }
    }
}

impl<const P: u8> OneProvider<P> {
    fn settings(&self, section: &str) -> Result<ProviderSettings, ConfigError> {
        let refuse = |key: &str, rule: &str| Err(ConfigError(format!("`agents.{section}.{key}` {rule}")));
        if self.model.trim().is_empty() {
            return refuse("model", "must not be empty");
        }
        for (key, price) in [
            ("input_price", self.input_price),
            ("output_price", self.output_price),
            ("cache_write_price", self.cache_write_price),
            ("cache_read_price", self.cache_read_price),
        ] {
            if !(0.0..=1e9).contains(&price) {
                return refuse(key, "must be 0 to 1000000000");
            }
        }
        let prices = Prices {
            input: self.input_price,
            output: self.output_price,
            cache_write: self.cache_write_price,
            cache_read: self.cache_read_price,
        };
        Ok(ProviderSettings { base_url: self.base_url.as_str().to_owned(), model: self.model.clone(), prices })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Bundled {
    /// Provider of the models for accounts that have consented.
    #[serde(deserialize_with = "word")]
    pub provider: Provider,
    /// Without it these models are not used.
    #[serde(deserialize_with = "secret")]
    pub api_key: Option<Secret>,
    pub monthly_cents_per_account: Option<u32>,
}

impl Default for Bundled {
    fn default() -> Self {
        Self { provider: Provider::Anthropic, api_key: None, monthly_cents_per_account: None }
    }
}

impl Bundled {
    fn credential(&self) -> Result<Option<Credential>, ConfigError> {
        let Some(key) = &self.api_key else { return Ok(None) };
        let key = ProviderKey::parse(key.reveal()).map_err(|invalid| {
            let rules = invalid.0.into_iter().map(|rule| rule.message).collect::<Vec<_>>().join("; ");
            ConfigError(format!("`agents.bundled.api_key` {rules}"))
        })?;
        Ok(Some(Credential { provider: self.provider, key, payer: Payer::Deployment }))
    }
}

impl Config {
    pub(crate) fn models(&self) -> Result<kitfleet_models::Settings, ConfigError> {
        let agents = &self.agents;
        if agents.model_timeout.is_zero() {
            return Err(ConfigError("`agents.model_timeout` must be longer than 0".to_owned()));
        }
        if agents.max_model_calls_per_turn == 0 {
            return Err(ConfigError("`agents.max_model_calls_per_turn` must be at least 1".to_owned()));
        }
        Ok(kitfleet_models::Settings {
            anthropic: agents.anthropic.settings("anthropic")?,
            openai: agents.openai.settings("openai")?,
            timeout: agents.model_timeout,
            bundled: agents.bundled.credential()?,
        })
    }

    pub(crate) fn agents(&self) -> Settings {
        let agents = &self.agents;
        Settings {
            heartbeat_timeout: agents.heartbeat_timeout,
            default_token_budget: agents.default_token_budget,
            max_token_budget: agents.max_token_budget,
            max_steps_per_turn: agents.max_steps_per_turn,
            max_model_calls_per_turn: agents.max_model_calls_per_turn,
            bundled_monthly_cents: agents.bundled.monthly_cents_per_account,
            locate_timeout: agents.locate_timeout,
            turn_timeout: agents.turn_timeout,
            turn_result_bytes: agents.turn_result_bytes,
            max_turns: agents.max_turns,
            max_transcript_bytes: agents.max_transcript_bytes,
        }
    }
}
