//! Webhook of the crypto processor (contract: billing 35 to 38, 43).

use axum::Json as Answer;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use kitfleet_domain::billing::ipn::PaymentNotice;
use kitfleet_domain::billing::ipn_signature;
use kitfleet_domain::blocking::run_blocking;
use kitfleet_jobs::billing::crypto;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::error::{Problem, Result};
use crate::http::json;
use crate::http::kinds;
use crate::http::metrics::{CryptoWebhook, count_crypto_webhook};
use crate::http::openapi::Telling;
use crate::http::routing::Routes;
use crate::http::state::App;

const SIGNATURE: &str = "x-nowpayments-sig";

pub fn routes() -> Routes {
    Routes::new().public(routes!(take))
}

/// A payment notification of the crypto processor
#[derive(ToSchema)]
#[expect(dead_code, reason = "the signature covers the raw body, which is parsed separately")]
#[schema(example = json!({
    "payment_id": 5_745_459_419_i64, "payment_status": "finished", "order_id": "ord_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "price_amount": 99, "price_currency": "usd", "pay_amount": 0.001_042, "actually_paid": 0.001_042, "pay_currency": "btc",
}))]
struct CryptoNotice {
    /// Payment ID
    payment_id: i64,
    /// Status of the payment
    payment_status: String,
    /// Order that the payment belongs to
    order_id: Option<String>,
    /// Requested amount in the price currency
    price_amount: f64,
    /// Currency of the price
    price_currency: String,
    /// Amount received
    actually_paid: Option<f64>,
    /// Currency of the payment
    pay_currency: Option<String>,
}

/// Acknowledgement of a notification
#[derive(Serialize, ToSchema)]
#[schema(as = CryptoNoticeReceived, example = json!({"received": true}))]
struct WebhookReceipt {
    /// Always true
    received: bool,
}

/// Receive a notification of the crypto processor
///
/// Only the crypto processor calls this route, and it signs its notifications. It resends every notification that is not answered
/// with 200.
#[utoipa::path(
    post, path = "/v1/billing/crypto-webhook", tag = "Billing", operation_id = "takeCryptoNotice",
    request_body = CryptoNotice,
    params(("x-nowpayments-sig" = String, Header, description = "Hexadecimal HMAC-SHA512 of the body with sorted keys")),
    responses((status = 200, description = "The notification is accepted", body = WebhookReceipt), Telling),
)]
async fn take(State(app): State<App>, request: Request) -> Result<Answer<WebhookReceipt>> {
    let (parts, body) = request.into_parts();
    let read = json::read(&parts, body, &app.config).await.map_err(|problem| (CryptoWebhook::Malformed, problem));
    let judged = read.and_then(|body| run_blocking(body.len(), || verify_notice(&app, &parts.headers, &body)));
    let notice = judged.map_err(|(outcome, problem)| {
        count_crypto_webhook(outcome);
        problem
    })?;
    // A notification that cannot be stored is counted when it is resent.
    crypto::take(&mut *app.db.acquire().await?, &notice, app.crypto.config().period).await?;
    count_crypto_webhook(CryptoWebhook::Ok);
    Ok(Answer(WebhookReceipt { received: true }))
}

/// Contract: billing 35.
fn verify_notice(app: &App, headers: &HeaderMap, body: &Bytes) -> Result<PaymentNotice, (CryptoWebhook, Problem)> {
    if body.is_empty() {
        return Err((CryptoWebhook::EmptyBody, Problem::bad_request("the request has no body")));
    }
    let Some(signature) = headers.get(SIGNATURE) else {
        return Err((CryptoWebhook::SignatureMissing, Problem::invalid(SIGNATURE, "is required")));
    };
    let invalid = |problem| (CryptoWebhook::SignatureInvalid, problem);
    let Some(secret) = app.config.crypto.ipn_secret.as_deref() else {
        let message = "this deployment has no webhook secret for the crypto processor";
        return Err(invalid(Problem::new(&kinds::FEATURE_UNAVAILABLE, message)));
    };
    // The keys are sorted before the signature is checked, so the work that an unsigned body can cause is limited first.
    json::require_few_values(body, app.config.limits.open_body_values)
        .map_err(|problem| (CryptoWebhook::Malformed, problem))?;
    if !ipn_signature::is_valid(signature.to_str().unwrap_or_default(), body, secret) {
        return Err(invalid(Problem::invalid(SIGNATURE, "is not a valid signature of this body")));
    }
    PaymentNotice::parse(body).map_err(|error| (CryptoWebhook::Malformed, Problem::bad_request(error.to_string())))
}
