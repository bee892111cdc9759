//! Accounts for staff and operators: audit log, usage and limits; and incidents.

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::support::{Answer, App, Client, at_once, unknown_id};
use crate::teams::delete_me;

async fn change(staff: &Client, account: AccountId, body: Value) -> Answer {
    staff.patch(&format!("/v1/admin/accounts/{account}/limits"), body).await
}

async fn limits_of(client: &Client) -> Value {
    client.get("/v1/account/me").await.expect(200).body["limits"].clone()
}

/// Contract: staff 23; limits 11; audit-log 17. A change of tier does not affect it.
#[tokio::test]
async fn own_limit_overrides_the_limit_of_the_tier() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::SoloManual).await;
    let (staff, other) = (app.staff().await, app.staff().await);
    assert_eq!(limits_of(&client).await, json!({"concurrent_sessions": 1, "profiles": 10}));
    for (name, body) in [
        ("body", json!({"reason": "r"})),
        ("reason", json!({"concurrent_sessions": 3})),
        ("concurrent_sessions", json!({"concurrent_sessions": -1, "reason": "r"})),
        ("concurrent_sessions", json!({"concurrent_sessions": 10_001, "reason": "r"})),
        ("concurrent_sessions", json!({"concurrent_sessions": "3", "reason": "r"})),
        ("profiles", json!({"profiles": 1_000_001, "reason": "r"})),
    ] {
        change(&staff, account, body).await.invalid(name);
    }
    let three = json!({"concurrent_sessions": 3, "reason": "a load test"});
    let path = format!("/v1/admin/accounts/{}/limits", unknown_id("acc"));
    staff.patch(&path, three.clone()).await.problem(404, "not-found");
    change(&client, account, three.clone()).await.problem(404, "not-found");
    let gone = app.person(Tier::Free).await;
    delete_me(&gone).await.expect(204);
    change(&staff, gone.account, three.clone()).await.problem(409, "conflict");
    let asked = [&staff, &other, &staff].map(|staff| {
        let (staff, body) = (staff.clone(), three.clone());
        async move { change(&staff, account, body).await.status.as_u16() }
    });
    let mut statuses = at_once(asked).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409]);
    let shown = staff.get(&format!("/v1/admin/accounts/{account}")).await.expect(200).body;
    assert_eq!(shown["own_limits"], json!({"concurrent_sessions": 3, "profiles": null}));

    let creates = (0..8).map(|_| {
        let client = client.clone();
        async move { client.post("/v1/sessions", json!({})).await.status.as_u16() }
    });
    let mut statuses = at_once(creates).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 201, 429, 429, 429, 429, 429]);
    let refused = client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    assert_eq!((&refused.body["current_sessions"], &refused.body["limit"]), (&json!(3), &json!(3)));
    app.run(&["account", "set-tier", &account.to_string(), "enterprise"]).await.code(0);
    assert_eq!(limits_of(&client).await, json!({"concurrent_sessions": 3, "profiles": 1_000}));

    change(&staff, account, json!({"profiles": 0, "reason": "they only test"})).await.expect(200);
    let refused = client.post("/v1/profiles", json!({"name": "work"})).await.problem(403, "feature-unavailable");
    assert_eq!(refused.body["limit"], json!(0), "{}", refused.body);
    let back = json!({"concurrent_sessions": null, "profiles": null, "reason": "over"});
    let shown = change(&staff, account, back).await.expect(200).body;
    assert_eq!(shown["own_limits"], json!({"concurrent_sessions": null, "profiles": null}));
    client.session().await;
    client.profile().await;

    let rows = app.audited(account, "account.limits_changed").await;
    assert_eq!((rows.len(), rows[0].actor_type.as_str()), (3, "system"));
    let none = json!({"concurrent_sessions": null, "profiles": null});
    let first = json!({"from": none, "to": {"concurrent_sessions": 3, "profiles": null}});
    assert_eq!(rows[0].payload, first);
    let written = app.written_by_staff(account, "admin.support_note").await;
    let mut expected = first.clone();
    expected["operation"] = json!("account.limits_set");
    expected["reason"] = json!("a load test");
    assert_eq!((written.len(), &written[0]), (3, &expected));
    app.stop().await;
}

/// Contract: command-line 21, 22; limits 11.
#[tokio::test]
async fn operator_lists_accounts_and_changes_limits() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::SoloManual).await;
    let free = app.account(Tier::Free).await.to_string();
    let id = account.to_string();
    let limits = async |args: &[&str]| app.run(&[&["account", "limits", &id][..], args].concat()).await;
    let shown = limits(&["--json"]).await.code(0).json();
    let none = json!({"concurrent_sessions": null, "profiles": null});
    let of_tier = json!({"concurrent_sessions": 1, "profiles": 10});
    let expected = json!({"id": id, "tier": "solo_manual", "limits": of_tier, "own_limits": none});
    assert_eq!(shown, expected);
    let set = limits(&["--concurrent-sessions", "40", "--json"]).await.code(0).json();
    assert_eq!(set["limits"], json!({"concurrent_sessions": 40, "profiles": 10}));
    limits(&["--concurrent-sessions", "40"]).await.code(0);
    assert_eq!(limits_of(&client).await["concurrent_sessions"], 40);
    let text = limits(&["--profiles", "7"]).await.code(0).stdout;
    assert!(text.contains("40 (its own limit)") && text.contains("7 (its own limit)"), "{text}");
    assert_eq!(limits(&["--clear", "--json"]).await.code(0).json(), expected);
    assert_eq!(app.audited(account, "account.limits_changed").await.len(), 3, "one row for each change");
    for wrong in [&["--clear", "--profiles", "7"][..], &["--concurrent-sessions", "10001"], &["--profiles", "x"]] {
        limits(wrong).await.code(2);
    }
    app.run(&["account", "limits", &unknown_id("acc")]).await.code(1);
    app.run(&["account", "limits", &unknown_id("acc"), "--clear"]).await.code(1);

    let listed = app.run(&["account", "list", "--json"]).await.code(0).json();
    let ids: Vec<_> = listed.as_array().expect("a list").iter().map(|row| row["id"].clone()).collect();
    // The third account is the local owner's, the oldest.
    assert_eq!((ids.len(), &ids[..2]), (3, &[json!(free), json!(id)][..]), "newest first");
    let of_tier = app.run(&["account", "list", "--tier", "free", "--status", "active", "--json"]).await.code(0).json();
    assert_eq!((of_tier.as_array().map(Vec::len), &of_tier[0]["id"]), (Some(1), &json!(free)));
    let one = app.run(&["account", "list", "--limit", "1"]).await.code(0).stdout;
    assert!(one.contains(&free) && !one.contains(&id), "{one}");
    app.run(&["account", "list", "--status", "gone"]).await.code(2);
    app.stop().await;
}

/// Contract: staff 22; command-line 21. A single account is shown with any usage.
#[tokio::test]
async fn accounts_are_listed_by_usage() {
    let app = App::simulated().start().await;
    let staff = app.staff().await;
    let ((much, client), some, idle) =
        (app.customer(Tier::Enterprise).await, app.account(Tier::ApiStarter).await, app.account(Tier::Free).await);
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;
    app.count_usage(much, 2, "session_minute", 0, 50).await;
    app.count_usage(much, 40, "wait", 0, 1_000).await;
    app.count_usage(some, 1, "session_minute", 0, 7).await;
    app.count_usage(some, 0, "interact", 0, 3).await;
    let list = async |query: &str| staff.get(&format!("/v1/admin/usage{query}")).await.expect(200).body["data"].clone();
    let all = list("").await;
    let ids: Vec<_> = all.as_array().expect("a list").iter().map(|row| row["account_id"].clone()).collect();
    assert_eq!(ids, [json!(much), json!(some)], "{all}");
    assert_eq!((&all[0]["live_sessions"], &all[0]["tier"]), (&json!(1), &json!("enterprise")));
    assert_eq!(all[0]["totals"]["session_minute"], 51, "a minute of the live session has begun");
    assert_eq!((&all[0]["totals"]["navigate"], &all[0]["totals"]["wait"]), (&json!(1), &json!(0)));
    assert_eq!(all[1]["totals"]["interact"], 3);
    let today = list("?days=1&top=1").await;
    assert_eq!((today.as_array().map(Vec::len), &today[0]["account_id"]), (Some(1), &json!(much)));
    assert_eq!(today[0]["totals"]["session_minute"], 1);
    assert_eq!(list("?days=90").await[0]["totals"]["wait"], 1_000);
    for (name, wrong) in [("top", "0"), ("top", "101"), ("days", "0"), ("days", "91"), ("days", "x")] {
        staff.get(&format!("/v1/admin/usage?{name}={wrong}")).await.invalid(name);
    }

    assert_eq!(app.run(&["account", "usage", "--json"]).await.code(0).json(), list("").await);
    let one = app.run(&["account", "usage", &idle.to_string(), "--days", "7", "--json"]).await.code(0).json();
    assert_eq!((&one[0]["account_id"], &one[0]["totals"]["session_minute"]), (&json!(idle), &json!(0)));
    let table = app.run(&["account", "usage", "--top", "1"]).await.code(0).stdout;
    assert!(table.contains("SESSION MINUTE") && table.contains(&much.to_string()), "{table}");
    app.run(&["account", "usage", &unknown_id("acc")]).await.code(1);
    app.run(&["account", "usage", &idle.to_string(), "--top", "3"]).await.code(2);
    app.run(&["account", "usage", "--days", "0"]).await.code(2);
    app.stop().await;
}

/// Contract: staff 21, 24; audit-log 5, 7; lists 3.
#[tokio::test]
async fn staff_read_an_accounts_log_and_incidents() {
    let app = App::simulated().start().await;
    let ((account, client), other, staff) =
        (app.customer(Tier::Enterprise).await, app.account(Tier::Free).await, app.staff().await);
    let session = client.session().await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let log = format!("/v1/admin/accounts/{account}/log");
    let own = client.get("/v1/account/audit-log").await.expect(200).body;
    let read = staff.get(&log).await.expect(200).body;
    let rows =
        |page: &Value| page["data"].as_array().expect("rows").iter().map(|row| row["id"].clone()).collect::<Vec<_>>();
    assert_eq!(rows(&read), rows(&own));
    let created = staff.get(&format!("{log}?action=session.created")).await.expect(200).body;
    assert_eq!((rows(&created).len(), &created["data"][0]["target_resource_id"]), (1, &json!(session)));
    staff.get(&format!("{log}?action=nothing")).await.invalid("action");
    let first = staff.get(&format!("{log}?limit=1")).await.expect(200).body;
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    assert_eq!(rows(&staff.get(&format!("{log}?limit=1&cursor={cursor}")).await.expect(200).body), rows(&own)[1..2]);
    staff.get(&format!("/v1/admin/accounts/{other}/log?cursor={cursor}")).await.invalid("cursor");
    client.get(&format!("/v1/account/audit-log?cursor={cursor}")).await.invalid("cursor");
    staff.get(&format!("/v1/admin/accounts/{}/log", unknown_id("acc"))).await.problem(404, "not-found");

    let post = async |title: &str| {
        let body = json!({"title": title, "message": "m", "impact": "minor", "reason": "r"});
        staff.post("/v1/admin/incidents", body).await.expect(201).body["id"].clone()
    };
    let (old, new) = (post("old").await, post("new").await);
    let old_path = format!("/v1/admin/incidents/{}/resolve", old.as_str().expect("an id"));
    staff.post(&old_path, json!({"reason": "r"})).await.expect(200);
    let list = async |query: &str| staff.get(&format!("/v1/admin/incidents{query}")).await.expect(200).body;
    assert_eq!(rows(&list("").await), [new.clone(), old.clone()]);
    let resolved = list("?status=resolved").await;
    assert_eq!(rows(&resolved), [old]);
    assert_eq!(resolved["data"][0]["updates"].as_array().map(Vec::len), Some(2));
    let first = list("?limit=1").await;
    assert_eq!((rows(&first), &first["has_more"]), (vec![new], &json!(true)));
    staff.get("/v1/admin/incidents?status=over").await.invalid("status");
    app.stop().await;
}
