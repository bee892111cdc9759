//! Crypto orders (contract: billing 28 to 42): a tier that is paid for once, and lasts for a period.
//!
//! An order ends once: whoever ends it holds its row, and then the account's. What comes later changes nothing, and is flagged.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::amounts::Amount;
use crate::accounts::Tier;
use crate::area::ScheduledJob;
use crate::ids::{AccountId, OrderId};
use crate::timestamp::Timestamp;

/// Asks the processor about orders that have waited for long, and ends what was paid for a period that is over.
pub const SWEEP: ScheduledJob = ScheduledJob { name: "sweep_crypto_orders", period: 300 };

/// Orders of an account that may be paid at a time.
pub const MOST_OPEN: i64 = 20;

/// How an order stands.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantArray, strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Status {
    /// It may be paid.
    Pending,
    /// It was.
    Paid,
    /// It was not.
    Failed,
}

impl Status {
    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        <Self as strum::VariantArray>::VARIANTS.iter().copied().find(|status| status.name() == name)
    }
}

/// Why an order failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Reason {
    /// The processor said so.
    Ipn,
    /// The window to pay it was over, and staff ended it.
    Expired,
    /// Nobody heard of it for long.
    Swept,
}

impl Reason {
    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What is bought.
#[derive(Debug, Clone)]
pub struct OrderRequest {
    /// For a period.
    pub product: Tier,
    /// Hundredths of its currency.
    pub price_cents: i32,
    /// In lower case.
    pub price_currency: String,
    /// In lower case.
    pub pay_currency: String,
}

/// An order.
#[derive(Debug, Clone)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// Whose it is.
    pub account: AccountId,
    /// What it buys, for a period.
    pub product: Tier,
    /// What that costs, in hundredths of
    pub price_cents: i32,
    /// this.
    pub price_currency: String,
    /// In what it is paid.
    pub pay_currency: String,
    /// What the processor calls its payment; `None` before it was asked, as what follows is.
    pub payment_id: Option<String>,
    /// Where it is paid,
    pub pay_address: Option<String>,
    /// and how much.
    pub pay_amount: Option<Amount>,
    /// How it stands.
    pub status: Status,
    /// Why it failed.
    pub reason: Option<Reason>,
    /// By which payment it was paid.
    pub paid_by: Option<String>,
    /// When it was paid or failed.
    pub ended_at: Option<Timestamp>,
    /// Until when what was paid lasts.
    pub paid_until: Option<Timestamp>,
    /// What staff should look at first,
    pub flag: Option<String>,
    /// and which payment is the reason.
    pub flagged_by: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it should be paid.
    pub expires_at: Timestamp,
}

/// A row, as it is read.
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

/// The orders of this condition, which are read as they stand.
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

/// What there is of an account's key.
#[derive(Debug)]
pub enum OrderByKey {
    /// What was answered of this order, word for word.
    Answered {
        /// Which.
        id: OrderId,
        /// The answer's body.
        body: String,
    },
    /// Somebody asks the processor right now.
    Asked,
    /// Whoever asked did not live to hear the answer, and the caller asks now.
    TakenOver(Box<Order>),
}

/// What there is of the account's key; `None` when it was never used. Who asks the processor is given `patience`; what is taken over
/// can be paid within `window` from now.
///
/// # Errors
/// When the database fails.
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

/// What came of the wish for an order.
#[derive(Debug)]
pub enum OrderOutcome {
    /// The caller asks the processor about this one.
    New(Box<Order>),
    /// The key is another order's.
    KeyInUse,
    /// The account has [`MOST_OPEN`] that it can pay.
    TooMany,
}

/// Writes an order that can be paid within `window`. The caller holds the account's row.
///
/// # Errors
/// When the database fails.
pub async fn begin(
    conn: &mut PgConnection,
    account: AccountId,
    key: Option<&str>,
    wanted: &OrderRequest,
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
        wanted.product as _,
        wanted.price_cents,
        wanted.price_currency,
        wanted.pay_currency,
        window.as_secs_f64(),
    )
    .execute(&mut *conn)
    .await?;
    let order = orders!(conn, "where id = $1", id as _).fetch_one(conn).await?;
    Ok(OrderOutcome::New(Box::new(order.into())))
}

/// What the processor made of an order.
#[derive(Debug, Clone)]
pub struct Payment {
    /// What it calls it.
    pub payment_id: String,
    /// Where it is paid,
    pub pay_address: String,
    /// how much,
    pub pay_amount: Amount,
    /// and of what.
    pub pay_currency: String,
}

/// Keeps what the processor said of an order, and what its buyer is answered. `false` when somebody else was faster.
///
/// # Errors
/// When the database fails.
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

/// Forgets an order that the processor did not take, so that its key is free again.
///
/// # Errors
/// When the database fails.
pub async fn forget(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<()> {
    sqlx::query!("delete from crypto_orders where id = $1 and answer is null and status = 'pending'", id as _)
        .execute(conn)
        .await?;
    Ok(())
}

/// The account's order.
///
/// # Errors
/// When the database fails.
pub async fn find(conn: &mut PgConnection, account: AccountId, id: OrderId) -> sqlx::Result<Option<Order>> {
    let order = orders!(conn, "where account_id = $1 and id = $2 and answer is not null", account as _, id as _);
    Ok(order.fetch_optional(conn).await?.map(Order::from))
}

/// The account's orders after this one, the newest first.
///
/// # Errors
/// When the database fails.
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

/// Which orders staff look for.
#[derive(Debug)]
pub struct Filter {
    /// Only those that stand so.
    pub status: Option<Status>,
    /// Only those that should be looked at, or only others.
    pub flagged: Option<bool>,
    /// Only those that are older than this one.
    pub before: Option<OrderId>,
    /// At most so many.
    pub limit: i64,
}

/// Everybody's orders, the newest first.
///
/// # Errors
/// When the database fails.
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

/// The order that somebody was told of, which nobody else changes until the transaction ends.
///
/// # Errors
/// When the database fails.
pub async fn lock(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<Option<Order>> {
    let order =
        orders!(conn, "where id = $1 and answer is not null for no key update", id as _).fetch_optional(conn).await?;
    Ok(order.map(Order::from))
}

/// Whether the window to pay an order is over.
///
/// # Errors
/// When the database fails.
pub async fn is_overdue(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<bool> {
    let overdue =
        sqlx::query_scalar!(r#"select expires_at <= now() as "overdue!" from crypto_orders where id = $1"#, id as _,);
    Ok(overdue.fetch_optional(conn).await?.unwrap_or_default())
}

/// Ends an order as paid, by this payment: for a `period`, which follows what the account has paid for the same tier. The caller
/// holds the order, and the account's row.
///
/// # Errors
/// When the database fails.
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

/// Ends an order as failed. The caller holds it.
///
/// # Errors
/// When the database fails.
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

/// Has staff look at an order, because of this payment; what others of its payments are looked at for stays. The caller holds the
/// order.
///
/// # Errors
/// When the database fails.
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

/// Nobody has to look at an order because of this payment any more: the order shows the newest of what others raised, if there is any.
/// The caller holds the order.
///
/// # Errors
/// When the database fails.
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

/// An order that is paid, and what for.
#[derive(Debug)]
pub struct PaidOrder {
    /// Which.
    pub id: OrderId,
    /// What it pays for.
    pub product: Tier,
}

/// Of the account's orders whose period is not over, the one that was paid last.
///
/// # Errors
/// When the database fails.
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

/// Marks an order as over whose period is, the one that has been for longest, and answers it and whose it is.
///
/// # Errors
/// When the database fails.
pub async fn take_lapsed(conn: &mut PgConnection) -> sqlx::Result<Option<(OrderId, AccountId)>> {
    let lapsed = sqlx::query!(
        "update crypto_orders set lapsed_at = now()
         where id = (select id from crypto_orders where lapsed_at is null and paid_until <= now()
                     order by paid_until limit 1 for no key update skip locked)
         returning id, account_id",
    );
    Ok(lapsed.fetch_optional(conn).await?.map(|order| (order.id, order.account_id)))
}

/// An order that has waited for long.
#[derive(Debug)]
pub struct StaleOrder {
    /// Which.
    pub id: OrderId,
    /// What the processor calls its payment.
    pub payment_id: String,
}

/// Orders after this one that wait and are older than `age`, the oldest first.
///
/// # Errors
/// When the database fails.
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

/// Deletes orders that nobody knows of, up to `limit`: whoever asked the processor about one did not live to tell. Answers how many.
///
/// # Errors
/// When the database fails.
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
