//! Contract: workers 6, 17, 20; sessions 26. Deadlines use the clock of the database. libfaketime changes the clock of a
//! process (tests/faketime/install).

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use serde_json::json;
use sqlx::types::chrono::{DateTime, Utc};

use crate::draining::{ERRORED, process_of, tap, until_active, until_ended};
use crate::support::sink::Sink;
use crate::support::{App, Role, eventually};

/// `LD_PRELOAD` loads it.
fn library() -> String {
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("faketime").join("libfaketime.so.1");
    installed.canonicalize().expect("tests/faketime/install has been run").display().to_string()
}

/// Off by this number of seconds. The monotonic clock is correct.
fn start_off_by(app: &mut App, seconds: &str) -> usize {
    let library = library();
    app.start_with(
        Role::Worker,
        &[("LD_PRELOAD", &library), ("FAKETIME", seconds), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")],
    )
}

/// By the timestamps of the process's log.
fn seconds_off(app: &App, process: usize) -> i64 {
    let log = app.log(process);
    let stamp = log.lines().find_map(|line| line.split(['"', ' ']).find_map(|word| word.parse::<DateTime<Utc>>().ok()));
    (stamp.unwrap_or_else(|| panic!("a line with a time: {log}")) - Utc::now()).num_seconds()
}

/// Contract: workers 6, 17, 20, 22; sessions 26; webhooks 1. Neither worker is marked as lost.
#[tokio::test]
async fn workers_with_wrong_clocks_meet_all_deadlines() {
    let sink = Sink::start().await;
    let builder = App::simulated().roles(&[Role::Api]).delivering_to(&sink).set("sessions.max_age", "20s");
    let mut app = builder.set("worker.drain_timeout", "6s").start().await;
    let fast = start_off_by(&mut app, "+300");
    until_active(&app, 1).await;
    let slow = start_off_by(&mut app, "-300");
    until_active(&app, 2).await;
    assert!((290..=310).contains(&seconds_off(&app, fast)), "{}", seconds_off(&app, fast));
    assert!((-330..=-290).contains(&seconds_off(&app, slow)), "{}", seconds_off(&app, slow));

    let client = app.client().await;
    let hook = json!({"url": sink.url("/ok"), "events": ["session.completed"]});
    client.post("/v1/webhooks", hook).await.expect(201);
    let created = Instant::now();
    let (first, second) = (client.session().await, client.session().await);
    assert_ne!(app.worker_of(&first).await, app.worker_of(&second).await);
    // Longer than a lease, and nearly as long as the maximum age.
    while created.elapsed() < Duration::from_secs(18) {
        for session in [&first, &second] {
            client.operate(session, "interact", tap()).await.expect(200);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(app.count("select count(*) from workers where status = 'active'").await, 2);
    eventually(Duration::from_secs(20), "both sessions end at the maximum age", async || {
        let ended = "select count(*) from sessions where status = 'destroyed'";
        (app.count(ended).await == 2).then_some(())
    })
    .await;
    for delivery in sink.receives("/ok", 2).await {
        let signed = delivery.header("x-service-signature");
        let at = signed.split(',').next().and_then(|part| part.strip_prefix("t=")).expect("a time");
        // Receivers reject signatures whose timestamp differs too much from their own clock.
        let off = at.parse::<i64>().expect("seconds") - Utc::now().timestamp();
        assert!(off.abs() < 60, "signed {off} s from now");
    }
    for session in [&first, &second] {
        let [(_, data)] = &app.events(session).await[..] else { panic!("not one event") };
        assert_eq!(data["reason"], "auto-destroyed: session duration cap");
        // The duration uses the clock of the database.
        assert!((20_000..40_000).contains(&data["duration_ms"].as_i64().expect("a number")), "{data}");
    }

    let left = [client.session().await, client.session().await];
    let began = Instant::now();
    let (commanded, told) = (app.worker_of(&left[0]).await, process_of(&app, &app.worker_of(&left[1]).await));
    app.run(&["workers", "drain", &commanded, "--deadline", "6s"]).await.code(0);
    kill(app.pid(told), Signal::SIGTERM).expect("it runs");
    while began.elapsed() < Duration::from_secs(4) {
        for session in &left {
            client.operate(session, "interact", tap()).await.expect(200);
        }
    }
    eventually(Duration::from_secs(10), "both sessions are ended at the deadline", async || {
        (app.count(ERRORED).await == 2).then_some(())
    })
    .await;
    assert!(began.elapsed() > Duration::from_secs(5), "{:?}", began.elapsed());
    until_ended(&mut app, told).await;
    assert_eq!(app.count("select count(*) from workers where status = 'lost'").await, 0);
    app.stop().await;
}
