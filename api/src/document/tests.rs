//! Rules for contracts from which good SDKs can be generated, checked against the service's contract.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use kitfleet_domain::events::EventType;
use kitfleet_types::limits::Limits;

use super::*;
use crate::http::kinds::Kind;
use crate::http::problems::MEDIA_TYPE;
use crate::router;

#[test]
fn deprecated_route_names_its_replacement() {
    let day = |month| NaiveDate::from_ymd_opt(2027, month, 1).expect("a day");
    let deprecation = Deprecation { since: day(1), sunset: day(6), replacement: "`GET /v1/new`" };
    let shared = json!({"$ref": "#/components/responses/NotFound"});
    let mut operation = json!({
        "description": "Old.", "responses": {"200": {"description": "The old one"}, "404": shared},
    });
    describe_deprecation(&mut operation, &deprecation);
    assert_eq!(operation["deprecated"], true);
    let description =
        "Old.\n\nDeprecated since 2027-01-01; may be removed from 2027-06-01 on. Use `GET /v1/new` instead.";
    assert_eq!(operation["description"], description);
    let sunset = &operation["responses"]["200"]["headers"]["sunset"]["description"];
    assert_eq!(sunset, "`Tue, 01 Jun 2027 00:00:00 GMT`: announced end of the route");
    assert_eq!(operation["responses"]["404"], shared);
}

fn openapi() -> Value {
    let limits = Limits::default();
    router::openapi(&DocumentConfig { base_url: "http://localhost", limits: &limits, max_token_budget: 1_000_000 })
}

#[test]
fn openapi_document_is_deterministic() {
    let printed = || openapi().to_string();
    let first = printed();
    assert!((0..8).all(|_| printed() == first));
}

struct Contract {
    document: Value,
    operations: Vec<(String, Value)>,
}

impl Contract {
    fn ours() -> Self {
        let document = openapi();
        let operations = Self::operations_of(&document["paths"]);
        Self { document, operations }
    }

    fn operations_of(paths: &Value) -> Vec<(String, Value)> {
        let items = paths.as_object().expect("paths").iter();
        let operations = items.flat_map(|(path, item)| {
            let operations = item.as_object().expect("operations").iter();
            operations.map(move |(method, operation)| (format!("{method} {path}"), operation.clone()))
        });
        operations.collect()
    }

    fn schemas(&self) -> &Map<String, Value> {
        self.document["components"]["schemas"].as_object().expect("schemas")
    }

    /// Other values are returned unchanged.
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(to) => {
                self.document.pointer(to.trim_start_matches('#')).unwrap_or_else(|| panic!("{to} leads nowhere"))
            }
            None => value,
        }
    }

    fn response<'a>(&'a self, operation: &'a Value, status: &str) -> Option<&'a Value> {
        Some(self.resolved(operation["responses"].get(status)?))
    }
}

/// Of the pretty-printed document in the repository, which is reviewed. With separate errors for each operation it was 10,160
/// bytes an operation.
#[test]
fn an_operation_takes_less_than_five_kilobytes() {
    let Contract { document, operations } = Contract::ours();
    let printed = serde_json::to_string_pretty(&document).expect("JSON");
    let each = printed.len() / operations.len();
    assert!(each <= 5_000, "{each} bytes an operation: a part that occurs in many places has no name");
}

#[test]
fn every_operation_is_described_with_examples() {
    let contract = Contract::ours();
    let tags: BTreeSet<_> = TAGS.iter().map(|(name, _)| Some(*name)).collect();
    let mut wanting = Vec::new();
    for (name, operation) in &contract.operations {
        let mut must = |holds: bool, what: &str| {
            if !holds {
                wanting.push(format!("{name}: {what}"));
            }
        };
        must(operation["summary"].is_string(), "a summary");
        must(operation["x-retryable"].is_boolean(), "x-retryable");
        must(
            operation["tags"].as_array().is_some_and(|own| own.iter().all(|tag| tags.contains(&tag.as_str()))),
            "a tag",
        );
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter = contract.resolved(parameter);
            must(parameter["description"].is_string(), &format!("a description of {}", parameter["name"]));
        }
        let mut bodies = vec![("the request".to_owned(), &operation["requestBody"])];
        for (status, answer) in operation["responses"].as_object().expect("answers") {
            let answer = contract.resolved(answer);
            must(answer["description"].as_str().is_some_and(|text| !text.is_empty()), "a description of a response");
            bodies.push((status.clone(), answer));
        }
        for (whose, body) in bodies {
            for (media_type, content) in body["content"].as_object().into_iter().flatten() {
                let mut schemas = vec![&content["schema"]];
                schemas.extend(content["schema"]["oneOf"].as_array().into_iter().flatten());
                let shown = schemas.into_iter().any(|schema| contract.resolved(schema).get("example").is_some());
                let shown = shown || content.get("example").is_some() || media_type.starts_with("text/");
                must(shown, &format!("an example of the body of {whose}"));
            }
        }
    }
    assert!(wanting.is_empty(), "{}", wanting.join("\n"));
}

/// Even responses that fuzzing cannot provoke.
#[test]
fn every_operation_documents_common_errors() {
    let contract = Contract::ours();
    let mut wanting = Vec::new();
    for (name, operation) in &contract.operations {
        let mut must = |status: &str| {
            if operation["responses"].get(status).is_none() {
                wanting.push(format!("{name}: {status}"));
            }
        };
        must("500");
        if name.contains('{') {
            must("404");
        }
        // An operation without its own security section needs a bearer token.
        if operation.get("security").is_none() {
            ["400", "401", "403", "429", "503"].into_iter().for_each(&mut must);
        }
        if let Some(body) = operation["requestBody"]["content"].as_object() {
            ["400", "408", "413"].into_iter().for_each(&mut must);
            // Signed bodies are read as they arrive, whatever their content type.
            if body.contains_key("application/json") && !name.ends_with("-webhook") {
                must("415");
            }
        }
    }
    assert!(wanting.is_empty(), "{}", wanting.join("\n"));
}

/// Whatever set it belongs to, and no other.
#[test]
fn problems_of_one_status_are_one_response() {
    let contract = Contract::ours();
    let kinds = |name: &str, status| {
        let (_, operation) = contract.operations.iter().find(|(own, _)| own == name).expect("an operation");
        let schema = &contract.response(operation, status).expect("an answer")["content"][MEDIA_TYPE]["schema"];
        let schemas = schema["oneOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
        let names =
            schemas.iter().map(|schema| schema["$ref"].as_str().and_then(|to| Some(to.rsplit_once('/')?.1.to_owned())));
        names.collect::<Option<Vec<_>>>().expect("named schemas")
    };
    assert_eq!(kinds("get /v1/sessions/{id}/state", "400"), ["ValidationFailedProblem"]);
    assert_eq!(kinds("post /v1/sessions/{id}/wait", "400"), ["BadRequestProblem", "ValidationFailedProblem"]);
    assert_eq!(kinds("delete /v1/account/me", "403"), ["ForbiddenProblem", "MfaStepUpRequiredProblem"]);
    let full = ["ForbiddenProblem", "ProfileLimitOrProfileBytesLimitProblem"];
    assert_eq!(kinds("post /v1/profiles", "403"), full);
    assert_eq!(kinds("post /v1/sessions", "429"), ["RateLimitedProblem", "ConcurrencyLimitProblem"]);
    for (name, operation) in &contract.operations {
        if operation["x-access"]["step_up"] == true {
            assert!(kinds(name, "403").contains(&"MfaStepUpRequiredProblem".to_owned()), "{name}");
        }
        for (status, answer) in operation["responses"].as_object().expect("answers") {
            let is_problem = contract.resolved(answer)["content"].get(MEDIA_TYPE).is_some();
            assert!(!is_problem || answer.get("$ref").is_some(), "{name} has a problem of its own for {status}");
        }
    }
    let answers = contract.document["components"]["responses"].as_object().expect("answers");
    let bodies: BTreeSet<_> = answers.values().map(|answer| answer["content"].to_string()).collect();
    assert_eq!(bodies.len(), answers.len(), "two answers say the same");
}

/// The response would hide the route's problems of the same status.
#[test]
fn status_has_either_a_problem_or_another_body() {
    let (_, described, _) = router::routes().split();
    let described = serde_json::to_value(described).expect("JSON");
    for (name, operation) in Contract::operations_of(&described["paths"]) {
        let answers: BTreeSet<_> = operation["responses"].as_object().expect("answers").keys().cloned().collect();
        for kind in kinds::named().filter(|kind| answers.contains(&problem_key(kind))) {
            assert!(!answers.contains(kind.status.as_str()), "{name}: {}", kind.status);
        }
    }
}

#[test]
fn no_two_kinds_of_problems_have_one_name() {
    let names: BTreeSet<_> = kinds::named().map(Kind::name).collect();
    assert_eq!(names.len(), kinds::named().count());
    assert!(names.iter().all(|name| name.chars().all(char::is_alphanumeric)), "{names:?}");
}

/// SDKs use the names for files and classes, and some file systems ignore case.
#[test]
fn no_two_names_differ_by_case_only() {
    let contract = Contract::ours();
    let sections = contract.document["components"].as_object().expect("components").values();
    let mut names: Vec<Vec<&str>> =
        sections.map(|section| section.as_object().expect("names").keys().map(String::as_str).collect()).collect();
    let events = Contract::operations_of(&contract.document["webhooks"]);
    let operations = contract.operations.iter().chain(&events);
    names.push(operations.map(|(name, operation)| operation["operationId"].as_str().expect(name)).collect());
    for names in names {
        let mut seen = BTreeMap::new();
        for name in names {
            let other = seen.insert(name.to_lowercase(), name);
            assert!(other.is_none(), "{name} and {other:?}");
        }
    }
}

/// They are method names of an SDK.
#[test]
fn operations_are_called_by_a_verb_and_a_noun() {
    let verbs = [
        "accept",
        "activate",
        "bind",
        "cancel",
        "capture",
        "check",
        "clone",
        "close",
        "confirm",
        "consume",
        "count",
        "create",
        "decline",
        "delete",
        "destroy",
        "disable",
        "drain",
        "enroll",
        "evaluate",
        "exchange",
        "expire",
        "export",
        "extract",
        "finish",
        "follow",
        "get",
        "hand",
        "import",
        "initiate",
        "interact",
        "invite",
        "keep",
        "launch",
        "list",
        "log",
        "login",
        "meet",
        "navigate",
        "open",
        "pause",
        "preview",
        "purge",
        "reactivate",
        "record",
        "refresh",
        "register",
        "regenerate",
        "remove",
        "replace",
        "replay",
        "request",
        "requeue",
        "resend",
        "resolve",
        "restore",
        "resume",
        "retry",
        "revoke",
        "rotate",
        "search",
        "send",
        "set",
        "settle",
        "sign",
        "snapshot",
        "start",
        "step",
        "suggest",
        "suspend",
        "take",
        "test",
        "undrain",
        "update",
        "verify",
        "wait",
        "watch",
    ];
    for (name, operation) in Contract::ours().operations {
        let id = operation["operationId"].as_str().expect("an id");
        let verb = id.split(char::is_uppercase).next().unwrap_or_default();
        assert!(verbs.contains(&verb) && verb.len() < id.len(), "{name} is called {id}");
    }
}

fn parts(value: &Value) -> Vec<&Value> {
    let members = value.as_object().into_iter().flat_map(Map::values);
    let inside = members.chain(value.as_array().into_iter().flatten()).flat_map(parts);
    std::iter::once(value).chain(inside).collect()
}

fn unnamed_schemas(contract: &Contract) -> Vec<&Value> {
    let of_schemas = contract.schemas().values().flat_map(|schema| parts(schema).into_iter().skip(1));
    let rest = ["paths", "webhooks"].into_iter().flat_map(|section| parts(&contract.document[section]));
    let shared =
        ["parameters", "responses"].into_iter().flat_map(|section| parts(&contract.document["components"][section]));
    of_schemas.chain(rest).chain(shared).filter(|part| part.is_object()).collect()
}

#[test]
fn every_enum_and_every_variant_has_a_name() {
    let contract = Contract::ours();
    for part in unnamed_schemas(&contract) {
        let values = part["enum"].as_array().map_or(0, Vec::len);
        assert!(values <= 1, "a set of texts has no name, or the name of something else: {part}");
    }
    let all = contract.schemas().values().flat_map(parts).chain(unnamed_schemas(&contract));
    let variants = all.flat_map(|part| ["oneOf", "anyOf"].into_iter().filter_map(|keyword| part[keyword].as_array()));
    for variant in variants.flatten() {
        assert!(variant.get("$ref").is_some() || variant["type"] == "null", "a variant has no name: {variant}");
    }
    for name in
        ["TapAction", "SelectorCondition", "UrlMatchesCondition", "SignedIn", "MfaRequired", "DeviceExchangeBound"]
    {
        assert!(contract.schemas().contains_key(name), "{name}");
    }
    let mut sets = BTreeMap::new();
    for (name, schema) in contract.schemas().iter().filter(|(_, schema)| schema.get("enum").is_some()) {
        let other = sets.insert(schema["enum"].to_string(), name);
        assert!(other.is_none(), "{name} and {other:?} are the same");
    }
}

#[test]
fn unions_have_a_discriminator() {
    let contract = Contract::ours();
    let telling = |name: &str| {
        let discriminator = &contract.schemas()[name]["discriminator"];
        let mapping = discriminator["mapping"].as_object().expect(name);
        for to in mapping.values() {
            contract.resolved(&json!({"$ref": to}));
        }
        (discriminator["propertyName"].as_str().expect(name), mapping.keys().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(telling("Action").0, "kind");
    assert!(telling("Action").1.contains(&"tap"));
    assert_eq!(
        telling("Condition"),
        (
            "kind",
            vec![
                "selector",
                "selector_hidden",
                "url_matches",
                "text",
                "function",
                "response",
                "load_state",
                "time",
                "page",
                "download"
            ]
        )
    );
    assert_eq!(telling("DeviceExchange"), ("status", vec!["pending", "bound", "expired"]));
    assert_eq!(telling("WebhookEvent").0, "type");
}

/// Generators create a type without members for an object that declares none.
#[test]
fn free_form_objects_are_declared_open() {
    let contract = Contract::ours();
    let metadata = &contract.schemas()["Session"]["properties"]["metadata"];
    let reference = json!({"$ref": "#/components/schemas/SessionMetadata"});
    assert_eq!(metadata["oneOf"], json!([reference, {"type": "null"}]));
    let metadata = &contract.schemas()["SessionMetadata"];
    assert_eq!((&metadata["type"], &metadata["additionalProperties"]), (&json!("object"), &json!(true)));
    let objects = contract.schemas().values().flat_map(parts).chain(unnamed_schemas(&contract));
    for object in objects.filter(|part| part["type"] == "object" || part["type"] == json!(["object", "null"])) {
        let said = object.get("properties").or_else(|| object.get("additionalProperties"));
        assert!(said.is_some(), "{object}");
    }
}

#[test]
fn team_slug_is_nullable_text() {
    let contract = Contract::ours();
    let slug = &contract.schemas()["Team"]["properties"]["slug"];
    assert_eq!(slug["type"], json!(["string", "null"]));
}

/// A request without a body counts as one with an empty object.
#[test]
fn bodies_that_need_nothing_may_be_absent() {
    let contract = Contract::ours();
    let mut optional = BTreeSet::new();
    for (name, operation) in &contract.operations {
        let Some(body) = operation.get("requestBody") else { continue };
        let contents = body["content"].as_object().expect("contents").values();
        let needs = |content: &Value| {
            let schema = contract.resolved(&content["schema"]);
            schema.get("required").is_some() || schema.get("minProperties").is_some()
        };
        let required = contents.into_iter().all(needs);
        assert_eq!(body["required"], required, "{name}");
        if !required {
            optional.insert(operation["operationId"].as_str().expect("an id"));
        }
    }
    insta::assert_json_snapshot!("optional_bodies", optional);
}

/// Contract: events.
#[test]
fn every_type_of_event_is_typed() {
    let contract = Contract::ours();
    let sent = contract.document["webhooks"].as_object().expect("events");
    assert_eq!(sent.keys().collect::<Vec<_>>(), EventType::NAMES);
    let any = &contract.schemas()["WebhookEvent"];
    for (event, item) in sent {
        let envelope = &item["post"]["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(&any["discriminator"]["mapping"][event], &envelope["$ref"]);
        let envelope = contract.resolved(envelope);
        assert_eq!(envelope["required"], json!(["id", "type", "created_at", "data"]), "{event}");
        assert_eq!(envelope["properties"]["type"]["enum"], json!([event]));
        assert!(envelope["example"]["data"].is_object(), "{event} has no example");
        let data = contract.resolved(&envelope["properties"]["data"]);
        assert!(data["properties"].as_object().is_some_and(|members| members.len() > 1), "{event} has no data");
    }
}

#[test]
fn pages_and_operator_routes_are_not_in_the_document() {
    let contract = Contract::ours();
    for (name, operation) in &contract.operations {
        let contents = operation["responses"]["200"]["content"].as_object().into_iter().flat_map(Map::keys);
        assert!(!contents.into_iter().any(|media_type| media_type.starts_with("text/html")), "{name} is a page");
    }
    let printed = contract.document.to_string();
    for internal in ["cumulative_rig_validation", "test_domain_probe"] {
        assert!(!printed.contains(internal), "{internal}");
    }
    assert!(printed.contains("production_customer"));
}

/// Clients would check for both.
#[test]
fn no_member_of_an_answer_is_optional_in_two_ways() {
    let contract = Contract::ours();
    let mut answered = BTreeSet::new();
    for (_, operation) in &contract.operations {
        for answer in operation["responses"].as_object().expect("answers").values() {
            note_schemas(&contract, contract.resolved(answer), &mut answered);
        }
    }
    assert!(answered.len() > 20, "the answers' schemas were not found: {answered:?}");
    for name in answered {
        for part in parts(&contract.schemas()[&name]) {
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

/// Directly and indirectly.
fn note_schemas(contract: &Contract, value: &Value, names: &mut BTreeSet<String>) {
    for part in parts(value) {
        let name = part["$ref"].as_str().and_then(|to| to.strip_prefix("#/components/schemas/"));
        if let Some(name) = name
            && names.insert(name.to_owned())
        {
            note_schemas(contract, &contract.schemas()[name], names);
        }
    }
}

/// The contract would contain only one of them, and utoipa does not report it.
#[test]
fn no_two_schemas_have_one_name() {
    // The schemas of this crate, and the results of operations.
    let folders =
        ["src", "../domain/src", "../types/src"].map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let mut names = BTreeSet::new();
    for (name, file) in folders.iter().flat_map(|folder| declared_schemas(folder)) {
        assert!(names.insert(name.clone()), "another schema is called {name}, too: {}", file.display());
    }
    // If the search missed a declaration, it would also miss a duplicate of it.
    let (_, described, _) = router::routes().split();
    let described = serde_json::to_value(described).expect("JSON");
    for name in described["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(names.contains(name), "{name} is declared in a way that this test does not know");
    }
}

/// From `as` or the type itself, and of lists.
fn declared_schemas(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("our sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(declared_schemas(&path));
            continue;
        }
        let source = fs::read_to_string(&path).expect("UTF-8");
        let lists = source.split("const LIST: &'static str = \"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(lists.map(|name| (name.to_owned(), path.clone())));
        for declaration in source.split("\n#[derive(").skip(1) {
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

/// A customer of the generated SDKs finds each operation once.
#[test]
fn every_operation_for_customers_has_a_name_in_sdks() {
    let contract = Contract::ours();
    let mut names = BTreeMap::new();
    let is_snake_case = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !name.is_empty();
    for (name, operation) in &contract.operations {
        let id = operation["operationId"].as_str().expect("an id");
        let is_internal = operation["tags"][0] == "Staff" || ["takeCardEvent", "takeCryptoNotice"].contains(&id);
        let Some(sdk) = operation.get("x-sdk") else {
            assert!(is_internal, "{name}: add {id} to the table in document/sdk.rs");
            continue;
        };
        assert!(!is_internal, "{name} is not for customers");
        let (resource, method) = (sdk["resource"].as_str().expect(name), sdk["method"].as_str().expect(name));
        assert!(resource.split('.').all(is_snake_case) && is_snake_case(method), "{name}: {resource}.{method}");
        let other = names.insert((resource.to_owned(), method.to_owned()), name);
        assert!(other.is_none(), "{name} and {other:?} are {resource}.{method}");
        // A resource has nested resources as attributes, beside its methods.
        let nested = format!("{resource}.{method}");
        assert!(sdk::METHODS.iter().all(|(_, resource, _)| *resource != nested), "{nested} is a resource and a method");
    }
    let ids: BTreeSet<_> =
        contract.operations.iter().filter_map(|(_, operation)| operation["operationId"].as_str()).collect();
    for (id, ..) in sdk::METHODS {
        assert!(ids.contains(id), "no operation {id}");
    }
}

#[test]
fn customers_document_has_no_internal_parts() {
    let whole = openapi();
    let document = for_customers(whole.clone());
    let paths = document["paths"].as_object().expect("paths");
    for path in ["/v1/sessions", "/v1/webhooks/{id}", "/openapi.json"] {
        assert_eq!(document["paths"][path], whole["paths"][path], "{path}");
    }
    let internal = ["/v1/admin/", "/v1/mac-nodes/", "/v1/billing/card-webhook", "/v1/billing/crypto-webhook"];
    for path in paths.keys() {
        assert!(!internal.iter().any(|prefix| path.starts_with(prefix)), "{path}");
    }
    assert!(document["components"]["schemas"].get("Session").is_some());
    assert!(document["components"]["schemas"].get("CustomerSession").is_none());
    assert!(document["components"]["securitySchemes"].get("staff").is_none());
    assert!(document["tags"].as_array().expect("tags").iter().all(|tag| tag["name"] != "Staff"));
    for part in parts(&document) {
        if let Some(to) = part["$ref"].as_str() {
            assert!(document.pointer(to.trim_start_matches('#')).is_some(), "{to} leads nowhere");
        }
    }
}

#[test]
fn problems_have_distinct_codes() {
    let contract = Contract::ours();
    let base = &contract.schemas()["Problem"];
    assert!(base["required"].as_array().expect("names").contains(&json!("code")));
    let codes = contract.schemas()["ProblemCode"]["x-extensible-enum"].as_array().expect("codes");
    for (name, answer) in contract.document["components"]["responses"].as_object().expect("answers") {
        let schema = &answer["content"][MEDIA_TYPE]["schema"];
        let variants = schema["oneOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
        for variant in &variants {
            let own = &contract.resolved(variant)["allOf"][1]["properties"];
            let code = &own["code"]["enum"][0];
            assert!(codes.contains(code) && own["status"]["enum"][0].is_number(), "{name}: {own}");
            if variants.len() > 1 {
                let mapping = &schema["discriminator"]["mapping"];
                assert_eq!(mapping[code.as_str().expect("a code")], variant["$ref"], "{name}");
                assert_eq!(mapping.as_object().expect("codes").len(), variants.len(), "{name}");
            }
        }
    }
}

/// Absent is sufficient: generated types would have two ways to leave out a member.
#[test]
fn optional_members_of_requests_are_null_only_where_null_means_something() {
    let contract = Contract::ours();
    let create = &contract.schemas()["SessionCreate"]["properties"];
    assert_eq!(create["label"]["type"], "string");
    assert_eq!(create["orientation"]["$ref"], "#/components/schemas/Orientation");
    let save = &contract.schemas()["ProxySave"]["properties"];
    assert_eq!((&save["password"]["type"], &save["host"]["type"]), (&json!(["string", "null"]), &json!("string")));
    let update = &contract.schemas()["UpdateWebhook"]["properties"];
    assert_eq!(update["description"]["type"], json!(["string", "null"]));
}

#[test]
fn pages_name_their_members() {
    let contract = Contract::ours();
    let mut pages = 0;
    for (name, operation) in &contract.operations {
        let Some(pagination) = operation.get("x-pagination") else { continue };
        let answer = contract.response(operation, "200").expect(name);
        let page = contract.resolved(&answer["content"]["application/json"]["schema"]);
        for member in ["items", "next_cursor", "has_more"] {
            let member = pagination[member].as_str().expect(name);
            assert!(page["required"].as_array().expect(name).contains(&json!(member)), "{name}: {member}");
        }
        pages += 1;
    }
    assert!(pages > 15, "{pages}");
    let live = contract.operations.iter().filter(|(_, operation)| operation.get("x-websocket").is_some()).count();
    assert!(live >= 1);
}

#[test]
fn steps_of_a_plan_are_tagged_by_kind() {
    let contract = Contract::ours();
    let intent = &contract.schemas()["AgentIntent"];
    assert_eq!(intent["discriminator"]["propertyName"], "kind");
    let mapping = intent["discriminator"]["mapping"].as_object().expect("kinds");
    assert_eq!(mapping.len(), kitfleet_domain::agents::steps::KINDS.len());
    let tap = &contract.schemas()["TapIntent"]["allOf"][1];
    assert!(tap["required"].as_array().expect("names").contains(&json!("target")));
}
