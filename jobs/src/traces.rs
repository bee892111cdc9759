//! Trace propagation between processes: a row carries the span that requested the work. If tracing is off, nothing is
//! carried.

use kitfleet_domain::trace_parent::TraceParent;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing::{Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Gives log lines the trace id. A span that uses the field declares it as empty.
pub const TRACE_ID: &str = "trace_id";

#[must_use]
pub fn current() -> Option<TraceParent> {
    trace_of(&Span::current())
}

fn trace_of(span: &Span) -> Option<TraceParent> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then(|| TraceParent {
        trace: u128::from_be_bytes(context.trace_id().to_bytes()),
        span: u64::from_be_bytes(context.span_id().to_bytes()),
        sampled: context.is_sampled(),
    })
}

/// The span must not have been entered yet.
pub fn follow(span: &Span, parent: Option<TraceParent>) {
    if let Some(TraceParent { trace, span: parent, sampled }) = parent {
        let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
        let (trace, parent) = (TraceId::from(trace), SpanId::from(parent));
        let asked = SpanContext::new(trace, parent, flags, true, TraceState::default());
        // Fails if the span was entered, or if this process exports no traces.
        let _ = span.set_parent(Context::new().with_remote_span_context(asked));
    }
    name(span);
}

/// So that log lines carry the trace id.
pub fn name(span: &Span) {
    if let Some(TraceParent { trace, .. }) = trace_of(span) {
        span.record(TRACE_ID, field::display(format_args!("{trace:032x}")));
    }
}
