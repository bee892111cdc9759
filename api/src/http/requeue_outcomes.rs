//! Outcomes of requeues, for pages that read them every second.
//!
//! Counting a hundred thousand deliveries takes the database tens of milliseconds, in which other deliveries wait. An outcome
//! is therefore used again for a multiple of the time that its count took.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kitfleet_domain::webhooks::requeues::{self, Outcome};
use kitfleet_types::ids::RequeueId;
use sqlx::PgConnection;

/// Counting uses at most one part of so many of the database's time.
const SHARE: u32 = 200;
const MAX_AGE: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub struct RequeueOutcomes(Mutex<HashMap<RequeueId, CountedOutcome>>);

#[derive(Debug)]
struct CountedOutcome {
    outcome: Outcome,
    fresh_until: Instant,
}

impl RequeueOutcomes {
    pub async fn of(&self, conn: &mut PgConnection, id: RequeueId) -> sqlx::Result<Outcome> {
        if let Some(outcome) = self.recent(id) {
            return Ok(outcome);
        }
        let began = Instant::now();
        let outcome = requeues::outcome(conn, id).await?;
        let now = Instant::now();
        let fresh_until = now + ((now - began) * SHARE).min(MAX_AGE);
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|_, other| other.fresh_until > now);
        counted.insert(id, CountedOutcome { outcome, fresh_until });
        Ok(outcome)
    }

    fn recent(&self, id: RequeueId) -> Option<Outcome> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.get(&id).filter(|counted| counted.fresh_until > Instant::now()).map(|counted| counted.outcome)
    }
}
