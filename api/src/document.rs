//! The OpenAPI document (contract: versioning 1), generated from the descriptions of the routes. A part that several routes
//! share occurs once, under a name that SDKs use, too.
//!
//! The document is assembled as JSON in a fixed order, so that it is reproducible.

mod audience;
mod bounds;
mod examples;
mod intents;
mod names;
mod problems;
mod requests;
mod retries;
mod schemas;
mod sdk;
mod webhooks;

use std::collections::BTreeMap;

use axum::http::Method;
use kitfleet_live::PROTOCOL;
use kitfleet_types::ids::AccountId;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use crate::http::idempotency;
use crate::http::kinds;
use crate::http::openapi::{SHARED_AS, id_schema, problem_key};
use crate::http::permissions::{Access, Deprecation, Rule};
use crate::http::routing::Rows;
use crate::http::state::DocumentConfig;

pub use audience::for_customers;
use problems::Answers;

pub fn contract(described: OpenApi, rows: &Rows, config: &DocumentConfig<'_>) -> Value {
    let mut document = assemble(described, rows, config.base_url);
    bounds::apply(&mut document["components"], config);
    document
}

/// With the bounds that routes declare.
fn assemble(described: OpenApi, rows: &Rows, base_url: &str) -> Value {
    let mut described = serde_json::to_value(described).unwrap_or_default();
    let (mut paths, mut schemas) = (members(&mut described["paths"]), members(&mut described["components"]["schemas"]));
    let mut parameters = Map::from_iter([("ServiceAccount".to_owned(), account_header())]);
    let mut answers = Answers::default();
    for (path, item) in &mut paths {
        let Value::Object(item) = item else { continue };
        item.retain(|_, operation| !is_for_people(operation));
        for (method, operation) in item {
            describe(path, method, operation, rows, &mut answers);
            share_parameters(operation, &mut parameters);
            sdk::name(operation);
            describe_protocol(operation);
        }
    }
    paths.retain(|_, item| item.as_object().is_some_and(|item| !item.is_empty()));

    let (responses, problems) = answers.components();
    let (mut events, payloads) = webhooks::section();
    schemas.extend(problems.into_iter().chain(payloads));
    let methods = paths.values().filter_map(Value::as_object).flat_map(Map::keys).cloned();
    let methods: Vec<_> = methods.chain(events.values().map(|_| requests::EVENT.to_owned())).collect();
    let mut operations: Vec<_> = operations(&mut paths).chain(self::operations(&mut events)).collect();
    intents::describe(&mut schemas);
    names::give(&mut schemas, &mut operations);
    requests::remove_nulls(&mut schemas, &operations, &methods);
    schemas::complete(&mut schemas, &mut operations);
    examples::add(&mut schemas, &mut operations);

    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kitfleet", "version": "1.0.0", "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "security": [{"bearer": []}],
        "tags": TAGS.map(|(name, description)| json!({"name": name, "description": description})),
        "paths": paths,
        "webhooks": events,
        "components": {
            "schemas": sorted(schemas),
            "responses": responses,
            "parameters": sorted(parameters.into_iter().chain(webhooks::headers())),
            "headers": sorted(HEADERS.map(|(name, kind, what)| (name.to_owned(), header(kind, what)))),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description":
                    "An API key (`svc_live_…`, a device's on the free tier `svc_test_…`), an OAuth access token or a web \
                     session's token. `x-access` names the required permissions."},
                "staff": {"type": "http", "scheme": "bearer", "description":
                    "A staff credential (`svc_staff_…`). With any other credential the routes return 404."},
                "metrics_token": {"type": "http", "scheme": "bearer", "description": "The deployment's metrics token."},
            },
        },
    })
}

const DESCRIPTION: &str = "Mobile browser sessions on real WebKit, over plain HTTP.\n\nErrors are problem documents \
    (RFC 9457). Every response has an `X-Request-Id`. Unknown fields of a body are ignored and listed in the \
    `x-service-unknown-fields` response header. If a route's 429 is `rate-limited`, its other responses have the \
    `RateLimit-*` headers, too.\n\n`x-sdk` names the method of an operation in SDKs. `x-pagination` names the members of lists \
    that have several pages. `x-extensible-enum` lists the values that are known now; clients must accept other values.\n\n\
    `x-retryable` is true if a request can be repeated after its response was lost: its \
    effect happens only once. The second response can differ: repeating a deletion returns 404.";

const TAGS: [(&str, &str); 21] = [
    ("Sessions", "Browser sessions and the operations on them"),
    ("Agent sessions", "Browsers driven by natural-language messages"),
    ("Recipes", "Recorded steps of agent sessions, to repeat them"),
    ("Profiles", "Browser data that sessions start from and save back to"),
    ("Proxies", "Customers' own egress routes"),
    ("Account", "Settings, web sessions and deletion of the account"),
    ("Billing", "Plans and payments"),
    ("Archetypes", "Devices that a session can emulate"),
    ("Authentication", "Sign-up, sign-in and OAuth"),
    ("MFA", "Second factors"),
    ("Devices", "Credentials for desktop apps"),
    ("API keys", "Credentials for programs"),
    ("Audit log", "Permanent record of the actions on an account"),
    ("Notifications", "Events of an account, as a stream and as a list"),
    ("Usage", "Usage by month and by day"),
    ("Teams", "Accounts that may act on another account's resources"),
    ("Webhooks", "Delivery of events to customers' endpoints"),
    ("Status", "Status of the service, and subscriptions to incidents"),
    ("Operations", "Health and metrics, for operators"),
    ("Staff", "Operator actions on customer accounts; internal, and not covered by the stability rules"),
    ("Contract", "This document"),
];

/// With types and descriptions.
const HEADERS: [(&str, &str, &str); 6] = [
    (REQUEST_ID, "string", "Request ID, to quote to the operator of the service"),
    (UNKNOWN_FIELDS, "string", "Unknown fields in the body of an authenticated write; absent if there are none"),
    (RETRY_AFTER, "integer", "Seconds to wait before repeating the request; absent if repeating does not help"),
    (
        "RateLimit-Limit",
        "integer",
        "Maximum number of requests at once; the quota refills evenly within a minute, or for some limits an hour",
    ),
    ("RateLimit-Remaining", "integer", "Number of requests that can be sent now"),
    (
        "RateLimit-Reset",
        "integer",
        "Seconds until the full quota is available; with a 429, until one request is available",
    ),
];

const REQUEST_ID: &str = "X-Request-Id";
const UNKNOWN_FIELDS: &str = "x-service-unknown-fields";
const RETRY_AFTER: &str = "Retry-After";
/// On every response of a rate-limited route. The contract says so once, because repeating them in all successes took a tenth
/// of it.
const RATE_LIMITS: [&str; 3] = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];

/// Pages are for browsers: no SDK has methods for them.
fn is_for_people(operation: &Value) -> bool {
    operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "Pages"))
}

/// The access rule of the route, and the responses that every route can return.
fn describe(path: &str, method: &str, operation: &mut Value, rows: &Rows, answers: &mut Answers) {
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).unwrap_or_default();
    let mut responses = members(&mut operation["responses"]);
    responses.insert(problem_key(&kinds::INTERNAL), Value::Null);
    let mut headers = vec![REQUEST_ID];
    let route = rows.find(&method, path);
    match route.map(|route| &route.access) {
        None => {}
        Some(Access::Public) => operation["security"] = json!([]),
        Some(Access::MetricsToken) => operation["security"] = json!([{"metrics_token": []}]),
        Some(Access::Staff) => {
            // A caller that is not staff gets a 404, as for an unknown route.
            for kind in [&kinds::UNAUTHORIZED, &kinds::NOT_FOUND, &kinds::RATE_LIMITED] {
                responses.insert(problem_key(kind), Value::Null);
            }
            if method != Method::GET {
                headers.push(UNKNOWN_FIELDS);
            }
            operation["security"] = json!([{"staff": []}]);
        }
        Some(Access::Account(rule)) => {
            // Every credential has a rate limit.
            responses.insert(problem_key(&kinds::RATE_LIMITED), Value::Null);
            if method != Method::GET {
                headers.push(UNKNOWN_FIELDS);
            }
            describe_access(operation, *rule);
        }
    }
    operation["x-retryable"] = retries::may_be_sent_again(&method, path).into();
    if let Some(rule) = operation["operationId"].as_str().and_then(idempotency::Rule::of) {
        operation["x-idempotency"] = json!(rule);
    }
    answers.share(&mut responses, &headers);
    for (status, response) in &mut responses {
        if status.starts_with('2') {
            add_headers(response, &headers);
        } else if response.get("$ref").is_none() {
            add_headers(response, &headers[..1]);
        }
    }
    operation["responses"] = sorted(responses);
    if let Some(deprecation) = route.and_then(|route| route.deprecation.as_ref()) {
        describe_deprecation(operation, deprecation);
    }
}

fn describe_access(operation: &mut Value, rule: Rule) {
    let mut asked = Map::from_iter([("scope".to_owned(), json!(rule.scope.name()))]);
    if let Some(scope) = rule.or_scope {
        asked.insert("or_scope".to_owned(), json!(scope.name()));
    }
    if let Some(team) = rule.team {
        let header = json!({"$ref": "#/components/parameters/ServiceAccount"});
        match &mut operation["parameters"] {
            Value::Array(parameters) => parameters.push(header),
            none => *none = json!([header]),
        }
        asked.insert("team".to_owned(), json!({"role": team.role.name(), "scope": team.scope.name()}));
    }
    for (name, set) in [
        ("web_session_only", rule.web_session_only),
        ("step_up", rule.step_up),
        ("free_tier_devices", rule.open_to_free_devices),
        ("members_keys", rule.open_to_members_keys),
    ] {
        if set {
            asked.insert(name.to_owned(), json!(true));
        }
    }
    operation["x-access"] = asked.into();
}

/// Lists with several pages, and sockets.
fn describe_protocol(operation: &mut Value) {
    let cursor = json!({"$ref": "#/components/parameters/Cursor"});
    if operation["parameters"].as_array().is_some_and(|parameters| parameters.contains(&cursor)) {
        operation["x-pagination"] = json!({
            "cursor": "cursor", "limit": "limit", "items": "data", "next_cursor": "next_cursor", "has_more": "has_more",
        });
    }
    if operation["responses"].get("101").is_some() {
        operation["x-websocket"] = json!({"subprotocols": [PROTOCOL, "ticket.<ticket>"]});
    }
}

/// Contract: versioning 4.
fn describe_deprecation(operation: &mut Value, deprecation: &Deprecation) {
    operation["deprecated"] = json!(true);
    let Deprecation { since, sunset, replacement } = deprecation;
    let notice = format!("Deprecated since {since}; may be removed from {sunset} on. Use {replacement} instead.");
    let before = operation["description"].as_str().map(|text| format!("{text}\n\n")).unwrap_or_default();
    operation["description"] = format!("{before}{notice}").into();
    for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        // Problems are shared with routes that are not deprecated.
        if response.get("$ref").is_none() {
            for (name, value) in deprecation.headers() {
                let what = format!("`{value}`: announced end of the route");
                response["headers"][name.as_str()] = header("string", &what);
            }
        }
    }
}

fn account_header() -> Value {
    let description = "Account to act on, `acc_<uuid>`; the caller's own account by default";
    json!({
        "name": "X-Service-Account", "in": "header", "description": description, "required": false,
        "schema": id_schema(AccountId::PREFIX),
    })
}

/// References replace them.
fn share_parameters(operation: &mut Value, shared: &mut Map<String, Value>) {
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = parameter.as_object_mut().and_then(|members| members.shift_remove(SHARED_AS));
        if let Some(Value::String(name)) = name {
            let reference = json!({"$ref": format!("#/components/parameters/{name}")});
            shared.insert(name, std::mem::replace(parameter, reference));
        }
    }
}

fn header(kind: &str, what: &str) -> Value {
    json!({"description": what, "schema": {"type": kind}})
}

fn add_headers(response: &mut Value, names: &[&str]) {
    for name in names {
        response["headers"][name] = json!({"$ref": format!("#/components/headers/{name}")});
    }
}

fn operations(paths: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut)
}

fn members(object: &mut Value) -> Map<String, Value> {
    match object.take() {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn sorted(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    members.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect()
}

#[cfg(test)]
mod tests;
