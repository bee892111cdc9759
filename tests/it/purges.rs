//! Metrics of purges, and effect on concurrent writers (contract: retention 1, 15, 16).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgTransaction};

use crate::metrics::{scraped, value};
use crate::support::delays::Delays;
use crate::support::records::uuid_of;
use crate::support::{App, eventually, given};

const BATCH: i64 = 500;

/// Makes the pending or the last run of the scheduled job due.
async fn sweep(app: &App) {
    let tick = "update apalis.jobs set run_at = now(), status = 'Pending', attempts = 0, lock_at = null, lock_by = null, done_at = null
                where status in ('Pending', 'Done') and idempotency_key like 'sweep_retention:%'";
    eventually(Duration::from_mins(1), "a run of the scheduled job is pending or done", async || {
        let hurried = app.database.pool.execute(tick).await.expect("a statement");
        (hurried.rows_affected() > 0).then_some(())
    })
    .await;
    let due = "select count(*) from apalis.jobs
               where status <> 'Done' and run_at <= now() and idempotency_key like 'sweep_retention:%'";
    eventually(Duration::from_mins(1), "the sweep has ended", async || (app.count(due).await == 0).then_some(())).await;
}

async fn purges(app: &App, arm: &str, outcome: &str) -> i64 {
    let name = format!("service_retention_purge_total{{arm=\"{arm}\",outcome=\"{outcome}\"}}");
    #[expect(clippy::cast_possible_truncation, reason = "it counts")]
    let count = value(app, &name).await as i64;
    count
}

async fn insert_expired_secrets(app: &App, account: AccountId, proxies: i32) {
    sqlx::query("insert into byok_keys (account_id, provider, sealed_key, lost_at) values ($1, 'openai', '', now() - interval '2 days')")
        .bind(account.as_uuid())
        .execute(&app.database.pool)
        .await
        .expect("a key");
    sqlx::query(
        "insert into proxies (id, account_id, label, scheme, host, port, lost_at)
         select uuid_v7(), $1, 'proxy ' || n, 'socks5', 'example.com', 1080, now() - interval '2 days' + n * interval '1 second'
         from generate_series(1, $2) n",
    )
    .bind(account.as_uuid())
    .bind(proxies)
    .execute(&app.database.pool)
    .await
    .expect("proxies");
}

async fn hold<'a>(holder: &'a mut PgConnection, statements: &[&'static str]) -> PgTransaction<'a> {
    let mut held = holder.begin().await.expect("a transaction");
    for statement in statements {
        held.execute(*statement).await.expect("a lock");
    }
    held
}

/// Contract: retention 15.
#[tokio::test]
async fn locked_rows_are_skipped_and_purged_later() {
    let app = scraped(App::simulated()).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    insert_expired_secrets(&app, account, 1).await;
    let profile = client.profile().await;
    for _ in 0..2 {
        client.post(&format!("/v1/profiles/{profile}/snapshots"), json!({})).await.expect(201);
    }
    client.delete(&format!("/v1/profiles/{profile}")).await.expect(204);
    app.execute("update profiles set deleted_at = now() - interval '31 days' where id = $1", uuid_of(&profile)).await;

    let arms = [("byok", 1), ("proxy_secrets", 1), ("profiles", 1), ("snapshots", 2)];
    let mut holder = app.database.pool.acquire().await.expect("a connection");
    let statements =
        ["select from byok_keys for update", "select from proxies for update", "select from profiles for update"];
    let held = hold(&mut holder, &statements).await;
    sweep(&app).await;
    // The service's own sweep may run meanwhile and skip the rows again.
    for (arm, count) in arms {
        assert_eq!(purges(&app, arm, "purged").await, 0, "{arm}");
        assert!(purges(&app, arm, "skipped").await >= count, "{arm}");
    }
    held.rollback().await.expect("an end");
    drop(holder);
    sweep(&app).await;
    for (arm, count) in arms {
        assert_eq!((purges(&app, arm, "purged").await, purges(&app, arm, "failed").await), (count, 0), "{arm}");
    }
    app.stop().await;
}

/// Contract: retention 1, 15. Rows that were deleted before the failure are counted.
#[tokio::test]
async fn failed_purge_is_counted_and_blocks_no_other() {
    let app = scraped(App::simulated()).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    insert_expired_secrets(&app, account, 600).await;
    let profile = client.profile().await;
    client.post(&format!("/v1/profiles/{profile}/snapshots"), json!({})).await.expect(201);
    client.delete(&format!("/v1/profiles/{profile}")).await.expect(204);
    app.execute("update profiles set deleted_at = now() - interval '31 days' where id = $1", uuid_of(&profile)).await;
    let refuse = "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
                  create trigger refuse before delete on proxies for each row when (old.label = 'proxy 600')
                  execute function refuse();
                  create trigger refuse before delete on profiles for each row execute function refuse();";
    app.database.pool.execute(refuse).await.expect("triggers");
    sweep(&app).await;
    for (arm, purged, failed) in [("byok", 1, 0), ("proxy_secrets", BATCH, 1), ("profiles", 0, 1), ("snapshots", 0, 1)]
    {
        let counted = (purges(&app, arm, "purged").await, purges(&app, arm, "failed").await);
        assert_eq!(counted, (purged, failed), "{arm}");
    }
    let ran = app.run(&["sweep", "retention"]).await.code(1);
    assert!(ran.stderr.contains("purges failed"), "{ran:?}");
    app.stop().await;
}

/// Contract: retention 15; operators 5.
#[tokio::test]
async fn purged_rows_and_failures_are_counted() {
    let app = scraped(App::simulated()).start().await;
    let client = app.client().await;
    let session = client.session().await;
    for _ in 0..3 {
        client.get(&format!("/v1/sessions/{session}/state")).await.expect(200);
    }
    let rows = async |outcome: &str| {
        value(&app, &format!("service_rows_purge_total{{arm=\"operations\",outcome=\"{outcome}\"}}")).await
    };
    let aged = "update intents set done_at = now() - interval '8 days',
                       id = overlay(uuid_v7_of(now() - interval '8 days')::text placing right(id::text, 12) from 25)::uuid
                where kind = 'state_capture'";
    app.execute_all(aged).await;
    let refuse = "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
                  create trigger refuse before delete on intents for each row execute function refuse();";
    app.execute_all(refuse).await;
    sweep(&app).await;
    assert!(rows("purged").await < 0.5 && rows("failed").await > 0.5);
    app.execute_all("drop trigger refuse on intents").await;
    sweep(&app).await;
    assert_eq!(app.count("select count(*) from intents where kind = 'state_capture'").await, 0);
    assert!((rows("purged").await - 3.0).abs() < 0.5, "{}", rows("purged").await);
    app.stop().await;
}

struct LargeTable {
    table: &'static str,
    fill: &'static str,
    /// Updates rows that the purge deletes next.
    touch: &'static str,
    /// Inserts a row that is kept.
    insert: &'static str,
}

/// Asserts that other statements on the table wait for at most one batch of a purge, whatever the number of expired rows, and
/// that no batch exceeds its limit.
///
/// By default there are 10,000 rows and a limit of 500 ms. `KITFLEET_TEST_ROWS=1000000` uses a million rows and a limit of 50 ms,
/// which needs an idle machine and one test at a time (`-j1`). `KITFLEET_TEST_PATIENCE_MS` sets another limit.
async fn assert_purge_blocks_no_writer(grown: LargeTable, purge: impl AsyncFn(&App)) {
    let rows: i64 = given("KITFLEET_TEST_ROWS", 10_000);
    let patience = given("KITFLEET_TEST_PATIENCE_MS", if rows < 1_000_000 { 500 } else { 50 });
    let app = App::simulated().here().start().await;
    let client = app.client().await;
    let (ended, live) = (client.session().await, client.session().await);
    client.delete(&format!("/v1/sessions/{ended}")).await.expect(204);
    let mut filling = app.database.pool.begin().await.expect("a transaction");
    // Triggers and foreign keys would take minutes.
    filling.execute("set local session_replication_role = replica").await.expect("a setting");
    sqlx::query(grown.fill).bind(rows).execute(&mut *filling).await.expect("rows");
    filling.commit().await.expect("rows");
    // The planner needs the statistics that a table filled in use would have.
    app.execute_all(&format!("analyze {}", grown.table)).await;
    note_batches(&app, &[grown.table]).await;

    let over = Arc::new(AtomicBool::new(false));
    let asking =
        tokio::spawn(probe(app.database.pool.clone(), [grown.touch, grown.insert], patience, Arc::clone(&over)));
    let customer = tokio::spawn({
        let (client, over) = (client.clone(), Arc::clone(&over));
        async move {
            let mut delays = Delays::default();
            while !over.load(Ordering::Relaxed) {
                let tap = json!({"action": {"kind": "tap", "selector": "#button"}});
                delays.of(client.operate(&live, "interact", tap)).await.expect(200);
            }
            delays
        }
    });
    let started = Instant::now();
    purge(&app).await;
    let elapsed = started.elapsed();
    over.store(true, Ordering::Relaxed);
    let delays = customer.await.expect("no operation fails");
    let waits = asking.await.expect("no lock timeout");
    eprintln!("{}: {rows} rows in {elapsed:?}; other statements: {waits}; operations: {delays}", grown.table);
    assert!(waits.len() > 5, "only {} concurrent statements ran", waits.len());
    // Rows that the concurrent statements changed at the end of the first purge.
    purge(&app).await;
    assert_eq!(app.count("select max(rows) from batches").await, BATCH);
    assert_eq!(app.count("select sum(rows)::bigint from batches").await, rows);
    app.database.pool.execute("truncate events, webhook_deliveries").await.expect("a truncate");
    app.stop().await;
}

/// Contract: retention 5, 16.
#[tokio::test]
async fn large_purge_of_operations_blocks_no_writer() {
    let grown = LargeTable {
        table: "intents",
        fill: "insert into intents (id, session_id, worker_id, kind, status, request, reply_channel, request_id, done_at)
               select overlay(uuid_v7_of(now() - interval '8 days')::text placing lpad(to_hex(n), 12, '0') from 25)::uuid,
                      (select id from sessions where not live), uuid_v7(), 'wait', 'done', '{}', 'nobody', '', now() - interval '8 days'
               from generate_series(1, $1) n",
        touch: "update intents set request_id = 'seen'
                where id in (select id from intents where status = 'done' order by id limit 20)",
        insert: "insert into intents (id, session_id, worker_id, kind, status, request, reply_channel, request_id, done_at)
                 select uuid_v7(), id, worker_id, 'wait', 'done', '{}', 'nobody', '', now() from sessions where not live",
    };
    assert_purge_blocks_no_writer(grown, sweep_once).await;
}

/// Contract: retention 4, 16.
#[tokio::test]
async fn large_purge_of_events_blocks_no_writer() {
    let grown = LargeTable {
        table: "events",
        fill: "insert into events (id, account_id, type, data)
               select overlay(uuid_v7_of(now() - interval '31 days')::text placing lpad(to_hex(n), 12, '0') from 25)::uuid,
                      (select account_id from sessions limit 1), 'session.failed', '{}' from generate_series(1, $1) n",
        touch: "update events set type = type where id in (select id from events order by id limit 20)",
        insert: "insert into events (id, account_id, type, data)
                 select uuid_v7(), account_id, 'session.failed', '{}' from sessions where not live",
    };
    assert_purge_blocks_no_writer(grown, sweep_once).await;
}

/// Contract: retention 4, 16.
#[tokio::test]
async fn large_purge_of_deliveries_blocks_no_writer() {
    let grown = LargeTable {
        table: "webhook_deliveries",
        fill: "with endpoint as (
                   insert into webhook_endpoints (id, account_id, url, events, sealed_secret, secret_prefix)
                   select uuid_v7(), account_id, 'https://example.com', '{}', '', '' from sessions where not live returning id, account_id
               ), event as (
                   insert into events (id, account_id, type, data)
                   select uuid_v7(), account_id, 'session.failed', '{}' from endpoint returning id
               )
               insert into webhook_deliveries (id, account_id, endpoint_id, event_id, event_type, status, next_attempt_at, due)
               select overlay(uuid_v7_of(now() - interval '31 days')::text placing lpad(to_hex(n), 12, '0') from 25)::uuid,
                      endpoint.account_id, endpoint.id, event.id, 'session.failed', 'delivered', null, false
               from endpoint, event, generate_series(1, $1) n",
        touch: "update webhook_deliveries set updated_at = now()
                where id in (select id from webhook_deliveries order by id limit 20)",
        insert: "insert into webhook_deliveries (id, account_id, endpoint_id, event_id, event_type, status, next_attempt_at, due)
                 select uuid_v7(), v.account_id, v.id, e.id, 'session.failed', 'delivered', null, false
                 from webhook_endpoints v, (select id from events order by id limit 1) e",
    };
    assert_purge_blocks_no_writer(grown, sweep_once).await;
}

/// Contract: retention 5, 16.
#[tokio::test]
async fn large_purge_of_mails_blocks_no_writer() {
    let grown = LargeTable {
        table: "emails",
        fill: "insert into emails (id, template, account_id, status, expires_at, done_at)
               select uuid_v7(), 'api_key_minted', (select account_id from sessions limit 1), 'done', now(),
                      now() - interval '8 days' - n * interval '1 millisecond'
               from generate_series(1, $1) n",
        touch: "update emails set attempts = attempts + 1
                where id in (select id from emails where status = 'done' order by done_at limit 20)",
        insert: "insert into emails (id, template, account_id, status, expires_at, done_at)
                 select uuid_v7(), 'api_key_minted', account_id, 'done', now(), now() from sessions where not live",
    };
    assert_purge_blocks_no_writer(grown, sweep_once).await;
}

/// Contract: retention 6, 16.
#[tokio::test]
async fn large_purge_of_usage_counts_blocks_no_writer() {
    let grown = LargeTable {
        table: "usage_counts",
        fill: "insert into usage_counts (account_id, day, record, slot, count)
               select uuid_v7(), current_date - 402 - (n % 30)::integer, 'navigate', 0, 1 from generate_series(1, $1) n",
        touch: "update usage_counts set count = count + 1
                where ctid = any(array(select ctid from usage_counts where day < current_date - 401 order by day limit 20))",
        insert: "insert into usage_counts as u (account_id, day, record, slot, count)
                 select account_id, current_date, 'navigate', 0, 1 from sessions where not live
                 on conflict (account_id, day, record, slot) do update set count = u.count + 1",
    };
    assert_purge_blocks_no_writer(grown, sweep_once).await;
}

/// Contract: retention 12, 16.
#[tokio::test]
async fn large_purge_of_notifications_blocks_no_writer() {
    let grown = LargeTable {
        table: "notifications",
        fill: "insert into notifications (account_id, event, data, created_at)
               select (select account_id from sessions limit 1), 'session.ready', '{}', now() - interval '25 hours'
               from generate_series(1, $1) n",
        touch: "update notifications set event = event
                where place in (select place from notifications order by created_at limit 20)",
        insert: "insert into notifications (account_id, event, data)
                 select account_id, 'session.ready', '{}' from sessions where not live",
    };
    assert_purge_blocks_no_writer(grown, sweep_once).await;
}

/// Contract: retention 5, 16.
#[tokio::test]
async fn large_purge_of_jobs_blocks_no_writer() {
    let grown = LargeTable {
        table: "apalis.jobs",
        fill: "insert into apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority, done_at)
               select lpad(n::text, 26, '0'), 'emails', '{}', 'Done', 1, 1, to_timestamp(0), 0, now() - interval '8 days'
               from generate_series(1, $1) n",
        touch: "update apalis.jobs set priority = priority
                where id in (select id from apalis.jobs where id < '01' order by id limit 20)",
        insert: "insert into apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority, done_at)
                 select '7' || left(replace(gen_random_uuid()::text, '-', ''), 25), 'emails', '{}', 'Done', 1, 1, now(), 0, now()",
    };
    assert_purge_blocks_no_writer(grown, async |app| {
        // Makes the next run of the scheduled job due.
        let tick = "update apalis.jobs set run_at = now()
                    where status = 'Pending' and idempotency_key like 'purge_finished:%'";
        eventually(Duration::from_mins(20), "the jobs are deleted", async || {
            app.database.pool.execute(tick).await.expect("a statement");
            let left = "select count(*) from (select from apalis.jobs where id < '01' limit 1) left_over";
            (app.count(left).await == 0).then_some(())
        })
        .await;
    })
    .await;
}

async fn note_batches(app: &App, tables: &[&str]) {
    let notes = "create table batches (at timestamptz, of text, rows bigint);
                 create function note_batch() returns trigger language plpgsql as $$
                 begin insert into batches select clock_timestamp(), tg_table_name, count(*) from gone; return null; end $$;";
    app.database.pool.execute(notes).await.expect("a table");
    for table in tables {
        let trigger = format!(
            "create trigger note_batch after delete on {table} referencing old table as gone
             for each statement execute function note_batch()"
        );
        app.database.pool.execute(AssertSqlSafe(trigger)).await.expect("a trigger");
    }
}

/// Contract: retention 6, 10, 16. Recently ended sessions keep all of their rows.
#[tokio::test]
async fn session_with_many_child_rows_is_purged_in_batches() {
    let app = App::simulated().here().start().await;
    let client = app.client().await;
    let (old, recent) = (client.session().await, client.session().await);
    for session in [&old, &recent] {
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
        let fill = "with made as (
                        insert into intents (id, session_id, worker_id, kind, status, request, reply_channel, request_id, done_at)
                        select uuid_v7(), id, worker_id, 'wait', 'done', '{}', 'nobody', '', now()
                        from sessions, generate_series(1, 1200) where id = $1
                    )
                    insert into challenges (id, session_id, type, confidence, detail)
                    select uuid_v7(), $1, 'generic', 1, 'test' from generate_series(1, 700)";
        app.execute(fill, uuid_of(session)).await;
    }
    let aged = "update sessions set ended_at = now() - interval '91 days' where id = $1";
    app.execute(aged, uuid_of(&old)).await;
    for (session, age) in [(&old, 31), (&recent, 29)] {
        let fill = "with closed as (
                        insert into agent_sessions
                            (id, account_id, session_id, mode, status, close_reason, archetype, token_budget, destroyed_at)
                        select uuid_v7(), account_id, id, 'ai', 'closed', 'customer', archetype, 1, now() - make_interval(days => $2)
                        from sessions where id = $1 returning id, account_id
                    ), turns as (
                        insert into agent_turns (id, agent_session_id, worker_id, status, kind, sealed_said, reply_channel, request_id)
                        select uuid_v7(), id, uuid_v7(), 'done', 'plan', '', '', '' from closed, generate_series(1, 600)
                        returning id, agent_session_id
                    ), steps as (
                        insert into agent_steps (id, turn_id, agent_session_id, position, kind, operation_id, sealed_wish)
                        select uuid_v7(), id, agent_session_id, n, 'wait', uuid_v7(), '' from turns, generate_series(1, 3) n
                    )
                    insert into agent_message_receipts (account_id, key, session_id, fingerprint)
                    select account_id, n::text || $2, id, '' from closed, generate_series(1, 600) n";
        sqlx::query(fill).bind(uuid_of(session)).bind(age).execute(&app.database.pool).await.expect("an agent session");
    }
    let tables =
        ["intents", "challenges", "sessions", "agent_steps", "agent_turns", "agent_message_receipts", "agent_sessions"];
    note_batches(&app, &tables).await;
    sweep_once(&app).await;
    let batches: Vec<(String, i64, i64)> =
        sqlx::query_as("select of, sum(rows)::bigint, max(rows) from batches where rows > 0 group by of")
            .fetch_all(&app.database.pool)
            .await
            .expect("the deleted rows");
    for (table, rows) in tables.into_iter().zip([1_202, 700, 1, 1_800, 600, 600, 1]) {
        let (_, deleted, largest) = batches.iter().find(|(of, ..)| of == table).expect("a batch of this table");
        // The count includes the opening of the session and may include its end.
        assert!((*deleted - rows).abs() <= 1, "of {table} {deleted}");
        assert!(*largest <= BATCH, "of {table} {largest} at once");
    }
    for left in ["select count(*) from sessions", "select count(*) from agent_sessions"] {
        assert_eq!(app.count(left).await, 1, "{left}");
    }
    assert_eq!(app.count("select count(*) from agent_steps").await, 1_800);
    assert_eq!(app.count("select count(*) from challenges").await, 700);
    app.stop().await;
}

async fn sweep_once(app: &App) {
    let command = app.command(&["sweep", "retention"]);
    let mut command = tokio::process::Command::from(command);
    let status = command.stdout(std::process::Stdio::null()).status().await.expect("the binary starts");
    assert!(status.success(), "{status}");
}

/// Takes the lock timeout in milliseconds, and returns the durations.
async fn probe(db: sqlx::PgPool, statements: [&'static str; 2], patience: u32, over: Arc<AtomicBool>) -> Delays {
    let mut conn = db.acquire().await.expect("a connection");
    sqlx::query("select set_config('lock_timeout', $1, false)")
        .bind(patience.to_string())
        .execute(&mut *conn)
        .await
        .expect("a setting");
    let mut delays = Delays::default();
    while !over.load(Ordering::Relaxed) {
        for statement in statements {
            delays.of(sqlx::query(statement).execute(&mut *conn)).await.expect("a statement within the lock timeout");
        }
    }
    delays
}
