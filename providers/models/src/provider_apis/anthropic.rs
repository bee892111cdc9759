//! Anthropic's Messages API (<https://docs.claude.com/en/api/messages>).

use kitfleet_domain::byok::ProviderKey;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ProviderApi, ProviderReply, Question, only};
use crate::answers::{PURPOSE, TOOL};
use crate::prompts::RULES;
use crate::{Failure, Usage};

pub struct Anthropic;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    content: Vec<Block>,
    #[serde(default)]
    stop_reason: Option<String>,
    usage: Counts,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    ToolUse {
        name: String,
        input: Value,
    },
    #[serde(other)]
    Else,
}

/// Each token counts in exactly one of these.
#[derive(Deserialize)]
struct Counts {
    #[serde(rename = "input_tokens")]
    input: u32,
    #[serde(rename = "output_tokens")]
    output: u32,
    #[serde(default, rename = "cache_creation_input_tokens")]
    cache_write: Option<u32>,
    #[serde(default, rename = "cache_read_input_tokens")]
    cache_read: Option<u32>,
}

impl ProviderApi for Anthropic {
    fn path(&self) -> &'static str {
        "/v1/messages"
    }

    fn credential(&self, key: &ProviderKey) -> (HeaderName, String) {
        (HeaderName::from_static("x-api-key"), key.reveal().to_owned())
    }

    fn headers(&self) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"))])
    }

    fn body(&self, question: &Question<'_>) -> Value {
        json!({
            "model": question.model,
            "max_tokens": question.max_tokens,
            // The provider caches the content before this mark: the tool and the rules.
            "system": [{"type": "text", "text": RULES, "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": TOOL, "description": PURPOSE, "input_schema": question.schema}],
            "tool_choice": {"type": "tool", "name": TOOL, "disable_parallel_tool_use": true},
            "messages": question.messages(),
        })
    }

    fn smallest_request(&self, model: &str) -> Value {
        json!({"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "."}]})
    }

    fn read(&self, answer: &[u8]) -> Result<ProviderReply, Failure> {
        let Answer { content, stop_reason, usage } = serde_json::from_slice(answer).map_err(|_| Failure::Malformed)?;
        let calls = content.into_iter().filter_map(|block| match block {
            Block::ToolUse { name, input } if name == TOOL => Some(input),
            _ => None,
        });
        let usage = Usage {
            input: usage.input,
            output: usage.output,
            cache_write: usage.cache_write.unwrap_or_default(),
            cache_read: usage.cache_read.unwrap_or_default(),
        };
        // A truncated call may look complete.
        let whole = stop_reason.as_deref() != Some("max_tokens");
        Ok(ProviderReply { call: if whole { only(calls.collect()) } else { Err(Failure::CutOff) }, usage })
    }
}
