//! Attempts of webhook deliveries, as typed jobs of apalis (contract: webhooks 15 to 28).
//!
//! The rows of `webhook_deliveries` are the queue, and [`DeliveryBackend`] serves it to an apalis worker. A queue in which
//! everybody's deliveries wait in one line cannot be fair: a thousand endpoints that hang would be in everybody's way. So to
//! fetch is a claim that takes a few from each endpoint that has some due, each in its turn, and passes over endpoints and
//! accounts that have as many under way as they may (`turns`). Claims come one after the other; while one is on its way to
//! the database, what ended meanwhile waits for the next.
//!
//! To acknowledge is to write results, a batch of an endpoint's after the other (`results`). Beside these two nothing is
//! written for an attempt: what a claim returned is what the job carries, in memory, and its handler answers how it ended.

mod acknowledgement;
mod backend;
mod fair_queue;
mod results;

use std::time::Duration;

use kitfleet_domain::webhooks::deliveries::{Attempt, Schedule};

pub use acknowledgement::{Acknowledge, Acknowledged};
pub use backend::DeliveryBackend;
pub use fair_queue::attempts_that_fit;

/// How long after its time limit an attempt belongs to somebody else.
const GRACE: Duration = Duration::from_secs(3);

/// An attempt to be made, once.
#[derive(Debug)]
pub struct AttemptJob {
    /// What a claim took.
    pub attempt: Attempt,
    /// Whether its endpoint is one that does not answer, and is asked over connections of its own.
    pub slow: bool,
}

impl AttemptJob {
    /// The queue of all deliveries. The trigger `fan_out_event` notifies its channel by this name.
    pub const QUEUE: &str = "webhooks";
}

/// How attempts are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Attempts under way at once.
    pub at_once: usize,
    /// How long one may take.
    pub timeout: Duration,
    /// When they are made.
    pub schedule: Schedule,
}

impl Settings {
    /// How long an attempt belongs to who claimed it, and how long its result is tried to be written.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.timeout + GRACE
    }
}
