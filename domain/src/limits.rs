//! Every bound that there is, as configuration (contract: limits; configuration 5).

use std::num::NonZeroU32;
use std::time::Duration;

use crate::accounts::{OwnLimits, Tier};

/// What `result_bytes` may be at most: what a browser may say in one piece, with some room for what stands around it.
pub const MOST_RESULT_BYTES: usize = 15 * 1024 * 1024;

/// Bounds of requests and results. [`Limits::default`] is the contract's.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Sessions of one account that may live at once.
    pub concurrent_sessions: ConcurrentSessions,
    /// Characters of a session's label.
    pub label_chars: usize,
    /// Creates that may wait for a browser at a process.
    pub waiting_creates: usize,
    /// Of them, those of one account.
    pub waiting_creates_per_account: usize,
    /// Bytes of a session's metadata, written as JSON.
    pub metadata_bytes: usize,
    /// Characters a `type` action may type.
    pub type_text_chars: usize,
    /// Milliseconds between typed keys.
    pub type_delay_ms: u64,
    /// Characters of a key's name.
    pub press_key_chars: usize,
    /// Shortest time an operation may be given.
    pub min_timeout: Duration,
    /// Longest time an operation may be given.
    pub max_timeout: Duration,
    /// Longest `time` condition.
    pub max_time_wait: Duration,
    /// Extractions in one batch.
    pub extractions: usize,
    /// Characters of an extraction's name, of a sub-field's and of an attribute's.
    pub extraction_name_chars: usize,
    /// Sub-fields of a list.
    pub sub_extractions: usize,
    /// Matches of a list. More are refused and not cut, so that a list is always whole.
    pub list_matches: usize,
    /// Characters of a CSS selector.
    pub selector_chars: usize,
    /// Characters of a name, a label or a text that an element is told by, and of an option.
    pub locator_chars: usize,
    /// Characters of a snapshot of a page. A longer one is cut.
    pub snapshot_chars: usize,
    /// Lines of a snapshot of a page. One of more is cut.
    pub snapshot_nodes: usize,
    /// Characters of the regular expression of a wait.
    pub pattern_chars: usize,
    /// Bytes of what an operation answers, as JSON; at most [`MOST_RESULT_BYTES`]. A state is cut to it, and anything else
    /// withheld.
    pub result_bytes: usize,
    /// Characters of an address that a page has chosen. What is longer is cut.
    pub url_chars: usize,
    /// Characters of a page's title. What is longer is cut.
    pub title_chars: usize,
    /// Characters of a search query, and of each credential of a login.
    pub query_chars: usize,
    /// The time of search and login, when the request names none.
    pub default_form_timeout: Duration,
    /// Longest `timeout_seconds` of search and login.
    pub max_form_timeout: Duration,
    /// Browser work of a whole search or login.
    pub form_work: Duration,
    /// What a browser may take beyond the work of a search or login to come to an end and hand over what came of it.
    pub form_teardown: Duration,
    /// Bytes of a screenshot.
    pub screenshot_bytes: u64,
    /// Bytes of a PDF.
    pub pdf_bytes: u64,
    /// Bytes of local storage in a state read.
    pub state_storage_bytes: usize,
    /// Cookies in a state read.
    pub state_cookies: usize,
    /// How long the list of archetypes may be cached.
    pub archetypes_max_age: Duration,
    /// Names that `x-service-unknown-fields` holds.
    pub unknown_fields: usize,
    /// Characters of each of them.
    pub unknown_field_chars: usize,
    /// Entries of a page of a list, when the request names no number.
    pub page_default: u32,
    /// Entries of a page of a list, at most.
    pub page_max: u32,
    /// Bytes of customers' data after which a page of a list ends early.
    pub page_bytes: usize,
    /// Bytes of large answers of one account that are under way at once.
    pub answer_bytes_per_account: u64,
    /// The same of all accounts, in a process.
    pub answer_bytes: u64,
    /// Values and members' names in a body of a caller who has no credential.
    pub open_body_values: usize,
    /// Values and members' names in any other body.
    pub body_values: usize,
    /// Rows of an export of the audit log.
    pub audit_export_rows: u32,
    /// Days of a series of usage, when the request names no number.
    pub usage_days_default: u32,
    /// Days of a series of usage, at most.
    pub usage_days_max: u32,
    /// Profiles of one account, by its tier.
    pub profiles: Profiles,
    /// Profiles of an enterprise account (contract: limits 3).
    pub enterprise_profiles: u32,
    /// Bytes of what a profile holds, sealed.
    pub profile_store_bytes: u64,
    /// Bytes of all that the profiles and snapshots of an account hold, sealed: what several of them share counts once.
    pub profile_bytes_per_account: u64,
    /// Snapshots of one profile.
    pub snapshots_per_profile: u32,
    /// Bytes of a profile's document that is imported (contract: profiles 20).
    pub profile_document_bytes: u64,
    /// Bytes that the agent sessions of an account keep: turns, steps, receipts and answers of creates, sealed.
    pub agent_bytes_per_account: u64,
    /// Refused creates of agent sessions with an idempotency key that an account keeps: the newest.
    pub refused_creates: u32,
    /// Changes of its configuration that an account may make in an hour, each of which the audit log keeps.
    pub audited_changes_per_hour: NonZeroU32,
    /// Recipes of one account.
    pub recipes: u32,
    /// Steps of a recipe.
    pub recipe_steps: u32,
    /// Bytes of a recipe's steps, with what was typed, written as JSON.
    pub recipe_bytes: usize,
    /// Characters of a recipe's label.
    pub recipe_label_chars: usize,
    /// Characters of a recipe's description.
    pub recipe_description_chars: usize,
    /// Saved proxies of one account.
    pub proxies: u32,
    /// API keys of one account that work.
    pub api_keys: u32,
    /// OAuth clients of one account.
    pub oauth_clients: u32,
    /// Characters of a password, at least.
    pub password_min_chars: usize,
    /// Characters of a password, at most: far more than anybody types, and no load to hash.
    pub password_max_chars: usize,
    /// Recovery codes of a batch.
    pub recovery_codes: usize,
    /// Periods that the clock of an authenticator app may be off.
    pub totp_drift_periods: u16,
    /// Wrong codes a challenge takes.
    pub challenge_guesses: u32,
    /// Wrong codes an account takes in a window.
    pub mfa_guesses: u32,
    /// How long that window is.
    pub mfa_guess_window: Duration,
    /// Characters of a desktop app's nonce, at least.
    pub device_state_min_chars: usize,
    /// Characters of a desktop app's nonce, at most.
    pub device_state_max_chars: usize,
    /// Characters of what a desktop app calls itself.
    pub device_label_chars: usize,
    /// Characters of a team's name.
    pub team_name_chars: usize,
    /// Webhook endpoints of an account that are not disabled.
    pub webhook_endpoints: u32,
    /// Event types an endpoint can be told of.
    pub webhook_events: usize,
    /// Characters of an endpoint's description.
    pub webhook_description_chars: usize,
}

/// How many profiles an account of each tier may have, but for [`Tier::Enterprise`].
#[derive(Debug, Clone)]
pub struct Profiles {
    /// [`Tier::Free`]
    pub free: u32,
    /// [`Tier::SoloManual`]
    pub solo_manual: u32,
    /// [`Tier::TeamManual`]
    pub team_manual: u32,
    /// [`Tier::AgencyManual`]
    pub agency_manual: u32,
    /// [`Tier::ApiStarter`]
    pub api_starter: u32,
    /// [`Tier::ApiBuilder`]
    pub api_builder: u32,
    /// [`Tier::ApiScale`]
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

/// Live sessions at once that an account's own limit may allow.
pub const MOST_OWN_SESSIONS: u32 = 10_000;
/// Profiles that an account's own limit may allow.
pub const MOST_OWN_PROFILES: u32 = 1_000_000;

impl Limits {
    /// How many sessions an account may have live at once.
    #[must_use]
    pub fn sessions_of(&self, tier: Tier, own: OwnLimits) -> u32 {
        own.concurrent_sessions.unwrap_or_else(|| self.concurrent_sessions.of(tier))
    }

    /// How many profiles an account may have.
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

/// How many sessions an account of each tier may have live at once.
#[derive(Debug, Clone)]
pub struct ConcurrentSessions {
    /// [`Tier::Free`]
    pub free: u32,
    /// [`Tier::SoloManual`]
    pub solo_manual: u32,
    /// [`Tier::TeamManual`]
    pub team_manual: u32,
    /// [`Tier::AgencyManual`]
    pub agency_manual: u32,
    /// [`Tier::ApiStarter`]
    pub api_starter: u32,
    /// [`Tier::ApiBuilder`]
    pub api_builder: u32,
    /// [`Tier::ApiScale`]
    pub api_scale: u32,
    /// [`Tier::Enterprise`]
    pub enterprise: u32,
}

impl ConcurrentSessions {
    /// An account's, by its tier.
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
            press_key_chars: 20,
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
