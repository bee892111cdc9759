//! Effects of card provider events on tiers and mail (contract: billing 16 to 25).
//!
//! All effects of an event commit together with its id. Rows are locked in one order: the event, its customer, the account.

use kitfleet_domain::accounts;
use kitfleet_domain::billing::card::{self, CardNotice, EventOrder};
use kitfleet_domain::billing::card_events::{CardEventContent, Checkout, Event, Invoice, Subscription};
use kitfleet_domain::billing::orders;
use kitfleet_domain::emails::{NOTICE_GOOD_FOR, Recipient, Template};
use kitfleet_types::ids::AccountId;
use kitfleet_types::timestamp::Timestamp;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::apply_paid_tier;
use crate::emails;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOutcome {
    Handled,
    Duplicate,
    /// Recorded, without an effect.
    Ignored,
}

/// After an error the transaction is rolled back, so the provider can deliver the event again.
pub async fn take(conn: &mut PgConnection, event: &Event) -> sqlx::Result<EventOutcome> {
    let mut tx = conn.begin().await?;
    if !card::note_event(&mut tx, event).await? {
        return Ok(EventOutcome::Duplicate);
    }
    let taken = match &event.content {
        Some(content) => done(&mut tx, event, content).await?,
        None => EventOutcome::Ignored,
    };
    tx.commit().await?;
    Ok(taken)
}

async fn done(conn: &mut PgConnection, event: &Event, content: &CardEventContent) -> sqlx::Result<EventOutcome> {
    let account = match resolve_subject(&mut *conn, event).await? {
        EventSubject::Account(account) => account,
        // Events of other types name the account themselves.
        EventSubject::Unknown
            if matches!(
                content,
                CardEventContent::Paid(_) | CardEventContent::Failed(_) | CardEventContent::Upcoming(_)
            ) =>
        {
            notify(conn, None, event, content).await?;
            return Ok(EventOutcome::Handled);
        }
        EventSubject::Unknown | EventSubject::Nobody => return Ok(EventOutcome::Ignored),
    };
    match content {
        CardEventContent::Checkout(checkout) => buy(conn, account, checkout, event.created).await?,
        CardEventContent::Subscription(subscription) => {
            let rank = if event.kind.ends_with(".created") { EventOrder::Created } else { EventOrder::Updated };
            settle(conn, account, subscription, event.created, rank).await?;
        }
        CardEventContent::Deleted(subscription) => {
            settle(conn, account, subscription, event.created, EventOrder::Deleted).await?;
        }
        CardEventContent::Paid(_) | CardEventContent::Failed(_) | CardEventContent::Upcoming(_) => {
            notify(conn, Some(account), event, content).await?;
        }
    }
    Ok(EventOutcome::Handled)
}

enum EventSubject {
    /// Its row is locked.
    Account(AccountId),
    /// Unknown or deleted, or no account at all.
    Nobody,
    Unknown,
}

/// Finds the account of an event: from the event itself, from an earlier event about its subscription, or from its customer. If
/// the event is the first to name the customer's account, binds the two and sends the mails that waited for it.
async fn resolve_subject(conn: &mut PgConnection, event: &Event) -> sqlx::Result<EventSubject> {
    let bound = match event.customer() {
        Some(customer) => card::lock_customer(&mut *conn, customer).await?,
        None => None,
    };
    let said = match (event.account(), event.subscription()) {
        (Some(account), _) => Some(account),
        (None, Some(subscription)) => card::subscriber(&mut *conn, subscription).await?,
        (None, None) => None,
    };
    let Some(account) = said.or(bound) else {
        return Ok(if event.customer().is_some() { EventSubject::Unknown } else { EventSubject::Nobody });
    };
    if accounts::lock(&mut *conn, account).await?.is_none() {
        return Ok(EventSubject::Nobody);
    }
    if let Some(customer) = event.customer()
        && bound.is_none()
    {
        card::bind(&mut *conn, customer, account, event.created).await?;
        for waiting in card::found(&mut *conn, customer, account).await? {
            mail(&mut *conn, account, waiting.template, waiting.details).await?;
        }
    }
    Ok(EventSubject::Account(account))
}

/// Records a completed checkout as a subscription (contract: billing 18).
async fn buy(conn: &mut PgConnection, account: AccountId, checkout: &Checkout, at: Timestamp) -> sqlx::Result<()> {
    let Some(id) = &checkout.subscription else { return Ok(()) };
    let bought = Subscription {
        id: id.clone(),
        account: Some(account),
        customer: checkout.customer.clone(),
        tier: checkout.tier,
        status: if checkout.is_paid { "active" } else { "incomplete" }.to_owned(),
        current_period_end: None,
        cancel_at_period_end: false,
        started_at: None,
    };
    // An unpaid checkout gets the earliest time, so that any other event about the subscription overrides it.
    let at = if checkout.is_paid { at } else { Timestamp::EPOCH };
    settle(conn, account, &bought, at, EventOrder::Checkout).await
}

/// Status of a subscription whose first payment never arrived.
const NEVER_PAID: &str = "incomplete_expired";

/// `Some(true)` grants the tier, `Some(false)` revokes it, `None` changes nothing (contract: billing 19).
fn gives(status: &str) -> Option<bool> {
    match status {
        "active" | "trialing" => Some(true),
        "unpaid" | "canceled" | "paused" | NEVER_PAID => Some(false),
        _ => None,
    }
}

/// Contract: billing 4, 17, 19, 20.
///
/// The account gets the tier of the most recently started subscription that grants one, regardless of the order of
/// events. If neither a subscription nor an order granted the present tier (for example, staff set it), it changes only
/// when a subscription starts to grant a tier, or ends because a payment is missing.
async fn settle(
    conn: &mut PgConnection,
    account: AccountId,
    subscription: &Subscription,
    at: Timestamp,
    rank: EventOrder,
) -> sqlx::Result<()> {
    let id = subscription.id.as_str();
    let gave = card::given_by(&mut *conn, id).await?;
    card::note_subscription(&mut *conn, account, subscription, at, rank).await?;
    let decided = match gives(&subscription.status) {
        Some(gives) if rank != EventOrder::Deleted => {
            card::note_decision(&mut *conn, id, gives, at, rank).await?.then_some(gives)
        }
        _ => None,
    };
    let giver = card::giver(&mut *conn, account).await?.filter(|giver| giver.id == id);
    let begins = giver.as_ref().is_some_and(|giver| gave != Some(giver.tier));
    let present = accounts::tier_giver(&mut *conn, account).await?;
    let order =
        orders::latest_unexpired(&mut *conn, account).await?.filter(|order| present == Some(order.id.to_string()));
    let moves = match present {
        // A renewal does not replace a tier that an order has paid for.
        Some(_) if order.is_some() => {
            giver.is_some() && decided == Some(true) && matches!(rank, EventOrder::Checkout | EventOrder::Created)
        }
        Some(present) => begins || card::subscriber(&mut *conn, &present).await? == Some(account),
        None => begins || decided == Some(false) && (gave.is_some() || subscription.status != NEVER_PAID),
    };
    if moves { apply_paid_tier(conn, account).await } else { Ok(()) }
}

/// Once (contract: billing 22 to 25).
async fn notify(
    conn: &mut PgConnection,
    account: Option<AccountId>,
    event: &Event,
    content: &CardEventContent,
) -> sqlx::Result<()> {
    let (template, invoice, about, amount) = match content {
        CardEventContent::Paid(invoice) if invoice.amount_paid > 0 => {
            (Template::PaymentReceipt, invoice, billed(invoice), invoice.amount_paid)
        }
        CardEventContent::Failed(invoice) => {
            let attempt = invoice.attempts.map_or_else(|| event.id.clone(), |attempts| attempts.to_string());
            (Template::PaymentFailed, invoice, format!("{}:{attempt}", billed(invoice)), invoice.amount_due)
        }
        CardEventContent::Upcoming(invoice) => {
            (Template::RenewalReminder, invoice, period(invoice, event), invoice.amount_due)
        }
        _ => return Ok(()),
    };
    let details = json!({"amount": amount, "currency": invoice.currency, "due_at": invoice.due_at});
    let notice = CardNotice { template, about, customer: invoice.customer.as_deref(), details: details.clone() };
    if card::note_notice(&mut *conn, account, &notice).await?
        && let Some(account) = account
    {
        mail(conn, account, template, details).await?;
    }
    Ok(())
}

fn billed(invoice: &Invoice) -> String {
    invoice.id.clone().unwrap_or_default()
}

/// An upcoming invoice has no id. Falls back to the event's id if the invoice names no payer or due date.
fn period(invoice: &Invoice, event: &Event) -> String {
    let payer = invoice.subscription.as_ref().or(invoice.customer.as_ref());
    match (payer, invoice.due_at) {
        (Some(payer), Some(at)) => format!("{payer}:{}", at.0.timestamp()),
        _ => event.id.clone(),
    }
}

async fn mail(conn: &mut PgConnection, account: AccountId, template: Template, details: Value) -> sqlx::Result<()> {
    emails::send(conn, template, Recipient::Account(account), details, NOTICE_GOOD_FOR).await?;
    Ok(())
}
