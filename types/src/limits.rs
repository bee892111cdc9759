//! Configurable limits (contract: limits; configuration 5).

use std::num::NonZeroU32;
use std::time::Duration;

use crate::tiers::{OwnLimits, Tier};

/// Maximum of `result_bytes`: the longest message of a browser, minus room for the surrounding members.
pub const MAX_RESULT_BYTES: usize = 15 * 1024 * 1024;

/// Limits of requests and results. [`Limits::default`] has the contract's values.
#[derive(Debug, Clone)]
pub struct Limits {
    pub concurrent_sessions: ConcurrentSessions,
    pub label_chars: usize,
    pub waiting_creates: usize,
    pub waiting_creates_per_account: usize,
    /// Bytes of a session's metadata, serialized as JSON.
    pub metadata_bytes: usize,
    /// Characters in the text of a `type` action.
    pub type_text_chars: usize,
    /// Milliseconds between typed keys.
    pub type_delay_ms: u64,
    pub press_key_chars: usize,
    pub min_timeout: Duration,
    pub max_timeout: Duration,
    /// Longest `time` condition of a wait.
    pub max_time_wait: Duration,
    pub extractions: usize,
    /// Characters in the name of an extraction, a sub-field or an attribute.
    pub extraction_name_chars: usize,
    pub sub_extractions: usize,
    /// A longer list is refused and not truncated, so that a list is always complete.
    pub list_matches: usize,
    pub selector_chars: usize,
    /// Characters in a name, label or text of a locator, and in an option.
    pub locator_chars: usize,
    /// Characters in the snapshot of a page. A longer one is truncated.
    pub snapshot_chars: usize,
    /// Lines in the snapshot of a page. A longer one is truncated.
    pub snapshot_nodes: usize,
    /// Characters in the regular expression of a wait.
    pub pattern_chars: usize,
    /// Bytes of an operation's result as JSON; at most [`MAX_RESULT_BYTES`]. A longer state is truncated, and any
    /// other result is withheld.
    pub result_bytes: usize,
    /// Characters in a URL that a page sets. A longer one is truncated.
    pub url_chars: usize,
    /// Characters in the title of a page. A longer one is truncated.
    pub title_chars: usize,
    /// Characters in a search query and in each credential of a login.
    pub query_chars: usize,
    pub default_form_timeout: Duration,
    /// Longest `timeout_seconds` of search and login.
    pub max_form_timeout: Duration,
    /// Longest browser work of a search or login.
    pub form_work: Duration,
    /// Time a browser has after the work of a search or login to stop and return the result.
    pub form_teardown: Duration,
    pub screenshot_bytes: u64,
    pub pdf_bytes: u64,
    /// Bytes of local storage in a state.
    pub state_storage_bytes: usize,
    pub state_cookies: usize,
    /// Time clients can cache the list of archetypes.
    pub archetypes_max_age: Duration,
    /// Names in the header `x-service-unknown-fields`.
    pub unknown_fields: usize,
    pub unknown_field_chars: usize,
    pub page_default: u32,
    pub page_max: u32,
    /// Bytes of customer data after which a page of a list ends early.
    pub page_bytes: usize,
    /// Bytes of large responses in progress for one account.
    pub answer_bytes_per_account: u64,
    /// Bytes of large responses in progress in one process.
    pub answer_bytes: u64,
    /// Values and member names in a request body of a caller without a credential.
    pub open_body_values: usize,
    pub body_values: usize,
    pub audit_export_rows: u32,
    pub usage_days_default: u32,
    pub usage_days_max: u32,
    pub profiles: Profiles,
    /// Profiles of an enterprise account (contract: limits 3).
    pub enterprise_profiles: u32,
    /// Bytes of a profile's stored state, sealed.
    pub profile_store_bytes: u64,
    /// Bytes of all states of an account's profiles and snapshots, sealed. A state that several of them share counts
    /// once.
    pub profile_bytes_per_account: u64,
    pub snapshots_per_profile: u32,
    /// Bytes of an imported profile document (contract: profiles 20).
    pub profile_document_bytes: u64,
    /// Bytes stored for the agent sessions of an account: turns, steps, receipts and responses of creates, sealed.
    pub agent_bytes_per_account: u64,
    /// Refused creates of agent sessions with an idempotency key that are kept for an account, the newest first.
    pub refused_creates: u32,
    /// Configuration changes of an account per hour, each of which the audit log keeps.
    pub audited_changes_per_hour: NonZeroU32,
    pub recipes: u32,
    pub recipe_steps: u32,
    /// Bytes of a recipe's steps with the typed values, serialized as JSON.
    pub recipe_bytes: usize,
    pub recipe_label_chars: usize,
    pub recipe_description_chars: usize,
    pub proxies: u32,
    pub api_keys: u32,
    pub oauth_clients: u32,
    pub password_min_chars: usize,
    /// Longer than any typed password and still cheap to hash.
    pub password_max_chars: usize,
    pub recovery_codes: usize,
    /// Periods that the clock of an authenticator app can be off.
    pub totp_drift_periods: u16,
    /// Wrong codes after which a challenge is refused.
    pub challenge_guesses: u32,
    /// Wrong codes of an account within a window.
    pub mfa_guesses: u32,
    pub mfa_guess_window: Duration,
    pub device_state_min_chars: usize,
    pub device_state_max_chars: usize,
    /// Characters in the label of a desktop app.
    pub device_label_chars: usize,
    pub team_name_chars: usize,
    /// Webhook endpoints of an account that are not disabled.
    pub webhook_endpoints: u32,
    /// Event types an endpoint can subscribe to.
    pub webhook_events: usize,
    pub webhook_description_chars: usize,
}

#[derive(Debug, Clone)]
pub struct Profiles {
    pub free: u32,
    pub solo_manual: u32,
    pub team_manual: u32,
    pub agency_manual: u32,
    pub api_starter: u32,
    pub api_builder: u32,
    pub api_scale: u32,
}

impl Default for Profiles {
    fn default() -> Self {
        Self {
            free: 1,
            solo_manual: 10,
            team_manual: 50,
            agency_manual: 200,
            api_starter: 25,
            api_builder: 100,
            api_scale: 500,
        }
    }
}

/// Highest limit of concurrent sessions that an account's own limit can set.
pub const MAX_OWN_SESSIONS: u32 = 10_000;
/// Highest limit of profiles that an account's own limit can set.
pub const MAX_OWN_PROFILES: u32 = 1_000_000;

impl Limits {
    #[must_use]
    pub fn sessions_of(&self, tier: Tier, own: OwnLimits) -> u32 {
        own.concurrent_sessions.unwrap_or_else(|| self.concurrent_sessions.of(tier))
    }

    #[must_use]
    pub fn profiles_of(&self, tier: Tier, own: OwnLimits) -> u32 {
        own.profiles.unwrap_or_else(|| self.profiles_of_tier(tier))
    }

    fn profiles_of_tier(&self, tier: Tier) -> u32 {
        match tier {
            Tier::Free => self.profiles.free,
            Tier::SoloManual => self.profiles.solo_manual,
            Tier::TeamManual => self.profiles.team_manual,
            Tier::AgencyManual => self.profiles.agency_manual,
            Tier::ApiStarter => self.profiles.api_starter,
            Tier::ApiBuilder => self.profiles.api_builder,
            Tier::ApiScale => self.profiles.api_scale,
            Tier::Enterprise => self.enterprise_profiles,
        }
    }
}

#[derive(Debug, Clone)]
pub struct ConcurrentSessions {
    pub free: u32,
    pub solo_manual: u32,
    pub team_manual: u32,
    pub agency_manual: u32,
    pub api_starter: u32,
    pub api_builder: u32,
    pub api_scale: u32,
    pub enterprise: u32,
}

impl ConcurrentSessions {
    #[must_use]
    pub fn of(&self, tier: Tier) -> u32 {
        match tier {
            Tier::Free => self.free,
            Tier::SoloManual => self.solo_manual,
            Tier::TeamManual => self.team_manual,
            Tier::AgencyManual => self.agency_manual,
            Tier::ApiStarter => self.api_starter,
            Tier::ApiBuilder => self.api_builder,
            Tier::ApiScale => self.api_scale,
            Tier::Enterprise => self.enterprise,
        }
    }
}

impl Default for ConcurrentSessions {
    fn default() -> Self {
        Self {
            free: 1,
            solo_manual: 1,
            team_manual: 3,
            agency_manual: 8,
            api_starter: 2,
            api_builder: 8,
            api_scale: 24,
            enterprise: 32,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrent_sessions: ConcurrentSessions::default(),
            label_chars: 120,
            waiting_creates: 1_000,
            waiting_creates_per_account: 32,
            metadata_bytes: 16 * 1024,
            type_text_chars: 10_000,
            type_delay_ms: 500,
            press_key_chars: 40,
            min_timeout: Duration::from_millis(100),
            max_timeout: Duration::from_mins(2),
            max_time_wait: Duration::from_mins(1),
            extractions: 100,
            extraction_name_chars: 120,
            sub_extractions: 32,
            list_matches: 10_000,
            selector_chars: 4_096,
            locator_chars: 1_000,
            snapshot_chars: 40_000,
            snapshot_nodes: 5_000,
            pattern_chars: 1_000,
            result_bytes: 8 * 1024 * 1024,
            url_chars: 32_768,
            title_chars: 4_096,
            query_chars: 10_000,
            default_form_timeout: Duration::from_secs(10),
            max_form_timeout: Duration::from_mins(2),
            form_work: Duration::from_mins(10),
            form_teardown: Duration::from_secs(15),
            screenshot_bytes: 4 * 1024 * 1024,
            pdf_bytes: 8 * 1024 * 1024,
            state_storage_bytes: 1024 * 1024,
            state_cookies: 1_000,
            archetypes_max_age: Duration::from_mins(5),
            unknown_fields: 10,
            unknown_field_chars: 64,
            page_default: 50,
            page_max: 100,
            page_bytes: 1024 * 1024,
            answer_bytes_per_account: 32 * 1024 * 1024,
            answer_bytes: 256 * 1024 * 1024,
            open_body_values: 1_000,
            body_values: 50_000,
            audit_export_rows: 10_000,
            usage_days_default: 30,
            usage_days_max: 90,
            profiles: Profiles::default(),
            enterprise_profiles: 1_000,
            profile_store_bytes: 256 * 1024 * 1024,
            profile_bytes_per_account: 16 * 1024 * 1024 * 1024,
            snapshots_per_profile: 50,
            profile_document_bytes: 300 * 1024 * 1024,
            agent_bytes_per_account: 256 * 1024 * 1024,
            refused_creates: 1_000,
            audited_changes_per_hour: const { NonZeroU32::new(1_000).expect("more than none") },
            recipes: 1_000,
            recipe_steps: 1_000,
            recipe_bytes: 256 * 1024,
            recipe_label_chars: 120,
            recipe_description_chars: 2_000,
            proxies: 50,
            api_keys: 1_000,
            oauth_clients: 100,
            password_min_chars: 12,
            password_max_chars: 1_024,
            recovery_codes: 10,
            totp_drift_periods: 1,
            challenge_guesses: 10,
            mfa_guesses: 20,
            mfa_guess_window: Duration::from_mins(15),
            device_state_min_chars: 16,
            device_state_max_chars: 128,
            device_label_chars: 120,
            team_name_chars: 120,
            webhook_endpoints: 10,
            webhook_events: 10,
            webhook_description_chars: 1_000,
        }
    }
}
