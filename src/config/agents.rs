//! `agents.*`: sessions that agents drive, and the models that they ask.

use std::time::Duration;

use kitfleet_domain::agents::Settings;
use kitfleet_domain::byok::{Provider, ProviderKey};
use kitfleet_models::{Credential, Payer, Prices, ProviderSettings};
use serde::{Deserialize, Serialize};

use super::values::{BaseUrl, Secret, duration, secret, word};
use super::{Config, ConfigError};

/// `agents.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Agents {
    /// How long a human who drives may be silent.
    #[serde(with = "duration")]
    pub heartbeat_timeout: Duration,
    /// Tokens that models may use for an agent session that asks for no number.
    pub default_token_budget: u32,
    /// Tokens that an agent session may ask for.
    pub max_token_budget: u32,
    /// Steps of one turn.
    pub max_steps_per_turn: usize,
    /// How long an element that is described in words may take to appear.
    #[serde(with = "duration")]
    pub locate_timeout: Duration,
    /// How long a turn may take before it begins no further step.
    #[serde(with = "duration")]
    pub turn_timeout: Duration,
    /// Bytes of what the steps of a turn come to, as JSON.
    pub turn_result_bytes: usize,
    /// Messages that an agent session takes.
    pub max_turns: u32,
    /// Bytes that are kept of them: an agent session that has more takes no further one.
    pub max_transcript_bytes: u64,
    /// How long a model may take to answer.
    #[serde(with = "duration")]
    pub model_timeout: Duration,
    /// How often a model may be asked for one message.
    pub max_model_calls_per_turn: u32,
    /// The age at which the owner of a key at a model provider is reminded to rotate it.
    #[serde(with = "duration")]
    pub byok_reminder_after: Duration,
    /// Anthropic.
    pub anthropic: OneProvider<{ Provider::Anthropic as u8 }>,
    /// `OpenAI`.
    pub openai: OneProvider<{ Provider::Openai as u8 }>,
    /// What the deployment pays for.
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

/// `agents.anthropic.*` and `agents.openai.*`, of which each has defaults of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "OneProvider<P>: Default"))]
pub struct OneProvider<const P: u8> {
    /// Where the provider's API is.
    pub base_url: BaseUrl,
    /// Which of its models is asked.
    pub model: String,
    /// Cents for a million tokens that are read.
    pub input_price: f64,
    /// Cents for a million tokens that are written.
    pub output_price: f64,
    /// Cents for a million tokens that are read and kept.
    pub cache_write_price: f64,
    /// Cents for a million tokens that had been kept.
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

/// `agents.bundled.*`
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Bundled {
    /// Whose models are asked for accounts that consent.
    #[serde(deserialize_with = "word")]
    pub provider: Provider,
    /// With what; without it they are not.
    #[serde(deserialize_with = "secret")]
    pub api_key: Option<Secret>,
    /// What an account may spend of it in a calendar month, in cents.
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
    /// How models are asked.
    pub(crate) fn models(&self) -> Result<kitfleet_models::Settings, ConfigError> {
        let agents = &self.agents;
        if agents.model_timeout.is_zero() {
            return Err(ConfigError("`agents.model_timeout` must be longer than nothing".to_owned()));
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

    /// What the API and workers are told of all that.
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
