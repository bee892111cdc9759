//! Purging: what is counted of it, and who waits for it (contract: retention 1, 15, 16).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::ids::AccountId;
use serde_json::json;
use sqlx::{Connection as _, Executor as _, PgConnection, PgTransaction};

use crate::metrics::{scraped, value};
use crate::support::records::uuid_of;
use crate::support::{App, eventually, given};

/// Rows of a batch at most.
const BATCH: i64 = 500;

/// Has the service sweep now, and waits until it has: the chain's tick comes early, or the last one again.
async fn sweep(app: &App) {
    let tick = "update apalis.jobs set run_at = now(), status = 'Pending', attempts = 0, lock_at = null, lock_by = null, done_at = null
                where status in ('Pending', 'Done') and idempotency_key like 'sweep_retention:%'";
    eventually(Duration::from_mins(1), "the chain's tick is there", async || {
        let hurried = app.database.pool.execute(tick).await.expect("a statement");
        (hurried.rows_affected() > 0).then_some(())
    })
    .await;
    let due = "select count(*) from apalis.jobs
               where status <> 'Done' and run_at <= now() and idempotency_key like 'sweep_retention:%'";
    eventually(Duration::from_mins(1), "it is swept", async || (app.count(due).await == 0).then_some(())).await;
}

/// How often an arm came to an outcome.
async fn purges(app: &App, arm: &str, outcome: &str) -> i64 {
    let name = format!("service_retention_purge_total{{arm=\"{arm}\",outcome=\"{outcome}\"}}");
    #[expect(clippy::cast_possible_truncation, reason = "it counts")]
    let count = value(app, &name).await as i64;
    count
}

/// Keys, or proxies, of an account that was deleted two days ago, as they are left.
async fn leave_behind(app: &App, account: AccountId, proxies: i32) {
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

/// Contract: retention 15. What somebody has in hand is skipped, and is purged when they have let go of it; nothing waits for them.
#[tokio::test]
async fn what_somebody_has_in_hand_is_skipped() {
    let app = scraped(App::simulated()).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    leave_behind(&app, account, 1).await;
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
    for (arm, count) in arms {
        assert_eq!((purges(&app, arm, "purged").await, purges(&app, arm, "skipped").await), (0, count), "{arm}");
    }
    held.rollback().await.expect("an end");
    drop(holder);
    sweep(&app).await;
    for (arm, count) in arms {
        assert_eq!((purges(&app, arm, "purged").await, purges(&app, arm, "skipped").await), (count, count), "{arm}");
        assert_eq!(purges(&app, arm, "failed").await, 0, "{arm}");
    }
    app.stop().await;
}

/// Contract: retention 1, 15. What the database does not let go of has failed. It keeps nothing else from being purged, and what was
/// deleted before counts.
#[tokio::test]
async fn what_cannot_be_purged_is_counted_and_holds_up_nothing() {
    let app = scraped(App::simulated()).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    leave_behind(&app, account, 600).await;
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
    assert!(ran.stderr.contains("could not be purged"), "{ran:?}");
    app.stop().await;
}

/// Contract: retention 15; operators 5. The other rows that reach their terms are counted, and how often it fails.
#[tokio::test]
async fn rows_that_reach_their_terms_are_counted() {
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

/// Contract: retention 16. However many operations have reached their term, whoever works with that table waits for one batch of them
/// at most, and no batch is larger than it may be. `KITFLEET_TEST_ROWS=1000000` shows it of a million, and of 50 ms.
#[tokio::test]
async fn a_purge_of_very_many_rows_is_in_nobodys_way() {
    let rows: i64 = given("KITFLEET_TEST_ROWS", 10_000);
    let patience = if rows < 1_000_000 { 500 } else { 50 };
    let app = App::simulated().here().start().await;
    let client = app.client().await;
    let (ended, live) = (client.session().await, client.session().await);
    client.delete(&format!("/v1/sessions/{ended}")).await.expect(204);
    let insert = "insert into intents (id, session_id, worker_id, kind, status, request, reply_channel, request_id, done_at)
                  select overlay(uuid_v7_of(now() - interval '8 days')::text placing lpad(to_hex(n), 12, '0') from 25)::uuid,
                         $1, uuid_v7(), 'wait', 'done', '{}', 'nobody', '', now() - interval '8 days'
                  from generate_series(1, $2) n";
    sqlx::query(insert).bind(uuid_of(&ended)).bind(rows).execute(&app.database.pool).await.expect("operations");
    let watch = "create table batches (at timestamptz, rows bigint);
                 create function note_batch() returns trigger language plpgsql as $$
                 begin insert into batches select clock_timestamp(), count(*) from gone; return null; end $$;
                 create trigger note_batch after delete on intents referencing old table as gone
                 for each statement execute function note_batch();";
    app.database.pool.execute(watch).await.expect("a trigger");

    let over = Arc::new(AtomicBool::new(false));
    let asking = tokio::spawn(probe(app.database.pool.clone(), patience, Arc::clone(&over)));
    let customer = tokio::spawn({
        let (client, over) = (client.clone(), Arc::clone(&over));
        async move {
            let (mut slowest, mut operations) = (Duration::ZERO, 0_u32);
            while !over.load(Ordering::Relaxed) {
                let started = Instant::now();
                let tap = json!({"action": {"kind": "tap", "selector": "#button"}});
                client.operate(&live, "interact", tap).await.expect(200);
                (slowest, operations) = (slowest.max(started.elapsed()), operations + 1);
            }
            (slowest, operations)
        }
    });
    let started = Instant::now();
    sweep_once(&app).await;
    let took = started.elapsed();
    over.store(true, Ordering::Relaxed);
    let (slowest, operations) = customer.await.expect("no operation fails");
    let probes = asking.await.expect("nobody waits for longer than they may");
    eprintln!(
        "{rows} rows in {took:?}; {probes} rows were asked for; of {operations} operations the slowest took {slowest:?}"
    );
    assert!(probes > 5, "only {probes} rows were asked for");
    // Those that were asked for in the last moment.
    sweep_once(&app).await;
    assert_eq!(app.count("select max(rows) from batches").await, BATCH);
    assert_eq!(app.count("select sum(rows)::bigint from batches").await, rows);
    app.stop().await;
}

async fn sweep_once(app: &App) {
    let command = app.command(&["sweep", "retention"]);
    let mut command = tokio::process::Command::from(command);
    let status = command.stdout(std::process::Stdio::null()).status().await.expect("the binary starts");
    assert!(status.success(), "{status}");
}

/// Asks for rows that are about to be deleted, the oldest first as the purge does, and never waits for one longer than so many
/// milliseconds. Answers how often.
async fn probe(db: sqlx::PgPool, patience: u32, over: Arc<AtomicBool>) -> u32 {
    let mut conn = db.acquire().await.expect("a connection");
    sqlx::query("select set_config('lock_timeout', $1, false)")
        .bind(patience.to_string())
        .execute(&mut *conn)
        .await
        .expect("a setting");
    let mut probes = 0;
    while !over.load(Ordering::Relaxed) {
        let touch = "update intents set request_id = 'seen' where id in (select id from intents where status = 'done' order by id limit 20)";
        sqlx::query(touch).execute(&mut *conn).await.expect("the rows in time");
        probes += 1;
    }
    probes
}
