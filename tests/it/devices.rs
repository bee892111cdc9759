//! Device authorization of desktop apps (contract: devices).

use std::collections::BTreeSet;

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api_keys::{KEYS, assert_key};
use crate::support::people::Person;
use crate::support::records::uuid_of;
use crate::support::routes::{Route, session_routes};
use crate::support::{Answer, App, Client, assert_timestamp, at_once, members};

const INITIATE: &str = "/v1/auth/cli-authorize/initiate";
const BIND: &str = "/v1/auth/cli-authorize/bind-device-code";
const EXCHANGE: &str = "/v1/auth/cli-authorize/exchange";
const STATE: &str = "b0fd8fce1d7f4e53";

/// Has started a device authorization.
#[derive(Debug, Clone)]
struct Desktop {
    code: String,
    user_code: String,
    browser_url: String,
}

impl App {
    async fn desktop(&self) -> Desktop {
        self.desktop_called(json!("Kitfleet for Mac")).await
    }

    async fn desktop_called(&self, label: Value) -> Desktop {
        let body = json!({"state": STATE, "client_label": label});
        let answer = self.stranger().post(INITIATE, body).await.expect(200);
        assert_eq!(members(&answer.body), BTreeSet::from(["browser_url", "code", "user_code"]));
        assert_eq!(answer.headers["cache-control"], "no-store");
        let text = |member: &str| answer.body[member].as_str().expect("a text").to_owned();
        Desktop { code: text("code"), user_code: text("user_code"), browser_url: text("browser_url") }
    }

    async fn exchange(&self, desktop: &Desktop) -> Value {
        self.exchange_with(&desktop.code, STATE).await
    }

    async fn exchange_with(&self, code: &str, state: &str) -> Value {
        let answer = self.stranger().post(EXCHANGE, json!({"code": code, "state": state})).await.expect(200);
        assert_eq!(answer.headers["cache-control"], "no-store");
        answer.body
    }

    /// Exchanges the code of a bound app and returns a client with its key.
    async fn key_client(&self, desktop: &Desktop) -> Client {
        let bound = self.exchange(desktop).await;
        assert_eq!(members(&bound), BTreeSet::from(["account_id", "api_key", "status"]));
        assert_eq!(bound["status"], "bound");
        Client::new(&self.base_url, bound["api_key"].as_str())
    }

    /// Bound by this person.
    pub async fn activated(&self, person: &Person) -> Client {
        let desktop = self.desktop().await;
        bind(&person.client, &desktop.user_code).await.expect(200);
        self.key_client(&desktop).await
    }

    async fn alter(&self, desktop: &Desktop, change: &'static str) {
        let id: Uuid = sqlx::query_scalar("select id from device_authorizations where user_code = $1")
            .bind(desktop.user_code.replace('-', ""))
            .fetch_one(&self.database.pool)
            .await
            .expect("the app's row");
        self.execute(change, id).await;
    }

    async fn row_matches(&self, desktop: &Desktop, condition: &'static str) -> bool {
        let query = format!("select {condition} from device_authorizations where user_code = $1");
        sqlx::query_scalar(sqlx::AssertSqlSafe(query))
            .bind(desktop.user_code.replace('-', ""))
            .fetch_one(&self.database.pool)
            .await
            .expect("the app's row")
    }
}

async fn bind(client: &Client, user_code: &str) -> Answer {
    client.post(BIND, json!({"user_code": user_code, "state": STATE})).await
}

fn pending() -> Value {
    json!({"status": "pending"})
}

fn expired() -> Value {
    json!({"status": "expired"})
}

const DEVICE_KEYS: &str = "select count(*) from api_keys where kind = 'device'";
const OVER: &str = "update device_authorizations set expires_at = now() - interval '1 second' where id = $1";

/// Contract: devices 1. `user_code` is 8 characters of Crockford base32 shown as `XXXX-XXXX`, `browser_url` is
/// `{base_url}/activate?user_code=…`. Unknown fields are not reported, because the route needs no credential
/// (contract: requests 8).
#[tokio::test]
async fn initiate_returns_codes_and_browser_url() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let mut user_codes = BTreeSet::new();
    for _ in 0..20 {
        let desktop = app.desktop().await;
        let (first, second) = desktop.user_code.split_once('-').expect("two groups");
        for group in [first, second] {
            let sound = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase() && !"ILOU".contains(c);
            assert!(group.len() == 4 && group.chars().all(sound), "{}", desktop.user_code);
        }
        assert_eq!(desktop.browser_url, format!("{}/activate?user_code={}", app.base_url, desktop.user_code));
        assert!(desktop.code.len() >= 43 && !desktop.browser_url.contains(&desktop.code));
        user_codes.insert(desktop.user_code);
    }
    assert_eq!(user_codes.len(), 20);
    let desktop = app.desktop().await;
    assert_eq!(app.tables_with(&desktop.code).await, <[String; 0]>::default(), "the code is stored in clear text");

    let refused = [
        (json!({}), "state"),
        (json!({"state": null}), "state"),
        (json!({"state": 1_234_567_890_123_456_i64}), "state"),
        (json!({"state": ""}), "state"),
        (json!({"state": "x".repeat(15)}), "state"),
        (json!({"state": "ü".repeat(15)}), "state"),
        (json!({"state": "x".repeat(129)}), "state"),
        (json!({"state": "0123456789abcde\0"}), "state"),
        (json!({"state": STATE, "client_label": 1}), "client_label"),
        (json!({"state": STATE, "client_label": "x".repeat(121)}), "client_label"),
        (json!({"state": STATE, "client_label": "ü".repeat(121)}), "client_label"),
        (json!({"state": STATE, "client_label": "a\nb"}), "client_label"),
        (json!({"state": STATE, "client_label": "a\u{1b}[31m"}), "client_label"),
        (json!({"state": STATE, "client_label": "a\0"}), "client_label"),
    ];
    let known = app.count("select count(*) from device_authorizations").await;
    for (body, field) in refused {
        stranger.post(INITIATE, body).await.invalid(field);
    }
    stranger.post(INITIATE, json!([STATE])).await.problem(400, "validation-failed");
    stranger.post_raw(INITIATE, "{").await.problem(400, "bad-request");
    assert_eq!(app.count("select count(*) from device_authorizations").await, known);
    let taken = [
        json!({"state": "x".repeat(16)}),
        json!({"state": "ü".repeat(128)}),
        json!({"state": STATE, "client_label": null}),
        json!({"state": STATE, "client_label": "ü".repeat(120)}),
        json!({"state": STATE, "surprise": 1}),
    ];
    for body in taken {
        let answer = stranger.post(INITIATE, body).await.expect(200);
        assert!(!answer.headers.contains_key("x-service-unknown-fields"));
    }
    app.stop().await;

    let app = App::simulated().set("server.base_url", "https://kitfleet.example").start().await;
    let desktop = app.desktop().await;
    let expected = format!("https://kitfleet.example/activate?user_code={}", desktop.user_code);
    assert_eq!(desktop.browser_url, expected);
    app.stop().await;
}

/// Contract: devices 3, 5. The status is pending, bound once, then expired, always with 200. The scope is `account_owner`
/// unless the person chose others.
#[tokio::test]
async fn app_receives_its_key_once() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::ApiStarter).await;
    let desktop = app.desktop().await;
    for _ in 0..2 {
        assert_eq!(app.exchange(&desktop).await, pending());
    }
    let answer = bind(&ada.client, &desktop.user_code).await.expect(200);
    assert_eq!(answer.body, json!({"bound": true, "client_label": "Kitfleet for Mac"}));
    assert_eq!(answer.headers["cache-control"], "no-store");
    let between: Vec<String> = sqlx::query_scalar(
        "select k::text from api_keys k union all select d::text from device_authorizations d
         union all select a::text from audit_log a union all select convert_from(job, 'UTF8') from apalis.jobs",
    )
    .fetch_all(&app.database.pool)
    .await
    .expect("the rows");

    let bound = app.exchange(&desktop).await;
    let key = bound["api_key"].as_str().expect("a key");
    assert_eq!((&bound["status"], &bound["account_id"]), (&json!("bound"), &json!(ada.account.to_string())));
    assert_key(key, "svc_live_");
    for _ in 0..2 {
        assert_eq!(app.exchange(&desktop).await, expired());
    }
    bind(&ada.client, &desktop.user_code).await.problem(404, "not-found");
    let as_bytes = "select encode(convert_to($1, 'UTF8'), 'hex')";
    let as_bytes: String = sqlx::query_scalar(as_bytes).bind(key).fetch_one(&app.database.pool).await.expect("a text");
    for text in [&key[9..73], &as_bytes] {
        assert!(!between.iter().any(|row| row.contains(text)), "the waiting key was stored in clear text");
    }
    assert_eq!(app.tables_with(key).await, <[String; 0]>::default());
    assert!(!app.log(0).contains(key), "the key is logged");

    let client = Client::new(&app.base_url, Some(key));
    assert_eq!(client.get("/v1/account/me").await.expect(200).body["email"], ada.email);
    client.session().await;
    let keys = client.get(KEYS).await.expect(200).body;
    let [record] = &keys["data"].as_array().expect("a list")[..] else { panic!("{keys}") };
    assert_eq!((&record["name"], &record["scopes"]), (&json!("Kitfleet for Mac"), &json!(["account_owner"])));
    assert_eq!((&record["key_prefix"], &record["expires_at"]), (&json!(key[..12]), &Value::Null));
    assert_eq!(record["created_by_account_id"], ada.account.to_string());
    let log = app.audit(ada.account).await;
    assert_eq!((log[0].action.as_str(), log[0].actor_key_id), ("api_key.minted", None));
    assert_eq!(log[0].target_resource_id.as_deref(), record["id"].as_str());

    // With chosen scopes, an app without a label, and the code typed in lower case.
    let desktop = app.desktop_called(Value::Null).await;
    let typed = format!(" {} ", desktop.user_code.to_lowercase().replace('-', ""));
    let scoped = json!({"user_code": typed, "state": STATE, "scopes": ["read", "write:sessions"]});
    let answer = ada.client.post(BIND, scoped).await.expect(200);
    assert_eq!(answer.body, json!({"bound": true, "client_label": null}));
    let client = app.key_client(&desktop).await;
    client.get("/v1/sessions").await.expect(200);
    client.post(KEYS, json!({"name": "more", "scopes": ["read"]})).await.problem(403, "forbidden");
    let newest = ada.client.get(KEYS).await.expect(200).body["data"][0].clone();
    assert_eq!(newest["scopes"], json!(["read", "write:sessions"]));
    assert!(newest["name"].as_str().is_some_and(|name| !name.is_empty()));
    app.stop().await;
}

/// Contract: devices 3 to 5. It does not use up the code.
#[tokio::test]
async fn bind_requires_a_web_session_and_the_state() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let desktop = app.desktop().await;
    let body = json!({"user_code": desktop.user_code, "state": STATE});
    app.stranger().post(BIND, body.clone()).await.problem(401, "unauthorized");
    for scope in ["account_owner", "admin", "write"] {
        let key = app.client_of(ada.account, &[scope]).await;
        key.post(BIND, body.clone()).await.problem(403, "forbidden");
    }
    let with = |member: &str, value: Value| {
        let mut changed = body.clone();
        changed[member] = value;
        changed
    };
    let refused = [
        (json!({"state": STATE}), "user_code"),
        (json!({"user_code": desktop.user_code}), "state"),
        (with("user_code", 12_345_678.into()), "user_code"),
        (with("user_code", "\0".into()), "user_code"),
        (with("state", "B0FD8FCE1D7F4E53".into()), "state"),
        (with("state", format!("{STATE}0").into()), "state"),
        (with("state", "".into()), "state"),
        (with("state", 1.into()), "state"),
        (with("scopes", json!([])), "scopes"),
        (with("scopes", "read".into()), "scopes"),
        (with("scopes", json!(["read", "sing"])), "scopes.1"),
        (with("scopes", json!(["admin"])), "scopes.0"),
    ];
    for (body, field) in refused {
        ada.client.post(BIND, body).await.invalid(field);
    }
    let late = app.desktop().await;
    app.alter(&late, OVER).await;
    let long = "0".repeat(4_000);
    for code in ["0000-0000", "", "-", "UUUU-UUUU", "'; --", &desktop.code, &long, &late.user_code] {
        bind(&ada.client, code).await.problem(404, "not-found");
    }
    assert_eq!(app.exchange(&late).await, expired());

    let longer = format!("{STATE}0");
    for (code, state) in [
        ("x", STATE),
        ("", STATE),
        (desktop.user_code.as_str(), STATE),
        (&late.code, STATE),
        (&desktop.code, "0000000000000000"),
        (&desktop.code, &longer),
        (&desktop.code, ""),
    ] {
        assert_eq!(app.exchange_with(code, state).await, expired(), "{code} {state}");
    }
    for (body, field) in [
        (json!({"code": desktop.code}), "state"),
        (json!({"state": STATE}), "code"),
        (json!({"code": 1, "state": STATE}), "code"),
        (json!({"code": "\0", "state": STATE}), "code"),
    ] {
        let answer = app.stranger().post(EXCHANGE, body).await.invalid(field);
        assert!(!answer.headers.contains_key("x-service-unknown-fields"));
    }
    assert_eq!(app.exchange(&desktop).await, pending(), "the rejected requests did not use up the code");
    assert_eq!(app.count(DEVICE_KEYS).await, 0);

    let odd = ada.client.post(BIND, with("surprise", 1.into())).await.expect(200);
    assert_eq!(odd.headers["x-service-unknown-fields"], "surprise");
    assert_eq!(app.exchange_with(&desktop.code, &longer).await, expired());
    app.key_client(&desktop).await.get("/v1/sessions").await.expect(200);
    app.stop().await;
}

/// Contract: devices 2. The user code identifies it. Other credentials and other codes get nothing.
#[tokio::test]
async fn person_sees_the_waiting_app() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    let desktop = app.desktop().await;
    let path = |code: &str| format!("/v1/auth/cli-authorize/{code}");
    let seen = ada.client.get(&path(&desktop.user_code)).await.expect(200);
    let fields = ["client_label", "state", "ip_address", "created_at", "expires_at"];
    assert_eq!(members(&seen.body), BTreeSet::from(fields));
    assert_eq!((&seen.body["client_label"], &seen.body["state"]), (&json!("Kitfleet for Mac"), &json!(STATE)));
    assert_eq!(seen.body["ip_address"], "127.0.0.1");
    assert_eq!(seen.headers["cache-control"], "no-store");
    for moment in ["created_at", "expires_at"] {
        assert_timestamp(&seen.body[moment]);
    }
    let typed = desktop.user_code.to_lowercase().replace('-', "");
    assert_eq!(ada.client.get(&path(&typed)).await.expect(200).body, seen.body);

    app.stranger().get(&path(&desktop.user_code)).await.problem(401, "unauthorized");
    let key = app.client_with(Tier::Enterprise, &["account_owner"]).await;
    key.get(&path(&desktop.user_code)).await.problem(403, "forbidden");
    let late = app.desktop().await;
    app.alter(&late, OVER).await;
    bind(&ada.client, &desktop.user_code).await.expect(200);
    for code in ["0000-0000", "x", "%00", "initiated", &desktop.code, &late.user_code, &desktop.user_code] {
        ada.client.get(&path(code)).await.problem(404, "not-found");
    }
    app.stop().await;
}

/// Contract: devices 6.
#[tokio::test]
async fn unfetched_key_expires() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let desktop = app.desktop().await;
    assert!(
        app.row_matches(&desktop, "expires_at - now() between interval '599 seconds' and interval '10 minutes'").await
    );
    bind(&ada.client, &desktop.user_code).await.expect(200);
    let held = "expires_at - now() between interval '119 seconds' and interval '2 minutes'";
    assert!(app.row_matches(&desktop, held).await);
    let waiting = ada.client.get(KEYS).await.expect(200).body["data"][0].clone();
    assert_timestamp(&waiting["expires_at"]);

    app.alter(&desktop, OVER).await;
    for _ in 0..2 {
        assert_eq!(app.exchange(&desktop).await, expired());
    }
    bind(&ada.client, &desktop.user_code).await.problem(404, "not-found");
    let worthless = ada.client.get(KEYS).await.expect(200).body["data"][0].clone();
    assert_eq!(worthless, waiting, "the exchange does not change the key");
    let behind = "select count(*) from api_keys
                  where kind = 'device' and coalesce(expires_at > now() + interval '2 minutes', true)";
    assert_eq!(app.count(behind).await, 0);

    let pending = app.desktop().await;
    app.alter(&pending, OVER).await;
    assert_eq!(app.exchange(&pending).await, expired());
    bind(&ada.client, &pending.user_code).await.problem(404, "not-found");
    assert_eq!(app.count(DEVICE_KEYS).await, 1);
    app.stop().await;

    let app = App::simulated().set("auth.device_code_ttl", "3h").set("auth.device_bound_ttl", "1h").start().await;
    let ada = app.person(Tier::Enterprise).await;
    let desktop = app.desktop().await;
    assert!(app.row_matches(&desktop, "expires_at - now() between interval '2:59' and interval '3:00'").await);
    bind(&ada.client, &desktop.user_code).await.expect(200);
    assert!(app.row_matches(&desktop, "expires_at - now() between interval '0:59' and interval '1:00'").await);
    app.key_client(&desktop).await;
    app.stop().await;
}

/// Contract: devices 7.
#[tokio::test]
async fn concurrent_exchanges_return_the_key_once() {
    let app = App::simulated().set("rate_limits.device_exchange_per_minute", "1000000").start().await;
    let ada = app.person(Tier::Enterprise).await;
    let desktop = app.desktop().await;
    let answers = at_once((0..16).map(|_| {
        let (client, desktop) = (ada.client.clone(), desktop.clone());
        async move { bind(&client, &desktop.user_code).await.status.as_u16() }
    }));
    let mut answers = answers.await;
    answers.sort_unstable();
    assert_eq!((answers[0], &answers[1..]), (200, &[404; 15][..]));
    assert_eq!(app.count(DEVICE_KEYS).await, 1);

    let answers = at_once((0..64).map(|_| {
        let (client, code) = (app.stranger(), desktop.code.clone());
        async move { client.post(EXCHANGE, json!({"code": code, "state": STATE})).await.expect(200).body }
    }));
    let (won, lost): (Vec<_>, Vec<_>) = answers.await.into_iter().partition(|answer| answer["status"] == "bound");
    assert_eq!((won.len(), lost.len()), (1, 63));
    assert!(lost.iter().all(|answer| *answer == expired()), "{lost:?}");
    let key = Client::new(&app.base_url, won[0]["api_key"].as_str());
    key.get("/v1/sessions").await.expect(200);
    assert_eq!(app.count(DEVICE_KEYS).await, 1);

    // While the person binds the code, no polling app receives `expired` before one has received the key.
    let desktop = app.desktop().await;
    let polls = (0..8).map(|_| {
        let (client, code) = (app.stranger(), desktop.code.clone());
        async move {
            loop {
                let body = client.post(EXCHANGE, json!({"code": code, "state": STATE})).await.expect(200).body;
                if body != pending() {
                    return body["status"] == "bound";
                }
            }
        }
    });
    let polls = tokio::spawn(at_once(polls.collect::<Vec<_>>()));
    bind(&ada.client, &desktop.user_code).await.expect(200);
    let bound = polls.await.expect("the polls end").into_iter().filter(|bound| *bound).count();
    assert_eq!(bound, 1);
    app.stop().await;
}

/// Contract: devices 10; rate-limits 4. Bind and exchange are also limited by code, in any spelling and from any address.
#[tokio::test]
async fn device_routes_are_rate_limited_by_address_and_code() {
    let app = App::simulated()
        .set("server.trusted_proxies", "127.0.0.1")
        .set("rate_limits.device_initiate_per_minute", "2")
        .set("rate_limits.device_bind_per_minute", "3")
        .set("rate_limits.device_exchange_per_minute", "3")
        .start()
        .await;
    let ada = app.person(Tier::Enterprise).await;
    let stranger = app.stranger();
    let from = async |client: &Client, ip: &str, path: &str, body: Value| {
        let request = client.request(Method::POST, path).header("x-forwarded-for", ip).json(&body);
        client.send(request).await
    };
    let limited = |answer: Answer| {
        let refused = answer.problem(429, "rate-limited");
        assert!(refused.headers.contains_key("retry-after"));
    };
    for _ in 0..2 {
        from(&stranger, "192.0.2.1", INITIATE, json!({"state": STATE})).await.expect(200);
    }
    limited(from(&stranger, "192.0.2.1", INITIATE, json!({"state": STATE})).await);
    from(&stranger, "192.0.2.2", INITIATE, json!({"state": STATE})).await.expect(200);

    let exchange = |code: &str| json!({"code": code, "state": STATE});
    for code in ["a", "b", "c"] {
        from(&stranger, "192.0.2.1", EXCHANGE, exchange(code)).await.expect(200);
    }
    limited(from(&stranger, "192.0.2.1", EXCHANGE, exchange("d")).await);
    for ip in ["192.0.2.3", "192.0.2.4", "192.0.2.5"] {
        from(&stranger, ip, EXCHANGE, exchange("e")).await.expect(200);
    }
    limited(from(&stranger, "192.0.2.6", EXCHANGE, exchange("e")).await);
    from(&stranger, "192.0.2.6", EXCHANGE, exchange("f")).await.expect(200);

    let bind = |code: &str| json!({"user_code": code, "state": STATE});
    for code in ["1111-1111", "1111-1112", "1111-1113"] {
        from(&ada.client, "192.0.2.1", BIND, bind(code)).await.problem(404, "not-found");
    }
    limited(from(&ada.client, "192.0.2.1", BIND, bind("1111-1114")).await);
    for (ip, code) in [("192.0.2.3", "0000-000A"), ("192.0.2.4", "0000000a"), ("192.0.2.5", " oOoO 000a ")] {
        from(&ada.client, ip, BIND, bind(code)).await.problem(404, "not-found");
    }
    limited(from(&ada.client, "192.0.2.6", BIND, bind("0000-000A")).await);
    from(&ada.client, "192.0.2.6", BIND, bind("0000-000B")).await.problem(404, "not-found");
    app.stop().await;
}

fn route(method: Method, path: &str, body: Option<Value>) -> Route {
    Route { method, path: path.to_owned(), body }
}

/// Contract: devices 9; authorization 3, 5. The stored type of the credential decides, not the token's prefix.
#[tokio::test]
async fn device_on_the_free_tier_is_limited_to_its_routes() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    let ada = app.person(Tier::Free).await;
    let desktop = app.activated(&ada).await;
    assert_key(desktop.key.as_deref().expect("a key"), "svc_test_");
    let set_tier = async |tier: &str| {
        app.run(&["account", "set-tier", &ada.account.to_string(), tier]).await.code(0);
    };
    let unknown = "key_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5";
    let name = json!({"name": "Ada"});
    let elsewhere = [
        route(Method::PATCH, "/v1/account/me", Some(name)),
        route(Method::GET, KEYS, None),
        route(Method::POST, KEYS, Some(json!({}))),
        route(Method::GET, &format!("{KEYS}/{unknown}"), None),
        route(Method::DELETE, &format!("{KEYS}/{unknown}"), None),
        route(Method::POST, &format!("{KEYS}/{unknown}/rotate"), None),
        route(Method::GET, "/v1/account/mfa", None),
        route(Method::GET, "/v1/account/web-sessions", None),
        route(Method::GET, "/v1/account/email-preferences", None),
        route(Method::PUT, "/v1/account/email-preferences", Some(json!({}))),
        route(Method::GET, "/v1/oauth/clients", None),
        route(Method::POST, "/v1/oauth/clients", Some(json!({}))),
        route(Method::DELETE, "/v1/live-links/lnk_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", None),
    ];
    let never = [
        route(Method::DELETE, "/v1/account/me", Some(json!({"confirm": "delete-account"}))),
        route(Method::DELETE, "/v1/account/web-sessions?keep=current", None),
        route(Method::POST, "/v1/account/mfa/enroll", None),
        route(Method::POST, BIND, Some(json!({}))),
    ];
    let works = async |client: &Client| {
        assert_eq!(client.get("/v1/account/me").await.expect(200).body["email"], ada.email);
        client.get("/v1/archetypes").await.expect(200);
        client.get("/v1/sessions").await.expect(200);
        let session = client.session().await;
        for route in session_routes(&session) {
            let answer = client.call(&route).await;
            assert!(answer.status.is_success(), "{route:?}: {} {}", answer.status, answer.body);
        }
    };
    let restricted = async |client: &Client| {
        works(client).await;
        for route in elsewhere.iter().chain(&never) {
            let refused = client.call(route).await.problem(403, "forbidden");
            let detail = refused.body["detail"].as_str().expect("a text");
            assert!(detail.contains("apiAccess") && detail.contains("free"), "{route:?}: {detail}");
        }
    };
    let unrestricted = async |client: &Client| {
        works(client).await;
        for route in &elsewhere {
            let answer = client.call(route).await;
            assert!(matches!(answer.status.as_u16(), 200 | 400 | 404), "{route:?}: {} {}", answer.status, answer.body);
        }
        for route in &never {
            client.call(route).await.problem(403, "forbidden");
        }
    };
    restricted(&desktop).await;
    let customer = app.client_of(ada.account, &["account_owner"]).await;
    customer.get("/v1/account/me").await.problem(403, "forbidden");

    set_tier("api_starter").await;
    unrestricted(&desktop).await;
    let paid = app.activated(&ada).await;
    assert_key(paid.key.as_deref().expect("a key"), "svc_live_");
    unrestricted(&paid).await;
    set_tier("free").await;
    restricted(&paid).await;

    let keys = ada.client.get(KEYS).await.expect(200).body;
    let id = keys["data"][0]["id"].as_str().expect("an id");
    let rotated = ada.client.post(&format!("{KEYS}/{id}/rotate"), json!({})).await.expect(201);
    let successor = rotated.body["key"].as_str().expect("a key");
    assert_key(successor, "svc_test_");
    restricted(&Client::new(&app.base_url, Some(successor))).await;
    app.stop().await;
}

/// Contract: devices 8. This includes a key that was revoked or rotated before the exchange.
#[tokio::test]
async fn app_of_suspended_or_deleted_account_gets_no_key() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let [suspended, revoked, deleted] = [app.desktop().await, app.desktop().await, app.desktop().await];
    bind(&ada.client, &suspended.user_code).await.expect(200);
    app.run(&["account", "suspend", &ada.account.to_string()]).await.code(0);
    assert_eq!(app.exchange(&suspended).await, expired());
    let refused = bind(&ada.client, &revoked.user_code).await.problem(403, "forbidden");
    assert_eq!(refused.body["title"], "AccountSuspended");
    app.run(&["account", "reactivate", &ada.account.to_string()]).await.code(0);

    bind(&ada.client, &revoked.user_code).await.expect(200);
    let keys = ada.client.get(KEYS).await.expect(200).body;
    let id = keys["data"][0]["id"].as_str().expect("an id");
    ada.client.delete(&format!("{KEYS}/{id}")).await.expect(204);
    assert_eq!(app.exchange(&revoked).await, expired());
    let rotated = app.desktop().await;
    bind(&ada.client, &rotated.user_code).await.expect(200);
    let keys = ada.client.get(KEYS).await.expect(200).body;
    let id = keys["data"][0]["id"].as_str().expect("an id");
    ada.client.post(&format!("{KEYS}/{id}/rotate"), json!({})).await.expect(201);
    assert_eq!(app.exchange(&rotated).await, expired());

    bind(&ada.client, &deleted.user_code).await.expect(200);
    let waiting = app.desktop().await;
    let confirmed = ada.client.request(Method::DELETE, "/v1/account/me").json(&json!({"confirm": "delete-account"}));
    ada.client.send(confirmed).await.expect(204);
    assert_eq!(app.exchange(&deleted).await, expired());
    bind(&ada.client, &waiting.user_code).await.problem(401, "unauthorized");
    assert_eq!(app.exchange(&waiting).await, pending(), "another person may bind the app");
    let bob = app.person(Tier::Enterprise).await;
    bind(&bob.client, &waiting.user_code).await.expect(200);
    let theirs = app.key_client(&waiting).await.get("/v1/account/me").await.expect(200).body;
    assert_eq!(uuid_of(theirs["id"].as_str().expect("an id")), bob.account.as_uuid());
    app.stop().await;
}
