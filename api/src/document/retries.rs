//! Requests that can be repeated after their response was lost. Reads, writes of a complete state, and uses of one-time
//! credentials are repeatable. Requests that create, send or touch something each time are not.

use axum::http::Method;

/// Returns whether repeating an equal request has no further effect.
pub fn may_be_sent_again(method: &Method, path: &str) -> bool {
    if method == Method::POST {
        REPEATABLE_POSTS.contains(&path)
    } else {
        !UNREPEATABLE.contains(&(method.as_str(), path))
    }
}

/// Exceptions among the methods that are repeatable as a rule.
const UNREPEATABLE: [(&str, &str); 1] = [
    // The callback uses up the sign-in, and may have created an account and sent a mail.
    ("GET", "/v1/auth/oauth/{provider}/callback"),
];

/// Exceptions among POST requests, which are not repeatable as a rule.
const REPEATABLE_POSTS: [&str; 26] = [
    // These only look at the page. While the first operation runs, the second is a 409.
    "/v1/sessions/{id}/wait",
    "/v1/sessions/{id}/capture",
    "/v1/sessions/{id}/extract",
    // A challenge that has ended does not change.
    "/v1/sessions/{id}/challenges/{challenge_id}/resolve",
    // A restored profile is not in the recycle bin any more, and a key has only one successor: the second request is a 409.
    "/v1/profiles/{id}/restore",
    "/v1/api-keys/{id}/rotate",
    // An address has one account: the second request is a 409 and sends no mail.
    "/v1/auth/signup",
    // Links, codes, challenges and invitations are used up by the statement that checks them: the second request is rejected.
    "/v1/auth/verify-email",
    "/v1/auth/magic-link/consume",
    "/v1/auth/password-reset/confirm",
    "/v1/auth/oauth/confirm",
    "/v1/auth/mfa/challenge",
    "/v1/auth/mfa/step-up",
    "/v1/account/mfa/verify",
    "/v1/auth/cli-authorize/bind-device-code",
    "/v1/team/invites/accept",
    // A device polls until it receives its key, once.
    "/v1/auth/cli-authorize/exchange",
    // A refreshed or logged-out token stays invalid.
    "/v1/auth/refresh",
    "/v1/auth/logout",
    // A new pending secret or set of recovery codes replaces the previous one: the last response counts.
    "/v1/account/mfa/enroll",
    "/v1/account/mfa/recovery-codes/regenerate",
    // Afterwards no second factor is enrolled, whether or not one was before.
    "/v1/account/mfa/disable",
    // An unused token expires and is not listed.
    "/v1/oauth/token",
    // An unused device code expires, too.
    "/v1/auth/cli-authorize/initiate",
    // A redelivered event has no further effect.
    "/v1/billing/card-webhook",
    "/v1/billing/crypto-webhook",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::ROUTES;

    #[test]
    fn every_exception_is_a_route() {
        let is_there = |method: &str, path| ROUTES.iter().any(|route| route.method == method && route.path == path);
        for path in REPEATABLE_POSTS {
            assert!(is_there("POST", path), "{path}");
        }
        for (method, path) in UNREPEATABLE {
            assert!(is_there(method, path), "{path}");
        }
    }

    /// A repeated request can cost a customer money or lock them out.
    #[test]
    fn what_makes_or_sends_something_is_sent_once() {
        for path in
            ["/v1/sessions", "/v1/sessions/{id}/interact", "/v1/webhooks/{id}/rotate-secret", "/v1/team/invites"]
        {
            assert!(!may_be_sent_again(&Method::POST, path), "{path}");
        }
        assert!(may_be_sent_again(&Method::DELETE, "/v1/sessions/{id}"));
        assert!(may_be_sent_again(&Method::GET, "/v1/sessions"));
    }
}
