//! Webhook of the card provider (contract: billing 13 to 16, 26).

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json as Answer;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use kitfleet_domain::billing::card_events::Event;
use kitfleet_domain::billing::card_signature;
use kitfleet_domain::blocking::run_blocking;
use kitfleet_jobs::billing::card::{self, EventOutcome};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::error::{Problem, Result};
use crate::http::json;
use crate::http::kinds;
use crate::http::metrics::{CardWebhook, count_card_webhook};
use crate::http::openapi::Telling;
use crate::http::routing::Routes;
use crate::http::state::App;

const SIGNATURE: &str = "stripe-signature";

pub fn routes() -> Routes {
    Routes::new().public(routes!(receive))
}

/// An event of the card provider
#[derive(ToSchema)]
#[expect(dead_code, reason = "the signature covers the raw body, which is parsed separately")]
#[schema(example = json!({
    "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy", "type": "invoice.paid", "created": 1_686_089_970,
    "data": {"object": {"id": "in_1NG8Du2eZvKYlo2C", "amount_paid": 9900, "currency": "usd", "customer": "cus_9s6XKzkNRiz8i3"}},
}))]
struct CardEvent {
    /// Event ID; a redelivered event has the same ID
    id: String,
    /// Type of the event; unknown types are accepted and ignored
    r#type: String,
    /// Time of the event in Unix seconds
    created: i64,
    /// Subject of the event
    data: CardEventData,
}

/// Subject of an event
#[derive(ToSchema)]
#[expect(dead_code, reason = "the signature covers the raw body, which is parsed separately")]
struct CardEventData {
    /// State of the object at the time of the event
    #[schema(value_type = Object)]
    object: Map<String, Value>,
}

/// Acknowledgement of an event
#[derive(Serialize, ToSchema)]
#[schema(as = CardEventReceived, example = json!({"received": true}))]
struct WebhookReceipt {
    /// Always true
    received: bool,
}

/// An event that was rejected.
struct Refused {
    outcome: CardWebhook,
    problem: Problem,
}

impl Refused {
    fn of(outcome: CardWebhook, problem: Problem) -> Self {
        Self { outcome, problem }
    }

    /// A failure on this side; the provider redelivers the event.
    fn ours(error: &dyn std::fmt::Display) -> Self {
        Self::of(CardWebhook::Error, Problem::internal(error))
    }
}

/// Receive an event of the card provider
///
/// Only the card provider calls this route, and it signs its events. It redelivers every event that is not answered with 200.
#[utoipa::path(
    post, path = "/v1/billing/card-webhook", tag = "Billing", operation_id = "takeCardEvent",
    request_body = CardEvent,
    params(("Stripe-Signature" = String, Header, description = "`t=<seconds>,v1=<hex>`: an HMAC-SHA256 of the time and the body")),
    responses((status = 200, description = "The event is stored, or was already stored", body = WebhookReceipt), Telling),
)]
async fn receive(State(app): State<App>, request: Request) -> Result<Answer<WebhookReceipt>> {
    let taken = verify_event(&app, request).await;
    count_card_webhook(match &taken {
        Ok(EventOutcome::Handled) => CardWebhook::Handled,
        Ok(EventOutcome::Duplicate) => CardWebhook::Duplicate,
        Ok(EventOutcome::Ignored) => CardWebhook::Ignored,
        Err(refused) => refused.outcome,
    });
    taken.map(|_| Answer(WebhookReceipt { received: true })).map_err(|refused| refused.problem)
}

/// Contract: billing 13.
async fn verify_event(app: &App, request: Request) -> Result<EventOutcome, Refused> {
    let (parts, body) = request.into_parts();
    let body =
        json::read(&parts, body, &app.config).await.map_err(|problem| Refused::of(CardWebhook::Malformed, problem))?;
    if body.is_empty() {
        return Err(Refused::of(CardWebhook::EmptyBody, Problem::bad_request("the request has no body")));
    }
    let event = run_blocking(body.len(), || event(app, &parts.headers, &body))?;
    let mut conn = app.db.acquire().await.map_err(|error| Refused::ours(&error))?;
    card::take(&mut conn, &event).await.map_err(|error| Refused::ours(&error))
}

fn event(app: &App, headers: &HeaderMap, body: &Bytes) -> Result<Event, Refused> {
    let Some(signature) = headers.get(SIGNATURE) else {
        let problem = Problem::invalid("Stripe-Signature", "is required");
        return Err(Refused::of(CardWebhook::SignatureMissing, problem));
    };
    let Some(secret) = app.config.card.webhook_secret.as_deref() else {
        let problem =
            Problem::new(&kinds::FEATURE_UNAVAILABLE, "this deployment has no webhook secret for the card provider");
        return Err(Refused::of(CardWebhook::Error, problem));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|now| i64::try_from(now.as_secs()).ok());
    let now = now.unwrap_or_default();
    let signature = signature.to_str().unwrap_or_default();
    if !card_signature::is_valid(signature, body, secret, now) {
        let problem = Problem::invalid("Stripe-Signature", "is not a valid signature of this body, or is too old");
        return Err(Refused::of(CardWebhook::SignatureInvalid, problem));
    }
    Event::parse(body, now)
        .map_err(|error| Refused::of(CardWebhook::Malformed, Problem::bad_request(error.to_string())))
}
