//! Counts running attempts and computes the limits of the next claim.
//!
//! The running attempts of an account never exceed the room that is left, so a few accounts with hanging endpoints
//! cannot fill it. An account whose attempts time out counts as slow for 2 h. Its endpoints that do not answer get few
//! concurrent attempts. Their deliveries are looked up once a second, apart from the claims, because a claim that skips
//! hundreds of endpoints would delay all others. Each second starts only a share of them: attempts that start together
//! time out together, and the burst would delay other attempts.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::{Duration, Instant};

use kitfleet_domain::webhooks::attempts::{Attempt, ClaimLimits, Outcome, SlowClaimLimits};
use kitfleet_types::ids::{AccountId, DeliveryId, WebhookId};
use uuid::Uuid;

use super::{AttemptJob, Settings};
use crate::SAFETY;

/// Maximum number of concurrent attempts in total, per account and per endpoint.
const AT_ONCE: (usize, usize, usize) = (1_024, 128, 32);
/// Attempts to endpoints that do not answer: per account and per endpoint.
const SLOW_AT_ONCE: (usize, usize) = (8, 4);
/// Longer than most pauses between attempts.
const SLOW_FOR: Duration = Duration::from_hours(2);
/// Interval of checks without a notification, and therefore the maximum delay of a rescheduled attempt.
const TICK: Duration = Duration::from_secs(1);

/// Each attempt uses one file; most are left to the rest of the process.
#[must_use]
pub fn attempts_that_fit(limit: usize) -> usize {
    AT_ONCE.0.min(limit / 4)
}

pub(super) type Recipient = (AccountId, WebhookId);

/// Per endpoint and in total.
pub(super) type Bounds = (usize, usize);

#[derive(Debug)]
pub(super) struct FairQueue {
    max: usize,
    /// Chosen so that hanging attempts fill the account's limit.
    slow_share: usize,
    /// True when the table may hold due deliveries.
    should_poll: bool,
    /// Deliveries to endpoints that do not answer, for the next claim.
    besides: Vec<DeliveryId>,
    /// The next claim starts after it.
    after: Option<Recipient>,
    /// Attempts whose results are not written yet, per endpoint.
    of_endpoints: HashMap<Recipient, usize>,
    of_accounts: HashMap<AccountId, usize>,
    slow: HashMap<AccountId, Slow>,
}

/// Slow account: one with attempts that timed out.
#[derive(Debug)]
struct Slow {
    seen: Instant,
    answering: HashSet<WebhookId>,
}

impl FairQueue {
    pub(super) fn new(settings: &Settings) -> Self {
        let ticks = usize::try_from(settings.timeout.as_millis() / TICK.as_millis()).unwrap_or(usize::MAX);
        Self {
            max: settings.at_once,
            slow_share: SLOW_AT_ONCE.0.div_ceil(ticks.max(1)).min(SLOW_AT_ONCE.0 / 2),
            should_poll: true,
            besides: Vec::new(),
            after: None,
            of_endpoints: HashMap::new(),
            of_accounts: HashMap::new(),
            slow: HashMap::new(),
        }
    }

    pub(super) fn request_poll(&mut self) {
        self.should_poll = true;
    }

    /// Result of a query with the limits of [`FairQueue::wanted_of_slow`].
    pub(super) fn found(&mut self, besides: Vec<DeliveryId>) {
        self.besides = besides;
        self.should_poll = true;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.of_endpoints.is_empty()
    }

    /// While no attempt runs and no account is slow, the worker's own checks are enough.
    pub(super) fn pause(&self) -> Duration {
        if self.is_idle() && self.slow.is_empty() { SAFETY } else { TICK }
    }

    fn free_slots(&self) -> usize {
        self.max.saturating_sub(self.of_endpoints.values().sum())
    }

    /// Half of the limits: a recipient that uses at most the other half stays within its limit after the claim.
    fn bounds(&self) -> Bounds {
        let (_, of_account, of_endpoint) = AT_ONCE;
        (of_endpoint / 2, (of_account.min(self.free_slots()) / 2).max(1))
    }

    /// `None` if nothing may be due or there is no room.
    pub(super) fn wanted(&mut self) -> Option<(ClaimLimits, Bounds)> {
        if !self.should_poll || self.free_slots() == 0 {
            return None;
        }
        self.should_poll = false;
        let (of_each, limit) = self.bounds();
        let wanted = ClaimLimits {
            not_endpoints: self.busy_endpoints(of_each, SLOW_AT_ONCE.1 / 2),
            not_accounts: more_than(&self.of_accounts, limit).map(|account| account.as_uuid()).collect(),
            max: (as_count(of_each), as_count(limit)),
            after: self.after,
            slow: self.slow.keys().map(AccountId::as_uuid).collect(),
            answering: self.answering().collect(),
            besides: std::mem::take(&mut self.besides),
        };
        Some((wanted, (of_each, limit)))
    }

    pub(super) fn wanted_of_slow(&mut self, now: Instant) -> SlowClaimLimits {
        self.slow.retain(|_, slow| now.saturating_duration_since(slow.seen) < SLOW_FOR);
        let (of_each, limit) = self.bounds();
        let (slow_of_account, slow_of_each) = (self.slow_share, SLOW_AT_ONCE.1 / 2);
        SlowClaimLimits {
            accounts: self.slow_with_room(SLOW_AT_ONCE.0 - slow_of_account),
            not_endpoints: self.busy_endpoints(of_each, slow_of_each).into_iter().chain(self.answering()).collect(),
            max: (as_count(slow_of_each), as_count(slow_of_account), as_count(limit)),
        }
    }

    pub(super) fn begin(&mut self, attempts: Vec<Attempt>, (of_each, limit): Bounds) -> Vec<AttemptJob> {
        let mut of_endpoints = HashMap::<_, usize>::new();
        for recipient in attempts.iter().map(recipient_of).filter(|recipient| !self.is_slow(*recipient)) {
            *of_endpoints.entry(recipient).or_default() += 1;
        }
        let full = of_endpoints.values().sum::<usize>() >= limit;
        // If a claim reached a bound, or started in the middle of the round, more may be due.
        self.should_poll |= self.after.is_some() || full || of_endpoints.values().any(|got| *got >= of_each);
        // Slow accounts are not part of the round.
        let in_round = of_endpoints.into_keys().filter(|(account, _)| !self.slow.contains_key(account));
        self.after = in_round.max().filter(|_| full);
        let begin = |attempt| {
            let recipient = recipient_of(&attempt);
            *self.of_endpoints.entry(recipient).or_default() += 1;
            *self.of_accounts.entry(recipient.0).or_default() += 1;
            AttemptJob { slow: self.is_slow(recipient), attempt }
        };
        attempts.into_iter().map(begin).collect()
    }

    pub(super) fn note(&mut self, (account, endpoint): Recipient, outcome: Outcome, now: Instant) {
        match outcome {
            Outcome::Timeout => {
                let slow = self.slow.entry(account).or_insert_with(|| Slow { seen: now, answering: HashSet::new() });
                slow.seen = now;
                slow.answering.remove(&endpoint);
            }
            Outcome::Success | Outcome::HttpError | Outcome::TransportError => {
                if let Some(slow) = self.slow.get_mut(&account) {
                    slow.answering.insert(endpoint);
                }
            }
            // No request was sent.
            Outcome::Unsigned => {}
        }
    }

    pub(super) fn release(&mut self, recipient: Recipient) {
        let (of_endpoint, of_account) = self.bounds();
        let full = take_one(&mut self.of_endpoints, recipient, of_endpoint)
            | take_one(&mut self.of_accounts, recipient.0, of_account);
        // A recipient that claims have skipped has room again.
        self.should_poll |= full;
    }

    fn is_slow(&self, (account, endpoint): Recipient) -> bool {
        self.slow.get(&account).is_some_and(|slow| !slow.answering.contains(&endpoint))
    }

    /// Endpoints of slow accounts that do answer.
    fn answering(&self) -> impl Iterator<Item = Uuid> {
        self.slow.values().flat_map(|slow| &slow.answering).map(WebhookId::as_uuid)
    }

    /// Endpoints with more running attempts than the bound.
    fn busy_endpoints(&self, bound: usize, slow_bound: usize) -> Vec<Uuid> {
        let is_busy = |(recipient, count): &(&Recipient, &usize)| {
            **count > if self.is_slow(**recipient) { slow_bound } else { bound }
        };
        self.of_endpoints.iter().filter(is_busy).map(|((_, endpoint), _)| endpoint.as_uuid()).collect()
    }

    fn slow_with_room(&self, bound: usize) -> Vec<Uuid> {
        let mut under_way = HashMap::<_, usize>::new();
        for ((account, endpoint), count) in &self.of_endpoints {
            if self.is_slow((*account, *endpoint)) {
                *under_way.entry(account).or_default() += count;
            }
        }
        let has_room = |account: &&AccountId| under_way.get(account).is_none_or(|count| *count <= bound);
        self.slow.keys().filter(has_room).map(AccountId::as_uuid).collect()
    }
}

pub(super) fn recipient_of(attempt: &Attempt) -> Recipient {
    (attempt.account_id, attempt.endpoint_id)
}

fn as_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn more_than<K: Copy>(counts: &HashMap<K, usize>, bound: usize) -> impl Iterator<Item = K> {
    counts.iter().filter(move |(_, count)| **count > bound).map(|(key, _)| *key)
}

/// Returns `true` if the count drops to the bound, so that claims stop skipping its key.
fn take_one<K: Copy + Eq + Hash>(counts: &mut HashMap<K, usize>, key: K, bound: usize) -> bool {
    let Some(count) = counts.get_mut(&key) else { return false };
    *count -= 1;
    let left = *count;
    if left == 0 {
        counts.remove(&key);
    }
    left == bound
}

#[cfg(test)]
pub(super) mod tests {
    use kitfleet_domain::webhooks::attempts::Schedule;
    use kitfleet_types::timestamp::Timestamp;
    use serde_json::Value;

    use super::*;

    pub(in super::super) fn settings() -> Settings {
        let schedule = Schedule { pauses: Vec::new(), disable_after: 50 };
        Settings { at_once: AT_ONCE.0, timeout: Duration::from_secs(10), schedule }
    }

    fn fair_queue() -> FairQueue {
        FairQueue::new(&settings())
    }

    fn recipient() -> Recipient {
        (AccountId::generate(), WebhookId::generate())
    }

    pub(in super::super) fn attempts((account_id, endpoint_id): Recipient, count: usize) -> Vec<Attempt> {
        let attempt = |_| Attempt {
            id: DeliveryId::generate(),
            account_id,
            endpoint_id,
            url: String::new(),
            sealed_secret: Vec::new(),
            sealed_prev_secret: None,
            event_id: Uuid::nil(),
            event_type: String::new(),
            event_created_at: Timestamp::EPOCH,
            data: Value::Null,
            claimed_until: Timestamp::EPOCH,
            sent_at: 0,
        };
        (0..count).map(attempt).collect()
    }

    fn claim(queue: &mut FairQueue, of: Recipient, count: usize) -> Vec<AttemptJob> {
        let (_, bounds) = queue.wanted().expect("something may be due");
        queue.begin(attempts(of, count), bounds)
    }

    #[test]
    fn endpoint_over_half_its_limit_is_skipped_until_an_attempt_ends() {
        let (mut queue, busy) = (fair_queue(), recipient());
        claim(&mut queue, busy, 16);
        claim(&mut queue, busy, 1);
        assert!(queue.wanted().is_none(), "no bound was reached");
        queue.request_poll();
        assert_eq!(queue.wanted().expect("a look").0.not_endpoints, [busy.1.as_uuid()]);
        queue.release(busy);
        let wanted = queue.wanted().expect("there is room again").0;
        assert!(wanted.not_endpoints.is_empty() && wanted.not_accounts.is_empty(), "{wanted:?}");
        for _ in 0..16 {
            assert!(!queue.is_idle());
            queue.release(busy);
        }
        assert!(queue.is_idle());
    }

    #[test]
    fn account_over_half_its_limit_is_skipped_across_endpoints() {
        let (mut queue, account) = (fair_queue(), AccountId::generate());
        for _ in 0..5 {
            queue.request_poll();
            claim(&mut queue, (account, WebhookId::generate()), 13);
        }
        queue.request_poll();
        let wanted = queue.wanted().expect("a look").0;
        assert_eq!((wanted.not_accounts, wanted.not_endpoints), (vec![account.as_uuid()], Vec::new()));
    }

    #[test]
    fn nothing_is_claimed_without_room() {
        let mut queue = fair_queue();
        for _ in 0..AT_ONCE.0 {
            queue.request_poll();
            claim(&mut queue, recipient(), 1);
        }
        queue.request_poll();
        assert!(queue.wanted().is_none());
    }

    #[test]
    fn full_claim_continues_after_the_last_recipient() {
        let (mut queue, last) = (fair_queue(), recipient());
        claim(&mut queue, last, 64);
        let (wanted, bounds) = queue.wanted().expect("a full claim is followed by another");
        assert_eq!(wanted.after, Some(last));
        queue.begin(Vec::new(), bounds);
        // This claim started in the middle, so one more starts at the beginning. After it nothing is left.
        let (wanted, bounds) = queue.wanted().expect("the other half of the round");
        assert_eq!(wanted.after, None);
        queue.begin(Vec::new(), bounds);
        assert!(queue.wanted().is_none());
    }

    #[test]
    fn endpoints_of_a_slow_account_that_answer_are_not_slow() {
        let (mut queue, (account, hanging), answering) = (fair_queue(), recipient(), WebhookId::generate());
        queue.note((account, hanging), Outcome::Timeout, Instant::now());
        queue.note((account, answering), Outcome::HttpError, Instant::now());
        assert!(claim(&mut queue, (account, hanging), 3).iter().all(|job| job.slow));
        queue.request_poll();
        assert!(!claim(&mut queue, (account, answering), 1)[0].slow);
        queue.request_poll();
        let wanted = queue.wanted().expect("a look").0;
        assert_eq!((wanted.slow, wanted.answering), (vec![account.as_uuid()], vec![answering.as_uuid()]));
        assert_eq!(wanted.not_endpoints, [hanging.as_uuid()]);
        let of_slow = queue.wanted_of_slow(Instant::now());
        assert_eq!(of_slow.accounts, [account.as_uuid()]);
        assert_eq!(of_slow.not_endpoints, [hanging.as_uuid(), answering.as_uuid()]);
        queue.note((account, hanging), Outcome::Success, Instant::now());
        assert!(queue.wanted_of_slow(Instant::now()).not_endpoints.contains(&hanging.as_uuid()));
    }

    #[test]
    fn slow_account_has_few_concurrent_attempts() {
        let (mut queue, account) = (fair_queue(), AccountId::generate());
        queue.note((account, WebhookId::generate()), Outcome::Timeout, Instant::now());
        for _ in 0..SLOW_AT_ONCE.0 {
            assert_eq!(queue.wanted_of_slow(Instant::now()).accounts, [account.as_uuid()]);
            queue.request_poll();
            claim(&mut queue, (account, WebhookId::generate()), 1);
        }
        assert!(queue.wanted_of_slow(Instant::now()).accounts.is_empty());
    }

    #[test]
    fn account_stops_being_slow_after_a_time() {
        let (mut queue, slow, seen) = (fair_queue(), recipient(), Instant::now());
        queue.note(slow, Outcome::Timeout, seen);
        assert_eq!(queue.wanted_of_slow(seen + SLOW_FOR / 2).accounts, [slow.0.as_uuid()]);
        assert!(queue.wanted_of_slow(seen + SLOW_FOR).accounts.is_empty());
        assert!(!claim(&mut queue, slow, 1)[0].slow);
    }
}
