//! Crypto orders: staff can list, expire and settle them.

use axum::Json as Answer;
use axum::extract::State;
use kitfleet_domain::billing::orders::{self, Filter, Order, Status};
use kitfleet_jobs::staff;
use kitfleet_types::ids::{AccountId, OrderId};
use kitfleet_types::validation::both;
use serde::Serialize;
use sqlx::PgConnection;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{ReasonBody, StaffAction, cursors, filter};
use crate::http::auth::staff::Staff;
use crate::http::error::Result;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{Body, Database, InvalidQuery, NoOrder, OutOfPlace, Unauthorized};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::billing::crypto::CryptoOrder;

pub fn routes() -> Routes {
    Routes::new().for_staff(routes!(list)).for_staff(routes!(expire)).for_staff(routes!(settle))
}

/// Customer's crypto order
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "flagged": true, "flag": "it was paid after it had failed",
    "id": "ord_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a2", "status": "failed", "product": "api_builder", "price_cents": 9900,
    "price_currency": "usd", "pay_address": "bc1qxy2kgdygjrsqtzq2n0yrf2493p83kkfjhx0wlh", "pay_amount": 0.001_042, "pay_currency": "btc",
    "payment_id": "5745459419", "expires_at": "2026-11-20T19:05:00.123Z", "created_at": "2026-11-20T18:05:00.123Z",
    "paid_at": null, "paid_until": null, "failed_at": "2026-11-20T19:30:00.123Z", "reason": "expired",
}))]
struct CustomerOrder {
    /// Account that owns the order
    #[schema(value_type = String)]
    account_id: AccountId,
    /// True if the order needs manual review
    flagged: bool,
    /// Reason for the flag
    #[schema(required = true)]
    flag: Option<String>,
    #[serde(flatten)]
    order: CryptoOrder,
}

impl From<Order> for CustomerOrder {
    fn from(order: Order) -> Self {
        let (account_id, flag) = (order.account, order.flag.clone());
        Self { account_id, flagged: flag.is_some(), flag, order: order.into() }
    }
}

type CustomerOrderList = Page<CustomerOrder>;

impl ListItem for CustomerOrder {
    const LIST: &'static str = "CustomerOrderList";
    const MEANING: &'static str = "A page of crypto orders, newest first";
}

/// List crypto orders
///
/// Returns the orders of all accounts.
#[utoipa::path(
    get, path = "/v1/admin/crypto-orders", tag = "Staff", operation_id = "listCustomerOrders",
    params(
        Paging,
        ("status" = Option<String>, Query, description = "Filter by status"),
        ("flagged" = Option<bool>, Query, description = "Filter by whether the order needs manual review"),
    ),
    responses((status = 200, description = "A page", body = CustomerOrderList), Unauthorized, InvalidQuery, Database),
)]
async fn list(_: Staff, State(app): State<App>, query: Query) -> Result<Answer<CustomerOrderList>> {
    let wanted = both(filter(&query, "status", Status::named), filter(&query, "flagged", |text| text.parse().ok()));
    let (status, flagged) = query.filters(wanted, &app.config.limits)?;
    let filters = [query.text("status")?, query.text("flagged")?];
    let id_of = |order: &Order| order.id.as_uuid();
    let page = lists::page(&app, &query, cursors("customers_orders", &filters), id_of, async |conn, before, limit| {
        orders::all(conn, &Filter { status, flagged, before: before.map(OrderId::from), limit }).await
    });
    Ok(Answer(page.await?.map(CustomerOrder::from)))
}

async fn shown(conn: &mut PgConnection, id: OrderId) -> Result<Answer<CustomerOrder>> {
    Ok(Answer(orders::lock(conn, id).await?.ok_or_else(not_found::<OrderId>)?.into()))
}

/// Expire a crypto order
///
/// Marks the order as failed. The order must be pending, and its payment deadline must have passed.
#[utoipa::path(
    post, path = "/v1/admin/crypto-orders/{id}/expire", tag = "Staff", operation_id = "expireCustomerOrder",
    params(IdPath<OrderId>), request_body = ReasonBody,
    responses(
        (status = 200, description = "The order", body = CustomerOrder),
        Unauthorized, Body, NoOrder, OutOfPlace, Database,
    ),
)]
async fn expire(State(app): State<App>, StaffAction { id, by }: StaffAction<OrderId>) -> Result<Answer<CustomerOrder>> {
    let mut conn = app.db.acquire().await?;
    staff::expire_order(&mut conn, id, &by).await?;
    shown(&mut conn, id).await
}

/// Settle a crypto order
///
/// Marks the order as paid. The order must be pending, or failed and flagged because money arrived for it later.
#[utoipa::path(
    post, path = "/v1/admin/crypto-orders/{id}/settle", tag = "Staff", operation_id = "settleCustomerOrder",
    params(IdPath<OrderId>), request_body = ReasonBody,
    responses(
        (status = 200, description = "The order", body = CustomerOrder),
        Unauthorized, Body, NoOrder, OutOfPlace, Database,
    ),
)]
async fn settle(State(app): State<App>, StaffAction { id, by }: StaffAction<OrderId>) -> Result<Answer<CustomerOrder>> {
    let mut conn = app.db.acquire().await?;
    staff::settle_order(&mut conn, id, app.crypto.config().period, &by).await?;
    shown(&mut conn, id).await
}
