//! Delivery of webhooks (contract: webhooks 15 to 28).
//!
//! `kitfleet_jobs::webhooks` schedules the attempts and records their results.
//!
//! Endpoints that do not answer use a separate connection pool, because a timed-out attempt closes its connection, which
//! another endpoint on the same host might be using.

mod target;

use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::WorkerBuilder;
use kitfleet_domain::database::persist;
use kitfleet_domain::vault::{UnsealError, Vault};
use kitfleet_domain::webhooks::attempts::{Attempt, AttemptResult, Schedule};
use kitfleet_domain::webhooks::secrets::{self, SigningSecret};
use kitfleet_egress::Names;
use kitfleet_jobs::webhooks::{AttemptJob, DeliveryBackend, Settings};
use kitfleet_types::log_throttle::LogThrottle;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::target::{ATTEMPT_TIME, ATTEMPTS};
pub use self::target::{BadRoots, ExtraRoots};
use self::target::{NotAnswered, Target};
use crate::{Context, QueueInputs, name_of, stopped};

#[derive(Debug, Clone)]
pub struct WebhookConfig {
    pub schedule: Schedule,
    pub timeout: Duration,
    pub at_once: usize,
    /// Loopback, link-local or private addresses.
    pub allow_private_targets: bool,
    pub secret_reminder_after: Duration,
    pub extra_roots: ExtraRoots,
    /// Keys that seal secrets, if the deployment has its own.
    pub vault: Option<Vault>,
}

/// Waits for running attempts when the worker stops. `due` receives a message when a delivery is due whose wake-up was lost. A
/// task, like its attempts, because a thread would cost thread switches for each attempt.
pub(crate) async fn deliver((wakeups, context): QueueInputs, due: Receiver<()>) -> Result<(), String> {
    let config = &context.config.webhooks;
    let settings = Settings { at_once: config.at_once, timeout: config.timeout, schedule: config.schedule.clone() };
    let lease = settings.lease();
    let Some(sender) = context.stopping.run_until_cancelled(Sender::new(&context)).await.transpose()? else {
        return Ok(());
    };
    let sender = Arc::new(sender);
    let backend = DeliveryBackend::new(context.db.clone(), &context.async_commit_pool, settings, wakeups, due);
    let run = move |job: AttemptJob| {
        let sender = Arc::clone(&sender);
        // Each job runs in its own task, because apalis polls all handlers of a queue in one task. A panic stays in the
        // task.
        AbortOnDropHandle::new(tokio::spawn(async move { sender.send(job).await }))
    };
    let worker = WorkerBuilder::new(name_of(AttemptJob::QUEUE.name, context.id)).backend(backend).build(run);
    let overdue = async {
        context.stopping.cancelled().await;
        sleep(lease).await;
    };
    tokio::select! {
        ended = worker.run_until(stopped(&context)) => ended.map_err(|error| error.to_string()),
        // Each running attempt has ended by its time limit, and then its claim expires.
        () = overdue => {
            tracing::warn!("leaving unfinished webhook deliveries to another worker");
            Ok(())
        }
    }
}

struct Sender {
    target: Target,
    slow_target: Target,
    vault: Vault,
}

impl Sender {
    async fn new(context: &Context) -> Result<Self, String> {
        let config = &context.config.webhooks;
        let names = Arc::new(Names::of_this_machine().map_err(|error| error.to_string())?);
        let target = || Target::new(config, &names).map_err(|error| error.to_string());
        let fetch = || async { secrets::vault(&mut *context.db.acquire().await?, config.vault.as_ref()).await };
        let vault = persist("fetch the sealing key of webhook secrets", fetch).await;
        Ok(Self { target: target()?, slow_target: target()?, vault: vault.map_err(|error| error.to_string())? })
    }

    /// An attempt that cannot be signed is not sent and counts as failed. The secret may be readable for the next attempt, and
    /// an operator can requeue the delivery after the last one.
    async fn send(&self, AttemptJob { attempt, slow }: AttemptJob) -> Option<AttemptResult> {
        let Some(secrets) = opened(&self.vault, &attempt) else {
            return Some(target::ended(&attempt, Duration::ZERO, Err(NotAnswered::unsigned()), None));
        };
        let target = if slow { &self.slow_target } else { &self.target };
        Some(target.send(&attempt, &secrets).await)
    }
}

/// The current one first. `None` when it cannot be opened, which is a fault of this deployment's configuration and not of the
/// endpoint.
fn opened(vault: &Vault, attempt: &Attempt) -> Option<Vec<SigningSecret>> {
    static FAILED: LogThrottle = LogThrottle::new();
    let open = |sealed: &Vec<u8>| {
        let log = |error: &UnsealError| {
            FAILED.log(|held_back| {
                tracing::error!(%error, held_back, endpoint = %attempt.endpoint_id, "cannot sign a webhook delivery: the attempt fails");
            });
        };
        SigningSecret::open(vault, attempt.endpoint_id, sealed).inspect_err(log).ok()
    };
    let current = open(&attempt.sealed_secret)?;
    let previous = attempt.sealed_prev_secret.as_ref().and_then(open);
    Some(std::iter::once(current).chain(previous).collect())
}
