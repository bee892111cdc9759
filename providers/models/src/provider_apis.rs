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

pub trait ProviderApi: Send + Sync {
    fn path(&self) -> &'static str;
    fn credential(&self, key: &ProviderKey) -> (HeaderName, String);
    fn headers(&self) -> HeaderMap;
    fn body(&self, question: &Question<'_>) -> Value;
    /// Body of the smallest possible request.
    fn smallest_request(&self, model: &str) -> Value;
    fn read(&self, answer: &[u8]) -> Result<ProviderReply, Failure>;
}

/// Independent of the provider.
pub struct Question<'a> {
    model: &'a str,
    history: &'a [ConversationTurn<'a>],
    message: String,
    schema: Value,
    max_tokens: u32,
}

impl<'a> Question<'a> {
    pub fn of(ask: &Prompt<'a>, model: &'a str) -> Self {
        let (message, schema) = (prompts::message(ask), answers::schema(ask.max_steps));
        Self { model, history: prompts::history(ask), message, schema, max_tokens: ask.max_tokens }
    }

    /// Both providers use this form.
    fn messages(&self) -> Vec<Value> {
        let before = self.history.iter().map(|turn| match turn.by {
            ConversationRole::Customer => json!({"role": "user", "content": turn.text}),
            ConversationRole::Agent => json!({"role": "assistant", "content": turn.text}),
        });
        before.chain([json!({"role": "user", "content": self.message})]).collect()
    }
}

pub struct ProviderReply {
    /// Arguments of the tool call, if there is exactly one.
    pub call: Result<Value, Failure>,
    pub usage: Usage,
}

/// An error unless there is exactly one.
fn only(mut calls: Vec<Value>) -> Result<Value, Failure> {
    match calls.len() {
        1 => Ok(calls.remove(0)),
        _ => Err(AnswerError::NoCall.into()),
    }
}
