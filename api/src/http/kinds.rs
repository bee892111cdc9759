//! Problem types and the texts of their pages, `/errors/<slug>`. A published type URI never changes.

use std::ptr;

use axum::http::StatusCode;

#[derive(Debug)]
pub struct Kind {
    pub slug: &'static str,
    pub title: &'static str,
    pub status: StatusCode,
    /// For people.
    pub meaning: &'static str,
    /// To the caller, for people.
    pub remedy: &'static str,
}

pub static BAD_REQUEST: Kind = Kind {
    slug: "bad-request",
    title: "BadRequest",
    status: StatusCode::BAD_REQUEST,
    meaning: "The request could not be parsed: its body is not JSON, is nested too deeply, or contains a number or a \
              character that JSON does not allow.",
    remedy: "Send well-formed JSON in UTF-8. The detail gives the position of the error.",
};
pub static VALIDATION_FAILED: Kind = Kind {
    slug: "validation-failed",
    title: "ValidationFailed",
    status: StatusCode::BAD_REQUEST,
    meaning: "The request was parsed, but a field is missing, has the wrong type or is out of range. The request had no \
              effect; the state of a session is unchanged.",
    remedy: "The errors member lists each invalid field as a dotted path, such as action.text, with its requirement.",
};
pub static UNAUTHORIZED: Kind = Kind {
    slug: "unauthorized",
    title: "Unauthorized",
    status: StatusCode::UNAUTHORIZED,
    meaning: "The bearer token is missing, unknown, revoked or expired.",
    remedy: "Send Authorization: Bearer with a valid token.",
};
pub static FORBIDDEN: Kind = Kind {
    slug: "forbidden",
    title: "Forbidden",
    status: StatusCode::FORBIDDEN,
    meaning: "The credential is valid but not allowed to do this. Its scopes are insufficient, the account is suspended, its \
              tier does not include API access, or the caller is not a member of the account in the account header.",
    remedy: "The detail names the missing permission. Use a credential with the required scope, or upgrade the account.",
};
pub static MFA_STEP_UP_REQUIRED: Kind = Kind {
    slug: "mfa-step-up-required",
    title: "MFA step-up required",
    status: StatusCode::FORBIDDEN,
    meaning: "The operation requires a second-factor proof from the last 15 minutes.",
    remedy: "Post a code to /v1/auth/mfa/step-up and repeat the request.",
};
pub static NOT_FOUND: Kind = Kind {
    slug: "not-found",
    title: "NotFound",
    status: StatusCode::NOT_FOUND,
    meaning: "The route does not exist, or the caller's account has no such resource. Resources of other accounts are \
              reported in the same way.",
    remedy: "Check the path and the ID.",
};
pub static METHOD_NOT_ALLOWED: Kind = Kind {
    slug: "method-not-allowed",
    title: "MethodNotAllowed",
    status: StatusCode::METHOD_NOT_ALLOWED,
    meaning: "The route does not support this method.",
    remedy: "The Allow header lists the supported methods.",
};
pub static REQUEST_TIMEOUT: Kind = Kind {
    slug: "request-timeout",
    title: "RequestTimeout",
    status: StatusCode::REQUEST_TIMEOUT,
    meaning: "The request body did not arrive in time.",
    remedy: "Repeat the request and send the body without delay.",
};
pub static CONFLICT: Kind = Kind {
    slug: "conflict",
    title: "Conflict",
    status: StatusCode::CONFLICT,
    meaning: "The state of the resource does not allow this. A session that is creating or busy accepts no other operation; the \
              current one continues. A session that is paused by a challenge (see the challenge member), or whose page shows a \
              dialog (see the dialog member), accepts few operations.",
    remedy: "Wait until the session is ready and repeat the request, or destroy the session. A person must solve a challenge, or \
             you resolve it through the API. Answer a dialog with the action dialog.",
};
pub static PROFILE_IN_USE: Kind = Kind {
    slug: "profile-in-use",
    title: "ProfileInUse",
    status: StatusCode::CONFLICT,
    meaning: "A live session uses the profile; active_session_id is its ID.",
    remedy: "Destroy that session first.",
};
pub static SESSION_DESTROYED: Kind = Kind {
    slug: "session-destroyed",
    title: "SessionDestroyed",
    status: StatusCode::GONE,
    meaning: "The session is destroyed or errored, or was destroyed while the operation ran. This state is final.",
    remedy: "Create a new session.",
};
pub static PAYLOAD_TOO_LARGE: Kind = Kind {
    slug: "payload-too-large",
    title: "PayloadTooLarge",
    status: StatusCode::PAYLOAD_TOO_LARGE,
    meaning: "The request body is too large.",
    remedy: "Send a smaller body. The limit_bytes member is the maximum size in bytes.",
};
pub static UNSUPPORTED_MEDIA_TYPE: Kind = Kind {
    slug: "unsupported-media-type",
    title: "UnsupportedMediaType",
    status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
    meaning: "The content type of the request body is not JSON.",
    remedy: "Send Content-Type: application/json, without a content encoding.",
};
pub static RATE_LIMITED: Kind = Kind {
    slug: "rate-limited",
    title: "RateLimited",
    status: StatusCode::TOO_MANY_REQUESTS,
    meaning: "Too many requests from one source or with one credential in a short time.",
    remedy: "Wait the number of seconds in the Retry-After header.",
};
pub static CONCURRENCY_LIMIT: Kind = Kind {
    slug: "concurrency-limit",
    title: "ConcurrencyLimit",
    status: StatusCode::TOO_MANY_REQUESTS,
    meaning: "The account has reached its limit of live sessions (current_sessions of limit).",
    remedy: "Destroy a session that is no longer needed, or upgrade the account. Waiting does not help.",
};
pub static INTERNAL: Kind = Kind {
    slug: "internal",
    title: "Internal",
    status: StatusCode::INTERNAL_SERVER_ERROR,
    meaning: "The service has an internal error. The operator can find its cause in the logs by the request ID.",
    remedy: "Report the request_id to the operator.",
};
pub static DRIVER_ERROR: Kind = Kind {
    slug: "driver-error",
    title: "DriverError",
    status: StatusCode::BAD_GATEWAY,
    meaning: "The browser failed: a page could not be reached, an element could not be used, a result was too large, \
              or the browser crashed.",
    remedy: "See the detail for the cause. Unless it says otherwise, the session is errored: create a new session.",
};
pub static DRIVER_NOT_INTEGRATED: Kind = Kind {
    slug: "driver-not-integrated",
    title: "DriverNotIntegrated",
    status: StatusCode::SERVICE_UNAVAILABLE,
    meaning: "No browser can do this now: no worker is available, or the deployment's driver does not support the \
              operation.",
    remedy: "Repeat the request later, or ask the operator to add workers or to enable the operation.",
};
pub static CAPACITY_EXHAUSTED: Kind = Kind {
    slug: "capacity-exhausted",
    title: "CapacityExhausted",
    status: StatusCode::SERVICE_UNAVAILABLE,
    meaning: "All browsers of the deployment are in use or reserved for waiting requests.",
    remedy: "Repeat the request after the number of seconds in the Retry-After header, or send wait_timeout_ms to wait for a \
             browser.",
};
pub static FEATURE_UNAVAILABLE: Kind = Kind {
    slug: "feature-unavailable",
    title: "FeatureUnavailable",
    status: StatusCode::SERVICE_UNAVAILABLE,
    meaning: "A feature that this request requires is not configured in this deployment, or is temporarily unavailable. With status \
              403: the account has reached a limit of its tier.",
    remedy: "With a Retry-After header: repeat the request after that many seconds. With status 403: delete unused resources, or \
             upgrade the account. Otherwise ask the operator.",
};
/// [`FEATURE_UNAVAILABLE`] with another status. It has no page of its own, because a page belongs to a slug.
pub static PROFILE_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "The account has reached its limit of profiles, including those in the recycle bin (current_profiles of \
              limit).",
    remedy: "Purge a profile that is no longer needed, or upgrade the account.",
};
pub static SNAPSHOT_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "The profile has reached its limit of snapshots (current_snapshots of limit).",
    remedy: "Delete a snapshot that is no longer needed.",
};
pub static PROFILE_BYTES_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "The account's profiles and snapshots have reached their size limit (current_bytes of limit_bytes).",
    remedy: "Delete snapshots and purge profiles that are no longer needed.",
};
pub static AGENT_BYTES_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "The account's agent sessions have reached their size limit (bytes of limit_bytes).",
    remedy: "Delete agent sessions that are no longer needed with DELETE /v1/agent-sessions/{id}?purge=true.",
};
pub static PROXY_LIMIT: Kind = Kind {
    slug: FEATURE_UNAVAILABLE.slug,
    title: FEATURE_UNAVAILABLE.title,
    status: StatusCode::FORBIDDEN,
    meaning: "The account has reached its limit of saved proxies (current_proxies of limit).",
    remedy: "Delete a saved proxy that is no longer needed.",
};
pub static STREAM_LIMIT: Kind = Kind {
    slug: CONCURRENCY_LIMIT.slug,
    title: CONCURRENCY_LIMIT.title,
    status: StatusCode::TOO_MANY_REQUESTS,
    meaning: "The account has reached its limit of concurrent streams of notifications, or of timelines (limit).",
    remedy: "Close a stream that is no longer needed.",
};
pub static SESSION_TIMEOUT: Kind = Kind {
    slug: "session-timeout",
    title: "SessionTimeout",
    status: StatusCode::GATEWAY_TIMEOUT,
    meaning: "The operation exceeded its timeout, and the session is errored.",
    remedy: "Create a new session. Use a longer timeout_ms, or send on_timeout: return if a wait may time out without an \
             error.",
};

/// With a slug of their own, in the order of the index page.
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

/// They share the slug of another type.
static LIMITS: [&Kind; 6] =
    [&PROFILE_LIMIT, &SNAPSHOT_LIMIT, &PROFILE_BYTES_LIMIT, &AGENT_BYTES_LIMIT, &PROXY_LIMIT, &STREAM_LIMIT];

/// Their title does not identify them.
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
    pub fn name(&self) -> &'static str {
        NAMES.into_iter().find(|(kind, _)| ptr::eq(*kind, self)).map_or(self.title, |(_, name)| name)
    }
}

/// Distinguished by [`Kind::name`], in the order of the index page.
pub fn named() -> impl Iterator<Item = &'static Kind> {
    ALL.into_iter().chain(LIMITS)
}

pub fn find(slug: &str) -> Option<&'static Kind> {
    ALL.into_iter().find(|kind| kind.slug == slug)
}

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
