//! Delivering webhooks (interface, "Webhook delivery").
//!
//! The rows of [`deliveries`] are the queue. A job queue in which everybody's deliveries wait in one line cannot be fair: a
//! thousand endpoints that hang would be in everybody's way. So a claim takes a few from each endpoint that has some due,
//! and passes over endpoints and accounts that have as many under way as they may. Claims come one after the other; while
//! one is on its way to the database, what ended meanwhile waits for the next.
//!
//! Results of one endpoint are written one batch after the other, and what ends while a batch is being written makes up the
//! next: the busier an endpoint, the fewer statements a delivery costs. A result that cannot be written is tried again until
//! its claim has run out, and then the delivery is sent once more, by whoever claims it, under the same event id.

mod target;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use kitfleet_domain::ids::{AccountId, WebhookId};
use kitfleet_domain::vault::Vault;
use kitfleet_domain::webhooks::deliveries::{self, Attempt, Busy, Ended, Tally};
use kitfleet_domain::webhooks::secrets::{self, SigningSecret};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use self::target::Target;
pub use self::target::{BadRoots, ExtraRoots};
use crate::Context;

/// Attempts under way at once, of all, of an account and of an endpoint.
const AT_ONCE: (usize, usize, usize) = (1_024, 256, 32);
/// How long after its time limit an attempt belongs to somebody else.
const GRACE: Duration = Duration::from_secs(2);
/// How often the table is looked at without a notification: an attempt that was put off is late by no more than that.
const SAFETY: Duration = Duration::from_secs(1);
/// How long to wait before a failed statement is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Delivers until the worker stops, and then waits for what is under way.
pub(crate) async fn deliver(context: Arc<Context>, mut wakeups: UnboundedReceiver<()>) -> Result<(), String> {
    let config = &context.config.webhooks;
    let target = Target::new(config).map_err(|error| error.to_string())?;
    let Some(vault) = context.stopping.run_until_cancelled(vault(&context)).await else { return Ok(()) };
    let mut dispatch = Dispatch::new(Arc::clone(&context), target, vault);
    loop {
        dispatch.claim_more();
        tokio::select! {
            () = context.stopping.cancelled() => break,
            Some(()) = wakeups.recv() => {
                while wakeups.try_recv().is_ok() {}
                dispatch.look = true;
            }
            () = sleep_until(dispatch.look_again_at) => dispatch.look = true,
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

async fn vault(context: &Context) -> Vault {
    loop {
        let fetched = async {
            let mut conn = context.db.acquire().await?;
            secrets::vault(&mut conn, context.config.webhooks.vault.as_ref()).await
        };
        match fetched.await {
            Ok(vault) => return vault,
            Err(error) => tracing::warn!(%error, "cannot fetch what webhook secrets are sealed with"),
        }
        sleep(RETRY).await;
    }
}

/// What is under way.
struct Dispatch {
    context: Arc<Context>,
    target: Arc<Target>,
    vault: Arc<Vault>,
    /// Whether the table may hold something that is due.
    look: bool,
    look_again_at: Instant,
    claims: JoinSet<sqlx::Result<Vec<Attempt>>>,
    attempts: JoinSet<(AccountId, WebhookId, Ended)>,
    writes: JoinSet<Written>,
    /// Attempts that have not been written yet.
    of_endpoints: HashMap<WebhookId, usize>,
    of_accounts: HashMap<AccountId, usize>,
    /// Results that wait while a batch of their endpoint is being written.
    waiting: HashMap<WebhookId, Vec<(AccountId, Ended)>>,
}

/// A batch that is no more anybody's.
struct Written {
    endpoint: WebhookId,
    accounts: Vec<AccountId>,
}

impl Dispatch {
    fn new(context: Arc<Context>, target: Target, vault: Vault) -> Self {
        Self {
            context,
            target: Arc::new(target),
            vault: Arc::new(vault),
            look: true,
            look_again_at: Instant::now(),
            claims: JoinSet::new(),
            attempts: JoinSet::new(),
            writes: JoinSet::new(),
            of_endpoints: HashMap::new(),
            of_accounts: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    fn is_busy(&self) -> bool {
        !self.claims.is_empty() || !self.attempts.is_empty() || !self.writes.is_empty()
    }

    fn under_way(&self) -> usize {
        self.of_endpoints.values().sum()
    }

    /// Claims what is due, if there may be some and somebody has room.
    fn claim_more(&mut self) {
        let (all, of_account, of_endpoint) = AT_ONCE;
        let room = all.saturating_sub(self.under_way());
        if !self.look || !self.claims.is_empty() || room == 0 {
            return;
        }
        self.look = false;
        self.look_again_at = Instant::now() + SAFETY;
        // A claim takes half of what an endpoint may have, so that whoever has less than the other half under way stays
        // within bounds.
        let busy = Busy {
            endpoints: more_than(&self.of_endpoints, of_endpoint / 2).map(|id| id.as_uuid()).collect(),
            accounts: more_than(&self.of_accounts, of_account / 2).map(|id| id.as_uuid()).collect(),
        };
        let (context, of_each) = (Arc::clone(&self.context), of_endpoint / 2);
        let lease = context.config.webhooks.timeout + GRACE;
        self.claims.spawn(async move {
            let mut conn = context.lazy.acquire().await?;
            deliveries::claim(&mut conn, &busy, as_count(of_each), as_count(room.min(of_account / 2)), lease).await
        });
    }

    /// Waits until something ends, and goes on from there.
    async fn step(&mut self) {
        tokio::select! {
            Some(claimed) = self.claims.join_next(), if !self.claims.is_empty() => match claimed {
                Ok(Ok(claimed)) => self.attempt(claimed),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot claim webhook deliveries");
                    self.look_again_at = Instant::now() + RETRY;
                }
                Err(panic) => tracing::error!(%panic, "claiming webhook deliveries panicked"),
            },
            Some(ended) = self.attempts.join_next(), if !self.attempts.is_empty() => match ended {
                Ok((account, endpoint, ended)) => self.write(account, endpoint, ended),
                Err(panic) => tracing::error!(%panic, "a webhook delivery panicked"),
            },
            Some(written) = self.writes.join_next(), if !self.writes.is_empty() => match written {
                Ok(written) => self.go_on(&written),
                Err(panic) => tracing::error!(%panic, "writing the results of webhook deliveries panicked"),
            },
            else => std::future::pending().await,
        }
    }

    fn attempt(&mut self, claimed: Vec<Attempt>) {
        // Where there was something there may be more.
        self.look |= !claimed.is_empty();
        for attempt in claimed {
            *self.of_endpoints.entry(attempt.endpoint_id).or_default() += 1;
            *self.of_accounts.entry(attempt.account_id).or_default() += 1;
            let (target, vault) = (Arc::clone(&self.target), Arc::clone(&self.vault));
            self.attempts.spawn(async move {
                let ended = target.send(&attempt, &opened(&vault, &attempt)).await;
                (attempt.account_id, attempt.endpoint_id, ended)
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
        let context = Arc::clone(&self.context);
        self.writes.spawn(async move {
            let (accounts, ended): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            write(&context, endpoint, &ended).await;
            Written { endpoint, accounts }
        });
    }

    fn go_on(&mut self, written: &Written) {
        for account in &written.accounts {
            let full = take_one(&mut self.of_endpoints, written.endpoint, AT_ONCE.2 / 2)
                | take_one(&mut self.of_accounts, *account, AT_ONCE.1 / 2);
            // Somebody who had been passed over has room again.
            self.look |= full;
        }
        match self.waiting.get_mut(&written.endpoint).map(std::mem::take) {
            Some(batch) if !batch.is_empty() => self.write_batch(written.endpoint, batch),
            _ => {
                self.waiting.remove(&written.endpoint);
            }
        }
    }
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

/// The secrets that sign, the new one first. One that cannot be opened does not sign; the endpoint then refuses, and its
/// owner can rotate.
fn opened(vault: &Vault, attempt: &Attempt) -> Vec<SigningSecret> {
    let sealed = std::iter::once(&attempt.sealed_secret).chain(&attempt.sealed_prev_secret);
    let opened = sealed.filter_map(|sealed| {
        SigningSecret::open(vault, attempt.endpoint_id, sealed)
            .inspect_err(|error| tracing::error!(%error, endpoint = %attempt.endpoint_id, "a webhook cannot be signed"))
            .ok()
    });
    opened.collect()
}

/// Writes results until they are, or would be of no use any more.
async fn write(context: &Context, endpoint: WebhookId, ended: &[Ended]) {
    let give_up = Instant::now() + context.config.webhooks.timeout + GRACE;
    loop {
        match write_once(context, endpoint, ended).await {
            Ok(tally) => return target::count_terminal(tally),
            Err(error) if Instant::now() < give_up => {
                tracing::warn!(%error, %endpoint, "cannot write how webhook deliveries ended");
            }
            Err(error) => {
                tracing::error!(%error, %endpoint, "gave up writing how webhook deliveries ended: they are sent again");
                return;
            }
        }
        sleep(RETRY).await;
    }
}

async fn write_once(context: &Context, endpoint: WebhookId, ended: &[Ended]) -> sqlx::Result<Tally> {
    let mut tx = context.db.begin().await?;
    let tally = deliveries::finish(&mut tx, endpoint, ended, &context.config.webhooks.schedule).await?;
    tx.commit().await?;
    Ok(tally)
}
