//! Effects of crypto processor notices, staff decisions and expiry on orders and tiers (contract: billing 34 to 42).
//!
//! The order's row is locked before its account's row. The transaction that finds the order pending ends it, and writes
//! the event and the tier change with it.

use std::time::Duration;

use kitfleet_domain::accounts;
use kitfleet_domain::billing::ipn::{PaymentEffect, PaymentNotice};
use kitfleet_domain::billing::orders::{self, Order, Reason, Status};
use kitfleet_domain::events::{self, EventType};
use kitfleet_types::ids::OrderId;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::apply_paid_tier;
use crate::accounts::give_tier;

/// A repeated notice has no effect.
pub async fn take(conn: &mut PgConnection, notice: &PaymentNotice, period: Duration) -> sqlx::Result<()> {
    let Some(id) = notice.order_id else { return Ok(()) };
    let mut tx = conn.begin().await?;
    let Some(order) = orders::lock(&mut tx, id).await? else {
        tracing::warn!(order = %id, "notice of the crypto processor names an unknown order");
        return Ok(());
    };
    let mut flag = async |why| orders::flag(&mut tx, id, &notice.payment_id, why).await;
    match (order.status, notice.effect_on(&order)) {
        (_, PaymentEffect::Paid | PaymentEffect::Amiss(_)) if notice.repeats(&order) => {}
        (Status::Pending, PaymentEffect::Paid) => pay(&mut tx, &order, Some(&notice.payment_id), period).await?,
        // When a payment arrives in parts, a failed part does not end the order: other parts may still arrive.
        (Status::Pending, PaymentEffect::Failed) if order.payment_id.as_ref() == Some(&notice.payment_id) => {
            give_up_locked(&mut tx, &order, Reason::Ipn, Some(notice)).await?;
        }
        (Status::Pending, PaymentEffect::Amiss(why)) => flag(why).await?,
        (Status::Paid, PaymentEffect::Failed) if notice.repeats(&order) => {
            // Only a refund is reported. A failure that precedes the payment, or staff's decision to accept it, is not news.
            if notice.is_refund() {
                flag("it was given back after it was paid").await?;
            }
        }
        (Status::Paid, PaymentEffect::Paid | PaymentEffect::Amiss(_)) => flag("it was paid twice").await?,
        (Status::Failed, PaymentEffect::Paid | PaymentEffect::Amiss(_)) => {
            flag("it was paid after it had failed").await?;
        }
        (_, PaymentEffect::Failed) => {
            if let Some(why) = notice.unassigned_payment(&order) {
                flag(why).await?;
            }
        }
        (_, PaymentEffect::Open) => {}
    }
    tx.commit().await
}

/// The order is locked. Moves its account to the order's tier. If the account is deleted, flags the order for staff.
pub async fn pay(conn: &mut PgConnection, order: &Order, payment: Option<&str>, period: Duration) -> sqlx::Result<()> {
    let is_there = accounts::lock(&mut *conn, order.account).await?.is_some();
    orders::pay(&mut *conn, order.id, payment, period).await?;
    publish_change(&mut *conn, order.id).await?;
    if let Some(payment) = payment {
        orders::unflag(&mut *conn, order.id, payment).await?;
    }
    if is_there {
        give_tier(conn, order.account, order.product, &order.id.to_string()).await?;
    } else {
        orders::flag(conn, order.id, payment.unwrap_or_default(), "its account is deleted").await?;
    }
    Ok(())
}

/// The order is locked.
pub async fn fail(conn: &mut PgConnection, order: &Order, reason: Reason) -> sqlx::Result<()> {
    orders::fail(&mut *conn, order.id, reason).await?;
    publish_change(conn, order.id).await
}

async fn publish_change(conn: &mut PgConnection, id: OrderId) -> sqlx::Result<()> {
    let Some(order) = orders::lock(&mut *conn, id).await? else { return Ok(()) };
    let mut data = json!({
        "order_id": order.id,
        "product": order.product,
        "price_cents": order.price_cents,
        "price_currency": order.price_currency,
        "payment_id": order.paid_by.or(order.payment_id),
    });
    let event = if let Some(reason) = order.reason {
        data["failed_at"] = json!(order.ended_at);
        data["reason"] = reason.name().into();
        EventType::CryptoOrderFailed
    } else {
        data["paid_at"] = json!(order.ended_at);
        EventType::CryptoOrderPaid
    };
    events::record(conn, order.account, event, data).await?;
    Ok(())
}

/// Flags the order for staff if the processor's notice shows that money arrived for it.
async fn give_up_locked(
    conn: &mut PgConnection,
    order: &Order,
    reason: Reason,
    notice: Option<&PaymentNotice>,
) -> sqlx::Result<()> {
    fail(&mut *conn, order, reason).await?;
    if let Some(notice) = notice
        && let Some(why) = notice.unassigned_payment(order)
    {
        orders::flag(conn, order.id, &notice.payment_id, why).await?;
    }
    Ok(())
}

/// No final notice arrived. `notice` is the processor's answer to a query about the order. `false` if it is not pending.
pub async fn give_up(conn: &mut PgConnection, id: OrderId, notice: Option<&PaymentNotice>) -> sqlx::Result<bool> {
    let mut tx = conn.begin().await?;
    let waits = orders::lock(&mut tx, id).await?.filter(|order| order.status == Status::Pending);
    let Some(order) = waits else { return Ok(false) };
    give_up_locked(&mut tx, &order, Reason::Swept, notice).await?;
    tx.commit().await?;
    Ok(true)
}

/// `false` if there is none.
pub async fn expire_order(conn: &mut PgConnection) -> sqlx::Result<bool> {
    let mut tx = conn.begin().await?;
    let Some((order, account)) = orders::take_lapsed(&mut tx).await? else { return Ok(false) };
    let is_there = accounts::lock(&mut tx, account).await?.is_some();
    // A tier that came from another source since stays.
    if is_there && accounts::tier_giver(&mut tx, account).await?.is_some_and(|giver| giver == order.to_string()) {
        apply_paid_tier(&mut tx, account).await?;
    }
    tx.commit().await?;
    Ok(true)
}
