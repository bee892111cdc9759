//! OpenTelemetry traces: spans of requests, of workers and of commands to browsers, sent to a collector by OTLP.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use opentelemetry::trace::{Link, SpanKind, TraceId, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SamplingResult, SdkTracer, SdkTracerProvider, ShouldSample};
use tokio::runtime::Handle;

use crate::config::{Secret, Traces};

/// Time limit of a request to the collector, and of sending the remaining spans when the process ends.
const PATIENCE: Duration = Duration::from_secs(2);
/// Monitoring requests them every few seconds.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub struct TraceExporter(SdkTracerProvider);

/// Starts the exporter when `traces.url` is set.
pub fn begin(config: &Traces) -> Result<Option<TraceExporter>> {
    let Some(url) = &config.url else { return Ok(None) };
    let mut headers = reqwest::header::HeaderMap::new();
    if let Some(authorization) = config.authorization.as_ref().map(Secret::reveal) {
        let mut value = reqwest::header::HeaderValue::from_str(authorization).context("traces.authorization")?;
        value.set_sensitive(true);
        headers.insert(reqwest::header::AUTHORIZATION, value);
    }
    let http = reqwest::Client::builder().default_headers(headers).timeout(PATIENCE).no_proxy().build()?;
    let client = Client { http, runtime: Handle::current() };
    let exporter = SpanExporter::builder().with_http().with_http_client(client).with_endpoint(url.as_str()).build()?;
    let about = [("service.version", env!("CARGO_PKG_VERSION"))].map(|(key, value)| KeyValue::new(key, value));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("kitfleet").with_attributes(about).build())
        .with_sampler(Sampler::ParentBased(Box::new(Roots(Sampler::TraceIdRatioBased(config.ratio)))))
        .build();
    Ok(Some(TraceExporter(provider)))
}

impl TraceExporter {
    pub fn tracer(&self) -> SdkTracer {
        self.0.tracer("kitfleet")
    }

    /// Spans that the collector does not receive in time are lost.
    pub async fn end(self) {
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(PATIENCE)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "cannot send the remaining traces");
        }
    }
}

/// Only requests other than probes start a trace.
#[derive(Debug, Clone)]
struct Roots(Sampler);

impl ShouldSample for Roots {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let is_probe = |pair: &KeyValue| pair.key.as_str() == "route" && PROBES.contains(&&*pair.value.as_str());
        let is_root = name == "request" && !attributes.iter().any(is_probe);
        let sampler = if is_root { &self.0 } else { &Sampler::AlwaysOff };
        sampler.should_sample(parent, trace, name, kind, attributes, links)
    }
}

/// HTTP client for a thread without a runtime, which sends the spans.
struct Client {
    http: reqwest::Client,
    runtime: Handle,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move {
            let answer = http.execute(request.try_into()?).await?;
            let status = answer.status();
            Ok::<_, HttpError>((status, answer.bytes().await?))
        });
        let (status, body) = sent.await??;
        Ok(Response::builder().status(status).body(body)?)
    }
}
