//! Attempts of deliveries: workers claim due ones and write their results.
//!
//! A claim lasts for the longest duration of an attempt. After it expires, another worker can claim the delivery, and a
//! late result changes nothing. An attempt that a lost worker had begun does not count.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, DeliveryId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use super::deliveries;

#[derive(Debug)]
pub struct Attempt {
    pub id: DeliveryId,
    pub account_id: AccountId,
    pub endpoint_id: WebhookId,
    pub url: String,
    pub sealed_secret: Vec<u8>,
    /// Signs too during its grace period.
    pub sealed_prev_secret: Option<Vec<u8>>,
    pub event_id: Uuid,
    pub event_type: String,
    pub event_created_at: Timestamp,
    pub data: Value,
    /// Distinguishes the claim from other claims of the delivery.
    pub claimed_until: Timestamp,
    /// Time of the attempt in seconds since 1970.
    pub sent_at: i64,
}

impl Attempt {
    /// The same bytes in each attempt and replay (contract: webhooks 16).
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let Self { event_id, event_type, event_created_at, data, .. } = self;
        deliveries::body(*event_id, event_type, *event_created_at, data).to_string().into_bytes()
    }
}

#[derive(Debug)]
pub struct ClaimLimits {
    pub not_endpoints: Vec<Uuid>,
    pub not_accounts: Vec<Uuid>,
    /// Maximum number of attempts of one endpoint, and in total.
    pub max: (i64, i64),
    pub after: Option<(AccountId, WebhookId)>,
    /// Skipped except for the endpoints in `answering`.
    pub slow: Vec<Uuid>,
    /// Endpoints of slow accounts that are treated as the others.
    pub answering: Vec<Uuid>,
    /// See [`due_to_slow`].
    pub besides: Vec<DeliveryId>,
}

/// Goes through accounts and their endpoints in order, starting after `after`, so that each gets its turn.
pub async fn claim(conn: &mut PgConnection, limits: &ClaimLimits, lease: Duration) -> sqlx::Result<Vec<Attempt>> {
    let ClaimLimits { not_endpoints, not_accounts, max, after, slow, answering, besides } = limits;
    let (after_account, after_endpoint) =
        after.map_or((Uuid::nil(), Uuid::nil()), |(account, endpoint)| (account.as_uuid(), endpoint.as_uuid()));
    sqlx::query_as!(
        Attempt,
        r#"with recursive waiting (account_id, endpoint_id) as (
               -- Jumps from endpoint to endpoint in the index, whatever the length of their queues, and over the others of
               -- an account that is passed over.
               (select account_id, endpoint_id from webhook_deliveries
                where due and (account_id, endpoint_id) > ($6, $7)
                order by account_id, endpoint_id limit 1)
               union all
               select next.account_id, next.endpoint_id from waiting w
               cross join lateral (
                   select d.account_id, d.endpoint_id from webhook_deliveries d
                   where d.due and (d.account_id, d.endpoint_id) > (w.account_id,
                       case when w.account_id = any ($2) or w.account_id = any ($8)
                            then 'ffffffff-ffff-ffff-ffff-ffffffffffff' else w.endpoint_id end)
                   order by d.account_id, d.endpoint_id limit 1
               ) next
           ), due as (
               select d.id
               from (
                   select account_id, endpoint_id from waiting where account_id <> all ($8)
                   union all select account_id, id from webhook_endpoints where id = any ($9)
               ) w
               join webhook_endpoints e on e.id = w.endpoint_id and e.active and e.disabled_at is null
                   and e.id <> all ($1) and e.account_id <> all ($2)
               cross join lateral (
                   select id from webhook_deliveries d
                   where d.account_id = w.account_id and d.endpoint_id = w.endpoint_id and d.due
                   order by d.next_attempt_at limit $3 for update skip locked
               ) d
               limit $4
           ), besides as (
               select d.id from webhook_deliveries d
               join webhook_endpoints e on e.id = d.endpoint_id and e.active and e.disabled_at is null
               where d.id = any ($10) and d.due for update of d skip locked
           ), claimed as (
               select id from due union all select id from besides
           )
           update webhook_deliveries d
           set status = 'in_flight', next_attempt_at = now() + make_interval(secs => $5), due = false, updated_at = now()
           from claimed, webhook_endpoints e, events v
           where d.id = claimed.id and e.id = d.endpoint_id and v.id = d.event_id
           returning d.id, d.account_id, d.endpoint_id, e.url, e.sealed_secret,
                     case when e.grace_expires_at > now() then e.sealed_prev_secret end as sealed_prev_secret,
                     d.event_id, d.event_type, v.created_at as event_created_at, v.data,
                     d.next_attempt_at as "claimed_until!", floor(extract(epoch from now()))::bigint as "sent_at!""#,
        not_endpoints,
        not_accounts,
        max.0,
        max.1,
        lease.as_secs_f64(),
        after_account,
        after_endpoint,
        slow,
        answering,
        besides as _,
    )
    .fetch_all(conn)
    .await
}

/// The deliveries are due again at once, and the workers are notified.
pub async fn give_back(conn: &mut PgConnection, claims: &[(DeliveryId, Timestamp)]) -> sqlx::Result<()> {
    let (ids, claimed_until): (Vec<_>, Vec<_>) = claims.iter().map(|(id, until)| (id.as_uuid(), *until)).unzip();
    sqlx::query_scalar!(
        r#"with given_back as (
               update webhook_deliveries d
               set status = 'pending', next_attempt_at = now(), due = true, updated_at = now()
               from unnest($1::uuid[], $2::timestamptz[]) as claim (id, claimed_until)
               where d.id = claim.id and d.status = 'in_flight' and d.next_attempt_at = claim.claimed_until
           )
           select pg_notify('jobs:webhooks', '')::text as notified"#,
        &ids,
        &claimed_until as _,
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

#[derive(Debug)]
pub struct SlowClaimLimits {
    pub accounts: Vec<Uuid>,
    pub not_endpoints: Vec<Uuid>,
    /// Maximum number of attempts of one endpoint, of one account, and in total.
    pub max: (i64, i64, i64),
}

/// Does not claim them. For each account, endpoints whose last attempt succeeded come first, then the oldest
/// deliveries.
pub async fn due_to_slow(conn: &mut PgConnection, limits: &SlowClaimLimits) -> sqlx::Result<Vec<DeliveryId>> {
    let SlowClaimLimits { accounts, not_endpoints, max: (of_each, of_account, limit) } = limits;
    sqlx::query_scalar!(
        r#"with recursive waiting (account_id, endpoint_id) as (
               select first.account_id, first.endpoint_id from unnest($1::uuid[]) as account (id)
               cross join lateral (
                   select d.account_id, d.endpoint_id from webhook_deliveries d
                   where d.due and d.account_id = account.id order by d.endpoint_id limit 1
               ) first
               union all
               select w.account_id, next.endpoint_id from waiting w
               cross join lateral (
                   select d.endpoint_id from webhook_deliveries d
                   where d.due and d.account_id = w.account_id and d.endpoint_id > w.endpoint_id
                   order by d.endpoint_id limit 1
               ) next
           ), due as (
               select d.id, d.next_attempt_at, row_number() over (
                          partition by w.account_id
                          order by e.last_success_at > coalesce(e.last_failure_at, '-infinity') desc nulls last,
                                   d.next_attempt_at
                      ) as place
               from waiting w
               join webhook_endpoints e on e.id = w.endpoint_id and e.active and e.disabled_at is null and e.id <> all ($2)
               cross join lateral (
                   select id, next_attempt_at from webhook_deliveries d
                   where d.account_id = w.account_id and d.endpoint_id = w.endpoint_id and d.due
                   order by d.next_attempt_at limit $3
               ) d
           )
           select id from due where place <= $4 order by place, next_attempt_at limit $5"#,
        accounts,
        not_endpoints,
        of_each,
        of_account,
        limit,
    )
    .fetch_all(conn)
    .await
}

/// Includes expired claims. Returns true when any delivery is due.
pub async fn wake(conn: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"with woken as (
               update webhook_deliveries set due = true where id = any(array(
                   select id from webhook_deliveries where not due and next_attempt_at <= now() for update skip locked))
               returning 1
           )
           select exists(select from woken) or exists(select from webhook_deliveries where due) as "due!""#,
    )
    .fetch_one(conn)
    .await
}

pub const UNSIGNED: &str = "not sent: the service cannot decrypt the endpoint's signing secret";

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    Success,
    HttpError,
    Timeout,
    TransportError,
    /// The signing secret cannot be opened. Metrics count it as a transport error.
    #[strum(serialize = "transport_error")]
    Unsigned,
}

impl Outcome {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug)]
pub struct AttemptResult {
    pub id: DeliveryId,
    /// Identifies the claim of the attempt.
    pub claimed_until: Timestamp,
    pub outcome: Outcome,
    pub response_status: Option<i32>,
    pub response_excerpt: Option<String>,
    pub error: Option<String>,
    pub duration_ms: i64,
    /// Signature that was sent; `None` if the attempt was not signed.
    pub signature: Option<String>,
}

impl AttemptResult {
    /// Returns the result without the texts of the endpoint.
    #[must_use]
    pub fn without_words(&self) -> Self {
        Self { response_excerpt: None, error: None, signature: self.signature.clone(), ..*self }
    }
}

#[derive(Debug, Clone)]
pub struct Schedule {
    /// One less than the number of attempts.
    pub pauses: Vec<Duration>,
    /// Consecutive dead letters before the endpoint is disabled.
    pub disable_after: i64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AttemptCounts {
    pub delivered: i64,
    pub dlq: i64,
}

/// All are of one endpoint, in the order in which they ended. A result whose claim has expired changes nothing. The
/// endpoint's row is locked first, so that concurrent calls count its consecutive failures one after another. Failures
/// that the service caused do not count.
pub async fn finish(
    conn: &mut PgConnection,
    endpoint: WebhookId,
    ended: &[AttemptResult],
    schedule: &Schedule,
) -> sqlx::Result<AttemptCounts> {
    let ids: Vec<_> = ended.iter().map(|one| one.id.as_uuid()).collect();
    let claims: Vec<_> = ended.iter().map(|one| one.claimed_until).collect();
    let successes: Vec<_> = ended.iter().map(|one| one.outcome == Outcome::Success).collect();
    let unsigned: Vec<_> = ended.iter().map(|one| one.outcome == Outcome::Unsigned).collect();
    let statuses: Vec<_> = ended.iter().map(|one| one.response_status).collect();
    let excerpts: Vec<_> = ended.iter().map(|one| one.response_excerpt.clone()).collect();
    let errors: Vec<_> = ended.iter().map(|one| one.error.clone()).collect();
    let durations: Vec<_> = ended.iter().map(|one| one.duration_ms).collect();
    let signatures: Vec<_> = ended.iter().map(|one| one.signature.clone()).collect();
    let pauses: Vec<_> = schedule.pauses.iter().map(Duration::as_secs_f64).collect();
    sqlx::query_as!(
        AttemptCounts,
        r#"with endpoint as materialized (
               select id, disabled_at is not null as disabled, consecutive_failures
               from webhook_endpoints where id = $1 for no key update
           ), attempt as (
               select * from unnest($2::uuid[], $3::timestamptz[], $4::boolean[], $5::int[], $6::text[], $7::text[], $8::bigint[],
                                    $11::boolean[], $12::text[])
                   with ordinality as a (id, claimed_until, success, response_status, response_excerpt, error, duration_ms,
                                         unsigned, signature, place)
           ), ended as (
               update webhook_deliveries d
               set attempts = d.attempts + 1, due = false, updated_at = now(), last_response_status = a.response_status,
                   last_response_excerpt = a.response_excerpt, last_error = a.error, duration_ms = a.duration_ms,
                   last_signature = a.signature,
                   attempts_log = append_attempt(d.attempts_log, jsonb_build_object(
                       'at', to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'status', a.response_status,
                       'duration_ms', a.duration_ms, 'error', a.error, 'excerpt', a.response_excerpt)),
                   delivered_at = case when a.success then now() end,
                   status = case when a.success then 'delivered'
                                 when endpoint.disabled then 'failed'
                                 when d.attempts >= cardinality($9::float8[]) then 'dlq'
                                 else 'pending' end,
                   next_attempt_at = case when not a.success and not endpoint.disabled
                                          then now() + make_interval(secs => ($9::float8[])[d.attempts + 1]) end
               from attempt a, endpoint
               where d.id = a.id and d.status = 'in_flight' and d.next_attempt_at = a.claimed_until
               returning d.status, a.success, a.unsigned, a.place
           ), run as (
               -- Dead letters in a row: a run ends where something was delivered, and the first one goes on from before.
               select deliveries, count(*) filter (where status = 'dlq' and not unsigned)
                          + case when deliveries = 0 then (select consecutive_failures from endpoint) else 0 end as length
               from (select status, unsigned, count(*) filter (where status = 'delivered') over (order by place) as deliveries
                     from ended) ended
               group by deliveries
           ), tally as (
               select count(*) filter (where status = 'delivered') as delivered,
                      count(*) filter (where status = 'failed') as failed,
                      count(*) filter (where status = 'dlq') as dlq,
                      bool_or(success) as succeeded, bool_or(not success) as missed
               from ended
           ), counted as (
               update webhook_endpoints e
               set delivered = e.delivered + t.delivered, failed = e.failed + t.failed, dlq = e.dlq + t.dlq,
                   consecutive_failures = coalesce(
                       (select length from run order by deliveries desc limit 1), e.consecutive_failures),
                   last_success_at = case when t.succeeded then now() else e.last_success_at end,
                   last_failure_at = case when t.missed then now() else e.last_failure_at end,
                   disabled_at = case when exists (select from run where length >= $10)
                                      then coalesce(e.disabled_at, now()) else e.disabled_at end
               from tally t where e.id = $1
           )
           select delivered as "delivered!", dlq as "dlq!" from tally"#,
        endpoint as _,
        &ids,
        &claims as _,
        &successes,
        &statuses as _,
        &excerpts as _,
        &errors as _,
        &durations,
        &pauses,
        schedule.disable_after,
        &unsigned,
        &signatures as _,
    )
    .fetch_one(conn)
    .await
}
