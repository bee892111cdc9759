//! Request and response bodies of agent sessions.

use kitfleet_domain::agents::{self, AgentStatus, CloseReason, Control, Mode, Settings};
use kitfleet_domain::recordings::RecordMode;
use kitfleet_domain::sessions::CreateParams;
use kitfleet_types::emulation::{Block, ColorScheme, Emulation, EmulationParams, Geolocation, Orientation};
use kitfleet_types::ids::{AccountId, AgentSessionId, ProfileId, ProxyId, SessionId};
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::DialogPolicy;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules, both};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::lists::{ListItem, Page};
use crate::http::openapi::{named, one_of, or_null};
use crate::http::path::IdPath;
use crate::http::resource_ref::ResourceRef;
use crate::routes::sessions::operations::emulation::{self, ExtraHeaderBody};

/// Body of `POST /v1/agent-sessions`; every field is optional
#[derive(Deserialize, ToSchema)]
#[schema(as = AgentSessionCreate, example = json!({"mode": "pair", "label": "checkout test"}))]
pub struct CreateBody {
    /// Control of the browser: the AI (`ai`), the customer (`manual`), or both in turn (`pair`)
    #[schema(schema_with = mode_or_null)]
    pub mode: Option<Mode>,
    /// Maximum number of model tokens; 200,000 by default
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub token_budget: Option<u64>,
    /// Saved proxy of the account. The browser sends all its traffic through it
    #[schema(value_type = Option<String>, example = "prx_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5")]
    pub proxy_id: Option<ResourceRef<ProxyId>>,
    /// Archetype ID from `GET /v1/archetypes`. Default: the profile's archetype, or without a profile the one with status
    /// `launch`
    pub archetype: Option<String>,
    /// Profile that the browser starts from. A profile can have one live session at a time. Requires `write:profiles` in addition
    /// to `write:agents`
    #[schema(value_type = Option<String>, example = "prof_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5")]
    pub profile_id: Option<ResourceRef<ProfileId>>,
    /// Free text
    #[schema(max_length = 120)]
    pub label: Option<String>,
    /// False if challenges must not pause the session. By default they pause it, if the deployment detects challenges
    pub detect_challenges: Option<bool>,
    /// Handling of dialogs of pages (`alert`, `confirm`, `prompt`, and the confirmation that a page may be left). `hold` keeps
    /// each one open for up to 60 s, until a step or the action `dialog` answers it; it is the default unless `mode` is `manual`.
    /// Fixed for the lifetime of the session
    #[schema(schema_with = dialogs)]
    pub dialogs: Option<DialogPolicy>,
    /// Recording of the driver session: `steps` keeps a picture after each operation, console lines, requests and other events. By
    /// default the deployment's setting applies, which is `off` unless the operator changed it
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
}

/// Resources of a create that the caller is authorized to use.
pub struct UsedResources {
    pub profile: Option<IdPath<ProfileId>>,
    pub proxy: Option<IdPath<ProxyId>>,
}

impl UsedResources {
    /// # Errors
    /// Forbidden, if the caller may not use one of them.
    pub fn authorize(
        caller: &Caller,
        profile: Option<&ResourceRef<ProfileId>>,
        proxy: Option<&ResourceRef<ProxyId>>,
    ) -> Result<Self> {
        Ok(Self {
            profile: profile.map(|profile| profile.authorize(caller)).transpose()?,
            proxy: proxy.map(|proxy| proxy.authorize(caller)).transpose()?,
        })
    }
}

impl CreateBody {
    /// The driver session's parameters to validate.
    pub fn params(&self) -> CreateParams<'_> {
        let (archetype, label) = (self.archetype.as_deref(), self.label.as_deref());
        CreateParams { archetype, purpose: None, label, metadata: None, wait_timeout_ms: None }
    }

    /// Takes out the members that set the emulation.
    fn take_emulation(&mut self) -> EmulationParams {
        emulation::params(
            (self.locale.take(), self.timezone.take()),
            self.geolocation,
            (self.color_scheme, self.orientation),
            self.extra_headers.take(),
            (self.offline, self.block.take()),
        )
    }

    /// Validated token budget and emulation.
    ///
    /// # Errors
    /// On invalid fields.
    pub fn check(&mut self, settings: &Settings, limits: &Limits) -> Result<(i32, Emulation), Invalid> {
        let emulation = Emulation::parse(self.take_emulation());
        let mut rules = Rules::default();
        rules.note(self.params().check(limits).err());
        let (budget, max) =
            (self.token_budget.unwrap_or(settings.default_token_budget.into()), settings.max_token_budget);
        let bounded = (1..=u64::from(max)).contains(&budget) || self.token_budget.is_none();
        rules.require(bounded, "token_budget", format!("must be 1 to {max}"));
        let ((), emulation) = both(rules.check(), emulation)?;
        Ok((i32::try_from(budget).unwrap_or(i32::MAX), emulation))
    }
}

/// Browser driven by natural-language messages
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "agt_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "mode": "pair", "control": "ai", "status": "active",
    "close_reason": null, "archetype": "iphone-16-ios-18", "profile_id": null, "proxy_id": null, "label": "checkout test",
    "token_budget": 200_000, "tokens_used": 0, "created_at": "2026-11-20T18:05:00.123Z",
    "updated_at": "2026-11-20T18:05:00.187Z", "destroyed_at": null,
}))]
pub struct AgentSession {
    /// Agent session ID
    #[schema(value_type = String)]
    id: AgentSessionId,
    /// Account that owns the agent session
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Driver session: the ordinary session that holds the browser
    #[schema(value_type = String)]
    session_id: SessionId,
    /// Mode: allowed control of the browser
    #[schema(schema_with = mode)]
    mode: Mode,
    /// Current control of the browser; always `human` in manual mode
    #[schema(schema_with = control)]
    control: Control,
    /// Status; `closed` is final
    #[schema(schema_with = status)]
    status: AgentStatus,
    /// Reason the agent session was closed
    #[schema(schema_with = close_reason, required = true)]
    close_reason: Option<CloseReason>,
    /// Archetype of the browser
    archetype: String,
    /// Profile that the browser started from
    #[schema(value_type = Option<String>, required = true)]
    profile_id: Option<ProfileId>,
    /// Saved proxy of the browser; it may have been deleted since
    #[schema(value_type = Option<String>, required = true)]
    proxy_id: Option<ProxyId>,
    /// Label set by the customer
    #[schema(max_length = 120, required = true)]
    label: Option<String>,
    /// Maximum number of model tokens
    token_budget: i32,
    /// Model tokens used so far
    tokens_used: i64,
    /// Time the agent session was requested
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last change
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Time the agent session was closed
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    destroyed_at: Option<Timestamp>,
}

pub fn mode() -> RefOr<Schema> {
    named("AgentSessionMode", one_of(&Mode::NAMES, None))
}

fn mode_or_null() -> RefOr<Schema> {
    or_null(named("AgentSessionMode", one_of(&Mode::NAMES, Some("ai"))))
}

fn dialogs() -> RefOr<Schema> {
    or_null(named("DialogPolicy", one_of(&["dismiss", "accept", "hold"], None)))
}

fn record_mode() -> RefOr<Schema> {
    or_null(named("RecordMode", one_of(&["off", "steps"], None)))
}

fn control() -> RefOr<Schema> {
    one_of(&["ai", "human"], None)
}

pub fn status() -> RefOr<Schema> {
    named("AgentSessionStatus", one_of(&["active", "closed"], None))
}

fn close_reason() -> RefOr<Schema> {
    let reasons = [
        CloseReason::Customer,
        CloseReason::DriverSessionEnded,
        CloseReason::AccountSuspended,
        CloseReason::AccountDeleted,
    ];
    or_null(named("AgentSessionCloseReason", one_of(&reasons.map(CloseReason::name), None)))
}

impl From<agents::AgentSession> for AgentSession {
    fn from(session: agents::AgentSession) -> Self {
        Self {
            id: session.id,
            account_id: session.account_id,
            session_id: session.session_id,
            mode: session.mode,
            control: session.control,
            status: session.status,
            close_reason: session.close_reason,
            archetype: session.archetype,
            profile_id: session.profile_id,
            proxy_id: session.proxy_id,
            label: session.label,
            token_budget: session.token_budget,
            tokens_used: session.tokens_used,
            created_at: session.created_at,
            updated_at: session.updated_at,
            destroyed_at: session.destroyed_at,
        }
    }
}

pub type AgentSessionList = Page<AgentSession>;

impl ListItem for AgentSession {
    const LIST: &'static str = "AgentSessionList";
    const MEANING: &'static str = "A page of agent sessions, newest first";
    const ENTRIES: Option<&'static str> = Some("The agent sessions");
}
