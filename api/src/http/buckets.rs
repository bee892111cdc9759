//! What is counted for the rate limits (contract: rate-limits), and how much of it there may be.

use std::num::NonZeroU32;

use governor::Quota;

/// How many requests a minute each bucket takes from one place, all of which may come at once. Only what sends mail is
/// tight: many customers may share one address, and a load test comes from one too.
#[derive(Debug, Clone)]
pub struct RateLimits {
    /// Each of the routes that send mail to whoever is named, an address.
    pub send_per_minute: NonZeroU32,
    /// Signing up, an address.
    pub signup_per_minute: NonZeroU32,
    /// Logging in, an address.
    pub login_per_minute: NonZeroU32,
    /// Wrong passwords an hour for an e-mail address, from all networks that its owner has not signed in from.
    pub login_failures_per_hour: NonZeroU32,
    /// Wrong passwords an hour for an e-mail address, from one network (an IPv4 /24 or an IPv6 /48).
    pub login_failures_of_network_per_hour: NonZeroU32,
    /// Answering a login's challenge, an address.
    pub challenge_per_minute: NonZeroU32,
    /// Following the link of a mail, an address.
    pub verify_per_minute: NonZeroU32,
    /// Asking for a device code, an address.
    pub device_initiate_per_minute: NonZeroU32,
    /// Binding a device code, an address, and a code.
    pub device_bind_per_minute: NonZeroU32,
    /// Exchanging a device code, an address, and a code.
    pub device_exchange_per_minute: NonZeroU32,
    /// Asking for an OAuth token, an address.
    pub oauth_token_per_minute: NonZeroU32,
    /// Asking for mails of the status page, an address.
    pub status_subscriptions_per_minute: NonZeroU32,
    /// Inviting somebody to a team, an account, and an e-mail address.
    pub team_invites_per_hour: NonZeroU32,
    /// Testing keys at model providers, an account.
    pub byok_test_per_minute: NonZeroU32,
    /// Checking saved proxies, an account.
    pub proxy_check_per_minute: NonZeroU32,
    /// Testing webhook endpoints and replaying deliveries, an account.
    pub webhook_sends_per_minute: NonZeroU32,
    /// Asking a payment provider for something, an account.
    pub billing_per_minute: NonZeroU32,
    /// Everything, a credential, at one replica.
    pub credential_per_minute: NonZeroU32,
}

impl Default for RateLimits {
    fn default() -> Self {
        const GENEROUS: NonZeroU32 = NonZeroU32::new(1_200).expect("more than none");
        Self {
            send_per_minute: const { NonZeroU32::new(3).expect("more than none") },
            signup_per_minute: GENEROUS,
            login_per_minute: GENEROUS,
            login_failures_per_hour: const { NonZeroU32::new(500).expect("more than none") },
            login_failures_of_network_per_hour: const { NonZeroU32::new(100).expect("more than none") },
            challenge_per_minute: GENEROUS,
            verify_per_minute: GENEROUS,
            device_initiate_per_minute: GENEROUS,
            device_bind_per_minute: GENEROUS,
            device_exchange_per_minute: GENEROUS,
            oauth_token_per_minute: GENEROUS,
            status_subscriptions_per_minute: const { NonZeroU32::new(30).expect("more than none") },
            team_invites_per_hour: const { NonZeroU32::new(100).expect("more than none") },
            byok_test_per_minute: const { NonZeroU32::new(10).expect("more than none") },
            proxy_check_per_minute: const { NonZeroU32::new(10).expect("more than none") },
            webhook_sends_per_minute: const { NonZeroU32::new(60).expect("more than none") },
            billing_per_minute: const { NonZeroU32::new(30).expect("more than none") },
            credential_per_minute: const { NonZeroU32::new(60_000).expect("more than none") },
        }
    }
}

/// Mails an hour that one network (an IPv4 /24 or an IPv6 /48) can have sent to addresses that are not known to be the reader's.
const STRANGER_MAILS_PER_HOUR: NonZeroU32 = NonZeroU32::new(100).expect("more than none");

/// What is counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// The verification mail, sent again.
    SendVerification,
    /// The mail with a magic link.
    SendMagicLink,
    /// The mail that lets one set a new password.
    SendPasswordReset,
    /// The mail that asks a subscriber of the status page.
    StatusSubscription,
    /// Mails to addresses that no account has verified, of one network.
    StrangerMail,
    Signup,
    Login,
    /// Wrong passwords: looked at before, and recorded when it was wrong.
    LoginFailures,
    /// The same of one network.
    LoginFailuresOfNetwork,
    Challenge,
    Verify,
    DeviceInitiate,
    DeviceBind,
    DeviceExchange,
    OAuthToken,
    TeamInvite,
    /// The test of a key at a model provider.
    ByokTest,
    /// The check of a saved proxy.
    ProxyCheck,
    /// Tests of webhook endpoints and replays of deliveries.
    WebhookSend,
    /// What a payment provider is asked for.
    Billing,
    /// Whatever a credential asks for.
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

    /// As metrics and Redis call it.
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

    /// What a refusal says.
    pub fn complaint(self) -> &'static str {
        match self {
            Self::StrangerMail => {
                "too many mails to addresses without a verified account were asked for from this network"
            }
            _ => "there were too many requests",
        }
    }

    /// How fast it fills up, and how much is in it at once.
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
