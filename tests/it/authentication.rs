//! Credentials and the account a request acts on (contract: authorization). Permissions are tested in [`crate::authorization`].

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::json;

use crate::authorization::requirements::{honoring, ignoring, protected};
use crate::oauth;
use crate::support::records::uuid_of;
use crate::support::routes::{Route, session_routes};
use crate::support::{App, Client, unknown_id};

/// Contract: authorization 1. This holds for every protected route.
#[tokio::test]
async fn request_without_valid_credential_is_401() {
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

async fn minted(app: &App, account: AccountId) -> uuid::Uuid {
    let log = app.audit(account).await;
    let minted = log.iter().rev().find(|row| row.action == "api_key.minted").expect("a key was minted");
    uuid_of(minted.target_resource_id.as_deref().expect("the id of the key"))
}

/// Contract: authorization 2; accounts 6.
#[tokio::test]
async fn key_fails_after_expiry_revocation_or_account_deletion() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
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

/// Contract: authorization 4. It may have worked before a downgrade. It works after an upgrade.
#[tokio::test]
async fn key_on_the_free_tier_is_403() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Free).await;
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
    // An upgrade does not reactivate a key that was revoked or expired in the meantime.
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

/// Contract: authorization 4, 13. The account header changes neither that nor the scopes. The limits are those of the account
/// that owns the resources.
#[tokio::test]
async fn tier_of_the_credentials_account_decides() {
    let app = App::simulated().start().await;
    let (free, paid) = (app.account(Tier::Free).await, app.account(Tier::Enterprise).await);
    app.join_team(free, paid, "admin").await;
    app.join_team(paid, free, "admin").await;
    let on = async |client: &Client, owner: AccountId, route: &Route| {
        client.send(client.request_of(route).header("x-service-account", owner.to_string())).await
    };
    let credentials = async |account: AccountId| {
        let person = app.device_of(account).await;
        let token = oauth::token(&app, &oauth::create_client(&person, &["account_owner"]).await).await;
        [app.client_of(account, &["account_owner"]).await, token]
    };
    for (refused, admitted) in credentials(free).await.iter().zip(&credentials(paid).await) {
        for route in &honoring() {
            let detail = on(refused, paid, route).await.problem(403, "forbidden").body["detail"].to_string();
            assert!(detail.contains("apiAccess"), "{route:?}: {detail}");
            let answer = on(admitted, free, route).await;
            assert!(!matches!(answer.status.as_u16(), 401 | 403), "{route:?}: {} {}", answer.status, answer.body);
        }
    }
    let key = app.client_of(paid, &["account_owner"]).await;
    let usage = Route { method: Method::GET, path: "/v1/usage".to_owned(), body: None };
    assert_eq!(on(&key, free, &usage).await.expect(200).body["tier"], "free");
    let create = Route { method: Method::POST, path: "/v1/sessions".to_owned(), body: Some(json!({})) };
    assert_eq!(on(&key, free, &create).await.expect(201).body["account_id"], json!(free));
    let full = on(&key, free, &create).await.problem(429, "concurrency-limit");
    assert_eq!(full.body["limit"], 1);
    app.stop().await;
}

/// Contract: authorization 9, 11, 12. Other routes ignore the header.
#[tokio::test]
async fn account_header_gives_no_access_to_other_accounts() {
    let app = App::simulated()
        .set("rate_limits.byok_test_per_minute", "1000")
        .set("rate_limits.proxy_check_per_minute", "1000")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    let other = app.account(Tier::Enterprise).await;
    let theirs = app.client_of(other, &["account_owner"]).await.session().await;
    let with = async |route: &Route, header: &str| {
        client.send(client.request_of(route).header("x-service-account", header)).await
    };
    let malformed =
        ["x".to_owned(), account.as_uuid().to_string(), session.clone(), account.to_string().to_uppercase()];
    let mut routes = honoring();
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
    let keys = Route { method: Method::GET, path: "/v1/api-keys".to_owned(), body: None };
    assert_eq!(with(&keys, &account.to_string()).await.expect(200).body["data"].as_array().map(Vec::len), Some(1));

    // Other routes ignore the header (contract: authorization 11), including those that need no credential.
    let person = app.device_of(account).await;
    for route in &ignoring() {
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
