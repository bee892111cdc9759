//! Log lines go to standard error: standard output belongs to a command's result.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::config::{Config, Log, LogFormat};
use crate::traces::Telling;

/// Logs as configured, for the roles that run for long, which may tell of traces.
pub fn for_a_role(log: &Log, traces: Option<&Telling>) {
    let format = log.format.unwrap_or(if stderr().is_terminal() { LogFormat::Pretty } else { LogFormat::Json });
    start(format, &log.filter, stderr, traces);
}

/// Logs as configured, but to `writer`, for a role that runs inside another program.
pub fn to(config: &Config, writer: impl for<'line> MakeWriter<'line> + Send + Sync + 'static) {
    start(config.log.format.unwrap_or(LogFormat::Json), &config.log.filter, writer, None);
}

/// Logs what an operator at a terminal has to know.
pub fn for_a_command() {
    start(LogFormat::Pretty, "warn", stderr, None);
}

fn start(
    format: LogFormat,
    filter: &str,
    writer: impl for<'line> MakeWriter<'line> + Send + Sync + 'static,
    traces: Option<&Telling>,
) {
    // A line that cannot be written, to a disk that is full, would be complained of on standard error too, with a panic.
    let lines = fmt::layer().with_writer(writer).log_internal_errors(false);
    let lines = match format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Pretty => lines.with_ansi(stderr().is_terminal()).boxed(),
    };
    // A span stands below the one that it was made in, whichever thread that was entered on.
    let spans = traces.map(|traces| {
        let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer()).with_context_activation(false);
        layer.with_threads(false).with_location(false)
    });
    // One filter holds for both: those of single layers are led astray by whoever asks what is enabled and then says nothing, as sqlx does.
    // Starting twice is the only error, and a process logs once.
    let _ = Registry::default().with(EnvFilter::new(filter)).with(lines).with(spans).try_init();
}
