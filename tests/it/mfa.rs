//! Second factors (contract: mfa).

use std::time::Duration;

use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::audit::Origin;
use kitfleet_domain::emails::Template;
use kitfleet_domain::mfa::{self, hash_recovery_code};
use kitfleet_domain::sign_ins::{self, Lifetimes, SignedIn};
use kitfleet_domain::vault::Vault;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use totp_rs::Totp;

use crate::support::people::{Authenticator, ENCRYPTION_KEY, PASSWORD, Person, challenge_of, recovery_codes, token_of};
use crate::support::{Answer, App, Client, assert_timestamp, at_once, members};

const STATUS: &str = "/v1/account/mfa";
const ENROLL: &str = "/v1/account/mfa/enroll";
const ENROLMENT: &str = "/v1/account/mfa/verify";
const DISABLE: &str = "/v1/account/mfa/disable";
const REGENERATE: &str = "/v1/account/mfa/recovery-codes/regenerate";
const CHALLENGE: &str = "/v1/auth/mfa/challenge";
const STEP_UP: &str = "/v1/auth/mfa/step-up";
const ME: &str = "/v1/account/me";

/// An earlier key of the deployment, and its form in the configuration.
const OLD_KEY: [u8; 32] = *b"an old key of thirty-two bytes..";
const OLD_KEY_TEXT: &str = "YW4gb2xkIGtleSBvZiB0aGlydHktdHdvIGJ5dGVzLi4=";

/// In lower case.
const ELSEWHERE: &str = "aaaaa-bbbbb";

impl App {
    /// A challenge of an enrolled account, as after a login from this machine.
    async fn challenge(&self, person: &Person) -> String {
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        let origin = Origin { ip_address: Some("127.0.0.1".to_owned()), user_agent: None };
        let lifetimes = Lifetimes { session: Duration::from_hours(1), challenge: Duration::from_mins(5) };
        let method = sign_ins::Method::MailLink;
        let signed_in = sign_ins::complete(&mut conn, person.account, method, &origin, lifetimes).await;
        let Ok(SignedIn::Challenge { token, .. }) = signed_in else { panic!("no challenge: {signed_in:?}") };
        token.reveal().to_owned()
    }

    async fn age_proofs(&self, person: &Person) {
        let age =
            "update web_sessions set mfa_satisfied_at = now() - interval '15 minutes 1 second' where account_id = $1";
        self.execute(age, person.account.as_uuid()).await;
    }

    /// As if with another encryption key. [`ELSEWHERE`] is the recovery code.
    async fn enrolled_elsewhere(&self, person: &Person) {
        let sealed = Vault::new([9; 32], &[]).seal("mfa", &person.account.to_string(), &[7; 20]);
        let statement = "with factor as (
            insert into mfa_factors (account_id, sealed_secret, recovery_salt, enrolled_at) values ($1, $2, $3, now())
            returning account_id)
            insert into recovery_codes (account_id, code_hash) select account_id, $4 from factor";
        sqlx::query(statement)
            .bind(person.account.as_uuid())
            .bind(sealed)
            .bind([1_u8; 16].as_slice())
            .bind(hash_recovery_code(ELSEWHERE, &[1; 16]))
            .execute(&self.database.pool)
            .await
            .expect("a statement");
    }

    async fn devices(&self, person: &Person) -> i64 {
        sqlx::query_scalar("select count(*) from web_sessions where account_id = $1 and revoked_at is null")
            .bind(person.account.as_uuid())
            .fetch_one(&self.database.pool)
            .await
            .expect("a count")
    }
}

async fn delete(client: &Client, path: &str, body: Value) -> Answer {
    client.send(client.request(Method::DELETE, path).json(&body)).await
}

/// Contract: errors 6.
fn assert_step_up(answer: Answer, reason: &str) {
    let problem = answer.problem(403, "mfa-step-up-required");
    assert_eq!(problem.body["title"], "MFA step-up required");
    assert_eq!(problem.body["requires_mfa_step_up"], true);
    assert_eq!(problem.body["reason"], reason);
}

/// Not about step-up.
fn assert_refused(answer: Answer) {
    let problem = answer.problem(403, "forbidden");
    assert!(problem.body.get("requires_mfa_step_up").is_none(), "{}", problem.body);
}

/// The four operations that require a recent proof (contract: mfa 12).
async fn gated(client: &Client) -> [Answer; 4] {
    [
        delete(client, STATUS, json!({"confirm": "disable-mfa"})).await,
        client.post(DISABLE, json!({"confirm": "disable-mfa"})).await,
        client.post(REGENERATE, json!({})).await,
        delete(client, ME, json!({"confirm": "delete-account"})).await,
    ]
}

async fn status(client: &Client) -> Value {
    let status = client.get(STATUS).await.expect(200).body;
    let expected = ["enrolled", "enrolled_at", "last_used_at", "unused_recovery_codes"];
    assert_eq!(members(&status).into_iter().collect::<Vec<_>>(), expected);
    status
}

fn not_enrolled() -> Value {
    json!({"enrolled": false, "enrolled_at": null, "last_used_at": null, "unused_recovery_codes": 0})
}

/// Contract: mfa 1 to 4, 7. The code is no step-up and cannot be used again.
#[tokio::test]
async fn first_code_enrolls_the_second_factor() {
    let app = App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY).start().await;
    let ada = app.person(Tier::Free).await;
    assert_eq!(status(&ada.client).await, not_enrolled());
    ada.client.post(ENROLMENT, json!({"code": "123456"})).await.invalid("code");

    let mut secrets = Vec::new();
    for _ in 0..2 {
        let answer = ada.client.post(ENROLL, json!({})).await.expect(200);
        assert_eq!(answer.headers["cache-control"], "no-store");
        let fields = ["algorithm", "digits", "otpauth_uri", "period_seconds", "secret_base32"];
        assert_eq!(members(&answer.body).into_iter().collect::<Vec<_>>(), fields);
        let Value::Object(enrollment) = answer.body else { panic!("no object") };
        assert_eq!((&enrollment["algorithm"], &enrollment["digits"]), (&"SHA1".into(), &6.into()));
        assert_eq!(enrollment["period_seconds"], 30);
        let totp = Totp::from_url(enrollment["otpauth_uri"].as_str().expect("a URI")).expect("authenticators read it");
        assert_eq!((totp.issuer(), totp.account_name()), (Some("Kitfleet"), ada.email.as_str()));
        assert_eq!(totp.secret().to_base32(), enrollment["secret_base32"].as_str().expect("text"));
        secrets.push(totp);
    }
    let [before, totp] = &secrets[..] else { panic!("expected two secrets") };
    assert_ne!(before.secret().to_base32(), totp.secret().to_base32());
    assert_eq!(status(&ada.client).await, not_enrolled());
    let app_of_ada = Authenticator { totp: totp.clone(), recovery_codes: Vec::new() };
    for bad in
        ["", "12345", "1234567", "12345a", " 12345", "+12345", "\u{661}23456", "7K2QF-9X0AB", &app_of_ada.wrong_code()]
    {
        ada.client.post(ENROLMENT, json!({"code": bad})).await.invalid("code");
    }
    ada.client.post(ENROLMENT, json!({"code": 123_456})).await.invalid("code");
    ada.client.post(ENROLMENT, json!({})).await.invalid("code");
    assert_eq!(status(&ada.client).await, not_enrolled());

    let code = app_of_ada.code();
    let verified = ada.client.post(ENROLMENT, json!({"code": code})).await.expect(200);
    assert_eq!(members(&verified.body).into_iter().collect::<Vec<_>>(), ["recovery_codes"]);
    assert_eq!(verified.headers["cache-control"], "no-store");
    let codes = recovery_codes(&verified);
    assert_eq!(codes.len(), 10);
    for code in &codes {
        let shape: String =
            code.chars().map(|c| if "0123456789ABCDEFGHJKMNPQRSTVWXYZ".contains(c) { 'X' } else { c }).collect();
        assert_eq!(shape, "XXXXX-XXXXX");
        assert_eq!(codes.iter().filter(|other| *other == code).count(), 1);
    }
    let enrolled = status(&ada.client).await;
    assert_eq!((&enrolled["enrolled"], &enrolled["unused_recovery_codes"]), (&true.into(), &10.into()));
    assert_timestamp(&enrolled["enrolled_at"]);
    assert_eq!(enrolled["last_used_at"], Value::Null);
    assert_eq!(ada.client.get(ME).await.expect(200).body["mfa_enrolled"], true);
    assert_step_up(ada.client.post(REGENERATE, json!({})).await, "never_satisfied");
    ada.client.post(STEP_UP, json!({"code": code})).await.invalid("code");

    ada.client.post(ENROLL, json!({})).await.problem(409, "conflict");
    ada.client.post(ENROLMENT, json!({"code": app_of_ada.code()})).await.problem(409, "conflict");
    let rows = app.audited(ada.account, "account.mfa_enrolled").await;
    assert_eq!((rows.len(), &rows[0].payload), (1, &json!({})));
    assert_eq!((rows[0].actor_type.as_str(), rows[0].actor_key_id), ("customer", None));

    let secret = totp.secret().as_bytes().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let plain = codes[0].replace('-', "");
    for needle in [&secret, &totp.secret().to_base32(), &codes[0], &plain] {
        assert!(app.tables_with(needle).await.is_empty(), "{needle} is stored");
        assert!(!app.log(0).contains(needle.as_str()), "{needle} is logged");
    }
    app.stop().await;
}

/// Contract: mfa 5 to 7, 9, 10; audit-log 13. Recovery codes have any spelling; wrong codes do not use a challenge up.
#[tokio::test]
async fn challenge_is_met_once_by_code_or_recovery_code() {
    let app = App::simulated().with_second_factors().start().await;
    let stranger = app.stranger();
    let ada = app.person(Tier::Free).await;
    let authenticator = app.enroll(&ada).await;
    let login = app.log_in(&ada.email, PASSWORD).await;
    assert_eq!(login.headers["cache-control"], "no-store");
    assert_timestamp(&login.body["challenge_expires_at"]);
    let token = challenge_of(&login).to_owned();
    assert_eq!(app.devices(&ada).await, 1, "a session was started");
    assert!(app.tables_with(&token).await.is_empty(), "a token is stored");
    assert!(app.audited(ada.account, "account.login").await.is_empty());
    Client::new(&app.base_url, Some(&token)).get(ME).await.problem(401, "unauthorized");
    let left = "select count(*) from mfa_challenges
                where expires_at - now() between interval '4 minutes' and interval '5 minutes'";
    assert_eq!(app.count(left).await, 1);

    let (code, recovery) = (app.fresh_code(&ada, &authenticator).await, &authenticator.recovery_codes[0]);
    let with = |member: &str, value: &str| json!({"challenge_token": token, member: value});
    for bad in [
        json!({"challenge_token": token}),
        json!({"challenge_token": token, "code": code, "recovery_code": recovery}),
        json!({"challenge_token": token, "code": null, "recovery_code": null}),
        with("code", recovery),
        with("code", "12345"),
        with("code", &authenticator.wrong_code()),
    ] {
        stranger.post(CHALLENGE, bad).await.invalid("code");
    }
    stranger.post(CHALLENGE, with("recovery_code", "00000-00000")).await.invalid("recovery_code");
    stranger.post(CHALLENGE, with("recovery_code", &code)).await.invalid("recovery_code");
    stranger.post(CHALLENGE, json!({"code": code})).await.invalid("challenge_token");
    stranger.post(CHALLENGE, json!({"challenge_token": "x", "code": code})).await.invalid("challenge_token");

    let met = stranger.post(CHALLENGE, with("code", &code)).await.expect(200);
    assert_eq!(members(&met.body).into_iter().collect::<Vec<_>>(), ["session", "via"]);
    assert_eq!(members(&met.body["session"]).into_iter().collect::<Vec<_>>(), ["account_id", "expires_at", "token"]);
    assert_eq!(
        (&met.body["via"], &met.body["session"]["account_id"]),
        (&"totp".into(), &ada.account.to_string().into())
    );
    assert_eq!(met.headers["cache-control"], "no-store");
    assert!(app.tables_with(token_of(&met)).await.is_empty(), "a token is stored");
    let client = app.signed_in(&met);
    client.post(DISABLE, json!({"confirm": "no"})).await.invalid("confirm");
    assert_timestamp(&status(&client).await["last_used_at"]);
    stranger.post(CHALLENGE, with("recovery_code", recovery)).await.invalid("challenge_token");

    let again = challenge_of(&app.log_in(&ada.email, PASSWORD).await).to_owned();
    stranger.post(CHALLENGE, json!({"challenge_token": again, "code": code})).await.invalid("code");
    client.post(STEP_UP, json!({"code": code})).await.invalid("code");
    let typed = recovery.replace('-', "").to_lowercase();
    let proof = json!({"challenge_token": again, "recovery_code": typed});
    let met =
        stranger.send(stranger.request(Method::POST, CHALLENGE).header("user-agent", "Safari").json(&proof)).await;
    assert_eq!(met.expect(200).body["via"], "recovery");
    assert_eq!(status(&client).await["unused_recovery_codes"], 1);
    let third = app.challenge(&ada).await;
    let proof = json!({"challenge_token": third, "recovery_code": recovery});
    stranger.post(CHALLENGE, proof).await.invalid("recovery_code");

    let used = app.audited(ada.account, "account.recovery_code_used").await;
    assert_eq!((used.len(), &used[0].payload), (1, &json!({"remaining": 1})));
    let logins: Vec<_> = app.audited(ada.account, "account.login").await.into_iter().map(|row| row.payload).collect();
    let row =
        |method: &str, agent: Value| json!({"method": method, "issued_from_ip": "127.0.0.1", "user_agent": agent});
    assert_eq!(logins, [row("mfa_totp", Value::Null), row("mfa_recovery", "Safari".into())]);

    let expire = "update mfa_challenges set expires_at = now() - interval '1 second' where account_id = $1";
    app.execute(expire, ada.account.as_uuid()).await;
    let proof = json!({"challenge_token": third, "code": app.fresh_code(&ada, &authenticator).await});
    stranger.post(CHALLENGE, proof).await.invalid("challenge_token");

    // Contract: mfa 7. A code of the next period is accepted, one of two periods ago is not.
    let period = |offset: i64| {
        let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
        authenticator.totp.generate(now.saturating_add_signed(30 * offset)).to_string()
    };
    let fourth = app.challenge(&ada).await;
    let proof = |offset| json!({"challenge_token": fourth, "code": period(offset)});
    stranger.post(CHALLENGE, proof(-2)).await.invalid("code");
    stranger.post(CHALLENGE, proof(1)).await.expect(200);
    app.stop().await;
}

/// Contract: mfa 5, 6; requests 10. It cannot be met while the account is suspended.
#[tokio::test]
async fn challenge_is_bound_to_the_address_of_its_login() {
    let app = App::simulated().with_second_factors().set("server.trusted_proxies", "127.0.0.1").start().await;
    let ada = app.person(Tier::Free).await;
    let authenticator = app.enroll(&ada).await;
    let stranger = app.stranger();
    let from = async |address: &str, path: &str, body: Value| {
        let request = stranger.request(Method::POST, path).header("x-forwarded-for", address);
        stranger.send(request.json(&body)).await
    };
    let login = from("198.51.100.7", "/v1/auth/login", json!({"email": ada.email, "password": PASSWORD})).await;
    let code = app.fresh_code(&ada, &authenticator).await;
    let proof = json!({"challenge_token": challenge_of(&login), "code": code});
    for elsewhere in ["198.51.100.8", "198.51.100.7, 198.51.100.8", "2001:db8::7"] {
        from(elsewhere, CHALLENGE, proof.clone()).await.invalid("challenge_token");
    }
    app.stranger().post(CHALLENGE, proof.clone()).await.invalid("challenge_token");
    from("198.51.100.8, 198.51.100.7", CHALLENGE, proof).await.expect(200);
    let logins = app.audited(ada.account, "account.login").await;
    assert_eq!(logins[0].payload["issued_from_ip"], "198.51.100.7");
    assert_eq!(logins[0].ip_address.as_deref(), Some("198.51.100.7"));

    let proof =
        json!({"challenge_token": app.challenge(&ada).await, "code": app.fresh_code(&ada, &authenticator).await});
    app.run(&["account", "suspend", &ada.account.to_string()]).await.code(0);
    let refused = app.stranger().post(CHALLENGE, proof.clone()).await.problem(403, "forbidden");
    assert_eq!(refused.body["title"], "AccountSuspended");
    app.run(&["account", "reactivate", &ada.account.to_string()]).await.code(0);
    app.stranger().post(CHALLENGE, proof).await.expect(200);
    app.stop().await;
}

/// Contract: sign-ins 9, 12. The address is verified nevertheless, and a password reset ends earlier challenges.
#[tokio::test]
async fn mail_links_do_not_bypass_the_second_factor() {
    let app = App::simulated().with_second_factors().start().await;
    let stranger = app.stranger();
    let ada = app.person(Tier::Free).await;
    let authenticator = app.enroll(&ada).await;
    app.execute("update accounts set email_verified_at = null where id = $1", ada.account.as_uuid()).await;
    let links = [
        ("resend-verification", Template::VerifyEmail, "verify-email"),
        ("magic-link/request", Template::MagicLink, "magic-link/consume"),
        ("password-reset/request", Template::ResetPassword, "password-reset/confirm"),
    ];
    let mut challenges = Vec::new();
    for (request, template, follow) in links {
        stranger.post(&format!("/v1/auth/{request}"), json!({"email": ada.email})).await.expect(200);
        let token = app.mail_to(&ada.email, template).await.token;
        let body = json!({"token": token, "new_password": "another password"});
        let result = stranger.post(&format!("/v1/auth/{follow}"), body).await;
        challenges.push(challenge_of(&result).to_owned());
    }
    assert_eq!(app.devices(&ada).await, 0, "the reset ended the earlier session, and no link started one");
    let verified = "select count(*) from accounts
                    where email_verified_at is not null and id in (select account_id from mfa_factors)";
    assert_eq!(app.count(verified).await, 1);
    for (challenge, good) in challenges.iter().zip([false, false, true]) {
        let code = app.fresh_code(&ada, &authenticator).await;
        let answer = stranger.post(CHALLENGE, json!({"challenge_token": challenge, "code": code})).await;
        assert_eq!(answer.status == 200, good, "{}", answer.body);
    }
    challenge_of(&app.log_in(&ada.email, "another password").await);
    let actions: Vec<_> = app.audit(ada.account).await.into_iter().map(|row| row.action).collect();
    let expected = ["account.mfa_enrolled", "account.email_verified", "account.password_changed", "account.login"];
    assert_eq!(actions, expected);
    app.stop().await;
}

/// Contract: mfa 8. Beyond the limit a right code is rejected too.
#[tokio::test]
async fn wrong_guesses_are_limited() {
    let builder = App::simulated().with_second_factors().set("limits.challenge_guesses", "5");
    let app = builder.set("limits.mfa_guesses", "10").start().await;
    let stranger = app.stranger();
    let ada = app.person(Tier::Free).await;
    let authenticator = app.enroll(&ada).await;
    let (wrong, right) = (authenticator.wrong_code(), app.fresh_code(&ada, &authenticator).await);
    let first = app.challenge(&ada).await;
    let guess = async |challenge: &str, code: &str| {
        stranger.post(CHALLENGE, json!({"challenge_token": challenge, "code": code})).await
    };
    for _ in 0..5 {
        guess(&first, &wrong).await.invalid("code");
    }
    guess(&first, &right).await.invalid("challenge_token");
    let second = app.challenge(&ada).await;
    for _ in 0..3 {
        guess(&second, &wrong).await.invalid("code");
    }
    ada.client.post(STEP_UP, json!({"code": wrong})).await.invalid("code");
    ada.client.post(STEP_UP, json!({"code": "00000-00000"})).await.invalid("code");
    let refused = [
        guess(&second, &right).await,
        guess(&app.challenge(&ada).await, &right).await,
        ada.client.post(STEP_UP, json!({"code": right})).await,
        ada.client.post(STEP_UP, json!({"code": authenticator.recovery_codes[0]})).await,
    ];
    for answer in refused {
        let answer = answer.problem(429, "rate-limited");
        let wait: u64 = answer.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
        assert!((1..=15 * 60).contains(&wait), "{wait}");
    }
    assert_eq!(status(&ada.client).await["unused_recovery_codes"], 2);
    let later = "update mfa_factors set guessing_since = now() - interval '15 minutes 1 second' where account_id = $1";
    app.execute(later, ada.account.as_uuid()).await;
    guess(&second, &app.fresh_code(&ada, &authenticator).await).await.expect(200);

    let bob = app.person(Tier::Free).await;
    bob.client.post(ENROLL, json!({})).await.expect(200);
    let mut statuses = Vec::new();
    for _ in 0..11 {
        statuses.push(bob.client.post(ENROLMENT, json!({"code": wrong})).await.status.as_u16());
    }
    assert_eq!(statuses, [[400; 10].as_slice(), &[429]].concat());
    app.stop().await;
}

/// Contract: mfa 12, 13; errors 6. The proof is from the last 15 minutes in the same session.
#[tokio::test]
async fn gated_operations_require_a_recent_proof() {
    let app = App::simulated().with_second_factors().start().await;
    let ada = app.person(Tier::SoloManual).await;
    let not_enrolled_yet = ada.client.post(STEP_UP, json!({"code": "123456"})).await;
    not_enrolled_yet.invalid("code");
    ada.client.post(REGENERATE, json!({})).await.problem(404, "not-found");
    let authenticator = app.enroll(&ada).await;
    let other = app.device_of(ada.account).await;
    for answer in gated(&ada.client).await {
        assert_step_up(answer, "never_satisfied");
    }
    for bad in ["", "12345", "x", &authenticator.wrong_code(), "00000-00000"] {
        ada.client.post(STEP_UP, json!({"code": bad})).await.invalid("code");
    }
    ada.client.post(STEP_UP, json!({})).await.invalid("code");
    let code = app.fresh_code(&ada, &authenticator).await;
    let request = ada.client.request(Method::POST, STEP_UP).header("x-service-account", "x");
    let stepped_up = ada.client.send(request.json(&json!({"code": code, "odd": 1}))).await.expect(200);
    assert_eq!(members(&stepped_up.body).into_iter().collect::<Vec<_>>(), ["mfa_satisfied_at", "via"]);
    assert_eq!(stepped_up.body["via"], "totp");
    assert_eq!(stepped_up.headers["x-service-unknown-fields"], "odd");
    assert_timestamp(&stepped_up.body["mfa_satisfied_at"]);
    assert_eq!(app.devices(&ada).await, 2, "a session was started");
    ada.client.post(DISABLE, json!({"confirm": "no"})).await.invalid("confirm");
    for answer in gated(&other).await {
        assert_step_up(answer, "never_satisfied");
    }
    app.age_proofs(&ada).await;
    for answer in gated(&ada.client).await {
        assert_step_up(answer, "expired");
    }
    let by_recovery = ada.client.post(STEP_UP, json!({"code": authenticator.recovery_codes[1].to_lowercase()})).await;
    assert_eq!(by_recovery.expect(200).body["via"], "recovery");
    let used = app.audited(ada.account, "account.recovery_code_used").await;
    assert_eq!((used.len(), &used[0].payload), (1, &json!({"remaining": 1})));

    let refreshed = app.stranger().post("/v1/auth/refresh", json!({"token": ada.token()})).await.expect(200);
    let client = Client::new(&app.base_url, refreshed.body["token"].as_str());
    let regenerated = recovery_codes(&client.post(REGENERATE, json!({})).await.expect(200));
    assert_eq!(regenerated.len(), 2);
    assert_eq!(status(&client).await["unused_recovery_codes"], 2);
    for old in &authenticator.recovery_codes {
        assert!(!regenerated.contains(old));
        client.post(STEP_UP, json!({"code": old})).await.invalid("code");
    }
    client.post(STEP_UP, json!({"code": regenerated[0]})).await.expect(200);

    let not_confirmed = delete(&client, ME, json!({"confirm": "disable-mfa"})).await;
    not_confirmed.invalid("confirm");
    delete(&client, ME, json!({"confirm": "delete-account"})).await.expect(204);
    client.get(ME).await.problem(401, "unauthorized");
    other.get(ME).await.problem(401, "unauthorized");
    app.log_in(&ada.email, PASSWORD).await.problem(401, "unauthorized");
    app.stop().await;
}

/// Contract: mfa 12, 14. Without a second factor the answer is 204 too.
#[tokio::test]
async fn disabling_deletes_the_second_factor() {
    let app = App::simulated().with_second_factors().start().await;
    let ada = app.person(Tier::Free).await;
    let confirmed = json!({"confirm": "disable-mfa"});
    for n in 1..=2 {
        let authenticator = app.enroll(&ada).await;
        let challenge = app.challenge(&ada).await;
        app.prove(&ada).await;
        for bad in [json!({}), json!({"confirm": "yes"}), json!({"confirm": true}), json!({"confirm": "DISABLE-MFA"})] {
            ada.client.post(DISABLE, bad.clone()).await.invalid("confirm");
            delete(&ada.client, STATUS, bad).await.invalid("confirm");
        }
        ada.client.delete(STATUS).await.invalid("confirm");
        assert_eq!(status(&ada.client).await["enrolled"], true);
        let disabled = if n == 1 {
            ada.client.post(DISABLE, confirmed.clone()).await
        } else {
            delete(&ada.client, STATUS, confirmed.clone()).await
        };
        assert_eq!(disabled.expect(204).body, Value::Null);
        assert_eq!(status(&ada.client).await, not_enrolled());
        assert_eq!(app.count("select count(*) from recovery_codes").await, 0);
        assert_eq!(app.count("select count(*) from mfa_factors").await, 0);
        let proof = json!({"challenge_token": challenge, "recovery_code": authenticator.recovery_codes[0]});
        app.stranger().post(CHALLENGE, proof).await.invalid("recovery_code");
        app.signed_in(&app.log_in(&ada.email, PASSWORD).await).get(ME).await.expect(200);

        ada.client.post(DISABLE, confirmed.clone()).await.expect(204);
        delete(&ada.client, STATUS, confirmed.clone()).await.expect(204);
        ada.client.post(REGENERATE, json!({})).await.problem(404, "not-found");
        let rows = app.audited(ada.account, "account.mfa_disabled").await;
        assert_eq!((rows.len(), &rows[0].payload), (n, &json!({})));
    }
    app.stop().await;
}

/// Contract: mfa 15. The status requires `read` or `account_owner`.
#[tokio::test]
async fn keys_cannot_change_second_factors() {
    let app = App::simulated().with_second_factors().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let key = app.client_of(ada.account, &["account_owner"]).await;
    let refused = async |client: &Client, code: &str| {
        [
            client.post(ENROLL, json!({})).await,
            client.post(ENROLMENT, json!({"code": code})).await,
            client.post(ENROLMENT, json!({"code": "x"})).await,
            delete(client, STATUS, json!({"confirm": "disable-mfa"})).await,
            client.post(DISABLE, json!({"confirm": "disable-mfa"})).await,
            client.post(DISABLE, json!({})).await,
            client.post(REGENERATE, json!({})).await,
            client.post(STEP_UP, json!({"code": code})).await,
            delete(client, ME, json!({"confirm": "delete-account"})).await,
        ]
    };
    refused(&key, "123456").await.into_iter().for_each(assert_refused);
    let authenticator = app.enroll(&ada).await;
    let code = app.fresh_code(&ada, &authenticator).await;
    refused(&key, &code).await.into_iter().for_each(assert_refused);
    for answer in refused(&app.stranger(), &code).await {
        answer.problem(401, "unauthorized");
    }
    assert_eq!(status(&ada.client).await["enrolled"], true);
    ada.client.post(STEP_UP, json!({"code": code})).await.expect(200);

    for &scope in Scope::NAMES {
        let client = app.client_of(ada.account, &[scope]).await;
        if ["read", "account_owner", "admin"].contains(&scope) {
            assert_eq!(status(&client).await["enrolled"], true);
        } else {
            client.get(STATUS).await.problem(403, "forbidden");
        }
    }
    app.execute("update api_keys set scopes = '{}' where account_id = $1", ada.account.as_uuid()).await;
    key.get(STATUS).await.problem(403, "forbidden");
    app.stranger().get(STATUS).await.problem(401, "unauthorized");
    app.stop().await;
}

/// Contract: mfa 1. Recovery codes of accounts that enrolled before work.
#[tokio::test]
async fn without_encryption_key_only_enrollment_fails() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    ada.client.post(ENROLL, json!({})).await.problem(503, "feature-unavailable");
    assert_eq!(status(&ada.client).await, not_enrolled());
    ada.client.post(DISABLE, json!({"confirm": "disable-mfa"})).await.expect(204);
    ada.client.post(REGENERATE, json!({})).await.problem(404, "not-found");
    app.signed_in(&app.log_in(&ada.email, PASSWORD).await).get(ME).await.expect(200);
    app.signed_in(&app.sign_up("bob@example.com").await).get(ME).await.expect(200);

    app.enrolled_elsewhere(&ada).await;
    let challenge = challenge_of(&app.log_in(&ada.email, PASSWORD).await).to_owned();
    let by_code = json!({"challenge_token": challenge, "code": "123456"});
    app.stranger().post(CHALLENGE, by_code).await.problem(503, "feature-unavailable");
    let by_recovery = json!({"challenge_token": challenge, "recovery_code": ELSEWHERE});
    let met = app.stranger().post(CHALLENGE, by_recovery).await.expect(200);
    let client = app.signed_in(&met);
    client.post(DISABLE, json!({"confirm": "disable-mfa"})).await.expect(204);
    assert_eq!(status(&client).await, not_enrolled());
    app.stop().await;
}

/// Contract: mfa 1, 16. New secrets are sealed with the current key.
#[tokio::test]
async fn retired_key_opens_old_secrets() {
    let retired = format!("{ENCRYPTION_KEY},{OLD_KEY_TEXT}");
    let builder = App::simulated()
        .with_second_factors()
        .set("mfa.encryption_key", "bmV3IG5ldyBuZXcgbmV3IG5ldyBuZXcgbmV3IGtleSE=");
    let app = builder.set("mfa.retired_encryption_keys", &retired).start().await;
    let ada = app.person(Tier::Free).await;
    let mut conn = app.database.pool.acquire().await.expect("a connection");
    let enrollment = mfa::enroll(&mut conn, ada.account, &Vault::new(OLD_KEY, &[])).await.expect("a statement");
    let uri = enrollment.expect("the account was not enrolled").otpauth_uri();
    let totp = Totp::from_url(uri).expect("a URI");
    drop(conn);
    let code = totp.generate_current().to_string();
    let verified = ada.client.post(ENROLMENT, json!({"code": code})).await.expect(200);
    let authenticator = Authenticator { totp, recovery_codes: recovery_codes(&verified) };
    let code = app.fresh_code(&ada, &authenticator).await;
    let proof = json!({"challenge_token": app.challenge(&ada).await, "code": code});
    app.stranger().post(CHALLENGE, proof).await.expect(200);

    let bob = app.person(Tier::Free).await;
    let totp = app.enroll(&bob).await.totp;
    let sealed: Vec<u8> = sqlx::query_scalar("select sealed_secret from mfa_factors where account_id = $1")
        .bind(bob.account.as_uuid())
        .fetch_one(&app.database.pool)
        .await
        .expect("the factor");
    let new = Vault::new(*b"new new new new new new new key!", &[]);
    let opened = new.open("mfa", &bob.account.to_string(), &sealed).expect("the new key seals");
    assert_eq!(opened, totp.secret().as_bytes());
    assert!(new.open("mfa", &ada.account.to_string(), &sealed).is_err(), "the secret of one account opens for another");

    // If the key of a secret is lost, its codes are 503, but the recovery codes work.
    let carol = app.person(Tier::Free).await;
    app.enrolled_elsewhere(&carol).await;
    carol.client.post(STEP_UP, json!({"code": "123456"})).await.problem(503, "feature-unavailable");
    carol.client.post(STEP_UP, json!({"code": ELSEWHERE})).await.expect(200);
    carol.client.post(DISABLE, json!({"confirm": "disable-mfa"})).await.expect(204);
    app.enroll(&carol).await;
    app.stop().await;
}

/// Contract: mfa 7, 17.
#[tokio::test]
async fn concurrent_proofs_succeed_once() {
    let app = App::simulated().with_second_factors().start().await;
    let stranger = app.stranger();
    let ada = app.person(Tier::Free).await;
    let authenticator = app.enroll(&ada).await;
    let race = async |requests: Vec<(Client, &'static str, Value)>| {
        let answers =
            at_once(requests.into_iter().map(|(client, path, body)| async move { client.post(path, body).await }));
        let answers = answers.await;
        assert_eq!(answers.len(), 64);
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
        for answer in lost {
            answer.problem(400, "validation-failed");
        }
        won.len()
    };

    let challenge = app.challenge(&ada).await;
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    let codes = [app.fresh_code(&ada, &authenticator).await, authenticator.totp.generate(now + 30).to_string()];
    let one_challenge =
        (0..64).map(|n| (stranger.clone(), CHALLENGE, json!({"challenge_token": challenge, "code": codes[n % 2]})));
    assert_eq!(race(one_challenge.collect()).await, 1);
    assert_eq!(app.devices(&ada).await, 2);

    let mut one_code = Vec::new();
    let code = app.fresh_code(&ada, &authenticator).await;
    for n in 0..64 {
        one_code.push(if n % 2 == 0 {
            (app.device_of(ada.account).await, STEP_UP, json!({"code": code}))
        } else {
            (stranger.clone(), CHALLENGE, json!({"challenge_token": app.challenge(&ada).await, "code": code}))
        });
    }
    assert_eq!(race(one_code).await, 1);

    let mut one_recovery_code = Vec::new();
    let code = &authenticator.recovery_codes[0];
    for n in 0..64 {
        one_recovery_code.push(if n % 2 == 0 {
            (app.device_of(ada.account).await, STEP_UP, json!({"code": code}))
        } else {
            (stranger.clone(), CHALLENGE, json!({"challenge_token": app.challenge(&ada).await, "recovery_code": code}))
        });
    }
    assert_eq!(race(one_recovery_code).await, 1);
    assert_eq!(app.audited(ada.account, "account.recovery_code_used").await.len(), 1);
    assert_eq!(status(&ada.client).await["unused_recovery_codes"], 1);

    let bob = app.person(Tier::Free).await;
    let enrollment = bob.client.post(ENROLL, json!({})).await.expect(200).body;
    let totp = Totp::from_url(enrollment["otpauth_uri"].as_str().expect("a URI")).expect("authenticators read it");
    let code = totp.generate_current().to_string();
    let verify = || {
        let (client, code) = (bob.client.clone(), code.clone());
        async move { client.post(ENROLMENT, json!({"code": code})).await.status.as_u16() }
    };
    let statuses = at_once((0..64).map(|_| verify())).await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 400, 409].contains(status)), "{statuses:?}");
    assert_eq!(app.audited(bob.account, "account.mfa_enrolled").await.len(), 1);
    assert_eq!(status(&bob.client).await["unused_recovery_codes"], 2);
    app.stop().await;
}
