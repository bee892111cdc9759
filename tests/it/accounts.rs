//! Contract: accounts.

use std::collections::BTreeSet;
use std::time::Duration;

use kitfleet_domain::emails::Template;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api_keys::{KEYS, mint, revocations};
use crate::support::people::{PASSWORD, Person};
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, at_once, eventually, members, stable, unknown_id};
use crate::web_sessions::DEVICES;

const ME: &str = "/v1/account/me";

/// Contract: limits 2, 3. Limits of concurrent sessions and of profiles.
const TIERS: [(&str, u32, u32); 8] = [
    ("free", 1, 1),
    ("solo_manual", 1, 10),
    ("team_manual", 3, 50),
    ("agency_manual", 8, 200),
    ("api_starter", 2, 25),
    ("api_builder", 8, 100),
    ("api_scale", 24, 500),
    ("enterprise", 32, 1_000),
];

impl Client {
    async fn delete_me(&self, body: Value) -> Answer {
        self.send(self.request(Method::DELETE, ME).json(&body)).await
    }

    async fn delete_me_for_good(&self) -> Answer {
        self.delete_me(json!({"confirm": "delete-account"})).await
    }
}

impl App {
    /// `$1` is the account id.
    async fn count_of(&self, account: AccountId, query: &'static str) -> i64 {
        let count = sqlx::query_scalar(query).bind(account.as_uuid());
        count.fetch_one(&self.database.pool).await.expect("a count")
    }

    /// No credential works and no session is live.
    async fn assert_nothing_survives(&self, account: AccountId) {
        let queries = [
            "select count(*) from accounts where id = $1 and (status <> 'deleted' or password_hash is not null)",
            "select count(*) from sessions where account_id = $1 and status in ('creating', 'ready', 'busy')",
            "select count(*) from api_keys where account_id = $1 and revoked_at is null",
            "select count(*) from web_sessions where account_id = $1 and revoked_at is null and expires_at > now()",
            "select count(*) from mfa_factors where account_id = $1",
            "select count(*) from mail_links where account_id = $1",
        ];
        for query in queries {
            assert_eq!(self.count_of(account, query).await, 0, "{query}");
        }
    }

    async fn wait_for_blocked_statements(&self, statements: i64) {
        let query = "select count(*) from pg_stat_activity
                     where datname = current_database() and wait_event_type = 'Lock'";
        let what = format!("{statements} statements wait for locks");
        eventually(Duration::from_secs(10), &what, async || (self.count(query).await >= statements).then_some(()))
            .await;
    }
}

/// Contract: accounts 3; limits 2, 3.
#[tokio::test]
async fn account_reads_its_profile_and_limits() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let me = ada.client.get(ME).await.expect(200).body;
    insta::assert_json_snapshot!("account", stable(&me), { ".email" => "[email]" });
    assert_eq!((&me["id"], &me["email"]), (&json!(ada.account.to_string()), &json!(ada.email)));
    let key = app.client_of(ada.account, &["read"]).await;
    assert_eq!(key.get(ME).await.expect(200).body, me);

    for (tier, concurrent_sessions, profiles) in TIERS {
        app.run(&["account", "set-tier", &ada.account.to_string(), tier]).await.code(0);
        let me = ada.client.get(ME).await.expect(200).body;
        let limits = json!({"concurrent_sessions": concurrent_sessions, "profiles": profiles});
        assert_eq!((&me["tier"], &me["limits"]), (&json!(tier), &limits));
    }
    app.execute("update accounts set email_verified_at = null where id = $1", ada.account.as_uuid()).await;
    let pending = "insert into mfa_factors (account_id, sealed_secret) values ($1, '')";
    app.execute(pending, ada.account.as_uuid()).await;
    let me = ada.client.get(ME).await.expect(200).body;
    assert_eq!((&me["email_verified_at"], &me["mfa_enrolled"]), (&Value::Null, &json!(false)));
    app.execute("update mfa_factors set enrolled_at = now() where account_id = $1", ada.account.as_uuid()).await;
    app.execute("update accounts set password_hash = null where id = $1", ada.account.as_uuid()).await;
    let me = ada.client.get(ME).await.expect(200).body;
    assert_eq!((&me["mfa_enrolled"], &me["has_password"]), (&json!(true), &json!(false)));
    app.stop().await;

    let app = App::simulated()
        .set("limits.concurrent_sessions.solo_manual", "7")
        .set("limits.profiles.solo_manual", "70")
        .set("limits.enterprise_profiles", "5000")
        .start()
        .await;
    let limits = async |tier: Tier| {
        let person = app.person(tier).await;
        person.client.get(ME).await.expect(200).body["limits"].clone()
    };
    assert_eq!(limits(Tier::SoloManual).await, json!({"concurrent_sessions": 7, "profiles": 70}));
    assert_eq!(limits(Tier::Enterprise).await, json!({"concurrent_sessions": 32, "profiles": 5000}));
    app.stop().await;
}

/// Contract: accounts 4; errors 10. A name that could inject mail headers is rejected.
#[tokio::test]
async fn rename_validates_the_name() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let bob = app.person(Tier::Enterprise).await;
    let refused = [
        json!({}),
        json!({"name": null}),
        json!({"name": 1}),
        json!({"name": ""}),
        json!({"name": " \u{3000} "}),
        json!({"name": "x".repeat(121)}),
        json!({"name": "ü".repeat(121)}),
        json!({"name": "Ada\r\nBcc: eve@example.com"}),
        json!({"name": "Ada\u{9b}"}),
        json!({"name": "Ada\0"}),
        json!({"email": "eve@example.com"}),
    ];
    for body in refused {
        ada.client.patch(ME, body).await.invalid("name");
    }
    ada.client.send(ada.client.request(Method::PATCH, ME)).await.invalid("name");
    ada.client.patch(ME, json!([])).await.problem(400, "validation-failed");
    assert_eq!(ada.client.get(ME).await.expect(200).body["name"], "Ada");

    let owner = app.client_of(ada.account, &["account_owner"]).await;
    let names = [
        ("x".to_owned(), "x".to_owned()),
        (" Ada Lovelace ".to_owned(), "Ada Lovelace".to_owned()),
        ("ü".repeat(120), "ü".repeat(120)),
        ("Zoe\u{308}".to_owned(), "Zoë".to_owned()),
        ("<b>\"&'".to_owned(), "<b>\"&'".to_owned()),
    ];
    for client in [&ada.client, &owner] {
        for (asked, kept) in &names {
            let answer = client.patch(ME, json!({"name": asked, "email": "eve@example.com"})).await.expect(200);
            assert_eq!(answer.headers["x-service-unknown-fields"], "email");
            assert_eq!((&answer.body["name"], &answer.body["email"]), (&json!(kept), &json!(ada.email)));
            assert_eq!(client.get(ME).await.expect(200).body, answer.body);
        }
    }
    assert_eq!(bob.client.get(ME).await.expect(200).body["name"], "Ada");
    app.stop().await;
}

/// Contract: accounts 8 to 10; events 2, 4. It emits the same events and audit rows as if the customer had ended each of them.
#[tokio::test]
async fn deletion_destroys_sessions_and_revokes_credentials() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let bob = app.person(Tier::Enterprise).await;
    let other = app.device_of(ada.account).await;
    let (key, second) = (mint(&ada.client, &["account_owner"]).await, mint(&ada.client, &["read"]).await);
    let gone = mint(&ada.client, &["read"]).await;
    ada.client.delete(&gone.path()).await.expect(204);
    let program = key.client(&app.base_url);
    let (one, two, ended) = (program.session().await, ada.client.session().await, program.session().await);
    program.delete(&format!("/v1/sessions/{ended}")).await.expect(204);
    let his = bob.client.session().await;
    app.stranger().post("/v1/auth/magic-link/request", json!({"email": ada.email})).await.expect(200);
    let link = app.mail_to(&ada.email, Template::MagicLink).await.token;
    let busy = program.waiting(&one, 60_000);
    app.busy(&one).await;

    for body in [
        json!({}),
        json!({"confirm": null}),
        json!({"confirm": true}),
        json!({"confirm": ""}),
        json!({"confirm": "delete"}),
        json!({"confirm": "Delete-Account"}),
        json!({"confirm": "delete-account "}),
    ] {
        ada.client.delete_me(body).await.invalid("confirm");
    }
    ada.client.delete(ME).await.invalid("confirm");
    app.stranger().delete_me_for_good().await.problem(401, "unauthorized");
    program.delete_me_for_good().await.problem(403, "forbidden");
    assert_eq!(app.status_of(&two).await, "ready");

    let body = json!({"confirm": "delete-account", "surprise": 1});
    let answer = ada.client.delete_me(body).await.expect(204);
    assert_eq!(answer.headers["x-service-unknown-fields"], "surprise");
    assert_eq!((answer.body, answer.headers.contains_key("content-type")), (Value::Null, false));
    app.assert_nothing_survives(ada.account).await;
    for client in [&ada.client, &other, &program, &second.client(&app.base_url)] {
        client.get(ME).await.problem(401, "unauthorized");
        client.post("/v1/sessions", json!({})).await.problem(401, "unauthorized");
        client.delete_me_for_good().await.problem(401, "unauthorized");
    }
    app.stranger().post("/v1/auth/refresh", json!({"token": ada.token()})).await.problem(401, "unauthorized");
    app.stranger().post("/v1/auth/magic-link/consume", json!({"token": link})).await.invalid("token");
    busy.await.expect("a task").problem(410, "session-destroyed");

    for (session, live) in [(&one, true), (&two, true), (&ended, false)] {
        assert_eq!(app.status_of(session).await, "destroyed");
        let events = app.events(session).await;
        let [(kind, data)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(kind, "session.completed");
        assert_eq!(members(data), BTreeSet::from(["session_id", "duration_ms"]), "{live}");
    }
    let revoked: Vec<_> = revocations(&app, ada.account).await.iter().map(|data| data["api_key_id"].clone()).collect();
    let ids = BTreeSet::from([gone.id.as_str(), key.id.as_str(), second.id.as_str()]);
    assert_eq!(revoked.iter().filter_map(Value::as_str).collect::<BTreeSet<_>>(), ids);
    assert_eq!(revoked.len(), 3, "one event for each key");
    let log = app.audit(ada.account).await;
    let actions = |name: &str| log.iter().filter(|row| row.action == name).collect::<Vec<_>>();
    assert_eq!(actions("api_key.revoked").len(), 3);
    assert_eq!(actions("session.destroyed").len(), 3);
    for row in actions("session.destroyed") {
        assert_eq!((row.actor_type.as_str(), row.actor_account_id), ("customer", Some(ada.account.as_uuid())));
    }
    bob.client.get(ME).await.expect(200);
    assert_eq!(app.status_of(&his).await, "ready");

    let known = app.log_in(&ada.email, PASSWORD).await.problem(401, "unauthorized").body;
    let unknown = app.log_in("nobody@example.com", PASSWORD).await.problem(401, "unauthorized").body;
    assert_eq!((&known["title"], &known["detail"]), (&unknown["title"], &unknown["detail"]));
    let (local, _) = ada.email.split_once('@').expect("an address");
    let again = app.signed_in(&app.sign_up(&format!("{}@example.com", local.to_uppercase())).await);
    let me = again.get(ME).await.expect(200).body;
    assert_ne!(me["id"], ada.account.to_string());
    let list = again.get(KEYS).await.expect(200).body;
    assert_eq!(list["data"], json!([]));
    assert_eq!(again.get("/v1/sessions").await.expect(200).body["data"], json!([]));
    again.get(&format!("/v1/sessions/{one}")).await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: accounts 8; mfa 12, 15; errors 6.
#[tokio::test]
async fn deletion_with_second_factor_requires_recent_proof() {
    let app = App::simulated().with_second_factors().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let authenticator = app.enroll(&ada).await;
    let key = app.client_of(ada.account, &["account_owner"]).await;
    let refused = key.delete_me_for_good().await.problem(403, "forbidden");
    assert!(!members(&refused.body).contains("requires_mfa_step_up"));
    let step_up = async |body: Value, reason: &str| {
        let refused = ada.client.delete_me(body).await.problem(403, "mfa-step-up-required");
        assert_eq!(refused.body["title"], "MFA step-up required");
        assert_eq!((&refused.body["requires_mfa_step_up"], &refused.body["reason"]), (&json!(true), &json!(reason)));
    };
    let confirmed = json!({"confirm": "delete-account"});
    step_up(confirmed.clone(), "never_satisfied").await;
    app.prove(&ada).await;
    let stale = "update web_sessions set mfa_satisfied_at = now() - interval '15 minutes' where account_id = $1";
    app.execute(stale, ada.account.as_uuid()).await;
    step_up(confirmed.clone(), "expired").await;
    ada.client.delete_me(json!({"confirm": "no"})).await.expect(403);
    let other = app.device_of(ada.account).await;
    let code = app.fresh_code(&ada, &authenticator).await;
    other.post("/v1/auth/mfa/step-up", json!({"code": code})).await.expect(200);
    step_up(confirmed, "expired").await;
    let code = app.fresh_code(&ada, &authenticator).await;
    ada.client.post("/v1/auth/mfa/step-up", json!({"code": code})).await.expect(200);
    ada.client.delete_me(json!({"confirm": "no"})).await.invalid("confirm");
    ada.client.delete_me_for_good().await.expect(204);
    app.assert_nothing_survives(ada.account).await;
    assert_eq!(app.log_in(&ada.email, PASSWORD).await.problem(401, "unauthorized").body["title"], "Unauthorized");
    app.stop().await;
}

/// They would give a deleted account a session, a key or a credential that outlives it.
async fn grab(
    app: &App,
    person: &Person,
    key: &Client,
    rotated: &str,
    user_code: &str,
) -> Vec<(Client, Method, String, Value)> {
    let login = json!({"email": person.email, "password": PASSWORD});
    let minted = json!({"name": "late", "scopes": ["account_owner"]});
    let bound = json!({"user_code": user_code, "state": "b0fd8fce1d7f4e53"});
    let post = |client: &Client, path: &str, body: Value| (client.clone(), Method::POST, path.to_owned(), body);
    let device = app.device_of(person.account).await;
    vec![
        post(key, "/v1/sessions", json!({})),
        post(&person.client, "/v1/sessions", json!({})),
        post(key, KEYS, minted.clone()),
        post(&person.client, KEYS, minted),
        post(key, &format!("{KEYS}/{rotated}/rotate"), json!({})),
        post(&device, "/v1/auth/cli-authorize/bind-device-code", bound),
        post(&app.stranger(), "/v1/auth/login", login),
        post(&app.stranger(), "/v1/auth/refresh", json!({"token": device.key})),
    ]
}

/// Contract: accounts 11. They wait for the deletion, then fail because the account is gone.
#[tokio::test]
async fn requests_during_deletion_create_nothing() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let keys =
        [mint(&ada.client, &["read"]).await, mint(&ada.client, &["read"]).await, mint(&ada.client, &["read"]).await];
    let key = app.client_of(ada.account, &["account_owner"]).await;
    let body = json!({"state": "b0fd8fce1d7f4e53"});
    let device = app.stranger().post("/v1/auth/cli-authorize/initiate", body).await.expect(200).body;
    let user_code = device["user_code"].as_str().expect("a code");
    let requests = grab(&app, &ada, &key, &keys[1].id, user_code).await;

    // The deletion blocks on the API keys while it holds the lock on the account row.
    let mut held = app.database.pool.begin().await.expect("a transaction");
    for key in [&keys[0], &keys[2]] {
        let lock = sqlx::query("select from api_keys where id = $1 for update").bind(uuid_of(&key.id));
        lock.execute(&mut *held).await.expect("a lock");
    }
    let deleter = ada.client.clone();
    let deletion = tokio::spawn(async move { deleter.delete_me_for_good().await });
    app.wait_for_blocked_statements(1).await;
    let count = i64::try_from(requests.len()).expect("a few");
    let requests = tokio::spawn(at_once(requests.into_iter().map(|(client, method, path, body)| async move {
        let answer = client.send(client.request(method, &path).json(&body)).await;
        (path, answer)
    })));
    app.wait_for_blocked_statements(1 + count).await;
    held.commit().await.expect("a commit");
    deletion.await.expect("a task").expect(204);
    for (path, answer) in requests.await.expect("a task") {
        assert!(matches!(answer.status.as_u16(), 401 | 403 | 404 | 409), "{path}: {} {}", answer.status, answer.body);
    }
    app.assert_nothing_survives(ada.account).await;
    assert_eq!(app.count_of(ada.account, "select count(*) from sessions where account_id = $1").await, 0);
    assert_eq!(app.count_of(ada.account, "select count(*) from api_keys where account_id = $1").await, 4);
    app.stop().await;
}

/// Contract: accounts 11. No request fails with a 5xx.
#[tokio::test]
async fn deletion_wins_every_race() {
    let app = App::simulated().set("worker.max_sessions", "64").start().await;
    for place in [0, 3, 6, 8] {
        let ada = app.person(Tier::Enterprise).await;
        let rotated = mint(&ada.client, &["read"]).await;
        let key = app.client_of(ada.account, &["account_owner"]).await;
        let live = key.session().await;
        let body = json!({"state": "b0fd8fce1d7f4e53"});
        let device = app.stranger().post("/v1/auth/cli-authorize/initiate", body).await.expect(200).body;
        let user_code = device["user_code"].as_str().expect("a code");
        let mut requests = grab(&app, &ada, &key, &rotated.id, user_code).await;
        let deletion = json!({"confirm": "delete-account"});
        requests.insert(place, (ada.client.clone(), Method::DELETE, ME.to_owned(), deletion));
        let answers = at_once(requests.into_iter().map(|(client, method, path, body)| async move {
            let answer = client.send(client.request(method, &path).json(&body)).await;
            (path, answer)
        }));
        for (path, answer) in answers.await {
            if path == ME {
                assert_eq!(answer.status, 204, "{}", answer.body);
            } else {
                let status = answer.status.as_u16();
                assert!(matches!(status, 200 | 201 | 401 | 403 | 404 | 409 | 410), "{path}: {status} {}", answer.body);
            }
        }
        app.assert_nothing_survives(ada.account).await;
        assert_eq!(app.status_of(&live).await, "destroyed");
        let exchange = json!({"code": device["code"], "state": "b0fd8fce1d7f4e53"});
        let exchanged = app.stranger().post("/v1/auth/cli-authorize/exchange", exchange).await.expect(200).body;
        assert_ne!(exchanged["status"], "bound");
    }
    app.stop().await;
}

/// Contract: requests 8.
#[tokio::test]
async fn account_writes_report_unknown_fields() {
    const UNKNOWN: &str = "x-service-unknown-fields";
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let declared = [
        (Method::PATCH, ME.to_owned(), json!({"name": "Ada"}), 200),
        (
            Method::POST,
            KEYS.to_owned(),
            json!({"name": "CI", "scopes": ["read"], "expires_at": "2999-01-01T00:00:00Z"}),
            201,
        ),
        (
            Method::PUT,
            "/v1/account/email-preferences".to_owned(),
            json!({"event_type": "tier-changed", "opted_in": true}),
            200,
        ),
        (Method::POST, format!("{KEYS}/{}/rotate", mint(&ada.client, &["read"]).await.id), json!({}), 201),
        (Method::POST, format!("{KEYS}/{}/rotate", unknown_id("key")), json!({}), 404),
        (Method::DELETE, mint(&ada.client, &["read"]).await.path(), json!({}), 204),
        (Method::DELETE, format!("{DEVICES}/{}", unknown_id("wsess")), json!({}), 404),
        (Method::DELETE, format!("{DEVICES}?keep=current"), json!({}), 200),
        (Method::POST, "/v1/account/mfa/disable".to_owned(), json!({"confirm": "disable-mfa"}), 204),
        (Method::DELETE, "/v1/account/mfa".to_owned(), json!({"confirm": "disable-mfa"}), 204),
    ];
    for (method, path, body, status) in declared {
        let mut more = body.clone();
        more["surprise"] = json!({"nested": 1});
        more["größe,x"] = true.into();
        let answer = ada.client.send(ada.client.request(method.clone(), &path).json(&more)).await.expect(status);
        assert_eq!(answer.headers[UNKNOWN], "surprise,gr%C3%B6%C3%9Fe%2Cx", "{method} {path}");
        let answer = ada.client.send(ada.client.request(method.clone(), &path).json(&body)).await;
        assert!(!answer.headers.contains_key(UNKNOWN), "{method} {path}: {:?}", answer.headers[UNKNOWN]);
    }
    let missing = ada.client.post(KEYS, json!({"nom": "CI"})).await.invalid("name");
    assert_eq!(missing.headers[UNKNOWN], "nom");
    let stranger = app.stranger().patch(ME, json!({"nom": "CI"})).await.problem(401, "unauthorized");
    assert!(!stranger.headers.contains_key(UNKNOWN), "a request without credentials does not learn field names");
    app.stop().await;
}
