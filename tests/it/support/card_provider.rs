//! A card provider on loopback. It accepts the requests that Stripe's reference allows, rejects others with Stripe's errors,
//! and remembers idempotency keys.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use futures_util::stream;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio_util::task::AbortOnDropHandle;
use url::form_urlencoded;

use super::app::Builder;
use super::{Answer, App, serve};

pub const SECRET_KEY: &str = "sk_test_51Nq3kLJ8t2Rz0VbY";
pub const WEBHOOK_SECRET: &str = "whsec_5WbX5kEWLlfzsGNjH64I8lOOqUB6e8FH";
const EVENTS: &str = "/v1/billing/card-webhook";

type Form = BTreeMap<String, String>;
type Parameter = (&'static str, fn(&str) -> bool);

/// Requests without a prepared reply receive Stripe's response.
pub struct CardProvider {
    pub base_url: String,
    seen: Arc<Seen>,
    _server: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Seen {
    asked: Mutex<Vec<Asked>>,
    replies: Mutex<VecDeque<Reply>>,
    remembered: Mutex<HashMap<String, (Form, Value)>>,
    forgets: AtomicBool,
}

#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub headers: HeaderMap,
    pub form: Form,
}

#[derive(Debug, Clone)]
pub enum Reply {
    Json(u16, Value),
    Hang,
    /// At full speed.
    Endless,
    Redirect(String),
}

fn error(kind: &str, message: &str) -> Value {
    json!({"error": {"type": kind, "message": message}})
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
    }

    fn complaint(&self) -> Option<(u16, Value)> {
        let refuse = |message: String| Some((400, error("invalid_request_error", &message)));
        if self.header("authorization") != format!("Bearer {SECRET_KEY}") {
            return Some((401, error("invalid_request_error", "Invalid API Key provided")));
        }
        if self.header("content-type") != "application/x-www-form-urlencoded" {
            return refuse("This is no form".to_owned());
        }
        let version = self.header("stripe-version");
        let date = version.split('.').next().unwrap_or_default();
        if date.len() != 10 || date.split('-').map(str::len).ne([4, 2, 2]) {
            return refuse(format!("Invalid Stripe API version: {version}"));
        }
        let parameters: &[Parameter] = match self.path.as_str() {
            "/v1/checkout/sessions" => &[
                ("mode", |mode| mode == "subscription"),
                ("client_reference_id", |id| (1..=200).contains(&id.len())),
                ("success_url", is_url),
                ("cancel_url", is_url),
                ("line_items[0][quantity]", |count| count == "1"),
                ("line_items[0][price_data][currency]", |code| code == "usd"),
                ("line_items[0][price_data][unit_amount]", |cents| cents.parse().is_ok_and(|cents: u32| cents > 0)),
                ("line_items[0][price_data][recurring][interval]", |interval| interval == "month"),
                ("line_items[0][price_data][product_data][name]", |name| !name.is_empty()),
                ("metadata[account_id]", |id| id.starts_with("acc_")),
                ("metadata[tier]", |tier| !tier.is_empty()),
                ("subscription_data[metadata][account_id]", |id| id.starts_with("acc_")),
                ("subscription_data[metadata][tier]", |tier| !tier.is_empty()),
            ],
            "/v1/billing_portal/sessions" => &[("customer", |id| id.starts_with("cus_")), ("return_url", is_url)],
            path => {
                return Some((
                    404,
                    error("invalid_request_error", &format!("Unrecognized request URL (POST: {path})")),
                ));
            }
        };
        for (name, holds) in parameters {
            match self.form.get(*name) {
                None => return refuse(format!("Missing required param: {name}.")),
                Some(value) if !holds(value) => return refuse(format!("Invalid {name}: {value}")),
                Some(_) => {}
            }
        }
        let payers: Vec<_> =
            self.form.keys().filter(|name| !parameters.iter().any(|(known, _)| known == name)).collect();
        let is_checkout = self.path == "/v1/checkout/sessions";
        match payers[..] {
            [] if !is_checkout => None,
            [payer] if is_checkout && (payer == "customer" || payer == "customer_email") => None,
            [] => refuse("Nobody pays".to_owned()),
            [first, ..] => refuse(format!("Received unknown parameter: {first}")),
        }
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

impl CardProvider {
    pub async fn start() -> Self {
        let seen = Arc::new(Seen::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&seen));
        let (base_url, server) = serve(router).await;
        Self { base_url, seen, _server: server }
    }

    pub fn answer(&self, reply: Reply) {
        self.seen.replies.lock().expect("no panic").push_back(reply);
    }

    /// A reused key is then not an error.
    pub fn forget_keys(&self) {
        self.seen.forgets.store(true, Ordering::Relaxed);
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.seen.asked.lock().expect("no panic").clone()
    }
}

impl Builder {
    /// Three tiers.
    pub fn selling_at(self, base_url: &str) -> Self {
        self.set("billing.card.base_url", base_url)
            .set("billing.card.secret_key", SECRET_KEY)
            .set("billing.card.webhook_secret", WEBHOOK_SECRET)
            .set("billing.prices.solo_manual", "1900")
            .set("billing.prices.api_starter", "4900")
            .set("billing.prices.api_builder", "19900")
            .set("rate_limits.billing_per_minute", "10000")
    }
}

pub fn signature(body: &str, secret: &str, at: i64) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key");
    mac.update(format!("{at}.{body}").as_bytes());
    format!("t={at},v1={}", hex::encode(mac.finalize().into_bytes()))
}

pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    now.try_into().expect("a time")
}

/// In Stripe's format.
pub fn event(id: &str, kind: &str, created: i64, object: &Value) -> Value {
    json!({
        "id": id, "object": "event", "api_version": "2024-06-20", "created": created, "livemode": false, "type": kind,
        "pending_webhooks": 1, "request": {"id": null, "idempotency_key": null}, "data": {"object": object},
    })
}

impl App {
    pub async fn deliver_card_event(&self, event: &Value) -> Answer {
        let body = event.to_string();
        let header = signature(&body, WEBHOOK_SECRET, now());
        self.deliver_card_event_signed_as(&body, Some(&header)).await
    }

    /// With any signature, or without one.
    pub async fn deliver_card_event_signed_as(&self, body: &str, signature: Option<&str>) -> Answer {
        let stranger = self.stranger();
        let request = stranger.request(Method::POST, EVENTS).header("content-type", "application/json");
        let request = match signature {
            Some(signature) => request.header("stripe-signature", signature),
            None => request,
        };
        stranger.send(request.body(body.to_owned())).await
    }
}

async fn answer(State(seen): State<Arc<Seen>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let form = form_urlencoded::parse(&body).into_owned().collect();
    let asked = Asked { path: uri.path().to_owned(), headers, form };
    seen.asked.lock().expect("no panic").push(asked.clone());
    let reply = seen.replies.lock().expect("no panic").pop_front();
    let response = Response::builder().header("content-type", "application/json");
    let response = match reply {
        None => {
            let (status, body) = seen.as_stripe(&asked);
            response.status(status).body(Body::from(body.to_string()))
        }
        Some(Reply::Json(status, body)) => response.status(status).body(Body::from(body.to_string())),
        Some(Reply::Hang) => std::future::pending().await,
        Some(Reply::Endless) => {
            let chunks = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 16_384])));
            response.body(Body::from_stream(chunks))
        }
        Some(Reply::Redirect(to)) => response.status(307).header("location", to).body(Body::empty()),
    };
    response.expect("an answer")
}

impl Seen {
    fn as_stripe(&self, asked: &Asked) -> (u16, Value) {
        if let Some(complaint) = asked.complaint() {
            return complaint;
        }
        let mut remembered = self.remembered.lock().expect("no panic");
        let key = asked.header("idempotency-key");
        if let Some((form, answer)) = remembered.get(key) {
            if *form == asked.form {
                return (200, answer.clone());
            }
            let message =
                "Keys for idempotent requests can only be used with the same parameters they were first used with.";
            return (400, error("idempotency_error", message));
        }
        let number = self.asked.lock().expect("no panic").len();
        let answer = if asked.path == "/v1/checkout/sessions" {
            let id = format!("cs_test_{number}");
            json!({"id": id, "object": "checkout.session", "mode": "subscription", "status": "open", "payment_status": "unpaid",
                   "url": format!("https://checkout.stripe.com/c/pay/{id}#fid1d2BpamRh")})
        } else {
            let id = format!("bps_{number}");
            json!({"id": id, "object": "billing_portal.session", "url": format!("https://billing.stripe.com/p/session/{id}")})
        };
        if !key.is_empty() && !self.forgets.load(Ordering::Relaxed) {
            remembered.insert(key.to_owned(), (asked.form.clone(), answer.clone()));
        }
        (200, answer)
    }
}
