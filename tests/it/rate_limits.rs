//! Rate limits (contract: rate-limits) as customers and operators see them. The API's own crate tests the counting.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use kitfleet_domain::emails::Template;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::commands::run;
use crate::support::people::PASSWORD;
use crate::support::{Answer, App, Client, Redis, eventually};

fn header(answer: &Answer, name: &str) -> u64 {
    let value = answer.headers.get(name).unwrap_or_else(|| panic!("no {name}: {answer:?}"));
    value.to_str().expect("text").parse().expect("a number")
}

/// Contract: rate-limits 1, 2, 6. Answers have `RateLimit-*`.
#[tokio::test]
async fn key_beyond_its_limit_is_429_with_retry_after() {
    let app = App::simulated()
        .set("rate_limits.credential_per_minute", "4")
        .set("metrics.scrape_token", "scrape")
        .start()
        .await;
    let account = app.account(kitfleet_types::tiers::Tier::Enterprise).await;
    let client = app.client_of(account, &["account_owner"]).await;
    let paths = ["/v1/sessions", "/v1/sessions?limit=0", "/v1/sessions/x", "/v1/sessions"];
    for (path, remaining) in paths.into_iter().zip([3, 2, 1, 0]) {
        let answer = client.get(path).await;
        assert_ne!(answer.status, 429);
        assert_eq!((header(&answer, "ratelimit-limit"), header(&answer, "ratelimit-remaining")), (4, remaining));
        assert_eq!(header(&answer, "ratelimit-reset"), 15 * (4 - remaining));
    }
    let spoofed = client.request(reqwest::Method::GET, "/v1/sessions").header("x-forwarded-for", "198.51.100.7");
    for refused in [client.get("/v1/sessions").await, client.send(spoofed).await] {
        let refused = refused.problem(429, "rate-limited");
        assert_eq!(refused.body["title"], "RateLimited");
        let wait = header(&refused, "retry-after");
        assert!((1..=15).contains(&wait), "{wait}");
        assert_eq!(header(&refused, "ratelimit-reset"), wait);
        assert_eq!((header(&refused, "ratelimit-limit"), header(&refused, "ratelimit-remaining")), (4, 0));
    }
    client.post("/v1/sessions", json!({})).await.problem(429, "rate-limited");

    // Another key of the account has its own limit.
    app.client_of(account, &["read"]).await.get("/v1/sessions").await.expect(200);
    assert!(!app.stranger().get("/v1/archetypes").await.expect(200).headers.contains_key("ratelimit-limit"));
    app.stranger().get("/v1/sessions").await.problem(401, "unauthorized");

    let metrics = metrics(&app.base_url).await;
    for (outcome, count) in [("allowed", 5), ("exceeded", 3)] {
        let sample = format!(r#"service_rate_limit_total{{bucket="credential",outcome="{outcome}"}} {count}"#);
        assert!(metrics.lines().any(|line| line == sample), "no {sample} in {metrics}");
    }
    app.stop().await;
}

async fn metrics(base_url: &str) -> String {
    let scraper = Client::new(base_url, Some("scrape"));
    scraper.request(reqwest::Method::GET, "/metrics").send().await.expect("an answer").text().await.expect("text")
}

/// Contract: rate-limits 3, 8. Without a working Redis each replica counts alone, which a metric counts.
#[tokio::test]
async fn replicas_share_the_limit_of_an_address() {
    let mut redis = Redis::start();
    let mut app = App::simulated()
        .set("redis.url", &redis.url())
        .set("metrics.scrape_token", "scrape")
        .set("server.trusted_proxies", "127.0.0.1")
        .start()
        .await;
    let (_, other) = app.start_another_api().await;
    let replicas = [app.stranger(), Client::new(&other, None)];
    let ask = async |replica: usize, address: &str| {
        let client = &replicas[replica];
        let request = client.request(reqwest::Method::POST, "/v1/auth/password-reset/request");
        let asked = Instant::now();
        let request = request.header("x-forwarded-for", address).json(&json!({"email": "ada@example.com"}));
        let answer = client.send(request).await;
        assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
        answer
    };
    // The first request after a pause, or on a busy machine, may time out at Redis and be counted locally.
    let addresses = AtomicU8::new(0);
    let share_limit = async || {
        let address = format!("192.0.2.{}", addresses.fetch_add(1, Ordering::Relaxed));
        let mut statuses = Vec::new();
        for replica in [0, 1, 0, 1, 0] {
            statuses.push(ask(replica, &address).await.status.as_u16());
        }
        (statuses == [200, 200, 200, 429, 429]).then_some(())
    };
    let alone = async |address: &str| {
        for replica in [0, 1, 0, 1, 0, 1] {
            ask(replica, address).await.expect(200);
        }
        ask(0, address).await.problem(429, "rate-limited");
        let fallbacks = r#"service_rate_limit_store_fallback_total{limiter="send_password_reset"} 0"#;
        for replica in &replicas {
            assert!(!metrics(&replica.base_url).await.contains(fallbacks));
        }
    };
    eventually(Duration::from_secs(20), "the replicas share a limit", share_limit).await;
    redis.fill();
    alone("198.51.100.1").await;
    redis.make_room();
    eventually(Duration::from_secs(20), "the replicas share the limit when Redis has memory again", share_limit).await;
    redis.signal(Signal::SIGSTOP);
    alone("198.51.100.2").await;
    redis.signal(Signal::SIGCONT);
    redis.kill();
    alone("198.51.100.3").await;
    redis.restart();
    eventually(Duration::from_secs(20), "the replicas share the limit after the restart", share_limit).await;
    app.stop().await;
}

/// Contract: rate-limits 14. The limit is 100 mails an hour. Beyond the limit, signups and subscriptions are 429, and links are
/// mailed only to verified addresses.
#[tokio::test]
async fn mails_to_unverified_addresses_are_limited_by_network() {
    let app = App::simulated()
        .set("server.trusted_proxies", "127.0.0.1")
        .set("auth.send_rate_per_minute", "100")
        .set("rate_limits.status_subscriptions_per_minute", "100000")
        .start()
        .await;
    let stranger = app.stranger();
    let from = async |address: &str, path: &str, body: serde_json::Value| {
        let request = stranger.request(reqwest::Method::POST, path).header("x-forwarded-for", address);
        stranger.send(request.json(&body)).await
    };
    let sign_up = async |address: &str, email: &str| {
        from(address, "/v1/auth/signup", json!({"email": email, "password": PASSWORD, "name": "Eve"})).await
    };
    let subscribe = async |address: &str, number: u32| {
        from(address, "/v1/status/subscribers", json!({"email": format!("reader{number}@example.com")})).await
    };
    let verified = app.person(kitfleet_types::tiers::Tier::Free).await.email;
    for (network, elsewhere, unverified) in
        [("192.0.2.", "192.0.3.1", "eve4@example.com"), ("2001:db8:1:", "2001:db8:2::1", "eve6@example.com")]
    {
        let address = |number: u32| {
            if network.contains(':') { format!("{network}{number}::1") } else { format!("{network}{number}") }
        };
        sign_up(&address(1), unverified).await.expect(200);
        app.mail_to(unverified, Template::VerifyEmail).await;
        for number in 1..100 {
            subscribe(&address(number), number).await.expect(200);
        }
        // The bucket refills while the requests run. After this, no mail is possible for more than 20 s.
        eventually(Duration::from_mins(1), "the limit is reached", async || {
            let answer = subscribe(&address(200), 100).await;
            (answer.status == 429 && header(&answer, "retry-after") > 20).then_some(())
        })
        .await;
        for rejected in [sign_up(&address(201), "new@example.com").await, subscribe(&address(202), 100).await] {
            let rejected = rejected.problem(429, "rate-limited");
            assert!((1..=36).contains(&header(&rejected, "retry-after")), "{rejected:?}");
            assert!(
                rejected.body["detail"].as_str().is_some_and(|detail| detail.contains("from this network")),
                "{rejected:?}"
            );
        }
        for (path, template) in LINKS {
            let limited = from(&address(203), path, json!({"email": unverified})).await.expect(200);
            let before = app.mails_to(&verified, template).len();
            let sent = from(&address(203), path, json!({"email": verified})).await.expect(200);
            for answer in [&limited, &sent] {
                let minutes = minutes_until(&app, &answer.body["expires_at"]).await;
                assert!(minutes > 14.0, "{}", answer.body);
            }
            assert_eq!(limited.body["sent"], sent.body["sent"]);
            let names = |answer: &Answer| {
                let mut names: Vec<_> = answer.headers.keys().map(ToString::to_string).collect();
                names.sort();
                names
            };
            assert_eq!(names(&limited), names(&sent));
            if template != Template::VerifyEmail {
                app.mail_number(before + 1, &verified, template).await;
            }
        }
        // A mail that was not withheld would have arrived by then.
        app.mails_are_sent().await;
        assert_eq!(app.mails_to(unverified, Template::VerifyEmail).len(), 1);
        for template in [Template::MagicLink, Template::ResetPassword] {
            assert!(app.mails_to(unverified, template).is_empty(), "{template:?}");
        }
        from(elsewhere, "/v1/auth/magic-link/request", json!({"email": unverified})).await.expect(200);
        app.mail_to(unverified, Template::MagicLink).await;
        sign_up(elsewhere, &format!("other-{unverified}")).await.expect(200);
    }
    app.stop().await;
}

const LINKS: [(&str, Template); 3] = [
    ("/v1/auth/resend-verification", Template::VerifyEmail),
    ("/v1/auth/magic-link/request", Template::MagicLink),
    ("/v1/auth/password-reset/request", Template::ResetPassword),
];

async fn minutes_until(app: &App, instant: &serde_json::Value) -> f64 {
    sqlx::query_scalar("select extract(epoch from $1::text::timestamptz - now())::float8 / 60")
        .bind(instant.as_str())
        .fetch_one(&app.database.pool)
        .await
        .expect("an instant")
}

impl App {
    async fn mails_are_sent(&self) {
        eventually(Duration::from_secs(20), "all mails are sent", async || {
            (self.count("select count(*) from emails where status <> 'done'").await == 0).then_some(())
        })
        .await;
    }
}

/// Contract: rate-limits 8; command-line 10. Without Redis everything works.
#[tokio::test]
async fn doctor_checks_redis() {
    let mut redis = Redis::start();
    let app = App::simulated().set("redis.url", &redis.url()).start().await;
    let found = async |url: &str| {
        let mut command = app.command(&["doctor", "--json"]);
        command.env("KITFLEET_REDIS__URL", url);
        let checks = run(command, "").await.json();
        let redis = checks.as_array().expect("checks").iter().find(|check| check["subject"] == "Redis").cloned();
        redis.expect("a check")["status"].clone()
    };
    let well = async || (found(&redis.url()).await == "ok").then_some(());
    eventually(Duration::from_secs(20), "the doctor reports Redis as ok", well).await;
    assert_eq!(found(&redis.url_without_channels()).await, "warn", "this user cannot subscribe to channels");
    redis.kill();
    assert_eq!(found(&redis.url()).await, "warn");
    app.client().await.get("/v1/sessions").await.expect(200);
    app.stop().await;
}

/// Contract: rate-limits 9.
#[tokio::test]
async fn limit_of_zero_is_rejected() {
    let app = App::simulated().start().await;
    for key in ["KITFLEET_RATE_LIMITS__LOGIN_PER_MINUTE", "KITFLEET_AUTH__SEND_RATE_PER_MINUTE"] {
        let mut command = app.command(&["config"]);
        command.env(key, "0");
        let ran = crate::support::commands::run(command, "").await;
        assert!(ran.error_text().contains(key), "{ran:?}");
    }
    app.stop().await;
}
