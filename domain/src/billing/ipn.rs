//! What the crypto processor tells of a payment: in its notices, and when it is asked.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::amounts::Amount;
use super::orders::{Order, Status};
use crate::ids::OrderId;

/// Characters of a payment's id.
const ID_CHARS: usize = 100;
/// The processor's word for money that was given back.
const REFUNDED: &str = "refunded";

/// How a payment stands.
#[derive(Debug, Clone, Deserialize)]
pub struct PaymentNotice {
    /// Which order it is for, as we called it when it was made; `None` when it is none of ours.
    #[serde(default, deserialize_with = "ours")]
    pub order_id: Option<OrderId>,
    /// The processor's id of the payment. A customer who pays in parts, or twice, makes several of one order.
    #[serde(deserialize_with = "payment_id")]
    pub payment_id: String,
    /// The processor's word for how it stands.
    pub payment_status: String,
    /// What was to be paid,
    #[serde(default)]
    pub price_amount: Option<Amount>,
    /// and in which currency.
    #[serde(default)]
    pub price_currency: Option<String>,
    /// What has come,
    #[serde(default)]
    pub actually_paid: Option<Amount>,
    /// and in which currency.
    #[serde(default)]
    pub pay_currency: Option<String>,
}

/// What a notice means for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentEffect {
    /// It is paid.
    Paid,
    /// It will not be.
    Failed,
    /// Nothing yet.
    Open,
    /// The processor takes it for paid, and it is not what was asked for.
    Amiss(&'static str),
}

impl PaymentNotice {
    /// # Errors
    /// When it is no notice of a payment.
    pub fn parse(body: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(body)
    }

    /// What it means for the order that it is about (contract: billing 36).
    #[must_use]
    pub fn means(&self, order: &Order) -> PaymentEffect {
        match self.payment_status.as_str() {
            "finished" => self.judged(order),
            "failed" | REFUNDED | "expired" => PaymentEffect::Failed,
            _ => PaymentEffect::Open,
        }
    }

    fn judged(&self, order: &Order) -> PaymentEffect {
        let is = |said: &String, wanted: &str| said.eq_ignore_ascii_case(wanted);
        if self.price_amount != Some(Amount::of_cents(order.price_cents)) {
            return PaymentEffect::Amiss("the price of the payment differs from the price of the order");
        }
        if !self.price_currency.as_ref().is_some_and(|said| is(said, &order.price_currency))
            || self.pay_currency.as_ref().is_some_and(|said| !is(said, &order.pay_currency))
        {
            return PaymentEffect::Amiss("the currency of the payment differs from the currency of the order");
        }
        match (self.actually_paid, order.pay_amount) {
            (Some(paid), Some(wanted)) if paid >= wanted => PaymentEffect::Paid,
            _ => PaymentEffect::Amiss("the amount paid is less than the amount requested"),
        }
    }

    /// Whether it tells that money was given back.
    #[must_use]
    pub fn is_refund(&self) -> bool {
        self.payment_status == REFUNDED
    }

    /// Why staff should look at an order that is not paid by this payment any more, although some of its money came and was not given
    /// back (contract: billing 36).
    #[must_use]
    pub fn leaves(&self, order: &Order) -> Option<&'static str> {
        let came = !self.is_refund() && self.actually_paid.is_some_and(|paid| !paid.is_nothing());
        came.then(|| match self.judged(order) {
            PaymentEffect::Amiss(why) => why,
            _ => "the payment arrived, but the processor reported it as failed",
        })
    }

    /// Whether it tells again what has ended the order already.
    #[must_use]
    pub fn repeats(&self, order: &Order) -> bool {
        order.status == Status::Paid && order.paid_by.as_ref() == Some(&self.payment_id)
    }
}

fn ours<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OrderId>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|text| text.parse().ok()))
}

/// The processor writes it as a number or as a text.
///
/// # Errors
/// When it is neither, or too long.
pub fn payment_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let written = Box::<RawValue>::deserialize(deserializer)?;
    let id = written.get().trim_matches('"');
    let fits =
        (1..=ID_CHARS).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if fits && id != "null" { Ok(id.to_owned()) } else { Err(D::Error::custom("not a payment ID")) }
}
