//! Payments reported by the crypto processor, in its notices and in responses to queries.

use kitfleet_types::ids::OrderId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::amounts::Amount;
use super::orders::{Order, Status};

const ID_CHARS: usize = 100;
const REFUNDED: &str = "refunded";

#[derive(Debug, Clone, Deserialize)]
pub struct PaymentNotice {
    /// `None` when the id is not one of the service.
    #[serde(default, deserialize_with = "own_order_id")]
    pub order_id: Option<OrderId>,
    /// A customer who pays in parts or twice creates several payments for one order.
    #[serde(deserialize_with = "payment_id")]
    pub payment_id: String,
    /// Status in the processor's terms.
    pub payment_status: String,
    #[serde(default)]
    pub price_amount: Option<Amount>,
    #[serde(default)]
    pub price_currency: Option<String>,
    #[serde(default)]
    pub actually_paid: Option<Amount>,
    #[serde(default)]
    pub pay_currency: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentEffect {
    Paid,
    Failed,
    Open,
    /// Complete, but does not match the order.
    Amiss(&'static str),
}

impl PaymentNotice {
    pub fn parse(body: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(body)
    }

    /// Contract: billing 36.
    #[must_use]
    pub fn effect_on(&self, order: &Order) -> PaymentEffect {
        match self.payment_status.as_str() {
            "finished" => self.check_amounts(order),
            "failed" | REFUNDED | "expired" => PaymentEffect::Failed,
            _ => PaymentEffect::Open,
        }
    }

    fn check_amounts(&self, order: &Order) -> PaymentEffect {
        let is = |reported: &String, expected: &str| reported.eq_ignore_ascii_case(expected);
        if self.price_amount != Some(Amount::of_cents(order.price_cents)) {
            return PaymentEffect::Amiss("the price of the payment differs from the price of the order");
        }
        if !self.price_currency.as_ref().is_some_and(|reported| is(reported, &order.price_currency))
            || self.pay_currency.as_ref().is_some_and(|reported| !is(reported, &order.pay_currency))
        {
            return PaymentEffect::Amiss("the currency of the payment differs from the currency of the order");
        }
        match (self.actually_paid, order.pay_amount) {
            (Some(paid), Some(requested)) if paid >= requested => PaymentEffect::Paid,
            _ => PaymentEffect::Amiss("the amount paid is less than the amount requested"),
        }
    }

    #[must_use]
    pub fn is_refund(&self) -> bool {
        self.payment_status == REFUNDED
    }

    /// Money arrived and was not refunded, but this payment no longer pays the order (contract: billing 36).
    #[must_use]
    pub fn unassigned_payment(&self, order: &Order) -> Option<&'static str> {
        let arrived = !self.is_refund() && self.actually_paid.is_some_and(|paid| !paid.is_zero());
        arrived.then(|| match self.check_amounts(order) {
            PaymentEffect::Amiss(why) => why,
            _ => "the payment arrived, but the processor reported it as failed",
        })
    }

    /// This payment has already completed the order.
    #[must_use]
    pub fn repeats(&self, order: &Order) -> bool {
        order.status == Status::Paid && order.paid_by.as_ref() == Some(&self.payment_id)
    }
}

fn own_order_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OrderId>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|text| text.parse().ok()))
}

/// The processor writes an id as a number or as a string.
pub fn payment_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let written = Box::<RawValue>::deserialize(deserializer)?;
    let id = written.get().trim_matches('"');
    let fits =
        (1..=ID_CHARS).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if fits && id != "null" { Ok(id.to_owned()) } else { Err(D::Error::custom("not a payment ID")) }
}
