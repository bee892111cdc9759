//! Operations without work for the browser, so that the whole time is overhead.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Result;
use crate::report::{self, Samples};
use crate::service::{Client, Service};

const LOAD: Duration = Duration::from_secs(8);
/// Of an account of the largest tier.
const SLOTS: usize = 32;

pub async fn run() -> Result<()> {
    for workers in [1, 2] {
        // All clients come from one address.
        let settings = [
            ("WORKER__DRIVER", "simulated"),
            ("WORKER__MAX_SESSIONS", "300"),
            ("SERVER__MAX_CONNECTIONS_PER_ADDRESS", "1024"),
        ];
        let service = Service::start(&settings, workers).await?;
        report::heading(&format!("Orchestrator alone, {workers} worker process(es): an operation, in milliseconds"));
        for clients in [1, 16, 64, 256] {
            load(&service, workers, clients).await?;
        }
    }
    Ok(())
}

async fn load(service: &Service, workers: usize, clients: usize) -> Result<()> {
    let mut sessions: Vec<(Client, String)> = Vec::new();
    for first in (0..clients).step_by(SLOTS) {
        let account = service.client(&format!("load-{clients}-{first}"))?;
        for _ in first..clients.min(first + SLOTS) {
            let session = account.create().await?;
            sessions.push((account.clone(), session));
        }
    }
    let started = Instant::now();
    let mut running = JoinSet::new();
    for (client, session) in sessions.clone() {
        running.spawn(async move {
            let mut samples = Samples::default();
            while started.elapsed() < LOAD {
                samples.push(client.state(&session).await?.overhead());
            }
            Result::Ok(samples)
        });
    }
    let mut samples = Samples::default();
    while let Some(ended) = running.join_next().await {
        samples.extend(ended??);
    }
    #[allow(clippy::cast_precision_loss, reason = "a few thousand operations")]
    let rate = samples.len() as f64 / started.elapsed().as_secs_f64();
    let (median, p99) = if clients == 1 { (Some(4.0), Some(20.0)) } else { (None, None) };
    report::durations(&format!("overhead, {clients} session(s) at once"), &samples, median, p99);
    if clients == 64 && workers == 1 {
        report::figure("operations a second, 64 clients", rate, "/s", "≥ 400", rate >= 400.0);
    } else {
        report::figure(&format!("operations a second, {clients} client(s)"), rate, "/s", "no bound", true);
    }
    for (client, session) in sessions {
        client.delete(&session).await?;
    }
    Ok(())
}
