//! Model providers: what they are asked, what it costs, and what may come of their answers.
//!
//! Two providers are spoken to in their own words, behind one trait with two ends (`ends`). A model is given the customer's
//! message and what the page shows, fenced as data (`prompts`), and answers by one tool, whose steps name elements that
//! the page has and nothing else (`answers`). Where it wants to go is held against what the customer named and the page links to
//! (`addresses`). What it may not do is nowhere asked of it: it is not in the tool, and an answer that has it is none.
//!
//! Nothing of a provider's own words is told to anybody, or logged: an error may repeat some of the key.

mod addresses;
mod answers;
mod costs;
mod exchange;
mod prompts;
mod provider_apis;

use std::fmt;
use std::time::Duration;

use kitfleet_domain::byok::{Provider, ProviderKey, TestOutcome};

pub use self::answers::{Action, AnswerError, Condition, Item, ModelAnswer, Ref, Step};
pub use self::costs::{Cost, Prices, Usage};
use self::exchange::{Exchange, Refusal};
pub use self::prompts::{ConversationRole, ConversationTurn, LEAST_ANSWER, MOST_ANSWER, Page, Prompt};
use self::provider_apis::{ProviderApi, Question};

/// The longest that a key's test takes, however long a model may.
const TEST_WITHIN: Duration = Duration::from_secs(15);

/// How models are asked; the root crate's configuration becomes this.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Anthropic's.
    pub anthropic: ProviderSettings,
    /// `OpenAI`'s.
    pub openai: ProviderSettings,
    /// How long an answer may take, with what is waited before a second attempt.
    pub timeout: Duration,
    /// What the deployment asks with for accounts that consent, if it does.
    pub bundled: Option<Credential>,
}

/// A provider, and which of its models is asked.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// Where its API is, without a slash at its end.
    pub base_url: String,
    /// The model.
    pub model: String,
    /// What its tokens cost.
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
                // It does not charge for what it keeps, only less for what it kept.
                prices: Prices { input: 125.0, output: 1_000.0, cache_write: 125.0, cache_read: 12.5 },
            },
            timeout: Duration::from_mins(1),
            bundled: None,
        }
    }
}

/// What a provider is asked with.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Which provider.
    pub provider: Provider,
    /// The key.
    pub key: ProviderKey,
    /// Who pays.
    pub payer: Payer,
}

/// Whose key it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payer {
    /// The account's own.
    Account,
    /// The deployment's.
    Deployment,
}

/// What came of asking a model.
#[derive(Debug)]
pub struct ModelCall {
    /// Which provider.
    pub provider: Provider,
    /// Which model.
    pub model: String,
    /// The tokens that it took, also where its answer cannot be used.
    pub usage: Usage,
    /// What they cost.
    pub cost: Cost,
    /// What it wants done.
    pub reading: Result<ModelAnswer, Failure>,
}

/// Why a model says nothing that could be done. The text is for the customer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The provider does not take the key.
    #[error("the provider refuses the key")]
    KeyRefused,
    /// Nobody has paid for it, or not for so much.
    #[error("the key has reached what was paid for at the provider")]
    QuotaExceeded,
    /// Too many ask it.
    #[error("the provider is overloaded, or was asked too often")]
    Busy,
    /// It does not answer in time.
    #[error("the provider did not answer in time")]
    Late,
    /// It cannot be reached, or broke off.
    #[error("the provider cannot be reached")]
    Unreachable,
    /// It answered something else.
    #[error("the provider answered with the status {0}")]
    Status(u16),
    /// It answered too much.
    #[error("the provider's answer is too long")]
    TooLong,
    /// It answered what cannot be read.
    #[error("the provider's answer cannot be read")]
    Malformed,
    /// Its answer ends where it had as many tokens as it may.
    #[error("the model's answer was cut off")]
    CutOff,
    /// The model wants what it may not.
    #[error("the model's answer cannot be used: {0}")]
    Unusable(#[from] AnswerError),
}

impl Failure {
    /// Every outcome of a request, as metrics name them: that of one that succeeded is `ok`.
    pub const OUTCOMES: [&str; 8] =
        ["ok", "key_refused", "quota_exceeded", "busy", "late", "unreachable", "provider_error", "unusable"];

    /// As metrics name it.
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

/// Why models cannot be asked.
pub type ClientError = reqwest::Error;

/// Asks models.
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
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(settings: Settings) -> Result<Self, ClientError> {
        Ok(Self { settings, exchange: Exchange::new()? })
    }

    /// What the deployment asks with for accounts that consent, if it does.
    #[must_use]
    pub fn bundled(&self) -> Option<&Credential> {
        self.settings.bundled.as_ref()
    }

    /// Asks a provider for as little as it sells, and says what that tells of the key (contract: byok 5).
    pub async fn test(&self, provider: Provider, key: &ProviderKey) -> TestOutcome {
        let (end, settings) = self.end(provider);
        let request = self.exchange.request(end.as_ref(), settings, key, &end.least(&settings.model));
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

    /// The tokens that asking takes, without the answer, guessed from above, for who has a budget: a token has more than three bytes in
    /// most writing.
    #[must_use]
    pub fn guess_tokens(&self, provider: Provider, ask: &Prompt<'_>) -> u64 {
        let (end, settings) = self.end(provider);
        let bytes = end.body(&Question::of(ask, &settings.model)).to_string().len();
        u64::try_from(bytes / 3).unwrap_or(u64::MAX)
    }

    /// Which of a provider's models is asked.
    #[must_use]
    pub fn model(&self, provider: Provider) -> &str {
        &self.end(provider).1.model
    }

    /// Asks a model what to do, and waits no longer than `within`. Nothing is done yet. What the deployment pays for is counted
    /// (`service_bundled_llm_request_total`).
    pub async fn ask(&self, with: &Credential, ask: &Prompt<'_>, within: Duration) -> ModelCall {
        let asked = self.asked(with, ask, within.min(self.settings.timeout)).await;
        let outcome = asked.reading.as_ref().err().map_or("ok", Failure::outcome);
        let (provider, model) = (with.provider.name(), &asked.model);
        tracing::info!(provider, model, outcome, tokens = asked.usage.total(), "model request finished");
        if with.payer == Payer::Deployment {
            metrics::counter!("service_bundled_llm_request_total", "outcome" => outcome).increment(1);
        }
        asked
    }

    async fn asked(&self, with: &Credential, ask: &Prompt<'_>, within: Duration) -> ModelCall {
        let (end, settings) = self.end(with.provider);
        let question = Question::of(ask, &settings.model);
        let request = self.exchange.request(end.as_ref(), settings, &with.key, &end.body(&question));
        let answered = self.exchange.twice_at_most(request, within).await;
        let told = answered.map_err(|refusal: Refusal| refusal.failure()).and_then(|body| end.read(&body));
        let (usage, reading) = match told {
            Ok(told) => (told.usage, told.call.and_then(|call| Ok(answers::read(call, ask)?))),
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
