//! Crypto orders (contract: billing 28 to 42). An order pays once for a period of a tier.
//!
//! An order ends once: the transaction that ends it locks its row first and then the row of the account. A later report
//! of a payment does not change the order, and flags it for staff.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::amounts::Amount;
use crate::accounts::Tier;
use crate::area::ScheduledJob;
use crate::ids::{AccountId, OrderId};
use crate::timestamp::Timestamp;

/// Job that asks the processor about orders that have been pending for long, and ends tiers whose paid period is over.
pub const SWEEP: ScheduledJob = ScheduledJob { name: "sweep_crypto_orders", period: 300 };

/// Maximum number of orders of an account that can be paid at a time.
pub const MOST_OPEN: i64 = 20;

/// State of an order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantArray, strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Status {
    /// The order can be paid.
    Pending,
    /// The order was paid.
    Paid,
    /// The order was not paid.
    Failed,
}

impl Status {
    /// Names of all states in the contract.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// Name of the state in the contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        <Self as strum::VariantArray>::VARIANTS.iter().copied().find(|status| status.name() == name)
    }
}

/// Reason why an order failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Reason {
    Ipn,
    /// The payment window passed and staff ended the order.
    Expired,
    /// The order was pending for too long without a final notice from the processor.
    Swept,
}

impl Reason {
    /// Names of all reasons in the contract.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// Name of the reason in the contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Values of a new order.
#[derive(Debug, Clone)]
pub struct OrderRequest {
    pub product: Tier,
    pub price_cents: i32,
    pub price_currency: String,
    /// Currency of the payment, in lower case.
    pub pay_currency: String,
}

/// Order of a customer.
#[derive(Debug, Clone)]
pub struct Order {
    pub id: OrderId,
    pub account: AccountId,
    pub product: Tier,
    pub price_cents: i32,
    pub price_currency: String,
    pub pay_currency: String,
    /// Id of the payment at the processor; `None` until the processor responded.
    pub payment_id: Option<String>,
    /// Address the payment goes to; `None` until the processor responded.
    pub pay_address: Option<String>,
    /// Amount to pay; `None` until the processor responded.
    pub pay_amount: Option<Amount>,
    /// State of the order.
    pub status: Status,
    /// Reason why the order failed.
    pub reason: Option<Reason>,
    /// Payment that paid the order.
    pub paid_by: Option<String>,
    /// Time the order was paid or failed.
    pub ended_at: Option<Timestamp>,
    pub paid_until: Option<Timestamp>,
    /// Reason why staff should check the order; `None` when no check is needed.
    pub flag: Option<String>,
    /// Payment that is the reason for the flag.
    pub flagged_by: Option<String>,
    /// Time the order was created.
    pub created_at: Timestamp,
    /// End of the payment window.
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

/// Result of looking up an account's idempotency key.
#[derive(Debug)]
pub enum OrderByKey {
    /// The order exists, and its response is repeated unchanged.
    Answered {
        id: OrderId,
        body: String,
    },
    /// Another request is waiting for the processor.
    Asked,
    /// The request that asked the processor did not finish, and the caller asks now.
    TakenOver(Box<Order>),
}

/// Looks up the account's idempotency key; `None` when it was never used. If another request has waited for the
/// processor for longer than `patience`, the caller takes over its order, which can be paid within `window` from now.
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

/// Result of creating an order.
#[derive(Debug)]
pub enum OrderOutcome {
    /// The order was created, and the caller asks the processor for a payment.
    New(Box<Order>),
    /// Another order has the key.
    KeyInUse,
    /// The account has [`MOST_OPEN`] orders that can be paid.
    TooMany,
}

/// Inserts an order that can be paid within `window`. The caller must hold the lock on the account's row.
pub async fn begin(
    conn: &mut PgConnection,
    account: AccountId,
    key: Option<&str>,
    request: &OrderRequest,
    window: Duration,
) -> sqlx::Result<OrderOutcome> {
    let standing = sqlx::query!(
        r#"select count(*) filter (where status = 'pending' and expires_at > now()) as "open!",
                  coalesce(bool_or(idempotency_key = $2), false) as "is_used!"
           from crypto_orders where account_id = $1"#,
        account as _,
        key,
    );
    let standing = standing.fetch_one(&mut *conn).await?;
    if standing.is_used {
        return Ok(OrderOutcome::KeyInUse);
    }
    if standing.open >= MOST_OPEN {
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

/// Payment that the processor created for an order.
#[derive(Debug, Clone)]
pub struct Payment {
    pub payment_id: String,
    pub pay_address: String,
    pub pay_amount: Amount,
    pub pay_currency: String,
}

/// Stores the payment of an order and the response to its buyer. Returns false when another request already stored one.
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

/// Deletes an order that the processor rejected, so that its key can be used again.
pub async fn forget(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<()> {
    sqlx::query!("delete from crypto_orders where id = $1 and answer is null and status = 'pending'", id as _)
        .execute(conn)
        .await?;
    Ok(())
}

/// Returns the account's order.
pub async fn find(conn: &mut PgConnection, account: AccountId, id: OrderId) -> sqlx::Result<Option<Order>> {
    let order = orders!(conn, "where account_id = $1 and id = $2 and answer is not null", account as _, id as _);
    Ok(order.fetch_optional(conn).await?.map(Order::from))
}

/// Lists the account's orders after the given one, the newest first.
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

/// Filter of a list of orders for staff.
#[derive(Debug)]
pub struct Filter {
    pub status: Option<Status>,
    /// Selects orders with a flag (true) or without one (false).
    pub flagged: Option<bool>,
    /// Selects orders that are older than this one.
    pub before: Option<OrderId>,
    pub limit: i64,
}

/// Lists orders of all accounts, the newest first.
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

/// Returns an order whose response was stored, and locks its row until the transaction ends.
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

/// Ends an order as paid by this payment, for a `period` that begins after the time the account has already paid for
/// the same tier. The caller must hold the locks on the order and on the account's row.
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

/// Ends an order as failed. The caller must hold the lock on the order.
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

/// Flags an order for staff because of this payment. Flags because of its other payments remain. The caller must hold
/// the lock on the order.
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

/// Removes the flag that this payment raised. The order then shows the newest of its other flags, if there is one. The
/// caller must hold the lock on the order.
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

/// Paid order and its tier.
#[derive(Debug)]
pub struct PaidOrder {
    pub id: OrderId,
    pub product: Tier,
}

/// Returns the account's order that was paid last, of those whose period is not over.
pub async fn newest_lasting(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<PaidOrder>> {
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

/// Marks the order whose period has been over for longest as lapsed. Returns the order and its account.
pub async fn take_lapsed(conn: &mut PgConnection) -> sqlx::Result<Option<(OrderId, AccountId)>> {
    let lapsed = sqlx::query!(
        "update crypto_orders set lapsed_at = now()
         where id = (select id from crypto_orders where lapsed_at is null and paid_until <= now()
                     order by paid_until limit 1 for no key update skip locked)
         returning id, account_id",
    );
    Ok(lapsed.fetch_optional(conn).await?.map(|order| (order.id, order.account_id)))
}

/// Order that has been pending for long.
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

/// Deletes up to `limit` orders without a response: the request that asked the processor did not finish. Returns the
/// number of deleted orders.
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
