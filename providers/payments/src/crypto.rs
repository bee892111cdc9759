//! Client of the crypto processor: the API of `NOWPayments`.

use std::fmt;
use std::time::Duration;

use kitfleet_domain::billing::amounts::Amount;
use kitfleet_domain::billing::ipn::{self, PaymentNotice};
use kitfleet_domain::billing::orders::Payment;
use kitfleet_types::ids::OrderId;
use reqwest::header::HeaderValue;
use reqwest::{Client, RequestBuilder};
use serde::{Deserialize, Serialize};

use crate::exchange::{self, PaymentError};

const ADDRESS_CHARS: usize = 200;
const CURRENCY_CHARS: usize = 20;

#[derive(Clone)]
pub struct CryptoConfig {
    /// Base URL of the API, without a trailing slash.
    pub base_url: String,
    /// Without it, crypto payments are not offered.
    pub api_key: Option<String>,
    /// Verifies the processor's notices. Without it, all notices are rejected.
    pub ipn_secret: Option<String>,
    pub timeout: Duration,
    pub payment_window: Duration,
    /// Length of the period that an order pays for.
    pub period: Duration,
    /// From this age on, a pending order's payment is looked up at the processor.
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

#[derive(Debug)]
pub struct Price<'a> {
    pub order: OrderId,
    pub description: &'a str,
    pub amount: Amount,
    pub currency: &'a str,
    pub pay_currency: &'a str,
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

#[derive(Clone)]
pub struct CryptoProcessor {
    http: Client,
    config: CryptoConfig,
}

impl CryptoProcessor {
    pub fn new(config: CryptoConfig) -> reqwest::Result<Self> {
        Ok(Self { http: exchange::client()?, config })
    }

    #[must_use]
    pub fn config(&self) -> &CryptoConfig {
        &self.config
    }

    /// Both the API key and the secret for notices are configured.
    pub fn require(&self) -> Result<(), PaymentError> {
        if self.config.api_key.is_some() && self.config.ipn_secret.is_some() {
            Ok(())
        } else {
            Err(PaymentError::Unconfigured)
        }
    }

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
            |text: &str, max| (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if pay_amount.is_zero() || !is_plain(&pay_address, ADDRESS_CHARS) || !is_plain(&pay_currency, CURRENCY_CHARS) {
            return Err(PaymentError::Unusable);
        }
        Ok(Payment { payment_id, pay_address, pay_amount, pay_currency: pay_currency.to_ascii_lowercase() })
    }

    /// `None` if the processor does not know it.
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
