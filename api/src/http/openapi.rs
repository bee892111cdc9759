//! Parts of the OpenAPI document that derive macros cannot express: sets of problems, shared parameters and named schemas.

use std::collections::BTreeMap;

use kitfleet_domain::api_keys::{MAX_SCOPES, Scope};
use kitfleet_types::tiers::Tier;
use serde_json::Value;
use utoipa::IntoResponses;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{OneOf, SchemaType};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, RefOr, Required, Response, Schema, Type};

use crate::http::kinds::{self, Kind};

macro_rules! problem_sets {
    ($($(#[$doc:meta])* $name:ident: $($kind:ident)*;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                [$(&kinds::$kind),*].into_iter().map(problem).collect()
            }
        }
    )*};
}

problem_sets! {
    /// The token is missing or wrong.
    Unauthorized: UNAUTHORIZED;
    /// The token is not sufficient.
    Restricted: UNAUTHORIZED FORBIDDEN VALIDATION_FAILED;
    /// The query is invalid.
    InvalidQuery: VALIDATION_FAILED;
    /// The body cannot be read or is invalid.
    Body: VALIDATION_FAILED BAD_REQUEST REQUEST_TIMEOUT PAYLOAD_TOO_LARGE UNSUPPORTED_MEDIA_TYPE;
    /// The form cannot be read.
    Form: REQUEST_TIMEOUT PAYLOAD_TOO_LARGE;
    /// The caller has no such OAuth client.
    NoOauthClient: NOT_FOUND;
    /// The deployment has no such identity provider.
    NoProvider: NOT_FOUND;
    /// The caller has no such web session.
    NoWebSession: NOT_FOUND;
    /// The caller has no such key.
    NoKey: NOT_FOUND;
    /// No such device waits.
    NoDevice: NOT_FOUND;
    /// The address already has an account.
    SigningUp: CONFLICT;
    /// The account is suspended or not verified.
    LoggingIn: FORBIDDEN;
    /// A second factor is already enrolled, or cannot be.
    Enrolling: CONFLICT FEATURE_UNAVAILABLE;
    /// The deployment cannot encrypt the secret, or the database is unavailable.
    Sealing: FEATURE_UNAVAILABLE;
    /// The account has no such model provider key.
    NoProviderKey: NOT_FOUND;
    /// No second factor is enrolled.
    NotEnrolled: NOT_FOUND;
    /// The second-factor proof is not recent.
    SteppingUp: MFA_STEP_UP_REQUIRED;
    /// The account has reached a limit.
    Full: CONFLICT;
    /// The key cannot have a successor.
    Rotating: CONFLICT;
    /// The caller has no such team.
    NoTeam: NOT_FOUND;
    /// The caller's team has no such membership.
    NoMembership: NOT_FOUND;
    /// The caller's team has no such pending invitation.
    NoInvite: NOT_FOUND;
    /// Another account has the e-mail address, or the account is suspended.
    AddressTaken: CONFLICT FORBIDDEN;
    /// The caller has no such linked sign-in method.
    NoIdentity: NOT_FOUND;
    /// The invitee is already a member.
    Inviting: CONFLICT;
    /// The invitation belongs to another address, or the caller is already a member.
    Accepting: CONFLICT;
    /// The caller has no such webhook endpoint or delivery.
    NoWebhook: NOT_FOUND;
    /// The endpoint accepts no deliveries, or the delivery has not ended.
    WebhookAtRest: CONFLICT;
    /// The caller has no such session.
    NoSession: NOT_FOUND;
    /// The session has no such challenge, or has ended.
    NoChallenge: NOT_FOUND SESSION_DESTROYED;
    /// The session has ended.
    EndedSession: SESSION_DESTROYED;
    /// The request does not open a WebSocket.
    Upgrading: BAD_REQUEST;
    /// The page's origin is not allowed.
    Forbidden: FORBIDDEN;
    /// The browser cannot be watched, or has too many viewers.
    Watching: CONFLICT DRIVER_NOT_INTEGRATED FEATURE_UNAVAILABLE;
    /// The caller has no such profile.
    NoProfile: NOT_FOUND;
    /// The caller has no such profile snapshot.
    NoSnapshot: NOT_FOUND;
    /// A live session uses the profile.
    ProfileInUse: PROFILE_IN_USE;
    /// The profile is not in the recycle bin.
    NotDeleted: CONFLICT;
    /// Saving the state of the profile's last session takes too long.
    BeingKept: CONFLICT;
    /// The account has reached a profile limit.
    AnotherProfile: PROFILE_LIMIT PROFILE_BYTES_LIMIT;
    /// A snapshot limit is reached.
    AnotherSnapshot: SNAPSHOT_LIMIT PROFILE_BYTES_LIMIT;
    /// The caller has no such agent session.
    NoAgentSession: NOT_FOUND;
    /// The agent session is closed, or another party has control.
    AgentElsewhere: CONFLICT;
    /// The account's agent sessions have reached their size limit.
    AgentRoom: AGENT_BYTES_LIMIT;
    /// The driver session has ended, or does not respond.
    AgentGone: SESSION_DESTROYED SESSION_TIMEOUT;
    /// The caller has no such saved proxy.
    NoProxy: NOT_FOUND;
    /// The account has reached its limit of saved proxies.
    AnotherProxy: PROXY_LIMIT;
    /// A live session uses the saved proxy.
    ProxyInUse: CONFLICT;
    /// The proxy cannot be checked: another check is running, or no worker is available.
    CheckingProxy: CONFLICT DRIVER_NOT_INTEGRATED FEATURE_UNAVAILABLE;
    /// The account is no customer of the card provider.
    NoCardCustomer: NOT_FOUND;
    /// The live link is unknown or no longer valid.
    NoLink: NOT_FOUND;
    /// The limit of live links is reached.
    AnotherLink: CONFLICT;
    /// The session has no recording, or the recording has no such picture.
    NoRecording: NOT_FOUND;
    /// The trace link is unknown or no longer valid.
    NoTraceLink: NOT_FOUND;
    /// The limit of trace links is reached.
    AnotherTraceLink: CONFLICT;
    /// Staff may not read recordings in this deployment.
    ReadingByStaff: FORBIDDEN;
    /// The storage of recordings is not available.
    ReadingRecording: FEATURE_UNAVAILABLE;
    /// The caller has no such crypto order.
    NoOrder: NOT_FOUND;
    /// The account has too many open orders, or an order of the same key is in progress.
    AnotherOrder: CONFLICT;
    /// The payment provider fails or is not configured.
    Paying: DRIVER_ERROR FEATURE_UNAVAILABLE;
    /// The notification of a payment provider cannot be accepted.
    Telling: VALIDATION_FAILED BAD_REQUEST REQUEST_TIMEOUT PAYLOAD_TOO_LARGE FEATURE_UNAVAILABLE;
    /// The limit of streams is reached.
    AnotherStream: STREAM_LIMIT;
    /// The caller has no such recipe.
    NoRecipe: NOT_FOUND;
    /// No such account.
    NoCustomer: NOT_FOUND;
    /// No such job.
    NoJob: NOT_FOUND;
    /// No such worker.
    NoWorker: NOT_FOUND;
    /// No such delivery, endpoint, account or requeue.
    NoRequeue: NOT_FOUND;
    /// No such incident.
    NoIncident: NOT_FOUND;
    /// The resource is not in a state for this staff operation.
    OutOfPlace: CONFLICT;
    /// No such page.
    NoPage: NOT_FOUND;
    /// Too many requests from one source.
    RateLimited: RATE_LIMITED;
    /// The database is unavailable.
    Database: FEATURE_UNAVAILABLE;
    /// The session cannot be created.
    Creating: NOT_FOUND PROFILE_IN_USE SESSION_DESTROYED CONCURRENCY_LIMIT DRIVER_ERROR DRIVER_NOT_INTEGRATED
              CAPACITY_EXHAUSTED FEATURE_UNAVAILABLE SESSION_TIMEOUT;
    /// The session has ended, its worker died, or the file cannot be read now.
    Transferring: CONFLICT SESSION_DESTROYED DRIVER_ERROR FEATURE_UNAVAILABLE;
    /// The session cannot run the operation, or the browser fails.
    Driving: CONFLICT SESSION_DESTROYED DRIVER_ERROR DRIVER_NOT_INTEGRATED FEATURE_UNAVAILABLE SESSION_TIMEOUT;
}

/// Types with the same status do not replace each other.
fn problem(kind: &'static Kind) -> (String, RefOr<Response>) {
    (problem_key(kind), RefOr::T(Response::new("")))
}

/// Key of a problem among the responses of a route: its status and its name.
pub fn problem_key(kind: &Kind) -> String {
    format!("{} {}", kind.status.as_u16(), kind.name())
}

pub const SHARED_AS: &str = "x-shared-as";

pub fn shared(name: &str, parameter: ParameterBuilder) -> Parameter {
    parameter.extensions(Some(ExtensionsBuilder::new().add(SHARED_AS, name).build())).build()
}

pub fn query(name: &str, what: &str, schema: RefOr<Schema>) -> ParameterBuilder {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).required(Required::False);
    parameter.description(Some(what)).schema(Some(schema))
}

pub fn id_schema(prefix: &str) -> RefOr<Schema> {
    let pattern = format!("^{prefix}_[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$");
    let example = format!("{prefix}_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5");
    let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern));
    RefOr::T(Schema::Object(schema.examples([example]).build()))
}

/// Scopes for staff only are excluded.
pub fn grantable_scopes() -> RefOr<Schema> {
    let names: Vec<_> = Scope::NAMES.iter().copied().filter(|name| *name != Scope::Admin.name()).collect();
    let what = "Scopes of the credential; the caller can grant only scopes of their own credential";
    let scope = named("Scope", one_of(&names, None));
    let scopes = ArrayBuilder::new().items(scope).min_items(Some(1)).max_items(Some(MAX_SCOPES));
    RefOr::T(Schema::Array(scopes.description(Some(what)).build()))
}

pub fn tier() -> RefOr<Schema> {
    named("AccountTier", one_of(Tier::NAMES, None))
}

/// Its name in the document combines its object and member, such as `CaptureKind`, unless it is [`named`].
pub fn one_of(values: &[&str], default: Option<&str>) -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values.iter().copied()));
    RefOr::T(Schema::Object(schema.default(default.map(Value::from)).build()))
}

/// null is the same as absent.
pub fn or_null(mut schema: RefOr<Schema>) -> RefOr<Schema> {
    if let RefOr::T(Schema::Array(array)) = &mut schema {
        array.schema_type = SchemaType::from_iter([Type::Array, Type::Null]);
        return schema;
    }
    let mut either = OneOf::new();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        either.default = object.default.take();
    }
    let null = ObjectBuilder::new().schema_type(Type::Null).build();
    either.items = vec![schema, RefOr::T(Schema::Object(null))];
    RefOr::T(Schema::OneOf(either))
}

/// A member that is always true and identifies a variant.
pub fn const_true() -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true]));
    RefOr::T(Schema::Object(schema.build()))
}

pub fn named(name: &str, mut schema: RefOr<Schema>) -> RefOr<Schema> {
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        object.title = Some(name.to_owned());
    }
    schema
}

/// Its `kind` determines its fields. The name of each variant combines its kind and the name of the union.
pub fn tagged<const N: usize>(name: &str, variants: [(&str, RefOr<Schema>); N]) -> RefOr<Schema> {
    let variants = variants.map(|(kind, mut fields)| {
        if let RefOr::T(Schema::Object(object)) = &mut fields {
            object.properties.insert("kind".to_owned(), one_of(&[kind], None));
            object.required.insert(0, "kind".to_owned());
        }
        named(&format!("{}{name}", camel_case(kind)), fields)
    });
    let mut either = OneOf::new();
    either.title = Some(name.to_owned());
    either.items = variants.into();
    RefOr::T(Schema::OneOf(either))
}

/// Converts `selector_hidden` to `SelectorHidden`.
pub fn camel_case(name: &str) -> String {
    let words = name.split(['_', '.']).map(|word| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}
