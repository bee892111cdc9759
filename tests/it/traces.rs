//! Traces as an OpenTelemetry collector receives them (contract: operators 8).

use std::collections::HashMap;
use std::iter;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::support::{App, Role, eventually, serve};

struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Span>>>,
    _server: AbortOnDropHandle<()>,
}

impl Collector {
    async fn start() -> Self {
        let spans = Arc::<Mutex<Vec<Span>>>::default();
        let kept = Arc::clone(&spans);
        let take = async move |headers: HeaderMap, body: Bytes| {
            if headers.get("authorization").is_none_or(|value| value != "Bearer collector") {
                return StatusCode::UNAUTHORIZED;
            }
            let told = ExportTraceServiceRequest::decode(body).expect("OTLP");
            let scopes = told.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend(scopes.flat_map(|scope| scope.spans));
            StatusCode::OK
        };
        let (base_url, server) = serve(Router::new().route("/v1/traces", post(take))).await;
        Self { url: format!("{base_url}/v1/traces"), spans, _server: server }
    }

    fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn attribute(span: &Span, key: &str) -> String {
    let value = span.attributes.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
    let Some(opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue(text)) =
        value.and_then(|value| value.value)
    else {
        return String::new();
    };
    text
}

/// Names from the span up to the root of its trace, or up to the last known parent.
fn paths(spans: &[Span]) -> Vec<Vec<&str>> {
    let by_id: HashMap<_, _> = spans.iter().map(|span| (&span.span_id, span)).collect();
    let path = |span| {
        let up = iter::successors(Some(span), |span: &&Span| by_id.get(&span.parent_span_id).copied());
        up.map(|span| span.name.as_str()).collect()
    };
    spans.iter().map(path).collect()
}

/// Contract: operators 8. Log lines of both processes contain its id. Probes and background work create no traces.
#[tokio::test]
async fn trace_spans_request_turn_operation_and_browser() {
    let collector = Collector::start().await;
    let app = App::webkit().roles(&[Role::Api, Role::Worker]).set("traces.url", &collector.url);
    let mut app = app.set("traces.authorization", "Bearer collector").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let agent = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let agent = agent["id"].as_str().expect("an id");
    let said_to_it = json!({"message": "open http://welcome.kitfleet.internal/"});
    client.post(&format!("/v1/agent-sessions/{agent}/message"), said_to_it).await.expect(200);
    let session = client.session().await;
    client.operate(&session, "interact", json!({"action": {"kind": "tap", "selector": "body"}})).await.expect(200);
    // The worker logs nothing for an operation that succeeds.
    let never = json!({"condition": {"kind": "selector", "selector": "#nowhere"}, "timeout_ms": 200});
    client.operate(&session, "wait", never).await.problem(504, "session-timeout");
    client.get("/healthz").await.expect(200);
    for process in [0, 1] {
        app.signal(process, Signal::SIGTERM).await;
    }
    let expected = [
        &["browser", "session", "request"][..],
        &["browser", "session", "turn", "request"],
        &["session", "request"],
        &["turn", "request"],
        &["request"],
    ];
    let spans = eventually(Duration::from_secs(15), "each kind of span and its parents", async || {
        let spans = collector.spans();
        let paths = paths(&spans);
        expected.iter().all(|expected| paths.iter().any(|path| path == expected)).then_some(spans)
    })
    .await;
    let paths = paths(&spans);
    assert!(paths.iter().all(|path| path.last() == Some(&"request")), "{paths:?}");
    assert!(spans.iter().all(|span| attribute(span, "route") != "/healthz"));

    let wait =
        spans.iter().find(|span| attribute(span, "operation") == "wait" && attribute(span, "session") == session);
    let trace = hex::encode(&wait.expect("the wait").trace_id);
    for process in [0, 1] {
        let log = app.log(process);
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let names_it = |line: &Value| {
            let spans = line["spans"].as_array().into_iter().flatten();
            spans.chain([&line["span"]]).any(|span| span["trace_id"] == trace)
        };
        assert!(lines.any(|line| names_it(&line)), "{trace} is not in the log of process {process}: {log}");
    }
    app.stop().await;
}

/// Contract: operators 8. It does not delay the shutdown either.
#[tokio::test]
async fn hanging_collector_delays_no_request() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1/traces", silent.local_addr().expect("an address"));
    let mut app = App::simulated().in_processes().set("traces.url", &url).start().await;
    let client = app.client().await;
    let session = client.session().await;
    let began = Instant::now();
    for _ in 0..50 {
        client.operate(&session, "state", json!({})).await;
        client.get(&format!("/v1/sessions/{session}")).await.expect(200);
    }
    assert!(began.elapsed() < Duration::from_secs(10));
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let began = Instant::now();
    app.signal(0, Signal::SIGTERM).await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    app.stop().await;
}
