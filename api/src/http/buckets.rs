//! The buckets of the rate limits (contract: rate-limits) and their sizes.

use std::num::NonZeroU32;

use governor::Quota;

/// Per minute and source; all requests of a bucket can arrive at once. Only routes that send mail have tight limits: many
/// customers can share one address, and a load test comes from one address.
#[derive(Debug, Clone)]
pub struct RateLimits {
    /// Each route that sends a mail to a given address, per IP address.
    pub send_per_minute: NonZeroU32,
    pub signup_per_minute: NonZeroU32,
    pub login_per_minute: NonZeroU32,
    /// Per e-mail address, from all networks that the account owner has not signed in from.
    pub login_failures_per_hour: NonZeroU32,
    /// Per e-mail address and network (an IPv4 /24 or an IPv6 /48).
    pub login_failures_of_network_per_hour: NonZeroU32,
    pub challenge_per_minute: NonZeroU32,
    pub verify_per_minute: NonZeroU32,
    pub device_initiate_per_minute: NonZeroU32,
    /// Per IP address and per code.
    pub device_bind_per_minute: NonZeroU32,
    /// Per IP address and per code.
    pub device_exchange_per_minute: NonZeroU32,
    pub oauth_token_per_minute: NonZeroU32,
    pub status_subscriptions_per_minute: NonZeroU32,
    /// Per account and per e-mail address.
    pub team_invites_per_hour: NonZeroU32,
    pub byok_test_per_minute: NonZeroU32,
    pub proxy_check_per_minute: NonZeroU32,
    pub webhook_sends_per_minute: NonZeroU32,
    pub billing_per_minute: NonZeroU32,
    /// Downloads by public links to traces.
    pub trace_download_per_minute: NonZeroU32,
    /// Per replica.
    pub credential_per_minute: NonZeroU32,
}

impl Default for RateLimits {
    fn default() -> Self {
        const GENEROUS: NonZeroU32 = NonZeroU32::new(1_200).expect("nonzero");
        Self {
            send_per_minute: const { NonZeroU32::new(3).expect("nonzero") },
            signup_per_minute: GENEROUS,
            login_per_minute: GENEROUS,
            login_failures_per_hour: const { NonZeroU32::new(500).expect("nonzero") },
            login_failures_of_network_per_hour: const { NonZeroU32::new(100).expect("nonzero") },
            challenge_per_minute: GENEROUS,
            verify_per_minute: GENEROUS,
            device_initiate_per_minute: GENEROUS,
            device_bind_per_minute: GENEROUS,
            device_exchange_per_minute: GENEROUS,
            oauth_token_per_minute: GENEROUS,
            status_subscriptions_per_minute: const { NonZeroU32::new(30).expect("nonzero") },
            team_invites_per_hour: const { NonZeroU32::new(100).expect("nonzero") },
            byok_test_per_minute: const { NonZeroU32::new(10).expect("nonzero") },
            proxy_check_per_minute: const { NonZeroU32::new(10).expect("nonzero") },
            webhook_sends_per_minute: const { NonZeroU32::new(60).expect("nonzero") },
            billing_per_minute: const { NonZeroU32::new(30).expect("nonzero") },
            trace_download_per_minute: const { NonZeroU32::new(60).expect("nonzero") },
            credential_per_minute: const { NonZeroU32::new(60_000).expect("nonzero") },
        }
    }
}

/// Of one network (an IPv4 /24 or an IPv6 /48), to addresses without a verified account.
const UNVERIFIED_MAILS_PER_HOUR: NonZeroU32 = NonZeroU32::new(100).expect("more than none");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    SendVerification,
    SendMagicLink,
    SendPasswordReset,
    StatusSubscription,
    /// Mails to addresses that no account has verified, of one network.
    StrangerMail,
    Signup,
    Login,
    /// Checked before a login, and counted when the password was wrong.
    LoginFailures,
    LoginFailuresOfNetwork,
    Challenge,
    Verify,
    DeviceInitiate,
    DeviceBind,
    DeviceExchange,
    OAuthToken,
    TeamInvite,
    ByokTest,
    ProxyCheck,
    /// Tests of webhook endpoints and replays of deliveries.
    WebhookSend,
    Billing,
    TraceDownload,
    Credential,
}

impl Bucket {
    pub const ALL: [Self; 22] = [
        Self::SendVerification,
        Self::SendMagicLink,
        Self::SendPasswordReset,
        Self::StatusSubscription,
        Self::StrangerMail,
        Self::Signup,
        Self::Login,
        Self::LoginFailures,
        Self::LoginFailuresOfNetwork,
        Self::Challenge,
        Self::Verify,
        Self::DeviceInitiate,
        Self::DeviceBind,
        Self::DeviceExchange,
        Self::OAuthToken,
        Self::TeamInvite,
        Self::ByokTest,
        Self::ProxyCheck,
        Self::WebhookSend,
        Self::Billing,
        Self::TraceDownload,
        Self::Credential,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::SendVerification => "send_verification",
            Self::SendMagicLink => "send_magic_link",
            Self::SendPasswordReset => "send_password_reset",
            Self::StatusSubscription => "status_subscription",
            Self::StrangerMail => "stranger_mail",
            Self::Signup => "signup",
            Self::Login => "login",
            Self::LoginFailures => "login_failures",
            Self::LoginFailuresOfNetwork => "login_failures_of_network",
            Self::Challenge => "challenge",
            Self::Verify => "verify",
            Self::DeviceInitiate => "device_initiate",
            Self::DeviceBind => "device_bind",
            Self::DeviceExchange => "device_exchange",
            Self::OAuthToken => "oauth_token",
            Self::TeamInvite => "team_invite",
            Self::ByokTest => "byok_test",
            Self::ProxyCheck => "proxy_check",
            Self::WebhookSend => "webhook_send",
            Self::Billing => "billing",
            Self::TraceDownload => "trace_download",
            Self::Credential => "credential",
        }
    }

    pub fn exceeded_message(self) -> &'static str {
        match self {
            Self::StrangerMail => {
                "too many mails to addresses without a verified account were requested from this network"
            }
            _ => "too many requests",
        }
    }

    pub fn quota(self, limits: &RateLimits) -> Quota {
        match self {
            Self::SendVerification | Self::SendMagicLink | Self::SendPasswordReset => {
                Quota::per_minute(limits.send_per_minute)
            }
            Self::StatusSubscription => Quota::per_minute(limits.status_subscriptions_per_minute),
            Self::StrangerMail => Quota::per_hour(UNVERIFIED_MAILS_PER_HOUR),
            Self::Signup => Quota::per_minute(limits.signup_per_minute),
            Self::Login => Quota::per_minute(limits.login_per_minute),
            Self::LoginFailures => Quota::per_hour(limits.login_failures_per_hour),
            Self::LoginFailuresOfNetwork => Quota::per_hour(limits.login_failures_of_network_per_hour),
            Self::Challenge => Quota::per_minute(limits.challenge_per_minute),
            Self::Verify => Quota::per_minute(limits.verify_per_minute),
            Self::DeviceInitiate => Quota::per_minute(limits.device_initiate_per_minute),
            Self::DeviceBind => Quota::per_minute(limits.device_bind_per_minute),
            Self::DeviceExchange => Quota::per_minute(limits.device_exchange_per_minute),
            Self::OAuthToken => Quota::per_minute(limits.oauth_token_per_minute),
            Self::TeamInvite => Quota::per_hour(limits.team_invites_per_hour),
            Self::ByokTest => Quota::per_minute(limits.byok_test_per_minute),
            Self::ProxyCheck => Quota::per_minute(limits.proxy_check_per_minute),
            Self::WebhookSend => Quota::per_minute(limits.webhook_sends_per_minute),
            Self::Billing => Quota::per_minute(limits.billing_per_minute),
            Self::TraceDownload => Quota::per_minute(limits.trace_download_per_minute),
            Self::Credential => Quota::per_minute(limits.credential_per_minute),
        }
    }
}
