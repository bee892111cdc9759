//! Contract: errors 4.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kitfleet_api::permissions::{Access, ROUTES};
use kitfleet_types::tiers::Tier;
use serde_json::{Map, Value, json};

use crate::support::routes::sample;
use crate::support::{Answer, App};

fn fields(answer: Answer) -> BTreeSet<String> {
    let answer = answer.problem(400, "validation-failed");
    let errors = answer.body["errors"].as_array().expect("errors");
    let fields: BTreeSet<_> = errors.iter().map(|error| error["field"].as_str().expect("text").to_owned()).collect();
    assert_eq!(fields.len(), errors.len(), "a field is reported twice: {}", answer.body);
    fields
}

fn set(fields: &[&str]) -> BTreeSet<String> {
    fields.iter().map(|field| (*field).to_owned()).collect()
}

fn body_schema<'a>(contract: &'a Value, method: &str, path: &str) -> Option<&'a Value> {
    let schema = &contract["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"];
    match schema["$ref"].as_str() {
        Some(named) => contract.pointer(named.trim_start_matches('#')),
        None => schema.is_object().then_some(schema),
    }
}

/// Contract: errors 4. These are the missing members of an empty body, and the invalid members of a body of nonsense.
#[tokio::test]
async fn every_route_reports_all_errors_of_its_body() {
    let app = App::simulated().with_second_factors().set("sessions.direct_driver", "real").start().await;
    let contract = app.stranger().get("/openapi.json").await.expect(200).body;
    let person = app.person(Tier::Enterprise).await;
    let (staff, session) = (app.staff().await, person.client.session().await);
    let agent = person.client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let (mut missing, mut wrong) = (0, 0);
    for route in ROUTES.iter() {
        let method = route.method.as_str().to_lowercase();
        let Some(schema) = body_schema(&contract, &method, &route.path) else { continue };
        // Requests of payment providers are rejected by their signature first.
        if route.path.ends_with("-webhook") {
            continue;
        }
        let client = if matches!(route.access, Access::Staff) { &staff } else { &person.client };
        let path = sample(&route.method, &route.path).path;
        let path = with_ids(&path, &[&session, agent["id"].as_str().expect("an id")]);
        let send = async |body: &Value| client.send(client.request(route.method.clone(), &path).json(body)).await;
        let required: BTreeSet<_> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let answer = send(&json!({})).await;
        // Some routes fail for another reason first.
        if required.len() > 1 && answer.status == 400 {
            let reported = fields(answer);
            assert!(reported.is_superset(&required), "{method} {path}: {reported:?} of {required:?}");
            missing += 1;
        }
        let properties = schema["properties"].as_object().into_iter().flatten();
        // A list of any values is not wrong.
        let names: Vec<_> =
            properties.filter(|(_, member)| member["items"] != json!({})).map(|(name, _)| name).collect();
        let nonsense: Map<_, _> = names.iter().map(|name| ((*name).clone(), json!([[]]))).collect();
        let answer = send(&nonsense.into()).await;
        if names.len() > 1 && answer.status == 400 {
            let reported = fields(answer);
            for name in &names {
                let is_reported = reported.iter().any(|field| field == *name || field.starts_with(&format!("{name}.")));
                assert!(is_reported, "{method} {path}: {name} is not in {reported:?}");
            }
            wrong += 1;
        }
    }
    assert!(missing >= 8 && wrong >= 15, "only {missing} and {wrong} routes were checked");
    app.stop().await;
}

fn with_ids(path: &str, ids: &[&str]) -> String {
    let segments = path.split('/').map(|segment| {
        let kind = |id: &str| id.split_once('_').map(|(kind, _)| kind.to_owned());
        ids.iter().copied().find(|id| kind(id) == kind(segment)).unwrap_or(segment)
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Contract: errors 4. Missing members and wrong types are reported with violated rules.
#[tokio::test]
async fn nested_and_rule_errors_are_reported_together() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let operate = async |operation: &str, body: Value| fields(client.operate(&session, operation, body).await);

    let body = json!({"action": {"kind": "type"}, "timeout_ms": 1, "on_timeout": "hope"});
    assert_eq!(operate("interact", body).await, set(&["action.text", "action.selector", "timeout_ms", "on_timeout"]));
    let body = json!({"action": {"kind": "type", "text": 5, "target": {"role": 1}}, "timeout_ms": "5"});
    assert_eq!(operate("interact", body).await, set(&["action.text", "action.target.role", "timeout_ms"]));
    assert_eq!(operate("interact", json!({"timeout_ms": 99})).await, set(&["action", "timeout_ms"]));
    let body = json!({"condition": {"kind": "time", "ms": 60_001}, "timeout_ms": 120_001});
    assert_eq!(operate("wait", body).await, set(&["condition.ms", "timeout_ms"]));
    let body = json!({"condition": {"kind": "url_matches"}, "timeout_ms": 0});
    assert_eq!(operate("wait", body).await, set(&["condition.pattern", "timeout_ms"]));
    assert_eq!(operate("navigate", json!({"url": "file:///", "timeout_ms": 1})).await, set(&["url", "timeout_ms"]));
    assert_eq!(
        operate("navigate", json!({"timeout_ms": 1, "wait_until": 5})).await,
        set(&["url", "timeout_ms", "wait_until"])
    );
    let body = json!({"extractions": [
        {}, {"name": "a", "selector": "a", "type": "shout"}, {"name": "x".repeat(121), "selector": "a", "type": "text"}, 5,
        {"name": "b", "type": "list", "extract": {"c": {}, "d": {"selector": 1, "type": "list"}}},
    ]});
    let expected = [
        "extractions.0.name",
        "extractions.0.type",
        "extractions.0.selector",
        "extractions.1.type",
        "extractions.2.name",
        "extractions.3",
        "extractions.4.selector",
        "extractions.4.extract.c.selector",
        "extractions.4.extract.c.type",
        "extractions.4.extract.d.selector",
        "extractions.4.extract.d.type",
    ];
    assert_eq!(operate("extract", body).await, set(&expected));

    let refused = async |path: &str, body: Value| fields(client.post(path, body).await);
    let body = json!({"proxy": null, "purpose": 1, "label": "x".repeat(121), "metadata": [], "wait_timeout_ms": 1,
                      "archetype": "none", "profile_id": 5, "detect_challenges": 0});
    let expected =
        ["proxy", "purpose", "label", "metadata", "wait_timeout_ms", "archetype", "profile_id", "detect_challenges"];
    assert_eq!(refused("/v1/sessions", body).await, set(&expected));
    let body = json!({"url": "ftp://example.com", "description": 5});
    assert_eq!(refused("/v1/webhooks", body).await, set(&["url", "events", "description"]));
    let body = json!({"name": "", "scopes": ["sing", "read", 5], "expires_at": "tomorrow"});
    assert_eq!(refused("/v1/api-keys", body).await, set(&["name", "scopes.0", "scopes.2", "expires_at"]));
    let body = json!({"mode": 1, "token_budget": 0, "label": "x".repeat(121), "archetype": "none"});
    assert_eq!(refused("/v1/agent-sessions", body).await, set(&["mode", "token_budget", "label", "archetype"]));
    let body = json!({"email": "nobody", "password": "short"});
    assert_eq!(refused("/v1/auth/signup", body).await, set(&["email", "password", "name"]));
    // Values that the database cannot store, in any member, together with missing members.
    let body = json!({"url": "a\0", "events": ["session.failed", "\0"]});
    assert_eq!(refused("/v1/webhooks", body).await, set(&["url", "events.1"]));
    let body =
        r#"{"label": "\u0000", "metadata": {"a": 18446744073709551616, "b": ["\u0000", "\u0000"]}, "purpose": 1}"#;
    let answer = client.post_raw("/v1/sessions", body).await;
    assert_eq!(fields(answer), set(&["label", "metadata.b.0", "metadata.b.1", "metadata", "purpose"]));
    app.stop().await;
}

/// Contract: errors 4.
#[tokio::test]
async fn all_invalid_query_parameters_are_reported() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    for (query, expected) in [
        ("/v1/sessions?status=asleep&limit=0", &["status", "limit"][..]),
        (
            "/v1/sessions?status=asleep&label=a&label=b&limit=x&cursor=a&cursor=b",
            &["status", "label", "limit", "cursor"],
        ),
        ("/v1/sessions?limit=0&cursor=x", &["limit", "cursor"]),
        ("/v1/agent-sessions?status=asleep&limit=101", &["status", "limit"]),
        ("/v1/profiles?deleted=perhaps&limit=0", &["deleted", "limit"]),
        ("/v1/account/audit-log?action=sing&limit=0", &["action", "limit"]),
    ] {
        assert_eq!(fields(client.get(query).await), set(expected), "{query}");
    }
    let staff = app.staff().await;
    let query = "/v1/admin/webhook-deliveries?status=x&endpoint_id=x&account_id=x&limit=0";
    assert_eq!(fields(staff.get(query).await), set(&["status", "endpoint_id", "account_id", "limit"]));
    app.stop().await;
}

/// Contract: errors 4; limits. The limit is 100 errors, and the time is linear in the body.
#[tokio::test]
async fn number_and_time_of_errors_are_bounded() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let many = |item: &str, bytes: usize| vec![item; bytes / (item.len() + 1)].join(",");
    let name = "x".repeat(400_000);
    for body in [
        format!(r#"{{"extractions": [{}]}}"#, many("{}", 900_000)),
        format!(r#"{{"extractions": [{}]}}"#, many("5", 900_000)),
        format!(r#"{{"extractions": [{{"extract": {{"{name}": {{}}}}}}, {}]}}"#, many("[]", 500_000)),
        format!(r#"{{"extractions": [{}]}}"#, many(r#"{"name":"\u0000"}"#, 900_000)),
        format!(r#"{{"extractions": [{{"{name}": [{}]}}]}}"#, many(r#""\u0000""#, 500_000)),
    ] {
        let started = Instant::now();
        let answer = client.post_raw(&format!("/v1/sessions/{session}/extract"), body).await;
        let answer = answer.problem(400, "validation-failed");
        let reported = answer.body["errors"].as_array().expect("errors").len();
        assert!((1..=100).contains(&reported), "{reported}");
        assert!(answer.body.to_string().len() < 200_000, "{} bytes", answer.body.to_string().len());
        // The limit allows for debug builds on a busy machine. A search quadratic in the body would take minutes.
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
    client.operate(&session, "wait", json!({"condition": {"kind": "time", "ms": 1}})).await.expect(200);
    app.stop().await;
}
