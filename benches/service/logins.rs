//! Logins: their rate compared with the machine's hashing capacity, and their effect on other requests during a flood.
//!
//! Measure the effect in a control group, as systemd and containers run services (`systemd-run --scope -p CPUWeight=100 cargo
//! bench …`). With `sched_autogroup_enabled`, the kernel otherwise schedules a shell's processes by session, and a nice value
//! applies only inside a session.

use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, Instant};

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use kitfleet_domain::passwords::NewPassword;
use kitfleet_types::limits::Limits;
use tokio::task::JoinSet;

use crate::Result;
use crate::report::{self, Samples};
use crate::service::{Client, Service};

const LOAD: Duration = Duration::from_secs(10);
/// They log in repeatedly.
const CLIENTS: usize = 32;
const PASSWORD: &str = "correct horse battery staple";

pub async fn run() -> Result<()> {
    let ceiling = ceiling()?;
    // The clients share one address and exceed the default rate limits.
    let unlimited = [
        ("WORKER__DRIVER", "simulated"),
        ("RATE_LIMITS__LOGIN_PER_MINUTE", "1000000"),
        ("RATE_LIMITS__CREDENTIAL_PER_MINUTE", "10000000"),
    ];
    let service = Service::start(&unlimited, 1).await?;
    let client = service.client("reader")?;
    let email = service.account_with_password("login@example.com", PASSWORD)?;

    who_calls(&client, &client.signed_in(&email, PASSWORD).await?).await?;

    report::heading("Reads, in milliseconds, without logins and during a flood of logins");
    let idle = read_for(&client, LOAD).await?;
    let mut flood = JoinSet::new();
    let began = Instant::now();
    for _ in 0..CLIENTS {
        let (client, email) = (client.clone(), email.clone());
        flood.spawn(async move {
            let mut samples = Samples::default();
            while began.elapsed() < LOAD {
                samples.push(client.log_in(&email, PASSWORD).await?);
            }
            Result::Ok(samples)
        });
    }
    let flooded = read_for(&client, LOAD).await?;
    let mut logins = Samples::default();
    while let Some(ended) = flood.join_next().await {
        logins.extend(ended??);
    }
    let rate = per_second(logins.len(), began.elapsed());
    for ((path, idle), (_, flooded)) in idle.iter().zip(&flooded) {
        report::durations(&format!("{path}, idle"), idle, None, None);
        report::durations(&format!("{path}, {CLIENTS} clients log in"), flooded, None, Some(2.0 * idle.quantile(0.99)));
    }
    report::durations(&format!("a login, {CLIENTS} at once"), &logins, None, None);
    report::figure("passwords checked a second, without the service", ceiling, "/s", "no bound", true);
    let bound = format!("≥ 85 % of that, {:.0} %", rate / ceiling * 100.0);
    report::figure("logins a second", rate, "/s", &bound, rate >= 0.85 * ceiling);
    Ok(())
}

/// The same 404 without authentication, with a key, and with a web session.
async fn who_calls(key: &Client, web_session: &Client) -> Result<()> {
    let cases = [
        ("without authentication", key, "/v1/nothing"),
        ("a key", key, "/v1/sessions/nothing"),
        ("a web session", web_session, "/v1/sessions/nothing"),
    ];
    let mut taken = cases.map(|_| Samples::default());
    for _ in 0..3_000 {
        for ((_, client, path), samples) in cases.iter().zip(&mut taken) {
            samples.push(client.miss(path).await?);
        }
    }
    report::heading("Authentication, in milliseconds");
    let nobody = taken[0].quantile(0.5);
    for (i, ((name, ..), samples)) in cases.iter().zip(&taken).enumerate() {
        report::durations(name, samples, (i > 0).then_some(nobody + 0.5), None);
    }
    Ok(())
}

/// Password checks per second of argon2 alone, on all cores.
fn ceiling() -> Result<f64> {
    let hash = NewPassword::parse(PASSWORD, "password", &Limits::default())?.hash();
    let began = Instant::now();
    let check_on = |_| {
        let hash = hash.clone();
        thread::spawn(move || {
            let mut checked = 0;
            let parsed = PasswordHash::new(&hash).map_err(|error| error.to_string());
            let parsed = parsed.unwrap_or_else(|error| panic!("a valid hash: {error}"));
            while began.elapsed() < LOAD {
                assert!(
                    Argon2::default().verify_password(PASSWORD.as_bytes(), &parsed).is_ok(),
                    "the password matches"
                );
                checked += 1;
            }
            checked
        })
    };
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads: Vec<_> = (0..cores).map(check_on).collect();
    let checked = threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum();
    Ok(per_second(checked, began.elapsed()))
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand")]
fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// From memory and from the database in turn, at a rate that causes no load.
async fn read_for(client: &Client, time: Duration) -> Result<[(&'static str, Samples); 2]> {
    let mut read = ["/v1/archetypes", "/v1/sessions"].map(|path| (path, Samples::default()));
    let began = Instant::now();
    while began.elapsed() < time {
        for (path, samples) in &mut read {
            samples.push(client.read(path).await?);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(read)
}
