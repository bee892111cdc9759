//! Client of the card provider (contract: billing 7, 8, 11): Stripe's API.

use std::time::Duration;

use kitfleet_domain::billing::CURRENCY;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Client;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::{Url, form_urlencoded};

use crate::exchange::{self, PaymentError};

/// Independent of the default version of the deployment's Stripe account.
const API_VERSION: &str = "2024-06-20";
const VERSION: HeaderName = HeaderName::from_static("stripe-version");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Bytes of a URL that customers are redirected to.
const URL_CHARS: usize = 8_192;

/// Not `Debug`, because it contains secrets.
#[derive(Clone)]
pub struct CardConfig {
    /// Base URL of the API, without a trailing slash.
    pub base_url: String,
    /// Without it, card payments are not offered.
    pub secret_key: Option<String>,
    /// Without it, all events are rejected.
    pub webhook_secret: Option<String>,
    pub timeout: Duration,
}

impl Default for CardConfig {
    fn default() -> Self {
        let base_url = "https://api.stripe.com".to_owned();
        Self { base_url, secret_key: None, webhook_secret: None, timeout: Duration::from_secs(20) }
    }
}

#[derive(Debug)]
pub enum Payer<'a> {
    Customer(&'a str),
    Email(&'a str),
}

#[derive(Debug)]
pub struct Purchase<'a> {
    pub account: AccountId,
    pub tier: Tier,
    /// Cents for a month.
    pub price: u32,
    pub payer: Payer<'a>,
    pub success_url: &'a str,
    /// Redirect URL if the customer cancels.
    pub cancel_url: &'a str,
}

#[derive(Debug, Deserialize)]
pub struct CheckoutSession {
    pub id: String,
    pub url: String,
}

#[derive(Deserialize)]
struct PortalSession {
    url: String,
}

pub struct CardProvider {
    http: Client,
    config: CardConfig,
}

impl CardProvider {
    pub fn new(config: CardConfig) -> reqwest::Result<Self> {
        Ok(Self { http: exchange::client()?, config })
    }

    pub fn require(&self) -> Result<(), PaymentError> {
        if self.config.secret_key.is_some() { Ok(()) } else { Err(PaymentError::Unconfigured) }
    }

    pub async fn check_out(&self, purchase: &Purchase<'_>, key: Option<&str>) -> Result<CheckoutSession, PaymentError> {
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
        if is_id && is_web_address(&session.url) { Ok(session) } else { Err(PaymentError::Unusable) }
    }

    /// Returns the portal's URL.
    pub async fn open_portal(&self, customer: &str, return_url: &str) -> Result<String, PaymentError> {
        let form = [("customer", customer), ("return_url", return_url)];
        let session: PortalSession = self.post("/v1/billing_portal/sessions", &form, None).await?;
        if is_web_address(&session.url) { Ok(session.url) } else { Err(PaymentError::Unusable) }
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        form: &[(&str, &str)],
        key: Option<&str>,
    ) -> Result<T, PaymentError> {
        let secret = self.config.secret_key.as_deref().ok_or(PaymentError::Unconfigured)?;
        let mut headers = HeaderMap::new();
        let mut bearer = HeaderValue::try_from(format!("Bearer {secret}")).map_err(|_| PaymentError::Unconfigured)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(VERSION, HeaderValue::from_static(API_VERSION));
        if let Some(key) = key {
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::try_from(key).map_err(|_| PaymentError::Unusable)?);
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self.http.post(format!("{}{path}", self.config.base_url)).headers(headers).body(body);
        exchange::answer(request, self.config.timeout).await
    }
}

fn is_web_address(text: &str) -> bool {
    text.len() <= URL_CHARS && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}
