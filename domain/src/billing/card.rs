//! Card payments (contract: billing 6, 16 to 25): the provider's customers, subscriptions, mails about them, and
//! idempotency keys.
//!
//! The provider can deliver an event more than once, concurrently and in any order. A transaction inserts the event's
//! id first, which another delivery of the same event waits for. It then locks the row of the customer, and after it
//! the row of the account.

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;

use super::card_events::{Event, Subscription};
use crate::emails::Template;

const KEY_CHARS: usize = 255;
/// The provider remembers a key at least this long.
const KEY_HOURS: i32 = 24;
/// The provider has forgotten the key by then.
const KEY_DAYS: i32 = 30;

/// Returns false when the event was recorded before.
pub async fn note_event(conn: &mut PgConnection, event: &Event) -> sqlx::Result<bool> {
    let noted = sqlx::query!(
        "insert into card_events (id, type, created_at) values ($1, $2, $3) on conflict do nothing",
        event.id,
        event.kind,
        event.created as _,
    )
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() == 1)
}

/// Returns the customer's account, if it is known.
pub async fn lock_customer(conn: &mut PgConnection, customer: &str) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!(
        r#"insert into card_customers (id) values ($1)
           on conflict (id) do update set id = excluded.id returning account_id as "account_id: AccountId""#,
        customer,
    )
    .fetch_one(conn)
    .await
}

/// Does nothing if the customer has an account.
pub async fn bind(conn: &mut PgConnection, customer: &str, account: AccountId, at: Timestamp) -> sqlx::Result<()> {
    sqlx::query!(
        "update card_customers set account_id = $2, bound_at = $3 where id = $1 and account_id is null",
        customer,
        account as _,
        at as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn subscriber(conn: &mut PgConnection, subscription: &str) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!(
        r#"select account_id as "account_id: AccountId" from card_subscriptions where id = $1"#,
        subscription
    )
    .fetch_optional(conn)
    .await
}

/// Returns the customer that an account pays as: that of its newest subscription, or otherwise the one assigned last.
pub async fn customer_of(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "select c.id from card_customers c
         where c.account_id = $1
         order by (select max(s.started_at) from card_subscriptions s where s.customer = c.id and not s.ended) desc nulls last,
                  c.bound_at desc, c.id limit 1",
        account as _,
    )
    .fetch_optional(conn)
    .await
}

/// Order of events with the same timestamp (in seconds).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOrder {
    /// Checkout, which shows only that the subscription exists.
    Checkout,
    Created,
    Updated,
    Deleted,
}

/// Does nothing if a later event has stored a state or the subscription has ended, except that it stores values that
/// were not known (contract: billing 17).
pub async fn note_subscription(
    conn: &mut PgConnection,
    account: AccountId,
    state: &Subscription,
    at: Timestamp,
    rank: EventOrder,
) -> sqlx::Result<()> {
    let noted = sqlx::query!(
        "insert into card_subscriptions as s (id, account_id, customer, tier, status, current_period_end, cancel_at_period_end,
                                                started_at, told_at, told_rank, ended)
           values ($1, $2, $3, $4, $5, $6, $7, coalesce($8::timestamptz, $9), $9::timestamptz, $10::int2, $10 = 3)
           on conflict (id) do update
           set customer = coalesce(s.customer, excluded.customer), tier = coalesce(excluded.tier, s.tier),
               status = excluded.status, current_period_end = coalesce(excluded.current_period_end, s.current_period_end),
               cancel_at_period_end = excluded.cancel_at_period_end, started_at = coalesce($8, s.started_at),
               told_at = greatest(s.told_at, excluded.told_at),
               told_rank = case when s.told_at = excluded.told_at then greatest(s.told_rank, excluded.told_rank)
                                else excluded.told_rank end,
               ended = excluded.ended
           where not s.ended
             and (excluded.ended or s.told_at < excluded.told_at
                  or s.told_at = excluded.told_at and (excluded.told_rank = 0 or s.told_rank <= excluded.told_rank))",
        state.id,
        account as _,
        state.customer,
        state.tier.map(Tier::name),
        state.status,
        state.current_period_end as _,
        state.cancel_at_period_end,
        state.started_at as _,
        at as _,
        rank as i16,
    )
    .execute(&mut *conn)
    .await?;
    if noted.rows_affected() == 0 {
        sqlx::query!(
            "update card_subscriptions
             set customer = coalesce(customer, $2), tier = coalesce(tier, $3), current_period_end = coalesce(current_period_end, $4),
                 started_at = coalesce($5, started_at)
             where id = $1",
            state.id,
            state.customer,
            state.tier.map(Tier::name),
            state.current_period_end as _,
            state.started_at as _,
        )
        .execute(conn)
        .await?;
    }
    Ok(())
}

/// Does nothing if a later event decided it or the subscription has ended. Later events that do not decide it have no
/// effect here (contract: billing 17).
pub async fn note_decision(
    conn: &mut PgConnection,
    subscription: &str,
    gives: bool,
    at: Timestamp,
    rank: EventOrder,
) -> sqlx::Result<bool> {
    let noted = sqlx::query!(
        "update card_subscriptions
         set gives = $4, decided_at = $2, decided_rank = case when decided_at = $2 then greatest(decided_rank, $3) else $3 end
         where id = $1 and not ended
           and (decided_at is null or decided_at < $2 or decided_at = $2 and ($3 = 0 or decided_rank <= $3))",
        subscription,
        at as _,
        rank as i16,
        gives,
    )
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() == 1)
}

#[derive(Debug, PartialEq, Eq)]
pub struct TierSubscription {
    pub id: String,
    pub tier: Tier,
}

pub async fn given_by(conn: &mut PgConnection, subscription: &str) -> sqlx::Result<Option<Tier>> {
    let given = sqlx::query_scalar!(
        r#"select tier as "tier!: Tier" from card_subscriptions where id = $1 and gives and not ended and tier is not null"#,
        subscription,
    );
    given.fetch_optional(conn).await
}

/// Returns the newest of the account's subscriptions that give their tier.
pub async fn giver(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<TierSubscription>> {
    sqlx::query_as!(
        TierSubscription,
        r#"select id, tier as "tier!: Tier" from card_subscriptions
           where account_id = $1 and gives and not ended and tier is not null order by started_at desc, id desc limit 1"#,
        account as _,
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug)]
pub struct OwnedSubscription {
    /// Status in the provider's terms.
    pub status: String,
    pub current_period_end: Option<Timestamp>,
    /// True when the subscription ends with the current period.
    pub cancel_at_period_end: bool,
}

/// The newest active one, or otherwise the newest that has ended.
pub async fn shown(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<OwnedSubscription>> {
    sqlx::query_as!(
        OwnedSubscription,
        "select status, current_period_end, cancel_at_period_end from card_subscriptions
         where account_id = $1
         order by not ended and gives desc, started_at desc, id desc limit 1",
        account as _,
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug)]
pub struct CardNotice<'a> {
    pub template: Template,
    /// Key that distinguishes the mail from others with the same template.
    pub about: String,
    pub customer: Option<&'a str>,
    pub details: Value,
}

/// Without an account, the mail waits for [`found`]. Returns false when it was recorded before.
pub async fn note_notice(
    conn: &mut PgConnection,
    account: Option<AccountId>,
    notice: &CardNotice<'_>,
) -> sqlx::Result<bool> {
    let noted = sqlx::query!(
        "insert into card_notices (template, about, customer, account_id, details) values ($1, $2, $3, $4, $5)
         on conflict do nothing",
        notice.template.name(),
        notice.about,
        notice.customer,
        account as _,
        notice.details,
    )
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() == 1)
}

#[derive(Debug)]
pub struct PendingNotice {
    pub template: Template,
    pub details: Value,
}

/// Each waiting mail is returned once.
pub async fn found(conn: &mut PgConnection, customer: &str, account: AccountId) -> sqlx::Result<Vec<PendingNotice>> {
    sqlx::query_as!(
        PendingNotice,
        r#"update card_notices set account_id = $2 where customer = $1 and account_id is null
           returning template as "template: _", details"#,
        customer,
        account as _,
    )
    .fetch_all(conn)
    .await
}

#[derive(Debug)]
pub struct SentKey {
    pub key: String,
    /// Payer of the first request: a customer or an e-mail address.
    pub payer: String,
    /// True when the provider still remembers its response.
    pub is_remembered: bool,
}

/// The same for each repetition (contract: billing 6). All keys belong to one account at the provider, so a key that
/// another account has used or could use gets the account's id as a prefix.
pub async fn sent_key(conn: &mut PgConnection, account: AccountId, key: &str, payer: &str) -> sqlx::Result<SentKey> {
    if !key.starts_with(AccountId::PREFIX)
        && let Some(sent) = claim_key(&mut *conn, account, key, payer).await?
    {
        return Ok(sent);
    }
    let own = format!("{account}:{key}");
    let own = if own.len() > KEY_CHARS { format!("{account}:{}", hex::encode(Sha256::digest(key))) } else { own };
    claim_key(conn, account, &own, payer).await?.ok_or(sqlx::Error::RowNotFound)
}

/// Returns `None` when the key belongs to another account.
async fn claim_key(
    conn: &mut PgConnection,
    account: AccountId,
    key: &str,
    payer: &str,
) -> sqlx::Result<Option<SentKey>> {
    let claimed = sqlx::query!(
        r#"with claimed as (
               insert into card_checkout_keys (sent_key, account_id, payer) values ($1, $2, $3)
               on conflict (sent_key) do update set sent_key = excluded.sent_key
               returning account_id, payer, created_at
           )
           select payer as "payer!", created_at < now() and created_at > now() - make_interval(hours => $4) as "is_remembered!"
           from claimed where account_id = $2"#,
        key,
        account as _,
        payer,
        KEY_HOURS,
    )
    .fetch_optional(conn)
    .await?;
    Ok(claimed.map(|row| SentKey { key: key.to_owned(), payer: row.payer, is_remembered: row.is_remembered }))
}

pub async fn purge_keys(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from card_checkout_keys where sent_key = any(array(
             select sent_key from card_checkout_keys where created_at < now() - make_interval(days => $1)
             order by created_at limit $2 for update skip locked))",
        KEY_DAYS,
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
