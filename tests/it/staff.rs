//! Staff operations over HTTP (contract: staff).

mod accounts;
mod board;
mod requeueing;
mod samples;
mod sessions;
mod workers;

use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use crate::authorization::requirements::{for_staff, protected};
use crate::metrics::{TOKEN, value};
use crate::oauth;
use crate::support::events;
use crate::support::sink::Sink;
use crate::support::{Answer, App, Client, at_once, eventually, unknown_id};
use crate::webhooks::{create, id_of};

/// Contract: staff 1, 2. It is not stored, and is 401 on customers' routes.
#[tokio::test]
async fn staff_credential_is_shown_once_and_revocable() {
    let app = App::simulated().start().await;
    let minted = app.run(&["key", "mint", "--staff", "--name", "Grace", "--json"]).await.code(0).json();
    let (id, key) = (minted["id"].as_str().expect("an id"), minted["key"].as_str().expect("a key"));
    assert!(id.starts_with("stf_") && key.starts_with("svc_staff_"), "{minted}");
    let stored = app.count("select count(*) from staff_credentials s where s::text like '%' || 'svc_staff_' || '%'");
    assert_eq!(stored.await, 1, "only the prefix is stored");
    let listed = app.run(&["key", "list", "--staff", "--json"]).await.code(0);
    assert!(!listed.stdout.contains(key), "{listed:?}");
    let listed = listed.json();
    assert_eq!(
        (&listed[0]["id"], &listed[0]["name"], &listed[0]["revoked_at"]),
        (&json!(id), &json!("Grace"), &Value::Null)
    );

    let staff = Client::new(&app.base_url, Some(key));
    for route in protected() {
        staff.call(&route).await.problem(401, "unauthorized");
    }
    staff.get("/v1/admin/accounts").await.expect(200);
    let listed = app.run(&["key", "list", "--staff", "--json"]).await.code(0).json();
    assert!(listed[0]["last_used_at"].is_string(), "{listed}");

    app.run(&["key", "revoke", id]).await.code(0);
    for route in for_staff() {
        staff.call(&route).await.problem(401, "unauthorized");
    }
    app.run(&["key", "revoke", id]).await.code(0);
    app.run(&["key", "revoke", &unknown_id("stf")]).await.code(1);
    for wrong in [
        &["key", "mint", "--staff", &unknown_id("acc"), "--name", "n"][..],
        &["key", "mint", "--staff", "--name", "n", "--scopes", "read"],
        &["key", "mint", "--name", "n", "--scopes", "read"],
        &["key", "revoke", &unknown_id("acc")],
    ] {
        app.run(wrong).await.code(2);
    }
    app.run(&["key", "mint", "--staff", "--name", " "]).await.code(1);
    app.stop().await;
}

/// Contract: staff 1; api-keys 6; events. The audit row and the event are those of a revocation by the customer.
#[tokio::test]
async fn operator_can_revoke_a_customers_key() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let listed = app.run(&["key", "list", &account.to_string(), "--json"]).await.code(0).json();
    let key = listed[0]["id"].as_str().expect("an id");
    app.run(&["key", "revoke", key]).await.code(0);
    client.get("/v1/account/me").await.problem(401, "unauthorized");
    let revoked = app.audited(account, "api_key.revoked").await;
    assert_eq!((revoked.len(), revoked[0].actor_type.as_str()), (1, "system"));
    assert_eq!(app.count("select count(*) from events where type = 'api_key.revoked'").await, 1);
    app.run(&["key", "revoke", key]).await.code(0);
    assert_eq!(app.audited(account, "api_key.revoked").await.len(), 1);
    app.stop().await;
}

/// Contract: staff 3. They are 401 without a valid credential.
#[tokio::test]
async fn staff_routes_are_404_for_customers() {
    let app = App::simulated().with_second_factors().start().await;
    let (account, owner) = app.customer(Tier::Enterprise).await;
    let person = app.device_of(account).await;
    let token = oauth::token(&app, &oauth::create_client(&person, &["account_owner"]).await).await;
    let admin = app.client_of(account, &["admin"]).await;
    let (free, suspended) =
        (app.client_with(Tier::Free, &["account_owner"]).await, app.customer(Tier::Enterprise).await);
    app.run(&["account", "suspend", &suspended.0.to_string()]).await.code(0);
    let staff = app.staff().await;
    let mut key = staff.key.clone().expect("a key");
    key.pop();
    let mistyped = Client::new(&app.base_url, Some(&key));
    let routes = for_staff();
    assert!(routes.len() > 12, "{routes:?}");
    for route in &routes {
        for unauthenticated in [&app.stranger(), &mistyped] {
            unauthenticated.call(route).await.problem(401, "unauthorized");
        }
        for customer in [&owner, &person, &token, &admin, &free, &suspended.1] {
            let absent = customer.call(route).await.problem(404, "not-found");
            assert_eq!(absent.body["detail"], "no such route", "{route:?}");
        }
        let answer = staff.call(route).await;
        assert!(matches!(answer.status.as_u16(), 200 | 400 | 404), "{route:?}: {}", answer.body);
        assert_ne!(answer.body["detail"], "no such route", "{route:?}");
    }
    app.stop().await;
}

impl App {
    async fn audit_count(&self, prefix: &str) -> u64 {
        let counted = value(self, &format!("service_admin_audit_emit_total{{prefix=\"{prefix}\"}}")).await;
        format!("{counted}").parse().expect("a whole number")
    }

    pub async fn written_by_staff(&self, account: AccountId, action: &str) -> Vec<Value> {
        let mut rows = self.audited(account, action).await;
        rows.retain(|row| row.actor_type == "staff");
        rows.into_iter().map(|row| row.payload).collect()
    }
}

async fn act(staff: &Client, account: AccountId, action: &str, body: Value) -> Answer {
    staff.post(&format!("/v1/admin/accounts/{account}/{action}"), body).await
}

/// Returns the sorted statuses.
async fn act_at_once<const N: usize>(
    staff: [&Client; N],
    account: AccountId,
    action: &'static str,
    body: &Value,
) -> Vec<u16> {
    let asked = staff.map(|staff| {
        let (staff, body) = (staff.clone(), body.clone());
        async move { act(&staff, account, action, body).await.status.as_u16() }
    });
    let mut statuses = at_once(asked).await;
    statuses.sort_unstable();
    statuses
}

/// Contract: staff 5 to 7. The customer's log names staff as actor, without a person or address.
#[tokio::test]
async fn concurrent_suspensions_succeed_once() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let (staff, other) = (app.staff().await, app.staff().await);
    client.session().await;
    let because = |why: &str| json!({"reason": why});
    let statuses = act_at_once([&staff, &other, &staff, &other], account, "suspend", &because("abuse")).await;
    assert_eq!(statuses, [200, 409, 409, 409]);
    client.get("/v1/sessions").await.problem(403, "forbidden");
    let shown = staff.get(&format!("/v1/admin/accounts/{account}")).await.expect(200);
    assert_eq!(shown.body["status"], "suspended");
    let rows = app.audited(account, "admin.support_note").await;
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row.payload, json!({"operation": "account.suspended", "reason": "abuse", "sessions_ended": 1}));
    assert_eq!((row.actor_type.as_str(), &row.target_resource_id), ("staff", &Some(account.to_string())));
    assert_eq!((&row.ip_address, &row.user_agent), (&None, &None));
    assert_eq!(app.count("select count(*) from audit_log where actor_type = 'staff' and (actor_key_id is not null or actor_account_id is not null)").await, 0);
    assert_eq!(app.count("select count(*) from staff_log where operation = 'account.suspended'").await, 1);
    assert!(
        sqlx::query("delete from staff_log").execute(&app.database.pool).await.is_err(),
        "the staff log is append-only"
    );

    act(&staff, account, "reactivate", because("settled")).await.expect(200);
    act(&other, account, "reactivate", because("settled")).await.problem(409, "conflict");
    client.get("/v1/sessions").await.expect(200);
    assert_eq!(app.written_by_staff(account, "admin.support_note").await.len(), 2);
    app.stop().await;
}

/// Contract: staff 6 to 10. An invalid request writes nothing.
#[tokio::test]
async fn staff_change_tiers_and_record_notes_and_refunds() {
    let app = App::simulated().set("metrics.scrape_token", TOKEN).start().await;
    let account = app.account(Tier::Free).await;
    let staff = app.staff().await;
    let refund = json!({"amount_cents": 1900, "currency": "USD", "reference": "re_1", "reason": "charged twice"});
    let without = |body: &Value, name: &str| {
        let mut body = body.clone();
        body.as_object_mut().expect("an object").remove(name);
        body
    };
    for (action, body) in [
        ("suspend", json!({"reason": "r"})),
        ("reactivate", json!({"reason": "r"})),
        ("tier", json!({"tier": "api_builder", "reason": "r"})),
        ("notes", json!({"note": "n", "reason": "r"})),
        ("refunds", refund.clone()),
    ] {
        for name in body.as_object().expect("an object").keys() {
            act(&staff, account, action, without(&body, name)).await.invalid(name);
        }
        for reason in [json!(""), json!("  "), json!("x".repeat(501)), json!(7)] {
            let mut body = body.clone();
            body["reason"] = reason;
            act(&staff, account, action, body).await.invalid("reason");
        }
        let path = |id: &str| format!("/v1/admin/accounts/{id}/{action}");
        for unknown in [unknown_id("acc"), unknown_id("ses"), "x".to_owned()] {
            staff.post(&path(&unknown), body.clone()).await.problem(404, "not-found");
        }
    }
    for (name, wrong) in [
        ("amount_cents", json!(0)),
        ("amount_cents", json!(-1900)),
        ("amount_cents", json!(19.5)),
        ("currency", json!("us")),
        ("currency", json!("u$d")),
        ("reference", json!("")),
        ("reference", json!("x".repeat(201))),
    ] {
        let mut body = refund.clone();
        body[name] = wrong;
        act(&staff, account, "refunds", body).await.invalid(name);
    }
    act(&staff, account, "notes", json!({"note": "x".repeat(5_001), "reason": "r"})).await.invalid("note");
    act(&staff, account, "tier", json!({"tier": "gold", "reason": "r"})).await.invalid("tier");
    assert_eq!(app.count("select count(*) from staff_log").await, 0);

    let reason = "x".repeat(500);
    act(&staff, account, "refunds", refund).await.expect(201);
    let row = json!({"amount_cents": 1900, "currency": "usd", "reference": "re_1", "reason": "charged twice"});
    assert_eq!(app.written_by_staff(account, "admin.refund_recorded").await, [row]);
    act(&staff, account, "notes", json!({"note": "Call first.", "reason": reason})).await.expect(201);
    let tier = json!({"tier": "api_builder", "reason": "a trial"});
    assert_eq!(act_at_once([&staff, &staff], account, "tier", &tier).await, [200, 409]);
    let rows = [
        json!({"note": "Call first.", "reason": reason}),
        json!({"operation": "account.tier_changed", "from": "free", "to": "api_builder", "reason": "a trial"}),
    ];
    assert_eq!(app.written_by_staff(account, "admin.support_note").await, rows);
    let changed = app.audited(account, "subscription.tier_changed").await;
    assert_eq!((changed.len(), changed[0].actor_type.as_str()), (1, "system"));
    assert_eq!(app.audit_count("admin").await, 3);
    let found = staff.get("/v1/admin/accounts?tier=api_builder&status=active").await.expect(200);
    assert_eq!(found.body["data"].as_array().map(Vec::len), Some(1), "{}", found.body);
    assert_eq!(found.body["data"][0]["id"], json!(account));
    let email = found.body["data"][0]["email"].as_str().expect("an address").to_uppercase();
    let found = staff.get(&format!("/v1/admin/accounts?email={email}")).await.expect(200);
    assert_eq!(found.body["data"][0]["id"], json!(account), "the search ignores case");
    for wrong in ["tier=gold", "status=gone", "limit=0", "limit=101", "email=x", "cursor=x"] {
        staff.get(&format!("/v1/admin/accounts?{wrong}")).await.problem(400, "validation-failed");
    }
    app.stop().await;
}

impl App {
    pub async fn dead_letters(&self, endpoint: &str, count: i32, hours: i32) {
        // The IDs are of today, because purges take the age of a row from its ID.
        sqlx::query(
            "with event as (
                 insert into events (id, account_id, type, data)
                 select uuid_v7(), account_id, 'session.failed', $4 from webhook_endpoints
                 where 'whk_' || id = $1 and $2 > 0 returning id, account_id
             ), dead as (
                 insert into webhook_deliveries
                     (id, account_id, endpoint_id, event_id, event_type, status, attempts, next_attempt_at, due, created_at)
                 select uuid_v7(), e.account_id, w.id, e.id, 'session.failed', 'dlq', 6, null, false,
                        now() - make_interval(hours => $3)
                 from event e join webhook_endpoints w on 'whk_' || w.id = $1, generate_series(1, $2) returning 1
             )
             update webhook_endpoints set dlq = dlq + $2 where 'whk_' || id = $1",
        )
        .bind(endpoint)
        .bind(count)
        .bind(hours)
        .bind(events::failed())
        .execute(&self.database.pool)
        .await
        .expect("dead letters");
    }

    pub async fn count_of_status(&self, status: &str) -> i64 {
        sqlx::query_scalar("select count(*) from webhook_deliveries where status = $1")
            .bind(status)
            .fetch_one(&self.database.pool)
            .await
            .expect("a count")
    }
}

/// Contract: staff 15; lists 1 to 3.
#[tokio::test]
async fn staff_lists_are_paginated() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let staff = app.staff().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    for _ in 0..3 {
        app.account(Tier::Free).await;
        client.session().await;
    }
    let endpoint = id_of(&create(&client, &sink.url("/status/200"), &["session.failed"]).await);
    app.dead_letters(&endpoint, 5, 1).await;
    for list in [
        "accounts?status=active",
        "sessions?",
        "sessions?all=true",
        "webhook-deliveries?status=dlq",
        "webhook-deliveries?",
        "jobs?",
        "jobs?queue=webhooks",
    ] {
        let page = async |rest: &str| staff.get(&format!("/v1/admin/{list}{rest}")).await.expect(200).body;
        let ids = |page: &Value| -> Vec<Value> {
            page["data"].as_array().expect("a list").iter().map(|entry| entry["id"].clone()).collect()
        };
        let whole = page("&limit=100").await;
        assert!(ids(&whole).len() > 2 && whole["has_more"] == false && whole["next_cursor"].is_null(), "{whole}");
        let (mut collected, mut rest) = (Vec::new(), "&limit=2".to_owned());
        loop {
            let part = page(&rest).await;
            collected.extend(ids(&part));
            assert_eq!(part["has_more"], part["next_cursor"].is_string());
            let Some(next) = part["next_cursor"].as_str() else { break };
            rest = format!("&limit=2&cursor={next}");
        }
        // Scheduled jobs may be added in between.
        collected.retain(|id| ids(&whole).contains(id));
        assert_eq!(collected, ids(&whole), "{list}");
        let elsewhere = format!("/v1/admin/workers?cursor={}", rest.rsplit('=').next().expect("a cursor"));
        staff.get(&elsewhere).await.problem(400, "validation-failed");
    }
    assert_eq!(staff.get("/v1/admin/workers").await.expect(200).body["has_more"], false);
    app.stop().await;
}

/// Contract: staff 11, 12. Named ones are requeued all or none. Those of an endpoint or account are requeued in batches, with a
/// resource for the progress.
#[tokio::test]
async fn dead_letters_can_be_requeued_by_staff() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let staff = app.staff().await;
    let endpoint = id_of(&create(&client, &sink.url("/status/200"), &["session.failed"]).await);
    app.dead_letters(&endpoint, 300, 1).await;
    let requeue = async |body: Value| staff.post("/v1/admin/webhook-deliveries/requeue", body).await;

    let listed =
        staff.get(&format!("/v1/admin/webhook-deliveries?status=dlq&account_id={account}&limit=3")).await.expect(200);
    let ids: Vec<_> = listed.body["data"].as_array().expect("a list").iter().map(|row| row["id"].clone()).collect();
    assert_eq!(ids.len(), 3);
    requeue(json!({"delivery_ids": [ids[0], unknown_id("wdl")], "reason": "r"})).await.problem(404, "not-found");
    assert_eq!(app.count_of_status("dlq").await, 300, "the request requeues all or none");
    requeue(json!({"delivery_ids": [ids[0]], "reason": "r"})).await.expect(200);
    requeue(json!({"delivery_ids": [ids[0], ids[1]], "reason": "r"})).await.problem(409, "conflict");
    app.dead_letters(&endpoint, 2, 48).await;
    for wrong in [
        json!({"reason": "r"}),
        json!({"endpoint_id": endpoint, "account_id": account, "reason": "r"}),
        json!({"delivery_ids": [], "reason": "r"}),
        json!({"delivery_ids": ids, "since": "2026-01-01T00:00:00Z", "reason": "r"}),
        json!({"endpoint_id": endpoint, "since": "yesterday", "reason": "r"}),
        json!({"endpoint_id": endpoint}),
    ] {
        requeue(wrong).await.problem(400, "validation-failed");
    }
    for unknown in [
        json!({"endpoint_id": unknown_id("whk"), "reason": "r"}),
        json!({"account_id": unknown_id("acc"), "reason": "r"}),
    ] {
        requeue(unknown).await.problem(404, "not-found");
    }

    let since: String = sqlx::query_scalar(
        "select to_char(now() at time zone 'UTC' - interval '1 day', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
    )
    .fetch_one(&app.database.pool)
    .await
    .expect("a time");
    let begun =
        requeue(json!({"endpoint_id": endpoint, "since": since, "reason": "their server is back"})).await.expect(202);
    assert_eq!((&begun.body["total"], &begun.body["done_at"]), (&json!(299), &Value::Null), "{}", begun.body);
    let progress = format!("/v1/admin/webhook-deliveries/requeues/{}", begun.body["id"].as_str().expect("an id"));
    // 40 a second.
    let done = eventually(Duration::from_mins(2), "all are requeued", async || {
        let now = staff.get(&progress).await.expect(200).body;
        now["done_at"].is_string().then_some(now)
    })
    .await;
    assert_eq!(done["requeued"], 299, "{done}");
    assert_eq!(app.count_of_status("dlq").await, 2, "the older dead letters stay");
    let rows = app.written_by_staff(account, "admin.support_note").await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!((&rows[1]["operation"], &rows[1]["total"]), (&json!("webhook_delivery.requeued"), &json!(299)));

    let begun = requeue(json!({"account_id": account, "reason": "the rest"})).await.expect(202);
    assert_eq!(begun.body["total"], 2);
    eventually(Duration::from_secs(30), "the rest is requeued", async || {
        (app.count_of_status("dlq").await == 0).then_some(())
    })
    .await;
    client.delete(&format!("/v1/webhooks/{endpoint}")).await.expect(204);
    requeue(json!({"endpoint_id": endpoint, "reason": "r"})).await.problem(409, "conflict");
    app.stop().await;
}

/// Contract: staff 6, 13, 14. The rules are those of the commands.
#[tokio::test]
async fn staff_manage_jobs_and_workers() {
    let app = App::simulated().set("metrics.scrape_token", TOKEN).start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let staff = app.staff().await;
    let session = client.session().await;
    let operation: String = sqlx::query_scalar("select 'int_' || id from intents limit 1")
        .fetch_one(&app.database.pool)
        .await
        .expect("an operation");
    let because = json!({"reason": "stuck"});
    let job = |id: &str, action: &str| format!("/v1/admin/jobs/{id}/{action}");
    staff.post(&job(&operation, "retry"), because.clone()).await.problem(409, "conflict");
    staff.post(&job(&operation, "cancel"), because.clone()).await.problem(409, "conflict");
    for unknown in [unknown_id("int"), unknown_id("wdl"), "x".to_owned()] {
        staff.post(&job(&unknown, "retry"), because.clone()).await.problem(404, "not-found");
        staff.post(&job(&unknown, "cancel"), because.clone()).await.problem(404, "not-found");
    }
    let pending = staff.get("/v1/admin/jobs?queue=maintenance&status=pending&limit=100").await.expect(200);
    let chains = pending.body["data"].as_array().expect("a list").clone();
    let yearly = chains.iter().max_by_key(|job| job["run_at"].as_str().map(str::to_owned)).expect("a tick");
    let id = yearly["id"].as_str().expect("an id");
    assert_eq!(staff.post(&job(id, "cancel"), because.clone()).await.expect(200).body["status"], "killed");
    staff.post(&job(id, "cancel"), because.clone()).await.problem(409, "conflict");
    staff.post(&job(id, "retry"), because.clone()).await.problem(409, "conflict");
    let stats = staff.get("/v1/admin/jobs/stats").await.expect(200);
    assert!(stats.body["data"].as_array().expect("a list").iter().any(|queue| queue["queue"] == "maintenance"));
    staff.get("/v1/admin/jobs?status=lost").await.problem(400, "validation-failed");

    let workers = staff.get("/v1/admin/workers").await.expect(200);
    let worker = workers.body["data"][0]["id"].as_str().expect("a worker").to_owned();
    assert_eq!(workers.body["data"][0]["live_sessions"], 1);
    let drain = format!("/v1/admin/workers/{worker}/drain");
    staff.post(&drain, json!({})).await.invalid("reason");
    assert_eq!(staff.post(&drain, because.clone()).await.expect(200).body["status"], "draining");
    staff.post(&drain, because.clone()).await.problem(409, "conflict");
    staff.post(&format!("/v1/admin/workers/{}/drain", unknown_id("wrk")), because).await.problem(404, "not-found");
    assert_eq!(client.status(&session).await, "ready", "the live session continues");
    assert_eq!(
        app.count("select count(*) from staff_log where operation in ('job.cancelled', 'worker.drained')").await,
        2
    );
    assert_eq!((app.audit_count("job").await, app.audit_count("worker").await), (1, 1));
    app.stop().await;
}
