//! What a route asks of its caller (interface, "Authentication" 6 to 8; decisions D4 and D13 "Scopes"). A permission is a
//! type, so that a handler that forgets it does not get at the account.

use kitfleet_domain::api_keys::Scope;

/// What a route asks for.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What the caller's own credential has to satisfy.
    pub scope: Scope,
    /// Whether `X-Service-Account` is honored. Elsewhere it is ignored.
    pub honors_account_header: bool,
    /// Whether only somebody who signed in may do it.
    pub web_session_only: bool,
    /// Whether a desktop app's credential may do it on the free tier.
    pub open_to_free_devices: bool,
}

impl Rule {
    const fn scope(scope: Scope) -> Self {
        Self { scope, honors_account_header: false, web_session_only: false, open_to_free_devices: false }
    }

    const fn honoring_account_header(self) -> Self {
        Self { honors_account_header: true, ..self }
    }

    const fn for_web_sessions_only(self) -> Self {
        Self { web_session_only: true, ..self }
    }

    const fn open_to_free_devices(self) -> Self {
        Self { open_to_free_devices: true, ..self }
    }
}

/// A right a route asks for.
pub trait Permission {
    /// What it asks for.
    const RULE: Rule;
}

macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident: $rule:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl Permission for $name {
            const RULE: Rule = $rule;
        }
    )*};
}

permissions! {
    /// Listing and reading sessions.
    ReadSessions: Rule::scope(Scope::ReadSessions).honoring_account_header().open_to_free_devices();
    /// Creating, driving and destroying sessions.
    WriteSessions: Rule::scope(Scope::WriteSessions).honoring_account_header().open_to_free_devices();
    /// Reading one's own account.
    ReadAccount: Rule::scope(Scope::Read).open_to_free_devices();
    /// Changing one's own account.
    AccountOwner: Rule::scope(Scope::AccountOwner);
    /// What only the person themself may do.
    Person: Rule::scope(Scope::AccountOwner).for_web_sessions_only();
    /// Whether there is a second factor.
    ReadMfa: Rule::scope(Scope::Read);
    /// Listing and reading API keys.
    ReadKeys: Rule::scope(Scope::Read).honoring_account_header();
    /// Minting, rotating and revoking API keys.
    ChangeKeys: Rule::scope(Scope::AccountOwner).honoring_account_header();
    /// What mail the account wants.
    EmailPreferences: Rule::scope(Scope::AccountOwner).honoring_account_header();
}
