//! Mail links that sign in or change a password (contract: sign-ins).

use std::time::Duration;

use kitfleet_domain::emails::Template;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::json;

use super::{
    FOLLOW, FORGOT, LOGIN, MAGIC_LINK, ME, REFRESH, RESEND, RESET, SENDING, SIGNUP, VERIFY, from_browser, own_row,
    session,
};
use crate::support::mail::Mail;
use crate::support::people::{PASSWORD, Person, challenge_of, recovery_codes};
use crate::support::smtp::MailServer;
use crate::support::{App, Client, assert_timestamp, at_once, eventually, members};

/// Contract: sign-ins 11, 13; audit-log 12. The link verifies the address and writes no audit row.
#[tokio::test]
async fn magic_link_signs_in_once() {
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

    let bob = app.unverified_person().await;
    let link = app.link(MAGIC_LINK, &bob.email).await;
    let client = session(&app, &stranger.post(FOLLOW, json!({"token": link})).await.expect(200)).await;
    assert_timestamp(&client.get(ME).await.expect(200).body["email_verified_at"]);
    app.stop().await;
}

/// Contract: sign-ins 5; identities 6. An unverified signup may be by a stranger.
#[tokio::test]
async fn magic_link_removes_the_unverified_password() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    stranger.post(SIGNUP, json!({"email": "ada@example.com", "password": PASSWORD, "name": "Eve"})).await.expect(200);
    let link = app.link(MAGIC_LINK, "ada@example.com").await;
    app.signed_in(&stranger.post(FOLLOW, json!({"token": link})).await).get(ME).await.expect(200);
    app.log_in("ada@example.com", PASSWORD).await.problem(401, "unauthorized");
    app.stop().await;
}

/// Contract: sign-ins 5.
#[tokio::test]
async fn late_verification_link_removes_the_password() {
    let app = App::simulated().start().await;
    let stranger = app.stranger();
    stranger.post(SIGNUP, json!({"email": "ada@example.com", "password": PASSWORD, "name": "Eve"})).await.expect(200);
    let own = app.mail_to("ada@example.com", Template::VerifyEmail).await;
    assert!(!own.text.contains("password"), "{}", own.text);
    let link = app.link(RESEND, "ada@example.com").await;
    let text = app.mail_number(2, "ada@example.com", Template::VerifyEmail).await.text;
    assert!(text.contains("The password is therefore removed"), "{text}");
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

/// Contract: sign-ins 5. The login result lets the owner set a new password.
#[tokio::test]
async fn verification_link_from_another_network_removes_password() {
    let app = App::simulated()
        .set("server.trusted_proxies", "127.0.0.1")
        .set("auth.verification_ttl", "5m")
        .set("auth.send_rate_per_minute", "100")
        .start()
        .await;
    let stranger = app.stranger();
    let from = async |address: &str, path: &str, body: serde_json::Value| {
        stranger.send(stranger.request(Method::POST, path).header("x-forwarded-for", address).json(&body)).await
    };
    for (number, signup, resend, minutes, kept) in [
        (1, "192.0.2.1", "192.0.2.200", 0, true),
        (2, "2001:db8:1:2::1", "2001:db8:1:ffff::9", 0, true),
        (3, "192.0.2.1", "192.0.3.1", 0, false),
        (4, "2001:db8:1:2::1", "2001:db8:2::1", 0, false),
        (5, "192.0.2.1", "192.0.2.1", 6, false),
    ] {
        let email = format!("person{number}@example.com");
        from(signup, SIGNUP, json!({"email": email, "password": PASSWORD, "name": "Eve"})).await.expect(200);
        app.mail_to(&email, Template::VerifyEmail).await;
        from(resend, RESEND, json!({"email": email})).await.expect(200);
        let link = app.mail_number(2, &email, Template::VerifyEmail).await.token;
        app.execute_all(&format!("update accounts set created_at = created_at - interval '{minutes} minutes'")).await;
        let verified = stranger.post(VERIFY, json!({"token": link})).await.expect(200);
        session(&app, &verified).await.get(ME).await.expect(200);
        let reset = &verified.body["password_reset_token"];
        if kept {
            assert_eq!(reset, &json!(null), "{number}");
            app.log_in(&email, PASSWORD).await.expect(200);
            continue;
        }
        app.log_in(&email, PASSWORD).await.problem(401, "unauthorized");
        let new = json!({"token": reset, "new_password": "another password"});
        stranger.post(RESET, new.clone()).await.expect(200);
        stranger.post(RESET, new).await.invalid("token");
        app.log_in(&email, "another password").await.expect(200);
    }
    app.stop().await;
}

/// Contract: sign-ins 12; audit-log 12. The reset returns a session.
#[tokio::test]
async fn password_reset_ends_every_session() {
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
    for password in ["x".repeat(11), "x".repeat(16_000)] {
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

/// Contract: sign-ins 18. A concurrent login with the old password leaves no session.
#[tokio::test]
async fn concurrent_resets_change_the_password_once() {
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

/// Contract: sign-ins 15.
#[tokio::test]
async fn routes_that_mail_do_not_reveal_accounts() {
    let app = App::simulated().set("auth.send_rate_per_minute", "100").start().await;
    let stranger = app.stranger();
    let (verified, unverified, suspended) =
        (app.person(Tier::Free).await, app.unverified_person().await, app.person(Tier::Free).await);
    app.run(&["account", "suspend", &suspended.account.to_string()]).await.code(0);
    for ((path, template), minutes) in SENDING.into_iter().zip([30.0, 15.0, 60.0]) {
        let mut headers = Vec::new();
        for email in [verified.email.as_str(), &unverified.email, &suspended.email, "nobody@example.com"] {
            let answer = stranger.post(path, json!({"email": email})).await.expect(200);
            assert_eq!(members(&answer.body).into_iter().collect::<Vec<_>>(), ["expires_at", "sent"]);
            assert_eq!(answer.body["sent"], true);
            app.assert_ahead(&answer.body["expires_at"], minutes).await;
            headers.push(answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>());
        }
        assert!(headers.windows(2).all(|pair| pair[0] == pair[1]), "{headers:?}");
        app.mail_to(&unverified.email, template).await;
        for bad in [
            json!({}),
            json!({"email": ""}),
            json!({"email": null}),
            json!({"email": 1}),
            json!({"email": "ada"}),
            json!({"email": "ada@example.com\r\nBcc: eve@example.com"}),
            json!({"email": [unverified.email]}),
        ] {
            stranger.post(path, bad).await.invalid("email");
        }
    }
    app.stop().await;
}

/// Contract: rate-limits 1, 3; requests 10. Without a trusted proxy, `X-Forwarded-For` is ignored.
#[tokio::test]
async fn routes_that_mail_allow_three_requests_per_minute() {
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

/// Contract: emails 11; sign-ins; mfa. A real mail server delivers the mails.
#[tokio::test]
async fn mails_work_for_every_step_of_sign_in() {
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
