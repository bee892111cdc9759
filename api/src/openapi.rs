//! The contract, made from the code that answers (interface, "Versioning" 1).

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::{Value, json};
use utoipa::IntoResponses;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{AllOf, OneOf};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::server::Server;
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, Header, HeaderBuilder, InfoBuilder, LicenseBuilder, ObjectBuilder, OpenApi,
    OpenApiBuilder, Ref, RefOr, Required, Response, ResponseBuilder, Schema, Type,
};

use crate::kinds::{self, Kind};
use crate::permissions::{self, Access};
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
            }
            describe_limit_headers(operation);
        }
    }
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
    let mut extensions = ExtensionsBuilder::new().add("x-required-scope", rule.scope.name());
    if let Some(team) = rule.team {
        operation.parameters.get_or_insert_default().push(RefOr::T(account_header()));
        extensions = extensions.add("x-team-role", team.role.name()).add("x-team-scope", team.scope.name());
    }
    for (name, set) in [
        ("x-web-session-only", rule.web_session_only),
        ("x-step-up", rule.step_up),
        ("x-free-tier-devices", rule.open_to_free_devices),
    ] {
        if set {
            extensions = extensions.add(name, true);
        }
    }
    operation.extensions.get_or_insert_default().merge(extensions.build());
}

fn account_header() -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::String).build();
    let description = "The account whose resources the request is about, `acc_<uuid>`; the caller's own when absent";
    ParameterBuilder::new()
        .name("X-Service-Account")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

/// A route that may answer `rate-limited` says in every such answer, and in every success, how its caller stands.
fn describe_limit_headers(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let Some(RefOr::T(refusal)) = responses.get_mut("429") else { return };
    if !refusal.description.contains(kinds::RATE_LIMITED.slug) {
        return;
    }
    let retry = "After how many seconds to repeat the request; with `rate-limited` only";
    refusal.headers.insert("Retry-After".to_owned(), number_header(retry));
    for (status, response) in responses {
        let RefOr::T(response) = response else { continue };
        if status == "429" || status.starts_with('2') {
            for (name, description) in [
                ("RateLimit-Limit", "Requests a minute that are allowed, all of which may come at once"),
                ("RateLimit-Remaining", "Requests that could be sent right now"),
                ("RateLimit-Reset", "Seconds until all of them are there again; with a 429, until there is one"),
            ] {
                response.headers.insert(name.to_owned(), number_header(description));
            }
        }
    }
}

fn number_header(description: &str) -> RefOr<Header> {
    let schema = ObjectBuilder::new().schema_type(Type::Integer).build();
    RefOr::T(HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build())
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
        .security_scheme("bearer", bearer("An API key (`svc_live_…`, a device's on the free tier `svc_test_…`), an OAuth access token or a web session's token. `x-required-scope` names what it has to satisfy."))
        .security_scheme("metrics_token", bearer("The deployment's metrics token."))
        .schema("Problem", problem_schema());
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
            tag("Account", "What its owner decides"),
            tag("Archetypes", "The devices a session can be"),
            tag("Authentication", "Proving who calls"),
            tag("MFA", "Second factors"),
            tag("Devices", "Desktop apps that ask for a credential"),
            tag("API keys", "Credentials of programs"),
            tag("Webhooks", "Being told of events"),
            tag("Operations", "For whoever runs the service"),
            tag("Contract", "What the service says about itself"),
            tag("Pages", "For a person's browser"),
        ]))
        .build()
}

fn problem_schema() -> Schema {
    let text = |description: &str| ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    let error = ObjectBuilder::new()
        .property("field", text("A dotted path, such as `action.text`"))
        .required("field")
        .property("message", text("What the field must be"))
        .required("message");
    let errors = utoipa::openapi::ArrayBuilder::new().items(error).description(Some("For `validation-failed`"));
    let status = ObjectBuilder::new().schema_type(Type::Integer).description(Some("The HTTP status"));
    let problem = ObjectBuilder::new()
        .description(Some("A problem document (RFC 9457); a kind of problem may have further members"))
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
        .required("request_id")
        .property("errors", errors);
    Schema::Object(problem.build())
}

fn uri() -> utoipa::openapi::SchemaFormat {
    utoipa::openapi::SchemaFormat::Custom("uri".to_owned())
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
    /// A key that cannot have a successor.
    Rotating: CONFLICT;
    /// A webhook endpoint, or a delivery, that is not the caller's to see.
    NoWebhook: NOT_FOUND;
    /// A webhook endpoint that takes nothing, or a delivery that has not ended.
    WebhookAtRest: CONFLICT;
    /// A session that is not the caller's to see.
    NoSession: NOT_FOUND;
    /// A page that does not exist.
    NoPage: NOT_FOUND;
    /// Too many requests from one place.
    RateLimited: RATE_LIMITED;
    /// A database that is away.
    Database: FEATURE_UNAVAILABLE;
    /// A session that does not come to be.
    Creating: NOT_FOUND SESSION_DESTROYED CONCURRENCY_LIMIT RATE_LIMITED DRIVER_ERROR DRIVER_NOT_INTEGRATED
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
    let kind = kinds[0];
    let mut example = json!({
        "type": format!("https://kitfleet.example/errors/{}", kind.slug), "title": kind.title,
        "status": kind.status.as_u16(), "detail": kind.meaning, "instance": "/v1/sessions",
        "request_id": "019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e",
    });
    if kind.slug == kinds::VALIDATION_FAILED.slug {
        example["errors"] = json!([{"field": "label", "message": "must have at most 120 characters"}]);
    }
    if kind.slug == kinds::CONCURRENCY_LIMIT.slug {
        example["current_sessions"] = 2.into();
        example["limit"] = 2.into();
    }
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).example(Some(example)).build();
    ResponseBuilder::new().description(lines.join("\n\n")).content(MEDIA_TYPE, content).build()
}
