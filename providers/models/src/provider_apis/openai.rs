//! `OpenAI`'s Responses API (<https://platform.openai.com/docs/api-reference/responses>).

use kitfleet_domain::byok::ProviderKey;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ProviderApi, ProviderReply, Question, only};
use crate::answers::{AnswerError, PURPOSE, TOOL};
use crate::prompts::RULES;
use crate::{Failure, Usage};

const MIN_OUTPUT: u32 = 16;

pub struct Openai;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    output: Vec<Item>,
    #[serde(default)]
    status: Option<String>,
    usage: Counts,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    FunctionCall {
        name: String,
        arguments: String,
    },
    #[serde(other)]
    Else,
}

/// The input tokens include the cached ones.
#[derive(Deserialize)]
struct Counts {
    #[serde(rename = "input_tokens")]
    input: u32,
    #[serde(rename = "output_tokens")]
    output: u32,
    #[serde(default, rename = "input_tokens_details")]
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: u32,
}

impl ProviderApi for Openai {
    fn path(&self) -> &'static str {
        "/v1/responses"
    }

    fn credential(&self, key: &ProviderKey) -> (HeaderName, String) {
        (AUTHORIZATION, format!("Bearer {}", key.reveal()))
    }

    fn headers(&self) -> HeaderMap {
        HeaderMap::new()
    }

    fn body(&self, question: &Question<'_>) -> Value {
        json!({
            "model": question.model,
            "max_output_tokens": question.max_tokens,
            "instructions": RULES,
            "tools": [{
                "type": "function", "name": TOOL, "description": PURPOSE, "parameters": question.schema, "strict": false,
            }],
            "tool_choice": {"type": "function", "name": TOOL},
            "parallel_tool_calls": false,
            // Page content must not be stored at the provider.
            "store": false,
            "input": question.messages(),
        })
    }

    fn smallest_request(&self, model: &str) -> Value {
        json!({"model": model, "max_output_tokens": MIN_OUTPUT, "store": false, "input": "."})
    }

    fn read(&self, answer: &[u8]) -> Result<ProviderReply, Failure> {
        let Answer { output, status, usage } = serde_json::from_slice(answer).map_err(|_| Failure::Malformed)?;
        let calls = output.into_iter().filter_map(|item| match item {
            Item::FunctionCall { name, arguments } if name == TOOL => Some(arguments),
            _ => None,
        });
        let read = |arguments: String| serde_json::from_str(&arguments).map_err(|_| AnswerError::Form);
        let call = calls.map(read).collect::<Result<_, _>>().map_err(Failure::from).and_then(only);
        let cached = usage.details.map_or(0, |details| details.cached_tokens).min(usage.input);
        let usage = Usage { input: usage.input - cached, output: usage.output, cache_write: 0, cache_read: cached };
        let whole = status.as_deref() != Some("incomplete");
        Ok(ProviderReply { call: if whole { call } else { Err(Failure::CutOff) }, usage })
    }
}
