//! Connection pool, classification of database errors, migrations, and secrets that replicas share.

use std::cmp::Ordering;
use std::future::ready;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kitfleet_types::log_throttle::LogThrottle;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, PgTransaction};

use crate::area::{Area, Bound};
use crate::vault::Vault;

pub(crate) const AREA: Area = Area {
    kept: &[("server_secrets", "a few")],
    bounds: &[("server_secrets", Bound::Operator("a fixed number"))],
    ..Area::named("database")
};

/// `kitfleet-jobs` first runs the migrations of apalis. Migrations that only a newer version knows are ignored, because
/// a process of this version may start during the rollout of that version or after its rollback.
pub static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrations = sqlx::migrate!("../migrations");
    migrations.set_ignore_missing(true);
    migrations
});

/// A connection that was idle for less counts as alive without a check.
const MAX_IDLE_WITHOUT_CHECK: Duration = Duration::from_secs(1);

const RETRY: Duration = Duration::from_millis(200);

/// The server ends an idle transaction, which would keep rows locked and old row versions alive, after 60 s, and
/// detects a lost client after about a minute. JIT compilation is off: statements are short, and compiling one takes
/// longer than running it while it holds locks.
const SESSION: [(&str, &str); 5] = [
    ("jit", "off"),
    ("idle_in_transaction_session_timeout", "60s"),
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
];

/// A request that gets no connection within 5 s fails.
///
/// Code that can be cancelled must begin a transaction with [`begin`].
pub async fn connect(options: PgConnectOptions, size: u32) -> sqlx::Result<PgPool> {
    pool_options(size).connect_with(watched(options)).await
}

/// The server ends idle transactions and detects lost clients.
#[must_use]
pub fn watched(options: PgConnectOptions) -> PgConnectOptions {
    options.options(SESSION)
}

/// Begins a transaction, safely even if the caller is cancelled.
///
/// When the pool's own `begin` is cancelled midway, it returns a connection with an open transaction to the pool, and
/// the next user's commit has no effect. Here a separate task completes and rolls back an abandoned transaction. The
/// API runs each handler in a separate task, so handlers do not need this function.
pub async fn begin(db: &PgPool) -> sqlx::Result<PgTransaction<'static>> {
    let db = db.clone();
    let begun = tokio::spawn(async move { db.begin().await });
    // The task is never aborted, so it fails only by a panic or at the end of the runtime.
    begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
}

/// The database is down, full, busy or in recovery, another transaction conflicted, or all connections of the pool are
/// in use. No other error is worth a retry.
#[must_use]
pub fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            // Classes 08, 28 and 3D: connection errors; 40: rollbacks; 53: insufficient resources; 55: objects in use;
            // 57: operator intervention; 58: system errors. Codes: 25006, the server became read-only; 25P03, the
            // server ended an idle transaction.
            ["08", "28", "3D", "40", "53", "55", "57", "58"].iter().any(|class| code.starts_with(class))
                || ["25006", "25P03"].contains(&&*code)
        }),
        _ => false,
    }
}

/// Stops at an error that is not transient. `what` names the action in log lines.
pub async fn persist<T, F>(what: &str, attempt: impl Fn() -> F) -> sqlx::Result<T>
where
    F: Future<Output = sqlx::Result<T>>,
{
    let failed = LogThrottle::new();
    loop {
        match attempt().await {
            Err(error) if is_transient(&error) => {
                failed.log(|held_back| tracing::warn!(%error, held_back, "cannot {what}: trying again"));
                tokio::time::sleep(RETRY).await;
            }
            ended => return ended,
        }
    }
}

#[must_use]
pub fn pool_options(size: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(Duration::from_secs(5))
        // A connection that was in use a moment ago is not checked: the check would cost a round trip for every
        // request.
        .test_before_acquire(false)
        .before_acquire(|conn, meta| {
            Box::pin(async move {
                if meta.idle_for > MAX_IDLE_WITHOUT_CHECK {
                    conn.ping().await?;
                }
                Ok(true)
            })
        })
        // Without this, a connection keeps a buffer of the size of its largest row.
        .after_release(|conn, _| {
            conn.shrink_buffers();
            Box::pin(ready(Ok(true)))
        })
}

pub async fn migrate(conn: &mut PgConnection) -> Result<(), MigrateError> {
    MIGRATIONS.run_direct(None, conn, false).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchemaState {
    Older,
    Current,
    /// The database has migrations that this program does not know.
    Newer,
}

pub async fn schema(conn: &mut PgConnection) -> sqlx::Result<SchemaState> {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max();
    let applied: Option<i64> =
        sqlx::query_scalar("select max(version) from _sqlx_migrations where success").fetch_one(conn).await?;
    Ok(match applied.cmp(&newest) {
        Ordering::Less => SchemaState::Older,
        Ordering::Equal => SchemaState::Current,
        Ordering::Greater => SchemaState::Newer,
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationFault {
    pub version: i64,
    pub description: String,
    pub kind: MigrationFaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationFaultKind {
    Failed,
    /// The text of the migration differs from that of this program.
    Changed,
}

/// Finds applied migrations that failed or whose text differs from that of this program.
pub async fn migration_faults(conn: &mut PgConnection) -> sqlx::Result<Vec<MigrationFault>> {
    let select = "select version, description, success, checksum from _sqlx_migrations order by version";
    let applied: Vec<(i64, String, bool, Vec<u8>)> = sqlx::query_as(select).fetch_all(conn).await?;
    let fault = |(version, description, has_succeeded, checksum): (i64, String, bool, Vec<u8>)| {
        let known = MIGRATIONS.iter().find(|migration| migration.version == version);
        let kind = if !has_succeeded {
            MigrationFaultKind::Failed
        } else if known.is_some_and(|migration| *migration.checksum != checksum) {
            MigrationFaultKind::Changed
        } else {
            return None;
        };
        Some(MigrationFault { version, description, kind })
    };
    Ok(applied.into_iter().filter_map(fault).collect())
}

/// Returns the seconds by which the clock of this process is ahead of the database's.
pub async fn clock_skew(conn: &mut PgConnection) -> sqlx::Result<f64> {
    let database_time: f64 =
        sqlx::query_scalar("select extract(epoch from clock_timestamp())::float8").fetch_one(conn).await?;
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() - database_time)
}

pub async fn server_secret(conn: &mut PgConnection, name: &str) -> sqlx::Result<Vec<u8>> {
    let mut tx = conn.begin().await?;
    sqlx::query!(
        "insert into server_secrets (name, value) values ($1, $2) on conflict do nothing",
        name,
        rand::random::<[u8; 32]>().to_vec(),
    )
    .execute(&mut *tx)
    .await?;
    let value =
        sqlx::query_scalar!("select value from server_secrets where name = $1", name).fetch_one(&mut *tx).await?;
    tx.commit().await?;
    Ok(value)
}

pub async fn find_server_secret(conn: &mut PgConnection, name: &str) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar!("select value from server_secrets where name = $1", name).fetch_optional(conn).await
}

pub async fn add_server_secret(conn: &mut PgConnection, name: &str, value: &[u8]) -> sqlx::Result<()> {
    sqlx::query!("insert into server_secrets (name, value) values ($1, $2) on conflict do nothing", name, value)
        .execute(conn)
        .await?;
    Ok(())
}

pub async fn replace_server_secret(conn: &mut PgConnection, name: &str, value: &[u8]) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into server_secrets (name, value) values ($1, $2)
         on conflict (name) do update set value = excluded.value",
        name,
        value,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns the vault for this purpose. It uses the deployment's keys if there are any, and otherwise a key that the
/// processes share through the database, so that no configuration is required. Secrets sealed with the shared key can
/// still be opened after the deployment gets its own keys.
pub async fn vault(conn: &mut PgConnection, purpose: &str, configured: Option<&Vault>) -> sqlx::Result<Vault> {
    let shared = server_secret(conn, purpose).await?;
    let shared = shared.try_into().map_err(|_| sqlx::Error::Decode("a server secret has 32 bytes".into()))?;
    Ok(match configured {
        Some(configured) => configured.clone().with_retired_key(shared),
        None => Vault::new(shared, &[]),
    })
}
