//! Run `cargo bench --profile dist --workspace --bench service`, or with a section's name after `--`.
//!
//! The browser sections run the same work on bare `WebDriver` (`WebKitWebDriver` and `MiniBrowser`, a fresh browser each) in
//! the same run. Quote the ratio: it is independent of drifts in the machine's speed.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]

mod audit;
mod browsers;
mod egress;
mod fleet;
mod live;
#[path = "../../tests/it/support/live_socket.rs"]
mod live_socket;
mod load;
mod logins;
mod notifications;
mod orchestrator;
#[allow(dead_code, reason = "tests use more of it")]
#[path = "../../tests/it/support/postgres.rs"]
mod postgres;
mod processes;
mod profiles;
#[allow(dead_code, reason = "tests use more of it")]
#[path = "../../tests/it/support/proxy.rs"]
mod proxy;
mod recordings;
mod report;
mod requeue;
mod service;
mod site;
mod turns;
mod webdriver;
mod webhooks;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    // Cargo passes `--bench`; the other arguments are sections.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    // Runs only on request: its duration depends on its options.
    if let [section, options @ ..] = &wanted[..]
        && section == "load"
    {
        return load::run(options).await;
    }
    let wants = |section: &str| wanted.is_empty() || wanted.iter().any(|name| name == section);
    if wants("orchestrator") {
        orchestrator::run().await?;
    }
    if wants("logins") {
        logins::run().await?;
    }
    if wants("audit") {
        audit::run().await?;
    }
    if wants("webhooks") {
        webhooks::run().await?;
    }
    if wants("requeue") {
        requeue::run().await?;
    }
    if wants("profiles") {
        profiles::run().await?;
    }
    if wants("turns") {
        turns::run().await?;
    }
    if wants("egress") {
        egress::run().await?;
    }
    if wants("live") {
        live::run().await?;
    }
    if wants("notifications") {
        notifications::run().await?;
    }
    if wants("recordings") {
        recordings::run().await?;
    }
    if wants("fleet") {
        fleet::run().await?;
    }
    if wants("kill") {
        fleet::kill().await?;
    }
    if wants("browsers") {
        browsers::run().await?;
    }
    Ok(())
}
