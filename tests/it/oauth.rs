//! OAuth clients and their tokens (RFC 6749; contract: oauth).

use std::time::Duration;

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, assert_timestamp, eventually, members, unknown_id};

const CLIENTS: &str = "/v1/oauth/clients";

pub struct Credentials {
    pub id: String,
    secret: String,
}

pub async fn create_client(owner: &Client, scopes: &[&str]) -> Credentials {
    let answer = owner.post(CLIENTS, json!({"name": "nightly", "scopes": scopes})).await.expect(201);
    let text = |member: &str| answer.body[member].as_str().expect("a text").to_owned();
    Credentials { id: text("client_id"), secret: text("client_secret") }
}

/// HTTP Basic credentials are optional.
async fn request(app: &App, basic: Option<&Credentials>, form: &[(&str, &str)]) -> Answer {
    let stranger = app.stranger();
    let mut request = stranger.request(Method::POST, "/v1/oauth/token").form(form);
    if let Some(Credentials { id, secret }) = basic {
        request = request.basic_auth(id, Some(secret));
    }
    stranger.send(request).await
}

/// A client with an access token of all scopes.
pub async fn token(app: &App, client: &Credentials) -> Client {
    let answer = request(app, Some(client), &[("grant_type", "client_credentials")]).await.expect(200);
    Client::new(&app.base_url, answer.body["access_token"].as_str())
}

/// RFC 6749, section 5.2.
#[track_caller]
fn refused(answer: &Answer, status: u16, error: &str) {
    assert_eq!((answer.status.as_u16(), &answer.body["error"]), (status, &error.into()), "{}", answer.body);
    assert!(answer.body["error_description"].is_string(), "{}", answer.body);
    assert_eq!(members(&answer.body).len(), 2, "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert!(answer.headers.contains_key("x-request-id"), "contract: requests 9");
    assert_eq!(answer.headers.contains_key("www-authenticate"), status == 401);
}

/// Contract: oauth 1. The secret is not stored. The scope `admin` is rejected.
#[tokio::test]
async fn client_secret_is_shown_once() {
    let app = App::simulated().start().await;
    let owner = app.client().await;
    let made =
        owner.post(CLIENTS, json!({"name": " nightly ", "scopes": ["read", "write:sessions"]})).await.expect(201);
    let names = ["client_id", "client_secret", "created_at", "name", "scopes"];
    assert_eq!(members(&made.body).into_iter().collect::<Vec<_>>(), names);
    assert!(made.body["client_id"].as_str().is_some_and(|id| id.starts_with("ocl_")));
    assert_eq!((&made.body["name"], &made.body["scopes"]), (&"nightly".into(), &json!(["read", "write:sessions"])));
    assert_timestamp(&made.body["created_at"]);
    let secret = made.body["client_secret"].as_str().expect("a secret");
    assert_eq!(app.tables_with(secret).await, <[String; 0]>::default());

    let second = create_client(&owner, &["read"]).await;
    let list = owner.get(CLIENTS).await.expect(200);
    let ids: Vec<_> = list.body["data"].as_array().expect("a list").iter().map(|one| &one["client_id"]).collect();
    assert_eq!(ids, [&Value::from(second.id.as_str()), &made.body["client_id"]]);
    assert!(!list.body.to_string().contains("secret"), "{}", list.body);

    let refusals = [
        (json!({"scopes": ["read"]}), "name"),
        (json!({"name": " ", "scopes": ["read"]}), "name"),
        (json!({"name": "x".repeat(121), "scopes": ["read"]}), "name"),
        (json!({"name": "x"}), "scopes"),
        (json!({"name": "x", "scopes": []}), "scopes"),
        (json!({"name": "x", "scopes": ["read", "nonsense"]}), "scopes.1"),
        (json!({"name": "x", "scopes": ["read", "admin"]}), "scopes.1"),
    ];
    for (body, field) in refusals {
        owner.post(CLIENTS, body).await.invalid(field);
    }
    let program = app.client_with(Tier::Enterprise, &["read", "write"]).await;
    program.post(CLIENTS, json!({"name": "x", "scopes": ["read"]})).await.problem(403, "forbidden");
    program.get(CLIENTS).await.problem(403, "forbidden");
    app.stranger().get(CLIENTS).await.problem(401, "unauthorized");
    app.stop().await;
}

/// RFC 6749, sections 2.3.1, 4.4 and 5.1. The bearer token is valid for an hour.
#[tokio::test]
async fn client_authenticates_by_header_or_body() {
    let app = App::simulated().start().await;
    let client = create_client(&app.client().await, &["read", "write:sessions"]).await;
    let Credentials { id, secret } = &client;
    let grant = ("grant_type", "client_credentials");
    let in_body = [grant, ("client_id", id), ("client_secret", secret), ("unknown", "1"), ("scope", "")];
    for answer in [
        request(&app, Some(&client), &[grant]).await,
        request(&app, Some(&client), &[grant, ("client_id", id)]).await,
        request(&app, None, &in_body).await,
    ] {
        let answer = answer.expect(200);
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert_eq!(answer.headers["pragma"], "no-cache");
        let names = ["access_token", "expires_in", "scope", "token_type"];
        assert_eq!(members(&answer.body).into_iter().collect::<Vec<_>>(), names);
        assert_eq!((&answer.body["token_type"], &answer.body["expires_in"]), (&"Bearer".into(), &3600.into()));
        assert_eq!(answer.body["scope"], "read write:sessions");
        let text = answer.body["access_token"].as_str().expect("a token");
        assert!(text.starts_with("svc_oauth_"));
        assert_eq!(app.tables_with(text).await, <[String; 0]>::default());
        Client::new(&app.base_url, Some(text)).session().await;
    }

    let scoped = async |scope: &str| request(&app, Some(&client), &[grant, ("scope", scope)]).await;
    for scope in ["read", "write:sessions read", "read:sessions"] {
        assert_eq!(scoped(scope).await.expect(200).body["scope"], scope);
    }
    let narrow = scoped("read:sessions").await;
    let narrow = Client::new(&app.base_url, narrow.body["access_token"].as_str());
    narrow.get("/v1/sessions").await.expect(200);
    narrow.post("/v1/sessions", json!({})).await.problem(403, "forbidden");
    for scope in ["write", "account_owner", "admin", "read nonsense", "READ", "read,write"] {
        refused(&scoped(scope).await, 400, "invalid_scope");
    }
    app.stop().await;
}

/// RFC 6749, sections 2.3.1, 3.2 and 5.2; contract: oauth 4, 7. An unknown client and a wrong secret get the same answer. Every
/// outcome is counted (contract: operators 5).
#[tokio::test]
async fn token_errors_have_the_form_of_the_rfc() {
    let app = App::simulated().set("metrics.scrape_token", "t").start().await;
    let owner = app.client().await;
    let client = create_client(&owner, &["read"]).await;
    let Credentials { id, secret } = &client;
    let grant = ("grant_type", "client_credentials");

    refused(&request(&app, Some(&client), &[]).await, 400, "invalid_request");
    refused(&request(&app, Some(&client), &[("grant_type", "")]).await, 400, "invalid_request");
    refused(&request(&app, Some(&client), &[grant, grant]).await, 400, "invalid_request");
    refused(&request(&app, Some(&client), &[grant, ("client_secret", secret)]).await, 400, "invalid_request");
    refused(&request(&app, Some(&client), &[grant, ("client_id", &unknown_id("ocl"))]).await, 400, "invalid_request");
    refused(&request(&app, Some(&client), &[grant, ("scope", "write")]).await, 400, "invalid_scope");
    for grant in ["password", "authorization_code", "CLIENT_CREDENTIALS"] {
        refused(&request(&app, Some(&client), &[("grant_type", grant)]).await, 400, "unsupported_grant_type");
    }
    let stranger = app.stranger();
    let post = |body: &'static str, media_type: &'static str| {
        stranger
            .request(Method::POST, "/v1/oauth/token")
            .basic_auth(id, Some(secret))
            .header("content-type", media_type)
            .body(body)
    };
    refused(&stranger.send(post("{}", "application/json")).await, 400, "invalid_request");
    stranger
        .send(post("grant_type=client_credentials", "application/x-www-form-urlencoded; charset=UTF-8"))
        .await
        .expect(200);

    let no_such = Credentials { id: unknown_id("ocl"), secret: secret.clone() };
    let wrong = Credentials { id: id.clone(), secret: format!("{secret}x") };
    let malformed = Credentials { id: "\0 nobody".to_owned(), secret: secret.clone() };
    let mut answers = Vec::new();
    for credentials in [&no_such, &wrong, &malformed] {
        let answer = request(&app, Some(credentials), &[grant]).await;
        refused(&answer, 401, "invalid_client");
        answers.push(answer.body);
        let in_body = [grant, ("client_id", &credentials.id), ("client_secret", &credentials.secret)];
        let answer = request(&app, None, &in_body).await;
        refused(&answer, 401, "invalid_client");
        answers.push(answer.body);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    refused(&request(&app, None, &[grant]).await, 401, "invalid_client");
    refused(&request(&app, None, &[grant, ("client_id", id)]).await, 401, "invalid_client");
    let bearer = stranger.request(Method::POST, "/v1/oauth/token").bearer_auth(secret).form(&[grant]);
    refused(&stranger.send(bearer).await, 401, "invalid_client");

    let account: Value = owner.get("/v1/account/me").await.expect(200).body;
    let account = uuid_of(account["id"].as_str().expect("an id"));
    app.execute("update accounts set status = 'suspended' where id = $1", account).await;
    refused(&request(&app, Some(&client), &[grant]).await, 400, "unauthorized_client");
    app.execute("update accounts set status = 'deleted' where id = $1", account).await;
    refused(&request(&app, Some(&client), &[grant]).await, 401, "invalid_client");

    stranger.get("/v1/oauth/token").await.problem(405, "method-not-allowed");
    let long = stranger.request(Method::POST, "/v1/oauth/token").body(vec![b'a'; 2 * 1024 * 1024]);
    stranger.send(long).await.problem(413, "payload-too-large");

    let scrape = stranger.http.get(format!("{}/metrics", app.base_url)).bearer_auth("t");
    let text = scrape.send().await.expect("an answer").text().await.expect("a text");
    let counted = |outcome: &str| {
        let prefix = format!("service_oauth_token_total{{outcome=\"{outcome}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)?.parse::<u64>().ok())
    };
    let expected = [
        ("ok", 1),
        ("invalid_request", 6),
        ("invalid_client", 10),
        ("invalid_scope", 1),
        ("unauthorized_client", 1),
        ("unsupported_grant_type", 3),
        ("error", 1),
    ];
    for (outcome, count) in expected {
        assert_eq!(counted(outcome), Some(count), "{outcome}");
    }
    app.stop().await;
}

/// Contract: oauth 5.
#[tokio::test]
async fn token_ends_with_its_expiry_and_its_client() {
    let app = App::simulated().set("auth.oauth_token_ttl", "2s").start().await;
    let owner = app.client().await;
    let client = create_client(&owner, &["account_owner"]).await;
    let short = token(&app, &client).await;
    short.get("/v1/sessions").await.expect(200);
    eventually(Duration::from_secs(10), "the token expires", async || {
        (short.get("/v1/sessions").await.status == 401).then_some(())
    })
    .await;
    short.get("/v1/sessions").await.problem(401, "unauthorized");

    let bearer = token(&app, &client).await;
    let path = format!("{CLIENTS}/{}", client.id);
    let stranger = app.client().await;
    for unknown in [path.clone(), format!("{CLIENTS}/{}", unknown_id("ocl")), format!("{CLIENTS}/x")] {
        stranger.delete(&unknown).await.problem(404, "not-found");
    }
    bearer.get("/v1/sessions").await.expect(200);
    for _ in 0..2 {
        owner.delete(&path).await.expect(204);
        bearer.get("/v1/sessions").await.problem(401, "unauthorized");
    }
    refused(&request(&app, Some(&client), &[("grant_type", "client_credentials")]).await, 401, "invalid_client");
    assert_eq!(owner.get(CLIENTS).await.expect(200).body["data"], json!([]));
    app.stop().await;
}

/// Contract: oauth 6; authorization 4. It works after an upgrade.
#[tokio::test]
async fn token_on_the_free_tier_is_403() {
    let app = App::simulated().start().await;
    let owner = app.client().await;
    let client = create_client(&owner, &["account_owner"]).await;
    let bearer = token(&app, &client).await;
    let account = bearer.get("/v1/account/me").await.expect(200).body["id"].clone();
    let account = uuid_of(account.as_str().expect("an id"));
    app.execute("update accounts set tier = 'free' where id = $1", account).await;
    for bearer in [bearer.clone(), token(&app, &client).await] {
        let refused = bearer.get("/v1/sessions").await.problem(403, "forbidden");
        let detail = refused.body["detail"].as_str().expect("a detail");
        for word in ["apiAccess", "free", "upgrade"] {
            assert!(detail.contains(word), "{detail}");
        }
    }
    app.execute("update accounts set tier = 'api_starter' where id = $1", account).await;
    bearer.get("/v1/sessions").await.expect(200);
    app.stop().await;
}

#[tokio::test]
async fn create_beyond_the_client_limit_is_409() {
    let app = App::simulated().set("limits.oauth_clients", "2").start().await;
    let owner = app.client().await;
    let (first, _) = (create_client(&owner, &["read"]).await, create_client(&owner, &["read"]).await);
    let full = owner.post(CLIENTS, json!({"name": "nightly", "scopes": ["read"]})).await.problem(409, "conflict");
    assert_eq!(full.body["limit"], 2);
    owner.delete(&format!("{CLIENTS}/{}", first.id)).await.expect(204);
    create_client(&owner, &["read"]).await;
    app.stop().await;
}

/// Contract: oauth 8.
#[tokio::test]
async fn previous_secret_works_for_a_day() {
    let app = App::simulated().start().await;
    let owner = app.client().await;
    let old = create_client(&owner, &["read"]).await;
    let path = format!("{CLIENTS}/{}/rotate-secret", old.id);
    let rotated = owner.post(&path, json!({})).await.expect(200).body;
    assert_eq!(members(&rotated), ["client_id", "client_secret", "grace_expires_at"].into());
    assert_timestamp(&rotated["grace_expires_at"]);
    let secret = rotated["client_secret"].as_str().expect("a secret").to_owned();
    let new = Credentials { id: old.id.clone(), secret };
    token(&app, &new).await;
    token(&app, &old).await;
    let over = "update oauth_clients set prev_secret_expires_at = now() where id = $1";
    app.execute(over, uuid_of(&old.id)).await;
    let form = [("grant_type", "client_credentials")];
    refused(&request(&app, Some(&old), &form).await, 401, "invalid_client");
    token(&app, &new).await;
    app.client().await.post(&path, json!({})).await.problem(404, "not-found");
    owner.delete(&format!("{CLIENTS}/{}", old.id)).await.expect(204);
    owner.post(&path, json!({})).await.problem(404, "not-found");
    app.stop().await;
}
