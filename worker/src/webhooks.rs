//! Delivering webhooks (contract: webhooks 15 to 28).
//!
//! `kitfleet_jobs::webhooks` says which attempts are made, when and how many at once, and writes how they ended. What is here
//! makes one: it opens the endpoint's secrets, signs and sends.
//!
//! Endpoints that do not answer have connections of their own: an attempt that hangs ends its connection, which may have been
//! the one that was kept for somebody else at the same host.

mod target;

use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::WorkerBuilder;
use kitfleet_domain::database::persist;
use kitfleet_domain::log_throttle::LogThrottle;
use kitfleet_domain::vault::{UnsealError, Vault};
use kitfleet_domain::webhooks::deliveries::{Attempt, AttemptResult};
use kitfleet_domain::webhooks::secrets::{self, SigningSecret};
use kitfleet_egress::Names;
use kitfleet_jobs::webhooks::{AttemptJob, DeliveryBackend, Settings};
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

pub use self::target::{BadRoots, ExtraRoots};
use self::target::{NotAnswered, Target};
use crate::{Context, QueueInputs, name_of, stopped};

/// Delivers until the worker stops, and then waits for what is under way. `due` is told when something is due of which there was no
/// wake-up. It is a task, like the attempts that it hands out: on a
/// thread of its own, as the other queues' workers are, each of them would cost switches between threads.
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
        // In a task, as every job: apalis polls all handlers of a queue in one. A panic is the task's.
        AbortOnDropHandle::new(tokio::spawn(async move { sender.send(job).await }))
    };
    let worker = WorkerBuilder::new(name_of(AttemptJob::QUEUE, context.id)).backend(backend).build(run);
    let overdue = async {
        context.stopping.cancelled().await;
        sleep(lease).await;
    };
    tokio::select! {
        ended = worker.run_until(stopped(&context)) => ended.map_err(|error| error.to_string()),
        // An attempt takes no longer than its limit, and then its claim runs out.
        () = overdue => {
            tracing::warn!("leaving unfinished webhook deliveries to another worker");
            Ok(())
        }
    }
}

/// Makes attempts.
struct Sender {
    target: Target,
    /// The same for endpoints that do not answer.
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

    /// Makes an attempt. What cannot be signed is not sent, and has failed like any other: its secret may be opened again by
    /// the next, and in the end an operator can send it once more.
    async fn send(&self, AttemptJob { attempt, slow }: AttemptJob) -> Option<AttemptResult> {
        let Some(secrets) = opened(&self.vault, &attempt) else {
            return Some(target::ended(&attempt, Duration::ZERO, Err(NotAnswered::unsigned())));
        };
        let target = if slow { &self.slow_target } else { &self.target };
        Some(target.send(&attempt, &secrets).await)
    }
}

/// The secrets that sign, the new one first. `None` when that one cannot be opened: it is this deployment's configuration that
/// is at fault and not the endpoint.
fn opened(vault: &Vault, attempt: &Attempt) -> Option<Vec<SigningSecret>> {
    static FAILED: LogThrottle = LogThrottle::new();
    let open = |sealed: &Vec<u8>| {
        let told = |error: &UnsealError| {
            FAILED.say(|held_back| {
                tracing::error!(%error, held_back, endpoint = %attempt.endpoint_id, "cannot sign a webhook");
            });
        };
        SigningSecret::open(vault, attempt.endpoint_id, sealed).inspect_err(told).ok()
    };
    let current = open(&attempt.sealed_secret)?;
    let previous = attempt.sealed_prev_secret.as_ref().and_then(open);
    Some(std::iter::once(current).chain(previous).collect())
}
