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
pub fn init_for_role(log: &Log, traces: Option<&TraceExporter>) {
    let format = log.format.unwrap_or(if stderr().is_terminal() { LogFormat::Pretty } else { LogFormat::Json });
    start(format, &log.filter, stderr, traces);
}

/// Starts the log of a role inside another program.
pub fn to(config: &Config, writer: impl for<'line> MakeWriter<'line> + Send + Sync + 'static) {
    start(config.log.format.unwrap_or(LogFormat::Json), &config.log.filter, writer, None);
}

/// Warnings and errors for an operator at a terminal.
pub fn init_for_command() {
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
    let _ = Registry::default().with(with_quiet_crates(filter)).with(lines).with(spans).try_init();
}

fn with_quiet_crates(filter: &str) -> EnvFilter {
    EnvFilter::new(format!("{filter},{QUIET}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::sync::Mutex;

    use super::*;

    fn written(filter: &str, log: impl FnOnce()) -> String {
        let mut file = tempfile::tempfile().expect("a file");
        let writer = Mutex::new(file.try_clone().expect("the same file"));
        let lines = fmt::layer().with_writer(writer).with_ansi(false);
        tracing::subscriber::with_default(Registry::default().with(with_quiet_crates(filter)).with(lines), log);
        file.rewind().expect("the start");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("UTF-8");
        text
    }

    /// The crate logs through `log`. Its lines pass the filter with the same targets.
    #[test]
    fn visited_hosts_are_not_logged_at_debug() {
        for filter in ["debug", "trace", "info,fast_socks5=debug"] {
            let text = written(filter, || {
                tracing::info!("of the service");
                tracing::debug!(target: "fast_socks5::server", "visited.example");
                tracing::info!(target: "fast_socks5", "visited.example");
                tracing::warn!(target: "fast_socks5::server", "a warning");
            });
            assert!(!text.contains("visited.example"), "{filter}: {text}");
            assert!(text.contains("of the service") && text.contains("a warning"), "{filter}: {text}");
        }
    }
}
