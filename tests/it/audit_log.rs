//! The audit log (contract: audit-log): reading and export. Each area's own tests check the rows that it writes.

use std::fs;
use std::time::Duration;

use csv::StringRecord;
use kitfleet_domain::areas;
use kitfleet_domain::audit::{self, Actor, Entry};
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use uuid::Uuid;

use crate::support::{Answer, App, Client, assert_timestamp, eventually, raw};

const LOG: &str = "/v1/account/audit-log";
const CSV: &str = "/v1/account/audit-log/export?format=csv";
const JSON: &str = "/v1/account/audit-log/export?format=json";

/// In the order of the answer.
const FIELDS: [&str; 11] = [
    "id",
    "account_id",
    "actor_type",
    "actor_account_id",
    "actor_key_id",
    "action",
    "target_resource_id",
    "payload",
    "ip_address",
    "user_agent",
    "timestamp",
];

struct Export {
    answer: Answer,
    text: String,
}

impl Export {
    fn records(&self) -> (Vec<String>, Vec<StringRecord>) {
        let mut reader = csv::Reader::from_reader(self.text.as_bytes());
        let header = reader.headers().expect("a header").iter().map(ToOwned::to_owned).collect();
        (header, reader.records().collect::<Result<_, _>>().expect("records"))
    }
}

impl Client {
    async fn for_account(&self, account: AccountId, path: &str) -> Answer {
        self.send(self.request(Method::GET, path).header("x-service-account", account.to_string())).await
    }

    async fn page(&self, path: &str) -> (Vec<Value>, Option<String>) {
        let page = self.get(path).await.expect(200).body;
        let names: Vec<_> = page.as_object().expect("an envelope").keys().collect();
        assert_eq!(names, ["data", "has_more", "next_cursor"], "contract: audit-log 7");
        assert_eq!(page["has_more"], page["next_cursor"].is_string());
        let cursor = page["next_cursor"].as_str().map(ToOwned::to_owned);
        (page["data"].as_array().expect("rows").clone(), cursor)
    }

    async fn export(&self, path: &str) -> Export {
        self.exported(self.request(Method::GET, path)).await
    }

    async fn export_for(&self, account: AccountId, path: &str) -> Export {
        self.exported(self.request(Method::GET, path).header("x-service-account", account.to_string())).await
    }

    async fn exported(&self, request: reqwest::RequestBuilder) -> Export {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.expect("a whole file");
        let body = serde_json::from_str(&text).unwrap_or_default();
        Export { answer: Answer { status, headers, body }.expect(200), text }
    }
}

struct NewRow<'a> {
    actor: Option<AccountId>,
    action: &'a str,
    payload: &'a str,
    user_agent: Option<&'a str>,
}

impl NewRow<'_> {
    fn by(actor: AccountId, payload: &'static str) -> Self {
        Self { actor: Some(actor), action: "account.login", payload, user_agent: Some("Safari") }
    }
}

impl App {
    async fn write(&self, account: AccountId, row: NewRow<'_>) {
        sqlx::query(
            "insert into audit_log
                 (id, account_id, actor_type, actor_account_id, action, target_resource_id, payload, ip_address, user_agent)
             values ($1, $2, 'customer', $3, $4, null, $5::jsonb, '203.0.113.9', $6)",
        )
        .bind(Uuid::now_v7())
        .bind(account.as_uuid())
        .bind(row.actor.map(|actor| actor.as_uuid()))
        .bind(row.action)
        .bind(row.payload)
        .bind(row.user_agent)
        .execute(&self.database.pool)
        .await
        .expect("a row");
    }

    /// In one statement.
    async fn write_many(&self, account: AccountId, rows: i32, payload: &str) {
        sqlx::query(
            "insert into audit_log (id, account_id, actor_type, action, payload)
             select gen_random_uuid(), $1, 'system', case when n % 1000 = 0 then 'account.login' else 'session.created' end,
                    jsonb_build_object('n', n, 'text', $3::text)
             from generate_series(1, $2) n",
        )
        .bind(account.as_uuid())
        .bind(rows)
        .bind(payload)
        .execute(&self.database.pool)
        .await
        .expect("rows");
    }
}

/// Contract: audit-log 1, 14, 15.
#[tokio::test]
async fn log_lists_actions_with_all_members() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let body = json!({"name": "CI", "scopes": ["read:audit", "write:sessions"]});
    let request = ada.client.request(Method::POST, "/v1/api-keys").header("user-agent", "Ada's phone/1.0").json(&body);
    let key = ada.client.send(request).await.expect(201).body;
    let program = Client::new(&app.base_url, key["key"].as_str());
    let session = program.session().await;
    program.delete(&format!("/v1/sessions/{session}")).await.expect(204);

    let (rows, next) = program.page(LOG).await;
    let actions: Vec<_> = rows.iter().map(|row| &row["action"]).collect();
    assert_eq!(actions, ["session.destroyed", "session.created", "api_key.minted"], "newest first");
    assert_eq!(next, None);
    for row in &rows {
        assert_eq!(row.as_object().expect("a row").keys().collect::<Vec<_>>(), FIELDS);
        assert!(row["id"].as_str().is_some_and(|id| id.parse::<Uuid>().is_ok()), "{row}");
        assert_timestamp(&row["timestamp"]);
        assert_eq!((&row["account_id"], &row["actor_type"]), (&json!(ada.account), &json!("customer")));
        assert_eq!((&row["actor_account_id"], &row["ip_address"]), (&json!(ada.account), &json!("127.0.0.1")));
    }
    assert_eq!((&rows[2]["actor_key_id"], &rows[2]["user_agent"]), (&Value::Null, &json!("Ada's phone/1.0")));
    assert_eq!(rows[2]["payload"], json!({"name": "CI", "scopes": ["read:audit", "write:sessions"]}));
    assert_eq!((&rows[2]["target_resource_id"], &rows[0]["actor_key_id"]), (&key["id"], &key["id"]));
    assert_eq!(rows[0]["target_resource_id"], session);

    let other = app.person(Tier::Enterprise).await;
    assert_eq!(other.client.page(LOG).await, (Vec::new(), None), "the log of another account is empty");
    app.stop().await;
}

/// Contract: audit-log 4, 5; authorization 10. Payload members that reveal the same are removed.
#[tokio::test]
async fn address_and_agent_of_other_accounts_are_redacted() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    app.join_team(ada.account, bob.account, "member").await;
    let payload_text = r#"{"method": "password", "issued_from_ip": "1.2.3.4", "source_ip": "1.2.3.4", "ip_address": "1.2.3.4",
                   "user_agent": "Safari", "issued_user_agent": "Safari", "deep": [{"user_agent": "Safari", "kept": 1}]}"#;
    let whole: Value = serde_json::from_str(payload_text).expect("JSON");
    let redacted = json!({"method": "password", "deep": [{"kept": 1}]});
    app.write(ada.account, NewRow::by(ada.account, payload_text)).await;
    app.write(ada.account, NewRow::by(bob.account, payload_text)).await;
    app.write(ada.account, NewRow { actor: None, ..NewRow::by(ada.account, payload_text) }).await;

    let own = ada.client.get(LOG).await.expect(200).body;
    let by_bob = ada.client.export(JSON).await.answer.body;
    let of_ada = bob.client.for_account(ada.account, LOG).await.expect(200).body;
    let of_ada_exported = bob.client.export_for(ada.account, JSON).await.answer.body;
    for (log, payload) in [(own, &whole), (by_bob, &whole), (of_ada, &redacted), (of_ada_exported, &redacted)] {
        let (rows, address, agent) = (&log["data"], json!("203.0.113.9"), json!("Safari"));
        for own_row in [&rows[0], &rows[2]] {
            assert_eq!(
                (&own_row["ip_address"], &own_row["user_agent"]),
                (&address, &agent),
                "the account's own request"
            );
            assert_eq!(&own_row["payload"], payload);
        }
        assert_eq!(rows[1]["actor_account_id"], bob.account.to_string());
        assert_eq!((&rows[1]["ip_address"], &rows[1]["user_agent"]), (&Value::Null, &Value::Null));
        assert_eq!(rows[1]["payload"], redacted);
    }
    for (reader, exported) in
        [("the owner", ada.client.export(CSV).await), ("a member", bob.client.export_for(ada.account, CSV).await)]
    {
        let (_, records) = exported.records();
        assert_eq!((&records[1][6], &records[1][7]), ("", ""), "{reader}");
        assert_eq!(serde_json::from_str::<Value>(&records[1][8]).expect("JSON"), redacted, "{reader}");
    }
    assert!(!bob.client.export_for(ada.account, CSV).await.text.contains("1.2.3.4"));

    // A request with the account header is recorded in the owner's log, with the member as actor.
    app.execute("update team_members set role = 'admin' where member_account_id = $1", bob.account.as_uuid()).await;
    let request = bob.client.request(Method::POST, "/v1/sessions").header("x-service-account", ada.account.to_string());
    bob.client.send(request.json(&json!({}))).await.expect(201);
    let (rows, _) = ada.client.page(LOG).await;
    assert_eq!((&rows[0]["action"], &rows[0]["actor_account_id"]), (&json!("session.created"), &json!(bob.account)));
    assert_eq!((&rows[0]["account_id"], &rows[0]["ip_address"]), (&json!(ada.account), &Value::Null));
    assert_eq!(bob.client.page(LOG).await.0, <[Value; 0]>::default());
    app.stop().await;
}

/// Contract: audit-log 7; lists 3. Cursors are bound to the account, the list and its filter.
#[tokio::test]
async fn log_is_paginated_and_cursors_are_bound_to_the_query() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    for n in 0..7 {
        let action = if n % 2 == 0 { "account.login" } else { "account.logout" };
        app.write(ada.account, NewRow { action, ..NewRow::by(ada.account, "{}") }).await;
    }
    let (all, none) = ada.client.page(LOG).await;
    assert_eq!((all.len(), none), (7, None));

    let mut pages = Vec::new();
    let mut path = format!("{LOG}?limit=3");
    loop {
        let (rows, next) = ada.client.page(&path).await;
        pages.push(rows.len());
        assert_eq!(rows, all[pages.iter().sum::<usize>() - rows.len()..][..rows.len()]);
        let Some(cursor) = next else { break };
        path = format!("{LOG}?limit=3&cursor={cursor}");
    }
    assert_eq!(pages, [3, 3, 1]);

    let logins = format!("{LOG}?limit=2&action=account.login");
    let (first, cursor) = ada.client.page(&logins).await;
    let cursor = cursor.expect("a second page");
    let (second, last) = ada.client.page(&format!("{logins}&cursor={cursor}")).await;
    assert_eq!(last, None, "a page that is exactly full is the last one");
    assert!(first.iter().chain(&second).all(|row| row["action"] == "account.login"));
    assert_eq!(first.len() + second.len(), 4);

    app.join_team(ada.account, bob.account, "member").await;
    let (_, bobs) = ada.client.page(&format!("{LOG}?limit=1")).await;
    let bobs = bobs.expect("a cursor");
    bob.client.for_account(ada.account, &format!("{LOG}?cursor={bobs}")).await.expect(200);
    bob.client.get(&format!("{LOG}?cursor={bobs}")).await.invalid("cursor");
    let tampered = bobs.replacen(|c: char| c != 'A', "A", 1);
    let keys = format!("/v1/sessions?cursor={bobs}");
    ada.client.get(&keys).await.invalid("cursor");
    for cursor in [tampered.as_str(), "", "x", "%00", &format!("{bobs}&action=account.login")] {
        ada.client.get(&format!("{LOG}?cursor={cursor}")).await.invalid("cursor");
    }
    ada.client.get(&format!("{LOG}?action=account.logout&cursor={cursor}")).await.invalid("cursor");
    app.stop().await;
}

/// Contract: audit-log 3. The time is that of the write, not the start of a transaction that may have waited since.
#[tokio::test]
async fn newest_row_has_the_latest_time() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    let mut waited = app.database.pool.begin().await.expect("a transaction");
    sqlx::query("select now()").execute(&mut *waited).await.expect("the transaction has begun");
    app.write(ada.account, NewRow::by(ada.account, "{}")).await;
    let entry = Entry { action: "team.updated", target: None, payload: json!({}) };
    audit::record(&mut waited, ada.account, &Actor::System, entry).await.expect("a row");
    waited.commit().await.expect("a commit");
    assert_eq!(ada.client.page(LOG).await.0[0]["action"], "team.updated");
    let inverted = "select count(*) from audit_log one join audit_log other using (account_id)
                    where one.id > other.id and one.created_at <= other.created_at";
    assert_eq!(app.count(inverted).await, 0);
    app.stop().await;
}

/// Contract: audit-log 7, 11; lists 2. Every action of the closed list is accepted.
#[tokio::test]
async fn invalid_limit_action_or_format_is_400() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    for limit in ["0", "101", "-1", "x", "", "1.5"] {
        ada.client.get(&format!("{LOG}?limit={limit}")).await.invalid("limit");
    }
    for limit in ["1", "100"] {
        ada.client.get(&format!("{LOG}?limit={limit}")).await.expect(200);
    }
    for action in
        ["", "account", "account.", "Account.Login", "account.login,account.logout", "account.*", "%00", "byok"]
    {
        ada.client.get(&format!("{LOG}?action={action}")).await.invalid("action");
    }
    for action in areas::actions() {
        ada.client.get(&format!("{LOG}?action={action}")).await.expect(200);
    }
    for query in ["", "?format=", "?format=xml", "?format=CSV", "?format=csv,json"] {
        ada.client.get(&format!("{LOG}/export{query}")).await.invalid("format");
    }
    app.stop().await;
}

/// Contract: audit-log 8, 9; requests 2.
#[tokio::test]
async fn export_has_fixed_headers_columns_and_envelope() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    app.write(ada.account, NewRow::by(ada.account, r#"{"a": "x,\"y\"\nz", "b": [1, null]}"#)).await;
    app.write(ada.account, NewRow::by(ada.account, "{}")).await;
    let (rows, _) = ada.client.page(LOG).await;

    let exported = ada.client.export(JSON).await;
    assert_eq!(exported.answer.headers["content-type"], "application/json");
    let body = &exported.answer.body;
    let envelope: Vec<_> = body.as_object().expect("an envelope").keys().collect();
    assert_eq!(envelope, ["generated_at", "account_id", "row_count", "truncated", "data"]);
    assert_timestamp(&body["generated_at"]);
    assert_eq!(
        (&body["account_id"], &body["row_count"], &body["truncated"]),
        (&json!(ada.account), &json!(2), &json!(false))
    );
    assert_eq!(body["data"], json!(rows));
    let day = &body["generated_at"].as_str().expect("a timestamp")[..10];
    let named = format!("attachment; filename=kitfleet-audit-log-{day}.json");
    assert_eq!(exported.answer.headers["content-disposition"], named.as_str());

    let exported = ada.client.export(CSV).await;
    assert_eq!(exported.answer.headers["content-type"], "text/csv");
    let disposition = exported.answer.headers["content-disposition"].to_str().expect("text");
    assert_eq!(disposition, format!("attachment; filename=kitfleet-audit-log-{day}.csv"));
    let (header, records) = exported.records();
    let columns = ["timestamp", "action", "actor_type", "actor_account_id", "actor_key_id", "target_resource_id"];
    assert_eq!(header, [&columns[..], &["ip_address", "user_agent", "payload"]].concat());
    assert_eq!(records.len(), 2);
    for (record, row) in records.iter().zip(&rows) {
        for (cell, column) in record.iter().zip(&header).take(8) {
            assert_eq!(cell, row[column].as_str().unwrap_or_default(), "{column}");
        }
        assert_eq!(serde_json::from_str::<Value>(&record[8]).expect("JSON"), row["payload"]);
    }

    let newcomer = app.person(Tier::Free).await;
    let empty = newcomer.client.export(JSON).await.answer.body;
    assert_eq!((&empty["row_count"], &empty["data"]), (&json!(0), &json!([])));
    assert_eq!(newcomer.client.export(CSV).await.text, format!("{}\r\n", header.join(",")));
    app.stop().await;
}

/// Contract: audit-log 8; limits 1. The export has the newest rows.
#[tokio::test]
async fn export_beyond_the_limit_is_truncated() {
    let app = App::simulated().set("limits.audit_export_rows", "1201").start().await;
    let ada = app.person(Tier::Free).await;
    app.write_many(ada.account, 1_201, "").await;
    let whole = ada.client.export(JSON).await.answer.body;
    assert_eq!((&whole["row_count"], &whole["truncated"]), (&json!(1_201), &json!(false)));
    let ids = |body: &Value| -> Vec<String> {
        let rows = body["data"].as_array().expect("rows");
        rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert!(ids(&whole).is_sorted_by(|a, b| a > b), "newest first and unique across all batches");

    let newest = "00000000-0000-0000-0000-000000000000";
    sqlx::query(
        "insert into audit_log (id, account_id, actor_type, action) values ($1, $2, 'system', 'account.login')",
    )
    .bind(newest.parse::<Uuid>().expect("a UUID"))
    .bind(ada.account.as_uuid())
    .execute(&app.database.pool)
    .await
    .expect("a row");
    let cut = ada.client.export(JSON).await.answer.body;
    assert_eq!((&cut["row_count"], &cut["truncated"]), (&json!(1_201), &json!(true)));
    assert_eq!(ids(&cut), ids(&whole), "the oldest row is left out");
    assert_eq!(ada.client.export(CSV).await.records().1.len(), 1_201);
    app.stop().await;
}

/// Contract: audit-log 8.
#[tokio::test]
async fn export_has_10000_rows_at_most_by_default() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    for (more, truncated) in [(10_000, false), (1, true)] {
        app.write_many(ada.account, more, "").await;
        let exported = ada.client.export(JSON).await.answer.body;
        assert_eq!((&exported["row_count"], &exported["truncated"]), (&json!(10_000), &json!(truncated)));
        assert_eq!(exported["data"].as_array().map(Vec::len), Some(10_000));
        assert_eq!(ada.client.export(CSV).await.records().1.len(), 10_000);
    }
    app.stop().await;
}

/// Contract: audit-log 8; authorization 9.
#[tokio::test]
async fn member_exports_the_owners_log() {
    let app = App::simulated().set("limits.audit_export_rows", "2").start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    app.join_team(ada.account, bob.account, "member").await;
    for account in [ada.account, ada.account, bob.account] {
        app.write(account, NewRow::by(account, "{}")).await;
    }
    let named = |exported: &Export, file: &str| {
        let disposition = exported.answer.headers["content-disposition"].to_str().expect("text");
        assert_eq!(disposition, format!("attachment; filename={file}"));
    };
    let exported = bob.client.export_for(ada.account, JSON).await;
    let body = &exported.answer.body;
    let envelope: Vec<_> = body.as_object().expect("an envelope").keys().collect();
    assert_eq!(envelope, ["generated_at", "account_id", "row_count", "truncated", "data"]);
    assert_eq!(body["account_id"], json!(ada.account), "the account that owns the log");
    assert_eq!((&body["row_count"], &body["truncated"]), (&json!(2), &json!(false)));
    assert_eq!(body["data"], ada.client.export(JSON).await.answer.body["data"]);
    let day = &body["generated_at"].as_str().expect("a timestamp")[..10];
    named(&exported, &format!("kitfleet-audit-log-{day}.json"));
    let exported = bob.client.export_for(ada.account, CSV).await;
    named(&exported, &format!("kitfleet-audit-log-{day}.csv"));
    assert_eq!(exported.text, ada.client.export(CSV).await.text);

    app.write(ada.account, NewRow::by(bob.account, "{}")).await;
    let cut = bob.client.export_for(ada.account, JSON).await.answer.body;
    assert_eq!((&cut["row_count"], &cut["truncated"]), (&json!(2), &json!(true)));
    assert_eq!(
        bob.client.export(JSON).await.answer.body["row_count"],
        1,
        "without the header the export is the caller's own log"
    );
    app.stop().await;
}

/// Contract: audit-log 9.
///
/// Contract: audit-log 6. The list and the exports accept payloads of unknown shape.
#[tokio::test]
async fn csv_cells_are_no_formulas_and_payloads_parse() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    let agents = ["=HYPERLINK(\"http://x\")", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "plain", "'quoted", " =1"];
    for agent in agents {
        app.write(ada.account, NewRow { user_agent: Some(agent), ..NewRow::by(ada.account, r#"{"a": "=1+1"}"#) }).await;
    }
    let deep = format!(r#"{{"deep": {}{}}}"#, "[".repeat(400), "]".repeat(400));
    let payloads = [
        "{}",
        r#"{"-5": -0.25}"#,
        r#"{"=1+1": "=1+1"}"#,
        r#"{"method": null, "name": [[-1], [{}]]}"#,
        r#"{"": {"a": [[]]}}"#,
        r#"{"n": 12345678901234567890, "b": true}"#,
    ];
    for payload in payloads.into_iter().chain([deep.as_str(), r#"{"n": 1e400}"#]) {
        app.write(ada.account, NewRow { user_agent: None, payload, actor: None, action: "admin.support_note" }).await;
    }

    let (rows, _) = ada.client.page(LOG).await;
    let (_, records) = ada.client.export(CSV).await.records();
    assert_eq!(records.len(), agents.len() + payloads.len() + 2);
    for (record, row) in records.iter().zip(&rows) {
        for cell in record {
            assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{cell}");
        }
        assert_eq!(serde_json::from_str::<Value>(&record[8]).expect("JSON"), row["payload"]);
    }
    let cells: Vec<_> = records.iter().rev().take(agents.len()).map(|record| record[7].to_owned()).collect();
    let guarded = |agent: &&str| format!("{}{agent}", if agent.starts_with(['p', '\'', ' ']) { "" } else { "'" });
    assert_eq!(cells, agents.iter().map(guarded).collect::<Vec<_>>());
    let written: Vec<_> = rows.iter().rev().skip(agents.len()).map(|row| row["payload"].clone()).collect();
    let read = payloads.map(|payload| serde_json::from_str::<Value>(payload).expect("JSON"));
    assert_eq!(written[..payloads.len()], read);
    assert_eq!(
        written[payloads.len()],
        json!({"unparsed": deep}),
        "a payload that is nested too deeply is returned as text"
    );
    assert!(rows.iter().all(|row| row["payload"].is_object()));
    assert_eq!(ada.client.export(JSON).await.answer.body["data"], json!(rows));
    app.stop().await;
}

/// Contract: audit-log 2. The payload must be an object.
#[tokio::test]
async fn database_rejects_changes_of_the_log() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    app.write(ada.account, NewRow::by(ada.account, "{}")).await;
    for statement in [
        "update audit_log set action = 'account.logout'",
        "delete from audit_log",
        "delete from audit_log where false",
        "truncate audit_log",
        "truncate accounts cascade",
        "insert into audit_log select * from audit_log on conflict (id) do update set action = 'account.logout'",
    ] {
        let refused = sqlx::query(statement).execute(&app.database.pool).await.expect_err(statement);
        assert!(refused.to_string().contains("append-only"), "{statement}: {refused}");
    }
    for payload in ["null", "-5", "true", r#""=1+1""#, "[{}]"] {
        let row = "insert into audit_log (id, account_id, actor_type, action, payload)
                   values (gen_random_uuid(), $1, 'staff', 'admin.support_note', $2::jsonb)";
        let row = sqlx::query(row).bind(ada.account.as_uuid()).bind(payload);
        let refused = row.execute(&app.database.pool).await.expect_err(payload);
        assert!(refused.to_string().contains("audit_log_payload_is_an_object"), "{payload}: {refused}");
    }
    assert_eq!(ada.client.page(LOG).await.0.len(), 1);
    app.stop().await;
}

/// Contract: audit-log 18. Clients may stall or disconnect, even with a pool of 8.
#[tokio::test]
async fn stalled_export_holds_no_database_connection() {
    let app = App::simulated().set("database.max_connections", "8").start().await;
    let ada = app.person(Tier::Free).await;
    app.write_many(ada.account, 10_000, &"long ".repeat(400)).await;
    let request = format!(
        "GET {JSON} HTTP/1.1\r\nHost: kitfleet\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        ada.token()
    );
    let mut stalled = Vec::new();
    for _ in 0..24 {
        let (mut reader, mut writer) = raw::connect(&app.base_url).await;
        writer.write_all(request.as_bytes()).await.expect("the service listens");
        let mut begun = [0; 4_096];
        reader.read_exact(&mut begun).await.expect("the export begins");
        assert!(begun.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&begun));
        stalled.push((reader, writer));
    }
    let idle = "select count(*) from pg_stat_activity where datname = current_database() and state <> 'idle'
                and pid <> pg_backend_pid() and query like '%audit_log%'";
    eventually(Duration::from_secs(10), "no export holds a connection", async || {
        (app.count(idle).await == 0).then_some(())
    })
    .await;
    assert_eq!(ada.client.page(LOG).await.0.len(), 50);
    let (mut reader, _writer) = stalled.pop().expect("a reader");
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).await.expect("the rest of the file");
    assert!(rest.ends_with(b"]}\r\n0\r\n\r\n"), "the file is whole");
    drop(stalled);
    assert_eq!(ada.client.export(JSON).await.answer.body["row_count"], 10_000);
    app.stop().await;
}

/// Contract: audit-log 10. A page takes at most 51 rows, at any position and with or without a filter.
#[tokio::test]
async fn page_is_read_from_one_index() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.account(Tier::Free).await, app.account(Tier::Free).await);
    for account in [ada, bob, app.account(Tier::Free).await] {
        app.write_many(account, 40_000, "").await;
    }
    let mut conn = app.database.pool.acquire().await.expect("a connection");
    sqlx::raw_sql("vacuum analyze audit_log").execute(&mut *conn).await.expect("statistics");
    let (account, middle) = (ada.as_uuid(), "80000000-0000-0000-0000-000000000000");
    let queries = cached_queries();
    let query = queries.iter().find(|query| query.contains("from audit_log where id = any(array("));
    let query = query.expect("the service's statement");
    let types = "uuid, uuid, bigint, uuid, timestamptz, text, text, uuid, timestamptz";
    let first = "00000000-0000-0000-0000-000000000000";
    for (action, index) in [("null", "audit_log_account_id_idx"), ("'account.login'", "audit_log_action_idx")] {
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let mut tx = conn.begin().await.expect("a transaction");
            let prepare = format!("set local plan_cache_mode = {mode}; prepare page ({types}) as {query}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(prepare)).execute(&mut *tx).await.expect("prepared");
            let arguments = format!("'{account}', '{middle}', 51, '{first}', null, {action}, null, null, null");
            let explain = format!("explain (analyze, format json) execute page ({arguments})");
            let plan: Value =
                sqlx::query_scalar(sqlx::AssertSqlSafe(explain)).fetch_one(&mut *tx).await.expect("a plan");
            sqlx::raw_sql("deallocate page").execute(&mut *tx).await.expect("deallocated");
            drop(tx);
            let mut scans = Vec::new();
            collect_scans(&plan[0]["Plan"], &mut scans);
            let indexes: Vec<_> = scans.iter().map(|scan| scan["Index Name"].as_str().unwrap_or("none")).collect();
            assert!(indexes.contains(&index), "{mode} {indexes:?} {plan}");
            // A generic plan also asks the indexes of filters that are not set, which find nothing.
            let is_expected = |scan: &&Value| {
                let used = scan["Index Name"].as_str().unwrap_or("none");
                [index, "audit_log_pkey"].contains(&used)
                    || (used != "none" && scan["Actual Rows"].as_f64() == Some(0.0))
            };
            assert!(scans.iter().all(is_expected), "{mode} {indexes:?} {plan}");
            for scan in scans {
                assert!(scan["Actual Rows"].as_f64() <= Some(51.0), "{mode} {plan}");
                assert!(scan["Rows Removed by Filter"].as_f64().unwrap_or_default() <= 0.0, "{mode} {plan}");
            }
        }
    }
    drop(conn);
    app.stop().await;
}

/// Scans of the log that were carried out.
fn collect_scans<'a>(node: &'a Value, scans: &mut Vec<&'a Value>) {
    let is_scan = node["Index Name"].is_string() || node["Node Type"] == "Seq Scan";
    if is_scan && node["Actual Loops"].as_f64() > Some(0.0) {
        scans.push(node);
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect_scans(child, scans);
    }
}

fn cached_queries() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/domain/.sqlx");
    let files = fs::read_dir(folder).expect("the query cache").map(|file| file.expect("a file").path());
    let parse = |path| serde_json::from_slice::<Value>(&fs::read(path).expect("a file")).expect("JSON");
    files.map(parse).map(|entry| entry["query"].as_str().expect("a query").to_owned()).collect()
}

/// Contract: audit-log 10.
#[tokio::test]
async fn log_requires_an_audit_scope() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::ApiBuilder).await;
    for (scope, status) in
        [("read:audit", 200), ("read", 200), ("account_owner", 200), ("read:sessions", 403), ("write", 403)]
    {
        let client = app.client_of(account, &[scope]).await;
        for path in [LOG, CSV, JSON] {
            client.get(path).await.expect(status);
        }
    }
    app.stop().await;
}

/// Contract: audit-log 23.
#[tokio::test]
async fn log_is_filtered_by_actor_resource_and_time() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let key = client.post("/v1/api-keys", json!({"name": "CI", "scopes": ["read"]})).await.expect(201).body;
    let id = key["id"].as_str().expect("an id");
    client.delete(&format!("/v1/api-keys/{id}")).await.expect(204);
    let actions = async |query: &str| {
        let (rows, _) = client.page(&format!("{LOG}?{query}")).await;
        rows.iter().map(|row| row["action"].as_str().expect("an action").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(actions(&format!("target_resource_id={id}")).await, ["api_key.revoked", "api_key.minted"]);
    assert_eq!(actions(&format!("target_resource_id={id}&action=api_key.minted")).await, ["api_key.minted"]);
    assert!(actions(&format!("actor_account_id={account}")).await.len() >= 2);
    let other = app.account(Tier::Free).await;
    assert_eq!(actions(&format!("actor_account_id={other}")).await, Vec::<String>::new());
    assert_eq!(actions("created_before=2026-01-01T00:00:00Z").await, Vec::<String>::new());
    assert!(actions("created_after=2026-01-01T00:00:00Z").await.len() >= 2);
    client.get(&format!("{LOG}?actor_account_id=x")).await.invalid("actor_account_id");
    client.get(&format!("{LOG}?created_after=x")).await.invalid("created_after");
    app.stop().await;
}
