//! Metrics for operators (contract: operators 3 to 7).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::json;

use crate::outages::{let_in, server_of};
use crate::support::app::free_port;
use crate::support::people::ENCRYPTION_KEY;
use crate::support::sink::Sink;
use crate::support::{App, Builder, Client, Role, eventually, unknown_id};
use crate::webhooks;

pub const TOKEN: &str = "scrape";

pub fn scraped(builder: Builder) -> Builder {
    builder.set("metrics.scrape_token", TOKEN)
}

pub async fn samples(base_url: &str) -> Vec<String> {
    let request = Client::new(base_url, Some(TOKEN)).request(Method::GET, "/metrics");
    let text = request.send().await.expect("an answer").text().await.expect("text");
    text.lines().filter(|line| !line.starts_with('#')).map(ToOwned::to_owned).collect()
}

/// The sample must exist.
pub async fn value(app: &App, name: &str) -> f64 {
    let samples = samples(&app.base_url).await;
    let found = samples.iter().find_map(|sample| sample.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name} in {samples:#?}")).parse().expect("a number")
}

/// Contract: operators 7.
#[tokio::test]
async fn gauges_report_sessions_slots_and_workers() {
    let app = scraped(App::simulated().set("worker.max_sessions", "3")).start().await;
    let client = app.client().await;
    let (first, second) = (client.session().await, client.session().await);
    client.delete(&format!("/v1/sessions/{first}")).await.expect(204);
    for (name, expected) in [
        ("service_sessions_live{status=\"creating\"}", 0.0),
        ("service_sessions_live{status=\"ready\"}", 1.0),
        ("service_sessions_live{status=\"busy\"}", 0.0),
        ("service_worker_slots", 3.0),
        ("service_worker_slots_free", 2.0),
        ("service_worker_sandboxed", 1.0),
        ("service_browser_memory_bytes", 0.0),
        ("service_workers{status=\"active\"}", 1.0),
        ("service_workers{status=\"draining\"}", 0.0),
        ("service_workers{status=\"stopped\"}", 0.0),
        ("service_workers{status=\"lost\"}", 0.0),
        ("service_secret_age_seconds{kind=\"byok_key\"}", 0.0),
        ("service_secret_age_seconds{kind=\"webhook_secret\"}", 0.0),
        (&format!("service_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
    ] {
        assert!((value(&app, name).await - expected).abs() < 0.5, "{name}");
    }
    let pool = value(&app, "service_db_pool_connections{state=\"idle\"}").await
        + value(&app, "service_db_pool_connections{state=\"in_use\"}").await;
    assert!(pool >= 1.0, "{pool}");
    // The gauge counts the sessions that the worker holds, which drops only after it has cleaned up.
    let own = async |count: f64| {
        eventually(Duration::from_secs(10), "the worker holds the expected sessions", async || {
            ((value(&app, "service_worker_sessions").await - count).abs() < 0.5).then_some(())
        })
        .await;
    };
    own(1.0).await;
    client.delete(&format!("/v1/sessions/{second}")).await.expect(204);
    assert!(value(&app, "service_sessions_live{status=\"ready\"}").await < 0.5);
    own(0.0).await;
    app.stop().await;
}

/// Contract: operators 7.
#[tokio::test]
async fn durations_are_histograms() {
    let sink = Sink::start().await;
    let app = scraped(App::simulated().delivering_to(&sink)).start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.operate(&session, "wait", json!({"condition": {"kind": "time", "ms": 30}})).await.expect(200);
    let endpoint = webhooks::create(&client, &sink.url("/ok"), &["session.failed"]).await;
    webhooks::test_event(&client, &webhooks::id_of(&endpoint)).await;
    let operation = "service_session_operation_duration_seconds";
    assert!((value(&app, &format!("{operation}_count{{operation=\"wait\"}}")).await - 1.0).abs() < 0.5);
    assert!(value(&app, &format!("{operation}_sum{{operation=\"wait\"}}")).await >= 0.03);
    let request = "service_http_request_duration_seconds_bucket{route=\"/v1/sessions/{id}/wait\",le";
    let buckets: Vec<_> = samples(&app.base_url).await;
    let buckets: Vec<_> = buckets.iter().filter_map(|sample| sample.strip_prefix(request)).collect();
    assert!(buckets.first().is_some_and(|bucket| bucket.ends_with(" 0")), "{buckets:?}");
    assert!(buckets.contains(&"=\"+Inf\"} 1"), "{buckets:?}");
    eventually(Duration::from_secs(10), "the attempt is counted", async || {
        let samples = samples(&app.base_url).await;
        samples.iter().any(|sample| sample == "service_webhook_attempt_duration_seconds_count 1").then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: operators 7. The database's clock measures the age, independent of the process that enqueued the job.
/// Contract: operators 5.
#[tokio::test]
async fn waiting_jobs_are_reported_with_their_age() {
    let mut app = scraped(App::simulated().roles(&[Role::Api])).start().await;
    let types = ["maintenance", "emails", "webhooks", "operations", "turns", "proxy_checks"];
    assert_eq!(kitfleet_jobs::QUEUES.map(|queue| queue.name), types);
    for job_type in types {
        assert!(value(&app, &format!("service_job_queue_depth{{job_type=\"{job_type}\"}}")).await < 0.5, "{job_type}");
    }
    // No worker runs, so the mail is not sent.
    let address = json!({"email": "ada@example.com"});
    app.stranger().post("/v1/auth/magic-link/request", address).await.expect(200);
    assert!((value(&app, "service_job_queue_depth{job_type=\"emails\"}").await - 1.0).abs() < 0.5);
    eventually(Duration::from_secs(10), "the job has an age", async || (value(&app, AGE).await > 0.5).then_some(()))
        .await;
    // Job ids contain the time of the creating process. A clock that is years behind must not make a job look old.
    app.execute_all("update apalis.jobs set id = '01HZZZZZZZZZZZZZZZZZZZZZZZ' where job_type = 'emails'").await;
    assert!(value(&app, AGE).await < 600.0);
    app.execute_all("update apalis.jobs set run_at = now() - interval '20 minutes' where job_type = 'emails'").await;
    let age = value(&app, AGE).await;
    assert!((1_200.0..1_500.0).contains(&age), "{age}");

    assert!(value(&app, CHAIN).await < 0.5, "no worker schedules the job");
    app.start(Role::Worker);
    eventually(Duration::from_secs(20), "a worker schedules the job", async || {
        (value(&app, CHAIN).await > 0.5).then_some(())
    })
    .await;
    app.stop().await;
}

const AGE: &str = "service_job_queue_age_seconds{job_type=\"emails\"}";
const CHAIN: &str = "service_scheduled_job_chain_pending{job_type=\"sweep_retention\"}";

/// Contract: operators 7. A dead worker is counted as lost before another process marks it.
#[tokio::test]
async fn workers_are_counted_by_status() {
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("worker.drain_timeout", "1s");
    let mut app = scraped(builder).start().await;
    let second = app.start(Role::Worker);
    let expect_workers = async |app: &App, expected: [f64; 4]| {
        eventually(Duration::from_secs(30), &format!("the worker counts are {expected:?}"), async || {
            for (status, count) in ["active", "draining", "stopped", "lost"].iter().zip(expected) {
                let reported = value(app, &format!("service_workers{{status=\"{status}\"}}")).await;
                if (reported - count).abs() > 0.5 {
                    return None;
                }
            }
            Some(())
        })
        .await;
    };
    expect_workers(&app, [2.0, 0.0, 0.0, 0.0]).await;
    app.signal(second, Signal::SIGKILL).await;
    expect_workers(&app, [1.0, 0.0, 0.0, 1.0]).await;
    let listed = app.run(&["workers", "list", "--json"]).await.code(0).json();
    // The list is newest first and starts with the dead worker if it is not marked yet.
    let id = listed.as_array().and_then(|workers| workers.last()?["id"].as_str()).expect("an id").to_owned();
    app.run(&["workers", "drain", &id]).await.code(0);
    expect_workers(&app, [0.0, 1.0, 0.0, 1.0]).await;
    app.signal(1, Signal::SIGTERM).await;
    expect_workers(&app, [0.0, 0.0, 1.0, 1.0]).await;
    app.execute_all("update workers set last_seen_at = now() - interval '61 minutes'").await;
    expect_workers(&app, [0.0; 4]).await;
    app.stop().await;
}

/// Contract: operators 7.
#[tokio::test]
async fn age_of_oldest_secret_is_reported() {
    let sink = Sink::start().await;
    let app = App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY).delivering_to(&sink);
    let app = scraped(app).start().await;
    let client = app.client().await;
    for provider in ["anthropic", "openai"] {
        client.set_key(provider, "sk-ant-of-a-customer").await.expect(204);
    }
    let endpoint = webhooks::create(&client, &sink.url("/ok"), &["session.failed"]).await;
    let days =
        async |kind: &str| value(&app, &format!("service_secret_age_seconds{{kind=\"{kind}\"}}")).await / 86_400.0;
    for kind in ["byok_key", "webhook_secret"] {
        assert!(days(kind).await < 0.1, "{kind}");
    }
    app.execute_all("update byok_keys set set_at = now() - interval '90 days' where provider = 'openai'").await;
    app.execute_all("update webhook_endpoints set secret_made_at = now() - interval '91 days'").await;
    assert!((days("byok_key").await - 90.0).abs() < 0.1);
    assert!((days("webhook_secret").await - 91.0).abs() < 0.1);
    client.set_key("openai", "sk-of-a-customer-anew").await.expect(204);
    client.delete(&format!("/v1/webhooks/{}", webhooks::id_of(&endpoint))).await.expect(204);
    for kind in ["byok_key", "webhook_secret"] {
        assert!(days(kind).await < 0.1, "{kind}");
    }
    app.stop().await;
}

/// Contract: operators 5.
#[tokio::test]
async fn authentication_outcomes_are_counted() {
    let app = scraped(App::simulated()).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let ends = ["ok", "unauthorized", "invalid", "revoked", "expired", "forbidden", "error"];
    let counted = async || {
        let mut counts = Vec::new();
        for end in ends {
            #[expect(clippy::cast_possible_truncation, reason = "counters are whole numbers")]
            counts.push(value(&app, &format!("service_auth_total{{outcome=\"{end}\"}}")).await as i64);
        }
        counts
    };
    let list = async |client: &Client| client.get("/v1/sessions").await;
    assert_eq!(counted().await, [0; 7]);
    list(&client).await.expect(200);
    list(&app.stranger()).await.expect(401);
    list(&Client::new(&app.base_url, Some("svc_live_garbled"))).await.expect(401);
    app.execute_all("update api_keys set revoked_at = now()").await;
    list(&client).await.expect(401);
    app.execute_all("update api_keys set revoked_at = null, expires_at = now()").await;
    list(&client).await.expect(401);
    list(&app.client_of(account, &["read:audit"]).await).await.expect(403);
    app.execute_all("alter table api_keys rename to away").await;
    list(&client).await.problem(500, "internal");
    app.execute_all("alter table away rename to api_keys").await;
    assert_eq!(counted().await, [1; 7]);
    app.stop().await;
}

/// Contract: operators 3, 4.
#[tokio::test]
async fn metrics_have_bounded_labels() {
    let app = App::simulated().set("metrics.scrape_token", TOKEN).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;
    client.get("/v1/nowhere-to-be-found").await.expect(404);
    client.get(&format!("/v1/sessions/{}", unknown_id("ses"))).await.expect(404);
    client.send(client.request(Method::from_bytes(b"BREW").expect("a method"), "/v1/sessions")).await.expect(405);
    app.stranger().get("/v1/sessions").await.expect(401);
    Client::new(&app.base_url, Some("svc_live_garbled")).get("/v1/sessions").await.expect(401);
    app.client_of(account, &["read"]).await.post("/v1/sessions", json!({})).await.expect(403);

    app.stranger().get("/metrics").await.problem(401, "unauthorized");
    client.get("/metrics").await.problem(401, "unauthorized");
    let scraper = Client::new(&app.base_url, Some(TOKEN));
    let response = scraper.request(Method::GET, "/metrics").send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = response.text().await.expect("text");

    let samples: Vec<_> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(samples.iter().all(|sample| sample.starts_with("service_")), "{text}");
    for name in [
        "service_http_request_total",
        "service_auth_total",
        "service_account_audit_emit_total",
        "service_email_send_total",
        "service_scheduled_job_chain_pending",
        "service_unhandled_rejection_total",
        "service_agent_decompose_total",
        "service_pair_mode_transition_total",
    ] {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} is not registered:\n{text}");
    }
    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(text.contains(&format!("# HELP {name} ")), "{name} is not in the list of its crate:\n{text}");
    }
    for secret in [session.as_str(), &account.to_string(), "nowhere-to-be-found", "BREW", "127.0.0.1", TOKEN] {
        assert!(!text.contains(secret), "{secret} is a label:\n{text}");
    }
    let http: Vec<_> = samples.iter().filter_map(|sample| labels(sample, "service_http_request_total")).collect();
    assert!(http.iter().all(|labels| labels.keys().copied().eq(["method", "route", "status_class"])), "{text}");
    let counted =
        |route: &str, class: &str| http.iter().any(|l| l["route"].contains(route) && l["status_class"] == class);
    assert!(counted("/navigate", "2xx") && counted("/v1/sessions", "4xx"), "{text}");
    let outcomes: BTreeSet<_> =
        samples.iter().filter_map(|s| Some(labels(s, "service_auth_total")?["outcome"])).collect();
    assert!(BTreeSet::from(["ok", "unauthorized", "invalid", "forbidden"]).is_subset(&outcomes), "{text}");
    let audited = samples.iter().filter_map(|sample| labels(sample, "service_account_audit_emit_total"));
    let audited: BTreeSet<_> = audited.map(|labels| (labels["prefix"], labels["actor_type"])).collect();
    let customers = ["account", "api_key", "profile", "session", "team", "webhook_delivery", "webhook_endpoint"];
    let systems = ["api_key", "session", "subscription"];
    let expected =
        customers.map(|prefix| (prefix, "customer")).into_iter().chain(systems.map(|prefix| (prefix, "system")));
    let expected = expected.chain([("admin", "staff")]);
    assert_eq!(audited, expected.collect(), "{text}");
    app.stop().await;
}

/// Contract: operators 5. Attempts are counted by outcome and deliveries by final state.
#[tokio::test]
async fn webhook_deliveries_are_counted() {
    let sink = Sink::start().await;
    let app = App::simulated()
        .delivering_to(&sink)
        .set("metrics.scrape_token", TOKEN)
        .set("webhooks.retry_schedule", "[]")
        .set("webhooks.timeout", "1s")
        .start()
        .await;
    let (client, scraper) = (app.client().await, Client::new(&app.base_url, Some(TOKEN)));
    let counted = async || {
        let answer = scraper.request(Method::GET, "/metrics").send().await.expect("an answer");
        let text = answer.text().await.expect("text");
        let samples = text.lines().filter_map(|line| line.strip_prefix("service_webhook_delivery_"));
        samples.map(ToOwned::to_owned).collect::<BTreeSet<_>>()
    };
    let expected = |counts: [u64; 6]| {
        let [success, http_error, timeout, transport_error, delivered, dlq] = counts;
        let attempts = [
            ("success", success),
            ("http_error", http_error),
            ("timeout", timeout),
            ("transport_error", transport_error),
        ];
        let attempts = attempts.map(|(outcome, count)| format!("attempt_total{{outcome=\"{outcome}\"}} {count}"));
        let ends = [("delivered", delivered), ("dlq", dlq)];
        let ends = ends.map(|(state, count)| format!("terminal_total{{terminal_state=\"{state}\"}} {count}"));
        attempts.into_iter().chain(ends).collect::<BTreeSet<_>>()
    };
    assert_eq!(counted().await, expected([0; 6]));
    for url in [&sink.url("/ok"), &sink.url("/status/500"), &sink.url("/hang"), "https://localhost:1/"] {
        let endpoint = webhooks::create(&client, url, &["session.failed"]).await;
        webhooks::test_event(&client, &webhooks::id_of(&endpoint)).await;
    }
    let all = expected([1, 1, 1, 1, 1, 3]);
    eventually(Duration::from_secs(10), "all attempts are counted", async || (counted().await == all).then_some(()))
        .await;
    app.stop().await;
}

/// Contract: operators 4. Totals of a recording are added after its pictures, and at its end.
#[tokio::test]
async fn recordings_are_counted() {
    let app = scraped(App::simulated()).start().await;
    let client = app.client().await;
    for name in ["bytes_total", "pictures_total", "dropped_total{kind=\"picture\"}", "dropped_total{kind=\"event\"}"] {
        assert!(value(&app, &format!("service_recording_{name}")).await.abs() < 0.5, "{name}");
    }
    let session = client.session_with(json!({"record": "steps"})).await;
    client.navigate(&session, "https://example.com/").await;
    eventually(Duration::from_secs(10), "a picture is counted", async || {
        (value(&app, "service_recording_pictures_total").await >= 1.0).then_some(())
    })
    .await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    eventually(Duration::from_secs(10), "stored bytes are counted", async || {
        (value(&app, "service_recording_bytes_total").await >= 1.0).then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: operators 6. The counters are on `worker.listen`, and require the token.
#[tokio::test]
async fn worker_serves_its_own_metrics() {
    let (sink, address) = (Sink::start().await, format!("127.0.0.1:{}", free_port()));
    let app = App::simulated()
        .roles(&[Role::Api, Role::Worker])
        .delivering_to(&sink)
        .set("metrics.scrape_token", TOKEN)
        .set("worker.listen", &address)
        .start()
        .await;
    let client = app.client().await;
    let endpoint = webhooks::create(&client, &sink.url("/ok"), &["session.failed"]).await;
    webhooks::test_event(&client, &webhooks::id_of(&endpoint)).await;

    let base_url = format!("http://{address}");
    let (scraper, stranger) = (Client::new(&base_url, Some(TOKEN)), Client::new(&base_url, None));
    eventually(Duration::from_secs(10), "the delivery is counted", async || {
        let text = scraper.request(Method::GET, "/metrics").send().await.ok()?.text().await.ok()?;
        let counted = "service_webhook_delivery_terminal_total{terminal_state=\"delivered\"} 1";
        text.lines().any(|line| line == counted).then_some(())
    })
    .await;
    stranger.get("/metrics").await.problem(401, "unauthorized");
    assert_eq!(stranger.get("/healthz").await.expect(200).body["status"], "ok");
    assert_eq!(stranger.get("/readyz").await.expect(200).body["status"], "ok");
    client.get("/v1/sessions").await.expect(200);
    stranger.get("/v1/sessions").await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: operators 7. The scrape reports the outage.
#[tokio::test]
async fn scrape_without_database_omits_its_gauges() {
    let app = scraped(App::simulated()).start().await;
    assert!((value(&app, "service_database_up").await - 1.0).abs() < f64::EPSILON);
    assert!(value(&app, "service_clock_skew_seconds").await.abs() < 5.0);
    let mut server = server_of(&app.database).await;
    let_in(&mut server, &app.database, false).await;
    let during = samples(&app.base_url).await;
    let_in(&mut server, &app.database, true).await;
    assert!(during.contains(&"service_database_up 0".to_owned()), "{during:#?}");
    assert!(!during.iter().any(|sample| sample.starts_with("service_redis_up")), "no Redis is configured");
    for absent in [
        "service_sessions_live",
        "service_worker_slots",
        "service_workers",
        "service_job_queue_depth",
        "service_clock_skew",
    ] {
        assert!(!during.iter().any(|sample| sample.starts_with(absent)), "{absent} is stale");
    }
    assert!(
        during.iter().any(|sample| sample.starts_with("service_http_request_total")),
        "counters are still reported"
    );
    eventually(Duration::from_secs(20), "the gauges are back", async || {
        samples(&app.base_url).await.contains(&"service_database_up 1".to_owned()).then_some(())
    })
    .await;
    assert!(value(&app, "service_worker_slots").await > 0.0);
    app.stop().await;
}

/// Contract: operators 12.
#[tokio::test]
async fn connections_are_named_by_role_and_worker() {
    let app =
        App::simulated().in_processes().roles(&[Role::Api, Role::Worker]).set("worker.name", "north").start().await;
    let names: Vec<String> = sqlx::query_scalar(
        "select distinct application_name from pg_stat_activity where datname = current_database() order by 1",
    )
    .fetch_all(&app.database.pool)
    .await
    .expect("names");
    for name in ["kitfleet api", "kitfleet worker north"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    app.stop().await;
}

fn labels<'a>(sample: &'a str, name: &str) -> Option<BTreeMap<&'a str, &'a str>> {
    let labels = sample.strip_prefix(name)?.strip_prefix('{')?.rsplit_once('}')?.0;
    Some(labels.split(',').filter_map(|label| label.split_once('=')).map(|(k, v)| (k, v.trim_matches('"'))).collect())
}
