//! The card provider (contract: billing 7, 8, 11), asked in its own words: Stripe's API.

use std::time::Duration;

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::billing::CURRENCY;
use kitfleet_domain::ids::AccountId;
use reqwest::Client;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::{Url, form_urlencoded};

use crate::exchange::{self, PaymentError};

/// Which version of its API it is asked in, whatever the deployment's account there would have.
const API_VERSION: &str = "2024-06-20";
const VERSION: HeaderName = HeaderName::from_static("stripe-version");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Characters of an address that it has customers sent to.
const URL_CHARS: usize = 8_192;

/// How the provider is reached; the root crate's configuration becomes this. Not `Debug`, because it holds secrets.
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
    /// For whom.
    pub account: AccountId,
    /// What.
    pub tier: Tier,
    /// Cents a month.
    pub price: u32,
    /// Who pays.
    pub payer: Payer<'a>,
    /// Where whoever has paid comes back to,
    pub success_url: &'a str,
    /// and whoever has not.
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
        Ok(Self { http: exchange::client()?, config })
    }

    /// Whether the provider can be asked at all.
    ///
    /// # Errors
    /// When it cannot.
    pub fn require(&self) -> Result<(), PaymentError> {
        if self.config.secret_key.is_some() { Ok(()) } else { Err(PaymentError::Unconfigured) }
    }

    /// Begins a purchase.
    ///
    /// # Errors
    /// When the provider does not.
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

    /// Opens the portal, where a customer sees to their subscriptions. Answers its address.
    ///
    /// # Errors
    /// When the provider does not.
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

/// Whether customers can be sent there.
fn is_web_address(text: &str) -> bool {
    text.len() <= URL_CHARS && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}
