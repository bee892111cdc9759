//! Log lines go to standard error: standard output belongs to a command's result.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Config, Log, LogFormat};

/// Logs as configured, for the roles that run for long.
pub fn for_a_role(log: &Log) {
    let format = log.format.unwrap_or(if stderr().is_terminal() { LogFormat::Pretty } else { LogFormat::Json });
    start(format, &log.filter, stderr);
}

/// Logs as configured, but to `writer`, for a role that runs inside another program.
pub fn to(config: &Config, writer: impl for<'line> MakeWriter<'line> + Send + Sync + 'static) {
    start(config.log.format.unwrap_or(LogFormat::Json), &config.log.filter, writer);
}

/// Logs what an operator at a terminal has to know.
pub fn for_a_command() {
    start(LogFormat::Pretty, "warn", stderr);
}

fn start(format: LogFormat, filter: &str, writer: impl for<'line> MakeWriter<'line> + Send + Sync + 'static) {
    let lines = tracing_subscriber::fmt().with_writer(writer).with_env_filter(EnvFilter::new(filter));
    // A line that cannot be written, to a disk that is full, would be complained of on standard error too, with a panic.
    let lines = lines.log_internal_errors(false);
    // Starting twice is the only error, and a process logs once.
    let _ = match format {
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
        LogFormat::Pretty => lines.with_ansi(stderr().is_terminal()).finish().try_init(),
    };
}
