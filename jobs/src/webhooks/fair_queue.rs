//! Whose turn it is: who has how much under way, and what the next claim may take.
//!
//! An account may have no more than there is room left, so that a few that hang do not take all of it. An account some of
//! whose attempts ran out of time is slow for a while. Of those of its endpoints that do not answer only a few attempts are
//! under way at once, and they are looked for once a second, beside the claims: everybody would wait for a claim that walks
//! past hundreds of endpoints. Each second begins its share of them, because those that begin together also end together,
//! and cost everybody else the processor.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::{Duration, Instant};

use kitfleet_domain::ids::{AccountId, DeliveryId, WebhookId};
use kitfleet_domain::webhooks::deliveries::{Attempt, ClaimLimits, Outcome, SlowClaimLimits};
use uuid::Uuid;

use super::{AttemptJob, Settings};
use crate::SAFETY;

/// Attempts under way at once, of all, of an account and of an endpoint.
const AT_ONCE: (usize, usize, usize) = (1_024, 128, 32);
/// The same of a slow account, and of an endpoint of its that does not answer.
const SLOW_AT_ONCE: (usize, usize) = (8, 4);
/// How long an account is slow after an attempt that ran out of time: longer than the pauses between attempts usually are.
const SLOW_FOR: Duration = Duration::from_hours(2);
/// How often the table is looked at without a notification: an attempt that was put off is late by no more than that.
const TICK: Duration = Duration::from_secs(1);

/// Attempts that a process may have under way at once that may open so many files. Each attempt has one; most of them are
/// for everything else.
#[must_use]
pub fn attempts_that_fit(limit: usize) -> usize {
    AT_ONCE.0.min(limit / 4)
}

/// Whose delivery it is, and to which endpoint it goes.
pub(super) type Recipient = (AccountId, WebhookId);

/// How many attempts a claim may take, of an endpoint and in all.
pub(super) type Bounds = (usize, usize);

/// What is under way, and who is next.
#[derive(Debug)]
pub(super) struct FairQueue {
    /// Attempts under way at once.
    most: usize,
    /// How many attempts of a slow account begin in a tick, so that those that hang fill what it may have.
    slow_share: usize,
    /// Whether the table may hold something that is due.
    look: bool,
    /// Deliveries to endpoints that do not answer, for the next claim.
    besides: Vec<DeliveryId>,
    /// Behind whom the next claim begins.
    after: Option<Recipient>,
    /// Attempts that have not been written yet.
    of_endpoints: HashMap<Recipient, usize>,
    of_accounts: HashMap<AccountId, usize>,
    slow: HashMap<AccountId, Slow>,
}

/// An account some of whose attempts ran out of time.
#[derive(Debug)]
struct Slow {
    /// When the last one did.
    seen: Instant,
    /// Its endpoints that have answered since.
    answering: HashSet<WebhookId>,
}

impl FairQueue {
    pub(super) fn new(settings: &Settings) -> Self {
        let ticks = usize::try_from(settings.timeout.as_millis() / TICK.as_millis()).unwrap_or(usize::MAX);
        Self {
            most: settings.at_once,
            slow_share: SLOW_AT_ONCE.0.div_ceil(ticks.max(1)).min(SLOW_AT_ONCE.0 / 2),
            look: true,
            besides: Vec::new(),
            after: None,
            of_endpoints: HashMap::new(),
            of_accounts: HashMap::new(),
            slow: HashMap::new(),
        }
    }

    /// Notes that something may have become due.
    pub(super) fn look(&mut self) {
        self.look = true;
    }

    /// Notes what [`Turns::wanted_of_slow`] found.
    pub(super) fn found(&mut self, besides: Vec<DeliveryId>) {
        self.besides = besides;
        self.look = true;
    }

    /// Whether nothing is under way any more.
    pub(super) fn is_idle(&self) -> bool {
        self.of_endpoints.is_empty()
    }

    /// When the table is looked at next. As long as nobody has anything under way, nor is slow, the worker looks meanwhile.
    pub(super) fn pause(&self) -> Duration {
        if self.is_idle() && self.slow.is_empty() { SAFETY } else { TICK }
    }

    fn room(&self) -> usize {
        self.most.saturating_sub(self.of_endpoints.values().sum())
    }

    /// Half of what an endpoint and an account may have, so that whoever has no more than the other half under way stays
    /// within bounds.
    fn bounds(&self) -> Bounds {
        let (_, of_account, of_endpoint) = AT_ONCE;
        (of_endpoint / 2, (of_account.min(self.room()) / 2).max(1))
    }

    /// What a claim may take now. `None` when there is nothing to be claimed, or no room.
    pub(super) fn wanted(&mut self) -> Option<(ClaimLimits, Bounds)> {
        if !self.look || self.room() == 0 {
            return None;
        }
        self.look = false;
        let (of_each, limit) = self.bounds();
        let wanted = ClaimLimits {
            not_endpoints: self.busy_endpoints(of_each, SLOW_AT_ONCE.1 / 2),
            not_accounts: more_than(&self.of_accounts, limit).map(|account| account.as_uuid()).collect(),
            most: (as_count(of_each), as_count(limit)),
            after: self.after,
            slow: self.slow.keys().map(AccountId::as_uuid).collect(),
            answering: self.answering().collect(),
            besides: std::mem::take(&mut self.besides),
        };
        Some((wanted, (of_each, limit)))
    }

    /// Which attempts of slow accounts may begin in this tick.
    pub(super) fn wanted_of_slow(&mut self, now: Instant) -> SlowClaimLimits {
        self.slow.retain(|_, slow| now.saturating_duration_since(slow.seen) < SLOW_FOR);
        let (of_each, limit) = self.bounds();
        let (slow_of_account, slow_of_each) = (self.slow_share, SLOW_AT_ONCE.1 / 2);
        SlowClaimLimits {
            accounts: self.slow_with_room(SLOW_AT_ONCE.0 - slow_of_account),
            not_endpoints: self.busy_endpoints(of_each, slow_of_each).into_iter().chain(self.answering()).collect(),
            most: (as_count(slow_of_each), as_count(slow_of_account), as_count(limit)),
        }
    }

    /// Counts what a claim took within these bounds.
    pub(super) fn begin(&mut self, attempts: Vec<Attempt>, (of_each, limit): Bounds) -> Vec<AttemptJob> {
        let mut of_endpoints = HashMap::<_, usize>::new();
        for recipient in attempts.iter().map(recipient_of).filter(|recipient| !self.is_slow(*recipient)) {
            *of_endpoints.entry(recipient).or_default() += 1;
        }
        let full = of_endpoints.values().sum::<usize>() >= limit;
        // Where a bound was reached there may be more, and so where the round began in the middle.
        self.look |= self.after.is_some() || full || of_endpoints.values().any(|got| *got >= of_each);
        // Slow accounts have no place in the round.
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

    /// Learns from how an attempt went.
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
            // It was not asked.
            Outcome::Unsigned => {}
        }
    }

    /// Counts an attempt no more.
    pub(super) fn release(&mut self, recipient: Recipient) {
        let (of_endpoint, of_account) = self.bounds();
        let full = take_one(&mut self.of_endpoints, recipient, of_endpoint)
            | take_one(&mut self.of_accounts, recipient.0, of_account);
        // Somebody who had been passed over has room again.
        self.look |= full;
    }

    /// Whether an endpoint is one that does not answer.
    fn is_slow(&self, (account, endpoint): Recipient) -> bool {
        self.slow.get(&account).is_some_and(|slow| !slow.answering.contains(&endpoint))
    }

    /// Endpoints of slow accounts that answer.
    fn answering(&self) -> impl Iterator<Item = Uuid> {
        self.slow.values().flat_map(|slow| &slow.answering).map(WebhookId::as_uuid)
    }

    /// Endpoints that have more under way than this.
    fn busy_endpoints(&self, bound: usize, slow_bound: usize) -> Vec<Uuid> {
        let is_busy = |(recipient, count): &(&Recipient, &usize)| {
            **count > if self.is_slow(**recipient) { slow_bound } else { bound }
        };
        self.of_endpoints.iter().filter(is_busy).map(|((_, endpoint), _)| endpoint.as_uuid()).collect()
    }

    /// Slow accounts of which no more than this is under way at endpoints that do not answer.
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

/// Counts one less. `true` when that is where somebody stops being passed over.
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
    use kitfleet_domain::timestamp::Timestamp;
    use kitfleet_domain::webhooks::deliveries::Schedule;
    use serde_json::Value;

    use super::*;

    pub(in super::super) fn settings() -> Settings {
        let schedule = Schedule { pauses: Vec::new(), disable_after: 50 };
        Settings { at_once: AT_ONCE.0, timeout: Duration::from_secs(10), schedule }
    }

    fn turns() -> FairQueue {
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

    /// Claims, and gets so many of one recipient.
    fn claim(turns: &mut FairQueue, of: Recipient, count: usize) -> Vec<AttemptJob> {
        let (_, bounds) = turns.wanted().expect("something may be due");
        turns.begin(attempts(of, count), bounds)
    }

    #[test]
    fn who_has_half_of_what_he_may_is_passed_over_until_he_has_not() {
        let (mut turns, busy) = (turns(), recipient());
        claim(&mut turns, busy, 16);
        claim(&mut turns, busy, 1);
        assert!(turns.wanted().is_none(), "no bound was reached");
        turns.look();
        assert_eq!(turns.wanted().expect("a look").0.not_endpoints, [busy.1.as_uuid()]);
        turns.release(busy);
        let wanted = turns.wanted().expect("there is room again").0;
        assert!(wanted.not_endpoints.is_empty() && wanted.not_accounts.is_empty(), "{wanted:?}");
        for _ in 0..16 {
            assert!(!turns.is_idle());
            turns.release(busy);
        }
        assert!(turns.is_idle());
    }

    #[test]
    fn an_account_is_passed_over_whichever_of_its_endpoints_are_busy() {
        let (mut turns, account) = (turns(), AccountId::generate());
        for _ in 0..5 {
            turns.look();
            claim(&mut turns, (account, WebhookId::generate()), 13);
        }
        turns.look();
        let wanted = turns.wanted().expect("a look").0;
        assert_eq!((wanted.not_accounts, wanted.not_endpoints), (vec![account.as_uuid()], Vec::new()));
    }

    #[test]
    fn nothing_is_wanted_without_room() {
        let mut turns = turns();
        for _ in 0..AT_ONCE.0 {
            turns.look();
            claim(&mut turns, recipient(), 1);
        }
        turns.look();
        assert!(turns.wanted().is_none());
    }

    #[test]
    fn a_round_goes_on_behind_the_last_one_while_claims_are_full() {
        let (mut turns, last) = (turns(), recipient());
        claim(&mut turns, last, 64);
        let (wanted, bounds) = turns.wanted().expect("a full claim is followed by another");
        assert_eq!(wanted.after, Some(last));
        turns.begin(Vec::new(), bounds);
        // The round began in the middle: it goes once more, from the front, and then there is nothing left.
        let (wanted, bounds) = turns.wanted().expect("the other half of the round");
        assert_eq!(wanted.after, None);
        turns.begin(Vec::new(), bounds);
        assert!(turns.wanted().is_none());
    }

    #[test]
    fn an_account_is_slow_but_for_its_endpoints_that_answer() {
        let (mut turns, (account, hanging), answering) = (turns(), recipient(), WebhookId::generate());
        turns.note((account, hanging), Outcome::Timeout, Instant::now());
        turns.note((account, answering), Outcome::HttpError, Instant::now());
        assert!(claim(&mut turns, (account, hanging), 3).iter().all(|job| job.slow));
        turns.look();
        assert!(!claim(&mut turns, (account, answering), 1)[0].slow);
        turns.look();
        let wanted = turns.wanted().expect("a look").0;
        assert_eq!((wanted.slow, wanted.answering), (vec![account.as_uuid()], vec![answering.as_uuid()]));
        assert_eq!(wanted.not_endpoints, [hanging.as_uuid()]);
        let of_slow = turns.wanted_of_slow(Instant::now());
        assert_eq!(of_slow.accounts, [account.as_uuid()]);
        assert_eq!(of_slow.not_endpoints, [hanging.as_uuid(), answering.as_uuid()]);
        turns.note((account, hanging), Outcome::Success, Instant::now());
        assert!(turns.wanted_of_slow(Instant::now()).not_endpoints.contains(&hanging.as_uuid()));
    }

    #[test]
    fn a_slow_account_has_a_few_under_way() {
        let (mut turns, account) = (turns(), AccountId::generate());
        turns.note((account, WebhookId::generate()), Outcome::Timeout, Instant::now());
        for _ in 0..SLOW_AT_ONCE.0 {
            assert_eq!(turns.wanted_of_slow(Instant::now()).accounts, [account.as_uuid()]);
            turns.look();
            claim(&mut turns, (account, WebhookId::generate()), 1);
        }
        assert!(turns.wanted_of_slow(Instant::now()).accounts.is_empty());
    }

    #[test]
    fn an_account_is_slow_for_a_while() {
        let (mut turns, slow, seen) = (turns(), recipient(), Instant::now());
        turns.note(slow, Outcome::Timeout, seen);
        assert_eq!(turns.wanted_of_slow(seen + SLOW_FOR / 2).accounts, [slow.0.as_uuid()]);
        assert!(turns.wanted_of_slow(seen + SLOW_FOR).accounts.is_empty());
        assert!(!claim(&mut turns, slow, 1)[0].slow);
    }
}
