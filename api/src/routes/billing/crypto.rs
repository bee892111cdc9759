//! Purchase of a tier with a cryptocurrency (contract: billing 28 to 34).

use std::time::{Duration, Instant};

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use kitfleet_domain::account_share;
use kitfleet_domain::accounts;
use kitfleet_domain::billing::CURRENCY;
use kitfleet_domain::billing::amounts::Amount;
use kitfleet_domain::billing::orders::{self, Order, OrderByKey, OrderOutcome, OrderRequest, Payment, Reason, Status};
use kitfleet_domain::cursors::CursorScope;
use kitfleet_payments::Price;
use kitfleet_types::ids::{AccountId, OrderId};
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};
use serde::{Deserialize, Serialize};
use sqlx::Connection as _;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::paid_tier;
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::idempotency::{CRYPTO_PURCHASES, IdempotencyKey, StoredResponse};
use crate::http::json::Unchecked;
use crate::http::kinds;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{
    AnotherOrder, Body, Database, InvalidQuery, NoOrder, Paying, RateLimited, Restricted, named, one_of, or_null,
};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

/// Maximum time a request waits for other payment requests of the account and of the process.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time that the first request of an idempotency key gets in addition to the processor's timeout, before another takes over its
/// order.
const SPARE: Duration = Duration::from_secs(25);
/// Interval at which a repeated request polls for the answer of the first.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Default currency of the payment.
const PAY_CURRENCY: &str = "btc";

pub fn routes() -> Routes {
    Routes::new()
        .allow(OWN_ACCOUNT, routes!(check_out))
        .allow(OWN_ACCOUNT, routes!(list))
        .allow(OWN_ACCOUNT, routes!(get))
        .never_stored()
}

/// Request body of a crypto order
#[derive(Deserialize, ToSchema)]
#[schema(as = CreateCryptoOrder, example = json!({"product": "api_builder", "pay_currency": "btc"}))]
struct NewOrder {
    /// Tier to buy; it must have a price
    #[schema(schema_with = paid_tier)]
    product: String,
    /// Currency of the price: `usd`
    #[schema(min_length = 1, max_length = 20)]
    price_currency: Option<String>,
    /// Currency of the payment, as the processor names it; default `btc`
    #[schema(min_length = 1, max_length = 20)]
    pay_currency: Option<String>,
}

/// A one-time payment for one period of a tier
#[derive(Serialize, ToSchema)]
#[schema(as = CryptoOrder, example = json!({
    "id": "ord_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "status": "pending", "product": "api_builder", "price_cents": 9900,
    "price_currency": "usd", "pay_address": "bc1qxy2kgdygjrsqtzq2n0yrf2493p83kkfjhx0wlh", "pay_amount": 0.001_042, "pay_currency": "btc",
    "payment_id": "5745459419", "expires_at": "2026-11-20T19:05:00.123Z", "created_at": "2026-11-20T18:05:00.123Z",
    "paid_at": null, "paid_until": null, "failed_at": null, "reason": null,
}))]
pub struct CryptoOrder {
    /// Order ID
    #[schema(value_type = String)]
    id: OrderId,
    /// Status of the order
    #[schema(schema_with = status)]
    status: &'static str,
    /// Tier that the order buys
    #[schema(schema_with = paid_tier)]
    product: &'static str,
    /// Price in cents
    price_cents: i32,
    /// Currency of the price
    price_currency: String,
    /// Address to pay to
    #[schema(required = true)]
    pay_address: Option<String>,
    /// Amount to pay
    #[schema(value_type = Option<f64>, required = true)]
    pay_amount: Option<Amount>,
    /// Currency of the payment
    pay_currency: String,
    /// The processor's ID of the payment
    #[schema(required = true)]
    payment_id: Option<String>,
    /// End of the payment window (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Time the order was created (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time the order was paid (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    paid_at: Option<Timestamp>,
    /// End of the paid period (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    paid_until: Option<Timestamp>,
    /// Time the order failed (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    failed_at: Option<Timestamp>,
    /// Reason of the failure
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

/// Buy a tier with a cryptocurrency
///
/// Returns the payment address and the amount. The account changes tier when the processor reports the payment, and changes back
/// at the end of the period. A request repeated with the same `Idempotency-Key` never creates a second order, and the key does
/// not expire. It receives the first response unchanged, regardless of its body, with `Idempotent-Replayed: 1`.
#[utoipa::path(
    post, path = "/v1/billing/crypto-checkout", tag = "Billing", operation_id = "createCryptoOrder",
    params(IdempotencyKey), request_body = NewOrder,
    responses(
        (status = 201, description = "The order is ready to be paid", body = CryptoOrder, headers(
            ("Idempotent-Replayed" = Option<String>, description = "`1` when an earlier response is repeated"),
        )),
        Restricted, Body, AnotherOrder, RateLimited, Paying,
    ),
)]
async fn check_out(
    caller: Caller,
    State(app): State<App>,
    IdempotencyKey(key): IdempotencyKey,
    // The body is ignored when the idempotency key was used before.
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
        // A concurrent request with the same key was faster.
        None => answered(&app, account, key.as_deref().unwrap_or_default()).await?.ok_or_else(still_being_created),
    }
}

/// Returns the answer to an idempotency key that was used before, or `None` for a new key. Waits while another request of the
/// same key asks the processor.
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
            Some(OrderByKey::Answered { id, body }) => return Ok(Some(replayed(id, body))),
            Some(OrderByKey::TakenOver(order)) => return place(app, *order).await.map(Some),
            Some(OrderByKey::Asked) if Instant::now() > given_up_at => return Err(still_being_created()),
            Some(OrderByKey::Asked) => {
                account_share::release();
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }
}

fn still_being_created() -> Problem {
    Problem::new(&kinds::CONFLICT, "an earlier request with this idempotency key is still in progress")
}

/// Stores the order before the processor is asked. `None` when a concurrent request with the same key was faster.
async fn begin(app: &App, account: AccountId, key: Option<&str>, wanted: &OrderRequest) -> Result<Option<Order>> {
    let mut conn = app.db.acquire().await?;
    let mut tx = conn.begin().await?;
    accounts::lock(&mut tx, account).await?.ok_or_else(Problem::account_gone)?;
    match orders::begin(&mut tx, account, key, wanted, app.crypto.config().payment_window).await? {
        OrderOutcome::New(order) => {
            tx.commit().await?;
            Ok(Some(*order))
        }
        OrderOutcome::KeyInUse => Ok(None),
        OrderOutcome::TooMany => {
            let max = orders::MAX_OPEN;
            Err(Problem::new(
                &kinds::CONFLICT,
                format!("the account has {max} open orders, the maximum; pay one, or wait until one expires"),
            ))
        }
    }
}

/// Places an order with the processor. A refused order is deleted, so that the same request can be repeated.
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
    let given = StoredResponse::of(StatusCode::CREATED, &CryptoOrder::from(placed))?;
    if !orders::answer(&mut conn, id, &payment, &given.body).await? {
        return Err(Problem::new(&kinds::CONFLICT, "the order was abandoned in the meantime"));
    }
    Ok(([(LOCATION, location(id))], given).into_response())
}

async fn ask(app: &App, order: &Order) -> Result<Payment> {
    // Requests to the processor hold no database connection.
    account_share::release();
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
    let given = StoredResponse { status: StatusCode::CREATED, body };
    ([(LOCATION, location(id))], CRYPTO_PURCHASES.replay(given)).into_response()
}

fn location(id: OrderId) -> String {
    format!("/v1/billing/crypto-orders/{id}")
}

/// Contract: billing 29.
fn wanted(app: &App, body: &NewOrder) -> Result<OrderRequest, Invalid> {
    let tier = body.product.parse().ok().filter(|tier| *tier != Tier::Free);
    let bought = tier.and_then(|tier| Some((tier, i32::try_from(app.config.prices.of(tier)?).ok()?)));
    let price_currency = body.price_currency.as_deref().unwrap_or(CURRENCY).to_ascii_lowercase();
    let pay_currency = body.pay_currency.as_deref().unwrap_or(PAY_CURRENCY).to_ascii_lowercase();
    let mut rules = Rules::default();
    let message =
        if tier.is_none() { "must be a paid tier" } else { "cannot be bought on this deployment: it has no price" };
    rules.require(bought.is_some(), "product", message);
    rules.require(price_currency == CURRENCY, "price_currency", "must be usd");
    let is_currency = (1..=20).contains(&pay_currency.len()) && pay_currency.bytes().all(|b| b.is_ascii_alphanumeric());
    rules.require(is_currency, "pay_currency", "must be the code of a currency: 1 to 20 ASCII letters and digits");
    rules.check()?;
    let (product, price_cents) = bought.ok_or_else(|| Invalid::field("product", message))?;
    Ok(OrderRequest { product, price_cents, price_currency, pay_currency })
}

type CryptoOrderList = Page<CryptoOrder>;

impl ListItem for CryptoOrder {
    const LIST: &'static str = "CryptoOrderList";
    const MEANING: &'static str = "A page of crypto orders, newest first";
}

/// List crypto orders
#[utoipa::path(
    get, path = "/v1/billing/crypto-orders", tag = "Billing", operation_id = "listCryptoOrders",
    params(Paging),
    responses((status = 200, description = "A page of the list", body = CryptoOrderList), Restricted, InvalidQuery, Database),
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
