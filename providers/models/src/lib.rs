//! Model providers: prompts, costs, and validation of answers.
//!
//! The APIs of two providers are behind one trait (`provider_apis`). A model receives the customer's message and the
//! page's content, fenced as data (`prompts`), and answers with one tool, whose steps can name only elements of the
//! page (`answers`). Addresses that it wants to open are compared with those that the customer named or the page links
//! to (`addresses`).
//!
//! Error texts of a provider are neither returned nor logged: they may contain part of the key.

mod addresses;
mod answers;
mod costs;
mod exchange;
mod prompts;
mod provider_apis;

use std::fmt;
use std::time::Duration;

use kitfleet_domain::byok::{Provider, ProviderKey, TestOutcome};
use kitfleet_domain::metrics::{Counter, MetricDeclaration};

pub use self::answers::{Action, AnswerError, Condition, Item, ModelAnswer, Ref, Step, location};
pub use self::costs::{Cost, Prices, Usage};
use self::exchange::{Exchange, Refusal};
pub use self::prompts::{ConversationRole, ConversationTurn, MAX_ANSWER, MIN_ANSWER, Page, Prompt, PromptContext};
use self::provider_apis::{ProviderApi, Question};

pub const METRICS: &[&dyn MetricDeclaration] = &[&BUNDLED_REQUESTS];

const BUNDLED_REQUESTS: Counter<1> = Counter::new(
    "service_bundled_llm_request_total",
    "Requests to models with the deployment's own key, by outcome.",
    ["outcome"],
)
.starting_with(|| Failure::OUTCOMES.map(|outcome| [outcome]).into());

/// Applies if the model timeout is longer.
const TEST_WITHIN: Duration = Duration::from_secs(15);

#[derive(Debug, Clone)]
pub struct Settings {
    pub anthropic: ProviderSettings,
    pub openai: ProviderSettings,
    /// Includes the pause before a retry.
    pub timeout: Duration,
    /// Credential of the deployment, for accounts that consent to its use.
    pub bundled: Option<Credential>,
}

#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// Base URL of the API, without a trailing slash.
    pub base_url: String,
    pub model: String,
    pub prices: Prices,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            anthropic: ProviderSettings {
                base_url: "https://api.anthropic.com".to_owned(),
                model: "claude-sonnet-4-6".to_owned(),
                prices: Prices { input: 300.0, output: 1_500.0, cache_write: 375.0, cache_read: 30.0 },
            },
            openai: ProviderSettings {
                base_url: "https://api.openai.com".to_owned(),
                model: "gpt-5.1".to_owned(),
                // OpenAI does not charge for cache writes; cache reads are cheaper.
                prices: Prices { input: 125.0, output: 1_000.0, cache_write: 125.0, cache_read: 12.5 },
            },
            timeout: Duration::from_mins(1),
            bundled: None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Credential {
    pub provider: Provider,
    pub key: ProviderKey,
    pub payer: Payer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payer {
    Account,
    Deployment,
}

#[derive(Debug)]
pub struct ModelCall {
    pub provider: Provider,
    pub model: String,
    /// Tokens used, even if the answer is invalid.
    pub usage: Usage,
    pub cost: Cost,
    /// Parsed answer, or the reason why there is none.
    pub reading: Result<ModelAnswer, Failure>,
}

/// The text is shown to the customer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the provider refuses the key")]
    KeyRefused,
    #[error("the key has no credit left at the provider, or has reached its spending limit")]
    QuotaExceeded,
    #[error("the provider is overloaded, or was asked too often")]
    Busy,
    #[error("the provider did not answer in time")]
    Late,
    #[error("the provider cannot be reached")]
    Unreachable,
    #[error("the provider answered with the status {0}")]
    Status(u16),
    #[error("the provider's answer is too long")]
    TooLong,
    #[error("the provider's answer cannot be read")]
    Malformed,
    #[error("the model's answer was cut off")]
    CutOff,
    #[error("the model's answer cannot be used: {0}")]
    Unusable(#[from] AnswerError),
}

impl Failure {
    const OUTCOMES: [&str; 8] =
        ["ok", "key_refused", "quota_exceeded", "busy", "late", "unreachable", "provider_error", "unusable"];

    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::KeyRefused => "key_refused",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Busy => "busy",
            Self::Late => "late",
            Self::Unreachable => "unreachable",
            Self::Status(_) | Self::TooLong | Self::Malformed => "provider_error",
            Self::CutOff | Self::Unusable(_) => "unusable",
        }
    }
}

pub type ClientError = reqwest::Error;

pub struct Models {
    settings: Settings,
    exchange: Exchange,
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Models {
    pub fn new(settings: Settings) -> Result<Self, ClientError> {
        Ok(Self { settings, exchange: Exchange::new()? })
    }

    #[must_use]
    pub fn bundled(&self) -> Option<&Credential> {
        self.settings.bundled.as_ref()
    }

    /// Tests a key with the smallest possible request (contract: byok 5).
    pub async fn test(&self, provider: Provider, key: &ProviderKey) -> TestOutcome {
        let (end, settings) = self.end(provider);
        let request = self.exchange.request(end.as_ref(), settings, key, &end.smallest_request(&settings.model));
        let within = self.settings.timeout.min(TEST_WITHIN);
        match self.exchange.once(request, within).await {
            Ok(_) => TestOutcome::Ok,
            Err(refusal) => match refusal.failure() {
                Failure::KeyRefused => TestOutcome::Invalid,
                Failure::QuotaExceeded => TestOutcome::QuotaExceeded,
                _ => TestOutcome::Unknown,
            },
        }
    }

    /// An upper estimate for a token budget: in most scripts a token has more than three bytes.
    #[must_use]
    pub fn guess_tokens(&self, provider: Provider, ask: &Prompt<'_>) -> u64 {
        let (end, settings) = self.end(provider);
        let bytes = end.body(&Question::of(ask, &settings.model)).to_string().len();
        u64::try_from(bytes / 3).unwrap_or(u64::MAX)
    }

    #[must_use]
    pub fn model(&self, provider: Provider) -> &str {
        &self.end(provider).1.model
    }

    /// Runs no step. Counts requests with the deployment's key in `service_bundled_llm_request_total`.
    pub async fn ask(&self, with: &Credential, ask: &Prompt<'_>, within: Duration) -> ModelCall {
        let asked = self.asked(with, ask, within.min(self.settings.timeout)).await;
        let outcome = asked.reading.as_ref().err().map_or("ok", Failure::outcome);
        let (provider, model) = (with.provider.name(), &asked.model);
        tracing::info!(provider, model, outcome, tokens = asked.usage.total(), "model request finished");
        if with.payer == Payer::Deployment {
            BUNDLED_REQUESTS.with([outcome]).increment(1);
        }
        asked
    }

    async fn asked(&self, with: &Credential, ask: &Prompt<'_>, within: Duration) -> ModelCall {
        let (end, settings) = self.end(with.provider);
        let question = Question::of(ask, &settings.model);
        let request = self.exchange.request(end.as_ref(), settings, &with.key, &end.body(&question));
        let answered = self.exchange.twice_at_most(request, within).await;
        let reply = answered.map_err(|refusal: Refusal| refusal.failure()).and_then(|body| end.read(&body));
        let (usage, reading) = match reply {
            Ok(reply) => (reply.usage, reply.call.and_then(|call| Ok(answers::read(call, ask)?))),
            Err(failure) => (Usage::default(), Err(failure)),
        };
        let cost = settings.prices.cost(usage);
        ModelCall { provider: with.provider, model: settings.model.clone(), usage, cost, reading }
    }

    fn end(&self, provider: Provider) -> (Box<dyn ProviderApi>, &ProviderSettings) {
        match provider {
            Provider::Anthropic => (Box::new(provider_apis::Anthropic), &self.settings.anthropic),
            Provider::Openai => (Box::new(provider_apis::Openai), &self.settings.openai),
        }
    }
}
