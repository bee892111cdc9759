//! The fields of the domain's [`Limits`]: the domain crate does not know the syntax of the configuration.

use std::num::NonZeroU32;
use std::time::Duration;

use kitfleet_types::limits::{ConcurrentSessions, Limits, Profiles};
use serde::{Deserialize, Serialize};

use super::values::duration;

/// They are constants now.
pub(super) const REMOVED: [&str; 16] = [
    "limits.extraction_name_chars",
    "limits.sub_extractions",
    "limits.list_matches",
    "limits.selector_chars",
    "limits.locator_chars",
    "limits.snapshot_chars",
    "limits.snapshot_nodes",
    "limits.pattern_chars",
    "limits.url_chars",
    "limits.title_chars",
    "limits.open_body_values",
    "limits.body_values",
    "limits.mfa_guess_window",
    "limits.device_label_chars",
    "limits.webhook_description_chars",
    "limits.password_max_chars",
];

/// A skipped field is a constant.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Limits", default = "Limits::default")]
pub(super) struct LimitsTable {
    #[serde(with = "ConcurrentSessionsTable")]
    concurrent_sessions: ConcurrentSessions,
    label_chars: usize,
    waiting_creates: usize,
    waiting_creates_per_account: usize,
    metadata_bytes: usize,
    type_text_chars: usize,
    type_delay_ms: u64,
    press_key_chars: usize,
    #[serde(with = "duration")]
    min_timeout: Duration,
    #[serde(with = "duration")]
    max_timeout: Duration,
    #[serde(with = "duration")]
    max_time_wait: Duration,
    extractions: usize,
    #[serde(skip)]
    extraction_name_chars: usize,
    #[serde(skip)]
    sub_extractions: usize,
    #[serde(skip)]
    list_matches: usize,
    #[serde(skip)]
    selector_chars: usize,
    #[serde(skip)]
    locator_chars: usize,
    #[serde(skip)]
    snapshot_chars: usize,
    #[serde(skip)]
    snapshot_nodes: usize,
    #[serde(skip)]
    pattern_chars: usize,
    result_bytes: usize,
    #[serde(skip)]
    url_chars: usize,
    #[serde(skip)]
    title_chars: usize,
    query_chars: usize,
    #[serde(with = "duration")]
    default_form_timeout: Duration,
    #[serde(with = "duration")]
    max_form_timeout: Duration,
    #[serde(with = "duration")]
    form_work: Duration,
    #[serde(with = "duration")]
    form_teardown: Duration,
    screenshot_bytes: u64,
    pdf_bytes: u64,
    state_storage_bytes: usize,
    state_cookies: usize,
    #[serde(with = "duration")]
    archetypes_max_age: Duration,
    unknown_fields: usize,
    unknown_field_chars: usize,
    page_default: u32,
    page_max: u32,
    page_bytes: usize,
    answer_bytes_per_account: u64,
    answer_bytes: u64,
    #[serde(skip)]
    open_body_values: usize,
    #[serde(skip)]
    body_values: usize,
    audit_export_rows: u32,
    usage_days_default: u32,
    usage_days_max: u32,
    #[serde(with = "ProfilesTable")]
    profiles: Profiles,
    enterprise_profiles: u32,
    profile_store_bytes: u64,
    profile_bytes_per_account: u64,
    snapshots_per_profile: u32,
    profile_document_bytes: u64,
    agent_bytes_per_account: u64,
    refused_creates: u32,
    audited_changes_per_hour: NonZeroU32,
    recipes: u32,
    recipe_steps: u32,
    recipe_bytes: usize,
    recipe_label_chars: usize,
    recipe_description_chars: usize,
    proxies: u32,
    api_keys: u32,
    oauth_clients: u32,
    password_min_chars: usize,
    #[serde(skip)]
    password_max_chars: usize,
    recovery_codes: usize,
    totp_drift_periods: u16,
    challenge_guesses: u32,
    mfa_guesses: u32,
    #[serde(skip)]
    mfa_guess_window: Duration,
    device_state_min_chars: usize,
    device_state_max_chars: usize,
    #[serde(skip)]
    device_label_chars: usize,
    team_name_chars: usize,
    webhook_endpoints: u32,
    webhook_events: usize,
    #[serde(skip)]
    webhook_description_chars: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Profiles", default = "Profiles::default")]
struct ProfilesTable {
    free: u32,
    solo_manual: u32,
    team_manual: u32,
    agency_manual: u32,
    api_starter: u32,
    api_builder: u32,
    api_scale: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ConcurrentSessions", default = "ConcurrentSessions::default")]
struct ConcurrentSessionsTable {
    free: u32,
    solo_manual: u32,
    team_manual: u32,
    agency_manual: u32,
    api_starter: u32,
    api_builder: u32,
    api_scale: u32,
    enterprise: u32,
}
