//! The contract, made from the code that answers (interface, "Versioning" 1).

mod examples;

use std::collections::BTreeMap;

use axum::http::Method;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::ids::AccountId;
use serde_json::{Map, Value, json};
use utoipa::IntoResponses;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{AllOf, OneOf};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::server::Server;
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ArrayBuilder, ComponentsBuilder, ContentBuilder, Deprecated, Header, HeaderBuilder, InfoBuilder, LicenseBuilder,
    ObjectBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Required, Response, ResponseBuilder, Schema, Type,
};

use crate::kinds::{self, Kind};
use crate::permissions::{self, Access, Deprecation};
use crate::problems::MEDIA_TYPE;
use crate::router;

/// The contract of a service that customers reach at `base_url`: what it serves as `/openapi.json`.
#[must_use]
pub fn openapi(base_url: &str) -> OpenApi {
    let mut document = router::routes().into_openapi();
    document.servers = Some(vec![Server::new(base_url)]);
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            // Whatever else goes wrong, every route answers this.
            answer_also(operation, problems(&[&kinds::INTERNAL]));
            if let Some(route) = permissions::route(&method, path) {
                describe_access(operation, &route.access);
                if method != Method::GET && matches!(route.access, Access::Account(_)) {
                    add_header(operation, UNKNOWN_FIELDS, &shared_header(UNKNOWN_FIELDS));
                }
                if let Some(deprecation) = &route.deprecation {
                    describe_deprecation(operation, deprecation);
                }
            }
            describe_limit_headers(operation);
            add_header(operation, "X-Request-Id", &shared_header("X-Request-Id"));
        }
    }
    examples::add(&mut document);
    document
}

fn answer_also(operation: &mut Operation, answers: BTreeMap<String, RefOr<Response>>) {
    for (status, response) in answers {
        operation.responses.responses.entry(status).or_insert(response);
    }
}

/// Says what the route's row asks of its caller.
fn describe_access(operation: &mut Operation, access: &Access) {
    let scheme = |name: &str| vec![SecurityRequirement::new(name, Vec::<String>::new())];
    let rule = match access {
        // Public routes say so outright.
        Access::Public => return operation.security = Some(Vec::new()),
        Access::MetricsToken => return operation.security = Some(scheme("metrics_token")),
        Access::Account(rule) => rule,
    };
    operation.security = Some(scheme("bearer"));
    // No credential is answered more often than its limit allows.
    answer_also(operation, RateLimited::responses());
    let mut asked = Map::from_iter([("scope".to_owned(), json!(rule.scope.name()))]);
    if let Some(team) = rule.team {
        operation.parameters.get_or_insert_default().push(RefOr::T(account_header()));
        asked.insert("team".to_owned(), json!({"role": team.role.name(), "scope": team.scope.name()}));
    }
    for (name, set) in [
        ("web_session_only", rule.web_session_only),
        ("step_up", rule.step_up),
        ("free_tier_devices", rule.open_to_free_devices),
    ] {
        if set {
            asked.insert(name.to_owned(), json!(true));
        }
    }
    // One extension, because the builder keeps several in no order, and the document has to be the same every time.
    let extensions = ExtensionsBuilder::new().add("x-access", asked).build();
    operation.extensions.get_or_insert_default().merge(extensions);
}

/// Interface, "Versioning" 4.
fn describe_deprecation(operation: &mut Operation, deprecation: &Deprecation) {
    operation.deprecated = Some(Deprecated::True);
    let Deprecation { since, sunset, replacement } = deprecation;
    let notice = format!("Deprecated since {since}, and may be missing from {sunset} on: use {replacement} instead.");
    let description = operation.description.take().into_iter().chain([notice]).collect::<Vec<_>>().join("\n\n");
    operation.description = Some(description);
    for (name, value) in deprecation.headers() {
        add_header(
            operation,
            name.as_str(),
            &header(Type::String, &format!("`{value}`: the route's end is announced")),
        );
    }
}

fn account_header() -> Parameter {
    let description = "The account whose resources the request is about, `acc_<uuid>`; the caller's own when absent";
    ParameterBuilder::new()
        .name("X-Service-Account")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(id_schema(AccountId::PREFIX)))
        .build()
}

/// A route that may answer `rate-limited` says in every such answer, and in every success, how its caller stands.
fn describe_limit_headers(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let Some(RefOr::T(refusal)) = responses.get_mut("429") else { return };
    if !refusal.description.contains(kinds::RATE_LIMITED.slug) {
        return;
    }
    refusal.headers.insert("Retry-After".to_owned(), shared_header("Retry-After"));
    for (status, response) in responses {
        let RefOr::T(response) = response else { continue };
        if status == "429" || status.starts_with('2') {
            for name in ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"] {
                response.headers.insert(name.to_owned(), shared_header(name));
            }
        }
    }
}

/// Headers that many answers have, and what they say.
const HEADERS: [(&str, Type, &str); 6] = [
    ("X-Request-Id", Type::String, "The request's id, for whoever runs the service"),
    (UNKNOWN_FIELDS, Type::String, "The fields of the body that the route does not know, when there are any"),
    ("Retry-After", Type::Integer, "After how many seconds to repeat the request; with `rate-limited` only"),
    (
        "RateLimit-Limit",
        Type::Integer,
        "How many requests may come at once; used ones come back evenly, within a minute or, of some limits, an hour",
    ),
    ("RateLimit-Remaining", Type::Integer, "Requests that could be sent right now"),
    ("RateLimit-Reset", Type::Integer, "Seconds until all of them are there again; with a 429, until there is one"),
];

const UNKNOWN_FIELDS: &str = "x-service-unknown-fields";

fn shared_header(name: &str) -> RefOr<Header> {
    RefOr::Ref(Ref::new(format!("#/components/headers/{name}")))
}

fn header(kind: Type, what: &str) -> RefOr<Header> {
    let schema = ObjectBuilder::new().schema_type(kind).build();
    RefOr::T(HeaderBuilder::new().schema(Some(schema)).description(Some(what)).build())
}

/// Says that every answer may have this header.
fn add_header(operation: &mut Operation, name: &str, header: &RefOr<Header>) {
    for response in operation.responses.responses.values_mut() {
        let RefOr::T(response) = response else { continue };
        response.headers.insert(name.to_owned(), header.clone());
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let operations = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::PATCH, &mut item.patch),
    ];
    operations.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// What stands in the contract besides the routes.
pub fn skeleton() -> OpenApi {
    let bearer = |description| {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description));
        SecurityScheme::Http(scheme.build())
    };
    let components = ComponentsBuilder::new()
        .security_scheme("bearer", bearer("An API key (`svc_live_…`, a device's on the free tier `svc_test_…`), an OAuth access token or a web session's token. `x-access` names what it has to satisfy."))
        .security_scheme("metrics_token", bearer("The deployment's metrics token."))
        .schema("Problem", problem_schema());
    let limits = [&kinds::PROFILE_LIMIT, &kinds::SNAPSHOT_LIMIT, &kinds::PROFILE_BYTES_LIMIT];
    let components = kinds::ALL.into_iter().chain(limits).fold(components, |components, kind| {
        let example = ExampleBuilder::new().summary(kind.title).value(Some(problem_example(kind)));
        components.example(example_name(kind), example.build())
    });
    let components = HEADERS
        .into_iter()
        .fold(components, |components, (name, kind, what)| components.header(name, header(kind, what)));
    let tag = |name: &str, description: &str| TagBuilder::new().name(name).description(Some(description)).build();
    let description = "Mobile browser sessions on real WebKit, over plain HTTP.\n\nErrors are problem documents \
        (RFC 9457); every answer has an `X-Request-Id`. Unknown fields of a body are ignored, and named in the \
        `x-service-unknown-fields` header of the answer.";
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Kitfleet")
                .version("1.0.0")
                .description(Some(description))
                .license(Some(LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build()))
                .build(),
        )
        .components(Some(components.build()))
        .tags(Some([
            tag("Sessions", "Making, driving and ending browser sessions"),
            tag("Profiles", "What sessions begin with, and leave behind"),
            tag("Account", "What its owner decides"),
            tag("Archetypes", "The devices a session can be"),
            tag("Authentication", "Proving who calls"),
            tag("MFA", "Second factors"),
            tag("Devices", "Desktop apps that ask for a credential"),
            tag("API keys", "Credentials of programs"),
            tag("Audit log", "Who did what, for ever"),
            tag("Usage", "How much was done"),
            tag("Teams", "Other people's accounts that may act on one's own"),
            tag("Webhooks", "Being told of events"),
            tag("Operations", "For whoever runs the service"),
            tag("Contract", "What the service says about itself"),
            tag("Pages", "For a person's browser"),
        ]))
        .build()
}

/// What kinds of problems say beside what all of them say: its name, its schema and an example.
struct Member {
    of: Vec<&'static Kind>,
    name: &'static str,
    schema: RefOr<Schema>,
    example: Value,
}

fn members() -> [Member; 11] {
    let typed = |kind, description: &str| ObjectBuilder::new().schema_type(kind).description(Some(description));
    let number = |description: &str| typed(Type::Integer, description);
    let error = ObjectBuilder::new()
        .property("field", typed(Type::String, "A dotted path, such as `action.text`"))
        .required("field")
        .property("message", typed(Type::String, "What the field must be"))
        .required("message");
    let errors = ArrayBuilder::new().items(error).description(Some("What is wrong with which field"));
    let reason = typed(Type::String, "Whether the session never gave a proof, or its last one is too old")
        .enum_values(Some(["never_satisfied", "expired"]));
    let member = |of, name, schema: ObjectBuilder, example: Value| Member { of, name, schema: schema.into(), example };
    let field = json!([{"field": "label", "message": "must have at most 120 characters"}]);
    let session = "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e";
    [
        Member { of: vec![&kinds::VALIDATION_FAILED], name: "errors", schema: errors.into(), example: field },
        member(vec![&kinds::CONCURRENCY_LIMIT], "current_sessions", number("Live sessions of the account"), 2.into()),
        member(vec![&kinds::PROFILE_LIMIT], "current_profiles", number("Profiles of the account"), 25.into()),
        member(vec![&kinds::SNAPSHOT_LIMIT], "current_snapshots", number("Snapshots of the profile"), 50.into()),
        member(
            vec![&kinds::CONCURRENCY_LIMIT, &kinds::PROFILE_LIMIT, &kinds::SNAPSHOT_LIMIT],
            "limit",
            number("How many of them there may be"),
            2.into(),
        ),
        member(
            vec![&kinds::PROFILE_BYTES_LIMIT],
            "current_bytes",
            number("Bytes that the account's profiles and snapshots hold, sealed"),
            17_179_869_184_i64.into(),
        ),
        member(
            vec![&kinds::PROFILE_IN_USE],
            "active_session_id",
            typed(Type::String, "Who has the profile"),
            session.into(),
        ),
        member(
            vec![&kinds::MFA_STEP_UP_REQUIRED],
            "requires_mfa_step_up",
            typed(Type::Boolean, "Always true"),
            true.into(),
        ),
        member(vec![&kinds::MFA_STEP_UP_REQUIRED], "reason", reason, "expired".into()),
        member(
            vec![&kinds::PAYLOAD_TOO_LARGE, &kinds::PROFILE_BYTES_LIMIT],
            "limit_bytes",
            number("Bytes that are allowed"),
            1_048_576.into(),
        ),
        // Of those driver errors only that are about it.
        member(vec![], "bytes", number("With `driver-error`: the size of a result that is too large"), Value::Null),
    ]
}

fn problem_schema() -> Schema {
    let text = |description: &str| ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    let status = ObjectBuilder::new().schema_type(Type::Integer).description(Some("The HTTP status"));
    let problem = ObjectBuilder::new()
        .description(Some("A problem document (RFC 9457); the members behind `request_id` are of some kinds only"))
        .property("type", text("What kind of problem it is: a page that explains it").format(Some(uri())))
        .required("type")
        .property("title", text("The kind, in a word"))
        .required("title")
        .property("status", status)
        .required("status")
        .property("detail", text("What went wrong this time"))
        .required("detail")
        .property("instance", text("The request's path"))
        .required("instance")
        .property("request_id", text("The request's id, also in `X-Request-Id`"))
        .required("request_id");
    let all = members().into_iter().fold(problem, |problem, member| problem.property(member.name, member.schema));
    Schema::Object(all.build())
}

fn uri() -> utoipa::openapi::SchemaFormat {
    utoipa::openapi::SchemaFormat::Custom("uri".to_owned())
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
    let names: Vec<_> = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Admin).map(Scope::name).collect();
    let what = "What it may do: nothing that the caller's own credential may not";
    let scopes = ArrayBuilder::new().items(one_of(&names, None)).min_items(Some(1)).description(Some(what));
    RefOr::T(Schema::Array(scopes.build()))
}

/// A closed set of texts.
pub fn one_of(values: &[&str], default: Option<&str>) -> RefOr<Schema> {
    let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values.iter().copied()));
    RefOr::T(Schema::Object(schema.default(default.map(Value::from)).build()))
}

/// An object whose `kind` says which fields it has.
pub fn tagged<const N: usize>(variants: [(&str, RefOr<Schema>); N]) -> RefOr<Schema> {
    let variants = variants.map(|(kind, fields)| {
        let tag = ObjectBuilder::new().property("kind", one_of(&[kind], None)).required("kind").build();
        let mut both = AllOf::new();
        both.items = vec![RefOr::T(Schema::Object(tag)), fields];
        both.title = Some(kind.to_owned());
        RefOr::T(Schema::AllOf(both))
    });
    let mut either = OneOf::new();
    either.items = variants.into();
    RefOr::T(Schema::OneOf(either))
}

/// Sets of problems that routes have in common. Where two have one status the later one counts, so the larger comes last.
macro_rules! problem_sets {
    ($($(#[$doc:meta])* $name:ident: $($kind:ident)*;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                problems(&[$(&kinds::$kind),*])
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
    /// A second factor that is not there.
    NotEnrolled: NOT_FOUND;
    /// A second-factor proof that is not fresh.
    SteppingUp: FORBIDDEN MFA_STEP_UP_REQUIRED;
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
    AnotherProfile: FORBIDDEN PROFILE_LIMIT PROFILE_BYTES_LIMIT;
    /// A snapshot too many.
    AnotherSnapshot: FORBIDDEN SNAPSHOT_LIMIT PROFILE_BYTES_LIMIT;
    /// A page that does not exist.
    NoPage: NOT_FOUND;
    /// Too many requests from one place.
    RateLimited: RATE_LIMITED;
    /// A database that is away.
    Database: FEATURE_UNAVAILABLE;
    /// A session that does not come to be.
    Creating: NOT_FOUND PROFILE_IN_USE SESSION_DESTROYED CONCURRENCY_LIMIT RATE_LIMITED DRIVER_ERROR DRIVER_NOT_INTEGRATED
              FEATURE_UNAVAILABLE SESSION_TIMEOUT;
    /// A session that cannot be driven, or a browser that fails.
    Driving: VALIDATION_FAILED BAD_REQUEST CONFLICT SESSION_DESTROYED DRIVER_ERROR DRIVER_NOT_INTEGRATED
             FEATURE_UNAVAILABLE SESSION_TIMEOUT;
}

fn problems(kinds: &[&'static Kind]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<String, Vec<&Kind>> = BTreeMap::new();
    for kind in kinds {
        by_status.entry(kind.status.as_u16().to_string()).or_default().push(kind);
    }
    by_status.into_iter().map(|(status, kinds)| (status, RefOr::T(problem_response(&kinds)))).collect()
}

fn problem_response(kinds: &[&Kind]) -> Response {
    let lines: Vec<_> = kinds.iter().map(|kind| format!("`{}`: {}", kind.slug, kind.meaning)).collect();
    let examples = kinds.iter().map(|kind| {
        let shared: RefOr<Example> = RefOr::Ref(Ref::new(format!("#/components/examples/{}", example_name(kind))));
        (example_name(kind), shared)
    });
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).examples_from_iter(examples);
    ResponseBuilder::new().description(lines.join("\n\n")).content(MEDIA_TYPE, content.build()).build()
}

/// Its slug, and its status where that is not what the slug usually has; and of what there is too much, where two kinds have
/// these.
fn example_name(kind: &Kind) -> String {
    let of = [(&kinds::SNAPSHOT_LIMIT, "-snapshots"), (&kinds::PROFILE_BYTES_LIMIT, "-bytes")];
    let of = of.into_iter().find(|(one, _)| std::ptr::eq(*one, kind)).map_or("", |(_, of)| of);
    match kinds::find(kind.slug) {
        Some(usual) if usual.status != kind.status => format!("{}-{}{of}", kind.slug, kind.status.as_u16()),
        _ => kind.slug.to_owned(),
    }
}

fn problem_example(kind: &Kind) -> Value {
    let mut example = json!({
        "type": format!("https://kitfleet.example/errors/{}", kind.slug), "title": kind.title,
        "status": kind.status.as_u16(), "detail": kind.meaning, "instance": "/v1/sessions",
        "request_id": "019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e",
    });
    for member in members().into_iter().filter(|member| member.of.iter().any(|of| std::ptr::eq(*of, kind))) {
        example[member.name] = member.example;
    }
    example
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use chrono::NaiveDate;
    use utoipa::openapi::path::OperationBuilder;

    use super::*;

    #[test]
    fn a_route_that_will_go_is_marked_with_its_replacement() {
        let day = |month| NaiveDate::from_ymd_opt(2027, month, 1).expect("a day");
        let deprecation = Deprecation { since: day(1), sunset: day(6), replacement: "`GET /v1/new`" };
        let response = ResponseBuilder::new().description("The old one");
        let mut operation = OperationBuilder::new().description(Some("Old.")).response("200", response).build();
        describe_deprecation(&mut operation, &deprecation);
        let operation = serde_json::to_value(operation).expect("JSON");
        assert_eq!(operation["deprecated"], true);
        let description =
            "Old.\n\nDeprecated since 2027-01-01, and may be missing from 2027-06-01 on: use `GET /v1/new` instead.";
        assert_eq!(operation["description"], description);
        let sunset = &operation["responses"]["200"]["headers"]["sunset"]["description"];
        assert_eq!(sunset, "`Tue, 01 Jun 2027 00:00:00 GMT`: the route's end is announced");
    }

    #[test]
    fn the_contract_is_the_same_every_time() {
        let printed = || serde_json::to_string(&openapi("http://localhost")).expect("JSON");
        let first = printed();
        assert!((0..8).all(|_| printed() == first));
    }

    /// The contract's operations, with a name for each.
    fn contract() -> (Value, Vec<(String, Value)>) {
        let document = serde_json::to_value(openapi("http://localhost")).expect("JSON");
        let mut operations = Vec::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                operations.push((format!("{method} {path}"), operation.clone()));
            }
        }
        (document, operations)
    }

    #[test]
    fn every_operation_is_described_with_examples() {
        let (document, operations) = contract();
        let tags: BTreeSet<_> =
            document["tags"].as_array().expect("tags").iter().map(|tag| tag["name"].as_str()).collect();
        let mut ids = BTreeSet::new();
        let mut wanting = Vec::new();
        for (name, operation) in &operations {
            let mut must = |holds: bool, what: &str| {
                if !holds {
                    wanting.push(format!("{name}: {what}"));
                }
            };
            must(operation["summary"].is_string(), "a summary");
            must(ids.insert(operation["operationId"].as_str()), "an id of its own");
            must(
                operation["tags"].as_array().is_some_and(|own| own.iter().all(|tag| tags.contains(&tag.as_str()))),
                "a tag",
            );
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                must(parameter["description"].is_string(), &format!("what {} is", parameter["name"]));
            }
            let mut bodies = vec![("the request".to_owned(), &operation["requestBody"])];
            for (status, answer) in operation["responses"].as_object().expect("answers") {
                must(answer["description"].as_str().is_some_and(|text| !text.is_empty()), "what an answer means");
                bodies.push((status.clone(), answer));
            }
            for (whose, body) in bodies {
                for (media_type, content) in body["content"].as_object().into_iter().flatten() {
                    let shown = content.get("example").or(content.get("examples")).is_some();
                    must(shown || media_type.starts_with("text/"), &format!("an example of the body of {whose}"));
                }
            }
        }
        assert!(wanting.is_empty(), "{}", wanting.join("\n"));
    }

    /// What may happen to a request whatever its route does: what fuzzing cannot bring about is documented, too.
    #[test]
    fn every_operation_tells_of_what_can_always_happen() {
        let (_, operations) = contract();
        let mut wanting = Vec::new();
        for (name, operation) in &operations {
            let mut must = |status: &str| {
                if operation["responses"].get(status).is_none() {
                    wanting.push(format!("{name}: {status}"));
                }
            };
            must("500");
            if name.contains('{') {
                must("404");
            }
            if operation["security"]
                .as_array()
                .is_some_and(|schemes| schemes.iter().any(|one| one.get("bearer").is_some()))
            {
                ["400", "401", "403", "429", "503"].into_iter().for_each(&mut must);
            }
            if let Some(body) = operation["requestBody"]["content"].as_object() {
                ["400", "408", "413"].into_iter().for_each(&mut must);
                if body.contains_key("application/json") {
                    must("415");
                }
            }
        }
        assert!(wanting.is_empty(), "{}", wanting.join("\n"));
        let gated: Vec<_> =
            operations.iter().filter(|(_, operation)| operation["x-access"]["step_up"] == true).collect();
        assert!(!gated.is_empty(), "no operation asks for a step-up");
        for (name, operation) in gated {
            let examples = &operation["responses"]["403"]["content"][MEDIA_TYPE]["examples"];
            assert!(examples[kinds::MFA_STEP_UP_REQUIRED.slug].is_object(), "{name} does not tell of its step-up");
        }
    }

    /// What is never null is not said to be so because it may be left out: clients would look for both.
    #[test]
    fn no_member_of_an_answer_is_optional_in_two_ways() {
        let (document, operations) = contract();
        let mut answered = BTreeSet::new();
        for (_, operation) in &operations {
            note_schemas(&document, &operation["responses"], &mut answered);
        }
        assert!(answered.len() > 20, "the answers' schemas were not found: {answered:?}");
        for name in answered {
            for part in parts(&document["components"]["schemas"][&name]) {
                let required: Vec<_> = part["required"].as_array().into_iter().flatten().collect();
                for (member, schema) in part["properties"].as_object().into_iter().flatten() {
                    let nullable = schema["type"].as_array().is_some_and(|types| types.contains(&json!("null")))
                        || schema["oneOf"].as_array().is_some_and(|either| either.contains(&json!({"type": "null"})));
                    let optional = !required.contains(&&json!(member));
                    assert!(!(nullable && optional), "{name}: {member} may be null, and may be missing");
                }
            }
        }
    }

    /// The names of the schemas that `value` refers to, and those that they refer to.
    fn note_schemas(document: &Value, value: &Value, names: &mut BTreeSet<String>) {
        for part in parts(value) {
            let name = part["$ref"].as_str().and_then(|to| to.strip_prefix("#/components/schemas/"));
            if let Some(name) = name
                && names.insert(name.to_owned())
            {
                note_schemas(document, &document["components"]["schemas"][name], names);
            }
        }
    }

    /// A value, and everything in it.
    fn parts(value: &Value) -> Vec<&Value> {
        let members = value.as_object().into_iter().flat_map(Map::values);
        let inside = members.chain(value.as_array().into_iter().flatten()).flat_map(parts);
        std::iter::once(value).chain(inside).collect()
    }

    /// Of two schemas with one name the contract shows only one, and utoipa does not say so.
    #[test]
    fn no_two_schemas_have_one_name() {
        // The api's own, and the results of operations.
        let folders = ["src", "../domain/src"].map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
        let declared = folders.iter().flat_map(|folder| declared_schemas(folder));
        let mut names = BTreeSet::from(["Problem".to_owned()]);
        for (name, file) in declared {
            assert!(names.insert(name.clone()), "another schema is called {name}, too: {}", file.display());
        }
        // If a declaration were overlooked, so would be one of the same name.
        let (document, _) = contract();
        for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
            assert!(names.contains(name), "{name} is declared in a way that this test does not know");
        }
    }

    /// The names of the types that derive a schema, as `as` or the type itself spells them.
    fn declared_schemas(folder: &Path) -> Vec<(String, PathBuf)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).expect("our sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                found.extend(declared_schemas(&path));
                continue;
            }
            let source = fs::read_to_string(&path).expect("UTF-8");
            for declaration in source.split("#[derive(").skip(1) {
                let (derived, rest) = declaration.split_once(")]").expect("a whole attribute");
                if derived.split([',', ' ', '\n']).any(|name| name == "ToSchema") {
                    let renamed = rest.split_once("#[schema(as = ").filter(|(before, _)| !before.contains('{'));
                    let name = renamed.map(|(_, name)| name).or_else(|| {
                        let mut lines = rest.lines().map(|line| line.strip_prefix("pub ").unwrap_or(line));
                        lines.find_map(|line| line.strip_prefix("struct ").or(line.strip_prefix("enum ")))
                    });
                    let name = name.and_then(|name| name.split(|c: char| !c.is_alphanumeric()).next());
                    found.push((name.expect("a name").to_owned(), path.clone()));
                }
            }
        }
        found
    }
}
