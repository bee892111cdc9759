//! Signed-in devices (contract: web-sessions). Sign-in and refresh are tested in [`crate::sign_ins`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::people::{PASSWORD, token_of};
use crate::support::records::{AuditRow, uuid_of};
use crate::support::{App, Client, assert_timestamp, at_once, eventually, members, unknown_id};

pub const DEVICES: &str = "/v1/account/web-sessions";
const OTHERS: &str = "/v1/account/web-sessions?keep=current";

impl Client {
    async fn devices(&self) -> Vec<Value> {
        let list = self.get(DEVICES).await.expect(200).body;
        assert_eq!(members(&list), BTreeSet::from(["data", "has_more", "next_cursor"]));
        list["data"].as_array().expect("a list").clone()
    }

    async fn device(&self) -> String {
        let devices = self.devices().await;
        let current: Vec<_> = devices.iter().filter(|device| device["current"] == true).collect();
        assert_eq!(current.len(), 1, "{devices:?}");
        current[0]["id"].as_str().expect("an id").to_owned()
    }

    async fn sign_out(&self, device: &str) -> u16 {
        self.delete(&format!("{DEVICES}/{device}")).await.status.as_u16()
    }

    async fn is_signed_in(&self) -> bool {
        match self.get("/v1/account/me").await.status.as_u16() {
            200 => true,
            401 => false,
            other => panic!("{other}"),
        }
    }
}

async fn revocations(app: &App, account: AccountId) -> Vec<AuditRow> {
    let log = app.audit(account).await;
    log.into_iter().filter(|row| row.action == "account.web_session_revoked").collect()
}

/// Contract: web-sessions 1, 2; sign-ins 10; sessions 9. A browser session created with it has no `api_key_id`.
#[tokio::test]
async fn login_starts_a_session_of_30_days() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    let stranger = app.stranger();
    let request = stranger.request(Method::POST, "/v1/auth/login").header("user-agent", "Ada's phone/1.0");
    let result = stranger.send(request.json(&json!({"email": ada.email, "password": PASSWORD}))).await.expect(200);
    let session = &result.body["session"];
    assert_eq!(members(session), BTreeSet::from(["token", "expires_at", "account_id"]));
    assert_eq!(session["account_id"], ada.account.to_string());
    assert_timestamp(&session["expires_at"]);
    let token = token_of(&result);
    assert!(token.len() >= 43 && !token.starts_with("svc_"), "{token}");
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'), "{token}");
    assert_eq!(app.tables_with(token).await, <[String; 0]>::default());
    assert!(!app.log(0).contains(token), "a token is logged");

    let client = app.signed_in(&result);
    let devices = client.devices().await;
    let [entry, other] = &devices[..] else { panic!("{devices:?}") };
    let fields = ["id", "created_at", "last_used_at", "expires_at", "ip_address", "user_agent", "current"];
    for device in [entry, other] {
        assert_eq!(members(device), BTreeSet::from(fields));
        for moment in ["created_at", "last_used_at", "expires_at"] {
            assert_timestamp(&device[moment]);
        }
        let id = device["id"].as_str().expect("an id");
        assert!(id.starts_with("wsess_"), "{id}");
        assert_eq!(uuid_of(id).get_version_num(), 7);
    }
    assert_eq!((&entry["current"], &other["current"]), (&json!(true), &json!(false)));
    assert_eq!(entry["expires_at"], session["expires_at"]);
    assert_eq!((&entry["ip_address"], &entry["user_agent"]), (&json!("127.0.0.1"), &json!("Ada's phone/1.0")));
    let thirty_days = "select count(*) from web_sessions where expires_at - created_at = interval '30 days'";
    assert_eq!(app.count(thirty_days).await, 1);

    let created = client.post("/v1/sessions", json!({})).await.expect(201).body;
    assert_eq!((&created["api_key_id"], &created["account_id"]), (&Value::Null, &json!(ada.account.to_string())));
    let id = created["id"].as_str().expect("an id");
    client.operate(id, "navigate", json!({"url": "https://example.com/"})).await.expect(200);
    client.delete(&format!("/v1/sessions/{id}")).await.expect(204);
    client.post("/v1/api-keys", json!({"name": "CI", "scopes": ["account_owner"]})).await.expect(201);
    let log = app.audit(ada.account).await;
    assert!(log.iter().all(|row| row.actor_key_id.is_none() && row.actor_type == "customer"), "{log:?}");
    assert_eq!(log.iter().filter(|row| row.action == "session.created").count(), 1);
    app.stop().await;
}

/// Contract: web-sessions 3, 5; audit-log 13. A sign-out takes effect on every replica.
#[tokio::test]
async fn devices_are_listed_and_signed_out_individually() {
    let mut app = App::simulated().start().await;
    let (_, elsewhere) = app.start_another_api().await;
    let ada = app.person(Tier::Enterprise).await;
    let bob = app.person(Tier::Enterprise).await;
    let (second, third) = (app.device_of(ada.account).await, app.device_of(ada.account).await);
    let clients = [third, second, ada.client.clone()];
    let mut ids = Vec::new();
    for client in &clients {
        ids.push(client.device().await);
    }
    let key = app.client_of(ada.account, &["account_owner"]).await;
    for client in clients.iter().chain([&key]) {
        let listed: Vec<_> = client.devices().await.iter().map(|device| device["id"].clone()).collect();
        assert_eq!(listed, ids);
    }
    assert!(key.devices().await.iter().all(|device| device["current"] == false), "a key is not a device");

    let his = bob.client.device().await;
    let [third_id, second_id, first_id] = &ids[..] else { panic!("{ids:?}") };
    let strangers = [
        his.clone(),
        unknown_id("wsess"),
        first_id.to_uppercase(),
        uuid_of(first_id).to_string(),
        first_id.replace("wsess_", "ses_"),
        format!("wsess_{}", Uuid::now_v7().simple()),
        "wsess_".to_owned(),
        "current".to_owned(),
        "%00".to_owned(),
    ];
    let mut answers = BTreeSet::new();
    for id in strangers {
        let refused = ada.client.delete(&format!("{DEVICES}/{id}")).await.problem(404, "not-found");
        answers.insert((refused.body["title"].to_string(), refused.body["detail"].to_string()));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(bob.client.is_signed_in().await);

    let there = Client::new(&elsewhere, clients[1].key.as_deref());
    assert!(there.is_signed_in().await);
    assert_eq!(ada.client.sign_out(second_id).await, 204);
    for refused in [&there, &clients[1]] {
        refused.get("/v1/account/me").await.problem(401, "unauthorized");
        refused.get(DEVICES).await.problem(401, "unauthorized");
    }
    assert_eq!(ada.client.sign_out(second_id).await, 404, "the device is not signed in any more");
    assert_eq!(ada.client.devices().await.len(), 2);

    assert_eq!(clients[0].sign_out(third_id).await, 204);
    assert!(!clients[0].is_signed_in().await);
    let late = app.device_of(ada.account).await;
    let late_id = late.device().await;
    app.execute("update web_sessions set expires_at = now() where id = $1", uuid_of(&late_id)).await;
    late.get(DEVICES).await.problem(401, "unauthorized");
    assert_eq!(ada.client.sign_out(&late_id).await, 404);
    assert_eq!(key.sign_out(first_id).await, 204);
    assert!(!ada.client.is_signed_in().await);

    let rows = revocations(&app, ada.account).await;
    let targets: Vec<_> = rows.iter().filter_map(|row| row.target_resource_id.as_ref()).collect();
    assert_eq!(targets, [second_id, third_id, first_id]);
    for row in &rows {
        assert_eq!(row.payload, json!({"scope": "single"}));
        assert_eq!((row.actor_type.as_str(), row.actor_account_id), ("customer", Some(ada.account.as_uuid())));
    }
    assert_eq!(rows.iter().filter(|row| row.actor_key_id.is_some()).count(), 1);
    assert!(revocations(&app, bob.account).await.is_empty());
    app.stop().await;
}

/// Contract: web-sessions 4. `keep` accepts only `current`.
#[tokio::test]
async fn other_devices_are_signed_out_by_one_request() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let bob = app.person(Tier::Enterprise).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(app.device_of(ada.account).await);
    }
    let expired = others[0].device().await;
    app.execute("update web_sessions set expires_at = now() where id = $1", uuid_of(&expired)).await;
    for query in ["", "?", "?keep=", "?keep=all", "?keep=none", "?keep=CURRENT", "?keep=current%00", "?kept=current"] {
        ada.client.delete(&format!("{DEVICES}{query}")).await.invalid("keep");
    }
    let key = app.client_of(ada.account, &["account_owner"]).await;
    key.delete(OTHERS).await.problem(403, "forbidden");
    assert_eq!(ada.client.devices().await.len(), 3);

    let answer = ada.client.delete(OTHERS).await.expect(200);
    assert_eq!(answer.body, json!({"revoked": 2}));
    for other in &others {
        other.get(DEVICES).await.problem(401, "unauthorized");
    }
    assert!(ada.client.is_signed_in().await && bob.client.is_signed_in().await);
    assert_eq!(ada.client.delete(OTHERS).await.expect(200).body, json!({"revoked": 0}));
    key.get("/v1/sessions").await.expect(200);
    let payloads: Vec<_> = revocations(&app, ada.account).await.into_iter().map(|row| row.payload).collect();
    let payload = |revoked: u64| json!({"scope": "all_except_current", "revoked": revoked});
    assert_eq!(payloads[0], payload(2));
    assert!(payloads.len() == 1 || payloads[1..] == [payload(0)], "{payloads:?}");
    app.stop().await;
}

/// Contract: web-sessions 5; audit-log 12. Other sessions of the account continue. `account.logout` has the `session_id`.
#[tokio::test]
async fn ended_session_is_rejected() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let (second, third) = (app.device_of(ada.account).await, app.device_of(ada.account).await);
    let (second_id, third_id) = (second.device().await, third.device().await);
    let log_out = async |token: Option<&str>| app.stranger().post("/v1/auth/logout", json!({"token": token})).await;
    for _ in 0..2 {
        let answer = log_out(second.key.as_deref()).await.expect(200);
        assert_eq!(answer.body, json!({"ok": true}));
        second.get(DEVICES).await.problem(401, "unauthorized");
        second.post("/v1/sessions", json!({})).await.problem(401, "unauthorized");
        second.delete(OTHERS).await.problem(401, "unauthorized");
    }
    let refresh = json!({"token": second.key});
    app.stranger().post("/v1/auth/refresh", refresh).await.problem(401, "unauthorized");
    assert!(ada.client.is_signed_in().await && third.is_signed_in().await);
    let log = app.audit(ada.account).await;
    let [row] = &log[..] else { panic!("{log:?}") };
    assert_eq!((row.action.as_str(), &row.payload["session_id"]), ("account.logout", &json!(second_id)));

    let refreshed = app.stranger().post("/v1/auth/refresh", json!({"token": third.key})).await.expect(200).body;
    assert!(!third.is_signed_in().await);
    let third = Client::new(&app.base_url, refreshed["token"].as_str());
    assert_eq!(third.device().await, third_id);

    app.execute("update web_sessions set expires_at = now() where id = $1", uuid_of(&third_id)).await;
    third.get("/v1/account/me").await.problem(401, "unauthorized");
    app.stranger().post("/v1/auth/refresh", json!({"token": third.key})).await.problem(401, "unauthorized");
    assert_eq!(ada.client.devices().await.len(), 1);

    app.run(&["account", "suspend", &ada.account.to_string()]).await.code(0);
    let refused = ada.client.get(DEVICES).await.problem(403, "forbidden");
    assert_eq!(refused.body["title"], "AccountSuspended");
    app.run(&["account", "reactivate", &ada.account.to_string()]).await.code(0);
    assert!(ada.client.is_signed_in().await);
    app.execute("update accounts set status = 'deleted' where id = $1", ada.account.as_uuid()).await;
    ada.client.get(DEVICES).await.problem(401, "unauthorized");
    app.stop().await;
}

/// Contract: web-sessions 6. After the answer no other session works.
#[tokio::test]
async fn revocation_includes_concurrent_refreshes() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let mut thieves = Vec::new();
    for _ in 0..8 {
        thieves.push(app.device_of(ada.account).await);
    }
    let revoked = Arc::new(AtomicBool::new(false));
    let refreshes = Arc::new(AtomicUsize::new(0));
    let thieves = thieves.into_iter().map(|thief| {
        let (revoked, refreshes) = (Arc::clone(&revoked), Arc::clone(&refreshes));
        async move {
            let mut token = thief.key.expect("a token");
            loop {
                let was_revoked = revoked.load(Ordering::SeqCst);
                let stranger = Client::new(&thief.base_url, None);
                let answer = stranger.post("/v1/auth/refresh", json!({"token": token})).await;
                match answer.status.as_u16() {
                    200 => assert!(!was_revoked, "a session outlived its revocation"),
                    401 => return Client::new(&thief.base_url, Some(&token)),
                    other => panic!("{other}: {}", answer.body),
                }
                token = answer.body["token"].as_str().expect("a token").to_owned();
                refreshes.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let thieves = tokio::spawn(at_once(thieves.collect::<Vec<_>>()));
    let busy = async || (refreshes.load(Ordering::SeqCst) >= 24 || thieves.is_finished()).then_some(());
    eventually(Duration::from_secs(20), "the sessions are refreshed", busy).await;
    assert_eq!(ada.client.delete(OTHERS).await.expect(200).body, json!({"revoked": 8}));
    revoked.store(true, Ordering::SeqCst);
    for thief in thieves.await.expect("the refreshes end") {
        assert!(!thief.is_signed_in().await);
    }
    assert_eq!(ada.client.devices().await.len(), 1);

    let raced = app.device_of(ada.account).await.device().await;
    let answers = at_once((0..16).map(|_| {
        let (client, raced) = (ada.client.clone(), raced.clone());
        async move { client.sign_out(&raced).await }
    }));
    let mut answers = answers.await;
    answers.sort_unstable();
    assert_eq!((answers[0], &answers[1..]), (204, &[404; 15][..]));
    assert_eq!(revocations(&app, ada.account).await.len(), 2);
    app.stop().await;
}

/// The limit is 1,000 devices.
#[tokio::test]
async fn oldest_device_beyond_the_limit_is_signed_out() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    let second = app.device_of(ada.account).await;
    let devices = "insert into web_sessions (id, account_id, token_hash, expires_at)
                   select gen_random_uuid(), $1, sha256(n::text::bytea), now() + interval '1 day' from generate_series(1, 998) n";
    app.execute(devices, ada.account.as_uuid()).await;
    // The inserted ids are random; these two must sort as the oldest.
    let oldest = "update web_sessions set id = ('00000000-0000-7000-8000-' || right(id::text, 12))::uuid
                  where account_id = $1 and expires_at < now() + interval '2 hours'";
    app.execute(oldest, ada.account.as_uuid()).await;
    for client in [&ada.client, &second] {
        assert!(client.is_signed_in().await);
    }
    let newest = app.signed_in(&app.log_in(&ada.email, PASSWORD).await);
    assert!(newest.is_signed_in().await);
    let signed_in = [ada.client.is_signed_in().await, second.is_signed_in().await];
    assert_eq!(signed_in.iter().filter(|is| **is).count(), 1, "{signed_in:?}");
    app.stop().await;
}
