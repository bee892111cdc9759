//! The kinds of problems, and what `/errors/<slug>` says about them. A type URI, once published, stays.

use std::ptr;

use axum::http::StatusCode;

/// A kind of problem.
#[derive(Debug)]
pub struct Kind {
    /// The last segment of its type URI.
    pub slug: &'static str,
    /// Its usual title.
    pub title: &'static str,
    /// Its status.
    pub status: StatusCode,
    /// What it means, for people.
    pub meaning: &'static str,
    /// What a caller does about it, for people.
    pub remedy: &'static str,
}

pub static BAD_REQUEST: Kind = Kind {
    slug: "bad-request",
    title: "BadRequest",
    status: StatusCode::BAD_REQUEST,
    meaning: "The request could not be read: its body is not JSON, is nested too deeply, or holds a number or a \
              character that JSON does not allow.",
    remedy: "Send well-formed JSON in UTF-8. The detail says where reading stopped.",
};
pub static VALIDATION_FAILED: Kind = Kind {
    slug: "validation-failed",
    title: "ValidationFailed",
    status: StatusCode::BAD_REQUEST,
    meaning: "The request was read, but a field is missing, has the wrong type or is outside its bounds. Nothing was \
              done; a session stays as it was.",
    remedy: "The member errors names each field as a dotted path, such as action.text, and says what it must be.",
};
pub static UNAUTHORIZED: Kind = Kind {
    slug: "unauthorized",
    title: "Unauthorized",
    status: StatusCode::UNAUTHORIZED,
    meaning: "The request has no bearer token, or one that is unknown, revoked or expired.",
    remedy: "Send Authorization: Bearer with a valid token.",
};
pub static FORBIDDEN: Kind = Kind {
    slug: "forbidden",
    title: "Forbidden",
    status: StatusCode::FORBIDDEN,
    meaning: "The credential is valid but may not do this: its scopes do not cover it, its account is suspended, its \
              tier does not include API access, or the account header names an account it is no member of.",
    remedy: "The detail says what is missing. Use a credential with the scope it names, or upgrade the account.",
};
pub static MFA_STEP_UP_REQUIRED: Kind = Kind {
    slug: "mfa-step-up-required",
    title: "MFA step-up required",
    status: StatusCode::FORBIDDEN,
    meaning: "The operation needs a second-factor proof from the last 15 minutes.",
    remedy: "Post a code to /v1/auth/mfa/step-up and repeat the request.",
};
pub static NOT_FOUND: Kind = Kind {
    slug: "not-found",
    title: "NotFound",
    status: StatusCode::NOT_FOUND,
    meaning: "There is no such route, or no such resource in the caller's account. A resource of another account looks \
              exactly the same.",
    remedy: "Check the path and the id.",
};
pub static METHOD_NOT_ALLOWED: Kind = Kind {
    slug: "method-not-allowed",
    title: "MethodNotAllowed",
    status: StatusCode::METHOD_NOT_ALLOWED,
    meaning: "The route exists, but not with this method.",
    remedy: "The Allow header lists the methods it has.",
};
pub static REQUEST_TIMEOUT: Kind = Kind {
    slug: "request-timeout",
    title: "RequestTimeout",
    status: StatusCode::REQUEST_TIMEOUT,
    meaning: "The request's body did not arrive in time.",
    remedy: "Send the body at once, and repeat the request.",
};
pub static CONFLICT: Kind = Kind {
    slug: "conflict",
    title: "Conflict",
    status: StatusCode::CONFLICT,
    meaning: "The resource is in no state for this. A session that is creating or busy takes no other operation; the \
              one under way is not disturbed. One that a challenge pauses, which the member challenge names, takes few.",
    remedy: "Wait until it is ready and repeat the request, or destroy the session. Have a person see to a challenge, or \
             resolve it.",
};
pub static PROFILE_IN_USE: Kind = Kind {
    slug: "profile-in-use",
    title: "ProfileInUse",
    status: StatusCode::CONFLICT,
    meaning: "A live session has the profile; active_session_id names it.",
    remedy: "Destroy that session first.",
};
pub static SESSION_DESTROYED: Kind = Kind {
    slug: "session-destroyed",
    title: "SessionDestroyed",
    status: StatusCode::GONE,
    meaning: "The session is destroyed or errored, or was destroyed while the operation ran. It never comes back.",
    remedy: "Create a new session.",
};
pub static PAYLOAD_TOO_LARGE: Kind = Kind {
    slug: "payload-too-large",
    title: "PayloadTooLarge",
    status: StatusCode::PAYLOAD_TOO_LARGE,
    meaning: "The request's body has more bytes than the service reads.",
    remedy: "Send less. The member limit_bytes says how much is accepted.",
};
pub static UNSUPPORTED_MEDIA_TYPE: Kind = Kind {
    slug: "unsupported-media-type",
    title: "UnsupportedMediaType",
    status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
    meaning: "The request's body is not declared as JSON.",
    remedy: "Send Content-Type: application/json, without a content encoding.",
};
pub static RATE_LIMITED: Kind = Kind {
    slug: "rate-limited",
    title: "RateLimited",
    status: StatusCode::TOO_MANY_REQUESTS,
    meaning: "Too many requests came from one place, or with one credential, in a short time.",
    remedy: "Wait as many seconds as the Retry-After header says.",
};
pub static CONCURRENCY_LIMIT: Kind = Kind {
    slug: "concurrency-limit",
    title: "ConcurrencyLimit",
    status: StatusCode::TOO_MANY_REQUESTS,
    meaning: "The account has as many live sessions (current_sessions) as it may have (limit).",
    remedy: "Destroy a session that is no longer needed, or upgrade. Waiting alone frees no slot.",
};
pub static INTERNAL: Kind = Kind {
    slug: "internal",
    title: "Internal",
    status: StatusCode::INTERNAL_SERVER_ERROR,
    meaning: "The service has a defect. Its operator finds the cause in the logs, under the request's id.",
    remedy: "Report the request_id to the operator.",
};
pub static DRIVER_ERROR: Kind = Kind {
    slug: "driver-error",
    title: "DriverError",
    status: StatusCode::BAD_GATEWAY,
    meaning: "The browser failed: a page could not be reached, an element could not be used, a result was too large, \
              or the browser itself died.",
    remedy: "The detail says what happened. Unless it says otherwise the session is errored: create a new one.",
};
pub static DRIVER_NOT_INTEGRATED: Kind = Kind {
    slug: "driver-not-integrated",
    title: "DriverNotIntegrated",
    status: StatusCode::SERVICE_UNAVAILABLE,
    meaning: "No browser can do this now: no worker is there, or the deployment's driver does not offer the \
              operation.",
    remedy: "Repeat the request later, or ask the operator to add workers or to enable the operation.",
};
pub static CAPACITY_EXHAUSTED: Kind = Kind {
    slug: "capacity-exhausted",
    title: "CapacityExhausted",
    status: StatusCode::SERVICE_UNAVAILABLE,
    meaning: "Every browser that the deployment has is taken, or about to be by those who wait for one.",
    remedy: "Repeat the request after as many seconds as the Retry-After header says, or send wait_timeout_ms to wait for a \
             browser.",
};
pub static FEATURE_UNAVAILABLE: Kind = Kind {
    slug: "feature-unavailable",
    title: "FeatureUnavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    meaning: "Something this request needs is not configured in this deployment, or is down for the moment. With status \
              403: the account's tier includes no more of it.",
    remedy: "With a Retry-After header: repeat the request after that many seconds. With status 403: make room, or \
             upgrade the account. Otherwise ask the operator.",
};
/// The same with another status. It has no page of its own, because a page tells of a slug.
pub static PROFILE_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "The account has as many profiles (current_profiles, those in the recycle bin among them) as it may have \
              (limit).",
    remedy: "Purge a profile that is no longer needed, or upgrade the account.",
};
pub static SNAPSHOT_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "The profile has as many snapshots (current_snapshots) as it may have (limit).",
    remedy: "Delete a snapshot that is no longer needed.",
};
pub static PROFILE_BYTES_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "What the account's profiles and snapshots hold (current_bytes) leaves no room for more (limit_bytes).",
    remedy: "Delete snapshots and purge profiles that are no longer needed.",
};
pub static AGENT_BYTES_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "The account's agent sessions keep as many bytes (bytes) as they may (limit_bytes).",
    remedy: "Delete agent sessions that are no longer needed with DELETE /v1/agent-sessions/{id}?purge=true.",
};
pub static PROXY_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "The account has as many saved proxies (current_proxies) as it may have (limit).",
    remedy: "Delete a saved proxy that is no longer needed.",
};
pub static STREAM_LIMIT: Kind = Kind {
    slug: CONCURRENCY_LIMIT.slug,
    title: CONCURRENCY_LIMIT.title,
    status: StatusCode::TOO_MANY_REQUESTS,
    meaning: "The account's notifications are followed as many times at once as they may be (limit).",
    remedy: "Close a stream that is no longer needed.",
};
pub static SESSION_TIMEOUT: Kind = Kind {
    slug: "session-timeout",
    title: "SessionTimeout",
    status: StatusCode::GATEWAY_TIMEOUT,
    meaning: "The operation did not end within its time, and the session is errored.",
    remedy: "Create a new session; give the operation a longer timeout_ms, or send on_timeout: return where a wait may \
             come to nothing.",
};

/// Every kind, in the order of the index page.
pub static ALL: [&Kind; 21] = [
    &BAD_REQUEST,
    &VALIDATION_FAILED,
    &UNAUTHORIZED,
    &FORBIDDEN,
    &MFA_STEP_UP_REQUIRED,
    &NOT_FOUND,
    &METHOD_NOT_ALLOWED,
    &REQUEST_TIMEOUT,
    &CONFLICT,
    &PROFILE_IN_USE,
    &SESSION_DESTROYED,
    &PAYLOAD_TOO_LARGE,
    &UNSUPPORTED_MEDIA_TYPE,
    &RATE_LIMITED,
    &CONCURRENCY_LIMIT,
    &INTERNAL,
    &DRIVER_ERROR,
    &DRIVER_NOT_INTEGRATED,
    &CAPACITY_EXHAUSTED,
    &FEATURE_UNAVAILABLE,
    &SESSION_TIMEOUT,
];

/// Those that share another one's slug.
static LIMITS: [&Kind; 6] =
    [&PROFILE_LIMIT, &SNAPSHOT_LIMIT, &PROFILE_BYTES_LIMIT, &AGENT_BYTES_LIMIT, &PROXY_LIMIT, &STREAM_LIMIT];

/// The name of a kind that its title does not name.
static NAMES: [(&Kind, &str); 7] = [
    (&MFA_STEP_UP_REQUIRED, "MfaStepUpRequired"),
    (&PROFILE_LIMIT, "ProfileLimit"),
    (&SNAPSHOT_LIMIT, "SnapshotLimit"),
    (&PROFILE_BYTES_LIMIT, "ProfileBytesLimit"),
    (&AGENT_BYTES_LIMIT, "AgentBytesLimit"),
    (&PROXY_LIMIT, "ProxyLimit"),
    (&STREAM_LIMIT, "StreamLimit"),
];

impl Kind {
    /// What programs call it: no other kind is called so.
    pub fn name(&self) -> &'static str {
        NAMES.into_iter().find(|(kind, _)| ptr::eq(*kind, self)).map_or(self.title, |(_, name)| name)
    }
}

/// The kinds that [`Kind::name`] tells apart, in the order of the index page.
pub fn named() -> impl Iterator<Item = &'static Kind> {
    ALL.into_iter().chain(LIMITS)
}

/// The kind of this slug.
pub fn find(slug: &str) -> Option<&'static Kind> {
    ALL.into_iter().find(|kind| kind.slug == slug)
}

/// The kind that says no more than this status does.
pub fn of_status(status: StatusCode) -> &'static Kind {
    match status {
        StatusCode::UNAUTHORIZED => &UNAUTHORIZED,
        StatusCode::FORBIDDEN => &FORBIDDEN,
        StatusCode::NOT_FOUND => &NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED => &METHOD_NOT_ALLOWED,
        StatusCode::REQUEST_TIMEOUT => &REQUEST_TIMEOUT,
        StatusCode::PAYLOAD_TOO_LARGE => &PAYLOAD_TOO_LARGE,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => &UNSUPPORTED_MEDIA_TYPE,
        StatusCode::SERVICE_UNAVAILABLE => &FEATURE_UNAVAILABLE,
        other if other.is_client_error() => &BAD_REQUEST,
        _ => &INTERNAL,
    }
}
