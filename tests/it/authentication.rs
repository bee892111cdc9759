//! Who may do what (interface, "Authentication"; decisions D4 and D13, "Scopes").

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::ids::AccountId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::records::uuid_of;
use crate::support::routes::{Route, session_routes};
use crate::support::{Answer, App, Client, unknown_id};

/// The scopes that open a route.
type Opens = &'static [&'static str];

const READS_SESSIONS: Opens = &["read", "read:sessions", "account_owner", "admin"];
const WRITES_SESSIONS: Opens = &["write", "write:sessions", "account_owner", "admin"];
const READS: Opens = &["read", "account_owner", "admin"];
const OWNS: Opens = &["account_owner", "admin"];
/// Only somebody who signed in is let in.
const NO_KEY: Opens = &[];

fn route(method: Method, path: &str, body: Option<Value>) -> Route {
    Route { method, path: path.to_owned(), body }
}

/// Every route of sessions. None of them does anything: the session does not exist, and the create is refused.
fn of_sessions() -> Vec<(Route, Opens)> {
    let mut routes = session_routes(&unknown_id("ses"));
    routes.push(route(Method::GET, "/v1/sessions", None));
    routes.push(route(Method::POST, "/v1/sessions", Some(json!({"proxy": 1}))));
    let opens = |route: &Route| if route.method == Method::GET { READS_SESSIONS } else { WRITES_SESSIONS };
    routes.into_iter().map(|route| (route.clone(), opens(&route))).collect()
}

/// The routes of an account that honor the account header. None does anything, as above.
fn of_the_account_and_its_teams() -> Vec<(Route, Opens)> {
    let key = format!("/v1/api-keys/{}", unknown_id("key"));
    vec![
        (route(Method::GET, "/v1/api-keys", None), READS),
        (route(Method::GET, &key, None), READS),
        (route(Method::POST, "/v1/api-keys", Some(json!({}))), OWNS),
        (route(Method::POST, &format!("{key}/rotate"), None), OWNS),
        (route(Method::DELETE, &key, None), OWNS),
        (route(Method::GET, "/v1/account/email-preferences", None), OWNS),
        (route(Method::PUT, "/v1/account/email-preferences", Some(json!({}))), OWNS),
    ]
}

/// Those that do not. Nor does any of these do anything.
fn of_the_account_alone() -> Vec<(Route, Opens)> {
    let wrong = Some(json!({"confirm": "no", "code": "no"}));
    vec![
        (route(Method::GET, "/v1/account/me", None), READS),
        (route(Method::PATCH, "/v1/account/me", Some(json!({}))), OWNS),
        (route(Method::DELETE, "/v1/account/me", wrong.clone()), NO_KEY),
        (route(Method::GET, "/v1/account/web-sessions", None), OWNS),
        (route(Method::DELETE, &format!("/v1/account/web-sessions/{}", unknown_id("wsess")), None), OWNS),
        (route(Method::DELETE, "/v1/account/web-sessions?keep=none", None), NO_KEY),
        (route(Method::GET, "/v1/account/mfa", None), READS),
        (route(Method::DELETE, "/v1/account/mfa", wrong.clone()), NO_KEY),
        (route(Method::POST, "/v1/account/mfa/enroll", None), NO_KEY),
        (route(Method::POST, "/v1/account/mfa/verify", wrong.clone()), NO_KEY),
        (route(Method::POST, "/v1/account/mfa/disable", wrong.clone()), NO_KEY),
        (route(Method::POST, "/v1/account/mfa/recovery-codes/regenerate", None), NO_KEY),
        (route(Method::POST, "/v1/auth/mfa/step-up", wrong), NO_KEY),
        (route(Method::POST, "/v1/auth/cli-authorize/bind-device-code", Some(json!({}))), NO_KEY),
        (route(Method::GET, "/v1/auth/cli-authorize/0000-0000", None), NO_KEY),
        (route(Method::GET, "/v1/oauth/clients", None), OWNS),
        (route(Method::POST, "/v1/oauth/clients", Some(json!({}))), OWNS),
        (route(Method::DELETE, &format!("/v1/oauth/clients/{}", unknown_id("ocl")), None), OWNS),
    ]
}

/// Every route that needs a credential, and which scopes of a key open it.
fn ruled() -> Vec<(Route, Opens)> {
    [of_sessions(), of_the_account_and_its_teams(), of_the_account_alone()].concat()
}

fn protected() -> Vec<Route> {
    ruled().into_iter().map(|(route, _)| route).collect()
}

/// Interface, "Authentication" 1 and "Errors" (401): without a bearer token, or with one that is garbled, of the wrong
/// kind or unknown, no route does anything.
#[tokio::test]
async fn without_a_known_key_nothing_is_done() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Enterprise).await;
    let known = app.client_of(account, &["account_owner"]).await.key.expect("a key");
    let forgotten = app.client_of(account, &["account_owner"]).await;
    let forgotten_id = minted(&app, account).await;
    forgotten.get("/v1/sessions").await.expect(200);
    app.execute("delete from api_keys where id = $1", forgotten_id).await;
    let forgotten = forgotten.key.expect("a key");

    let mistyped = format!("{}{}", &known[..known.len() - 1], if known.ends_with('0') { '1' } else { '0' });
    let shorter = &known[..known.len() - 1];
    let credentials = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer x".to_owned(),
        "Bearer svc_live_".to_owned(),
        format!("Bearer {mistyped}"),
        format!("Bearer {shorter}"),
        format!("Bearer {known}0"),
        format!("Bearer {known} {known}"),
        format!("Bearer {}", known.to_uppercase()),
        format!("Bearer {}", known.replace("svc_live_", "svc_test_")),
        format!("Bearer {forgotten}"),
        format!("Basic {known}"),
        known.clone(),
        format!("Bearer {}", "a".repeat(8_000)),
        "Bearer \u{fc}".to_owned(),
    ];
    let stranger = app.stranger();
    for route in protected() {
        let answer = stranger.call(&route).await.problem(401, "unauthorized");
        assert!(answer.headers.contains_key("www-authenticate"), "RFC 9110, section 15.5.2");
        for credential in &credentials {
            let request = stranger.request_of(&route).header("authorization", credential.as_bytes());
            let answer = stranger.send(request).await.problem(401, "unauthorized");
            assert!(!answer.body.to_string().contains(&known));
        }
    }
    stranger.get(&format!("/v1/sessions?api_key={known}")).await.expect(401);
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let request =
            stranger.request(Method::GET, "/v1/sessions").header("authorization", format!("{scheme} {known}"));
        stranger.send(request).await.expect(200);
    }
    app.stop().await;
}

/// The key that was minted last.
async fn minted(app: &App, account: AccountId) -> uuid::Uuid {
    let log = app.audit(account).await;
    let minted = log.iter().rev().find(|row| row.action == "api_key.minted").expect("a key was minted");
    uuid_of(minted.target_resource_id.as_deref().expect("its id"))
}

/// Interface, "Errors" (401) and "Account facts": a key stops working at once when it is revoked, when it expires, and
/// when its account is deleted; decisions D4: a suspended account hears so.
#[tokio::test]
async fn a_key_ends_with_its_time_and_its_account() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Enterprise).await;
    let client = app.client_of(account, &["account_owner"]).await;
    let session = client.session().await;
    let key = minted(&app, account).await;
    let list = async || client.get("/v1/sessions").await;

    app.execute("update api_keys set expires_at = now() + interval '1 hour' where id = $1", key).await;
    list().await.expect(200);
    app.execute("update api_keys set expires_at = now() - interval '1 second' where id = $1", key).await;
    list().await.problem(401, "unauthorized");
    app.execute("update api_keys set expires_at = null where id = $1", key).await;
    list().await.expect(200);
    app.execute("update api_keys set revoked_at = now() where id = $1", key).await;
    list().await.problem(401, "unauthorized");
    app.execute("update api_keys set revoked_at = null where id = $1", key).await;
    list().await.expect(200);

    app.execute("update accounts set status = 'suspended' where id = $1", account.as_uuid()).await;
    for route in protected() {
        let refused = client.call(&route).await.problem(403, "forbidden");
        assert_eq!(refused.body["title"], "AccountSuspended");
    }
    client.post("/v1/sessions", json!({})).await.problem(403, "forbidden");
    app.execute("update accounts set status = 'active' where id = $1", account.as_uuid()).await;
    assert_eq!(client.status(&session).await, "ready");
    app.execute("update accounts set status = 'deleted' where id = $1", account.as_uuid()).await;
    list().await.problem(401, "unauthorized");
    app.stop().await;
}

/// Interface, "Authentication" 2: on the free tier a key is refused, also one that worked a moment ago, and works again
/// after an upgrade.
#[tokio::test]
async fn keys_do_not_work_on_the_free_tier() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Free).await;
    let client = app.client_of(account, &["account_owner"]).await;
    for route in protected() {
        let detail = client.call(&route).await.problem(403, "forbidden").body["detail"].to_string();
        assert!(detail.contains("apiAccess") && detail.contains("free"), "{detail}");
        assert!(detail.to_lowercase().contains("upgrad"), "{detail}");
    }
    let person = app.device_of(account).await;
    for (tier, status) in [("api_starter", 200), ("free", 403), ("solo_manual", 200)] {
        app.run(&["account", "set-tier", &account.to_string(), tier]).await.code(0);
        for path in ["/v1/sessions", "/v1/account/me", "/v1/api-keys", "/v1/account/mfa"] {
            client.get(path).await.expect(status);
            person.get(path).await.expect(200);
        }
    }
    // What was revoked or has expired meanwhile does not come back with an upgrade.
    for ended in
        ["update api_keys set revoked_at = now() where id = $1", "update api_keys set expires_at = now() where id = $1"]
    {
        app.run(&["account", "set-tier", &account.to_string(), "free"]).await.code(0);
        let client = app.client_of(account, &["read"]).await;
        client.get("/v1/account/me").await.problem(403, "forbidden");
        app.execute(ended, minted(&app, account).await).await;
        app.run(&["account", "set-tier", &account.to_string(), "api_starter"]).await.code(0);
        client.get("/v1/account/me").await.problem(401, "unauthorized");
    }
    app.stop().await;
}

/// Interface, "Authentication" 2 and 3: a web session carries `account_owner`, on the free tier too: no route turns it
/// away.
#[tokio::test]
async fn a_web_session_opens_every_route() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    for tier in [Tier::Free, Tier::Enterprise] {
        let person = app.person(tier).await;
        for route in protected() {
            let answer = person.client.call(&route).await;
            assert!(!matches!(answer.status.as_u16(), 401 | 403 | 500), "{route:?}: {} {}", answer.status, answer.body);
        }
        person.client.get("/v1/account/me").await.expect(200);
    }
    app.stop().await;
}

/// Interface, "Authentication" 6 and 7; decisions D4 and D13 ("Scopes"): which scope opens which route, all of them.
#[tokio::test]
async fn a_scope_opens_its_routes_and_no_others() {
    let app = App::simulated().set("sessions.direct_driver", "real").start().await;
    let account = app.account(Tier::Enterprise).await;
    for scope in Scope::ALL.map(Scope::name) {
        let client = app.client_of(account, &[scope]).await;
        for (route, opens) in ruled() {
            assert_opens(&client, &route, opens.contains(&scope), scope).await;
        }
    }
    let pair = app.client_of(account, &["read:audit", "write:sessions"]).await;
    for (route, opens) in ruled() {
        assert_opens(&pair, &route, opens.contains(&"write:sessions"), "read:audit and write:sessions").await;
    }
    let none = app.client_of(account, &["read"]).await;
    app.execute("update api_keys set scopes = '{}' where id = $1", minted(&app, account).await).await;
    for route in protected() {
        assert_opens(&none, &route, false, "no scope").await;
    }
    app.stop().await;
}

async fn assert_opens(client: &Client, route: &Route, opens: bool, scope: &str) {
    let answer = client.call(route).await;
    let Answer { status, body, .. } = &answer;
    if opens {
        assert!(matches!(status.as_u16(), 200 | 400 | 404), "{scope} on {route:?}: {status} {body}");
    } else {
        assert_eq!(*status, 403, "{scope} on {route:?}: {body}");
        answer.problem(403, "forbidden");
    }
}

/// Interface, "Authentication" 8 and decisions D13 ("Scopes"): on an honoring route a malformed account header is 400,
/// the caller's own id is as if absent, any other account is 403 whether it exists or not; elsewhere it is ignored.
#[tokio::test]
async fn the_account_header_reaches_no_other_account() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Enterprise).await;
    let client = app.client_of(account, &["account_owner"]).await;
    let session = client.session().await;
    let other = app.account(Tier::Enterprise).await;
    let theirs = app.client_of(other, &["account_owner"]).await.session().await;
    let with = async |route: &Route, header: &str| {
        client.send(client.request_of(route).header("x-service-account", header)).await
    };
    let malformed =
        ["x".to_owned(), account.as_uuid().to_string(), session.clone(), account.to_string().to_uppercase()];
    let honoring = [of_sessions(), of_the_account_and_its_teams()].concat();
    let mut routes: Vec<_> = honoring.into_iter().map(|(route, _)| route).collect();
    routes.extend(session_routes(&theirs));
    for route in &routes {
        for header in &malformed {
            let answer = with(route, header).await;
            assert_eq!(answer.status, 400, "{header:?} on {route:?}: {}", answer.body);
        }
        let existing = with(route, &other.to_string()).await.problem(403, "forbidden");
        let unknown = with(route, &unknown_id("acc")).await.problem(403, "forbidden");
        assert_eq!(existing.body["detail"], unknown.body["detail"]);
        assert_eq!(existing.body["title"], unknown.body["title"]);
    }
    let itself = Route { method: Method::GET, path: format!("/v1/sessions/{session}"), body: None };
    assert_eq!(with(&itself, &account.to_string()).await.expect(200).body["id"], session);
    let create = Route { method: Method::POST, path: "/v1/sessions".to_owned(), body: Some(json!({})) };
    assert_eq!(with(&create, &account.to_string()).await.expect(201).body["account_id"], account.to_string());
    let keys = route(Method::GET, "/v1/api-keys", None);
    assert_eq!(with(&keys, &account.to_string()).await.expect(200).body["data"].as_array().map(Vec::len), Some(1));

    // "Not honored" means ignored (decisions D13, "Scopes"), by strangers' routes too.
    let person = app.device_of(account).await;
    let mut ignoring: Vec<_> = of_the_account_alone().into_iter().map(|(route, _)| route).collect();
    ignoring.push(route(Method::GET, "/v1/archetypes", None));
    ignoring.extend(STRANGERS.map(|path| route(Method::POST, path, Some(json!({})))));
    for route in &ignoring {
        let plain = person.call(route).await;
        for header in malformed.iter().chain([&other.to_string(), &unknown_id("acc")]) {
            let request = person.request_of(route).header("x-service-account", header);
            let answer = person.send(request).await;
            assert_eq!(answer.status, plain.status, "{header:?} on {route:?}: {}", answer.body);
            assert_eq!(answer.body["errors"], plain.body["errors"], "{header:?} on {route:?}");
        }
    }
    assert_eq!(app.status_of(&theirs).await, "ready");
    app.stop().await;
}

/// Routes that need no credential (interface, "Authentication endpoints" and "Desktop device activation").
const STRANGERS: [&str; 13] = [
    "/v1/auth/signup",
    "/v1/auth/verify-email",
    "/v1/auth/resend-verification",
    "/v1/auth/login",
    "/v1/auth/mfa/challenge",
    "/v1/auth/magic-link/request",
    "/v1/auth/magic-link/consume",
    "/v1/auth/password-reset/request",
    "/v1/auth/password-reset/confirm",
    "/v1/auth/refresh",
    "/v1/auth/logout",
    "/v1/auth/cli-authorize/initiate",
    "/v1/auth/cli-authorize/exchange",
];
