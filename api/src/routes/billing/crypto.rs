//! Buying a tier with a crypto currency (contract: billing 28 to 34).

use std::time::{Duration, Instant};

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use kitfleet_domain::account_share;
use kitfleet_domain::accounts::{self, Tier};
use kitfleet_domain::billing::CURRENCY;
use kitfleet_domain::billing::amounts::Amount;
use kitfleet_domain::billing::orders::{self, Begun, OfKey, Order, Payment, Reason, Status, Wanted};
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::ids::{AccountId, OrderId};
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_domain::validation::{Invalid, Rules};
use kitfleet_payments::Price;
use serde::{Deserialize, Serialize};
use sqlx::Connection as _;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::paid_tier;
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::idempotency::{CRYPTO_PURCHASES, Given, IdempotencyKey};
use crate::http::json::Unchecked;
use crate::http::kinds;
use crate::http::lists::{self, Listed, Page, Paging, Query};
use crate::http::openapi::{
    AnotherOrder, Body, Database, InvalidQuery, NoOrder, Paying, RateLimited, Restricted, named, one_of, or_null,
};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

/// How long a request to the processor waits for others of its account, and of the process.
const PATIENCE: Duration = Duration::from_secs(20);
/// How much longer than the processor may take somebody else is given who has asked it about the same key.
const SPARE: Duration = Duration::from_secs(25);
/// How often whoever has the same key looks for the answer of the first.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// In what orders are paid unless their buyers say otherwise.
const PAY_CURRENCY: &str = "btc";

pub fn routes() -> Routes {
    Routes::new()
        .allow(OWN_ACCOUNT, routes!(check_out))
        .allow(OWN_ACCOUNT, routes!(list))
        .allow(OWN_ACCOUNT, routes!(get))
        .never_stored()
}

/// What is bought
#[derive(Deserialize, ToSchema)]
#[schema(as = CreateCryptoOrder, example = json!({"product": "api_builder", "pay_currency": "btc"}))]
struct NewOrder {
    /// A tier that has a price
    #[schema(schema_with = paid_tier)]
    product: String,
    /// In what its price is: `usd`
    #[schema(min_length = 1, max_length = 20)]
    price_currency: Option<String>,
    /// In what it is to be paid, as the processor calls it; `btc` unless another is named
    #[schema(min_length = 1, max_length = 20)]
    pay_currency: Option<String>,
}

/// A tier that is paid for once, for a period
#[derive(Serialize, ToSchema)]
#[schema(as = CryptoOrder, example = json!({
    "id": "ord_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "status": "pending", "product": "api_builder", "price_cents": 9900,
    "price_currency": "usd", "pay_address": "bc1qxy2kgdygjrsqtzq2n0yrf2493p83kkfjhx0wlh", "pay_amount": 0.001_042, "pay_currency": "btc",
    "payment_id": "5745459419", "expires_at": "2026-11-20T19:05:00.123Z", "created_at": "2026-11-20T18:05:00.123Z",
    "paid_at": null, "paid_until": null, "failed_at": null, "reason": null,
}))]
pub struct CryptoOrder {
    /// Its id
    #[schema(value_type = String)]
    id: OrderId,
    /// Whether it is paid
    #[schema(schema_with = status)]
    status: &'static str,
    /// What it buys
    #[schema(schema_with = paid_tier)]
    product: &'static str,
    /// What that costs
    price_cents: i32,
    /// In hundredths of this
    price_currency: String,
    /// Where it is paid
    #[schema(required = true)]
    pay_address: Option<String>,
    /// How much
    #[schema(value_type = Option<f64>, required = true)]
    pay_amount: Option<Amount>,
    /// Of what
    pay_currency: String,
    /// What the processor calls the payment
    #[schema(required = true)]
    payment_id: Option<String>,
    /// Until when it should be paid
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// When it was made
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it was paid
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    paid_at: Option<Timestamp>,
    /// Until when what was paid lasts
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    paid_until: Option<Timestamp>,
    /// When it failed
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    failed_at: Option<Timestamp>,
    /// Why
    #[schema(schema_with = reason, required = true)]
    reason: Option<&'static str>,
}

fn status() -> RefOr<Schema> {
    named("CryptoOrderStatus", one_of(Status::NAMES, None))
}

fn reason() -> RefOr<Schema> {
    or_null(named("CryptoOrderFailedReason", one_of(Reason::NAMES, None)))
}

impl From<Order> for CryptoOrder {
    fn from(order: Order) -> Self {
        let ended = |status| order.ended_at.filter(|_| order.status == status);
        Self {
            id: order.id,
            status: order.status.name(),
            product: order.product.name(),
            price_cents: order.price_cents,
            price_currency: order.price_currency,
            paid_at: ended(Status::Paid),
            paid_until: order.paid_until,
            failed_at: ended(Status::Failed),
            reason: order.reason.map(Reason::name),
            pay_address: order.pay_address,
            pay_amount: order.pay_amount,
            pay_currency: order.pay_currency,
            payment_id: order.payment_id,
            expires_at: order.expires_at,
            created_at: order.created_at,
        }
    }
}

/// Buy a tier with a crypto currency
///
/// Answers where to pay, and how much. The account is moved when the processor says that it was paid, and back when the period is over.
/// With an `Idempotency-Key` the same request can be sent again for ever: it makes no second order and is answered word for word
/// as the first was, whatever its body says, with `Idempotent-Replayed: 1`.
#[utoipa::path(
    post, path = "/v1/billing/crypto-checkout", tag = "Billing", operation_id = "createCryptoOrder",
    params(IdempotencyKey), request_body = NewOrder,
    responses(
        (status = 201, description = "The order can be paid", body = CryptoOrder, headers(
            ("Idempotent-Replayed" = Option<String>, description = "`1` where the answer was given before"),
        )),
        Restricted, Body, AnotherOrder, RateLimited, Paying,
    ),
)]
async fn check_out(
    caller: Caller,
    State(app): State<App>,
    IdempotencyKey(key): IdempotencyKey,
    // Whatever is sent along with a key that was used is not looked at.
    body: Result<Unchecked<NewOrder>>,
) -> Result<Response> {
    let account = caller.account_id;
    app.rate_limits.check(Bucket::Billing, account.to_string().as_str()).await?;
    if let Some(key) = &key
        && let Some(answer) = answered(&app, account, key).await?
    {
        return Ok(answer);
    }
    let body = body?.typed(|body| wanted(&app, body).map(drop))?;
    app.crypto.require()?;
    let wanted = wanted(&app, &body)?;
    match begin(&app, account, key.as_deref(), &wanted).await? {
        Some(order) => place(&app, order).await,
        // Another one of the same key was faster.
        None => answered(&app, account, key.as_deref().unwrap_or_default()).await?.ok_or_else(in_the_making),
    }
}

/// What there is of a key that was used, which is waited for while somebody else asks the processor; `None` when nothing is.
async fn answered(app: &App, account: AccountId, key: &str) -> Result<Option<Response>> {
    let config = app.crypto.config();
    let patience = config.timeout + SPARE;
    let given_up_at = Instant::now() + patience;
    loop {
        let mut conn = app.db.acquire().await?;
        let known = orders::of_key(&mut conn, account, key, patience, config.payment_window).await?;
        drop(conn);
        match known {
            None => return Ok(None),
            Some(OfKey::Answered { id, body }) => return Ok(Some(replayed(id, body))),
            Some(OfKey::TakenOver(order)) => return place(app, *order).await.map(Some),
            Some(OfKey::Asked) if Instant::now() > given_up_at => return Err(in_the_making()),
            Some(OfKey::Asked) => {
                account_share::release();
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
}

fn in_the_making() -> Problem {
    Problem::new(&kinds::CONFLICT, "the order of this key is still being made")
}

/// Writes the order before anybody is asked about it. `None` when another one of the same key was faster.
async fn begin(app: &App, account: AccountId, key: Option<&str>, wanted: &Wanted) -> Result<Option<Order>> {
    let mut conn = app.db.acquire().await?;
    let mut tx = conn.begin().await?;
    accounts::lock(&mut tx, account).await?.ok_or_else(Problem::account_gone)?;
    match orders::begin(&mut tx, account, key, wanted, app.crypto.config().payment_window).await? {
        Begun::New(order) => {
            tx.commit().await?;
            Ok(Some(*order))
        }
        Begun::KeyInUse => Ok(None),
        Begun::TooMany => {
            let most = orders::MOST_OPEN;
            Err(Problem::new(
                &kinds::CONFLICT,
                format!("the account has {most} orders that it can pay; pay one, or wait"),
            ))
        }
    }
}

/// Has the processor take an order. One that it does not take is forgotten, so that the same request can be sent again.
async fn place(app: &App, order: Order) -> Result<Response> {
    let id = order.id;
    let asked = ask(app, &order).await;
    let mut conn = app.db.acquire().await?;
    let payment = match asked {
        Ok(payment) => payment,
        Err(problem) => {
            orders::forget(&mut conn, id).await?;
            return Err(problem);
        }
    };
    let placed = Order {
        payment_id: Some(payment.payment_id.clone()),
        pay_address: Some(payment.pay_address.clone()),
        pay_amount: Some(payment.pay_amount),
        pay_currency: payment.pay_currency.clone(),
        ..order
    };
    let given = Given::of(StatusCode::CREATED, &CryptoOrder::from(placed))?;
    if !orders::answer(&mut conn, id, &payment, &given.body).await? {
        return Err(Problem::new(&kinds::CONFLICT, "the order was given up meanwhile"));
    }
    Ok(([(LOCATION, location(id))], given).into_response())
}

async fn ask(app: &App, order: &Order) -> Result<Payment> {
    // No connection to the database is held while the processor is asked.
    let _turn = app.payments.take(order.account, PATIENCE).await?;
    let price = Price {
        order: order.id,
        description: &format!("Kitfleet {}", order.product.name()),
        amount: Amount::of_cents(order.price_cents),
        currency: &order.price_currency,
        pay_currency: &order.pay_currency,
        callback_url: &format!("{}/v1/billing/crypto-webhook", app.config.base_url),
    };
    Ok(app.crypto.ask_for(&price).await?)
}

fn replayed(id: OrderId, body: String) -> Response {
    let given = Given { status: StatusCode::CREATED, body };
    ([(LOCATION, location(id))], CRYPTO_PURCHASES.replay(given)).into_response()
}

fn location(id: OrderId) -> String {
    format!("/v1/billing/crypto-orders/{id}")
}

/// Contract: billing 29.
fn wanted(app: &App, body: &NewOrder) -> Result<Wanted, Invalid> {
    let tier = body.product.parse().ok().filter(|tier| *tier != Tier::Free);
    let bought = tier.and_then(|tier| Some((tier, i32::try_from(app.config.prices.of(tier)?).ok()?)));
    let price_currency = body.price_currency.as_deref().unwrap_or(CURRENCY).to_ascii_lowercase();
    let pay_currency = body.pay_currency.as_deref().unwrap_or(PAY_CURRENCY).to_ascii_lowercase();
    let mut rules = Rules::default();
    let told =
        if tier.is_none() { "must be a tier that is paid for" } else { "cannot be bought here: it has no price" };
    rules.require(bought.is_some(), "product", told);
    rules.require(price_currency == CURRENCY, "price_currency", "must be usd");
    let is_currency = (1..=20).contains(&pay_currency.len()) && pay_currency.bytes().all(|b| b.is_ascii_alphanumeric());
    rules.require(is_currency, "pay_currency", "must be the name of a currency: 1 to 20 letters and digits");
    rules.check()?;
    let (product, price_cents) = bought.ok_or_else(|| Invalid::field("product", told))?;
    Ok(Wanted { product, price_cents, price_currency, pay_currency })
}

type CryptoOrderList = Page<CryptoOrder>;

impl Listed for CryptoOrder {
    const LIST: &'static str = "CryptoOrderList";
    const MEANING: &'static str = "A page of crypto orders, newest first";
}

/// List crypto orders
#[utoipa::path(
    get, path = "/v1/billing/crypto-orders", tag = "Billing", operation_id = "listCryptoOrders",
    params(Paging),
    responses((status = 200, description = "A page", body = CryptoOrderList), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<CryptoOrderList>> {
    let account = caller.account_id;
    let scope = CursorScope { account, list: "crypto_orders", filters: &[] };
    let id_of = |order: &Order| order.id.as_uuid();
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        orders::list(conn, account, after.map(OrderId::from), limit).await
    });
    Ok(Answer(page.await?.map(CryptoOrder::from)))
}

/// Get a crypto order
#[utoipa::path(
    get, path = "/v1/billing/crypto-orders/{id}", tag = "Billing", operation_id = "getCryptoOrder",
    params(IdPath<OrderId>),
    responses((status = 200, description = "The order", body = CryptoOrder), Restricted, NoOrder, Database),
)]
async fn get(caller: Caller, State(app): State<App>, path: IdPath<OrderId>) -> Result<Answer<CryptoOrder>> {
    let order = orders::find(&mut *app.db.acquire().await?, caller.account_id, path.id()?).await?;
    Ok(Answer(order.ok_or_else(not_found::<OrderId>)?.into()))
}
