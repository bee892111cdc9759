//! Retention of data (contract: retention).

use std::collections::BTreeSet;
use std::time::Duration;

use kitfleet_domain::areas::{self, PurgeGroup};
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use serde_json::json;
use sqlx::Executor as _;
use uuid::Uuid;

use crate::support::records::uuid_of;
use crate::support::{App, eventually};

/// Tables that belong to no area, and the reason that no purge by age exists for them.
const LIBRARY_TABLES: [(&str, &str); 4] = [
    ("_sqlx_migrations", "one row per migration"),
    ("apalis._sqlx_migrations", "one row per migration"),
    ("apalis.jobs", "purged with the jobs that are finished"),
    ("apalis.workers", "purged with the jobs that are finished"),
];

/// Contract: retention 1.
#[tokio::test]
async fn every_table_has_a_retention_period_or_a_reason() {
    let app = App::simulated().start().await;
    let tables: Vec<String> = sqlx::query_scalar(
        "select case table_schema when 'public' then '' else table_schema || '.' end || table_name
         from information_schema.tables
         where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')",
    )
    .fetch_all(&app.database.pool)
    .await
    .expect("the tables");
    let tables: BTreeSet<_> = tables.iter().map(String::as_str).collect();
    let purged: BTreeSet<_> = areas::arms().iter().flat_map(PurgeGroup::tables).collect();
    let kept: BTreeSet<_> = areas::kept().chain(LIBRARY_TABLES).map(|(table, _)| table).collect();
    assert_eq!(
        tables.difference(&(&purged | &kept)).collect::<Vec<_>>(),
        <[&&str; 0]>::default(),
        "tables without a retention period or a reason"
    );
    assert_eq!(
        (&purged | &kept).difference(&tables).collect::<Vec<_>>(),
        <[&&str; 0]>::default(),
        "tables that do not exist"
    );
    assert_eq!(
        purged.intersection(&kept).collect::<Vec<_>>(),
        <[&&str; 0]>::default(),
        "tables with a retention period and a reason"
    );
    app.stop().await;
}

/// Contract: retention 5, 6; command-line 9.
#[tokio::test]
async fn sessions_and_workers_are_purged_after_their_end() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let (live, recent, old, orphan) =
        (client.session().await, client.session().await, client.session().await, client.session().await);
    for session in [&recent, &old, &orphan] {
        client.navigate(session, "https://example.com/").await;
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    let aged = "update sessions set ended_at = now() - interval '90 days 1 second' where id = $1";
    app.execute(aged, uuid_of(&old)).await;
    // A live session with an old `ended_at`.
    app.execute(aged, uuid_of(&live)).await;
    app.execute("update sessions set ended_at = now() - interval '89 days' where id = $1", uuid_of(&recent)).await;
    let [gone, kept] = [Uuid::now_v7(), Uuid::now_v7()];
    for (worker, age) in [(gone, 8), (kept, 6)] {
        sqlx::query(
            "insert into workers (id, name, driver, max_sessions, public_key, status, last_seen_at)
             values ($1, 'before', 'simulated', 1, '', 'stopped', now() - make_interval(days => $2))",
        )
        .bind(worker)
        .bind(age)
        .execute(&app.database.pool)
        .await
        .expect("a worker");
    }
    sqlx::query("update sessions set worker_id = $2 where id = $1")
        .bind(uuid_of(&orphan))
        .bind(gone)
        .execute(&app.database.pool)
        .await
        .expect("its worker");

    app.run(&["sweep", "retention"]).await.code(0);
    client.get(&format!("/v1/sessions/{old}")).await.problem(404, "not-found");
    assert!(app.intents(&old).await.is_empty());
    assert_eq!(client.status(&live).await, "ready");
    assert_eq!((client.status(&recent).await, app.intents(&recent).await.len()), ("destroyed".to_owned(), 2));
    let workers = "select count(*) from workers where name = 'before'";
    assert_eq!(app.count(workers).await, 1);
    // An operation on a session whose worker was deleted receives the same error as on any ended session.
    let secret = json!({"action": {"kind": "type", "selector": "#q", "text": "secret", "sensitive": true}});
    for session in [&orphan, &recent] {
        client.operate(session, "interact", secret.clone()).await.problem(410, "session-destroyed");
    }
    client.operate(&live, "interact", secret).await.expect(200);
    app.stop().await;
}

/// Contract: retention 6. Deleted and accepted resources too, and none before its retention period.
#[tokio::test]
async fn revoked_resources_and_usage_counts_are_purged() {
    let app = App::simulated().start().await;
    let (account, _) = app.customer(Tier::Enterprise).await;
    let count = async |table: &str| {
        let count = format!("select count(*) from {table}");
        sqlx::query_scalar::<_, i64>(sqlx::AssertSqlSafe(count)).fetch_one(&app.database.pool).await.expect("a count")
    };
    for (age, days) in [("89 days", 399), ("91 days", 401)] {
        let statements = [
            "insert into webhook_endpoints (id, account_id, url, events, sealed_secret, secret_prefix, disabled_at, deleted_at)
             values (gen_random_uuid(), $1, 'https://example.com', '{}', '', '', now(), now() - $2::text::interval)",
            "insert into oauth_clients (id, account_id, name, scopes, secret_hash, revoked_at)
             values (gen_random_uuid(), $1, 'old', '{}', '', now() - $2::text::interval)",
            "insert into team_invites
                 (id, owner_account_id, invitee_email, invitee_email_key, role, invited_by_account_id, expires_at, accepted_at)
             values (gen_random_uuid(), $1, 'a@example.com', 'a@example.com', 'member', $1, now(), now() - $2::text::interval)",
        ];
        for statement in statements {
            sqlx::query(statement).bind(account.as_uuid()).bind(age).execute(&app.database.pool).await.expect("a row");
        }
        count_usage(&app, account, days).await;
    }
    let tables = ["webhook_endpoints", "oauth_clients", "team_invites", "usage_counts"];
    app.run(&["sweep", "retention"]).await.code(0);
    for table in tables {
        assert_eq!(count(table).await, 1, "{table}");
    }
    assert_eq!(app.count("select count(*) from usage_counts where day > now() - interval '400 days'").await, 1);
    app.stop().await;
}

async fn count_usage(app: &App, account: AccountId, days_ago: i32) {
    sqlx::query(
        "insert into usage_counts (account_id, day, record, slot, count)
         values ($1, (now() at time zone 'utc')::date - $2, 'navigate', 0, 1)",
    )
    .bind(account.as_uuid())
    .bind(days_ago)
    .execute(&app.database.pool)
    .await
    .expect("a count");
}

/// Contract: retention 5. Earlier operations without a result make no difference.
#[tokio::test]
async fn any_number_of_results_is_deleted() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let many = "insert into intents
                    (id, session_id, worker_id, kind, status, request, outcome, result, reply_channel, request_id, done_at)
                select uuid_v7(), $1, uuid_v7(), 'wait', 'done', '{}', case when n % 2 = 0 then '{\"ended\": \"done\"}'::jsonb end,
                       case when n % 2 = 0 then '{}'::json end,
                       'nobody', '', now() - case when n % 2 = 0 then interval '1 hour' else interval '2 days' end
                from generate_series(1, 20000) n";
    app.execute(many, uuid_of(&session)).await;
    app.database.pool.execute("analyze intents").await.expect("statistics");
    let plan: Vec<String> = sqlx::query_scalar(
        "explain select id from intents where outcome is not null and done_at < now() - interval '10 minutes'
         order by done_at limit 500",
    )
    .fetch_all(&app.database.pool)
    .await
    .expect("a plan");
    assert!(plan.iter().any(|line| line.contains("intents_result_idx")), "{plan:?}");

    // Makes the next run of the scheduled job due.
    let tick = "update apalis.jobs set run_at = now()
                where status = 'Pending' and idempotency_key like 'purge_finished:%'";
    eventually(Duration::from_mins(1), "the next run is pending", async || {
        let hurried = app.database.pool.execute(tick).await.expect("a statement");
        (hurried.rows_affected() > 0).then_some(())
    })
    .await;
    eventually(Duration::from_secs(90), "all results are deleted", async || {
        let left = "select count(*) from intents where kind = 'wait' and (outcome is not null or result is not null)";
        (app.count(left).await == 0).then_some(())
    })
    .await;
    assert_eq!(app.count("select count(*) from intents where kind = 'wait'").await, 20_000);
    app.stop().await;
}
