//! A model provider on loopback with Anthropic's Messages API and `OpenAI`'s Responses API. Responses, valid or not, have the
//! form that was observed at the providers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::app::Builder;
use super::serve;

/// Requests without a prepared reply receive the tool call `{"kind": "refuse", "reply": "No."}`.
pub struct ModelProvider {
    pub base_url: String,
    seen: Arc<Seen>,
    _server: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Seen {
    asked: Mutex<Vec<Asked>>,
    answers: Mutex<VecDeque<Reply>>,
}

#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

#[derive(Debug, Clone)]
pub enum Reply {
    Json(u16, Value),
    /// With `Retry-After`.
    Later(u16, &'static str, Value),
    /// Not JSON.
    Text(u16, &'static str),
    /// At full speed.
    Endless(u16),
    /// Above every limit.
    Huge,
    /// After a notification.
    When(Arc<Notify>, Value),
    Hang,
    Stall,
    Redirect(String),
}

impl Asked {
    /// Empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
    }
}

impl ModelProvider {
    pub async fn start() -> Self {
        let seen = Arc::new(Seen::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&seen));
        let (base_url, server) = serve(router).await;
        Self { base_url, seen, _server: server }
    }

    /// To the next request.
    pub fn answer(&self, reply: Reply) {
        self.seen.answers.lock().expect("no panic").push_back(reply);
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.seen.asked.lock().expect("no panic").clone()
    }
}

impl Builder {
    /// All model requests.
    pub fn asking(self, provider: &ModelProvider) -> Self {
        self.set("agents.anthropic.base_url", &provider.base_url).set("agents.openai.base_url", &provider.base_url)
    }
}

pub fn anthropic_call(input: &Value) -> Value {
    json!({
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6",
        "content": [
            {"type": "text", "text": "I will do that."},
            {"type": "tool_use", "id": "toolu_01D7FLrfh4GYq7yT1ULFeyMV", "name": "answer", "input": input},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {
            "input_tokens": 472, "cache_creation_input_tokens": 2048, "cache_read_input_tokens": 1024,
            "cache_creation": {"ephemeral_5m_input_tokens": 2048, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 89, "service_tier": "standard",
        },
    })
}

pub fn openai_call(arguments: &Value) -> Value {
    json!({
        "id": "resp_67ccd3a9da748190baa7f1570fe91ac604becb25c45c1d41", "object": "response", "created_at": 1_741_476_777,
        "status": "completed", "error": null, "incomplete_details": null, "model": "gpt-5.1-2025-11-13",
        "output": [
            {"type": "reasoning", "id": "rs_67ccd3acc8d48190a77525dc6de64b4104becb25c45c1d41", "summary": []},
            {
                "type": "function_call", "id": "fc_67ccd3acc8d48190a77525dc6de64b4104becb25c45c1d42",
                "call_id": "call_unDRWp2gCAsQYgGkPqJd9vEm", "name": "answer", "arguments": arguments.to_string(),
                "status": "completed",
            },
        ],
        "parallel_tool_calls": false, "store": false, "tool_choice": {"type": "function", "name": "answer"},
        "usage": {
            "input_tokens": 3291, "input_tokens_details": {"cached_tokens": 1024}, "output_tokens": 123,
            "output_tokens_details": {"reasoning_tokens": 64}, "total_tokens": 3414,
        },
    })
}

pub fn anthropic_error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"})
}

pub fn openai_error(kind: &str, code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

async fn answer(State(seen): State<Arc<Seen>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let body = serde_json::from_slice(&body).expect("JSON");
    let path = uri.path().to_owned();
    seen.asked.lock().expect("no panic").push(Asked { path: path.clone(), headers, body });
    let reply = seen.answers.lock().expect("no panic").pop_front();
    let refusal = json!({"kind": "refuse", "reply": "No."});
    let well =
        || Reply::Json(200, if path == "/v1/messages" { anthropic_call(&refusal) } else { openai_call(&refusal) });
    let response = Response::builder().header("content-type", "application/json");
    let response = match reply.unwrap_or_else(well) {
        Reply::Json(status, body) => response.status(status).body(Body::from(body.to_string())),
        Reply::Later(status, after, body) => {
            response.status(status).header("retry-after", after).body(Body::from(body.to_string()))
        }
        Reply::Text(status, body) => response.status(status).body(Body::from(body)),
        Reply::Endless(status) => {
            let chunks = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 16_384])));
            response.status(status).body(Body::from_stream(chunks))
        }
        Reply::Huge => response
            .header("content-length", (1 << 30).to_string())
            .body(Body::from_stream(stream::pending::<std::io::Result<Bytes>>())),
        Reply::When(told, body) => {
            told.notified().await;
            response.body(Body::from(body.to_string()))
        }
        Reply::Hang => std::future::pending().await,
        Reply::Stall => response.body(Body::from_stream(stream::pending::<std::io::Result<Bytes>>())),
        Reply::Redirect(to) => response.status(307).header("location", to).body(Body::empty()),
    };
    response.expect("an answer")
}
