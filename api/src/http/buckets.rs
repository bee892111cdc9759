//! The buckets of the rate limits (contract: rate-limits) and their sizes.

use std::num::NonZeroU32;

use governor::Quota;

/// Requests per minute of each bucket and source; all of them can arrive at once. Only routes that send mail have tight limits:
/// many customers can share one address, and a load test comes from one address.
#[derive(Debug, Clone)]
pub struct RateLimits {
    /// Each route that sends a mail to a given address, per IP address.
    pub send_per_minute: NonZeroU32,
    /// Sign-ups, per IP address.
    pub signup_per_minute: NonZeroU32,
    /// Logins, per IP address.
    pub login_per_minute: NonZeroU32,
    /// Wrong passwords per hour and e-mail address, from all networks that the account owner has not signed in from.
    pub login_failures_per_hour: NonZeroU32,
    /// Wrong passwords per hour and e-mail address, from one network (an IPv4 /24 or an IPv6 /48).
    pub login_failures_of_network_per_hour: NonZeroU32,
    /// Answers to login challenges, per IP address.
    pub challenge_per_minute: NonZeroU32,
    /// Uses of mailed links, per IP address.
    pub verify_per_minute: NonZeroU32,
    /// Device code requests, per IP address.
    pub device_initiate_per_minute: NonZeroU32,
    /// Device code authorizations, per IP address and per code.
    pub device_bind_per_minute: NonZeroU32,
    /// Device code exchanges, per IP address and per code.
    pub device_exchange_per_minute: NonZeroU32,
    /// OAuth token requests, per IP address.
    pub oauth_token_per_minute: NonZeroU32,
    /// Subscriptions to the status page, per IP address.
    pub status_subscriptions_per_minute: NonZeroU32,
    /// Team invitations per hour, per account and per e-mail address.
    pub team_invites_per_hour: NonZeroU32,
    /// Tests of model provider keys, per account.
    pub byok_test_per_minute: NonZeroU32,
    /// Checks of saved proxies, per account.
    pub proxy_check_per_minute: NonZeroU32,
    /// Tests of webhook endpoints and replays of deliveries, per account.
    pub webhook_sends_per_minute: NonZeroU32,
    /// Requests to payment providers, per account.
    pub billing_per_minute: NonZeroU32,
    /// All requests of a credential, per replica.
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
            credential_per_minute: const { NonZeroU32::new(60_000).expect("nonzero") },
        }
    }
}

/// Mails per hour to addresses without a verified account that one network (an IPv4 /24 or an IPv6 /48) can request.
const STRANGER_MAILS_PER_HOUR: NonZeroU32 = NonZeroU32::new(100).expect("more than none");

/// A counter of the rate limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// Resent verification mail.
    SendVerification,
    /// Sign-in mail.
    SendMagicLink,
    /// Password reset mail.
    SendPasswordReset,
    /// Subscription mail of the status page.
    StatusSubscription,
    /// Mails to addresses that no account has verified, of one network.
    StrangerMail,
    Signup,
    Login,
    /// Wrong passwords: checked before a login, and counted when the password was wrong.
    LoginFailures,
    /// Wrong passwords from one network.
    LoginFailuresOfNetwork,
    Challenge,
    Verify,
    DeviceInitiate,
    DeviceBind,
    DeviceExchange,
    OAuthToken,
    TeamInvite,
    /// Test of a model provider key.
    ByokTest,
    /// Check of a saved proxy.
    ProxyCheck,
    /// Tests of webhook endpoints and replays of deliveries.
    WebhookSend,
    /// Requests to payment providers.
    Billing,
    /// All requests of a credential.
    Credential,
}

impl Bucket {
    pub const ALL: [Self; 21] = [
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
        Self::Credential,
    ];

    /// Name in metrics and in Redis.
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
            Self::Credential => "credential",
        }
    }

    /// Detail of the problem when the limit is exceeded.
    pub fn complaint(self) -> &'static str {
        match self {
            Self::StrangerMail => {
                "too many mails to addresses without a verified account were requested from this network"
            }
            _ => "too many requests",
        }
    }

    /// Rate and size of the bucket.
    pub fn quota(self, limits: &RateLimits) -> Quota {
        match self {
            Self::SendVerification | Self::SendMagicLink | Self::SendPasswordReset => {
                Quota::per_minute(limits.send_per_minute)
            }
            Self::StatusSubscription => Quota::per_minute(limits.status_subscriptions_per_minute),
            Self::StrangerMail => Quota::per_hour(STRANGER_MAILS_PER_HOUR),
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
            Self::Credential => Quota::per_minute(limits.credential_per_minute),
        }
    }
}
