//! Delivering webhooks (contract: webhooks 15 to 28).
//!
//! The rows of [`deliveries`] are the queue. A job queue in which everybody's deliveries wait in one line cannot be fair: a
//! thousand endpoints that hang would be in everybody's way. So a claim takes a few from each endpoint that has some due,
//! each in its turn, and passes over endpoints and accounts that have as many under way as they may. An account may have no
//! more than there is room left, so that a few that hang do not take all of it. Claims come one after the other; while one
//! is on its way to the database, what ended meanwhile waits for the next.
//!
//! An account some of whose attempts ran out of time is slow for a while. Of those of its endpoints that do not answer only a
//! few attempts are under way at once, and they are looked for once a second, beside the claims: everybody would wait for a
//! claim that walks past hundreds of endpoints. Each second begins its share of them, because those that begin together also
//! end together, and cost everybody else the processor. They have connections of their own as well: an attempt that hangs
//! ends its connection, which may have been the one that was kept for somebody else at the same host.
//!
//! Results of one endpoint are written one batch after the other, and what ends while a batch is being written makes up the
//! next: the busier an endpoint, the fewer statements a delivery costs. A result that cannot be written is tried again until
//! its claim has run out, and then the delivery is sent once more, by whoever claims it, under the same event id.

mod target;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use kitfleet_domain::database::{may_pass, persist, pool_options};
use kitfleet_domain::ids::{AccountId, DeliveryId, WebhookId};
use kitfleet_domain::seldom::Seldom;
use kitfleet_domain::vault::Vault;
use kitfleet_domain::webhooks::deliveries::{self, Attempt, Ended, Outcome, SlowWanted, Tally, Wanted};
use kitfleet_domain::webhooks::secrets::{self, SigningSecret};
use sqlx::PgPool;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use uuid::Uuid;

use self::target::Target;
pub use self::target::{BadRoots, ExtraRoots};
use crate::Context;
use crate::names::Names;

/// Attempts under way at once, of all, of an account and of an endpoint.
const AT_ONCE: (usize, usize, usize) = (1_024, 128, 32);
/// The same of a slow account, and of an endpoint of its that does not answer.
const SLOW_AT_ONCE: (usize, usize) = (8, 4);
/// How long an account is slow after an attempt that ran out of time: longer than the pauses between attempts usually are.
const SLOW_FOR: Duration = Duration::from_hours(2);
/// Batches of results that are written at once. When many attempts end together, more would only open connections.
const WRITERS: usize = 4;
/// How long after its time limit an attempt belongs to somebody else.
const GRACE: Duration = Duration::from_secs(3);
/// How often the table is looked at without a notification: an attempt that was put off is late by no more than that.
const TICK: Duration = Duration::from_secs(1);
/// How long to wait before a failed claim is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Delivers until the worker stops, and then waits for what is under way.
pub(crate) async fn deliver(context: Arc<Context>, mut wakeups: UnboundedReceiver<()>) -> Result<(), String> {
    let config = &context.config.webhooks;
    let names = Arc::new(Names::of_this_machine().map_err(|error| error.to_string())?);
    let target = || Target::new(config, &names).map_err(|error| error.to_string());
    let (target, slow_target) = (target()?, target()?);
    let vault = context.stopping.run_until_cancelled(vault(&context)).await.transpose();
    let Some(vault) = vault.map_err(|error| error.to_string())? else { return Ok(()) };
    let mut dispatch = Dispatch::new(Arc::clone(&context), target, slow_target, vault);
    loop {
        dispatch.tick();
        dispatch.claim_more();
        tokio::select! {
            () = context.stopping.cancelled() => break,
            Some(()) = wakeups.recv() => {
                while wakeups.try_recv().is_ok() {}
                dispatch.look = true;
            }
            () = sleep_until(dispatch.tick_at) => {}
            () = dispatch.step() => {}
        }
    }
    // Nothing is claimed any more; an attempt takes no longer than its limit.
    let rest = async {
        while dispatch.is_busy() {
            dispatch.step().await;
        }
    };
    if tokio::time::timeout(config.timeout + GRACE, rest).await.is_err() {
        tracing::warn!("some webhook deliveries are left to another worker");
    }
    Ok(())
}

async fn vault(context: &Context) -> sqlx::Result<Vault> {
    let configured = context.config.webhooks.vault.as_ref();
    let fetch = || async { secrets::vault(&mut *context.db.acquire().await?, configured).await };
    persist("fetch what webhook secrets are sealed with", fetch).await
}

/// What is under way.
struct Dispatch {
    context: Arc<Context>,
    claiming: PgPool,
    target: Arc<Target>,
    /// The same for endpoints that do not answer.
    slow_target: Arc<Target>,
    vault: Arc<Vault>,
    /// Whether the table may hold something that is due.
    look: bool,
    /// When what has become due is looked for again.
    tick_at: Instant,
    /// Deliveries to endpoints that do not answer, for the next claim.
    besides: Vec<DeliveryId>,
    /// Behind whom the next claim begins.
    after: Option<(AccountId, WebhookId)>,
    /// Attempts under way at once.
    most: usize,
    ticks: JoinSet<sqlx::Result<Vec<DeliveryId>>>,
    claims: JoinSet<sqlx::Result<Claimed>>,
    attempts: JoinSet<(AccountId, WebhookId, Option<Ended>)>,
    writes: JoinSet<Written>,
    writers: Arc<Semaphore>,
    /// Attempts that have not been written yet.
    of_endpoints: HashMap<(AccountId, WebhookId), usize>,
    of_accounts: HashMap<AccountId, usize>,
    slow: HashMap<AccountId, Slow>,
    /// Results that wait while a batch of their endpoint is being written.
    waiting: HashMap<WebhookId, Vec<(AccountId, Ended)>>,
}

/// An account some of whose attempts ran out of time.
struct Slow {
    /// When the last one did.
    seen: Instant,
    /// Its endpoints that have answered since.
    answering: HashSet<WebhookId>,
}

/// What a claim got, of what it may have got.
struct Claimed {
    attempts: Vec<Attempt>,
    of_each: usize,
    limit: usize,
}

/// A batch that is no more anybody's.
struct Written {
    endpoint: WebhookId,
    accounts: Vec<AccountId>,
}

impl Dispatch {
    fn new(context: Arc<Context>, target: Target, slow_target: Target, vault: Vault) -> Self {
        let most = context.config.webhooks.at_once;
        Self {
            claiming: claiming(&context.lazy),
            context,
            target: Arc::new(target),
            slow_target: Arc::new(slow_target),
            vault: Arc::new(vault),
            look: true,
            tick_at: Instant::now(),
            besides: Vec::new(),
            after: None,
            most,
            ticks: JoinSet::new(),
            claims: JoinSet::new(),
            attempts: JoinSet::new(),
            writes: JoinSet::new(),
            writers: Arc::new(Semaphore::new(WRITERS)),
            of_endpoints: HashMap::new(),
            of_accounts: HashMap::new(),
            slow: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    fn is_busy(&self) -> bool {
        !self.claims.is_empty() || !self.attempts.is_empty() || !self.writes.is_empty()
    }

    fn room(&self) -> usize {
        self.most.saturating_sub(self.of_endpoints.values().sum())
    }

    /// How many attempts a claim may take, of an endpoint and in all: half of what an endpoint and an account may have, so
    /// that whoever has no more than the other half under way stays within bounds.
    fn bounds(&self) -> (usize, usize) {
        let (_, of_account, of_endpoint) = AT_ONCE;
        (of_endpoint / 2, (of_account.min(self.room()) / 2).max(1))
    }

    /// Looks for what has become due, and for what is due to endpoints that do not answer, when it is time to.
    fn tick(&mut self) {
        let now = Instant::now();
        if now < self.tick_at {
            return;
        }
        self.tick_at = now + TICK;
        if !self.ticks.is_empty() {
            return;
        }
        self.slow.retain(|_, slow| slow.seen.elapsed() < SLOW_FOR);
        let (of_each, limit) = self.bounds();
        let (slow_of_account, slow_of_each) = (self.share(), SLOW_AT_ONCE.1 / 2);
        let answering = self.slow.values().flat_map(|slow| &slow.answering).map(WebhookId::as_uuid);
        let wanted = SlowWanted {
            accounts: self.slow_with_room(SLOW_AT_ONCE.0 - slow_of_account),
            not_endpoints: self.busy_endpoints(of_each, slow_of_each).into_iter().chain(answering).collect(),
            most: (as_count(slow_of_each), as_count(slow_of_account), as_count(limit)),
        };
        let claiming = self.claiming.clone();
        self.ticks.spawn(async move {
            let mut conn = claiming.acquire().await?;
            deliveries::wake(&mut conn).await?;
            if wanted.accounts.is_empty() { Ok(Vec::new()) } else { deliveries::due_to_slow(&mut conn, &wanted).await }
        });
    }

    /// How many attempts of a slow account begin in a tick, so that those that hang fill what it may have.
    fn share(&self) -> usize {
        let ticks = self.context.config.webhooks.timeout.as_millis() / TICK.as_millis();
        SLOW_AT_ONCE.0.div_ceil(usize::try_from(ticks).unwrap_or(usize::MAX).max(1)).min(SLOW_AT_ONCE.0 / 2)
    }

    /// Claims what is due, if there may be some and somebody has room.
    fn claim_more(&mut self) {
        if !self.look || !self.claims.is_empty() || self.room() == 0 {
            return;
        }
        self.look = false;
        let (of_each, limit) = self.bounds();
        let wanted = Wanted {
            not_endpoints: self.busy_endpoints(of_each, SLOW_AT_ONCE.1 / 2),
            not_accounts: more_than(&self.of_accounts, limit).map(|account| account.as_uuid()).collect(),
            most: (as_count(of_each), as_count(limit)),
            after: self.after,
            slow: self.slow.keys().map(AccountId::as_uuid).collect(),
            answering: self.slow.values().flat_map(|slow| &slow.answering).map(WebhookId::as_uuid).collect(),
            besides: std::mem::take(&mut self.besides),
        };
        let (claiming, lease) = (self.claiming.clone(), self.context.config.webhooks.timeout + GRACE);
        self.claims.spawn(async move {
            let attempts = deliveries::claim(&mut *claiming.acquire().await?, &wanted, lease).await?;
            Ok(Claimed { attempts, of_each, limit })
        });
    }

    /// Whether an endpoint is one that does not answer.
    fn is_slow(&self, account: AccountId, endpoint: WebhookId) -> bool {
        self.slow.get(&account).is_some_and(|slow| !slow.answering.contains(&endpoint))
    }

    /// Endpoints that have more under way than this.
    fn busy_endpoints(&self, bound: usize, slow_bound: usize) -> Vec<Uuid> {
        let is_busy = |((account, endpoint), count): &(&(AccountId, WebhookId), &usize)| {
            **count > if self.is_slow(*account, *endpoint) { slow_bound } else { bound }
        };
        self.of_endpoints.iter().filter(is_busy).map(|((_, endpoint), _)| endpoint.as_uuid()).collect()
    }

    /// Slow accounts of which no more than this is under way at endpoints that do not answer.
    fn slow_with_room(&self, bound: usize) -> Vec<Uuid> {
        let mut under_way = HashMap::<_, usize>::new();
        for ((account, endpoint), count) in &self.of_endpoints {
            if self.is_slow(*account, *endpoint) {
                *under_way.entry(account).or_default() += count;
            }
        }
        let has_room = |account: &&AccountId| under_way.get(account).is_none_or(|count| *count <= bound);
        self.slow.keys().filter(has_room).map(AccountId::as_uuid).collect()
    }

    /// Learns from how an attempt went.
    fn note(&mut self, account: AccountId, endpoint: WebhookId, outcome: Outcome) {
        if outcome == Outcome::Timeout {
            let slow =
                self.slow.entry(account).or_insert_with(|| Slow { seen: Instant::now(), answering: HashSet::new() });
            slow.seen = Instant::now();
            slow.answering.remove(&endpoint);
        } else if let Some(slow) = self.slow.get_mut(&account) {
            slow.answering.insert(endpoint);
        }
    }

    /// Waits until something ends, and goes on from there.
    async fn step(&mut self) {
        tokio::select! {
            Some(claimed) = self.claims.join_next(), if !self.claims.is_empty() => match claimed {
                Ok(Ok(claimed)) => self.attempt(claimed),
                Ok(Err(error)) => {
                    static FAILED: Seldom = Seldom::new();
                    FAILED.say(|held_back| tracing::warn!(%error, held_back, "cannot claim webhook deliveries"));
                    self.tick_at = Instant::now() + RETRY;
                }
                Err(panic) => tracing::error!(%panic, "claiming webhook deliveries panicked"),
            },
            Some(ticked) = self.ticks.join_next(), if !self.ticks.is_empty() => match ticked {
                Ok(Ok(besides)) => {
                    self.besides = besides;
                    self.look = true;
                }
                Ok(Err(error)) => {
                    static FAILED: Seldom = Seldom::new();
                    FAILED.say(|held_back| tracing::warn!(%error, held_back, "cannot look for webhook deliveries"));
                    self.tick_at = Instant::now() + RETRY;
                }
                Err(panic) => tracing::error!(%panic, "looking for webhook deliveries panicked"),
            },
            Some(ended) = self.attempts.join_next(), if !self.attempts.is_empty() => match ended {
                Ok((account, endpoint, Some(ended))) => {
                    self.note(account, endpoint, ended.outcome);
                    self.write(account, endpoint, ended);
                }
                // Its claim runs out, and somebody may then do better.
                Ok((account, endpoint, None)) => self.release(account, endpoint),
                Err(panic) => tracing::error!(%panic, "a webhook delivery panicked"),
            },
            Some(written) = self.writes.join_next(), if !self.writes.is_empty() => match written {
                Ok(written) => self.go_on(&written),
                Err(panic) => tracing::error!(%panic, "writing the results of webhook deliveries panicked"),
            },
            else => std::future::pending().await,
        }
    }

    fn attempt(&mut self, claimed: Claimed) {
        let Claimed { attempts, of_each, limit } = claimed;
        let mut of_endpoints = HashMap::<_, usize>::new();
        for Attempt { account_id, endpoint_id, .. } in &attempts {
            if !self.is_slow(*account_id, *endpoint_id) {
                *of_endpoints.entry((*account_id, *endpoint_id)).or_default() += 1;
            }
        }
        let full = of_endpoints.values().sum::<usize>() >= limit;
        // Where a bound was reached there may be more, and so where the round began in the middle.
        self.look |= self.after.is_some() || full || of_endpoints.values().any(|got| *got >= of_each);
        // Slow accounts have no place in the round.
        let in_round = of_endpoints.into_keys().filter(|(account, _)| !self.slow.contains_key(account));
        self.after = in_round.max().filter(|_| full);
        for attempt in attempts {
            *self.of_endpoints.entry((attempt.account_id, attempt.endpoint_id)).or_default() += 1;
            *self.of_accounts.entry(attempt.account_id).or_default() += 1;
            let slow = self.is_slow(attempt.account_id, attempt.endpoint_id);
            let target = if slow { &self.slow_target } else { &self.target };
            let (target, vault) = (Arc::clone(target), Arc::clone(&self.vault));
            self.attempts.spawn(async move {
                let made = AssertUnwindSafe(make(&target, &vault, &attempt)).catch_unwind().await;
                (attempt.account_id, attempt.endpoint_id, made.unwrap_or_default())
            });
        }
    }

    fn write(&mut self, account: AccountId, endpoint: WebhookId, ended: Ended) {
        match self.waiting.entry(endpoint) {
            // A batch of this endpoint is being written.
            Entry::Occupied(mut waiting) => waiting.get_mut().push((account, ended)),
            Entry::Vacant(none) => {
                none.insert(Vec::new());
                self.write_batch(endpoint, vec![(account, ended)]);
            }
        }
    }

    fn write_batch(&mut self, endpoint: WebhookId, batch: Vec<(AccountId, Ended)>) {
        let (context, writers) = (Arc::clone(&self.context), Arc::clone(&self.writers));
        self.writes.spawn(async move {
            let _turn = writers.acquire().await;
            let (accounts, ended): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            // Results that are lost in a panic are those of attempts that somebody makes again.
            let _reported = AssertUnwindSafe(write(&context, endpoint, &ended)).catch_unwind().await;
            Written { endpoint, accounts }
        });
    }

    /// Counts an attempt no more.
    fn release(&mut self, account: AccountId, endpoint: WebhookId) {
        let (of_endpoint, of_account) = self.bounds();
        let full = take_one(&mut self.of_endpoints, (account, endpoint), of_endpoint)
            | take_one(&mut self.of_accounts, account, of_account);
        // Somebody who had been passed over has room again.
        self.look |= full;
    }

    fn go_on(&mut self, written: &Written) {
        for account in &written.accounts {
            self.release(*account, written.endpoint);
        }
        match self.waiting.get_mut(&written.endpoint).map(std::mem::take) {
            Some(batch) if !batch.is_empty() => self.write_batch(written.endpoint, batch),
            _ => {
                self.waiting.remove(&written.endpoint);
            }
        }
    }
}

/// Where claims are made, one after the other, and where what is due is looked for beside them. The statements are long:
/// planning them each time would take several times as long as they do. A plan that is made once has to be good for tables of
/// any size, also when they are empty on that day.
fn claiming(lazy: &PgPool) -> PgPool {
    let options = (*lazy.connect_options())
        .clone()
        .options([("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off")]);
    pool_options(2).connect_lazy_with(options)
}

/// Makes an attempt. `None` when that is not possible here.
async fn make(target: &Target, vault: &Vault, attempt: &Attempt) -> Option<Ended> {
    let secrets = opened(vault, attempt)?;
    Some(target.send(attempt, &secrets).await)
}

/// Attempts that a process may have under way at once that may open so many files. Each attempt has one; most of them are
/// for everything else.
#[must_use]
pub fn attempts_that_fit(limit: usize) -> usize {
    AT_ONCE.0.min(limit / 4)
}

fn as_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn more_than<K: Copy>(counts: &HashMap<K, usize>, bound: usize) -> impl Iterator<Item = K> {
    counts.iter().filter(move |(_, count)| **count > bound).map(|(key, _)| *key)
}

/// Counts one less. `true` when that is where somebody stops being passed over.
fn take_one<K: Copy + Eq + std::hash::Hash>(counts: &mut HashMap<K, usize>, key: K, bound: usize) -> bool {
    let Some(count) = counts.get_mut(&key) else { return false };
    *count -= 1;
    let left = *count;
    if left == 0 {
        counts.remove(&key);
    }
    left == bound
}

/// The secrets that sign, the new one first. `None` when that one cannot be opened: what is not signed is not sent, and it is
/// this worker's configuration that is at fault and not the endpoint.
fn opened(vault: &Vault, attempt: &Attempt) -> Option<Vec<SigningSecret>> {
    let open = |sealed: &Vec<u8>| {
        SigningSecret::open(vault, attempt.endpoint_id, sealed)
            .inspect_err(|error| tracing::error!(%error, endpoint = %attempt.endpoint_id, "a webhook cannot be signed"))
            .ok()
    };
    let current = open(&attempt.sealed_secret)?;
    let previous = attempt.sealed_prev_secret.as_ref().and_then(open);
    Some(std::iter::once(current).chain(previous).collect())
}

/// Writes results until they are, or would be of no use any more. When the database refuses them, it is for what endpoints
/// answered, which is left out then: nobody's deliveries are sent over and over for it.
async fn write(context: &Context, endpoint: WebhookId, ended: &[Ended]) {
    let give_up = Instant::now() + context.config.webhooks.timeout + GRACE;
    let written = async {
        match finish(context, endpoint, ended).await {
            Err(error) if !may_pass(&error) => {
                tracing::error!(%error, %endpoint, "the database does not take what an endpoint answered");
                finish(context, endpoint, &ended.iter().map(Ended::without_words).collect::<Vec<_>>()).await
            }
            written => written,
        }
    };
    match timeout_at(give_up, written).await {
        Ok(Ok(tally)) => target::count_terminal(tally),
        Ok(Err(error)) => {
            tracing::error!(%error, %endpoint, "cannot write how webhook deliveries ended: they are sent again");
        }
        Err(_) => tracing::error!(%endpoint, "gave up writing how webhook deliveries ended: they are sent again"),
    }
}

async fn finish(context: &Context, endpoint: WebhookId, ended: &[Ended]) -> sqlx::Result<Tally> {
    let schedule = &context.config.webhooks.schedule;
    let finish = || async { deliveries::finish(&mut *context.db.acquire().await?, endpoint, ended, schedule).await };
    persist("write how webhook deliveries ended", finish).await
}
