//! Purchase of a tier by card, and the billing portal (contract: billing 1 to 12).

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::account_share;
use kitfleet_domain::accounts::{self, Account};
use kitfleet_domain::billing::card::{self, OwnedSubscription};
use kitfleet_payments::{Payer, Purchase};
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use url::Url;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::paid_tier;
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::idempotency::IdempotencyKey;
use crate::http::json::{Json, Unchecked};
use crate::http::kinds;
use crate::http::openapi::{Body, Database, NoCardCustomer, Paying, RateLimited, Restricted, tier};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

/// Maximum time a request waits for other payment requests of the account and of the process.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of characters of a return URL.
const URL_CHARS: usize = 2_048;

pub fn routes() -> Routes {
    Routes::new()
        .allow(OWN_ACCOUNT, routes!(check_out))
        .allow(OWN_ACCOUNT, routes!(open_portal))
        .allow(OWN_ACCOUNT, routes!(get_subscription))
        .never_stored()
}

/// Tier to buy and the return URLs
#[derive(Deserialize, ToSchema)]
#[schema(as = CreateCheckoutSession, example = json!({
    "tier": "api_builder", "success_url": "https://example.com/done", "cancel_url": "https://example.com/plans",
}))]
struct NewCheckout {
    /// Tier to buy; it must have a price and differ from the tier that the account pays for
    #[schema(schema_with = paid_tier)]
    tier: String,
    /// URL the provider redirects to after payment; http or https
    #[schema(min_length = 1, max_length = 2048)]
    success_url: String,
    /// URL the provider redirects to when the purchase is cancelled; http or https
    #[schema(min_length = 1, max_length = 2048)]
    cancel_url: String,
}

/// A checkout session of the card provider
#[derive(Serialize, ToSchema)]
#[schema(as = CheckoutSession, example = json!({
    "checkout_url": "https://checkout.stripe.com/c/pay/cs_live_a1b2c3", "provider_session_id": "cs_live_a1b2c3",
}))]
struct Checkout {
    /// Payment page of the card provider
    checkout_url: String,
    /// The provider's ID of the checkout session
    provider_session_id: String,
}

/// A tier that can be bought.
struct PurchasableTier {
    tier: Tier,
    /// Price in US cents per month.
    price: u32,
}

/// Buy a tier by card
///
/// Returns a payment page of the card provider. The account changes tier when the provider reports that the subscription was
/// paid. A request repeated with the same `Idempotency-Key` does not begin a second purchase: the key is passed on to the
/// provider.
#[utoipa::path(
    post, path = "/v1/billing/checkout-session", tag = "Billing", operation_id = "createCheckoutSession",
    params(IdempotencyKey), request_body = NewCheckout,
    responses((status = 201, description = "The checkout session is created", body = Checkout), Restricted, Body, RateLimited, Paying),
)]
async fn check_out(
    caller: Caller,
    State(app): State<App>,
    IdempotencyKey(key): IdempotencyKey,
    body: Unchecked<NewCheckout>,
) -> Result<(StatusCode, Answer<Checkout>)> {
    let body = body.typed(|body| wanted(&app, body).map(drop))?;
    app.card.require()?;
    let id = caller.account_id;
    app.rate_limits.check(Bucket::Billing, id.to_string().as_str()).await?;
    let mut conn = app.db.acquire().await?;
    let account = accounts::find(&mut conn, id).await?.ok_or_else(Problem::account_gone)?;
    let wanted = wanted(&app, &body)?;
    let customer = card::customer_of(&mut conn, id).await?;
    let payer = customer.as_ref().unwrap_or(&account.email);
    let sent = match &key {
        Some(key) => Some(card::sent_key(&mut conn, id, key, payer).await?),
        None => None,
    };
    // A repeated request gets the first answer again, even if the purchase was paid in the meantime.
    if !sent.as_ref().is_some_and(|sent| sent.is_remembered) {
        refuse_paid_tier(&mut conn, &account, wanted.tier).await?;
    }
    drop(conn);
    let payer = sent.as_ref().map_or(payer, |sent| &sent.payer);
    let purchase = Purchase {
        account: id,
        tier: wanted.tier,
        price: wanted.price,
        payer: if payer.contains('@') { Payer::Email(payer) } else { Payer::Customer(payer) },
        success_url: &body.success_url,
        cancel_url: &body.cancel_url,
    };
    // Requests to the provider hold no database connection.
    account_share::release();
    let turn = app.payments.take(id, PATIENCE).await?;
    let session = app.card.check_out(&purchase, sent.as_ref().map(|sent| sent.key.as_str())).await?;
    drop(turn);
    let checkout = Checkout { checkout_url: session.url, provider_session_id: session.id };
    Ok((StatusCode::CREATED, Answer(checkout)))
}

/// Contract: billing 2, 10.
fn wanted(app: &App, body: &NewCheckout) -> Result<PurchasableTier, Invalid> {
    let tier = body.tier.parse().ok().filter(|tier| *tier != Tier::Free);
    let wanted = tier.and_then(|tier| Some(PurchasableTier { tier, price: app.config.prices.of(tier)? }));
    let mut rules = Rules::default();
    let message =
        if tier.is_none() { "must be a paid tier" } else { "cannot be bought on this deployment: it has no price" };
    rules.require(wanted.is_some(), "tier", message);
    for (field, url) in [("success_url", &body.success_url), ("cancel_url", &body.cancel_url)] {
        rules.note(web_address(field, url).err());
    }
    rules.check()?;
    wanted.ok_or_else(|| Invalid::field("tier", message))
}

async fn refuse_paid_tier(conn: &mut PgConnection, account: &Account, tier: Tier) -> Result<()> {
    if account.tier == tier && card::giver(conn, account.id).await?.is_some_and(|giver| giver.tier == tier) {
        return Err(Invalid::field("tier", "is the tier that the account already pays for").into());
    }
    Ok(())
}

fn web_address(field: &str, text: &str) -> Result<(), Invalid> {
    let mut rules = Rules::default();
    rules.length(text, 1, URL_CHARS, field);
    let is_plain = !text.contains(|letter: char| letter.is_control() || letter.is_whitespace());
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    rules.require(is_plain && url.is_some(), field, "must be an http or https URL");
    rules.check()
}

/// Return URL of the billing portal
#[derive(Deserialize, ToSchema)]
#[schema(as = CreatePortalSession, example = json!({"return_url": "https://example.com/account"}))]
struct NewPortal {
    /// URL of the portal's return link; http or https
    #[schema(min_length = 1, max_length = 2048)]
    return_url: String,
}

/// A billing portal session
#[derive(Serialize, ToSchema)]
#[schema(as = PortalSession, example = json!({"portal_url": "https://billing.stripe.com/p/session/test_a1b2c3"}))]
struct Portal {
    /// Page with the account's invoices, cards and subscriptions
    portal_url: String,
}

/// Open the billing portal
///
/// Returns a page of the card provider with the account's invoices, cards and subscriptions. An account that has never bought by
/// card gets 404.
#[utoipa::path(
    post, path = "/v1/billing/portal-session", tag = "Billing", operation_id = "createPortalSession",
    request_body = NewPortal,
    responses(
        (status = 201, description = "The portal session is created", body = Portal), Restricted, Body, NoCardCustomer, RateLimited, Paying,
    ),
)]
async fn open_portal(
    caller: Caller,
    State(app): State<App>,
    Json(body): Json<NewPortal>,
) -> Result<(StatusCode, Answer<Portal>)> {
    app.card.require()?;
    let id = caller.account_id;
    app.rate_limits.check(Bucket::Billing, id.to_string().as_str()).await?;
    web_address("return_url", &body.return_url)?;
    let customer = card::customer_of(&mut *app.db.acquire().await?, id).await?;
    let customer = customer.ok_or_else(|| Problem::new(&kinds::NOT_FOUND, "the account has bought nothing by card"))?;
    account_share::release();
    let turn = app.payments.take(id, PATIENCE).await?;
    let portal_url = app.card.open_portal(&customer, &body.return_url).await?;
    drop(turn);
    Ok((StatusCode::CREATED, Answer(Portal { portal_url })))
}

/// The subscription of an account
#[derive(Serialize, ToSchema)]
#[schema(as = BillingSubscription, example = json!({
    "tier": "api_builder", "status": "active", "current_period_end": "2026-12-20T18:05:00.000Z", "cancel_at_period_end": false,
    "provider": "card",
}))]
struct Subscription {
    #[schema(schema_with = tier)]
    tier: &'static str,
    /// Status at the card provider, such as `active`, `past_due` or `canceled`. It and the fields below are null without a
    /// subscription
    #[schema(required = true)]
    status: Option<String>,
    /// End of the current billing period (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    current_period_end: Option<Timestamp>,
    /// True when the subscription ends with the current period
    #[schema(required = true)]
    cancel_at_period_end: Option<bool>,
    /// Payment method: `card`
    #[schema(required = true)]
    provider: Option<&'static str>,
}

impl Subscription {
    fn of(account: &Account, shown: Option<OwnedSubscription>) -> Self {
        let tier = account.tier.name();
        match shown {
            Some(shown) => Self {
                tier,
                status: Some(shown.status),
                current_period_end: shown.current_period_end,
                cancel_at_period_end: Some(shown.cancel_at_period_end),
                provider: Some("card"),
            },
            None => Self { tier, status: None, current_period_end: None, cancel_at_period_end: None, provider: None },
        }
    }
}

/// Get the subscription
///
/// Returns the tier of the account and the status of its subscription.
#[utoipa::path(
    get, path = "/v1/billing/subscription", tag = "Billing", operation_id = "getSubscription",
    responses((status = 200, description = "The subscription", body = Subscription), Restricted, Database),
)]
async fn get_subscription(caller: Caller, State(app): State<App>) -> Result<Answer<Subscription>> {
    let mut conn = app.db.acquire().await?;
    let account = accounts::find(&mut conn, caller.account_id).await?.ok_or_else(Problem::account_gone)?;
    let shown = card::shown(&mut conn, account.id).await?;
    Ok(Answer(Subscription::of(&account, shown)))
}
