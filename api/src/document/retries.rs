//! Requests that can be repeated after their response was lost. A request is repeatable if it only reads, sets a state, or uses
//! up a one-time credential.

use axum::http::Method;
use kitfleet_types::operations::Operation;

pub fn may_be_sent_again(method: &Method, path: &str) -> bool {
    if method == Method::POST {
        REPEATABLE_POSTS.contains(&path) || is_repeatable_operation(path)
    } else {
        !UNREPEATABLE.contains(&(method.as_str(), path))
    }
}

/// While the operation still runs, the second request is a 409.
fn is_repeatable_operation(path: &str) -> bool {
    let operation = path.strip_prefix("/v1/sessions/{id}/");
    operation.is_some_and(|route| Operation::SPECS.iter().any(|spec| spec.retryable && spec.route == Some(route)))
}

/// Of the methods that are repeatable by default.
const UNREPEATABLE: [(&str, &str); 1] = [
    // The callback uses up the sign-in attempt, and may have created an account and sent a mail.
    ("GET", "/v1/auth/oauth/{provider}/callback"),
];

/// POST requests are not repeatable by default.
const REPEATABLE_POSTS: [&str; 24] = [
    // An ended challenge does not change.
    "/v1/sessions/{id}/challenges/{challenge_id}/resolve",
    // A restored profile is no longer in the recycle bin, and a key has only one successor: the second request gets a 409.
    "/v1/profiles/{id}/restore",
    "/v1/api-keys/{id}/rotate",
    // A declined step no longer waits, so the second request gets a 409.
    "/v1/agent-sessions/{id}/steps/{step_id}/decline",
    // An address has one account: the second request gets a 409 and sends no mail.
    "/v1/auth/signup",
    // The check uses up the link, code, challenge or invitation, so the second request is rejected.
    "/v1/auth/verify-email",
    "/v1/auth/magic-link/consume",
    "/v1/auth/password-reset/confirm",
    "/v1/auth/oauth/confirm",
    "/v1/auth/mfa/challenge",
    "/v1/auth/mfa/step-up",
    "/v1/account/mfa/verify",
    "/v1/auth/cli-authorize/bind-device-code",
    "/v1/team/invites/accept",
    // A device polls until its key is available, and receives it once.
    "/v1/auth/cli-authorize/exchange",
    // A refreshed or logged-out token stays invalid.
    "/v1/auth/refresh",
    "/v1/auth/logout",
    // A pending secret or a set of recovery codes replaces the previous one; those in the last response are valid.
    "/v1/account/mfa/enroll",
    "/v1/account/mfa/recovery-codes/regenerate",
    // The account has no second factor afterwards, or had none before.
    "/v1/account/mfa/disable",
    // An unused token expires and is not listed.
    "/v1/oauth/token",
    // An unused device code expires, too.
    "/v1/auth/cli-authorize/initiate",
    // An event is processed once.
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

    /// A repeated request could cost the customer money, or lock them out.
    #[test]
    fn non_repeatable_posts_are_sent_once() {
        for path in
            ["/v1/sessions", "/v1/sessions/{id}/interact", "/v1/webhooks/{id}/rotate-secret", "/v1/team/invites"]
        {
            assert!(!may_be_sent_again(&Method::POST, path), "{path}");
        }
        assert!(may_be_sent_again(&Method::DELETE, "/v1/sessions/{id}"));
        assert!(may_be_sent_again(&Method::GET, "/v1/sessions"));
    }
}
