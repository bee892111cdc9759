//! No recurring job and no list becomes slower, and an idle service sends few statements. The tests count every statement that
//! the service sends, as `pg_stat_statements` reports it, so that a new statement must meet the same limits.

use std::time::Duration;

use kitfleet_domain::areas;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;

use crate::support::statements::list;
use crate::support::{App, Client, Role, eventually};

/// 8 KiB pages per call, on average, for up to ten rows. The smallest filled table has more than 1,500.
const PAGES: f64 = 1_000.0;

impl App {
    async fn make_scheduled_jobs_due(&self) {
        self.execute_all("update apalis.jobs set run_at = now() where job_type = 'maintenance' and status = 'Pending'")
            .await;
    }
}

/// No scheduled job, heartbeat, check for dead workers, scrape or list reads a large table in full, or more pages than its result
/// needs.
#[tokio::test]
async fn loops_and_lists_read_no_large_table_in_full() {
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

    exercise_and_check(&app, &client, &scraper, &session, &endpoint).await;
    // The inserted events do not have the form that the service writes.
    app.execute_all("truncate events, webhook_deliveries").await;
    app.stop().await;
}

/// Runs every recurring job, requests the lists and checks the statistics of the database.
async fn exercise_and_check(app: &App, client: &Client, scraper: &Client, session: &str, endpoint: &str) {
    // An idle backend reports its statistics within 10 s.
    tokio::time::sleep(Duration::from_secs(11)).await;
    let before = scans(app).await;
    app.count_statements().await;
    for _ in 0..2 {
        app.make_scheduled_jobs_due().await;
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
    for job in areas::scheduled_jobs() {
        eventually(Duration::from_mins(1), job.name, async || {
            let ended = "select count(*) from apalis.jobs where job_type = 'maintenance' and status = 'Done'
                         and idempotency_key like $1 || ':%'";
            let ended: i64 =
                sqlx::query_scalar(ended).bind(job.name).fetch_one(&app.database.pool).await.expect("a count");
            (ended > 0).then_some(())
        })
        .await;
    }
    // Backends report their statistics with a delay of up to 1 s.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let statements = app.statements().await;
    assert!(statements.len() > 40, "some recurring jobs have not run: {}", list(&statements));
    let greedy = list(statements.iter().take_while(|statement| statement.pages > PAGES));
    assert!(greedy.is_empty(), "{greedy}");
    assert_eq!(scans(app).await, before, "a large table was read in full");
}

async fn scans(app: &App) -> Vec<(String, i64)> {
    let scans = "select relname::text, seq_scan from pg_stat_user_tables where n_live_tup > 20000 order by relname";
    sqlx::query_as(scans).fetch_all(&app.database.pool).await.expect("the counts")
}

const WORKERS: usize = 8;
/// Contains one full minute, at which most scheduled jobs are due, no matter when it begins.
const WINDOW: Duration = Duration::from_mins(1);
/// Per second and worker. Scheduled jobs are shared: each of many workers runs few of them.
const IDLE: f64 = 2.1;

/// Each renews its lease every 2 s and polls as often, with one statement, for work whose wake-up was lost.
#[tokio::test]
async fn idle_workers_send_few_statements() {
    let roles = [&[Role::Api][..], &[Role::Worker; WORKERS]].concat();
    let mut app = App::simulated().counting_statements().roles(&roles).start().await;
    let there = "select count(*) from workers where status = 'active'";
    let all = i64::try_from(WORKERS).expect("a few");
    eventually(Duration::from_secs(30), "all workers are active", async || {
        (app.count(there).await == all).then_some(())
    })
    .await;
    app.signal(0, Signal::SIGTERM).await;
    // Excludes the statements of the start.
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
