//! Request and response bodies of sessions.

use kitfleet_domain::recordings::RecordMode;
use kitfleet_domain::sessions::{self, BehavioralProfile, CreateParams, EndReason, SessionStatus};
use kitfleet_types::emulation::{
    Block, ColorScheme, Emulation, EmulationParams, EmulationState, Geolocation, Orientation,
};
use kitfleet_types::ids::{AccountId, AgentSessionId, ApiKeyId, ProfileId, ProxyId, SessionId};
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{DialogPolicy, OpenDialog};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, both};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::types::Json;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::challenges::SessionChallenge;
use super::operations::emulation::{self, ExtraHeaderBody};
use crate::http::lists::{ListItem, Page};
use crate::http::openapi::{named, one_of, or_null};
use crate::http::resource_ref::ResourceRef;
use crate::routes::webhooks::events::{EgressCapabilities, error_name};

/// Body of `POST /v1/sessions`; every field is optional
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionCreate, example = json!({"archetype": "iphone-16-ios-18", "label": "checkout test"}))]
pub struct CreateBody {
    /// Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status
    /// `launch`
    pub archetype: Option<String>,
    /// Purpose: `production_customer`; other values are reserved
    #[schema(default = "production_customer")]
    pub purpose: Option<String>,
    /// Free text
    #[schema(max_length = 120)]
    pub label: Option<String>,
    /// Customer data, at most 16 KiB as JSON
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// Profile that the session starts from, with the cookies and storage of earlier sessions. A profile can have one live
    /// session at a time. Requires `write:profiles` in addition to `write:sessions`
    #[schema(value_type = Option<String>, example = "prof_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5")]
    pub profile_id: Option<ResourceRef<ProfileId>>,
    /// Typing and touch speed of the simulated user; fixed for the lifetime of the session
    #[schema(schema_with = behavioral_profile)]
    pub behavioral_profile: Option<BehavioralProfile>,
    /// Maximum time in milliseconds to wait for a browser if all are taken. 0 does not wait; other values must be at least 100
    #[schema(maximum = 120_000, default = 0)]
    pub wait_timeout_ms: Option<u64>,
    /// False if challenges must not pause the session. By default they pause it, if the deployment detects challenges
    pub detect_challenges: Option<bool>,
    /// Handling of dialogs of pages (`alert`, `confirm`, `prompt`, and the confirmation that a page may be left). `hold` keeps
    /// each one open for up to 60 s, until the action `dialog` answers it. Fixed for the lifetime of the session
    #[schema(schema_with = dialog_policy)]
    pub dialogs: Option<DialogPolicy>,
    /// Recording of the session: `steps` keeps a picture after each operation, console lines, requests and other events. By default
    /// the deployment's setting applies, which is `off` unless the operator changed it
    #[schema(schema_with = record_mode)]
    pub record: Option<RecordMode>,
    /// Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session
    #[schema(max_length = 35, default = "en-US", example = "de-CH")]
    pub locale: Option<String>,
    /// Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
    /// session, whose browser takes longer to open
    #[schema(example = "Europe/Zurich")]
    pub timezone: Option<String>,
    /// Position that pages of secure origins see; by default they are denied it
    pub geolocation: Option<Geolocation>,
    /// Color scheme that pages see; `light` by default
    pub color_scheme: Option<ColorScheme>,
    /// Orientation of the device; `portrait` by default
    pub orientation: Option<Orientation>,
    /// Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them
    #[schema(max_items = 20)]
    pub extra_headers: Option<Vec<ExtraHeaderBody>>,
    /// True to cut the browser off from the network
    #[schema(default = false)]
    pub offline: Option<bool>,
    /// Requests that the browser does not send
    pub block: Option<Block>,
    /// A body with this field is rejected during deserialization and never reaches a handler.
    #[serde(default, rename = "proxy", deserialize_with = "refuse_proxy")]
    #[schema(ignore)]
    _proxy: (),
}

/// Body of `POST /v1/profiles/{id}/launch`; every field is optional
#[derive(Deserialize, ToSchema)]
#[schema(as = ProfileLaunch, example = json!({"label": "checkout test"}))]
pub struct LaunchBody {
    /// Purpose: `production_customer`; other values are reserved
    #[schema(default = "production_customer")]
    purpose: Option<String>,
    /// Free text
    #[schema(max_length = 120)]
    label: Option<String>,
    /// Customer data, at most 16 KiB as JSON; `profile_id` and `profile_name` are added
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Typing and touch speed of the simulated user; fixed for the lifetime of the session
    #[schema(schema_with = behavioral_profile)]
    behavioral_profile: Option<BehavioralProfile>,
    /// Maximum time in milliseconds to wait for a browser if all are taken. 0 does not wait; other values must be at least 100
    #[schema(maximum = 120_000, default = 0)]
    wait_timeout_ms: Option<u64>,
    /// False if challenges must not pause the session. By default they pause it, if the deployment detects challenges
    detect_challenges: Option<bool>,
    /// Handling of dialogs of pages (`alert`, `confirm`, `prompt`, and the confirmation that a page may be left). `hold` keeps
    /// each one open for up to 60 s, until the action `dialog` answers it. Fixed for the lifetime of the session
    #[schema(schema_with = dialog_policy)]
    dialogs: Option<DialogPolicy>,
    /// Recording of the session: `steps` keeps a picture after each operation, console lines, requests and other events. By default
    /// the deployment's setting applies, which is `off` unless the operator changed it
    #[schema(schema_with = record_mode)]
    record: Option<RecordMode>,
    /// Language of the browser, as a BCP 47 tag without extensions. Fixed for the lifetime of the session
    #[schema(max_length = 35, default = "en-US", example = "de-CH")]
    locale: Option<String>,
    /// Time zone of the browser, by its name in the IANA database; by default that of the worker. Fixed for the lifetime of the
    /// session, whose browser takes longer to open
    #[schema(example = "Europe/Zurich")]
    timezone: Option<String>,
    /// Position that pages of secure origins see; by default they are denied it
    geolocation: Option<Geolocation>,
    /// Color scheme that pages see; `light` by default
    color_scheme: Option<ColorScheme>,
    /// Orientation of the device; `portrait` by default
    orientation: Option<Orientation>,
    /// Headers added to requests, at most 4 KiB in all. Requests of service workers and of web sockets may not carry them
    #[schema(max_items = 20)]
    extra_headers: Option<Vec<ExtraHeaderBody>>,
    /// True to cut the browser off from the network
    #[schema(default = false)]
    offline: Option<bool>,
    /// Requests that the browser does not send
    block: Option<Block>,
    /// Rejected during deserialization, as on a direct create.
    #[serde(default, rename = "proxy", deserialize_with = "refuse_proxy")]
    #[schema(ignore)]
    _proxy: (),
}

impl From<LaunchBody> for CreateBody {
    fn from(body: LaunchBody) -> Self {
        Self {
            archetype: None,
            purpose: body.purpose,
            label: body.label,
            metadata: body.metadata,
            profile_id: None,
            behavioral_profile: body.behavioral_profile,
            wait_timeout_ms: body.wait_timeout_ms,
            detect_challenges: body.detect_challenges,
            dialogs: body.dialogs,
            record: body.record,
            locale: body.locale,
            timezone: body.timezone,
            geolocation: body.geolocation,
            color_scheme: body.color_scheme,
            orientation: body.orientation,
            extra_headers: body.extra_headers,
            offline: body.offline,
            block: body.block,
            _proxy: (),
        }
    }
}

/// Ignoring a proxy silently would send the session's traffic out unproxied, so even `null` is rejected.
fn refuse_proxy<'de, D: Deserializer<'de>>(_: D) -> Result<(), D::Error> {
    Err(D::Error::custom(
        "is not accepted here; customer egress is configured through an agent session with a saved proxy",
    ))
}

fn behavioral_profile() -> RefOr<Schema> {
    or_null(named("BehavioralProfile", one_of(&["casual", "regular", "power_user"], Some("regular"))))
}

pub fn dialog_policy() -> RefOr<Schema> {
    or_null(named("DialogPolicy", one_of(&["dismiss", "accept", "hold"], Some("dismiss"))))
}

pub fn record_mode() -> RefOr<Schema> {
    or_null(named("RecordMode", one_of(&["off", "steps"], None)))
}

impl CreateBody {
    /// The parameters to validate.
    pub fn params(&self) -> CreateParams<'_> {
        CreateParams {
            archetype: self.archetype.as_deref(),
            purpose: self.purpose.as_deref(),
            label: self.label.as_deref(),
            metadata: self.metadata.as_ref(),
            wait_timeout_ms: self.wait_timeout_ms,
        }
    }

    /// Takes out the members that set the emulation.
    pub fn take_emulation(&mut self) -> EmulationParams {
        emulation::params(
            (self.locale.take(), self.timezone.take()),
            self.geolocation,
            (self.color_scheme, self.orientation),
            self.extra_headers.take(),
            (self.offline, self.block.take()),
        )
    }

    /// Validates the body and returns its emulation.
    ///
    /// # Errors
    /// On invalid members.
    pub fn check(mut self, limits: &Limits) -> Result<(Self, Emulation), Invalid> {
        let emulation = Emulation::parse(self.take_emulation());
        let ((), emulation) = both(self.params().check(limits), emulation)?;
        Ok((self, emulation))
    }
}

/// Session
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "api_key_id": "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "status": "ready", "archetype": "iphone-16-ios-18",
    "purpose": "production_customer", "label": "checkout test", "metadata": null, "profile_id": null, "proxy_id": null,
    "agent_session_id": null, "end_reason": null, "error": null, "egress_capabilities": null,
    "egress_capability_report": null, "challenge": null, "dialog": null, "emulation": {
        "locale": "en-US", "timezone": null, "geolocation": null, "color_scheme": "light", "orientation": "portrait",
        "extra_headers": [], "offline": false, "block": {"resource_types": [], "hosts": []},
    }, "record": "off", "operation_count": null, "last_url": null, "created_at": "2026-11-20T18:05:00.123Z",
    "updated_at": "2026-11-20T18:05:00.187Z", "last_state_at": null, "destroyed_at": null,
}))]
pub struct Session {
    /// Session ID
    #[schema(value_type = String)]
    id: SessionId,
    /// Account that owns the session
    #[schema(value_type = String)]
    account_id: AccountId,
    /// API key that created the session; null if a web session created it
    #[schema(value_type = Option<String>, required = true)]
    api_key_id: Option<ApiKeyId>,
    /// Session status; `destroyed` and `errored` are terminal
    #[schema(schema_with = status)]
    status: SessionStatus,
    /// Archetype of the browser
    archetype: String,
    /// Purpose of the session
    purpose: String,
    /// Label set by the customer
    #[schema(max_length = 120, required = true)]
    label: Option<String>,
    /// Data set by the customer
    #[schema(value_type = Option<Object>, required = true)]
    metadata: Option<Box<RawValue>>,
    /// Profile that the session started from; null after that is purged
    #[schema(value_type = Option<String>, required = true)]
    profile_id: Option<ProfileId>,
    /// Saved proxy that the browser connects through
    #[schema(value_type = Option<String>, required = true)]
    proxy_id: Option<ProxyId>,
    /// Agent session that uses the session as its driver; null after that is deleted
    #[schema(value_type = Option<String>, required = true)]
    agent_session_id: Option<AgentSessionId>,
    /// Reason the session ended; null while it is live
    #[schema(schema_with = end_reason, required = true)]
    end_reason: Option<EndReason>,
    /// Error that ended the session, as in `session.failed`; null if none did
    #[schema(required = true)]
    error: Option<SessionFailure>,
    /// Capabilities of the session's egress, once they are known
    #[schema(value_type = Option<EgressCapabilities>, required = true)]
    egress_capabilities: Option<Value>,
    /// Egress capabilities as the harness reported them
    #[schema(value_type = Option<Object>, required = true)]
    egress_capability_report: Option<Value>,
    /// Challenge that pauses the session
    #[schema(required = true)]
    challenge: Option<SessionChallenge>,
    /// Dialog of the page that waits for an answer, with `dialogs: hold`
    #[schema(required = true)]
    dialog: Option<OpenDialog>,
    /// Emulation in force, without the values of headers
    emulation: EmulationState,
    /// Recording of the session
    #[schema(schema_with = session_record)]
    record: RecordMode,
    /// Number of operations in the recording; null if nothing is recorded
    #[schema(required = true)]
    operation_count: Option<i32>,
    /// Address of the page after the last recorded operation; null if nothing is recorded
    #[schema(required = true)]
    last_url: Option<String>,
    /// Time the session was requested
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last change
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Time of the last successful state read
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_state_at: Option<Timestamp>,
    /// Time the session was destroyed
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    destroyed_at: Option<Timestamp>,
}

fn session_record() -> RefOr<Schema> {
    named("RecordMode", one_of(&["off", "steps"], None))
}

/// Error that ended a session
#[derive(Serialize, ToSchema)]
struct SessionFailure {
    /// Name of the error
    #[schema(schema_with = error_name)]
    name: String,
    /// Message for people
    message: String,
}

fn end_reason() -> RefOr<Schema> {
    or_null(named("SessionEndReason", one_of(&EndReason::ALL.map(EndReason::name), None)))
}

pub fn status() -> RefOr<Schema> {
    named("SessionStatus", one_of(&["creating", "ready", "busy", "destroyed", "errored"], None))
}

impl From<sessions::Session> for Session {
    fn from(session: sessions::Session) -> Self {
        Self {
            id: session.id,
            account_id: session.account_id,
            api_key_id: session.api_key_id,
            status: session.status,
            archetype: session.archetype,
            purpose: session.purpose,
            label: session.label,
            // The column holds only valid JSON.
            metadata: session.metadata.and_then(|text| RawValue::from_string(text).ok()),
            profile_id: session.profile_id,
            proxy_id: session.proxy_id,
            agent_session_id: session.agent_session_id,
            end_reason: session.end_reason,
            error: session.error.map(|Json(error)| SessionFailure { name: error.name, message: error.message }),
            egress_capabilities: session.egress_capabilities,
            egress_capability_report: session.egress_capability_report,
            challenge: session.challenge.map(|challenge| challenge.0.into()),
            dialog: session.dialog.map(|dialog| dialog.0),
            emulation: session.emulation.map(|emulation| emulation.0).unwrap_or_default(),
            record: session.record,
            operation_count: session.operation_count,
            last_url: session.last_url,
            created_at: session.created_at,
            updated_at: session.updated_at,
            last_state_at: session.last_state_at,
            destroyed_at: session.destroyed_at,
        }
    }
}

pub type SessionList = Page<Session>;

impl ListItem for Session {
    const LIST: &'static str = "SessionList";
    const MEANING: &'static str = "A page of sessions, newest first";
    const ENTRIES: Option<&'static str> = Some("The sessions");
}
