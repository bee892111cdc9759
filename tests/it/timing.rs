//! Times do not reveal whether an address has an account (contract: sign-ins 6, 15).

use std::cmp::Ordering;
use std::time::Instant;

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{App, Client};

/// Number of requests with known addresses, and of those with unknown ones.
const REQUESTS: usize = 200;

/// Of two samples (1947).
#[derive(Debug, Clone, Copy)]
struct MannWhitney {
    /// Of a value of the first sample than of the second. 0.5 when the samples do not differ.
    less: f64,
    /// Distance from 0.5 in standard deviations.
    z: f64,
}

impl MannWhitney {
    fn test(first: &[f64], second: &[f64]) -> Self {
        let pairs = first.iter().flat_map(|a| second.iter().map(move |b| (a, b)));
        let win = |(a, b): (&f64, &f64)| match a.total_cmp(b) {
            Ordering::Less => 1.0,
            Ordering::Equal => 0.5,
            Ordering::Greater => 0.0,
        };
        let wins: f64 = pairs.map(win).sum();
        let (n, m) = (count(first), count(second));
        let deviation = ((n + m + 1.0) / (12.0 * n * m)).sqrt();
        let less = wins / (n * m);
        Self { less, z: (less - 0.5) / deviation }
    }

    /// Noise alone exceeds 3.5 standard deviations once in about two thousand tests.
    fn is_indistinguishable(self) -> bool {
        self.z.abs() < 4.0 && (self.less - 0.5).abs() < 0.1
    }
}

fn count(sample: &[f64]) -> f64 {
    u32::try_from(sample.len()).expect("a small sample").into()
}

/// An attacker could use the difference.
#[test]
fn mann_whitney_test_detects_a_difference() {
    let noise = |seed: u32| (0..200_u32).map(move |n| f64::from((n * 7_919 + seed) % 1_000)).collect::<Vec<_>>();
    let (first, same) = (noise(0), noise(500));
    let shifted: Vec<_> = same.iter().map(|duration| duration + 150.0).collect();
    assert!(MannWhitney::test(&first, &same).is_indistinguishable());
    assert!(!MannWhitney::test(&first, &shifted).is_indistinguishable());
    assert!((MannWhitney::test(&first, &first).less - 0.5).abs() < 1e-9);
    let apart = MannWhitney::test(&[1.0, 2.0], &[3.0, 4.0]);
    assert!((apart.less - 1.0).abs() < 1e-9 && apart.z > 1.0, "{apart:?}");
}

async fn service() -> App {
    let builder = App::simulated().set("auth.send_rate_per_minute", "1000000").set("log.filter", "warn");
    let builder = builder.set("rate_limits.login_per_minute", "1000000");
    builder.set("rate_limits.login_failures_per_hour", "1000000").start().await
}

/// Ten with an account, and ten without.
async fn addresses(app: &App) -> [Vec<String>; 2] {
    let mut known = Vec::new();
    for _ in 0..10 {
        known.push(app.person(Tier::Free).await.email);
    }
    let unknown = known.iter().map(|_| format!("{}@example.com", Uuid::now_v7().simple())).collect();
    [known, unknown]
}

/// Sends requests with known and unknown addresses in random order. Returns the durations in seconds.
async fn measure(client: &Client, addresses: &[Vec<String>; 2], requests: usize, ask: &RequestCase) -> [Vec<f64>; 2] {
    let mut order: Vec<_> = (0..2 * requests).map(|n| (Uuid::now_v7().as_u128() & 0xffff_ffff, n % 2, n)).collect();
    order.sort_unstable();
    let mut taken = [Vec::new(), Vec::new()];
    for (_, known, n) in order {
        let email = &addresses[known][n / 2 % addresses[known].len()];
        let request = client.request(reqwest::Method::POST, ask.path).json(&(ask.body)(email));
        let started = Instant::now();
        let answer = client.send(request).await;
        taken[known].push(started.elapsed().as_secs_f64());
        assert_eq!(answer.status, ask.status, "{}", answer.body);
    }
    taken
}

struct RequestCase {
    path: &'static str,
    body: fn(&str) -> Value,
    status: u16,
}

/// From this number of concurrent clients. The measurement is repeated up to three times, because other work on the machine can
/// disturb it.
async fn assert_indistinguishable(app: &App, ask: &RequestCase, clients: usize) {
    let addresses = addresses(app).await;
    // The first requests of a connection, and to a route, are slower than others.
    measure(&app.stranger(), &addresses, 4, ask).await;
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        let client = app.stranger();
        let runs = (0..clients).map(|_| measure(&client, &addresses, REQUESTS / clients, ask));
        let mut taken = [Vec::new(), Vec::new()];
        for run in futures_util::future::join_all(runs).await {
            for (all, some) in taken.iter_mut().zip(run) {
                all.extend(some);
            }
        }
        let [known, unknown] = &taken;
        assert_eq!((known.len(), unknown.len()), (REQUESTS, REQUESTS));
        let outcome = MannWhitney::test(known, unknown);
        if outcome.is_indistinguishable() {
            return;
        }
        outcomes.push(outcome);
    }
    panic!("{}: the response time reveals known addresses: {outcomes:?}", ask.path);
}

/// Contract: sign-ins 6.
#[tokio::test]
async fn login_time_is_equal_for_unknown_addresses() {
    let app = service().await;
    let body = |email: &str| json!({"email": email, "password": "not the password"});
    assert_indistinguishable(&app, &RequestCase { path: "/v1/auth/login", body, status: 401 }, 2).await;
    app.stop().await;
}

/// Contract: sign-ins 15.
#[tokio::test]
async fn mail_request_time_is_equal_for_unknown_addresses() {
    let app = service().await;
    for path in ["/v1/auth/resend-verification", "/v1/auth/magic-link/request", "/v1/auth/password-reset/request"] {
        let body = |email: &str| json!({"email": email});
        assert_indistinguishable(&app, &RequestCase { path, body, status: 200 }, 1).await;
    }
    app.stop().await;
}
