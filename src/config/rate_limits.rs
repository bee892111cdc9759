//! The fields of the API's [`RateLimits`]: the API crate does not know the syntax of the configuration.

use std::num::NonZeroU32;

use kitfleet_api::RateLimits;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(remote = "RateLimits", default = "RateLimits::default")]
pub(super) struct RateLimitsTable {
    /// Set by `auth.send_rate_per_minute`.
    #[serde(skip)]
    send_per_minute: NonZeroU32,
    signup_per_minute: NonZeroU32,
    login_per_minute: NonZeroU32,
    login_failures_per_hour: NonZeroU32,
    login_failures_of_network_per_hour: NonZeroU32,
    challenge_per_minute: NonZeroU32,
    verify_per_minute: NonZeroU32,
    device_initiate_per_minute: NonZeroU32,
    device_bind_per_minute: NonZeroU32,
    device_exchange_per_minute: NonZeroU32,
    oauth_token_per_minute: NonZeroU32,
    status_subscriptions_per_minute: NonZeroU32,
    team_invites_per_hour: NonZeroU32,
    byok_test_per_minute: NonZeroU32,
    proxy_check_per_minute: NonZeroU32,
    webhook_sends_per_minute: NonZeroU32,
    billing_per_minute: NonZeroU32,
    trace_download_per_minute: NonZeroU32,
    credential_per_minute: NonZeroU32,
}
