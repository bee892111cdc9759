//! Signing up, in and out (contract: sign-ins).

use std::time::Duration;

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::emails::Template;
use kitfleet_domain::ids::AccountId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::mail::Mail;
use crate::support::people::{PASSWORD, Person, challenge_of, recovery_codes, token_of};
use crate::support::records::AuditRow;
use crate::support::smtp::MailServer;
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

/// The routes that answer the same to everybody, and what they mail to somebody.
const SENDING: [(&str, Template); 3] =
    [(RESEND, Template::VerifyEmail), (MAGIC_LINK, Template::MagicLink), (FORGOT, Template::ResetPassword)];

const BROWSER: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)";

impl App {
    /// How long it is until an instant, in minutes.
    async fn minutes_until(&self, instant: &Value) -> f64 {
        assert_timestamp(instant);
        sqlx::query_scalar("select extract(epoch from $1::text::timestamptz - now())::float8 / 60")
            .bind(instant.as_str())
            .fetch_one(&self.database.pool)
            .await
            .expect("an instant")
    }

    /// Asserts that an instant lies so many minutes ahead.
    async fn assert_ahead(&self, instant: &Value, minutes: f64) {
        let ahead = self.minutes_until(instant).await;
        assert!(ahead <= minutes && ahead > minutes - 0.75, "{instant} is {ahead} minutes ahead");
    }

    /// The account of an address.
    async fn account_of(&self, email: &str) -> AccountId {
        let id: uuid::Uuid = sqlx::query_scalar("select id from accounts where email = $1 and status <> 'deleted'")
            .bind(email)
            .fetch_one(&self.database.pool)
            .await
            .expect("one account");
        format!("acc_{id}").parse().expect("an account's id")
    }

    /// Somebody whose address is not proven.
    async fn unproven(&self) -> Person {
        let person = self.person(Tier::Free).await;
        self.execute("update accounts set email_verified_at = null where id = $1", person.account.as_uuid()).await;
        person
    }

    /// Asks for a mail, and answers the token of its link.
    async fn link(&self, route: &str, email: &str) -> String {
        let (_, template) = SENDING.into_iter().find(|(path, _)| *path == route).expect("a route that mails");
        let before = self.mails_to(email, template).len();
        self.stranger().post(route, json!({"email": email})).await.expect(200);
        self.mail_number(before + 1, email, template).await.token
    }

    /// Makes an account's links expire.
    async fn expire_links(&self, account: AccountId) {
        let expire = "update mail_links set expires_at = now() - interval '1 second' where account_id = $1";
        self.execute(expire, account.as_uuid()).await;
    }

    /// The same request many times at once; how many were answered 200, and all who were not.
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

/// Asserts that an answer is a session and nothing else, and answers a client with it (contract: sign-ins 9).
async fn session(app: &App, result: &Answer) -> Client {
    assert_eq!(members(&result.body).into_iter().collect::<Vec<_>>(), ["session"]);
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

/// A client's request as a browser behind a proxy sends it.
async fn from_browser(client: &Client, path: &str, body: Value) -> Answer {
    client.send(client.request(Method::POST, path).header("user-agent", BROWSER).json(&body)).await
}

/// Asserts that a row was caused by its own account, from the test's browser, and answers the payload without what rows of
/// sign-ins have in common (contract: audit-log 12).
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

/// Contract: sign-ins 1, 4, 6; accounts 1; audit-log 12. Whoever signs up is active and gets a mail; with its link they are
/// verified, signed in and welcomed, and can log in.
#[tokio::test]
async fn whoever_signs_up_proves_their_address_and_is_in() {
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
    // None of the routes honors the team account header.
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
    assert_eq!(actions, ["account.email_verified"], "a link that signs in writes no login");
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

/// Contract: sign-ins 1, 3; requests 11; accounts 10. An address has one account, in whatever case or composition it is
/// written, and when many sign up at once; `Idempotency-Key` has no effect here. After a deletion the address may sign up
/// again.
#[tokio::test]
async fn an_address_signs_up_once() {
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

/// Contract: sign-ins 1 to 3; requests 4, 8. Passwords of every length, header injection in names and addresses, and bodies
/// that are none: nothing is made of them. Unknown fields are ignored and, here, not reported.
#[tokio::test]
async fn a_signup_that_is_not_sound_makes_nothing() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    let sound = json!({"email": "ada@example.com", "password": PASSWORD, "name": "Ada"});
    let with = |field: &str, value: Value| {
        let mut body = sound.clone();
        body[field] = value;
        body
    };
    for length in [0, 1, 11, 1_000_000] {
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

/// Contract: sign-ins 2, 3. Twelve characters and a thousand are passwords, and it does not matter by which keyboard one was
/// typed. Neither does it for the address.
#[tokio::test]
async fn a_password_is_the_same_however_it_was_typed() {
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
        ("bob@example.com", "x".repeat(1_000_000), 401),
        ("bob@example.com", String::new(), 401),
    ];
    for (email, password, status) in typed {
        let answer = app.log_in(email, &password).await;
        assert_eq!(answer.status, status, "{email:?} with {} characters: {}", password.chars().count(), answer.body);
    }
    app.stop().await;
}

/// Contract: sign-ins 4, 13; emails 2. A verification link is good once, for half an hour, until another is mailed, and for
/// nothing else. An address that is verified is sent none.
#[tokio::test]
async fn a_verification_link_is_good_once_and_not_for_long() {
    let app = App::simulated().set("auth.send_rate_per_minute", "100").start().await;
    let stranger = app.stranger();
    let ada = app.unproven().await;
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

/// Contract: sign-ins 6, 7. A wrong address and a wrong password are 401 with the same body, also for accounts that may not log
/// in; only who knows the password hears why they may not.
#[tokio::test]
async fn a_login_that_fails_tells_nothing() {
    let app = App::simulated().start().await;
    let (active, unproven, suspended) = (app.person(Tier::Free).await, app.unproven().await, app.unproven().await);
    let (linked, deleted) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    app.run(&["account", "suspend", &suspended.account.to_string()]).await.code(0);
    app.execute("update accounts set password_hash = null where id = $1", linked.account.as_uuid()).await;
    let delete = deleted.client.request(Method::DELETE, ME).json(&json!({"confirm": "delete-account"}));
    deleted.client.send(delete).await.expect(204);

    let wrong = app.log_in(&active.email, "not the password").await.problem(401, "unauthorized");
    let names = |answer: &Answer| answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
    let cases = [
        ("nobody@example.com", PASSWORD),
        (unproven.email.as_str(), "not the password"),
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
    for (person, title) in [(&unproven, "EmailNotVerified"), (&suspended, "AccountSuspended")] {
        let refused = app.log_in(&person.email, PASSWORD).await.problem(403, "forbidden");
        assert_eq!(refused.body["title"], title);
    }
    assert_eq!(app.audited(unproven.account, "account.login").await.len(), 0);
    app.log_in(&active.email, PASSWORD).await.expect(200);
    for bad in
        [json!({}), json!({"email": active.email}), json!({"password": PASSWORD}), json!({"email": 1, "password": 2})]
    {
        app.stranger().post(LOGIN, bad).await.problem(400, "validation-failed");
    }
    app.stop().await;
}

/// Contract: sign-ins 8; rate-limits 5. Wrong passwords are limited for an address, known or not, and who knows the right one
/// waits as well.
#[tokio::test]
async fn too_many_wrong_passwords_close_an_address() {
    let app = App::simulated().set("rate_limits.login_failures_per_hour", "3").start().await;
    let (ada, bob) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    for email in [ada.email.as_str(), "nobody@example.com"] {
        for n in 0..3 {
            app.log_in(&[email.to_owned(), email.to_uppercase()][n % 2], "not the password").await.expect(401);
        }
        for password in ["not the password", PASSWORD] {
            let refused = app.log_in(email, password).await.problem(429, "rate-limited");
            assert!(refused.headers.contains_key("retry-after"));
        }
    }
    for _ in 0..5 {
        app.log_in(&bob.email, PASSWORD).await.expect(200);
    }
    ada.client.get(ME).await.expect(200);
    app.stop().await;
}

/// Contract: accounts 6, 7. Nothing signs a suspended account in, its web sessions hear so, and all of them work again
/// afterwards.
#[tokio::test]
async fn a_suspended_account_is_not_signed_in() {
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
    assert_eq!(app.count("select count(*) from web_sessions").await, 1, "a session was begun");

    app.run(&["account", "reactivate", &ada.account.to_string()]).await.code(0);
    let passwords = [PASSWORD, "another password"];
    let mut statuses = Vec::new();
    for password in passwords {
        statuses.push(app.log_in(&ada.email, password).await.status.as_u16());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401], "one password is right");
    app.stop().await;
}

/// Contract: sign-ins 11, 13; audit-log 12. Such a sign-in writes no row. It proves the address, too.
#[tokio::test]
async fn a_magic_link_signs_in_once() {
    let app = App::simulated().set("auth.send_rate_per_minute", "100").start().await;
    let stranger = app.stranger();
    let ada = app.person(Tier::Free).await;
    let sent = stranger.post(MAGIC_LINK, json!({"email": ada.email.to_uppercase()})).await.expect(200);
    app.assert_ahead(&sent.body["expires_at"], 15.0).await;
    let first = app.mail_to(&ada.email, Template::MagicLink).await.token;
    let second = app.link(MAGIC_LINK, &ada.email).await;
    stranger.post(FOLLOW, json!({"token": first})).await.invalid("token");
    stranger.post(VERIFY, json!({"token": second})).await.invalid("token");
    let result = from_browser(&stranger, FOLLOW, json!({"token": second})).await.expect(200);
    let client = session(&app, &result).await;
    assert_eq!(client.get(ME).await.expect(200).body["id"], ada.account.to_string());
    stranger.post(FOLLOW, json!({"token": second})).await.invalid("token");
    assert_eq!(app.audit(ada.account).await.len(), 0);

    let third = app.link(MAGIC_LINK, &ada.email).await;
    app.expire_links(ada.account).await;
    stranger.post(FOLLOW, json!({"token": third})).await.invalid("token");
    let fourth = app.link(MAGIC_LINK, &ada.email).await;
    let (won, lost) = app.race(FOLLOW, json!({"token": fourth})).await;
    assert_eq!(won, 1);
    for answer in lost {
        answer.invalid("token");
    }

    let bob = app.unproven().await;
    let link = app.link(MAGIC_LINK, &bob.email).await;
    let client = session(&app, &stranger.post(FOLLOW, json!({"token": link})).await.expect(200)).await;
    assert_timestamp(&client.get(ME).await.expect(200).body["email_verified_at"]);
    app.stop().await;
}

/// Contract: sign-ins 5; identities 6. Whoever signed up with an address before it was proven may have been anybody. Their
/// password is worthless once its holder has come in by a magic link, as it is once they have come by an identity provider.
#[tokio::test]
async fn a_magic_link_lets_nobody_in_who_knew_the_password_before() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    stranger.post(SIGNUP, json!({"email": "ada@example.com", "password": PASSWORD, "name": "Eve"})).await.expect(200);
    let link = app.link(MAGIC_LINK, "ada@example.com").await;
    app.signed_in(&stranger.post(FOLLOW, json!({"token": link})).await).get(ME).await.expect(200);
    app.log_in("ada@example.com", PASSWORD).await.problem(401, "unauthorized");
    app.stop().await;
}

/// Contract: sign-ins 5. The same of a verification link that was asked for again when the signup's own would have expired, which anybody
/// may do, and as often as it takes. A reset gives another password.
#[tokio::test]
async fn a_verification_link_that_was_asked_for_late_lets_nobody_in_who_knew_the_password_before() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    stranger.post(SIGNUP, json!({"email": "ada@example.com", "password": PASSWORD, "name": "Eve"})).await.expect(200);
    let own = app.mail_to("ada@example.com", Template::VerifyEmail).await;
    assert!(!own.text.contains("password"), "{}", own.text);
    let link = app.link(RESEND, "ada@example.com").await;
    let told = app.mail_number(2, "ada@example.com", Template::VerifyEmail).await.text;
    assert!(told.contains("password of the signup"), "{told}");
    stranger.post(VERIFY, json!({"token": own.token})).await.invalid("token");
    app.execute_all("update accounts set created_at = now() - interval '31 minutes'").await;
    let ada = session(&app, &stranger.post(VERIFY, json!({"token": link})).await.expect(200)).await;
    assert_timestamp(&ada.get(ME).await.expect(200).body["email_verified_at"]);
    app.log_in("ada@example.com", PASSWORD).await.problem(401, "unauthorized");
    let reset = app.link(FORGOT, "ada@example.com").await;
    stranger.post(RESET, json!({"token": reset, "new_password": "another password"})).await.expect(200);
    app.log_in("ada@example.com", "another password").await.expect(200);

    app.sign_up("bob@example.com").await;
    app.log_in("bob@example.com", PASSWORD).await.expect(200);
    let new = json!({"email": "eve@example.com", "password": PASSWORD, "name": "Eve"});
    stranger.post(SIGNUP, new).await.expect(200);
    app.mail_to("eve@example.com", Template::VerifyEmail).await;
    let link = app.link(RESEND, "eve@example.com").await;
    stranger.post(VERIFY, json!({"token": link})).await.expect(200);
    app.log_in("eve@example.com", PASSWORD).await.expect(200);
    app.stop().await;
}

/// Contract: sign-ins 12; audit-log 12. A reset changes the password, ends every session there was, on other devices too, and
/// answers the login result.
#[tokio::test]
async fn a_password_reset_ends_every_session() {
    let app = App::simulated().set("auth.send_rate_per_minute", "100").start().await;
    let stranger = app.stranger();
    let (ada, bob) = (app.person(Tier::SoloManual).await, app.person(Tier::Free).await);
    let other_device = app.signed_in(&app.log_in(&ada.email, PASSWORD).await);
    let refreshed = stranger.post(REFRESH, json!({"token": ada.token()})).await.expect(200);
    let first_device = Client::new(&app.base_url, refreshed.body["token"].as_str());
    let key = app.client_of(ada.account, &["account_owner"]).await;
    let magic = app.link(MAGIC_LINK, &ada.email).await;

    let sent = stranger.post(FORGOT, json!({"email": ada.email})).await.expect(200);
    app.assert_ahead(&sent.body["expires_at"], 60.0).await;
    let first = app.mail_to(&ada.email, Template::ResetPassword).await.token;
    let second = app.link(FORGOT, &ada.email).await;
    let reset = |token: &str, password: &str| json!({"token": token, "new_password": password});
    stranger.post(RESET, reset(&first, "another password")).await.invalid("token");
    for password in ["x".repeat(11), "x".repeat(1_000_000)] {
        stranger.post(RESET, reset(&second, &password)).await.invalid("new_password");
    }
    for client in [&first_device, &other_device] {
        client.get(ME).await.expect(200);
    }
    let result = from_browser(&stranger, RESET, reset(&second, "another password")).await.expect(200);
    session(&app, &result).await.get(ME).await.expect(200);
    for client in [&first_device, &other_device] {
        client.get(ME).await.problem(401, "unauthorized");
        let token = client.key.as_deref();
        stranger.post(REFRESH, json!({"token": token})).await.problem(401, "unauthorized");
    }
    key.get(ME).await.expect(200);
    bob.client.get(ME).await.expect(200);
    stranger.post(FOLLOW, json!({"token": magic})).await.invalid("token");
    stranger.post(RESET, reset(&second, "yet another one")).await.invalid("token");
    app.log_in(&ada.email, PASSWORD).await.problem(401, "unauthorized");
    app.log_in(&ada.email, "another password").await.expect(200);
    let changes = app.audited(ada.account, "account.password_changed").await;
    assert_eq!(changes.len(), 1);
    assert_eq!(own_row(&changes[0], ada.account), json!({"via": "password_reset"}));
    app.mail_to(&ada.email, Template::ResetPassword).await;

    let third = app.link(FORGOT, &ada.email).await;
    app.expire_links(ada.account).await;
    stranger.post(RESET, reset(&third, PASSWORD)).await.invalid("token");
    app.log_in(&ada.email, PASSWORD).await.problem(401, "unauthorized");
    app.stop().await;
}

/// Contract: sign-ins 18. Of many who use one reset link at once, one changes the password. A login with the one before that is
/// under way meanwhile leaves no session.
#[tokio::test]
async fn a_reset_link_raced_changes_the_password_once() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    let token = app.link(FORGOT, &ada.email).await;
    let logins = at_once((0..32).map(|_| {
        let (client, email) = (app.stranger(), ada.email.clone());
        async move { client.post(LOGIN, json!({"email": email, "password": PASSWORD})).await.status.as_u16() }
    }));
    let reset = app.race(RESET, json!({"token": token, "new_password": "another password"}));
    let (logins, (won, lost)) = tokio::join!(logins, reset);
    assert!(logins.iter().all(|status| [200, 401].contains(status)), "{logins:?}");
    assert_eq!(won, 1);
    for answer in lost {
        answer.invalid("token");
    }
    assert_eq!(app.audited(ada.account, "account.password_changed").await.len(), 1);
    assert_eq!(app.count("select count(*) from web_sessions where revoked_at is null").await, 1);
    app.log_in(&ada.email, "another password").await.expect(200);
    app.stop().await;
}

/// Contract: sign-ins 16, 18. Refresh answers the bare session, and the token before is worthless, whoever stole it. Of many
/// refreshes at once one succeeds.
#[tokio::test]
async fn a_refresh_makes_the_token_before_worthless() {
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
    assert_eq!(current.expect("the session goes on")["id"].as_str(), row.as_deref());

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

/// Contract: sign-ins 17; audit-log 12. `{ok: true}`, and the token is worthless; it ends that one session.
#[tokio::test]
async fn a_logout_ends_the_session() {
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

/// Contract: sign-ins 15. The three routes that mail answer 200 with the same shape whether the address is unverified,
/// verified, suspended or unknown; one that is missing or malformed is 400.
#[tokio::test]
async fn the_routes_that_mail_answer_the_same_to_everybody() {
    let app = App::simulated().set("auth.send_rate_per_minute", "100").start().await;
    let stranger = app.stranger();
    let (verified, unproven, suspended) =
        (app.person(Tier::Free).await, app.unproven().await, app.person(Tier::Free).await);
    app.run(&["account", "suspend", &suspended.account.to_string()]).await.code(0);
    for ((path, template), minutes) in SENDING.into_iter().zip([30.0, 15.0, 60.0]) {
        let mut headers = Vec::new();
        for email in [verified.email.as_str(), &unproven.email, &suspended.email, "nobody@example.com"] {
            let answer = stranger.post(path, json!({"email": email})).await.expect(200);
            assert_eq!(members(&answer.body).into_iter().collect::<Vec<_>>(), ["expires_at", "sent"]);
            assert_eq!(answer.body["sent"], true);
            app.assert_ahead(&answer.body["expires_at"], minutes).await;
            headers.push(answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>());
        }
        assert!(headers.windows(2).all(|pair| pair[0] == pair[1]), "{headers:?}");
        app.mail_to(&unproven.email, template).await;
        for bad in [
            json!({}),
            json!({"email": ""}),
            json!({"email": null}),
            json!({"email": 1}),
            json!({"email": "ada"}),
            json!({"email": "ada@example.com\r\nBcc: eve@example.com"}),
            json!({"email": [unproven.email]}),
        ] {
            stranger.post(path, bad).await.invalid("email");
        }
    }
    app.stop().await;
}

/// Contract: rate-limits 1, 3; requests 10. Three requests a minute and address on each of the routes that mail, and
/// `Retry-After`; without a proxy that is trusted nobody names another address.
#[tokio::test]
async fn three_mails_a_minute_are_enough() {
    let app = App::simulated().start().await;
    let ask = async |app: &App, path: &str, from: &str| {
        let stranger = app.stranger();
        let request = stranger.request(Method::POST, path).header("x-forwarded-for", from);
        stranger.send(request.json(&json!({"email": "ada@example.com"}))).await
    };
    for (path, _) in SENDING {
        for n in 0..3 {
            ask(&app, path, &format!("198.51.100.{n}")).await.expect(200);
        }
        let refused = ask(&app, path, "198.51.100.9").await.problem(429, "rate-limited");
        let wait: u64 = refused.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
        assert!((1..=20).contains(&wait), "{wait}");
    }
    app.stop().await;

    let app = App::simulated().set("server.trusted_proxies", "127.0.0.1").start().await;
    for (path, _) in SENDING {
        for n in 0..3 {
            ask(&app, path, &format!("203.0.113.{n}, 198.51.100.7")).await.expect(200);
        }
        ask(&app, path, "203.0.113.9, 198.51.100.7").await.problem(429, "rate-limited");
        ask(&app, path, "198.51.100.8").await.expect(200);
    }
    app.stop().await;
}

/// Contract: emails 11; sign-ins; mfa. Mails caught by a real mail server lead through verification, login, the second factor,
/// step-up and reset.
#[tokio::test]
async fn mails_lead_all_the_way() {
    let server = MailServer::up();
    let builder = App::simulated().with_second_factors();
    let app = builder.set("email.transport", "smtp").set("email.smtp_url", &server.url()).start().await;
    let stranger = app.stranger();
    let arrived = async |page: &str| -> Mail {
        let link = format!("/{page}?token=");
        eventually(Duration::from_secs(20), page, async || {
            server.taken().into_iter().find(|mail| mail.text.contains(&link))
        })
        .await
    };
    stranger.post(SIGNUP, json!({"email": "ada@example.com", "password": PASSWORD, "name": "Ada"})).await.expect(200);
    let link = arrived("verify-email").await;
    assert_eq!(link.to, "ada@example.com");
    session(&app, &stranger.post(VERIFY, json!({"token": link.token})).await.expect(200)).await;
    let client = session(&app, &app.log_in("ada@example.com", PASSWORD).await.expect(200)).await;
    let ada = Person { account: app.account_of("ada@example.com").await, email: link.to, client };

    let authenticator = app.enroll(&ada).await;
    let challenged = app.log_in(&ada.email, PASSWORD).await;
    let code = app.fresh_code(&ada, &authenticator).await;
    let proof = json!({"challenge_token": challenge_of(&challenged), "code": code});
    let met = stranger.post("/v1/auth/mfa/challenge", proof).await.expect(200);
    assert_eq!(met.body["via"], "totp");
    let client = app.signed_in(&met);
    let age = "update web_sessions set mfa_satisfied_at = now() - interval '1 hour' where account_id = $1";
    app.prove(&ada).await;
    app.execute(age, ada.account.as_uuid()).await;
    let regenerate = "/v1/account/mfa/recovery-codes/regenerate";
    client.post(regenerate, json!({})).await.problem(403, "mfa-step-up-required");
    let stepped_up = client.post("/v1/auth/mfa/step-up", json!({"code": authenticator.recovery_codes[0]})).await;
    assert_eq!(stepped_up.expect(200).body["via"], "recovery");
    let codes = recovery_codes(&client.post(regenerate, json!({})).await.expect(200));

    stranger.post(FORGOT, json!({"email": "ada@example.com"})).await.expect(200);
    let token = arrived("reset-password").await.token;
    let reset = stranger.post(RESET, json!({"token": token, "new_password": "another password"})).await;
    client.get(ME).await.problem(401, "unauthorized");
    let proof = json!({"challenge_token": challenge_of(&reset), "recovery_code": codes[0]});
    let met = stranger.post("/v1/auth/mfa/challenge", proof).await.expect(200);
    assert_eq!(app.signed_in(&met).get(ME).await.expect(200).body["email"], "ada@example.com");
    challenge_of(&app.log_in(&ada.email, "another password").await);
    app.stop().await;
}
