//! What handlers say of themselves to the contract, where derive macros have no words for it: the problems they may answer,
//! parameters they have in common, and schemas with a name. [`crate::document`] makes the contract of it.

use std::collections::BTreeMap;

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::api_keys::{MOST_SCOPES, Scope};
use serde_json::Value;
use utoipa::IntoResponses;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{OneOf, SchemaType};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, RefOr, Required, Response, Schema, Type};

use crate::http::kinds::{self, Kind};

/// Sets of problems that routes have in common. A route may have any of them: what it answers is all that is in one.
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
    /// No token, or the wrong one.
    Unauthorized: UNAUTHORIZED;
    /// A token that is not enough.
    Restricted: UNAUTHORIZED FORBIDDEN VALIDATION_FAILED;
    /// A query that breaks a rule.
    InvalidQuery: VALIDATION_FAILED;
    /// A body that cannot be read or breaks a rule.
    Body: VALIDATION_FAILED BAD_REQUEST REQUEST_TIMEOUT PAYLOAD_TOO_LARGE UNSUPPORTED_MEDIA_TYPE;
    /// A form that cannot be read.
    Form: REQUEST_TIMEOUT PAYLOAD_TOO_LARGE;
    /// An OAuth client that is not the caller's.
    NoOauthClient: NOT_FOUND;
    /// An identity provider that this deployment does not have.
    NoProvider: NOT_FOUND;
    /// A web session that is not the caller's to see.
    NoWebSession: NOT_FOUND;
    /// A key that is not the caller's to see.
    NoKey: NOT_FOUND;
    /// A device that does not wait.
    NoDevice: NOT_FOUND;
    /// An address that has an account.
    SigningUp: CONFLICT;
    /// An account that may not act.
    LoggingIn: FORBIDDEN;
    /// A second factor that is there already, or cannot be.
    Enrolling: CONFLICT FEATURE_UNAVAILABLE;
    /// A secret that this deployment cannot keep, or a database that is away.
    Sealing: FEATURE_UNAVAILABLE;
    /// A key at a model provider that is not there.
    NoProviderKey: NOT_FOUND;
    /// A second factor that is not there.
    NotEnrolled: NOT_FOUND;
    /// A second-factor proof that is not fresh.
    SteppingUp: MFA_STEP_UP_REQUIRED;
    /// An account that may not have another of these.
    Full: CONFLICT;
    /// A key that cannot have a successor.
    Rotating: CONFLICT;
    /// A team that is not the caller's.
    NoTeam: NOT_FOUND;
    /// A membership that is not on the caller's team.
    NoMembership: NOT_FOUND;
    /// Somebody who is on the team already.
    Inviting: CONFLICT;
    /// An invite that is another's, or to a team that one is on.
    Accepting: CONFLICT;
    /// A webhook endpoint, or a delivery, that is not the caller's to see.
    NoWebhook: NOT_FOUND;
    /// A webhook endpoint that takes nothing, or a delivery that has not ended.
    WebhookAtRest: CONFLICT;
    /// A session that is not the caller's to see.
    NoSession: NOT_FOUND;
    /// A challenge that its session did not have, or whose session has ended.
    NoChallenge: NOT_FOUND SESSION_DESTROYED;
    /// A session that has ended.
    EndedSession: SESSION_DESTROYED;
    /// A request that opens no WebSocket.
    Upgrading: BAD_REQUEST;
    /// A page that may not.
    Forbidden: FORBIDDEN;
    /// A browser that cannot be seen, or that too many watch.
    Watching: CONFLICT DRIVER_NOT_INTEGRATED FEATURE_UNAVAILABLE;
    /// A profile that is not the caller's to see.
    NoProfile: NOT_FOUND;
    /// A profile's snapshot that is not the caller's to see.
    NoSnapshot: NOT_FOUND;
    /// A profile that a live session has.
    ProfileInUse: PROFILE_IN_USE;
    /// A profile that is not in the recycle bin.
    NotDeleted: CONFLICT;
    /// A profile whose last session's state is being kept for long.
    BeingKept: CONFLICT;
    /// A profile too many.
    AnotherProfile: PROFILE_LIMIT PROFILE_BYTES_LIMIT;
    /// A snapshot too many.
    AnotherSnapshot: SNAPSHOT_LIMIT PROFILE_BYTES_LIMIT;
    /// An agent session that is not the caller's to see.
    NoAgentSession: NOT_FOUND;
    /// An agent session that is closed, or that somebody else drives.
    AgentElsewhere: CONFLICT;
    /// Agent sessions that keep as much as they may.
    AgentRoom: AGENT_BYTES_LIMIT;
    /// An agent session whose driver session has ended, or of which nothing is heard.
    AgentGone: SESSION_DESTROYED SESSION_TIMEOUT;
    /// A saved proxy that is not the caller's to see.
    NoProxy: NOT_FOUND;
    /// A saved proxy too many.
    AnotherProxy: PROXY_LIMIT;
    /// A saved proxy that a live session leaves through.
    ProxyInUse: CONFLICT;
    /// A check of a proxy that is not made: another is under way, or nobody is there to make it.
    CheckingProxy: CONFLICT DRIVER_NOT_INTEGRATED FEATURE_UNAVAILABLE;
    /// A customer of the card provider's that is not there.
    NoCardCustomer: NOT_FOUND;
    /// A live link that is good no more, or never was.
    NoLink: NOT_FOUND;
    /// A live link too many.
    AnotherLink: CONFLICT;
    /// A crypto order that is not the caller's.
    NoOrder: NOT_FOUND;
    /// An order too many, or one of the same key that is still being made.
    AnotherOrder: CONFLICT;
    /// A payment provider that fails, or that this deployment does not have.
    Paying: DRIVER_ERROR FEATURE_UNAVAILABLE;
    /// What a payment provider sends.
    Telling: VALIDATION_FAILED BAD_REQUEST REQUEST_TIMEOUT PAYLOAD_TOO_LARGE FEATURE_UNAVAILABLE;
    /// A stream too many.
    AnotherStream: STREAM_LIMIT;
    /// A recipe that is not the caller's to see.
    NoRecipe: NOT_FOUND;
    /// An account that does not exist.
    NoCustomer: NOT_FOUND;
    /// A job that does not exist.
    NoJob: NOT_FOUND;
    /// A worker that does not exist.
    NoWorker: NOT_FOUND;
    /// A delivery, an endpoint, an account or a requeue that does not exist.
    NoRequeue: NOT_FOUND;
    /// An incident that does not exist.
    NoIncident: NOT_FOUND;
    /// What is in no state for what staff want.
    OutOfPlace: CONFLICT;
    /// A page that does not exist.
    NoPage: NOT_FOUND;
    /// Too many requests from one place.
    RateLimited: RATE_LIMITED;
    /// A database that is away.
    Database: FEATURE_UNAVAILABLE;
    /// A session that does not come to be.
    Creating: NOT_FOUND PROFILE_IN_USE SESSION_DESTROYED CONCURRENCY_LIMIT DRIVER_ERROR DRIVER_NOT_INTEGRATED
              CAPACITY_EXHAUSTED FEATURE_UNAVAILABLE SESSION_TIMEOUT;
    /// A session that cannot be driven, or a browser that fails.
    Driving: CONFLICT SESSION_DESTROYED DRIVER_ERROR DRIVER_NOT_INTEGRATED FEATURE_UNAVAILABLE SESSION_TIMEOUT;
}

/// A kind of problem has a key of its own, so that none takes the place of another with the same status.
fn problem(kind: &'static Kind) -> (String, RefOr<Response>) {
    (problem_key(kind), RefOr::T(Response::new("")))
}

/// Where a route's answers say that it may answer this: its status and its name.
pub fn problem_key(kind: &Kind) -> String {
    format!("{} {}", kind.status.as_u16(), kind.name())
}

/// The member of a parameter that says under which name all routes share it.
pub const SHARED_AS: &str = "x-shared-as";

/// A parameter that routes have in common, under this name.
pub fn shared(name: &str, parameter: ParameterBuilder) -> Parameter {
    parameter.extensions(Some(ExtensionsBuilder::new().add(SHARED_AS, name).build())).build()
}

/// A parameter of a query that may be absent.
pub fn query(name: &str, what: &str, schema: RefOr<Schema>) -> ParameterBuilder {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).required(Required::False);
    parameter.description(Some(what)).schema(Some(schema))
}

/// An id that begins with `prefix`.
pub fn id_schema(prefix: &str) -> RefOr<Schema> {
    let pattern = format!("^{prefix}_[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$");
    let example = format!("{prefix}_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5");
    let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern));
    RefOr::T(Schema::Object(schema.examples([example]).build()))
}

/// What a credential may be given: every scope but those that staff alone mints.
pub fn grantable_scopes() -> RefOr<Schema> {
    let names: Vec<_> = Scope::NAMES.iter().copied().filter(|name| *name != Scope::Admin.name()).collect();
    let what = "What it may do: nothing that the caller's own credential may not";
    let scope = named("Scope", one_of(&names, None));
    let scopes = ArrayBuilder::new().items(scope).min_items(Some(1)).max_items(Some(MOST_SCOPES));
    RefOr::T(Schema::Array(scopes.description(Some(what)).build()))
}

/// What an account pays for.
pub fn tier() -> RefOr<Schema> {
    named("AccountTier", one_of(Tier::NAMES, None))
}

/// A closed set of texts. The contract calls it as what has it and the member, such as `CaptureKind`, unless it is
/// [`named`].
pub fn one_of(values: &[&str], default: Option<&str>) -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values.iter().copied()));
    RefOr::T(Schema::Object(schema.default(default.map(Value::from)).build()))
}

/// A member of a body that may be null, which is as if it were absent.
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

/// A member that is there only to be true, which tells a variant from others.
pub fn literally_true() -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true]));
    RefOr::T(Schema::Object(schema.build()))
}

/// A schema that stands in the contract under a name of its own, wherever it is used.
pub fn named(name: &str, mut schema: RefOr<Schema>) -> RefOr<Schema> {
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        object.title = Some(name.to_owned());
    }
    schema
}

/// An object whose `kind` says which fields it has. Each variant is named by its kind and what it is one of.
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

/// `selector_hidden` as `SelectorHidden`.
pub fn camel_case(name: &str) -> String {
    let words = name.split(['_', '.']).map(|word| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}
