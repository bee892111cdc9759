//! The card provider (contract: billing 7, 8, 11), asked in its own words: Stripe's API.
//!
//! A request is never sent twice by us: whoever sent it may, with the same idempotency key.

use std::time::Duration;

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::billing::CURRENCY;
use kitfleet_domain::ids::AccountId;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use url::{Url, form_urlencoded};

use crate::http::error::Problem;
use crate::http::kinds;

/// Which version of its API it is asked in, whatever the deployment's account there would have.
pub const API_VERSION: &str = "2024-06-20";
const VERSION: HeaderName = HeaderName::from_static("stripe-version");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const MOST_BYTES: usize = 256 * 1024;
/// Characters of an address that it has customers sent to.
const URL_CHARS: usize = 8_192;

/// How the card provider is reached; the root crate's configuration becomes this. Not `Debug`, because it holds secrets.
#[derive(Clone)]
pub struct CardConfig {
    /// Where its API is, without a trailing slash.
    pub base_url: String,
    /// What it is shown; without it nothing can be bought by card.
    pub secret_key: Option<String>,
    /// What it signs its events with; without it none is believed.
    pub webhook_secret: Option<String>,
    /// How long it may take to answer.
    pub timeout: Duration,
}

impl Default for CardConfig {
    fn default() -> Self {
        let base_url = "https://api.stripe.com".to_owned();
        Self { base_url, secret_key: None, webhook_secret: None, timeout: Duration::from_secs(20) }
    }
}

/// Why the provider did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// This deployment takes no cards.
    #[error("this deployment takes no cards")]
    Unconfigured,
    /// Nobody was there, or they broke off.
    #[error("the payment provider could not be reached")]
    Unreachable,
    /// It took too long.
    #[error("the payment provider did not answer in time")]
    Late,
    /// It refuses, with this status.
    #[error("the payment provider answered {0}")]
    Refused(u16),
    /// It says something that makes no sense here.
    #[error("the payment provider's answer cannot be used")]
    Unusable,
}

impl From<CardError> for Problem {
    fn from(error: CardError) -> Self {
        let detail = error.to_string();
        match error {
            CardError::Unconfigured => Self::new(&kinds::FEATURE_UNAVAILABLE, detail),
            CardError::Refused(status) => payment_failed(detail).with("provider_status", status),
            CardError::Unreachable | CardError::Late | CardError::Unusable => payment_failed(detail),
        }
    }
}

fn payment_failed(detail: String) -> Problem {
    tracing::warn!(detail, "the card provider did not do what it was asked");
    Problem::new(&kinds::DRIVER_ERROR, detail).titled("PaymentProviderError")
}

/// Who pays, as the provider is told.
#[derive(Debug)]
pub enum Payer<'a> {
    /// A customer that it has.
    Customer(&'a str),
    /// Somebody with this address.
    Email(&'a str),
}

/// What a customer buys.
#[derive(Debug)]
pub struct Purchase<'a> {
    pub account: AccountId,
    pub tier: Tier,
    /// Cents a month.
    pub price: u32,
    pub payer: Payer<'a>,
    pub success_url: &'a str,
    pub cancel_url: &'a str,
}

/// Where a purchase goes on.
#[derive(Debug, Deserialize)]
pub struct CheckoutSession {
    /// What the provider calls it.
    pub id: String,
    /// Where the customer pays.
    pub url: String,
}

#[derive(Deserialize)]
struct PortalSession {
    url: String,
}

/// What the provider is asked by.
pub struct CardProvider {
    http: Client,
    config: CardConfig,
}

impl CardProvider {
    /// # Errors
    /// When the machine's certificates make no sense.
    pub fn new(config: CardConfig) -> reqwest::Result<Self> {
        let http = Client::builder().no_proxy().redirect(redirect::Policy::none()).connect_timeout(CONNECT_WITHIN);
        let http = http.retry(reqwest::retry::never()).user_agent(concat!("kitfleet/", env!("CARGO_PKG_VERSION")));
        Ok(Self { http: http.build()?, config })
    }

    /// Whether the provider can be asked at all.
    ///
    /// # Errors
    /// When it cannot.
    pub fn require(&self) -> Result<(), CardError> {
        if self.config.secret_key.is_some() { Ok(()) } else { Err(CardError::Unconfigured) }
    }

    /// Begins a purchase.
    ///
    /// # Errors
    /// When the provider does not.
    pub async fn check_out(&self, purchase: &Purchase<'_>, key: Option<&str>) -> Result<CheckoutSession, CardError> {
        let account = purchase.account.to_string();
        let (price, tier) = (purchase.price.to_string(), purchase.tier.name());
        let product = format!("Kitfleet {tier}");
        let payer = match purchase.payer {
            Payer::Customer(customer) => ("customer", customer),
            Payer::Email(email) => ("customer_email", email),
        };
        let session: CheckoutSession = self
            .post(
                "/v1/checkout/sessions",
                &[
                    ("mode", "subscription"),
                    ("client_reference_id", &account),
                    payer,
                    ("success_url", purchase.success_url),
                    ("cancel_url", purchase.cancel_url),
                    ("line_items[0][quantity]", "1"),
                    ("line_items[0][price_data][currency]", CURRENCY),
                    ("line_items[0][price_data][unit_amount]", &price),
                    ("line_items[0][price_data][recurring][interval]", "month"),
                    ("line_items[0][price_data][product_data][name]", &product),
                    ("metadata[account_id]", &account),
                    ("metadata[tier]", tier),
                    ("subscription_data[metadata][account_id]", &account),
                    ("subscription_data[metadata][tier]", tier),
                ],
                key,
            )
            .await?;
        let is_id = (1..=255).contains(&session.id.len()) && session.id.bytes().all(|byte| byte.is_ascii_graphic());
        if is_id && is_web_address(&session.url) { Ok(session) } else { Err(CardError::Unusable) }
    }

    /// Opens the portal, where a customer sees to their subscriptions. Answers its address.
    ///
    /// # Errors
    /// When the provider does not.
    pub async fn open_portal(&self, customer: &str, return_url: &str) -> Result<String, CardError> {
        let form = [("customer", customer), ("return_url", return_url)];
        let session: PortalSession = self.post("/v1/billing_portal/sessions", &form, None).await?;
        if is_web_address(&session.url) { Ok(session.url) } else { Err(CardError::Unusable) }
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        form: &[(&str, &str)],
        key: Option<&str>,
    ) -> Result<T, CardError> {
        let secret = self.config.secret_key.as_deref().ok_or(CardError::Unconfigured)?;
        let mut headers = HeaderMap::new();
        let mut bearer = HeaderValue::try_from(format!("Bearer {secret}")).map_err(|_| CardError::Unconfigured)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(VERSION, HeaderValue::from_static(API_VERSION));
        if let Some(key) = key {
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::try_from(key).map_err(|_| CardError::Unusable)?);
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self.http.post(format!("{}{path}", self.config.base_url)).headers(headers).body(body);
        let exchange = async {
            let response = request.send().await.map_err(|_| CardError::Unreachable)?;
            if !response.status().is_success() {
                return Err(CardError::Refused(response.status().as_u16()));
            }
            let answer = whole(response).await?;
            serde_json::from_slice(&answer).map_err(|_| CardError::Unusable)
        };
        timeout(self.config.timeout, exchange).await.unwrap_or(Err(CardError::Late))
    }
}

async fn whole(mut response: Response) -> Result<Vec<u8>, CardError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| CardError::Unreachable)? {
        if body.len() + chunk.len() > MOST_BYTES {
            return Err(CardError::Unusable);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Whether customers can be sent there.
fn is_web_address(text: &str) -> bool {
    text.len() <= URL_CHARS && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}
