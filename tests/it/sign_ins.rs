//! Sign-up, login and logout (contract: sign-ins).

mod links;

use std::time::Duration;

use kitfleet_domain::emails::Template;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::people::{PASSWORD, Person, token_of};
use crate::support::records::AuditRow;
use crate::support::{Answer, App, Client, assert_timestamp, at_once, eventually, members};

const SIGNUP: &str = "/v1/auth/signup";
const VERIFY: &str = "/v1/auth/verify-email";
const RESEND: &str = "/v1/auth/resend-verification";
const LOGIN: &str = "/v1/auth/login";
const MAGIC_LINK: &str = "/v1/auth/magic-link/request";
const FOLLOW: &str = "/v1/auth/magic-link/consume";
const FORGOT: &str = "/v1/auth/password-reset/request";
const RESET: &str = "/v1/auth/password-reset/confirm";
const REFRESH: &str = "/v1/auth/refresh";
const LOGOUT: &str = "/v1/auth/logout";
const ME: &str = "/v1/account/me";

/// These routes answer the same for every address, and send a mail if there is an account.
const SENDING: [(&str, Template); 3] =
    [(RESEND, Template::VerifyEmail), (MAGIC_LINK, Template::MagicLink), (FORGOT, Template::ResetPassword)];

const BROWSER: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)";

impl App {
    async fn minutes_until(&self, instant: &Value) -> f64 {
        assert_timestamp(instant);
        sqlx::query_scalar("select extract(epoch from $1::text::timestamptz - now())::float8 / 60")
            .bind(instant.as_str())
            .fetch_one(&self.database.pool)
            .await
            .expect("an instant")
    }

    async fn assert_ahead(&self, instant: &Value, minutes: f64) {
        let ahead = self.minutes_until(instant).await;
        assert!(ahead <= minutes && ahead > minutes - 0.75, "{instant} is {ahead} minutes ahead");
    }

    async fn account_of(&self, email: &str) -> AccountId {
        let id: uuid::Uuid = sqlx::query_scalar("select id from accounts where email = $1 and status <> 'deleted'")
            .bind(email)
            .fetch_one(&self.database.pool)
            .await
            .expect("one account");
        format!("acc_{id}").parse().expect("an account's id")
    }

    async fn unverified_person(&self) -> Person {
        let person = self.person(Tier::Free).await;
        self.execute("update accounts set email_verified_at = null where id = $1", person.account.as_uuid()).await;
        person
    }

    async fn link(&self, route: &str, email: &str) -> String {
        let (_, template) = SENDING.into_iter().find(|(path, _)| *path == route).expect("a route that mails");
        let before = self.mails_to(email, template).len();
        self.stranger().post(route, json!({"email": email})).await.expect(200);
        self.mail_number(before + 1, email, template).await.token
    }

    async fn expire_links(&self, account: AccountId) {
        let expire = "update mail_links set expires_at = now() - interval '1 second' where account_id = $1";
        self.execute(expire, account.as_uuid()).await;
    }

    /// Returns the number of 200 answers and the other answers.
    async fn race(&self, path: &str, body: Value) -> (usize, Vec<Answer>) {
        let client = self.stranger();
        let answers = at_once((0..64).map(|_| {
            let (client, path, body) = (client.clone(), path.to_owned(), body.clone());
            async move { client.post(&path, body).await }
        }))
        .await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
        assert_eq!(won.len() + lost.len(), 64);
        (won.len(), lost)
    }
}

/// The answer has only a session and perhaps a token to replace a removed password (contract: sign-ins 5, 9). Returns a client
/// with the session.
async fn session(app: &App, result: &Answer) -> Client {
    let members = members(&result.body).into_iter().filter(|name| *name != "password_reset_token");
    assert_eq!(members.collect::<Vec<_>>(), ["session"]);
    web_session(app, &result.body["session"]).await;
    assert_eq!(result.headers["cache-control"], "no-store");
    app.signed_in(result)
}

async fn web_session(app: &App, session: &Value) {
    assert_eq!(members(session).into_iter().collect::<Vec<_>>(), ["account_id", "expires_at", "token"]);
    app.assert_ahead(&session["expires_at"], 30.0 * 24.0 * 60.0).await;
    assert!(session["account_id"].as_str().is_some_and(|id| id.starts_with("acc_")), "{session}");
    let token = session["token"].as_str().expect("a token");
    let in_alphabet = token.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    assert!(token.len() == 43 && in_alphabet, "32 bytes in base64: {token}");
    assert!(app.tables_with(token).await.is_empty(), "a token is stored");
}

fn without_request_id(problem: &Answer) -> Value {
    let mut document = problem.body.clone();
    document.as_object_mut().expect("an object").remove("request_id").expect("a member");
    document
}

async fn from_browser(client: &Client, path: &str, body: Value) -> Answer {
    client.send(client.request(Method::POST, path).header("user-agent", BROWSER).json(&body)).await
}

/// The account itself caused the row, from the test's browser. Returns the payload without the members that all rows of
/// sign-ins have (contract: audit-log 12).
fn own_row(row: &AuditRow, account: AccountId) -> Value {
    assert_eq!((row.actor_type.as_str(), row.actor_account_id), ("customer", Some(account.as_uuid())));
    assert_eq!(row.actor_key_id, None);
    assert_eq!((row.ip_address.as_deref(), row.user_agent.as_deref()), (Some("127.0.0.1"), Some(BROWSER)));
    let mut payload = row.payload.clone();
    let object = payload.as_object_mut().expect("an object");
    assert_eq!(object.remove("issued_from_ip"), Some("127.0.0.1".into()));
    assert_eq!(object.remove("user_agent"), Some(BROWSER.into()));
    payload
}

/// Contract: sign-ins 1, 4, 6; accounts 1; audit-log 12. The link also sends a welcome mail.
#[tokio::test]
async fn signup_with_confirmed_address_signs_in() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let body = json!({"email": " Ada@Example.com ", "password": PASSWORD, "name": "Ada"});
    let signup = stranger.post(SIGNUP, body).await.expect(200);
    assert_eq!(members(&signup.body).into_iter().collect::<Vec<_>>(), ["verification_email_expires_at"]);
    app.assert_ahead(&signup.body["verification_email_expires_at"], 30.0).await;
    let account = app.account_of("Ada@example.com").await;
    let login = json!({"email": "ada@example.com", "password": PASSWORD});
    let refused = stranger.post(LOGIN, login.clone()).await.problem(403, "forbidden");
    assert_eq!(refused.body["title"], "EmailNotVerified");
    assert_eq!(app.count("select count(*) from web_sessions").await, 0);
    assert_eq!(app.audit(account).await.len(), 0);

    let link = app.mail_to("Ada@example.com", Template::VerifyEmail).await;
    let verify = stranger.request(Method::POST, VERIFY).header("x-service-account", "x").header("user-agent", BROWSER);
    let verified = stranger.send(verify.json(&json!({"token": link.token}))).await.expect(200);
    let client = session(&app, &verified).await;
    let me = client.get(ME).await.expect(200).body;
    assert_eq!((&me["id"], &verified.body["session"]["account_id"]), (&account.to_string().into(), &me["id"]));
    assert_eq!((&me["email"], &me["name"]), (&"Ada@example.com".into(), &"Ada".into()));
    assert_eq!((&me["status"], &me["tier"], &me["mfa_enrolled"]), (&"active".into(), &"free".into(), &false.into()));
    assert_timestamp(&me["email_verified_at"]);
    app.mail_to("Ada@example.com", Template::Welcome).await;

    let log = app.audit(account).await;
    let actions: Vec<_> = log.iter().map(|row| row.action.as_str()).collect();
    assert_eq!(actions, ["account.email_verified"], "signing in with a link writes no login row");
    assert_eq!(own_row(&log[0], account), json!({}));
    stranger.post(VERIFY, json!({"token": link.token})).await.invalid("token");

    let login = from_browser(&stranger, LOGIN, login).await.expect(200);
    session(&app, &login).await.get(ME).await.expect(200);
    let logins = app.audited(account, "account.login").await;
    assert_eq!(logins.len(), 1);
    assert_eq!(own_row(&logins[0], account), json!({"method": "password"}));
    let target = logins[0].target_resource_id.as_deref();
    assert!(target.is_some_and(|id| id.starts_with("wsess_")), "{target:?}");
    client.get(ME).await.expect(200);
    app.stop().await;
}

/// Contract: sign-ins 1, 3; requests 11; accounts 10. Case, Unicode composition and concurrent signups make no difference.
/// `Idempotency-Key` has no effect.
#[tokio::test]
async fn address_signs_up_once() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let sign_up = async |email: &str| {
        let request = stranger.request(Method::POST, SIGNUP).header("idempotency-key", "the-same");
        stranger.send(request.json(&json!({"email": email, "password": PASSWORD, "name": "Ada"}))).await
    };
    sign_up("\u{e9}va@example.com").await.expect(200);
    let spellings =
        ["\u{e9}va@example.com", "\u{c9}VA@EXAMPLE.COM", "e\u{301}va@example.com", "\u{e9}v\u{ff41}@example.com"];
    for spelling in spellings {
        sign_up(spelling).await.problem(409, "conflict");
    }
    let stranger = app.stranger();
    let body = json!({"email": "bob@example.com", "password": PASSWORD, "name": "Bob"});
    let answers = at_once((0..8).map(|_| {
        let (stranger, body) = (stranger.clone(), body.clone());
        async move { stranger.post(SIGNUP, body).await.status.as_u16() }
    }))
    .await;
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 409).count(), 7, "{answers:?}");

    let person = app.person(Tier::Free).await;
    let delete = person.client.request(Method::DELETE, ME).json(&json!({"confirm": "delete-account"}));
    person.client.send(delete).await.expect(204);
    let again = json!({"email": person.email, "password": PASSWORD, "name": "Ada"});
    stranger.post(SIGNUP, again).await.expect(200);
    assert_ne!(app.account_of(&person.email).await, person.account);
    app.stop().await;
}

/// Contract: sign-ins 1 to 3; requests 4, 8. Unknown fields are ignored and not reported, because the route needs no
/// credential.
#[tokio::test]
async fn invalid_signup_creates_nothing() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let sound = json!({"email": "ada@example.com", "password": PASSWORD, "name": "Ada"});
    let with = |field: &str, value: Value| {
        let mut body = sound.clone();
        body[field] = value;
        body
    };
    for length in [0, 1, 11, 16_000] {
        stranger.post(SIGNUP, with("password", "x".repeat(length).into())).await.invalid("password");
    }
    for name in ["", "   ", "Ada\r\nBcc: eve@example.com", "Ada\nX: y", "Ada\u{7}", "Ada\0", "Ada\u{85}x"] {
        stranger.post(SIGNUP, with("name", name.into())).await.invalid("name");
    }
    stranger.post(SIGNUP, with("name", "x".repeat(121).into())).await.invalid("name");
    for email in [
        "",
        "ada",
        "ada@",
        "@example.com",
        "ada@example.com\r\nBcc: eve@example.com",
        "ada\r\nBcc: eve@example.com",
        "ada@example.com,eve@example.com",
        "ada@example.com\0",
        "Ada <ada@example.com>",
        "\"a b\"@example.com",
        "ada@[127.0.0.1]",
    ] {
        stranger.post(SIGNUP, with("email", email.into())).await.invalid("email");
    }
    stranger.post(SIGNUP, with("email", format!("{}@example.com", "x".repeat(250)).into())).await.invalid("email");
    for field in ["email", "password", "name"] {
        for wrong in [Value::Null, json!(1), json!(true), json!([PASSWORD]), json!({"a": PASSWORD})] {
            stranger.post(SIGNUP, with(field, wrong)).await.invalid(field);
        }
    }
    stranger.post(SIGNUP, json!({})).await.invalid("email");
    let all_wrong = json!({"email": "x", "password": "x", "name": "\n"});
    stranger.post(SIGNUP, all_wrong).await.invalid("email").invalid("password").invalid("name");
    for raw in ["", "null", "[]", "\"ada@example.com\"", "{", "{\"email\":}", "\u{fffd}"] {
        let status = stranger.post_raw(SIGNUP, raw).await.status;
        assert_eq!(status, 400, "{raw:?}");
    }
    stranger.post_raw(SIGNUP, vec![0xff, 0xfe]).await.expect(400);
    stranger.post(SIGNUP, with("name", "x".repeat(1_100_000).into())).await.problem(413, "payload-too-large");
    assert_eq!(app.count("select count(*) from accounts where email_key = 'ada@example.com'").await, 0);
    assert_eq!(app.count("select count(*) from emails").await, 0);

    let unknown = stranger.post(SIGNUP, with("referrer", "x".into())).await.expect(200);
    assert!(!unknown.headers.contains_key("x-service-unknown-fields"));
    for path in [VERIFY, RESEND, LOGIN, MAGIC_LINK, FOLLOW, FORGOT, RESET, REFRESH, LOGOUT, "/v1/auth/mfa/challenge"] {
        let body =
            json!({"email": "x@example.com", "token": "x", "password": PASSWORD, "new_password": PASSWORD, "odd": 1});
        let answer = stranger.post(path, body).await;
        assert!(matches!(answer.status.as_u16(), 200 | 400 | 401), "{path}: {}", answer.body);
        assert!(!answer.headers.contains_key("x-service-unknown-fields"), "{path}");
    }
    app.stop().await;
}

/// Contract: sign-ins 2, 3. Passwords have 12 to 1,000 characters.
#[tokio::test]
async fn password_is_compared_after_normalization() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let (short, long) = ("cafe\u{301}1234567\u{ff18}".to_owned(), format!("{}\u{fb01}", "x".repeat(998)));
    for (email, password) in [("ev\u{e9}@example.com", &short), ("bob@example.com", &long)] {
        stranger.post(SIGNUP, json!({"email": email, "password": password, "name": "x"})).await.expect(200);
        let link = app.mail_to(email, Template::VerifyEmail).await.token;
        stranger.post(VERIFY, json!({"token": link})).await.expect(200);
    }
    let typed = [
        ("ev\u{e9}@example.com", short.clone(), 200),
        (" EVE\u{301}@Example.COM ", "caf\u{e9}12345678".to_owned(), 200),
        ("ev\u{e9}@example.com", "Caf\u{e9}12345678".to_owned(), 401),
        ("ev\u{e9}@example.com", "cafe12345678".to_owned(), 401),
        ("ev\u{e9}@example.com", "caf\u{e9}12345678 ".to_owned(), 401),
        ("eve@example.com", short, 401),
        ("bob@example.com", format!("{}fi", "x".repeat(998)), 200),
        ("bob@example.com", "x".repeat(998), 401),
        ("bob@example.com", "x".repeat(16_000), 401),
        ("bob@example.com", String::new(), 401),
    ];
    for (email, password, status) in typed {
        let answer = app.log_in(email, &password).await;
        assert_eq!(answer.status, status, "{email:?} with {} characters: {}", password.chars().count(), answer.body);
    }
    app.stop().await;
}

/// Contract: sign-ins 4, 13; emails 2. It works for 30 minutes, until the next one is sent.
#[tokio::test]
async fn verification_link_works_once_and_expires() {
    let app = App::simulated().set("auth.send_rate_per_minute", "100").start().await;
    let stranger = app.stranger();
    let ada = app.unverified_person().await;
    let first = app.link(RESEND, &ada.email).await;
    let second = app.link(RESEND, &ada.email).await;
    stranger.post(VERIFY, json!({"token": first})).await.invalid("token");
    app.expire_links(ada.account).await;
    stranger.post(VERIFY, json!({"token": second})).await.invalid("token");
    let third = app.link(RESEND, &ada.email).await;
    for other in [FOLLOW, RESET] {
        stranger.post(other, json!({"token": third, "new_password": PASSWORD})).await.invalid("token");
    }
    for bad in [
        json!({}),
        json!({"token": ""}),
        json!({"token": "x"}),
        json!({"token": 1}),
        json!({"token": format!("{third}x")}),
    ] {
        stranger.post(VERIFY, bad).await.invalid("token");
    }
    assert_eq!(ada.client.get(ME).await.expect(200).body["email_verified_at"], Value::Null);
    let (won, lost) = app.race(VERIFY, json!({"token": third})).await;
    assert_eq!(won, 1);
    for answer in lost {
        answer.invalid("token");
    }
    assert_eq!(app.audited(ada.account, "account.email_verified").await.len(), 1);

    stranger.post(RESEND, json!({"email": ada.email})).await.expect(200);
    let waiting = "select count(*) from emails where status <> 'done'";
    eventually(Duration::from_secs(20), "the mails are done", async || (app.count(waiting).await == 0).then_some(()))
        .await;
    assert_eq!(app.mails_to(&ada.email, Template::VerifyEmail).len(), 3);
    app.stop().await;
}

/// Contract: sign-ins 6, 7. Only with the right password does the answer give the reason.
#[tokio::test]
async fn failed_login_does_not_reveal_accounts() {
    let app = App::simulated().start().await;
    let (active, unverified, suspended) =
        (app.person(Tier::Free).await, app.unverified_person().await, app.unverified_person().await);
    let (linked, deleted) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    app.run(&["account", "suspend", &suspended.account.to_string()]).await.code(0);
    app.execute("update accounts set password_hash = null where id = $1", linked.account.as_uuid()).await;
    let delete = deleted.client.request(Method::DELETE, ME).json(&json!({"confirm": "delete-account"}));
    deleted.client.send(delete).await.expect(204);

    let wrong = app.log_in(&active.email, "not the password").await.problem(401, "unauthorized");
    let names = |answer: &Answer| answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
    let cases = [
        ("nobody@example.com", PASSWORD),
        (unverified.email.as_str(), "not the password"),
        (suspended.email.as_str(), "not the password"),
        (linked.email.as_str(), PASSWORD),
        (linked.email.as_str(), ""),
        (deleted.email.as_str(), PASSWORD),
    ];
    for (email, password) in cases {
        let refused = app.log_in(email, password).await.problem(401, "unauthorized");
        assert_eq!(without_request_id(&refused), without_request_id(&wrong), "{email}");
        assert_eq!(names(&refused), names(&wrong));
    }
    for (person, title) in [(&unverified, "EmailNotVerified"), (&suspended, "AccountSuspended")] {
        let refused = app.log_in(&person.email, PASSWORD).await.problem(403, "forbidden");
        assert_eq!(refused.body["title"], title);
    }
    assert_eq!(app.audited(unverified.account, "account.login").await.len(), 0);
    app.log_in(&active.email, PASSWORD).await.expect(200);
    for bad in
        [json!({}), json!({"email": active.email}), json!({"password": PASSWORD}), json!({"email": 1, "password": 2})]
    {
        app.stranger().post(LOGIN, bad).await.problem(400, "validation-failed");
    }
    app.stop().await;
}

/// Logs in from another address, as reported by a trusted proxy.
async fn log_in_from(app: &App, address: &str, email: &str, password: &str) -> Answer {
    let stranger = app.stranger();
    let request = stranger.request(Method::POST, LOGIN).header("x-forwarded-for", address);
    stranger.send(request.json(&json!({"email": email, "password": password}))).await
}

/// Contract: sign-ins 8; rate-limits 5.
#[tokio::test]
async fn failures_from_one_network_block_only_that_network() {
    let app = App::simulated()
        .set("server.trusted_proxies", "127.0.0.1")
        .set("rate_limits.login_failures_of_network_per_hour", "3")
        .set("rate_limits.login_failures_per_hour", "1000")
        .start()
        .await;
    let (ada, bob) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    let log_in = async |address: &str, email: &str, password: &str| log_in_from(&app, address, email, password).await;
    for (attackers, elsewhere) in [
        (["192.0.2.1", "192.0.2.2", "192.0.2.255"], "192.0.3.1"),
        (["2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:1:ffff::1"], "2001:db8:2::1"),
    ] {
        for email in [ada.email.as_str(), "unknown@example.com"] {
            for (n, address) in attackers.into_iter().enumerate() {
                let spelling = [email.to_owned(), email.to_uppercase()][n % 2].clone();
                log_in(address, &spelling, "not the password").await.expect(401);
            }
            for password in ["not the password", PASSWORD] {
                let refused = log_in(attackers[0], email, password).await.problem(429, "rate-limited");
                assert!(refused.headers.contains_key("retry-after"));
            }
        }
        log_in(elsewhere, &ada.email, PASSWORD).await.expect(200);
        log_in(attackers[0], &bob.email, PASSWORD).await.expect(200);
    }
    ada.client.get(ME).await.expect(200);
    app.stop().await;
}

/// Contract: rate-limits 5. Such failures reach the limit of the account. Networks from which the owner signed in before have
/// their own limit.
#[tokio::test]
async fn failures_from_many_networks_do_not_block_known_networks() {
    let app = App::simulated()
        .set("server.trusted_proxies", "127.0.0.1")
        .set("rate_limits.login_failures_per_hour", "5")
        .set("rate_limits.login_failures_of_network_per_hour", "4")
        .start()
        .await;
    let ada = app.person(Tier::Free).await;
    let log_in = async |address: &str, password: &str| log_in_from(&app, address, &ada.email, password).await;
    log_in("198.51.100.7", PASSWORD).await.expect(200);
    for network in 0..5 {
        log_in(&format!("10.0.{network}.1"), "not the password").await.expect(401);
    }
    for password in ["not the password", PASSWORD] {
        log_in("10.0.9.1", password).await.problem(429, "rate-limited");
    }
    for _ in 0..3 {
        log_in("198.51.100.99", PASSWORD).await.expect(200);
        log_in("198.51.100.7", "not the password").await.expect(401);
    }
    log_in("198.51.100.7", "not the password").await.expect(401);
    log_in("198.51.100.7", PASSWORD).await.problem(429, "rate-limited");

    // Networks are deleted with their account, and after 180 days without a sign-in.
    assert_eq!(app.count("select count(*) from sign_in_networks").await, 1);
    app.execute_all("update sign_in_networks set last_used_at = now() - interval '181 days'").await;
    app.run(&["sweep", "retention"]).await.code(0);
    assert_eq!(app.count("select count(*) from sign_in_networks").await, 0);
    app.stop().await;
}

/// Contract: accounts 6, 7. After the reactivation its sessions and credentials work again.
#[tokio::test]
async fn suspended_account_cannot_sign_in() {
    let app = App::simulated().set("auth.send_rate_per_minute", "100").start().await;
    let ada = app.person(Tier::Free).await;
    let (magic, reset) = (app.link(MAGIC_LINK, &ada.email).await, app.link(FORGOT, &ada.email).await);
    app.run(&["account", "suspend", &ada.account.to_string()]).await.code(0);
    let refused = [
        app.log_in(&ada.email, PASSWORD).await,
        app.stranger().post(FOLLOW, json!({"token": magic})).await,
        app.stranger().post(REFRESH, json!({"token": ada.token()})).await,
        ada.client.get(ME).await,
    ];
    for answer in refused {
        assert_eq!(answer.problem(403, "forbidden").body["title"], "AccountSuspended");
    }
    let changed = json!({"token": reset, "new_password": "another password"});
    let answer = app.stranger().post(RESET, changed).await.problem(403, "forbidden");
    assert_eq!(answer.body["title"], "AccountSuspended");
    assert_eq!(app.count("select count(*) from web_sessions").await, 1, "a session was started");

    app.run(&["account", "reactivate", &ada.account.to_string()]).await.code(0);
    let passwords = [PASSWORD, "another password"];
    let mut statuses = Vec::new();
    for password in passwords {
        statuses.push(app.log_in(&ada.email, password).await.status.as_u16());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401], "exactly one password works");
    app.stop().await;
}

/// Contract: sign-ins 16, 18. Of concurrent refreshes one succeeds.
#[tokio::test]
async fn refresh_invalidates_the_earlier_token() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let ada = app.person(Tier::Free).await;
    let first = app.log_in(&ada.email, PASSWORD).await;
    let id = |row: &AuditRow| row.target_resource_id.clone();
    let row = id(&app.audited(ada.account, "account.login").await[0]);
    let brief = "update web_sessions set expires_at = now() + interval '1 minute' where account_id = $1";
    app.execute(brief, ada.account.as_uuid()).await;

    let refreshed = stranger.post(REFRESH, json!({"token": token_of(&first)})).await.expect(200);
    web_session(&app, &refreshed.body).await;
    assert_eq!(refreshed.headers["cache-control"], "no-store");
    assert_eq!(refreshed.body["account_id"], ada.account.to_string());
    let token = refreshed.body["token"].as_str().expect("a token").to_owned();
    assert_ne!(token, token_of(&first));
    app.signed_in(&first).get(ME).await.problem(401, "unauthorized");
    stranger.post(REFRESH, json!({"token": token_of(&first)})).await.problem(401, "unauthorized");
    let devices = Client::new(&app.base_url, Some(&token)).get("/v1/account/web-sessions").await.expect(200).body;
    let current = devices["data"].as_array().expect("a list").iter().find(|device| device["current"] == true);
    assert_eq!(current.expect("the current session")["id"].as_str(), row.as_deref());

    let (won, lost) = app.race(REFRESH, json!({"token": token})).await;
    assert_eq!(won, 1);
    for answer in lost {
        answer.problem(401, "unauthorized");
    }
    Client::new(&app.base_url, Some(&token)).get(ME).await.problem(401, "unauthorized");

    let over = "update web_sessions set expires_at = now() - interval '1 second' where account_id = $1";
    ada.client.get(ME).await.expect(200);
    app.execute(over, ada.account.as_uuid()).await;
    ada.client.get(ME).await.problem(401, "unauthorized");
    stranger.post(REFRESH, json!({"token": ada.token()})).await.problem(401, "unauthorized");
    let key = app.client_of(ada.account, &["account_owner"]).await.key;
    for bad in [json!("x"), json!(""), json!(key)] {
        stranger.post(REFRESH, json!({"token": bad})).await.problem(401, "unauthorized");
    }
    for bad in [json!({}), json!({"token": null}), json!({"token": 1})] {
        stranger.post(REFRESH, bad).await.invalid("token");
    }
    app.stop().await;
}

/// Contract: sign-ins 17; audit-log 12.
#[tokio::test]
async fn logout_ends_only_its_session() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let ada = app.person(Tier::Free).await;
    let other = app.device_of(ada.account).await;
    for _ in 0..2 {
        let answer = from_browser(&stranger, LOGOUT, json!({"token": ada.token()})).await.expect(200);
        assert_eq!(answer.body, json!({"ok": true}));
        ada.client.get(ME).await.problem(401, "unauthorized");
        stranger.post(REFRESH, json!({"token": ada.token()})).await.problem(401, "unauthorized");
    }
    other.get(ME).await.expect(200);
    assert_eq!(stranger.post(LOGOUT, json!({"token": "unknown"})).await.expect(200).body, json!({"ok": true}));
    stranger.post(LOGOUT, json!({})).await.invalid("token");
    let rows = app.audited(ada.account, "account.logout").await;
    assert_eq!(rows.len(), 1);
    let id = rows[0].target_resource_id.as_deref().expect("an id");
    assert!(id.starts_with("wsess_"), "{id}");
    assert_eq!(own_row(&rows[0], ada.account), json!({"session_id": id}));
    app.stop().await;
}
