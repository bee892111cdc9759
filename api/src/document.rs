//! The contract (contract: versioning 1), made of what the routes say of themselves: the document that programs read, and SDKs
//! are made of. What routes have in common stands in it once and has a name, which an SDK gives it, too.
//!
//! It is put together as JSON, in one order, so that it is the same every time.

mod examples;
mod names;
mod problems;
mod retries;
mod schemas;
mod webhooks;

use std::collections::BTreeMap;

use axum::http::Method;
use kitfleet_domain::ids::AccountId;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use crate::http::idempotency;
use crate::http::kinds;
use crate::http::openapi::{SHARED_AS, id_schema, problem_key};
use crate::http::permissions::{Access, Deprecation, Rule};
use crate::http::routing::Rows;

use problems::Answers;

/// The contract of a service that customers reach at `base_url`, whose routes are `described` and have these rows.
pub fn contract(described: OpenApi, rows: &Rows, base_url: &str) -> Value {
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
        }
    }
    paths.retain(|_, item| item.as_object().is_some_and(|item| !item.is_empty()));

    let (responses, problems) = answers.components();
    let (mut events, payloads) = webhooks::section();
    schemas.extend(problems.into_iter().chain(payloads));
    let mut operations: Vec<_> = operations(&mut paths).chain(self::operations(&mut events)).collect();
    names::give(&mut schemas, &mut operations);
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
                     session's token. `x-access` names what it has to satisfy."},
                "staff": {"type": "http", "scheme": "bearer", "description":
                    "A credential of staff (`svc_staff_…`); whoever shows another is told that there is no such route."},
                "metrics_token": {"type": "http", "scheme": "bearer", "description": "The deployment's metrics token."},
            },
        },
    })
}

const DESCRIPTION: &str = "Mobile browser sessions on real WebKit, over plain HTTP.\n\nErrors are problem documents \
    (RFC 9457); every answer has an `X-Request-Id`. Unknown fields of a body are ignored, and named in the \
    `x-service-unknown-fields` header of the answer. Where a 429 is `rate-limited`, the route's other answers have its \
    `RateLimit-*` headers, too.\n\n`x-retryable` says whether a request may be sent again when its answer was lost: whatever \
    it makes, sends or ends, it does once. The second answer may be another one: what was deleted is a 404 then.";

const TAGS: [(&str, &str); 21] = [
    ("Sessions", "Making, driving and ending browser sessions"),
    ("Agent sessions", "Browsers that are told in words what to do"),
    ("Recipes", "What was done in agent sessions, to be done again"),
    ("Profiles", "What sessions begin with, and leave behind"),
    ("Proxies", "Ways out that customers bring"),
    ("Account", "What its owner decides"),
    ("Billing", "What is paid, and by what"),
    ("Archetypes", "The devices a session can be"),
    ("Authentication", "Proving who calls"),
    ("MFA", "Second factors"),
    ("Devices", "Desktop apps that ask for a credential"),
    ("API keys", "Credentials of programs"),
    ("Audit log", "Who did what, for ever"),
    ("Notifications", "What happens, while it happens"),
    ("Usage", "How much was done"),
    ("Teams", "Other people's accounts that may act on one's own"),
    ("Webhooks", "Being told of events"),
    ("Status", "How the service does, and who is told of incidents"),
    ("Operations", "For whoever runs the service"),
    ("Staff", "What whoever runs the service does for its customers; internal, and no part of what is kept stable"),
    ("Contract", "What the service says about itself"),
];

/// Headers that many answers have, and what they say.
const HEADERS: [(&str, &str, &str); 6] = [
    (REQUEST_ID, "string", "The request's id, for whoever runs the service"),
    (
        UNKNOWN_FIELDS,
        "string",
        "The fields of an authenticated write's body that the route does not know, when there are any",
    ),
    (RETRY_AFTER, "integer", "After how many seconds to repeat the request, where that helps"),
    (
        "RateLimit-Limit",
        "integer",
        "How many requests may come at once; used ones come back evenly, within a minute or, of some limits, an hour",
    ),
    ("RateLimit-Remaining", "integer", "Requests that could be sent right now"),
    ("RateLimit-Reset", "integer", "Seconds until all of them are there again; with a 429, until there is one"),
];

const REQUEST_ID: &str = "X-Request-Id";
const UNKNOWN_FIELDS: &str = "x-service-unknown-fields";
const RETRY_AFTER: &str = "Retry-After";
/// Every answer of a route with a limit has them. The contract says so once: in all successes they took a tenth of it.
const RATE_LIMITS: [&str; 3] = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];

/// A page is for a person's browser: no program calls it, and no SDK has a method for it.
fn is_for_people(operation: &Value) -> bool {
    operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "Pages"))
}

/// Says of an operation what its route's row says, and what can always happen.
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
            // Whoever is not of the staff is told that there is no such route.
            for kind in [&kinds::UNAUTHORIZED, &kinds::NOT_FOUND, &kinds::RATE_LIMITED] {
                responses.insert(problem_key(kind), Value::Null);
            }
            if method != Method::GET {
                headers.push(UNKNOWN_FIELDS);
            }
            operation["security"] = json!([{"staff": []}]);
        }
        Some(Access::Account(rule)) => {
            // No credential is answered more often than its limit allows.
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

/// Contract: versioning 4.
fn describe_deprecation(operation: &mut Value, deprecation: &Deprecation) {
    operation["deprecated"] = json!(true);
    let Deprecation { since, sunset, replacement } = deprecation;
    let notice = format!("Deprecated since {since}, and may be missing from {sunset} on: use {replacement} instead.");
    let before = operation["description"].as_str().map(|text| format!("{text}\n\n")).unwrap_or_default();
    operation["description"] = format!("{before}{notice}").into();
    for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        // Problems are shared with routes that stay.
        if response.get("$ref").is_none() {
            for (name, value) in deprecation.headers() {
                let what = format!("`{value}`: the route's end is announced");
                response["headers"][name.as_str()] = header("string", &what);
            }
        }
    }
}

fn account_header() -> Value {
    let description = "The account whose resources the request is about, `acc_<uuid>`; the caller's own when absent";
    json!({
        "name": "X-Service-Account", "in": "header", "description": description, "required": false,
        "schema": id_schema(AccountId::PREFIX),
    })
}

/// Puts the parameters that routes have in common where all refer to them.
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

/// Says that an answer may have these headers, which all answers share.
fn add_headers(response: &mut Value, names: &[&str]) {
    for name in names {
        response["headers"][name] = json!({"$ref": format!("#/components/headers/{name}")});
    }
}

fn operations(paths: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut)
}

/// What an object holds, which it gives away.
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
