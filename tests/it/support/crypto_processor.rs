//! A crypto processor on loopback, which accepts the requests of `NOWPayments`' reference and signs its notices.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, Uri};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha512;
use tokio_util::task::AbortOnDropHandle;

use super::app::Builder;
use super::{Answer, App, serve};

pub const API_KEY: &str = "5JX4QG1-KN3M8ZT-PR0P9CE-8YQ7C9N";
pub const IPN_SECRET: &str = "q9fLsoJ1mN0ZbLr7GJ2V";
const NOTICES: &str = "/v1/billing/crypto-webhook";

pub struct CryptoProcessor {
    pub base_url: String,
    seen: Arc<Seen>,
    _server: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Seen {
    asked: Mutex<Vec<Value>>,
    replies: Mutex<VecDeque<Reply>>,
    payments: Mutex<HashMap<String, Value>>,
}

#[derive(Debug, Clone)]
pub enum Reply {
    Json(u16, Value),
    Hang,
}

impl CryptoProcessor {
    pub async fn start() -> Self {
        let seen = Arc::new(Seen::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&seen));
        let (base_url, server) = serve(router).await;
        Self { base_url, seen, _server: server }
    }

    pub fn answer(&self, reply: Reply) {
        self.seen.replies.lock().expect("no panic").push_back(reply);
    }

    pub fn asked(&self) -> Vec<Value> {
        self.seen.asked.lock().expect("no panic").clone()
    }

    /// Sets the state of a payment that it returns from now on.
    pub fn store_notice(&self, notice: &Value) {
        let id = notice["payment_id"].as_str().map_or_else(|| notice["payment_id"].to_string(), ToOwned::to_owned);
        self.seen.payments.lock().expect("no panic").insert(id, notice.clone());
    }
}

impl Builder {
    /// Two tiers.
    pub fn paid_in_crypto_at(self, base_url: &str) -> Self {
        self.set("billing.crypto.base_url", base_url)
            .set("billing.crypto.api_key", API_KEY)
            .set("billing.crypto.ipn_secret", IPN_SECRET)
            .set("billing.crypto.timeout", "2s")
            .set("billing.prices.api_starter", "4900")
            .set("billing.prices.api_builder", "19900")
            .set("rate_limits.billing_per_minute", "10000")
    }
}

/// JSON with keys sorted at every depth, without white space.
pub fn sorted(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            let members: Vec<_> =
                members.into_iter().map(|(key, value)| format!("{}:{}", json!(key), sorted(value))).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        scalar => scalar.to_string(),
    }
}

pub fn hmac(text: &str) -> String {
    let mut mac = Hmac::<Sha512>::new_from_slice(IPN_SECRET.as_bytes()).expect("any key");
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

/// In the processor's format, of a correct payment with these members changed.
pub fn notice(order: &Value, status: &str, otherwise: &Value) -> Value {
    let cents = order["price_cents"].as_i64().expect("a price");
    let mut notice = json!({
        "payment_id": order["payment_id"].as_str().expect("an id").parse::<i64>().expect("a number"),
        "payment_status": status,
        "order_id": order["id"],
        "order_description": "Kitfleet",
        "price_amount": cents / 100,
        "price_currency": order["price_currency"],
        "pay_amount": order["pay_amount"],
        "actually_paid": order["pay_amount"],
        "pay_currency": order["pay_currency"],
        "pay_address": order["pay_address"],
        "purchase_id": 5_837_122_679_i64,
        "fee": {"currency": "btc", "depositFee": 0, "withdrawalFee": 0.000_01, "serviceFee": 0},
    });
    for (key, value) in otherwise.as_object().into_iter().flatten() {
        notice[key] = value.clone();
    }
    notice
}

impl App {
    pub async fn deliver_crypto_notice(&self, notice: &Value) -> Answer {
        self.noticed(&notice.to_string(), Some(&hmac(&sorted(notice)))).await
    }

    /// With any signature, or without one.
    pub async fn noticed(&self, body: &str, signature: Option<&str>) -> Answer {
        let stranger = self.stranger();
        let request = stranger.request(Method::POST, NOTICES).header("content-type", "application/json");
        let request =
            signature.into_iter().fold(request, |request, signature| request.header("x-nowpayments-sig", signature));
        stranger.send(request.body(body.to_owned())).await
    }
}

async fn answer(
    State(seen): State<Arc<Seen>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let json = |status: u16, body: &Value| {
        Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .expect("an answer")
    };
    if headers.get("x-api-key").is_none_or(|key| key != API_KEY) {
        return json(403, &json!({"statusCode": 403, "code": "INVALID_API_KEY", "message": "Invalid api key"}));
    }
    if let (&Method::GET, Some(id)) = (&method, uri.path().strip_prefix("/v1/payment/")) {
        let payments = seen.payments.lock().expect("no panic");
        return payments
            .get(id)
            .map_or_else(|| json(404, &json!({"message": "Payment not found"})), |payment| json(200, payment));
    }
    let wanted: Value = serde_json::from_slice(&body).expect("JSON");
    let number = {
        let mut asked = seen.asked.lock().expect("no panic");
        asked.push(wanted.clone());
        asked.len()
    };
    let reply = seen.replies.lock().expect("no panic").pop_front();
    match reply {
        Some(Reply::Json(status, body)) => json(status, &body),
        Some(Reply::Hang) => std::future::pending().await,
        None if wanted["pay_currency"] == "nocoin" || !wanted["price_amount"].is_number() => json(
            400,
            &json!({"statusCode": 400, "code": "INVALID_REQUEST_PARAMS", "message": "Currency NOCOIN was not found"}),
        ),
        None => {
            let id = format!("57454594{number:02}");
            let payment = json!({
                "payment_id": id, "payment_status": "waiting", "pay_address": "bc1qxy2kgdygjrsqtzq2n0yrf2493p83kkfjhx0wlh",
                "price_amount": wanted["price_amount"], "price_currency": wanted["price_currency"], "pay_amount": 0.001_042_5,
                "amount_received": 0.001_03, "pay_currency": wanted["pay_currency"], "order_id": wanted["order_id"],
                "order_description": wanted["order_description"], "ipn_callback_url": wanted["ipn_callback_url"],
                "created_at": "2026-11-22T15:05:58.290Z", "updated_at": "2026-11-22T15:05:58.290Z", "purchase_id": "5837122679",
            });
            json(201, &payment)
        }
    }
}
