//! Attempts of webhook deliveries, as typed jobs of apalis (contract: webhooks 15 to 28).
//!
//! The rows of `webhook_deliveries` are the queue. A first-in-first-out queue would not be fair: a thousand hanging
//! endpoints would delay all others. A claim takes a few due deliveries of each endpoint in turn, and skips endpoints
//! and accounts that have reached their limit of running attempts (`fair_queue`). Claims run one at a time; results
//! that arrive during a claim are considered by the next one.
//!
//! Acknowledging an attempt writes its result, batched per endpoint (`results`). Nothing else is written for an
//! attempt: the job carries the claimed data in memory.

mod acknowledgement;
mod attempt_slots;
mod backend;
mod fair_queue;
mod results;

use std::time::Duration;

use kitfleet_domain::webhooks::attempts::{Attempt, Schedule};

pub use acknowledgement::{Acknowledge, Acknowledged};
pub use backend::DeliveryBackend;
pub use fair_queue::attempts_that_fit;
pub(crate) use results::ENDED_DELIVERIES;

use crate::queues::Queue;

/// After its timeout, another worker may claim an attempt.
const GRACE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct AttemptJob {
    pub attempt: Attempt,
    /// The endpoint does not answer: a connection pool of its own is used.
    pub slow: bool,
}

impl AttemptJob {
    /// The trigger `fan_out_event` notifies its channel by this name.
    pub const QUEUE: Queue = Queue::of_all_workers("webhooks").in_area_table();
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub at_once: usize,
    pub timeout: Duration,
    pub schedule: Schedule,
}

impl Settings {
    /// Lifetime of a claim, and the time limit for writing its result.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.timeout + GRACE
    }
}
