//! Parses the events of the card provider that the service uses.
//!
//! The location of some members depends on the API version that is set in the provider's dashboard. The parser accepts
//! all locations.

use chrono::DateTime;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

const ID_CHARS: usize = 255;
/// End of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an event of the card provider")]
pub struct Malformed;

#[derive(Debug)]
pub struct Event {
    /// The same for each delivery of the event.
    pub id: String,
    pub kind: String,
    /// Time of the event by the provider's clock, in whole seconds.
    pub created: Timestamp,
    /// `None` for types that the service ignores.
    pub content: Option<CardEventContent>,
}

#[derive(Debug)]
pub enum CardEventContent {
    Checkout(Checkout),
    Subscription(Subscription),
    Deleted(Subscription),
    Paid(Invoice),
    Failed(Invoice),
    Upcoming(Invoice),
}

#[derive(Debug)]
pub struct Checkout {
    pub account: Option<AccountId>,
    pub customer: Option<String>,
    pub subscription: Option<String>,
    pub tier: Option<Tier>,
    pub is_paid: bool,
}

#[derive(Debug)]
pub struct Subscription {
    pub id: String,
    pub account: Option<AccountId>,
    pub customer: Option<String>,
    pub tier: Option<Tier>,
    /// Status in the provider's terms.
    pub status: String,
    pub current_period_end: Option<Timestamp>,
    /// True when the subscription ends with the current period.
    pub cancel_at_period_end: bool,
    pub started_at: Option<Timestamp>,
}

#[derive(Debug)]
pub struct Invoice {
    /// `None` for an invoice that will be due.
    pub id: Option<String>,
    pub account: Option<AccountId>,
    pub customer: Option<String>,
    pub subscription: Option<String>,
    /// Amount paid, in the currency's smallest unit.
    pub amount_paid: i64,
    /// Amount due, in the currency's smallest unit.
    pub amount_due: i64,
    /// ISO 4217, in lower case.
    pub currency: Option<String>,
    /// Number of attempts to collect the invoice, if the event contains it.
    pub attempts: Option<i64>,
    pub due_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Envelope {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    created: Option<i64>,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    object: Map<String, Value>,
}

/// Its id, or the complete object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Reference {
    Id(String),
    Whole { id: String },
}

#[derive(Deserialize)]
struct CheckoutObject {
    mode: Option<String>,
    payment_status: Option<String>,
    client_reference_id: Option<String>,
    customer: Option<Reference>,
    subscription: Option<Reference>,
    metadata: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct SubscriptionObject {
    id: String,
    status: String,
    customer: Option<Reference>,
    metadata: Option<Map<String, Value>>,
    current_period_end: Option<i64>,
    cancel_at_period_end: Option<bool>,
    created: Option<i64>,
    items: Option<Items>,
}

#[derive(Deserialize)]
struct Items {
    #[serde(default)]
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    current_period_end: Option<i64>,
}

#[derive(Deserialize)]
struct InvoiceObject {
    id: Option<String>,
    customer: Option<Reference>,
    subscription: Option<Reference>,
    subscription_details: Option<SubscriptionDetails>,
    parent: Option<Parent>,
    amount_paid: Option<i64>,
    amount_due: Option<i64>,
    total: Option<i64>,
    currency: Option<String>,
    attempt_count: Option<i64>,
    period_end: Option<i64>,
    next_payment_attempt: Option<i64>,
}

#[derive(Deserialize)]
struct Parent {
    subscription_details: Option<SubscriptionDetails>,
}

#[derive(Deserialize)]
struct SubscriptionDetails {
    metadata: Option<Map<String, Value>>,
    subscription: Option<Reference>,
}

impl Event {
    /// `now` is also the time of an event without one, in seconds.
    pub fn parse(body: &[u8], now: i64) -> Result<Self, Malformed> {
        let Envelope { id, kind, created, data } = serde_json::from_slice(body).map_err(|_| Malformed)?;
        let content = match kind.as_str() {
            "checkout.session.completed" | "checkout.session.async_payment_succeeded" => checkout(data.object)?,
            "customer.subscription.created" | "customer.subscription.updated" => {
                Some(CardEventContent::Subscription(subscription(data.object)?))
            }
            "customer.subscription.deleted" => Some(CardEventContent::Deleted(subscription(data.object)?)),
            "invoice.paid" | "invoice.payment_succeeded" => Some(CardEventContent::Paid(billed(data.object)?)),
            "invoice.payment_failed" => Some(CardEventContent::Failed(billed(data.object)?)),
            "invoice.upcoming" => Some(CardEventContent::Upcoming(invoice(data.object)?)),
            _ => None,
        };
        Ok(Self { id: checked(id)?, kind: checked(kind)?, created: instant(created.unwrap_or(now))?, content })
    }

    #[must_use]
    pub fn customer(&self) -> Option<&str> {
        match self.content.as_ref()? {
            CardEventContent::Checkout(checkout) => checkout.customer.as_deref(),
            CardEventContent::Subscription(subscription) | CardEventContent::Deleted(subscription) => {
                subscription.customer.as_deref()
            }
            CardEventContent::Paid(invoice)
            | CardEventContent::Failed(invoice)
            | CardEventContent::Upcoming(invoice) => invoice.customer.as_deref(),
        }
    }

    #[must_use]
    pub fn subscription(&self) -> Option<&str> {
        match self.content.as_ref()? {
            CardEventContent::Checkout(checkout) => checkout.subscription.as_deref(),
            CardEventContent::Subscription(subscription) | CardEventContent::Deleted(subscription) => {
                Some(&subscription.id)
            }
            CardEventContent::Paid(invoice)
            | CardEventContent::Failed(invoice)
            | CardEventContent::Upcoming(invoice) => invoice.subscription.as_deref(),
        }
    }

    #[must_use]
    pub fn account(&self) -> Option<AccountId> {
        match self.content.as_ref()? {
            CardEventContent::Checkout(checkout) => checkout.account,
            CardEventContent::Subscription(subscription) | CardEventContent::Deleted(subscription) => {
                subscription.account
            }
            CardEventContent::Paid(invoice)
            | CardEventContent::Failed(invoice)
            | CardEventContent::Upcoming(invoice) => invoice.account,
        }
    }
}

/// `None` for something other than a subscription.
fn checkout(object: Map<String, Value>) -> Result<Option<CardEventContent>, Malformed> {
    let object: CheckoutObject = read(object)?;
    if object.mode.as_deref().is_some_and(|mode| mode != "subscription") {
        return Ok(None);
    }
    let metadata = object.metadata.unwrap_or_default();
    let reference = object.client_reference_id.and_then(|id| id.parse().ok());
    Ok(Some(CardEventContent::Checkout(Checkout {
        account: reference.or_else(|| account_in(&metadata)),
        customer: id_of(object.customer)?,
        subscription: id_of(object.subscription)?,
        tier: tier_in(&metadata),
        is_paid: matches!(object.payment_status.as_deref(), Some("paid" | "no_payment_required")),
    })))
}

fn subscription(object: Map<String, Value>) -> Result<Subscription, Malformed> {
    let object: SubscriptionObject = read(object)?;
    let metadata = object.metadata.unwrap_or_default();
    let items = object.items.map(|items| items.data).unwrap_or_default();
    let of_items = items.into_iter().filter_map(|item| item.current_period_end).max();
    Ok(Subscription {
        id: checked(object.id)?,
        account: account_in(&metadata),
        customer: id_of(object.customer)?,
        tier: tier_in(&metadata),
        status: checked(object.status)?,
        current_period_end: object.current_period_end.or(of_items).map(instant).transpose()?,
        cancel_at_period_end: object.cancel_at_period_end.unwrap_or_default(),
        started_at: object.created.map(instant).transpose()?,
    })
}

fn billed(object: Map<String, Value>) -> Result<Invoice, Malformed> {
    let invoice = invoice(object)?;
    if invoice.id.is_some() { Ok(invoice) } else { Err(Malformed) }
}

fn invoice(object: Map<String, Value>) -> Result<Invoice, Malformed> {
    let object: InvoiceObject = read(object)?;
    let details = object.subscription_details.or(object.parent.and_then(|parent| parent.subscription_details));
    let (metadata, of_details) =
        details.map_or((None, None), |SubscriptionDetails { metadata, subscription }| (metadata, subscription));
    let is_currency = |code: &String| code.len() == 3 && code.bytes().all(|letter| letter.is_ascii_lowercase());
    let amount = object.amount_due.or(object.total).unwrap_or_default();
    Ok(Invoice {
        id: object.id.map(checked).transpose()?,
        account: metadata.as_ref().and_then(account_in),
        customer: id_of(object.customer)?,
        subscription: id_of(object.subscription.or(of_details))?,
        amount_paid: object.amount_paid.or(object.total).unwrap_or(amount),
        amount_due: amount,
        currency: object.currency.filter(is_currency),
        attempts: object.attempt_count,
        due_at: object.period_end.or(object.next_payment_attempt).map(instant).transpose()?,
    })
}

fn read<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T, Malformed> {
    T::deserialize(Value::Object(object)).map_err(|_| Malformed)
}

fn account_in(metadata: &Map<String, Value>) -> Option<AccountId> {
    metadata.get("account_id")?.as_str()?.parse().ok()
}

fn tier_in(metadata: &Map<String, Value>) -> Option<Tier> {
    metadata.get("tier")?.as_str()?.parse().ok().filter(|tier| *tier != Tier::Free)
}

fn id_of(reference: Option<Reference>) -> Result<Option<String>, Malformed> {
    let id = reference.map(|reference| match reference {
        Reference::Id(id) | Reference::Whole { id } => id,
    });
    id.map(checked).transpose()
}

fn checked(name: String) -> Result<String, Malformed> {
    let is_name = (1..=ID_CHARS).contains(&name.len()) && name.bytes().all(|letter| letter.is_ascii_graphic());
    if is_name { Ok(name) } else { Err(Malformed) }
}

fn instant(seconds: i64) -> Result<Timestamp, Malformed> {
    let time = (0..=LAST_SECOND).contains(&seconds).then(|| DateTime::from_timestamp(seconds, 0)).flatten();
    time.map(Timestamp).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn parse(kind: &str, object: &Value) -> Result<Event, Malformed> {
        let event = json!({"id": "evt_1", "type": kind, "created": 1_700_000_000, "data": {"object": object}});
        Event::parse(event.to_string().as_bytes(), NOW)
    }

    /// Contract: billing 14.
    #[test]
    fn event_without_a_required_member_is_malformed() {
        let whole = json!({"id": "evt_1", "type": "x", "created": 1, "data": {"object": {}}});
        assert!(Event::parse(whole.to_string().as_bytes(), NOW).expect("an event").content.is_none());
        for (member, bad) in [
            ("id", json!(1)),
            ("id", json!("")),
            ("id", json!("a b")),
            ("id", json!("x".repeat(256))),
            ("id", json!("\u{0}")),
            ("type", json!(null)),
            ("created", json!("now")),
            ("created", json!(-1)),
            ("created", json!(i64::MAX)),
            ("data", json!({"object": []})),
            ("data", json!({})),
        ] {
            let mut event = whole.clone();
            event[member] = bad.clone();
            assert_eq!(Event::parse(event.to_string().as_bytes(), NOW).err(), Some(Malformed), "{member}: {bad}");
        }
        for body in [&b"{"[..], b"[]", b"null", b"{} {}", b"\xff"] {
            assert_eq!(Event::parse(body, NOW).err(), Some(Malformed));
        }
        let timeless = json!({"id": "evt_1", "type": "x", "data": {"object": {}}}).to_string();
        assert_eq!(Event::parse(timeless.as_bytes(), NOW).expect("an event").created.0.timestamp(), NOW);
        let subscription = json!({"id": "sub_1", "status": "active", "created": 1});
        assert!(parse("customer.subscription.updated", &subscription).is_ok());
        for (kind, object) in [
            ("customer.subscription.created", json!({"status": "active"})),
            ("customer.subscription.deleted", json!({"id": "sub_1"})),
            ("customer.subscription.updated", json!({"id": "sub_1", "status": 5})),
            ("invoice.paid", json!({"amount_paid": 100})),
            ("invoice.payment_failed", json!({"id": ["in_1"]})),
            ("invoice.upcoming", json!({"period_end": "soon"})),
            ("checkout.session.completed", json!({"customer": 5})),
        ] {
            assert_eq!(parse(kind, &object).err(), Some(Malformed), "{kind} {object}");
        }
    }

    /// Contract: billing 15. Members are accepted in the locations of both versions of the provider's API.
    #[test]
    fn members_are_read_from_either_location() {
        let account = AccountId::generate();
        let metadata = json!({"account_id": account.to_string(), "tier": "api_scale"});
        for object in [
            json!({"id": "sub_1", "status": "active", "metadata": metadata, "customer": "cus_1", "current_period_end": 7}),
            json!({"id": "sub_1", "status": "active", "metadata": metadata, "customer": {"id": "cus_1", "object": "customer"},
                   "items": {"data": [{"current_period_end": 7}]}}),
        ] {
            let event = parse("customer.subscription.updated", &object).expect("an event");
            assert_eq!((event.account(), event.customer()), (Some(account), Some("cus_1")));
            let Some(CardEventContent::Subscription(subscription)) = event.content else { panic!("a subscription") };
            let seventh = Timestamp(DateTime::from_timestamp(7, 0).expect("a time"));
            assert_eq!((subscription.tier, subscription.current_period_end), (Some(Tier::ApiScale), Some(seventh)));
        }
        for object in [
            json!({"id": "in_1", "subscription": "sub_1", "subscription_details": {"metadata": metadata}, "amount_paid": 5}),
            json!({"id": "in_1", "parent": {"subscription_details": {"metadata": metadata, "subscription": "sub_1"}}, "total": 5}),
        ] {
            let event = parse("invoice.paid", &object).expect("an event");
            assert_eq!((event.account(), event.subscription()), (Some(account), Some("sub_1")));
            assert!(matches!(event.content, Some(CardEventContent::Paid(Invoice { amount_paid: 5, .. }))));
        }
    }
}
