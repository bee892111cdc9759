//! Crypto orders (contract: billing 28 to 42). An order pays once for a period of a tier.
//!
//! An order ends once: the transaction that ends it locks its row first and then the row of the account. A later report
//! of a payment does not change the order, and flags it for staff.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, OrderId};
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::amounts::Amount;
use crate::area::ScheduledJob;

/// Asks the processor about orders that have been pending for long, and ends tiers whose paid period is over.
pub const SWEEP: ScheduledJob = ScheduledJob { name: "sweep_crypto_orders", period: 300 };

/// Orders that can be paid at a time.
pub const MAX_OPEN: i64 = 20;

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantArray, strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Status {
    Pending,
    Paid,
    Failed,
}

impl Status {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        <Self as strum::VariantArray>::VARIANTS.iter().copied().find(|status| status.name() == name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Reason {
    Ipn,
    /// Ended by staff.
    Expired,
    /// The processor sent no final notice.
    Swept,
}

impl Reason {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone)]
pub struct OrderRequest {
    pub product: Tier,
    pub price_cents: i32,
    pub price_currency: String,
    /// Currency of the payment, in lower case.
    pub pay_currency: String,
}

#[derive(Debug, Clone)]
pub struct Order {
    pub id: OrderId,
    pub account: AccountId,
    pub product: Tier,
    pub price_cents: i32,
    pub price_currency: String,
    pub pay_currency: String,
    /// `None` until the processor responded.
    pub payment_id: Option<String>,
    /// `None` until the processor responded.
    pub pay_address: Option<String>,
    /// `None` until the processor responded.
    pub pay_amount: Option<Amount>,
    pub status: Status,
    pub reason: Option<Reason>,
    pub paid_by: Option<String>,
    pub ended_at: Option<Timestamp>,
    pub paid_until: Option<Timestamp>,
    /// Reason why staff should check the order.
    pub flag: Option<String>,
    pub flagged_by: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

struct Row {
    id: OrderId,
    account_id: AccountId,
    product: Tier,
    price_cents: i32,
    price_currency: String,
    pay_currency: String,
    payment_id: Option<String>,
    pay_address: Option<String>,
    pay_amount: Option<String>,
    status: Status,
    reason: Option<Reason>,
    paid_by: Option<String>,
    ended_at: Option<Timestamp>,
    paid_until: Option<Timestamp>,
    flag: Option<String>,
    flagged_by: Option<String>,
    created_at: Timestamp,
    expires_at: Timestamp,
}

impl From<Row> for Order {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            account: row.account_id,
            product: row.product,
            price_cents: row.price_cents,
            price_currency: row.price_currency,
            pay_currency: row.pay_currency,
            payment_id: row.payment_id,
            pay_address: row.pay_address,
            pay_amount: row.pay_amount.as_deref().and_then(Amount::parse),
            status: row.status,
            reason: row.reason,
            paid_by: row.paid_by,
            ended_at: row.ended_at,
            paid_until: row.paid_until,
            flag: row.flag,
            flagged_by: row.flagged_by,
            created_at: row.created_at,
            expires_at: row.expires_at,
        }
    }
}

/// Selects the orders that match a condition.
macro_rules! orders {
    ($conn:expr, $condition:tt $(, $value:expr)* $(,)?) => {
        sqlx::query_as!(
            Row,
            r#"select id, account_id, product as "product: Tier", price_cents, price_currency, pay_currency, payment_id, pay_address,
                      pay_amount, status as "status: Status", reason as "reason: Reason", paid_by, ended_at, paid_until, flag, flagged_by, created_at, expires_at
               from crypto_orders "# + $condition,
            $($value),*
        )
    };
}

#[derive(Debug)]
pub enum OrderByKey {
    /// The response is repeated unchanged.
    Answered { id: OrderId, body: String },
    /// Another request is waiting for the processor.
    Asked,
    /// The other request did not finish, and the caller asks now.
    TakenOver(Box<Order>),
}

/// `None` when the key was never used. If another request has waited for the processor for longer than `patience`, the
/// caller takes over its order, which can be paid within `window` from now.
pub async fn of_key(
    conn: &mut PgConnection,
    account: AccountId,
    key: &str,
    patience: Duration,
    window: Duration,
) -> sqlx::Result<Option<OrderByKey>> {
    let found = sqlx::query!(
        "select id, answer from crypto_orders where account_id = $1 and idempotency_key = $2",
        account as _,
        key,
    );
    let Some(found) = found.fetch_optional(&mut *conn).await? else { return Ok(None) };
    if let Some(body) = found.answer {
        return Ok(Some(OrderByKey::Answered { id: found.id, body }));
    }
    let taken = sqlx::query!(
        "update crypto_orders set asked_at = now(), expires_at = now() + make_interval(secs => $3)
         where id = $1 and answer is null and asked_at < now() - make_interval(secs => $2)",
        found.id as _,
        patience.as_secs_f64(),
        window.as_secs_f64(),
    );
    if taken.execute(&mut *conn).await?.rows_affected() == 0 {
        return Ok(Some(OrderByKey::Asked));
    }
    let order = orders!(conn, "where id = $1", found.id as _).fetch_optional(conn).await?;
    Ok(order.map(|order| OrderByKey::TakenOver(Box::new(order.into()))))
}

#[derive(Debug)]
pub enum OrderOutcome {
    /// The caller asks the processor for a payment.
    New(Box<Order>),
    /// Another order has the key.
    KeyInUse,
    TooMany,
}

/// The caller must hold the lock on the account's row.
pub async fn begin(
    conn: &mut PgConnection,
    account: AccountId,
    key: Option<&str>,
    request: &OrderRequest,
    window: Duration,
) -> sqlx::Result<OrderOutcome> {
    let counts = sqlx::query!(
        r#"select count(*) filter (where status = 'pending' and expires_at > now()) as "open!",
                  coalesce(bool_or(idempotency_key = $2), false) as "is_used!"
           from crypto_orders where account_id = $1"#,
        account as _,
        key,
    );
    let counts = counts.fetch_one(&mut *conn).await?;
    if counts.is_used {
        return Ok(OrderOutcome::KeyInUse);
    }
    if counts.open >= MAX_OPEN {
        return Ok(OrderOutcome::TooMany);
    }
    let id = OrderId::generate();
    sqlx::query!(
        "insert into crypto_orders (id, account_id, idempotency_key, product, price_cents, price_currency, pay_currency, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8))",
        id as _,
        account as _,
        key,
        request.product as _,
        request.price_cents,
        request.price_currency,
        request.pay_currency,
        window.as_secs_f64(),
    )
    .execute(&mut *conn)
    .await?;
    let order = orders!(conn, "where id = $1", id as _).fetch_one(conn).await?;
    Ok(OrderOutcome::New(Box::new(order.into())))
}

#[derive(Debug, Clone)]
pub struct Payment {
    pub payment_id: String,
    pub pay_address: String,
    pub pay_amount: Amount,
    pub pay_currency: String,
}

/// Returns false when another request already stored a payment.
pub async fn answer(conn: &mut PgConnection, id: OrderId, payment: &Payment, answer: &str) -> sqlx::Result<bool> {
    let kept = sqlx::query!(
        "update crypto_orders set payment_id = $2, pay_address = $3, pay_amount = $4, pay_currency = $5, answer = $6
         where id = $1 and answer is null",
        id as _,
        payment.payment_id,
        payment.pay_address,
        payment.pay_amount.to_string(),
        payment.pay_currency,
        answer,
    );
    Ok(kept.execute(conn).await?.rows_affected() == 1)
}

/// The processor rejected the order; its key can be used again.
pub async fn forget(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<()> {
    sqlx::query!("delete from crypto_orders where id = $1 and answer is null and status = 'pending'", id as _)
        .execute(conn)
        .await?;
    Ok(())
}

pub async fn find(conn: &mut PgConnection, account: AccountId, id: OrderId) -> sqlx::Result<Option<Order>> {
    let order = orders!(conn, "where account_id = $1 and id = $2 and answer is not null", account as _, id as _);
    Ok(order.fetch_optional(conn).await?.map(Order::from))
}

pub async fn list(
    conn: &mut PgConnection,
    account: AccountId,
    after: Option<OrderId>,
    limit: i64,
) -> sqlx::Result<Vec<Order>> {
    let rows = orders!(
        conn,
        "where account_id = $1 and answer is not null and id < $2 order by id desc limit $3",
        account as _,
        after.map_or(Uuid::max(), |after| after.as_uuid()),
        limit,
    );
    Ok(rows.fetch_all(conn).await?.into_iter().map(Order::from).collect())
}

#[derive(Debug)]
pub struct Filter {
    pub status: Option<Status>,
    pub flagged: Option<bool>,
    pub before: Option<OrderId>,
    pub limit: i64,
}

pub async fn all(conn: &mut PgConnection, filter: &Filter) -> sqlx::Result<Vec<Order>> {
    let rows = orders!(
        conn,
        "where answer is not null and ($1::text is null or status = $1) and ($2::boolean is null or (flag is not null) = $2)
           and id < $3
         order by id desc limit $4",
        filter.status.map(Status::name),
        filter.flagged,
        filter.before.map_or(Uuid::max(), |before| before.as_uuid()),
        filter.limit,
    );
    Ok(rows.fetch_all(conn).await?.into_iter().map(Order::from).collect())
}

/// Locks the row of an order whose response was stored.
pub async fn lock(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<Option<Order>> {
    let order =
        orders!(conn, "where id = $1 and answer is not null for no key update", id as _).fetch_optional(conn).await?;
    Ok(order.map(Order::from))
}

/// Returns true when the payment window of an order has passed.
pub async fn is_overdue(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<bool> {
    let overdue =
        sqlx::query_scalar!(r#"select expires_at <= now() as "overdue!" from crypto_orders where id = $1"#, id as _,);
    Ok(overdue.fetch_optional(conn).await?.unwrap_or_default())
}

/// The `period` begins after the time the account has already paid for the same tier. The caller must hold the locks on
/// the order and on the account's row.
pub async fn pay(conn: &mut PgConnection, id: OrderId, payment: Option<&str>, period: Duration) -> sqlx::Result<()> {
    sqlx::query!(
        "update crypto_orders o
         set status = 'paid', reason = null, paid_by = $2, ended_at = now(),
             paid_until = greatest(now(), (select max(before.paid_until) from crypto_orders before
                                           where before.account_id = o.account_id and before.product = o.product
                                             and before.lapsed_at is null)) + make_interval(secs => $3)
         where id = $1",
        id as _,
        payment,
        period.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The caller must hold the lock on the order.
pub async fn fail(conn: &mut PgConnection, id: OrderId, reason: Reason) -> sqlx::Result<()> {
    sqlx::query!(
        "update crypto_orders set status = 'failed', reason = $2, ended_at = now() where id = $1",
        id as _,
        reason as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Flags because of other payments remain. The caller must hold the lock on the order.
pub async fn flag(conn: &mut PgConnection, id: OrderId, payment: &str, why: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into crypto_order_flags (order_id, payment_id, why) values ($1, $2, $3)
         on conflict (order_id, payment_id) do update set why = excluded.why, raised_at = excluded.raised_at",
        id as _,
        payment,
        why,
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!("update crypto_orders set flag = $3, flagged_by = $2 where id = $1", id as _, payment, why)
        .execute(conn)
        .await?;
    Ok(())
}

/// The order then shows the newest of its other flags, if there is one. The caller must hold the lock on the order.
pub async fn unflag(conn: &mut PgConnection, id: OrderId, payment: &str) -> sqlx::Result<()> {
    sqlx::query!("delete from crypto_order_flags where order_id = $1 and payment_id = $2", id as _, payment)
        .execute(&mut *conn)
        .await?;
    sqlx::query!(
        "update crypto_orders
         set (flag, flagged_by) = (select why, payment_id from crypto_order_flags
                                   where order_id = $1 order by raised_at desc, payment_id desc limit 1)
         where id = $1 and flagged_by = $2",
        id as _,
        payment,
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[derive(Debug)]
pub struct PaidOrder {
    pub id: OrderId,
    pub product: Tier,
}

/// The order that was paid last, of those whose period is not over.
pub async fn latest_unexpired(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<PaidOrder>> {
    sqlx::query_as!(
        PaidOrder,
        r#"select id, product as "product: Tier" from crypto_orders
           where account_id = $1 and status = 'paid' and lapsed_at is null and paid_until > now()
           order by ended_at desc, id desc limit 1"#,
        account as _,
    )
    .fetch_optional(conn)
    .await
}

/// Marks the order whose period has been over for longest as lapsed.
pub async fn take_lapsed(conn: &mut PgConnection) -> sqlx::Result<Option<(OrderId, AccountId)>> {
    let lapsed = sqlx::query!(
        "update crypto_orders set lapsed_at = now()
         where id = (select id from crypto_orders where lapsed_at is null and paid_until <= now()
                     order by paid_until limit 1 for no key update skip locked)
         returning id, account_id",
    );
    Ok(lapsed.fetch_optional(conn).await?.map(|order| (order.id, order.account_id)))
}

#[derive(Debug)]
pub struct StaleOrder {
    pub id: OrderId,
    pub payment_id: String,
}

/// Lists pending orders after the given one that are older than `age`, the oldest first.
pub async fn stale(
    conn: &mut PgConnection,
    age: Duration,
    after: Option<OrderId>,
    limit: i64,
) -> sqlx::Result<Vec<StaleOrder>> {
    sqlx::query_as!(
        StaleOrder,
        r#"select id, payment_id as "payment_id!" from crypto_orders
           where status = 'pending' and payment_id is not null and created_at < now() - make_interval(secs => $1) and id > $2
           order by id limit $3"#,
        age.as_secs_f64(),
        after.map_or(Uuid::nil(), |after| after.as_uuid()),
        limit,
    )
    .fetch_all(conn)
    .await
}

/// The request that asked the processor did not finish.
pub async fn purge_unanswered(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from crypto_orders where id = any(array(
             select id from crypto_orders
             where status = 'pending' and answer is null and asked_at < now() - interval '1 day' and created_at < now() - interval '1 day'
             order by created_at limit $1 for update skip locked))",
        limit,
    );
    Ok(purged.execute(conn).await?.rows_affected())
}
