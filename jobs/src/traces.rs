//! Traces, from the process that was asked to the one that does it: a row carries which span asked. Where no traces are told of, a span
//! stands in none, and nothing is carried.

use kitfleet_domain::trace_parent::TraceParent;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing::{Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The field of a span by which its log lines carry their trace's id. A span that is to have it declares it as empty.
pub const TRACE_ID: &str = "trace_id";

/// Where the caller stands.
#[must_use]
pub fn here() -> Option<TraceParent> {
    standing(&Span::current())
}

fn standing(span: &Span) -> Option<TraceParent> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then(|| TraceParent {
        trace: u128::from_be_bytes(context.trace_id().to_bytes()),
        span: u64::from_be_bytes(context.span_id().to_bytes()),
        sampled: context.is_sampled(),
    })
}

/// Puts a span that nobody has entered yet below the one that asked for what it does.
pub fn follow(span: &Span, parent: Option<TraceParent>) {
    if let Some(TraceParent { trace, span: parent, sampled }) = parent {
        let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
        let (trace, parent) = (TraceId::from(trace), SpanId::from(parent));
        let asked = SpanContext::new(trace, parent, flags, true, TraceState::default());
        // It fails for a span that was entered, or in a process that tells of none.
        let _ = span.set_parent(Context::new().with_remote_span_context(asked));
    }
    name(span);
}

/// Has a span's log lines carry the id of its trace.
pub fn name(span: &Span) {
    if let Some(TraceParent { trace, .. }) = standing(span) {
        span.record(TRACE_ID, field::display(format_args!("{trace:032x}")));
    }
}
