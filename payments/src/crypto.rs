//! The crypto processor, asked in its own words: the API of `NOWPayments`.

use std::fmt;
use std::time::Duration;

use kitfleet_domain::billing::amounts::Amount;
use kitfleet_domain::billing::ipn::{self, PaymentNotice};
use kitfleet_domain::billing::orders::Payment;
use kitfleet_domain::ids::OrderId;
use reqwest::header::HeaderValue;
use reqwest::{Client, RequestBuilder};
use serde::{Deserialize, Serialize};

use crate::exchange::{self, PaymentError};

/// Characters of an address that money is sent to.
const ADDRESS_CHARS: usize = 200;
/// Characters of a currency's name.
const CURRENCY_CHARS: usize = 20;

/// How the processor is reached; the root crate's configuration becomes this.
#[derive(Clone)]
pub struct CryptoConfig {
    /// Where its API is, without a trailing slash.
    pub base_url: String,
    /// What it is shown; without it nothing can be bought this way.
    pub api_key: Option<String>,
    /// What it signs its notices with; without it none is believed.
    pub ipn_secret: Option<String>,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// How long an order may be paid.
    pub payment_window: Duration,
    /// How long what was paid for lasts.
    pub period: Duration,
    /// From which age on the processor is asked about an order that waits.
    pub sweep_after: Duration,
}

impl fmt::Debug for CryptoConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CryptoConfig").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

impl Default for CryptoConfig {
    fn default() -> Self {
        Self {
            base_url: "https://api.nowpayments.io".to_owned(),
            api_key: None,
            ipn_secret: None,
            timeout: Duration::from_secs(20),
            payment_window: Duration::from_hours(1),
            period: Duration::from_hours(30 * 24),
            sweep_after: Duration::from_hours(8 * 24),
        }
    }
}

/// What an order costs, and where the processor tells of it.
#[derive(Debug)]
pub struct Price<'a> {
    /// Which order.
    pub order: OrderId,
    /// What it buys, in words.
    pub description: &'a str,
    /// How much,
    pub amount: Amount,
    /// in which currency,
    pub currency: &'a str,
    /// paid in this one.
    pub pay_currency: &'a str,
    /// Where notices go.
    pub callback_url: &'a str,
}

#[derive(Serialize)]
struct NewPayment<'a> {
    price_amount: Amount,
    price_currency: &'a str,
    pay_currency: &'a str,
    order_id: String,
    order_description: &'a str,
    ipn_callback_url: &'a str,
}

#[derive(Deserialize)]
struct MadePayment {
    #[serde(deserialize_with = "ipn::payment_id")]
    payment_id: String,
    pay_address: String,
    pay_amount: Amount,
    pay_currency: String,
}

/// What the processor is asked by.
#[derive(Clone)]
pub struct CryptoProcessor {
    http: Client,
    config: CryptoConfig,
}

impl CryptoProcessor {
    /// # Errors
    /// When the machine's certificates make no sense.
    pub fn new(config: CryptoConfig) -> reqwest::Result<Self> {
        Ok(Self { http: exchange::client()?, config })
    }

    /// How it is reached.
    #[must_use]
    pub fn config(&self) -> &CryptoConfig {
        &self.config
    }

    /// Whether something can be bought: the processor can be asked, and is believed when it says that it was paid.
    ///
    /// # Errors
    /// When it cannot.
    pub fn require(&self) -> Result<(), PaymentError> {
        if self.config.api_key.is_some() && self.config.ipn_secret.is_some() {
            Ok(())
        } else {
            Err(PaymentError::Unconfigured)
        }
    }

    /// Has a payment made for an order.
    ///
    /// # Errors
    /// When the processor makes none, or one that nobody could pay.
    pub async fn ask_for(&self, price: &Price<'_>) -> Result<Payment, PaymentError> {
        let body = NewPayment {
            price_amount: price.amount,
            price_currency: price.currency,
            pay_currency: price.pay_currency,
            order_id: price.order.to_string(),
            order_description: price.description,
            ipn_callback_url: price.callback_url,
        };
        let request = self.http.post(format!("{}/v1/payment", self.config.base_url)).json(&body);
        let made: MadePayment = exchange::answer(self.signed(request)?, self.config.timeout).await?;
        let MadePayment { payment_id, pay_address, pay_amount, pay_currency } = made;
        let is_plain =
            |text: &str, most| (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if pay_amount.is_nothing() || !is_plain(&pay_address, ADDRESS_CHARS) || !is_plain(&pay_currency, CURRENCY_CHARS)
        {
            return Err(PaymentError::Unusable);
        }
        Ok(Payment { payment_id, pay_address, pay_amount, pay_currency: pay_currency.to_ascii_lowercase() })
    }

    /// How a payment stands; `None` when the processor knows of none.
    ///
    /// # Errors
    /// When the processor does not say.
    pub async fn look_up(&self, payment_id: &str) -> Result<Option<PaymentNotice>, PaymentError> {
        let request = self.http.get(format!("{}/v1/payment/{payment_id}", self.config.base_url));
        match exchange::answer(self.signed(request)?, self.config.timeout).await {
            Ok(notice) => Ok(Some(notice)),
            Err(PaymentError::Refused(404)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn signed(&self, request: RequestBuilder) -> Result<RequestBuilder, PaymentError> {
        let key = self.config.api_key.as_deref().ok_or(PaymentError::Unconfigured)?;
        let mut key = HeaderValue::try_from(key).map_err(|_| PaymentError::Unconfigured)?;
        key.set_sensitive(true);
        Ok(request.header("x-api-key", key))
    }
}
