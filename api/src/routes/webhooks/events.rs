//! Payload schemas of webhook events (contract: events). They exist only for the OpenAPI document; payloads are built at the
//! source of each event.
#![expect(dead_code, reason = "these types describe JSON that is never a Rust value here")]

use kitfleet_domain::challenges::ChallengeType;
use kitfleet_domain::events::EventType;
use kitfleet_domain::sessions::profile_lease::Reason;
use kitfleet_types::operations::FailureClass;
use utoipa::ToSchema;
use utoipa::openapi::{Ref, RefOr, Schema};

use crate::http::openapi::{const_true, named, one_of};

/// Known types of challenges.
pub fn challenge_type() -> RefOr<Schema> {
    named("ChallengeType", one_of(ChallengeType::NAMES, None))
}

/// Schema of an event type's `data`.
pub struct Payload {
    /// Summary of the event in one line.
    pub summary: &'static str,
    /// Schema of `data`.
    pub data: RefOr<Schema>,
    /// The schema and the schemas it refers to, by name.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

impl Payload {
    /// The payload of an event type.
    pub fn of(event: EventType) -> Self {
        match event {
            EventType::SessionCompleted => Self::new::<SessionCompleted>("A session was destroyed"),
            EventType::SessionFailed => Self::new::<SessionFailed>("A session errored"),
            EventType::ApiKeyRevoked => Self::new::<ApiKeyRevoked>("An API key was revoked"),
            EventType::SessionEgressCapabilityChanged => {
                Self::new::<SessionEgressCapabilityChanged>("The capabilities of a session's proxy are known")
            }
            EventType::CryptoOrderPaid => Self::new::<CryptoOrderPaid>("A crypto order was paid"),
            EventType::CryptoOrderFailed => Self::new::<CryptoOrderFailed>("A crypto order failed"),
            EventType::SessionChallengeDetected => {
                Self::new::<SessionChallengeDetected>("A page challenges a session to prove that it is human")
            }
            EventType::SessionProfileSaveFailed => {
                Self::new::<SessionProfileSaveFailed>("A session's state could not be saved to its profile")
            }
            EventType::TestPing => Self::new::<TestPing>("A test of the endpoint"),
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
    /// Session ID
    session_id: String,
    /// Lifetime of the session in milliseconds
    duration_ms: u64,
    /// True when the service destroyed the session without a request; absent otherwise
    #[schema(schema_with = const_true)]
    auto_destroyed: Option<bool>,
    /// Reason the service destroyed the session
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
    /// Session ID
    session_id: String,
    /// Lifetime of the session in milliseconds; absent when unknown
    #[schema(nullable = false)]
    duration_ms: Option<u64>,
    /// Operation that was in progress
    #[schema(schema_with = operation)]
    operation: String,
    /// Machine-readable error name for clients to branch on
    #[schema(schema_with = error_name)]
    error_name: String,
    /// Error message for people
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

/// Known names of errors that end a session.
pub fn error_name() -> RefOr<Schema> {
    let classes = [FailureClass::Timeout, FailureClass::Driver, FailureClass::NotIntegrated, FailureClass::Unknown];
    named("SessionErrorName", one_of(&classes.map(FailureClass::name), None))
}

/// The `data` of `api_key.revoked`
#[derive(ToSchema)]
#[schema(example = json!({
    "api_key_id": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "name": "CI", "revoked_at": "2026-11-20T18:05:00.123Z",
}))]
struct ApiKeyRevoked {
    /// API key ID
    api_key_id: String,
    /// Name of the key
    name: String,
    /// Time the key was revoked (RFC 3339)
    #[schema(format = DateTime)]
    revoked_at: String,
}

/// The `data` of `session.egress_capability_changed`
#[derive(ToSchema)]
struct SessionEgressCapabilityChanged {
    /// Session ID
    #[schema(example = "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e")]
    session_id: String,
    /// Capabilities of the session's proxy
    egress_capabilities: EgressCapabilities,
}

/// Capabilities of a session's egress
#[derive(ToSchema)]
#[schema(example = json!({"udp_associate": true, "quic_route": "tcp_fallback", "dns_remote_resolve": true, "warnings": []}))]
pub struct EgressCapabilities {
    /// True when the proxy relays UDP datagrams
    udp_associate: bool,
    /// Route of QUIC traffic
    quic_route: String,
    /// True when the proxy resolves host names
    dns_remote_resolve: bool,
    /// Warnings about unexpected behaviour
    warnings: Vec<String>,
}

/// The `data` of `crypto.order.paid`
#[derive(ToSchema)]
#[schema(example = json!({
    "order_id": "ord_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "product": "api_builder", "price_cents": 9_900,
    "price_currency": "usd", "payment_id": "5745459419", "paid_at": "2026-11-20T18:05:00.123Z",
}))]
struct CryptoOrderPaid {
    /// Order ID
    order_id: String,
    /// Tier that was bought
    product: String,
    /// Price in cents
    price_cents: u64,
    /// Currency of the price
    price_currency: String,
    /// Payment ID at the payment processor
    payment_id: String,
    /// Time the order was paid (RFC 3339)
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
    /// Order ID
    order_id: String,
    /// Tier of the order
    product: String,
    /// Price in cents
    price_cents: u64,
    /// Currency of the price
    price_currency: String,
    /// Payment ID at the payment processor
    payment_id: String,
    /// Time the order failed (RFC 3339)
    #[schema(format = DateTime)]
    failed_at: String,
    /// Reason: the processor reported the failure, the order expired, or the service cleaned it up
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
    /// Session ID
    session_id: String,
    /// Challenge ID
    challenge_id: String,
    /// Details of the challenge
    challenge: Challenge,
}

/// A challenge that a page presents to its visitor
#[derive(ToSchema)]
struct Challenge {
    /// Type of the challenge
    #[schema(schema_with = challenge_type)]
    r#type: String,
    /// Confidence of the detection
    #[schema(minimum = 0, maximum = 1)]
    confidence: f64,
    /// Evidence for the detection
    detail: String,
}

/// The `data` of `session.profile_save_failed`
#[derive(ToSchema)]
#[schema(example = json!({
    "session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "profile_id": "prof_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "reason": "degenerate_dump", "detail": "The browser holds nothing, and the profile holds something.",
}))]
struct SessionProfileSaveFailed {
    /// Session ID
    session_id: String,
    /// Profile ID
    profile_id: String,
    /// Reason the save failed
    #[schema(schema_with = save_failed_because)]
    reason: String,
    /// Error message for people
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
    /// Message for people
    message: String,
    /// Webhook endpoint ID
    endpoint_id: String,
    /// Account that requested the test
    triggered_by_account_id: String,
}
