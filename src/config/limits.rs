//! `limits.*`: the fields of the domain's [`Limits`], because the domain crate does not know the syntax of the configuration.

use std::num::NonZeroU32;
use std::time::Duration;

use kitfleet_domain::limits::{ConcurrentSessions, Limits, Profiles};
use serde::{Deserialize, Serialize};

use super::values::duration;

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
    extraction_name_chars: usize,
    sub_extractions: usize,
    list_matches: usize,
    selector_chars: usize,
    locator_chars: usize,
    snapshot_chars: usize,
    snapshot_nodes: usize,
    pattern_chars: usize,
    result_bytes: usize,
    url_chars: usize,
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
    open_body_values: usize,
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
    password_max_chars: usize,
    recovery_codes: usize,
    totp_drift_periods: u16,
    challenge_guesses: u32,
    mfa_guesses: u32,
    #[serde(with = "duration")]
    mfa_guess_window: Duration,
    device_state_min_chars: usize,
    device_state_max_chars: usize,
    device_label_chars: usize,
    team_name_chars: usize,
    webhook_endpoints: u32,
    webhook_events: usize,
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
