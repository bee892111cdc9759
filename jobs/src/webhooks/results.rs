//! Writes the results of attempts in batches.
//!
//! Results of an endpoint that arrive during a write form the next batch: the busier an endpoint, the fewer statements
//! a delivery costs. A failed write is retried until the claim expires. The delivery is then claimed again and sent
//! with the same event id.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use kitfleet_domain::database::{is_transient, persist};
use kitfleet_domain::metrics::Counter;
use kitfleet_domain::webhooks::attempts::{self, AttemptCounts, AttemptResult};
use kitfleet_domain::webhooks::deliveries::DeliveryStatus;
use kitfleet_types::ids::WebhookId;
use sqlx::PgPool;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Settings;
use super::attempt_slots::AttemptSlot;

pub(crate) const ENDED_DELIVERIES: Counter<1> = Counter::new(
    "service_webhook_delivery_terminal_total",
    "Ended webhook deliveries, by final state.",
    ["terminal_state"],
)
.starting_with(|| DeliveryStatus::COUNTED.map(|state| [state.name()]).into());

/// When many attempts end together, more writers would only open connections.
const WRITERS: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct Results(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    db: PgPool,
    settings: Settings,
    writers: Semaphore,
    /// Results waiting behind the running write of each endpoint.
    waiting: Mutex<HashMap<WebhookId, Vec<(AttemptResult, AttemptSlot)>>>,
}

impl Results {
    pub(super) fn new(db: PgPool, settings: Settings) -> Self {
        let (writers, waiting) = (Semaphore::new(WRITERS), Mutex::default());
        Self(Arc::new(Inner { db, settings, writers, waiting }))
    }

    /// Writes the result of an attempt, then releases its slot.
    pub(super) fn write(&self, endpoint: WebhookId, ended: AttemptResult, place: AttemptSlot) {
        match self.0.waiting().entry(endpoint) {
            Entry::Occupied(mut waiting) => waiting.get_mut().push((ended, place)),
            Entry::Vacant(none) => {
                none.insert(Vec::new());
                tokio::spawn(Arc::clone(&self.0).write_all(endpoint, vec![(ended, place)]));
            }
        }
    }
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, HashMap<WebhookId, Vec<(AttemptResult, AttemptSlot)>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_all(self: Arc<Self>, endpoint: WebhookId, first: Vec<(AttemptResult, AttemptSlot)>) {
        let mut next = Some(first);
        while let Some(batch) = next {
            let (ended, places): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let turn = self.writers.acquire().await;
            // If the write panics, its results are lost and their attempts are made again.
            let _reported = AssertUnwindSafe(self.write(endpoint, &ended)).catch_unwind().await;
            drop((turn, places));
            next = self.next_batch(endpoint);
        }
    }

    /// If there are none, ends writing for this endpoint.
    fn next_batch(&self, endpoint: WebhookId) -> Option<Vec<(AttemptResult, AttemptSlot)>> {
        let mut waiting = self.waiting();
        let batch = waiting.get_mut(&endpoint).map(std::mem::take).filter(|batch| !batch.is_empty());
        if batch.is_none() {
            waiting.remove(&endpoint);
        }
        batch
    }

    /// Retries until the claims expire. If the database rejects the results, the cause is the endpoint's answer: they
    /// are then written without it, so that the deliveries are not sent again and again.
    async fn write(&self, endpoint: WebhookId, ended: &[AttemptResult]) {
        let written = async {
            match self.finish(endpoint, ended).await {
                Err(error) if !is_transient(&error) => {
                    tracing::error!(%error, %endpoint, "database rejects an endpoint's answer: recording the attempt without it");
                    self.finish(endpoint, &ended.iter().map(AttemptResult::without_words).collect::<Vec<_>>()).await
                }
                written => written,
            }
        };
        match timeout(self.settings.lease(), written).await {
            Ok(Ok(tally)) => count_terminal(tally),
            Ok(Err(error)) => {
                tracing::error!(%error, %endpoint, "cannot record the results of webhook deliveries: they are sent again");
            }
            Err(_) => {
                tracing::error!(%endpoint, "recording the results of webhook deliveries took too long: they are sent again");
            }
        }
    }

    async fn finish(&self, endpoint: WebhookId, ended: &[AttemptResult]) -> sqlx::Result<AttemptCounts> {
        let schedule = &self.settings.schedule;
        let finish = || async { attempts::finish(&mut *self.db.acquire().await?, endpoint, ended, schedule).await };
        persist("record the results of webhook deliveries", finish).await
    }
}

fn count_terminal(tally: AttemptCounts) {
    for (state, count) in [(DeliveryStatus::Delivered, tally.delivered), (DeliveryStatus::Dlq, tally.dlq)] {
        let count = u64::try_from(count).unwrap_or_default();
        ENDED_DELIVERIES.with([state.name()]).increment(count);
    }
}
