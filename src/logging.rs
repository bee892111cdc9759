//! Log lines go to standard error. Standard output is for the result of a command.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::config::{Config, Log, LogFormat};
use crate::traces::TraceExporter;

/// Directive behind each filter. At `debug` this crate logs the hosts that browsers visit, and passwords.
const QUIET: &str = "fast_socks5=warn";

/// Starts the log of a long-running role, with spans when traces are configured.
pub fn for_a_role(log: &Log, traces: Option<&TraceExporter>) {
    let format = log.format.unwrap_or(if stderr().is_terminal() { LogFormat::Pretty } else { LogFormat::Json });
    start(format, &log.filter, stderr, traces);
}

/// Starts the log of a role inside another program.
pub fn to(config: &Config, writer: impl for<'line> MakeWriter<'line> + Send + Sync + 'static) {
    start(config.log.format.unwrap_or(LogFormat::Json), &config.log.filter, writer, None);
}

/// Warnings and errors for an operator at a terminal.
pub fn for_a_command() {
    start(LogFormat::Pretty, "warn", stderr, None);
}

fn start(
    format: LogFormat,
    filter: &str,
    writer: impl for<'line> MakeWriter<'line> + Send + Sync + 'static,
    traces: Option<&TraceExporter>,
) {
    // The layer would report a failed write on standard error, which can fail too, and panic.
    let lines = fmt::layer().with_writer(writer).log_internal_errors(false);
    let lines = match format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Pretty => lines.with_ansi(stderr().is_terminal()).boxed(),
    };
    // The parent of a span is the span it was created in, on any thread.
    let spans = traces.map(|traces| {
        let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer()).with_context_activation(false);
        layer.with_threads(false).with_location(false)
    });
    // Both layers share one filter. Filters of single layers fail when a caller such as sqlx asks whether a level is enabled and then
    // logs nothing. The only possible error is a second start.
    let _ = Registry::default().with(EnvFilter::new(format!("{filter},{QUIET}"))).with(lines).with(spans).try_init();
}
