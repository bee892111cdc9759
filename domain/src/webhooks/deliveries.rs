//! Deliveries: each is one event on its way to one endpoint, and its row is the schedule of its attempts.
//!
//! A worker claims what is due for as long as an attempt may take; a claim that runs out belongs to whoever comes next, and
//! a result that comes later than that changes nothing. What a lost worker had begun costs a delivery none of its attempts.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use super::endpoints::{self, ChangeError};
use crate::audit::{self, Actor, Entry};
use crate::events::{self, EventType};
use crate::ids::{AccountId, DeliveryId, WebhookId};
use crate::timestamp::Timestamp;

/// Where a delivery stands. The last three are terminal.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// It waits for its next attempt.
    Pending,
    /// An attempt is under way.
    InFlight,
    /// It arrived.
    Delivered,
    /// Its endpoint went away.
    Failed,
    /// All of its attempts failed.
    Dlq,
}

impl DeliveryStatus {
    /// Every one.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// Where attempts end, as `service_webhook_delivery_terminal_total` counts it.
    pub const COUNTED: [Self; 2] = [Self::Delivered, Self::Dlq];

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A delivery, as customers see it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// To whom.
    pub endpoint_id: WebhookId,
    /// Of what.
    pub event_id: Uuid,
    /// Of what kind that is.
    pub event_type: String,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Attempts that ended.
    pub attempts: i32,
    /// When the next one is due; `None` when none is to come.
    pub next_attempt_at: Option<Timestamp>,
    /// What the endpoint answered last.
    pub last_response_status: Option<i32>,
    /// How that answer's body began.
    pub last_response_excerpt: Option<String>,
    /// Why there was no answer.
    pub last_error: Option<String>,
    /// How long the last attempt took, in milliseconds.
    pub duration_ms: Option<i64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its row last changed.
    pub updated_at: Timestamp,
    /// When it arrived.
    pub delivered_at: Option<Timestamp>,
}

/// An endpoint's deliveries, the newest first, at most `limit`, after the one of this id. With a status and without, an index has
/// just these, whatever the plan.
///
/// # Errors
/// When the database fails.
pub async fn list(
    conn: &mut PgConnection,
    endpoint: WebhookId,
    status: Option<DeliveryStatus>,
    after: Option<DeliveryId>,
    limit: i64,
) -> sqlx::Result<Vec<Delivery>> {
    sqlx::query_as!(
        Delivery,
        r#"select id, endpoint_id, event_id, event_type, status as "status: _", attempts,
                  case when status = 'pending' then next_attempt_at end as next_attempt_at, last_response_status,
                  last_response_excerpt, last_error, duration_ms, created_at, updated_at, delivered_at
           from webhook_deliveries where id = any(array(
               (select id from webhook_deliveries
                where $2::text is null and endpoint_id = $1 and id < $3 order by id desc limit $4)
               union all
               (select id from webhook_deliveries
                where status = $2 and endpoint_id = $1 and id < $3 order by id desc limit $4)
           )) order by id desc limit $4"#,
        endpoint as _,
        status.map(DeliveryStatus::name),
        after.map_or(Uuid::max(), |after| after.as_uuid()),
        limit,
    )
    .fetch_all(conn)
    .await
}

/// A delivery that was asked for.
#[derive(Debug, Clone)]
pub struct RequestedDelivery {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its event.
    pub event: Uuid,
    /// Of what kind that is.
    pub event_type: String,
}

/// Sends an endpoint a `test.ping`, whatever it subscribed to, and writes `webhook_delivery.replayed`.
///
/// # Errors
/// When there is no such endpoint, it is disabled or paused, or the database fails.
pub async fn send_test(
    conn: &mut PgConnection,
    account: AccountId,
    endpoint: WebhookId,
    actor: &Actor,
) -> Result<RequestedDelivery, ChangeError> {
    endpoints::require_told(&mut *conn, account, endpoint).await?;
    let triggered_by = actor.account().unwrap_or(account);
    let data = json!({
        "message": "This is a test of your webhook endpoint.",
        "endpoint_id": endpoint,
        "triggered_by_account_id": triggered_by,
    });
    let event = events::record(&mut *conn, account, EventType::TestPing, data).await?;
    let asked = ask(&mut *conn, account, endpoint, event, EventType::TestPing.name().to_owned()).await?;
    let payload =
        json!({"via": "send_test_event", "endpoint_id": endpoint, "event_id": event, "event_type": asked.event_type});
    record_replay(conn, account, actor, &asked, payload).await?;
    Ok(asked)
}

async fn ask(
    conn: &mut PgConnection,
    account: AccountId,
    endpoint: WebhookId,
    event: Uuid,
    event_type: String,
) -> sqlx::Result<RequestedDelivery> {
    let delivery = DeliveryId::generate();
    sqlx::query_scalar!(
        r#"with made as (
               insert into webhook_deliveries (id, account_id, endpoint_id, event_id, event_type) values ($1, $2, $3, $4, $5)
           )
           select pg_notify('jobs:webhooks', '')::text as notified"#,
        delivery as _,
        account as _,
        endpoint as _,
        event,
        event_type,
    )
    .fetch_one(conn)
    .await?;
    Ok(RequestedDelivery { delivery, event, event_type })
}

async fn record_replay(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    asked: &RequestedDelivery,
    payload: Value,
) -> sqlx::Result<()> {
    let entry = Entry { action: "webhook_delivery.replayed", target: Some(asked.delivery.to_string()), payload };
    audit::record(conn, account, actor, entry).await
}

/// Why a delivery is not sent again.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The account has no such delivery.
    #[error("the delivery does not exist")]
    NoDelivery,
    /// It is still on its way.
    #[error("the delivery has not ended yet")]
    UnderWay,
    /// Its endpoint takes nothing.
    #[error(transparent)]
    Endpoint(#[from] ChangeError),
}

impl From<sqlx::Error> for ReplayError {
    fn from(error: sqlx::Error) -> Self {
        Self::Endpoint(error.into())
    }
}

/// Sends the event of a delivery that has ended once more, as a delivery of its own, and writes
/// `webhook_delivery.replayed`.
///
/// # Errors
/// When there is no such delivery, it has not ended, its endpoint is disabled or paused, or the database fails.
pub async fn replay(
    conn: &mut PgConnection,
    account: AccountId,
    id: DeliveryId,
    actor: &Actor,
) -> Result<RequestedDelivery, ReplayError> {
    let found = sqlx::query!(
        r#"select endpoint_id, event_id, event_type, status as "status: DeliveryStatus" from webhook_deliveries
           where account_id = $1 and id = $2"#,
        account as _,
        id as _,
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(ReplayError::NoDelivery)?;
    if matches!(found.status, DeliveryStatus::Pending | DeliveryStatus::InFlight) {
        return Err(ReplayError::UnderWay);
    }
    endpoints::require_told(&mut *conn, account, found.endpoint_id).await?;
    let asked = ask(&mut *conn, account, found.endpoint_id, found.event_id, found.event_type).await?;
    let payload = json!({
        "via": "replay",
        "endpoint_id": found.endpoint_id,
        "replayed_delivery_id": id,
        "event_id": found.event_id,
        "event_type": asked.event_type,
    });
    record_replay(conn, account, actor, &asked, payload).await?;
    Ok(asked)
}

/// An attempt to be made.
#[derive(Debug)]
pub struct Attempt {
    /// The delivery.
    pub id: DeliveryId,
    /// Whose it is.
    pub account_id: AccountId,
    /// To whom it goes.
    pub endpoint_id: WebhookId,
    /// Where that is.
    pub url: String,
    /// What it is signed with.
    pub sealed_secret: Vec<u8>,
    /// What it is signed with as well.
    pub sealed_prev_secret: Option<Vec<u8>>,
    /// The event.
    pub event_id: Uuid,
    /// Of what kind it is.
    pub event_type: String,
    /// When it happened.
    pub event_created_at: Timestamp,
    /// What happened.
    pub data: Value,
    /// When the claim runs out: what tells it from any other of this delivery.
    pub claimed_until: Timestamp,
    /// When the attempt is made, in seconds since 1970.
    pub sent_at: i64,
}

impl Attempt {
    /// The envelope (contract: webhooks 16): the same bytes at each attempt and replay.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let Self { event_id, event_type, event_created_at, data, .. } = self;
        json!({"id": event_id, "type": event_type, "created_at": event_created_at, "data": data})
            .to_string()
            .into_bytes()
    }
}

/// What a claim may take.
#[derive(Debug)]
pub struct ClaimLimits {
    /// Endpoints that are passed over.
    pub not_endpoints: Vec<Uuid>,
    /// Accounts that are passed over.
    pub not_accounts: Vec<Uuid>,
    /// Attempts of an endpoint, and in all.
    pub most: (i64, i64),
    /// Behind whom the round begins.
    pub after: Option<(AccountId, WebhookId)>,
    /// Accounts that are passed over but for the endpoints below.
    pub slow: Vec<Uuid>,
    /// Endpoints of slow accounts that are treated like anybody else's.
    pub answering: Vec<Uuid>,
    /// Deliveries that are taken besides; see [`due_to_slow`].
    pub besides: Vec<DeliveryId>,
}

/// Takes attempts that are due into the caller's hands for as long as `lease`. Accounts and their endpoints come in their
/// turn: whoever goes on behind the last one that had something comes round to each.
///
/// # Errors
/// When the database fails.
pub async fn claim(conn: &mut PgConnection, wanted: &ClaimLimits, lease: Duration) -> sqlx::Result<Vec<Attempt>> {
    let ClaimLimits { not_endpoints, not_accounts, most, after, slow, answering, besides } = wanted;
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
        most.0,
        most.1,
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

/// Gives back what was claimed until then and not begun. It is due again at once, and whoever looks for deliveries is told.
///
/// # Errors
/// When the database fails.
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

/// Which attempts may be made of slow accounts.
#[derive(Debug)]
pub struct SlowClaimLimits {
    /// The accounts.
    pub accounts: Vec<Uuid>,
    /// Endpoints that are passed over.
    pub not_endpoints: Vec<Uuid>,
    /// Attempts of an endpoint, of an account, and in all.
    pub most: (i64, i64, i64),
}

/// What is due to the endpoints of slow accounts, of each account the oldest first, but before that what is due to endpoints
/// that answered when they were last asked. It takes nothing into anybody's hands.
///
/// # Errors
/// When the database fails.
pub async fn due_to_slow(conn: &mut PgConnection, wanted: &SlowClaimLimits) -> sqlx::Result<Vec<DeliveryId>> {
    let SlowClaimLimits { accounts, not_endpoints, most: (of_each, of_account, limit) } = wanted;
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

/// Makes due what has waited until now: for its next attempt, or for the end of a claim that nobody kept. Answers whether
/// anything is due.
///
/// # Errors
/// When the database fails.
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

/// Error of an attempt that was not made because the secret that signs cannot be opened here.
pub const UNSIGNED: &str = "not sent: the service cannot decrypt the endpoint's signing secret";

/// What an attempt came to, as `service_webhook_delivery_attempt_total` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// The endpoint said yes.
    Success,
    /// It said something else.
    HttpError,
    /// It did not say it in time.
    Timeout,
    /// It was not reached, or broke off.
    TransportError,
    /// It was not asked: the secret that signs cannot be opened here. For whoever counts attempts nothing was reached.
    #[strum(serialize = "transport_error")]
    Unsigned,
}

impl Outcome {
    /// Every one.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// As metrics name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How an attempt went.
#[derive(Debug)]
pub struct AttemptResult {
    /// The delivery.
    pub id: DeliveryId,
    /// The claim under which it was made.
    pub claimed_until: Timestamp,
    /// What it came to.
    pub outcome: Outcome,
    /// What the endpoint answered.
    pub response_status: Option<i32>,
    /// How that answer's body began.
    pub response_excerpt: Option<String>,
    /// Why there was no answer.
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
}

impl AttemptResult {
    /// The same, without a word of anybody else's.
    #[must_use]
    pub fn without_words(&self) -> Self {
        Self { response_excerpt: None, error: None, ..*self }
    }
}

/// When attempts are made, and when an endpoint has had enough of them.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The pauses between attempts: there is one attempt more than there are pauses.
    pub pauses: Vec<Duration>,
    /// Deliveries in a row that end in the dead-letter state and disable their endpoint.
    pub disable_after: i64,
}

/// What became of some attempts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AttemptCounts {
    /// Deliveries that arrived.
    pub delivered: i64,
    /// Deliveries whose last attempt failed.
    pub dlq: i64,
}

/// Ends attempts of one endpoint, in the order in which they ended. An attempt whose claim ran out meanwhile changes
/// nothing. The endpoint's row is locked first, so that its failures in a row are counted one after the other; those that are
/// ours count for nothing.
///
/// # Errors
/// When the database fails.
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
    let pauses: Vec<_> = schedule.pauses.iter().map(Duration::as_secs_f64).collect();
    sqlx::query_as!(
        AttemptCounts,
        r#"with endpoint as materialized (
               select id, disabled_at is not null as disabled, consecutive_failures
               from webhook_endpoints where id = $1 for no key update
           ), attempt as (
               select * from unnest($2::uuid[], $3::timestamptz[], $4::boolean[], $5::int[], $6::text[], $7::text[], $8::bigint[],
                                    $11::boolean[])
                   with ordinality as a (id, claimed_until, success, response_status, response_excerpt, error, duration_ms,
                                         unsigned, place)
           ), ended as (
               update webhook_deliveries d
               set attempts = d.attempts + 1, due = false, updated_at = now(), last_response_status = a.response_status,
                   last_response_excerpt = a.response_excerpt, last_error = a.error, duration_ms = a.duration_ms,
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
    )
    .fetch_one(conn)
    .await
}

/// Deletes deliveries that are older than `age` and have ended (contract: retention 4), up to `limit`. Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from webhook_deliveries where id = any(array(
             select id from webhook_deliveries
             where id < uuid_v7_of(now() - make_interval(secs => $1)) and next_attempt_at is null order by id limit $2
             for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Lets what a lost worker had under way to an endpoint that is paused since wait with the rest.
///
/// # Errors
/// When the database fails.
pub async fn put_back_paused(conn: &mut PgConnection) -> sqlx::Result<u64> {
    let put_back = sqlx::query!(
        "update webhook_deliveries d set status = 'pending', updated_at = now()
         from webhook_endpoints e
         where e.id = d.endpoint_id and not e.active and e.disabled_at is null
           and d.status = 'in_flight' and d.next_attempt_at <= now()",
    )
    .execute(conn)
    .await?;
    Ok(put_back.rows_affected())
}

/// Fails what waits for an endpoint that is disabled, and what was lost on its way there: no attempt will be made. Answers
/// how many there were.
///
/// # Errors
/// When the database fails.
pub async fn give_up(conn: &mut PgConnection) -> sqlx::Result<i64> {
    // Endpoints are locked before their deliveries, as everywhere.
    sqlx::query_scalar!(
        r#"with disabled as materialized (
               select e.id, e.account_id from webhook_endpoints e
               where e.disabled_at is not null
                 and exists (select from webhook_deliveries d
                             where d.endpoint_id = e.id and d.status in ('pending', 'in_flight'))
               order by e.id for no key update
           ), given_up as (
               update webhook_deliveries d
               set status = 'failed', next_attempt_at = null, due = false, updated_at = now(),
                   last_error = 'the endpoint was disabled'
               from disabled e
               where d.endpoint_id = e.id and d.status in ('pending', 'in_flight')
                 and (d.status = 'pending' or d.next_attempt_at <= now())
               returning d.endpoint_id
           ), counted as (
               update webhook_endpoints e set failed = e.failed + g.count
               from (select endpoint_id, count(*) from given_up group by endpoint_id) g where e.id = g.endpoint_id
           )
           select count(*) as "count!" from given_up"#,
    )
    .fetch_one(conn)
    .await
}
