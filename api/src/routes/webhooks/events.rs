//! What events tell (contract: events), for the contract alone: what happened is put together where it happens, and sent as
//! it is.
#![expect(dead_code, reason = "these types describe JSON that is never a Rust value here")]

use kitfleet_domain::challenges::ChallengeType;
use kitfleet_domain::events::EventType;
use kitfleet_domain::operations::FailureClass;
use kitfleet_domain::sessions::keeping::Reason;
use utoipa::ToSchema;
use utoipa::openapi::{Ref, RefOr, Schema};

use crate::http::openapi::{literally_true, named, one_of};

/// The types of challenges that there are.
pub fn challenge_type() -> RefOr<Schema> {
    named("ChallengeType", one_of(ChallengeType::NAMES, None))
}

/// What the `data` of an event's type is.
pub struct Payload {
    /// What has happened, in a line.
    pub summary: &'static str,
    /// The schema of `data`.
    pub data: RefOr<Schema>,
    /// It by its name, and what it refers to.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

impl Payload {
    /// That of this type.
    pub fn of(event: EventType) -> Self {
        match event {
            EventType::SessionCompleted => Self::new::<SessionCompleted>("A session was destroyed"),
            EventType::SessionFailed => Self::new::<SessionFailed>("A session errored"),
            EventType::ApiKeyRevoked => Self::new::<ApiKeyRevoked>("An API key was revoked"),
            EventType::SessionEgressCapabilityChanged => {
                Self::new::<SessionEgressCapabilityChanged>("It is known what a session's proxy can do")
            }
            EventType::CryptoOrderPaid => Self::new::<CryptoOrderPaid>("A crypto order was paid"),
            EventType::CryptoOrderFailed => Self::new::<CryptoOrderFailed>("A crypto order came to nothing"),
            EventType::SessionChallengeDetected => {
                Self::new::<SessionChallengeDetected>("A page wants to know whether a session is a person")
            }
            EventType::SessionProfileSaveFailed => {
                Self::new::<SessionProfileSaveFailed>("What a session leaves did not replace what its profile holds")
            }
            EventType::TestPing => Self::new::<TestPing>("Somebody tests the endpoint"),
        }
    }

    fn new<T: ToSchema>(summary: &'static str) -> Self {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        Self { summary, data: Ref::from_schema_name(T::name()).into(), schemas }
    }
}

/// The `data` of `session.completed`
#[derive(ToSchema)]
#[schema(example = json!({"session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "duration_ms": 61_204}))]
struct SessionCompleted {
    /// Which
    session_id: String,
    /// How long it lived
    duration_ms: u64,
    /// Only when nobody asked for it
    #[schema(schema_with = literally_true)]
    auto_destroyed: Option<bool>,
    /// Why it was destroyed when nobody asked for it
    #[schema(schema_with = destroyed_because)]
    reason: Option<String>,
}

fn destroyed_because() -> RefOr<Schema> {
    let causes =
        ["auto-destroyed: free-tier session duration cap", "auto-destroyed: session duration cap", "account suspended"];
    named("AutoDestroyReason", one_of(&causes, None))
}

/// The `data` of `session.failed`
#[derive(ToSchema)]
#[schema(example = json!({
    "session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "duration_ms": 8_113, "operation": "navigate",
    "error_name": "DriverError", "error_message": "The browser operation failed.",
}))]
struct SessionFailed {
    /// Which
    session_id: String,
    /// How long it lived; absent when that is not known
    #[schema(nullable = false)]
    duration_ms: Option<u64>,
    /// What was under way
    #[schema(schema_with = operation)]
    operation: String,
    /// What clients branch on
    #[schema(schema_with = error_name)]
    error_name: String,
    /// The same in words
    error_message: String,
}

fn operation() -> RefOr<Schema> {
    let operations = [
        "navigate",
        "interact",
        "gui_input",
        "wait",
        "state_capture",
        "capture",
        "extract",
        "search",
        "login",
        "unknown",
    ];
    named("FailedOperation", one_of(&operations, None))
}

fn error_name() -> RefOr<Schema> {
    let classes = [FailureClass::Timeout, FailureClass::Driver, FailureClass::NotIntegrated, FailureClass::Unknown];
    named("SessionErrorName", one_of(&classes.map(FailureClass::name), None))
}

/// The `data` of `api_key.revoked`
#[derive(ToSchema)]
#[schema(example = json!({
    "api_key_id": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "name": "CI", "revoked_at": "2026-11-20T18:05:00.123Z",
}))]
struct ApiKeyRevoked {
    /// Which
    api_key_id: String,
    /// What it was for
    name: String,
    /// When
    #[schema(format = DateTime)]
    revoked_at: String,
}

/// The `data` of `session.egress_capability_changed`
#[derive(ToSchema)]
struct SessionEgressCapabilityChanged {
    /// Which
    #[schema(example = "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e")]
    session_id: String,
    /// What its proxy can do
    egress_capabilities: EgressCapabilities,
}

/// What a session's egress can do
#[derive(ToSchema)]
#[schema(example = json!({"udp_associate": true, "quic_route": "tcp_fallback", "dns_remote_resolve": true, "warnings": []}))]
pub struct EgressCapabilities {
    /// Whether datagrams go through the proxy
    udp_associate: bool,
    /// How QUIC travels
    quic_route: String,
    /// Whether the proxy resolves names
    dns_remote_resolve: bool,
    /// What may surprise
    warnings: Vec<String>,
}

/// The `data` of `crypto.order.paid`
#[derive(ToSchema)]
#[schema(example = json!({
    "order_id": "ord_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "product": "api_builder", "price_cents": 9_900,
    "price_currency": "usd", "payment_id": "5745459419", "paid_at": "2026-11-20T18:05:00.123Z",
}))]
struct CryptoOrderPaid {
    /// Which
    order_id: String,
    /// What it buys
    product: String,
    /// What it costs, in hundredths of its currency
    price_cents: u64,
    /// The currency
    price_currency: String,
    /// What the payment processor calls it
    payment_id: String,
    /// When
    #[schema(format = DateTime)]
    paid_at: String,
}

/// The `data` of `crypto.order.failed`
#[derive(ToSchema)]
#[schema(example = json!({
    "order_id": "ord_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "product": "api_builder", "price_cents": 9_900,
    "price_currency": "usd", "payment_id": "5745459419", "failed_at": "2026-11-20T19:05:00.123Z", "reason": "expired",
}))]
struct CryptoOrderFailed {
    /// Which
    order_id: String,
    /// What it would have bought
    product: String,
    /// What it cost, in hundredths of its currency
    price_cents: u64,
    /// The currency
    price_currency: String,
    /// What the payment processor calls it
    payment_id: String,
    /// When
    #[schema(format = DateTime)]
    failed_at: String,
    /// Whether the processor said so, its time was over, or it was cleaned up
    #[schema(schema_with = order_failed_because)]
    reason: String,
}

fn order_failed_because() -> RefOr<Schema> {
    one_of(&["ipn", "expired", "swept"], None)
}

/// The `data` of `session.challenge_detected`
#[derive(ToSchema)]
#[schema(example = json!({
    "session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "challenge_id": "chl_019aa1de-6c00-7d3e-8f15-1b2c3d4e5f60",
    "challenge": {"type": "cloudflare_turnstile", "confidence": 0.9, "detail": "The page has a frame of challenges.cloudflare.com."},
}))]
struct SessionChallengeDetected {
    /// Which
    session_id: String,
    /// The challenge's id
    challenge_id: String,
    /// What it is
    challenge: Challenge,
}

/// What a page asks of whoever visits it
#[derive(ToSchema)]
struct Challenge {
    /// Whose it is
    #[schema(schema_with = challenge_type)]
    r#type: String,
    /// How sure that is
    #[schema(minimum = 0, maximum = 1)]
    confidence: f64,
    /// How it was told
    detail: String,
}

/// The `data` of `session.profile_save_failed`
#[derive(ToSchema)]
#[schema(example = json!({
    "session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "profile_id": "prof_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "reason": "degenerate_dump", "detail": "The browser holds nothing, and the profile holds something.",
}))]
struct SessionProfileSaveFailed {
    /// Which
    session_id: String,
    /// Its profile
    profile_id: String,
    /// Why
    #[schema(schema_with = save_failed_because)]
    reason: String,
    /// The same in words
    detail: String,
}

fn save_failed_because() -> RefOr<Schema> {
    named("ProfileSaveFailure", one_of(Reason::NAMES, None))
}

/// The `data` of `test.ping`
#[derive(ToSchema)]
#[schema(example = json!({
    "message": "This is a test of your webhook endpoint.", "endpoint_id": "whk_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "triggered_by_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
}))]
struct TestPing {
    /// For people
    message: String,
    /// Which endpoint
    endpoint_id: String,
    /// Whose member asked for it
    triggered_by_account_id: String,
}
