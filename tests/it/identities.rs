//! Sign-in through an identity provider (contract: identities), with a real provider on loopback.

use std::time::Duration;

use kitfleet_domain::emails::Template;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};
use url::Url;

use crate::metrics::{scraped, value};
use crate::support::identity_provider::{Browser, IdentityProvider, NAME, person};
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, assert_timestamp, at_once, eventually, members};

const CONFIRM: &str = "/v1/auth/oauth/confirm";

async fn service() -> (App, IdentityProvider) {
    let mut provider = IdentityProvider::new();
    let app = scraped(provider.configure(App::simulated())).start().await;
    provider.start(&app);
    (app, provider)
}

/// Also returns its account and a client.
fn signed_in(app: &App, answer: &Answer) -> (AccountId, Client) {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let session = &answer.body["session"];
    let others = members(&answer.body).into_iter().filter(|name| *name != "password_reset_token");
    assert_eq!(others.collect::<Vec<_>>(), ["session"]);
    assert_eq!(members(session).into_iter().collect::<Vec<_>>(), ["account_id", "expires_at", "token"]);
    assert_timestamp(&session["expires_at"]);
    assert_eq!(answer.headers["cache-control"], "no-store");
    let account = session["account_id"].as_str().expect("an id").parse().expect("an account's id");
    (account, Client::new(&app.base_url, session["token"].as_str()))
}

impl App {
    async fn web_sessions(&self, account: AccountId) -> i64 {
        sqlx::query_scalar("select count(*) from web_sessions where account_id = $1")
            .bind(account.as_uuid())
            .fetch_one(&self.database.pool)
            .await
            .expect("a count")
    }

    async fn logins(&self, account: AccountId) -> Vec<Value> {
        let rows = self.audit(account).await.into_iter();
        rows.filter(|row| row.action == "account.login").map(|row| row.payload).collect()
    }
}

/// Contract: identities 3, 4. Later sign-ins find the account by the subject, even if the address or name at the provider has
/// changed. Contract: audit-log 12. Each sign-in writes `account.login` with these members and no method.
#[tokio::test]
async fn first_sign_in_creates_an_account_later_ones_find_it() {
    let (app, provider) = service().await;
    let first = Browser::new(&app).sign_in(&provider, &person("sub-1", "Ada@Example.com")).await;
    let (account, client) = signed_in(&app, &first);
    let me = client.get("/v1/account/me").await.expect(200).body;
    assert_eq!((&me["email"], &me["name"]), (&"Ada@example.com".into(), &"Ada Lovelace".into()));
    assert_eq!((&me["tier"], &me["status"]), (&"free".into(), &"active".into()));
    assert_timestamp(&me["email_verified_at"]);
    app.mail_to("Ada@example.com", Template::Welcome).await;

    for claims in [person("sub-1", "lovelace@example.com"), json!({"sub": "sub-1"})] {
        let again = Browser::new(&app).sign_in(&provider, &claims).await;
        let (same, client) = signed_in(&app, &again);
        assert_eq!(same, account);
        assert_eq!(client.get("/v1/account/me").await.expect(200).body, me);
    }
    let logins = app.logins(account).await;
    assert_eq!(logins.len(), 3);
    for payload in &logins {
        let names = ["issued_from_ip", "kind", "provider", "session_id", "user_agent"];
        assert_eq!(members(payload).into_iter().collect::<Vec<_>>(), names);
        assert_eq!((&payload["kind"], &payload["provider"]), (&"oauth_callback".into(), &NAME.into()));
        assert!(payload["session_id"].as_str().is_some_and(|id| id.starts_with("wsess_")));
    }
    app.stop().await;
}

/// OpenID Connect Core, section 5.4: a provider may put the claims into the ID token.
#[tokio::test]
async fn claims_in_the_id_token_are_accepted() {
    let mut provider = IdentityProvider::new();
    let app = provider.configure(App::simulated()).start().await;
    provider.start_with_claims_in_token(&app);
    let answer = Browser::new(&app).sign_in(&provider, &person("sub-1", "ada@example.com")).await;
    let (_, client) = signed_in(&app, &answer);
    assert_eq!(client.get("/v1/account/me").await.expect(200).body["email"], "ada@example.com");
    app.stop().await;
}

#[tokio::test]
async fn concurrent_first_sign_ins_create_one_account() {
    let (app, provider) = service().await;
    let mut callbacks = Vec::new();
    for _ in 0..8 {
        let browser = Browser::new(&app);
        let callback = browser.to_callback(&provider, &person("sub-1", "ada@example.com")).await;
        callbacks.push((browser, callback));
    }
    let answers = at_once(callbacks.into_iter().map(|(browser, url)| async move { browser.open(&url).await })).await;
    let accounts: Vec<_> = answers.iter().map(|answer| signed_in(&app, answer).0).collect();
    assert!(accounts.windows(2).all(|pair| pair[0] == pair[1]), "{accounts:?}");
    assert_eq!(app.count("select count(*) from accounts where email_key = 'ada@example.com'").await, 1);
    app.stop().await;
}

/// Contract: identities 5, 6. A mail asks to confirm, and there is no session.
#[tokio::test]
async fn known_address_requires_confirmation() {
    let (app, provider) = service().await;
    let account = app.account(Tier::Free).await;
    let address = app.address_of(account).await;
    let claims = person("sub-1", &address.to_uppercase());

    let asked = Browser::new(&app).sign_in(&provider, &claims).await.expect(202);
    assert_eq!(members(&asked.body).into_iter().collect::<Vec<_>>(), ["confirmation_required", "expires_at"]);
    assert_eq!(asked.body["confirmation_required"], true);
    assert_timestamp(&asked.body["expires_at"]);
    let old = app.mail_to(&address, Template::ConfirmSignIn).await.token;
    Browser::new(&app).sign_in(&provider, &claims).await.expect(202);
    let link = app.mail_number(2, &address, Template::ConfirmSignIn).await.token;
    assert_eq!(app.web_sessions(account).await, 0);
    assert_eq!(app.logins(account).await, <[Value; 0]>::default());

    for bad in [json!({}), json!({"token": ""}), json!({"token": "x"}), json!({"token": old})] {
        app.stranger().post(CONFIRM, bad).await.invalid("token");
    }
    let stranger = app.stranger();
    let follow = || {
        let (stranger, link) = (stranger.clone(), link.clone());
        async move { stranger.post(CONFIRM, json!({"token": link})).await }
    };
    let answers = at_once((0..16).map(|_| follow())).await;
    let (in_now, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((in_now.len(), refused.len()), (1, 15));
    let (same, client) = signed_in(&app, &in_now[0]);
    assert_eq!(same, account);
    client.get("/v1/account/me").await.expect(200);
    for answer in refused {
        answer.invalid("token");
    }
    assert_eq!(app.logins(account).await[0]["kind"], "oauth_callback");

    let direct = Browser::new(&app).sign_in(&provider, &claims).await;
    assert_eq!(signed_in(&app, &direct).0, account);
    assert_eq!(app.web_sessions(account).await, 2);

    // The link is valid only for its account and purpose, until it expires.
    let expired = app.account(Tier::Free).await;
    let address = app.address_of(expired).await;
    Browser::new(&app).sign_in(&provider, &person("sub-2", &address)).await.expect(202);
    let link = app.mail_to(&address, Template::ConfirmSignIn).await.token;
    for route in ["verify-email", "magic-link/consume"] {
        app.stranger().post(&format!("/v1/auth/{route}"), json!({"token": link})).await.invalid("token");
    }
    let age = "update mail_links set expires_at = now() - interval '1 second' where account_id = $1";
    app.execute(age, expired.as_uuid()).await;
    app.stranger().post(CONFIRM, json!({"token": link})).await.invalid("token");
    app.stop().await;
}

/// A password set before the address was verified stops working after the confirmation, because a stranger may have set it.
#[tokio::test]
async fn password_set_before_verification_is_removed() {
    let (app, provider) = service().await;
    let (email, password) = ("ada@example.com", "correct horse battery");
    let stranger = app.stranger();
    let signup = json!({"email": email, "password": password, "name": "Mallory"});
    stranger.post("/v1/auth/signup", signup).await.expect(200);
    Browser::new(&app).sign_in(&provider, &person("sub-1", email)).await.expect(202);
    let link = app.mail_to(email, Template::ConfirmSignIn).await.token;
    let answer = stranger.post(CONFIRM, json!({"token": link})).await;
    let (_, client) = signed_in(&app, &answer);
    assert_timestamp(&client.get("/v1/account/me").await.expect(200).body["email_verified_at"]);
    let login = json!({"email": email, "password": password});
    stranger.post("/v1/auth/login", login).await.problem(401, "unauthorized");
    app.stop().await;
}

/// A flow lasts ten minutes and belongs to its provider. A forged callback link cannot sign a visitor in to another account.
#[tokio::test]
async fn flow_completes_once_in_the_starting_browser() {
    let (app, provider) = service().await;
    let claims = person("sub-1", "ada@example.com");
    let browser = Browser::new(&app);
    let callback = browser.to_callback(&provider, &claims).await;

    let foreign = Browser::new(&app);
    foreign.open(&callback).await.invalid("state");
    foreign.leave(&claims).await;
    foreign.open(&callback).await.invalid("state");
    let mut forged: Url = callback.parse().expect("a URL");
    forged.set_query(Some("code=x&state=x"));
    browser.open(forged.as_str()).await.invalid("state");
    forged.set_query(Some("code=x"));
    browser.open(forged.as_str()).await.invalid("state");

    signed_in(&app, &browser.open(&callback).await);
    browser.open(&callback).await.invalid("state");

    let late = browser.to_callback(&provider, &claims).await;
    let age = sqlx::query("update identity_flows set expires_at = now() - interval '1 second'");
    age.execute(&app.database.pool).await.expect("a statement");
    browser.open(&late).await.invalid("state");
    app.stop().await;
}

/// The cookie that binds the flow to the browser is not accessible to scripts and not sent with cross-site forms.
/// Contract: operators 5. The request is counted with its route.
#[tokio::test]
async fn start_redirects_with_state_nonce_and_challenge() {
    let (app, provider) = service().await;
    let stranger = Browser::new(&app);
    let start = stranger.open(&format!("{}/v1/auth/oauth/{NAME}/start", app.base_url)).await.expect(303);
    let counted =
        "service_http_request_total{method=\"GET\",route=\"/v1/auth/oauth/{provider}/start\",status_class=\"3xx\"}";
    assert!((value(&app, counted).await - 1.0).abs() < 0.5);
    assert_eq!(start.headers["cache-control"], "no-store");
    let cookie = start.headers["set-cookie"].to_str().expect("a text");
    let attributes: Vec<_> = cookie.split("; ").skip(1).collect();
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/v1/auth/oauth", "Max-Age=600"] {
        assert!(attributes.contains(&attribute), "{cookie}");
    }
    assert!(!attributes.contains(&"Secure"), "the base URL is plain HTTP: {cookie}");
    let url: Url = start.headers["location"].to_str().expect("a text").parse().expect("a URL");
    assert!(url.as_str().starts_with(&provider.issuer()), "{url}");
    let parameter =
        |name: &str| url.query_pairs().find(|(given, _)| given == name).map(|(_, value)| value.into_owned());
    let redirect_uri = format!("{}/v1/auth/oauth/{NAME}/callback", app.base_url);
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "kitfleet"),
        ("redirect_uri", &redirect_uri),
        ("scope", "openid email profile"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(parameter(name).as_deref(), Some(value), "{name}");
    }
    for name in ["state", "nonce", "code_challenge"] {
        let value = parameter(name).unwrap_or_default();
        assert!(value.len() >= 22, "{name} {value}");
        if name == "state" {
            assert_eq!(app.tables_with(&value).await, <[String; 0]>::default(), "the state is stored only as a hash");
        }
    }
    for route in ["start", "callback?state=x&code=x"] {
        let url = format!("{}/v1/auth/oauth/nobody/{route}", app.base_url);
        stranger.open(&url).await.problem(404, "not-found");
    }
    app.stop().await;
}

/// Contract: identities 2, 4.
#[tokio::test]
async fn unverified_address_or_invalid_code_does_not_sign_in() {
    let (app, provider) = service().await;
    for claims in [
        json!({"sub": "sub-1", "email": "ada@example.com", "email_verified": false}),
        json!({"sub": "sub-1", "email": "ada@example.com"}),
        json!({"sub": "sub-1"}),
        json!({"sub": "sub-1", "email": "no address", "email_verified": true}),
    ] {
        let answer = Browser::new(&app).sign_in(&provider, &claims).await.problem(403, "forbidden");
        assert!(answer.body["detail"].as_str().is_some_and(|detail| detail.contains("verified")), "{}", answer.body);
    }
    let denied = Browser::new(&app).sign_in(&provider, &json!({"denied": true})).await;
    denied.invalid("code");

    let browser = Browser::new(&app);
    let callback = browser.to_callback(&provider, &person("sub-1", "ada@example.com")).await;
    let mut wrong: Url = callback.parse().expect("a URL");
    let state = wrong.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
    let state = state.expect("a state");
    wrong.query_pairs_mut().clear().append_pair("state", &state).append_pair("code", "made-up");
    browser.open(wrong.as_str()).await.invalid("code");
    // The failed exchange ended the flow.
    browser.open(&callback).await.invalid("state");

    let browser = Browser::new(&app);
    let away = browser.leave(&json!({})).await;
    let state = away.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
    let back = format!("{}/v1/auth/oauth/{NAME}/callback?state={}", app.base_url, state.expect("a state"));
    browser.open(&back).await.invalid("code");
    assert_eq!(app.count("select count(*) from identities").await, 0);
    assert_eq!(app.count("select count(*) from web_sessions").await, 0);
    app.stop().await;
}

#[tokio::test]
async fn provider_may_restart_with_other_keys() {
    let mut provider = IdentityProvider::new();
    let app = provider.configure(App::simulated()).start().await;
    let start = format!("{}/v1/auth/oauth/{NAME}/start", app.base_url);
    let claims = person("sub-1", "ada@example.com");
    let down = Browser::new(&app).open(&start).await.problem(503, "feature-unavailable");
    assert!(down.headers.contains_key("retry-after"));
    app.stranger().get("/v1/archetypes").await.expect(200);

    provider.start(&app);
    eventually(Duration::from_secs(20), "the service calls the provider again", async || {
        (Browser::new(&app).open(&start).await.status == 303).then_some(())
    })
    .await;
    let (account, _) = signed_in(&app, &Browser::new(&app).sign_in(&provider, &claims).await);

    provider.stop();
    provider.start(&app);
    assert_eq!(signed_in(&app, &Browser::new(&app).sign_in(&provider, &claims).await).0, account);

    let browser = Browser::new(&app);
    let callback = browser.to_callback(&provider, &claims).await;
    provider.stop();
    browser.open(&callback).await.problem(503, "feature-unavailable");
    app.stop().await;
}

/// Contract: identities 7. A suspended account is 403, and a deleted account releases its identities.
#[tokio::test]
async fn identity_has_the_restrictions_of_its_account() {
    let (app, provider) = service().await;
    let claims = person("sub-1", "ada@example.com");
    let sign_in = async || Browser::new(&app).sign_in(&provider, &claims).await;
    let (account, client) = signed_in(&app, &sign_in().await);
    let me = client.get("/v1/account/me").await.expect(200);
    assert_eq!(uuid_of(me.body["id"].as_str().expect("an id")), account.as_uuid());

    let enroll = "insert into mfa_factors (account_id, sealed_secret, enrolled_at) values ($1, ''::bytea, now())";
    app.execute(enroll, account.as_uuid()).await;
    let challenge = sign_in().await.expect(200);
    let names = ["challenge_expires_at", "challenge_token", "mfa_required"];
    assert_eq!(members(&challenge.body).into_iter().collect::<Vec<_>>(), names);
    assert_eq!(challenge.body["mfa_required"], true);
    assert_eq!((app.web_sessions(account).await, app.logins(account).await.len()), (1, 1));
    app.execute("delete from mfa_factors where account_id = $1", account.as_uuid()).await;

    app.execute("update accounts set status = 'suspended' where id = $1", account.as_uuid()).await;
    assert_eq!(sign_in().await.problem(403, "forbidden").body["title"], "AccountSuspended");
    app.execute("update accounts set status = 'active' where id = $1", account.as_uuid()).await;

    let body = json!({"confirm": "delete-account"});
    client.send(client.request(reqwest::Method::DELETE, "/v1/account/me").json(&body)).await.expect(204);
    let (fresh, _) = signed_in(&app, &sign_in().await);
    assert_ne!(fresh, account);
    app.stop().await;
}
