//! Two consecutive versions that share one schema (contract: command-line 3; workers 11, 20).

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::draining::{ERRORED, Load, process_of, until_active};
use crate::support::sink::Sink;
use crate::support::{App, Client, Role, eventually};

/// Operations that must succeed before the test continues.
const ENOUGH: usize = 60;

async fn until_used(load: &Load) {
    let before = load.operations();
    eventually(Duration::from_mins(1), "operations succeed", async || {
        (load.operations() > before + ENOUGH).then_some(())
    })
    .await;
}

/// The schema differs from that of the version under test, so the running version's commands create account and key.
async fn client_by_command(app: &App) -> Client {
    let word = |text: &str, prefix: &str| {
        let mut words = text.split_whitespace();
        words.find(|word| word.starts_with(prefix)).unwrap_or_else(|| panic!("no {prefix} in {text}")).to_owned()
    };
    let create =
        ["account", "create", "--email", "ada@example.com", "--name", "Ada", "--tier", "enterprise", "--verified"];
    let account = word(&app.run(&create).await.code(0).stdout, "acc_");
    let mint = ["key", "mint", &account, "--name", "test", "--scopes", "account_owner"];
    Client::new(&app.base_url, Some(&word(&app.run(&mint).await.code(0).stdout, "svc_")))
}

/// Contract: command-line 3; workers 1, 11, 20. Each webhook is delivered once.
#[tokio::test]
#[ignore = "requires KITFLEET_TEST_PREVIOUS, the path of an earlier version"]
async fn upgrade_under_load_fails_no_operation() {
    let previous = std::env::var("KITFLEET_TEST_PREVIOUS").expect("KITFLEET_TEST_PREVIOUS is the path of a program");
    let sink = Sink::start().await;
    let builder = App::simulated().begun_by(PathBuf::from(previous)).delivering_to(&sink);
    let mut app = builder.roles(&[Role::Api, Role::Worker]).start().await;
    until_active(&app, 1).await;
    let old_client = client_by_command(&app).await;
    let hook = json!({"url": sink.url("/ok"), "events": ["session.completed", "session.failed"]});
    old_client.post("/v1/webhooks", hook).await.expect(201);
    let through_old = Load::begin(&old_client, 3);
    until_used(&through_old).await;

    app.upgrade().await;
    until_used(&through_old).await;
    let (_, address) = app.start_another_api().await;
    let new_client = Client { base_url: address, ..old_client.clone() };
    let through_new = Load::begin(&new_client, 3);
    until_used(&through_new).await;
    app.start(Role::Worker);
    until_active(&app, 2).await;
    until_used(&through_old).await;
    until_used(&through_new).await;

    let old_worker: String = sqlx::query_scalar("select 'wrk_' || id from workers order by started_at limit 1")
        .fetch_one(&app.database.pool)
        .await
        .expect("the first worker");
    assert_eq!(process_of(&app, &old_worker), 1);
    app.run(&["workers", "drain", &old_worker, "--wait", "--deadline", "1m"]).await.code(0);
    app.signal(1, Signal::SIGTERM).await;
    until_used(&through_old).await;
    // The load balancer no longer sends requests to the previous version.
    let mut operations = through_old.end().await;
    app.signal(0, Signal::SIGTERM).await;
    until_used(&through_new).await;
    operations += through_new.end().await;

    assert!(operations > 7 * ENOUGH, "{operations}");
    assert_eq!(app.count(ERRORED).await, 0);
    assert_eq!(app.count("select count(*) from intents where outcome->>'ended' <> 'done'").await, 0);
    assert_eq!(app.count("select count(*) from sessions where live").await, 0);
    let ended = usize::try_from(app.count("select count(*) from sessions").await).expect("some");
    let told = sink.receives("/ok", ended).await;
    let mut events = HashSet::new();
    for delivery in &told {
        assert_eq!(delivery.json()["type"], "session.completed", "{}", delivery.json());
        events.insert(delivery.json()["id"].as_str().expect("an id").to_owned());
    }
    assert_eq!((told.len(), events.len()), (ended, ended), "an event was not delivered exactly once");
    assert_eq!(
        app.count("select count(*) from webhook_deliveries where status <> 'delivered' or attempts <> 1").await,
        0
    );
    app.stop().await;
}
