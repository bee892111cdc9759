//! What the crypto processor tells us (contract: billing 35 to 38, 43).

use axum::Json as Answer;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use kitfleet_domain::billing::ipn::Notice;
use kitfleet_domain::billing::ipn_signature;
use kitfleet_domain::heavy::heavy;
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

/// A notice, as the processor writes it
#[derive(ToSchema)]
#[expect(dead_code, reason = "what is signed is read as it came")]
#[schema(example = json!({
    "payment_id": 5_745_459_419_i64, "payment_status": "finished", "order_id": "ord_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "price_amount": 99, "price_currency": "usd", "pay_amount": 0.001_042, "actually_paid": 0.001_042, "pay_currency": "btc",
}))]
struct CryptoNotice {
    /// Which payment
    payment_id: i64,
    /// How it stands
    payment_status: String,
    /// What it is for
    order_id: Option<String>,
    /// What was to be paid
    price_amount: f64,
    /// In which currency
    price_currency: String,
    /// What has come
    actually_paid: Option<f64>,
    /// Of what
    pay_currency: Option<String>,
}

/// A notice was taken
#[derive(Serialize, ToSchema)]
#[schema(as = CryptoNoticeReceived, example = json!({"received": true}))]
struct Received {
    /// Always true
    received: bool,
}

/// Take a notice of the crypto processor
///
/// For the processor alone, which signs what it sends. Whatever is not answered 200 comes again.
#[utoipa::path(
    post, path = "/v1/billing/crypto-webhook", tag = "Billing", operation_id = "takeCryptoNotice",
    request_body = CryptoNotice,
    params(("x-nowpayments-sig" = String, Header, description = "Hex of an HMAC-SHA512 of the body with its keys sorted")),
    responses((status = 200, description = "It was taken", body = Received), Telling),
)]
async fn take(State(app): State<App>, request: Request) -> Result<Answer<Received>> {
    let (parts, body) = request.into_parts();
    let read = json::read(&parts, body, &app.config).await.map_err(|problem| (CryptoWebhook::Malformed, problem));
    let judged = read.and_then(|body| heavy(body.len(), || judge(&app, &parts.headers, &body)));
    let notice = judged.map_err(|(outcome, problem)| {
        count_crypto_webhook(outcome);
        problem
    })?;
    // What cannot be stored is counted when it comes again.
    crypto::take(&mut *app.db.acquire().await?, &notice, app.crypto.config().period).await?;
    count_crypto_webhook(CryptoWebhook::Ok);
    Ok(Answer(Received { received: true }))
}

/// Contract: billing 35.
fn judge(app: &App, headers: &HeaderMap, body: &Bytes) -> Result<Notice, (CryptoWebhook, Problem)> {
    if body.is_empty() {
        return Err((CryptoWebhook::EmptyBody, Problem::bad_request("the request has no body")));
    }
    let Some(signature) = headers.get(SIGNATURE) else {
        return Err((CryptoWebhook::SignatureMissing, Problem::invalid(SIGNATURE, "is required")));
    };
    let invalid = |problem| (CryptoWebhook::SignatureInvalid, problem);
    let Some(secret) = app.config.crypto.ipn_secret.as_deref() else {
        let told = "this deployment has no secret of the crypto processor's";
        return Err(invalid(Problem::new(&kinds::FEATURE_UNAVAILABLE, told)));
    };
    // Whoever signs it, its keys are sorted before that is known.
    json::require_few_values(body, app.config.limits.open_body_values)
        .map_err(|problem| (CryptoWebhook::Malformed, problem))?;
    if !ipn_signature::is_valid(signature.to_str().unwrap_or_default(), body, secret) {
        return Err(invalid(Problem::invalid(SIGNATURE, "does not sign this body with our secret")));
    }
    Notice::parse(body).map_err(|error| (CryptoWebhook::Malformed, Problem::bad_request(error.to_string())))
}
