//! Which requests may be sent again when their answer was lost. What only reads, what says how something is to be, and what
//! uses up a one-time credential may; what makes, sends or touches something each time may not.

use axum::http::Method;

/// Whether the second of two equal requests does nothing that the first has done.
pub fn may_be_sent_again(method: &Method, path: &str) -> bool {
    if method == Method::POST {
        REPEATABLE_POSTS.contains(&path)
    } else {
        !UNREPEATABLE.contains(&(method.as_str(), path))
    }
}

/// Of the methods that may as a rule.
const UNREPEATABLE: [(&str, &str); 1] = [
    // The trip to the identity provider ends with it, and may have made an account and sent a mail.
    ("GET", "/v1/auth/oauth/{provider}/callback"),
];

/// Of the method that may not as a rule.
const REPEATABLE_POSTS: [&str; 26] = [
    // They look at the page and leave it as it is. An operation that still runs makes the second a 409.
    "/v1/sessions/{id}/wait",
    "/v1/sessions/{id}/capture",
    "/v1/sessions/{id}/extract",
    // What has ended stays as it ended.
    "/v1/sessions/{id}/challenges/{challenge_id}/resolve",
    // What is restored is not in the recycle bin any more, and no key has two successors: the second is a 409.
    "/v1/profiles/{id}/restore",
    "/v1/api-keys/{id}/rotate",
    // An address has one account: the second is a 409, and sends no mail.
    "/v1/auth/signup",
    // Links, codes, challenges and invites are used up by the statement that judges them: the second is refused.
    "/v1/auth/verify-email",
    "/v1/auth/magic-link/consume",
    "/v1/auth/password-reset/confirm",
    "/v1/auth/oauth/confirm",
    "/v1/auth/mfa/challenge",
    "/v1/auth/mfa/step-up",
    "/v1/account/mfa/verify",
    "/v1/auth/cli-authorize/bind-device-code",
    "/v1/team/invites/accept",
    // A device polls until its key is there, which it gets once.
    "/v1/auth/cli-authorize/exchange",
    // A token that was refreshed or logged out stays worthless.
    "/v1/auth/refresh",
    "/v1/auth/logout",
    // A pending secret, or a set of recovery codes, replaces the one before: those of the last answer count.
    "/v1/account/mfa/enroll",
    "/v1/account/mfa/recovery-codes/regenerate",
    // There is no second factor afterwards, or was none before.
    "/v1/account/mfa/disable",
    // A token that nobody has ends by itself, and is on no list.
    "/v1/oauth/token",
    // A device's code that nobody has ends by itself, too.
    "/v1/auth/cli-authorize/initiate",
    // An event does what it does once.
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

    /// What is sent twice may cost a customer something, or lock them out.
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
