//! What has gathered in months of use makes nothing slower that a loop repeats or a list shows, and a service that has nothing to do asks
//! the database for little. All statements that the service sends are looked at as the database counts them, so that a new one is
//! held to the same.

use std::time::Duration;

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::areas;
use nix::sys::signal::Signal;

use crate::support::statements::list;
use crate::support::{App, Client, Role, eventually};

/// Pages of 8 KiB that a statement may read for ten rows, on average. The smallest table that is filled has 1,500 and more.
const PAGES: f64 = 1_000.0;

impl App {
    /// Makes the next tick of each chain due.
    async fn hurry_chains(&self) {
        self.execute_all("update apalis.jobs set run_at = now() where job_type = 'maintenance' and status = 'Pending'")
            .await;
    }
}

/// No chain, no heartbeat, no look at dead workers, no scrape and no list reads a table that has grown from
/// one end to the other, or more than what it is about.
#[tokio::test]
async fn what_has_gathered_is_not_read_again_and_again() {
    let app = App::simulated().counting_statements().set("metrics.scrape_token", "scrape").start().await;
    let (ada, client) = app.customer(Tier::Enterprise).await;
    app.execute("update accounts set name = 'Ada Lovelace' where id = $1", ada.as_uuid()).await;
    app.execute_all(include_str!("support/growth.sql")).await;
    app.execute_all("vacuum analyze").await;
    let endpoint: String =
        sqlx::query_scalar("select 'whk_' || id from webhook_endpoints where account_id = $1 order by id desc limit 1")
            .bind(ada.as_uuid())
            .fetch_one(&app.database.pool)
            .await
            .expect("an endpoint");
    let scraper = Client::new(&app.base_url, Some("scrape"));
    let session = client.session().await;

    look_around(&app, &client, &scraper, &session, &endpoint).await;
    // Its events are not such as the service writes.
    app.execute_all("truncate events, webhook_deliveries").await;
    app.stop().await;
}

/// Has everything done that a loop repeats, and looks at lists, and then at what the database has counted.
async fn look_around(app: &App, client: &Client, scraper: &Client, session: &str, endpoint: &str) {
    // A backend that has nothing to do says within ten seconds what it has counted before.
    tokio::time::sleep(Duration::from_secs(11)).await;
    let before = scans(app).await;
    app.count_statements().await;
    for _ in 0..2 {
        app.hurry_chains().await;
        for filter in ["", "?status=errored", "?status=ready", "?label=rare", "?label=nightly&status=errored"] {
            client.get(&format!("/v1/sessions{filter}")).await.expect(200);
        }
        for filter in ["", "?status=dlq", "?status=pending"] {
            client.get(&format!("/v1/webhooks/{endpoint}/deliveries{filter}")).await.expect(200);
        }
        for path in [
            "/v1/account/audit-log",
            "/v1/account/audit-log?action=account.login",
            "/v1/account/notifications",
            "/v1/agent-sessions",
            "/v1/api-keys",
            "/v1/billing/crypto-orders",
            "/v1/profiles",
            "/v1/status",
            "/v1/usage",
        ] {
            client.get(path).await.expect(200);
        }
        scraper.get("/metrics").await;
        client.navigate(session, "https://example.com/").await;
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    for chain in areas::chains() {
        eventually(Duration::from_mins(1), chain.name, async || {
            let ended = "select count(*) from apalis.jobs where job_type = 'maintenance' and status = 'Done'
                         and idempotency_key like $1 || ':%'";
            let ended: i64 =
                sqlx::query_scalar(ended).bind(chain.name).fetch_one(&app.database.pool).await.expect("a count");
            (ended > 0).then_some(())
        })
        .await;
    }
    // What backends have counted is there a second later.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let statements = app.statements().await;
    assert!(statements.len() > 40, "some loops have not run: {}", list(&statements));
    let greedy = list(statements.iter().take_while(|statement| statement.pages > PAGES));
    assert!(greedy.is_empty(), "{greedy}");
    assert_eq!(scans(app).await, before, "a large table was read from one end to the other");
}

/// How often each large table was read from one end to the other.
async fn scans(app: &App) -> Vec<(String, i64)> {
    let scans = "select relname::text, seq_scan from pg_stat_user_tables where n_live_tup > 20000 order by relname";
    sqlx::query_as(scans).fetch_all(&app.database.pool).await.expect("the counts")
}

/// Workers that have nothing to do: enough that it is no matter whether a minute, at which most chains are due, falls into the window.
const WORKERS: usize = 8;
/// Statements a second that each of them may send while chains of a minute are due: of fewer workers each runs more of those, of many
/// next to none.
const IDLE: f64 = 2.0;
/// How long they are counted.
const WINDOW: Duration = Duration::from_secs(24);

/// Workers that have nothing to do ask the database for little: each renews its lease every two seconds, and looks as often, by one
/// statement, for what it may not have been told of; and one of them keeps the time of the chains.
#[tokio::test]
async fn workers_that_have_nothing_to_do_ask_for_little() {
    let roles = [&[Role::Api][..], &[Role::Worker; WORKERS]].concat();
    let mut app = App::simulated().counting_statements().roles(&roles).start().await;
    let there = "select count(*) from workers where status = 'active'";
    let all = i64::try_from(WORKERS).expect("a few");
    eventually(Duration::from_secs(30), "all are there", async || (app.count(there).await == all).then_some(())).await;
    app.signal(0, Signal::SIGTERM).await;
    // What they do when they start.
    tokio::time::sleep(Duration::from_secs(6)).await;
    app.count_statements().await;
    tokio::time::sleep(WINDOW).await;
    let mut statements = app.statements().await;
    statements.sort_by_key(|statement| -statement.calls);
    let calls: i64 = statements.iter().map(|statement| statement.calls).sum();
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let rate = calls as f64 / WINDOW.as_secs_f64() / WORKERS as f64;
    assert!(rate <= IDLE, "{rate} a second: {}", list(&statements));
    app.stop().await;
}
