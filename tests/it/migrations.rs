//! Migrations of an empty database and of the schemas of earlier versions (contract: command-line 3).

use std::time::Duration;

use kitfleet_domain::database::MIGRATIONS;
use kitfleet_domain::passwords::NewPassword;
use kitfleet_types::limits::Limits;
use nix::sys::signal::Signal;
use serde_json::json;
use sqlx::Executor;
use uuid::Uuid;

use crate::packages::judge;
use crate::support::commands::run;
use crate::support::people::{PASSWORD, token_of};
use crate::support::{App, Client, Role, at_once, eventually};

/// Has sessions, workers and jobs.
const BEFORE_SIGN_INS: i64 = 20_261_120_000_004;

/// Has sign-ins and mails.
const BEFORE_TEAMS: i64 = 20_261_121_000_002;

/// Counted a worker's sessions when it placed one.
const BEFORE_SLOTS: i64 = 20_261_122_000_007;

const KEY: &str = "svc_live_6276f0e8496d9ea42537bca82c8b72d8d75c73365227d6f7b8f3d199e87e5ba6495e1410";

const INSERT_KEY: &str =
    "insert into api_keys (id, account_id, name, scopes, key_prefix, key_hash, created_by_account_id)
     values ($1, $2, 'CI', '{account_owner}', left($3, 12), sha256(convert_to($3, 'UTF8')), $2)";
const INSERT_AUDIT_ROW: &str = "insert into audit_log (id, account_id, actor_type, action, payload)
     values ($1, $2, 'system', 'api_key.minted', '{}')";

/// An empty database, with the service stopped.
async fn emptied(schemas: &str) -> App {
    let mut app = App::simulated().in_processes().start().await;
    app.signal(0, Signal::SIGTERM).await;
    let drop = format!("drop schema {schemas} cascade; create schema public");
    app.database.pool.execute(sqlx::AssertSqlSafe(drop)).await.expect("an empty database");
    app
}

/// A database with the schema of an earlier version, with the service stopped.
async fn at_version(version: i64) -> App {
    assert!(MIGRATIONS.iter().any(|migration| migration.version == version));
    let app = emptied("public").await;
    MIGRATIONS.run_to(version, &app.database.pool).await.expect("the earlier schema");
    app
}

/// Contract: command-line 3. One of the commands applies all migrations. The API does not start before.
#[tokio::test]
async fn concurrent_migrate_commands_fill_an_empty_database_once() {
    let mut app = emptied("public, apalis").await;
    app.run(&["api"]).await.code(1);
    let several = (0..4).map(|_| {
        let command = app.command(&["migrate"]);
        async move { run(command, "").await }
    });
    for migrated in at_once(several).await {
        migrated.code(0);
    }
    let applied = app.count("select count(*) from _sqlx_migrations where success").await;
    assert_eq!(usize::try_from(applied).expect("a count"), MIGRATIONS.iter().count());
    app.run(&["migrate"]).await.code(0);
    assert_eq!(app.count("select count(*) from _sqlx_migrations").await, applied);
    app.start(Role::Up);
    app.ready().await;
    app.client().await.session().await;
    app.stop().await;
}

/// Contract: command-line 3. The version runs on the schema.
#[tokio::test]
async fn migrate_on_a_newer_schema_changes_nothing() {
    let mut app = App::simulated().in_processes().start().await;
    let newer = "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
                 values (99990101000000, 'newer', true, '', 0)";
    app.execute_all(newer).await;
    let told = app.run(&["migrate"]).await.code(0).stdout;
    assert!(told.contains("newer than this version"), "{told}");
    assert_eq!(app.run(&["migrate", "--json"]).await.code(0).json()["newer"], true);
    assert!(app.run(&["doctor"]).await.stdout.contains("the schema is newer"));
    app.signal(0, Signal::SIGTERM).await;
    app.start(Role::Up);
    app.ready().await;
    app.client().await.session().await;
    app.stop().await;
}

/// Contract: command-line 10. It names a remedy.
#[tokio::test]
async fn doctor_reports_failed_and_changed_migrations() {
    let app = App::simulated().start().await;
    let migrations = async || {
        let ran = app.run(&["doctor", "--json"]).await;
        let checks = ran.json();
        let checks = checks.as_array().expect("checks").iter().filter(|check| check["subject"] == "migrations");
        checks.cloned().collect::<Vec<_>>()
    };
    let found = migrations().await;
    assert_eq!((found.len(), &found[0]["status"]), (1, &json!("ok")), "{found:?}");
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max().expect("migrations");
    for (damage, repair, version, finding, action) in [
        ("success = false", "success = true", BEFORE_SLOTS, "failed", "delete from _sqlx_migrations where version = "),
        ("success = false", "success = true", newest, "failed", "delete from _sqlx_migrations where version = "),
        (
            "checksum = set_byte(checksum, 0, 255 - get_byte(checksum, 0))",
            "checksum = set_byte(checksum, 0, 255 - get_byte(checksum, 0))",
            BEFORE_TEAMS,
            "differs from the one that was applied",
            "restore the migration's file",
        ),
    ] {
        app.execute_all(&format!("update _sqlx_migrations set {damage} where version = {version}")).await;
        app.run(&["doctor"]).await.code(1);
        let found = migrations().await;
        assert_eq!((found.len(), &found[0]["status"]), (1, &json!("fail")), "{found:?}");
        let text = |member: &str| found[0][member].as_str().expect("a text");
        assert!(text("finding").contains(&version.to_string()) && text("finding").contains(finding), "{found:?}");
        assert!(text("mend").contains(action) && text("mend").contains("kitfleet migrate"), "{found:?}");
        app.run(&["migrate"]).await.code(1);
        app.execute_all(&format!("update _sqlx_migrations set {repair} where version = {version}")).await;
    }
    assert_eq!(migrations().await[0]["status"], "ok");
    app.stop().await;
}

/// Contract: command-line 3; sign-ins 3. Addresses are compared without regard to case.
#[tokio::test]
async fn database_without_sign_ins_migrates() {
    let mut app = at_version(BEFORE_SIGN_INS).await;
    let [account, gone, key, worker, session, row] = std::array::from_fn(|_| Uuid::now_v7());
    let hash = NewPassword::parse(PASSWORD, "password", &Limits::default()).expect("a sound password").hash();
    let statements = [
        sqlx::query(
            "insert into accounts (id, email, name, status, tier, password_hash, email_verified_at)
             values ($1, 'Ada.Lovelace@Example.COM', 'Ada', 'active', 'api_starter', $2, now())",
        )
        .bind(account)
        .bind(hash),
        sqlx::query(
            "insert into accounts (id, email, name, status) values ($1, 'ADA.LOVELACE@example.com', 'A', 'deleted')",
        )
        .bind(gone),
        sqlx::query(INSERT_KEY).bind(key).bind(account).bind(KEY),
        sqlx::query(
            "insert into workers (id, name, status, driver, max_sessions, public_key)
             values ($1, 'before', 'stopped', 'simulated', 1, '')",
        )
        .bind(worker),
        sqlx::query(
            "insert into sessions
                (id, account_id, api_key_id, worker_id, status, archetype, purpose, behavioral_profile, destroyed_at)
             values ($1, $2, $3, $4, 'destroyed', 'iphone-16-ios-18', 'production_customer', 'regular', now())",
        )
        .bind(session)
        .bind(account)
        .bind(key)
        .bind(worker),
        sqlx::query(INSERT_AUDIT_ROW).bind(row).bind(account),
    ];
    for statement in statements {
        statement.execute(&app.database.pool).await.expect("a row of the earlier version");
    }

    app.run(&["api"]).await.code(1);
    app.run(&["migrate"]).await.code(0);
    app.start(Role::Up);
    app.ready().await;
    let keys: Vec<String> = sqlx::query_scalar("select email_key from accounts order by id")
        .fetch_all(&app.database.pool)
        .await
        .expect("the accounts");
    assert_eq!(keys, ["ada.lovelace@example.com"; 2]);

    let program = Client::new(&app.base_url, Some(KEY));
    let me = program.get("/v1/account/me").await.expect(200).body;
    assert_eq!((&me["id"], &me["email"]), (&json!(format!("acc_{account}")), &json!("Ada.Lovelace@Example.COM")));
    let shown = program.get(&format!("/v1/sessions/ses_{session}")).await.expect(200).body;
    assert_eq!((&shown["status"], &shown["api_key_id"]), (&json!("destroyed"), &json!(format!("key_{key}"))));
    let listed = program.get("/v1/api-keys").await.expect(200).body;
    assert_eq!((&listed["data"][0]["name"], &listed["data"][0]["key_prefix"]), (&json!("CI"), &json!(KEY[..12])));
    program.session().await;
    for spelling in ["Ada.Lovelace@Example.COM", "ada.lovelace@example.com", "ADA.LOVELACE@EXAMPLE.COM"] {
        let result = app.log_in(spelling, PASSWORD).await.expect(200);
        let person = Client::new(&app.base_url, Some(token_of(&result)));
        assert_eq!(person.get("/v1/account/me").await.expect(200).body, me);
    }
    let again = json!({"email": "aDa.lovelace@example.com", "password": PASSWORD, "name": "Ada"});
    app.stranger().post("/v1/auth/signup", again).await.problem(409, "conflict");
    // The migrated key behaves like any other key: it is rejected on the free tier and can be rotated.
    let rotated = program.post(&format!("/v1/api-keys/key_{key}/rotate"), json!({})).await.expect(201);
    assert_eq!(rotated.body["rotated_from"], format!("key_{key}"));
    app.run(&["account", "set-tier", &format!("acc_{account}"), "free"]).await.code(0);
    program.get("/v1/account/me").await.problem(403, "forbidden");
    assert_eq!(app.count("select count(*) from audit_log where payload = '{}'").await, 1);
    app.stop().await;
}

/// Contract: command-line 3; teams 1. Each account receives a team. Live sessions are counted as usage.
#[tokio::test]
async fn database_without_teams_migrates() {
    let mut app = at_version(BEFORE_TEAMS).await;
    let [ada, bob, key, worker, session, row] = std::array::from_fn(|_| Uuid::now_v7());
    let account = "insert into accounts (id, email, email_key, name, tier, email_verified_at)
                   values ($1, $2, $2, $3, 'enterprise', now() - interval '1 year')";
    let statements = [
        sqlx::query(account).bind(ada).bind("ada@example.com").bind("Ada"),
        sqlx::query(account).bind(bob).bind("bob@example.com").bind("Bob"),
        sqlx::query(INSERT_KEY).bind(key).bind(ada).bind(KEY),
        sqlx::query(
            "insert into workers (id, name, driver, max_sessions, public_key, last_seen_at)
             values ($1, 'before', 'simulated', 1, '', now() - interval '1 minute')",
        )
        .bind(worker),
        sqlx::query(
            "insert into sessions (id, account_id, api_key_id, worker_id, status, archetype, purpose, behavioral_profile)
             values ($1, $2, $3, $4, 'ready', 'iphone-16-ios-18', 'production_customer', 'regular')",
        )
        .bind(session)
        .bind(ada)
        .bind(key)
        .bind(worker),
        sqlx::query(INSERT_AUDIT_ROW).bind(row).bind(ada),
    ];
    for statement in statements {
        statement.execute(&app.database.pool).await.expect("a row of the earlier version");
    }

    app.run(&["migrate"]).await.code(0);
    app.start(Role::Up);
    app.ready().await;
    let program = Client::new(&app.base_url, Some(KEY));
    let teams = program.get("/v1/teams").await.expect(200).body["data"].clone();
    assert_eq!(teams.as_array().map(Vec::len), Some(1), "{teams}");
    assert_eq!((&teams[0]["name"], &teams[0]["owner_account_id"]), (&json!("Ada"), &json!(format!("acc_{ada}"))));
    assert_eq!(app.count("select count(distinct id) from teams").await, 2);
    let log = program.get("/v1/account/audit-log?action=api_key.minted").await.expect(200).body["data"].clone();
    assert_eq!(log[0]["id"], json!(row));

    // The browser ended with its worker, which the next operation reports. The begun minute of use is counted.
    let tap = json!({"action": {"kind": "tap", "selector": "#button"}});
    // The worker is not marked as lost before the service has waited for its heartbeat long enough.
    let answer = eventually(Duration::from_mins(1), "the worker is marked as lost", async || {
        let answer = program.operate(&format!("ses_{session}"), "interact", tap.clone()).await;
        (answer.status != 503).then_some(answer)
    });
    answer.await.problem(502, "driver-error");
    assert_eq!(app.count("select sum(count)::bigint from usage_counts where record = 'session_minute'").await, 1);
    app.stop().await;
}

/// Contract: command-line 3; workers 17. A worker that is active during the upgrade receives slots.
#[tokio::test]
async fn database_without_slots_migrates() {
    let app = at_version(BEFORE_SLOTS).await;
    let [account, alive, gone] = std::array::from_fn(|_| Uuid::now_v7());
    let insert = |statement: &'static str| sqlx::query(statement);
    let worker = "insert into workers (id, name, status, driver, max_sessions, public_key) values ($1, 'w', $2, 'simulated', 5, '')";
    let session = "insert into sessions
                       (id, account_id, worker_id, status, operation_id, archetype, purpose, behavioral_profile)
                   select gen_random_uuid(), $1, $2, status, case when status = 'busy' then gen_random_uuid() end,
                          'iphone-16-ios-18', 'production_customer', 'regular'
                   from unnest(array['ready', 'busy', 'destroyed', 'ready', 'errored']) status";
    let statements = [
        insert("insert into accounts (id, email, email_key, name, tier) values ($1, 'a@example.com', 'a@example.com', 'Ada', 'enterprise')")
            .bind(account),
        insert(worker).bind(alive).bind("active"),
        insert(worker).bind(gone).bind("lost"),
        insert(session).bind(account).bind(alive),
        insert(session).bind(account).bind(gone),
    ];
    for statement in statements {
        statement.execute(&app.database.pool).await.expect("a row of the earlier version");
    }
    app.run(&["migrate"]).await.code(0);
    let slots: Vec<(Uuid, i32, bool)> = sqlx::query_as(
        "select l.worker_id, l.number, coalesce(s.status in ('ready', 'busy'), false) from worker_slots l left join sessions s on s.id = l.session_id
         where s.id is null or s.worker_id = l.worker_id order by l.number",
    )
    .fetch_all(&app.database.pool)
    .await
    .expect("the slots");
    assert_eq!(slots, [(alive, 1, false), (alive, 2, false), (alive, 3, true), (alive, 4, true), (alive, 5, true)]);
    app.stop().await;
}

/// Older migrations may lock tables, because no deployment had much data.
const BEFORE_RELEASES: i64 = 20_261_123_000_115;

/// Whether Squawk accepts the migrations, and its report. Each runs in a transaction while the previous version serves
/// requests.
fn check_locks(is_checked: impl Fn(i64) -> bool) -> (bool, String) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
    let files = std::fs::read_dir(folder).expect("the migrations").map(|file| file.expect("a file").path());
    let version = |file: &std::path::Path| file.file_name()?.to_str()?.split('_').next()?.parse().ok();
    let mut judge = judge("squawk");
    judge.args(["--reporter", "gcc", "--assume-in-transaction", "--pg-version", "14"]);
    // Timeouts of locks and the size of integers are not part of this check.
    judge.args([
        "--exclude",
        "require-statement-timeout,require-lock-timeout,prefer-bigint-over-int,prefer-bigint-over-smallint",
    ]);
    judge.args(files.filter(|file| version(file).is_some_and(&is_checked)));
    let judged = judge.output().expect("Squawk runs");
    (judged.status.success(), String::from_utf8_lossy(&judged.stdout).into_owned())
}

/// Contract: command-line 3. None reads or rewrites a table while it blocks writes to it.
#[test]
fn migrations_hold_no_long_locks() {
    let (accepted, told) = check_locks(|version| version > BEFORE_RELEASES);
    assert!(accepted, "{told}");
    let (accepted, told) = check_locks(|version| version <= BEFORE_RELEASES);
    assert!(
        !accepted && told.contains("require-concurrent-index-creation"),
        "Squawk does not report an old migration that locks: {told}"
    );
}
