//! Kitfleet: self-hosted mobile browser sessions on real WebKit, over plain HTTP.
//!
//! One binary with several roles. This crate reads the configuration, finds or runs the database, and starts the API
//! and the worker.

mod cli;
mod config;
mod database;
mod descriptors;
mod doctor;
mod embedded;
mod logging;
mod operators;
mod output;
mod owner;
mod roles;
mod session_capacity;
mod traces;
mod welcome;

use std::io::{Write as _, stderr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser as _;
use kitfleet_domain::database::SchemaState;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::cli::{Cli, CliCommand};
pub use crate::config::{Config, ConfigError};
use crate::database::Database;
pub use crate::descriptors::raise as raise_descriptors;
pub use crate::logging::to as log_to;
use crate::operators::Order;
use crate::output::Format;
pub use crate::roles::up;
pub use kitfleet_worker::Shutdown;

/// Maximum time that the end of the program waits for blocked threads, such as one that looks up a name.
const BLOCKED_THREADS: Duration = Duration::from_secs(1);

/// The runtime starts here, so that the whole program is compiled with this crate and its tests.
///
/// # Panics
///
/// When the runtime cannot start a thread.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = Runtime::new().expect("the threads of the runtime start");
    let ended = runtime.block_on(Box::pin(run(cli)));
    runtime.shutdown_timeout(BLOCKED_THREADS);
    let Err(error) = ended else { return ExitCode::SUCCESS };
    // The error cannot be reported when standard error is closed.
    let _ = writeln!(stderr(), "kitfleet: {}", in_one_line(&error));
    ExitCode::from(if error.is::<ConfigError>() { 2 } else { 1 })
}

/// Omits a cause that the error repeats.
fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for message in error.chain().map(ToString::to_string).filter(|message| !message.is_empty()) {
        if line.is_empty() {
            line = message;
        } else if !line.contains(&message) {
            line = format!("{line}: {message}");
        }
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn run(cli: Cli) -> Result<()> {
    // This comes first because defaults of the configuration depend on it.
    let raised = descriptors::raise();
    let config = Config::load(cli.config.as_deref())?;
    let mut trace_exporter = None;
    match &cli.command {
        CliCommand::Up | CliCommand::Api | CliCommand::Worker => {
            trace_exporter = traces::begin(&config.traces)?;
            logging::init_for_role(&config.log, trace_exporter.as_ref());
            match raised {
                Ok((before, now)) => tracing::info!(before, now, "limit of open files set"),
                Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
            }
        }
        _ => logging::init_for_command(),
    }
    let done = match cli.command {
        CliCommand::Up => up(&config, &roles::stop_on_signals()?, output::line).await,
        CliCommand::Api => roles::api_only(&config).await,
        CliCommand::Worker => roles::worker_only(&config).await,
        CliCommand::Migrate(format) => migrate(&config, format).await,
        CliCommand::Config(format) => format.print(&config.effective(), toml),
        // The document is JSON in both formats.
        CliCommand::Openapi(_) => openapi(&config),
        CliCommand::Doctor(format) => doctor::examine(&config, format).await,
        CliCommand::Account(order) => operators::run(&config, Order::Account(order)).await,
        CliCommand::Key(order) => operators::run(&config, Order::Key(order)).await,
        CliCommand::Sessions(order) => operators::run(&config, Order::Sessions(order)).await,
        CliCommand::Workers(order) => operators::run(&config, Order::Workers(order)).await,
        CliCommand::Jobs(order) => operators::run(&config, Order::Jobs(order)).await,
        CliCommand::Deliveries(order) => operators::run(&config, Order::Deliveries(order)).await,
        CliCommand::Profiles(order) => operators::run(&config, Order::Profiles(order)).await,
        CliCommand::Sweep(order) => operators::run(&config, Order::Sweep(order)).await,
    };
    if let Some(traces) = trace_exporter {
        traces.end().await;
    }
    done
}

async fn migrate(config: &Config, format: Format) -> Result<()> {
    let database = Database::to_migrate(config).await?;
    let schema = database.migrate().await;
    database.close().await;
    let is_newer = schema? == SchemaState::Newer;
    format.print(&json!({"migrated": true, "newer": is_newer}), |_| {
        let newer = "the database schema is newer than this version of Kitfleet and is not changed";
        if is_newer { newer } else { "the database schema is up to date" }.to_owned()
    })
}

fn openapi(config: &Config) -> Result<()> {
    let base_url = config.server.base_url_at(config.server.listen);
    let document = kitfleet_api::DocumentConfig {
        base_url: &base_url,
        limits: &config.limits,
        max_token_budget: config.agents.max_token_budget,
    };
    output::line(&serde_json::to_string_pretty(&kitfleet_api::openapi(&document))?)
}

fn toml(config: &Config) -> String {
    toml::to_string(config).unwrap_or_else(|error| unreachable!("every value of the configuration is TOML: {error}"))
}
