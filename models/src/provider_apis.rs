//! The providers, each in its own words.

mod anthropic;
mod openai;

use kitfleet_domain::byok::ProviderKey;
use reqwest::header::{HeaderMap, HeaderName};
use serde_json::{Value, json};

pub use self::anthropic::Anthropic;
pub use self::openai::Openai;
use crate::answers::{self, AnswerError};
use crate::prompts::{self, ConversationRole, ConversationTurn, Prompt};
use crate::{Failure, Usage};

/// How a provider is spoken to.
pub trait ProviderApi: Send + Sync {
    /// Where, below its address.
    fn path(&self) -> &'static str;
    /// The header that shows the key.
    fn credential(&self, key: &ProviderKey) -> (HeaderName, String);
    /// The other headers that it wants.
    fn headers(&self) -> HeaderMap;
    /// What it is sent.
    fn body(&self, question: &Question<'_>) -> Value;
    /// The least that it can be asked for.
    fn least(&self, model: &str) -> Value;
    /// What it answered.
    fn read(&self, answer: &[u8]) -> Result<ProviderReply, Failure>;
}

/// What a provider is asked, in nobody's words.
pub struct Question<'a> {
    model: &'a str,
    history: &'a [ConversationTurn<'a>],
    message: String,
    schema: Value,
    most_tokens: u32,
}

impl<'a> Question<'a> {
    pub fn of(ask: &Prompt<'a>, model: &'a str) -> Self {
        let (message, schema) = (prompts::message(ask), answers::schema(ask.most_steps));
        Self { model, history: prompts::history(ask), message, schema, most_tokens: ask.most_tokens }
    }

    /// All that is said, in the form that both have in common.
    fn messages(&self) -> Vec<Value> {
        let before = self.history.iter().map(|said| match said.by {
            ConversationRole::Customer => json!({"role": "user", "content": said.text}),
            ConversationRole::Agent => json!({"role": "assistant", "content": said.text}),
        });
        before.chain([json!({"role": "user", "content": self.message})]).collect()
    }
}

/// What a provider answered.
pub struct ProviderReply {
    /// With what the tool was called, if it was, and once.
    pub call: Result<Value, Failure>,
    pub usage: Usage,
}

/// The one call among these.
fn only(mut calls: Vec<Value>) -> Result<Value, Failure> {
    match calls.len() {
        1 => Ok(calls.remove(0)),
        _ => Err(AnswerError::NoCall.into()),
    }
}
