//! Signing in through an identity provider (contract: identities), which is a real one on loopback.

use std::time::Duration;

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::emails::Template;
use kitfleet_domain::ids::AccountId;
use serde_json::{Value, json};
use url::Url;

use crate::metrics::{scraped, value};
use crate::support::identity_provider::{Browser, IdentityProvider, NAME, person};
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, assert_timestamp, at_once, eventually, members};

const CONFIRM: &str = "/v1/auth/oauth/confirm";

/// A service and the provider it knows, which runs.
async fn service() -> (App, IdentityProvider) {
    let mut provider = IdentityProvider::new();
    let app = scraped(provider.configure(App::simulated())).start().await;
    provider.start(&app);
    (app, provider)
}

/// The account that an answer has signed in to, and a client with its session. It may also have a token to set a removed password with.
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

/// Contract: identities 3, 4. The first sign-in makes an account, whose address counts as verified, and the next one finds it,
/// whatever the provider calls the person or their address by then. Contract: audit-log 12. Each writes `account.login` with
/// these members and no method.
#[tokio::test]
async fn the_first_sign_in_makes_an_account_and_the_next_one_finds_it() {
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

/// OpenID Connect Core, section 5.4: a provider may also tell who people are in the ID token.
#[tokio::test]
async fn a_provider_may_tell_everything_in_its_id_token() {
    let mut provider = IdentityProvider::new();
    let app = provider.configure(App::simulated()).start().await;
    provider.start_talkative(&app);
    let answer = Browser::new(&app).sign_in(&provider, &person("sub-1", "ada@example.com")).await;
    let (_, client) = signed_in(&app, &answer);
    assert_eq!(client.get("/v1/account/me").await.expect(200).body["email"], "ada@example.com");
    app.stop().await;
}

/// Many first sign-ins of one person at the same time make one account.
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

/// Contract: identities 5, 6. An address that has an account but no link gets the mail that asks to confirm, and no session;
/// whoever follows its link is signed in, then and from then on. Of many who follow it at once one is.
#[tokio::test]
async fn an_address_with_an_account_has_to_confirm() {
    let (app, provider) = service().await;
    let account = app.account(Tier::Free).await;
    let address = app.address_of(account).await;
    let claims = person("sub-1", &address.to_uppercase());

    let asked = Browser::new(&app).sign_in(&provider, &claims).await.expect(202);
    assert_eq!(members(&asked.body).into_iter().collect::<Vec<_>>(), ["confirmation_required", "expires_at"]);
    assert_eq!(asked.body["confirmation_required"], true);
    assert_timestamp(&asked.body["expires_at"]);
    let old = app.mail_to(&address, Template::ConfirmSignIn).await.token;
    // Whoever asks again makes the mail before worthless.
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

    // The link belongs to one account, and is no use for anything else.
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

/// Whoever signed up with an address before it was proven may have been anybody: their password is worthless once its
/// holder has confirmed.
#[tokio::test]
async fn a_password_chosen_before_the_address_was_proven_is_forgotten() {
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

/// A trip to the provider is good once, within ten minutes, for the browser that left and the provider it left for: nobody
/// is signed in as somebody else by following a link.
#[tokio::test]
async fn a_trip_is_good_once_and_for_the_browser_that_left() {
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

/// What leaves for the provider: state, nonce and PKCE, and a cookie that tells the browser when it comes back, which no
/// script and no other site's form can use. Contract: operators 5. It is counted as what it is.
#[tokio::test]
async fn a_browser_leaves_with_a_state_a_nonce_and_a_challenge() {
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
    assert!(!attributes.contains(&"Secure"), "it is plain http: {cookie}");
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
            assert_eq!(app.tables_with(&value).await, <[String; 0]>::default(), "stored hashed");
        }
    }
    for route in ["start", "callback?state=x&code=x"] {
        let url = format!("{}/v1/auth/oauth/nobody/{route}", app.base_url);
        stranger.open(&url).await.problem(404, "not-found");
    }
    app.stop().await;
}

/// Contract: identities 2, 4. Without a verified address there is no account; who does not want to, or comes with a code that
/// the provider did not give, is not signed in.
#[tokio::test]
async fn without_a_verified_address_or_a_good_code_nobody_is_signed_in() {
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
    // That trip is over, also with the right code.
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

/// A provider that is down stops neither the service's start nor anything else; it is asked again when it is back, also
/// when it signs with other keys by then.
#[tokio::test]
async fn a_provider_may_be_down_and_come_back_with_other_keys() {
    let mut provider = IdentityProvider::new();
    let app = provider.configure(App::simulated()).start().await;
    let start = format!("{}/v1/auth/oauth/{NAME}/start", app.base_url);
    let claims = person("sub-1", "ada@example.com");
    let down = Browser::new(&app).open(&start).await.problem(503, "feature-unavailable");
    assert!(down.headers.contains_key("retry-after"));
    app.stranger().get("/v1/archetypes").await.expect(200);

    provider.start(&app);
    eventually(Duration::from_secs(20), "the provider is asked again", async || {
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

/// Contract: identities 7. An enrolled account gets a challenge from a linked identity provider, and no session, nor a row in
/// its log. A suspended one hears so, and a deleted one gives its identities back.
#[tokio::test]
async fn what_an_account_may_not_do_its_identities_may_not_either() {
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
