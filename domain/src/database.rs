//! The connection pool, what may pass of its errors, migrations, and secrets that replicas share.

use std::cmp::Ordering;
use std::future::ready;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, PgTransaction};

use crate::area::{Area, Bound};
use crate::log_throttle::LogThrottle;
use crate::vault::Vault;

pub(crate) const AREA: Area = Area {
    kept: &[("server_secrets", "a few")],
    bounds: &[("server_secrets", Bound::Operator("a fixed number"))],
    ..Area::named("database")
};

/// Migrations of this project. apalis has its own, which `kitfleet-jobs` runs first. Those that only a newer version knows are ignored: a
/// process of this version may start while that one is rolled out, and after it was rolled back.
pub static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrations = sqlx::migrate!("../migrations");
    migrations.set_ignore_missing(true);
    migrations
});

/// How long a connection may be idle and still be taken for one that stands.
const TRUSTED_FOR: Duration = Duration::from_secs(1);

/// How long to wait before something is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// What the server holds against a connection of ours. A transaction that nobody goes on with keeps rows locked and old
/// versions alive, and a peer that is gone without a word keeps its transaction: both end after about a minute. Statements
/// are short, so that compiling one takes longer than it does, while it has its locks.
const SESSION: [(&str, &str); 5] = [
    ("jit", "off"),
    ("idle_in_transaction_session_timeout", "60s"),
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
];

/// A pool of `size` connections. When none is free within five seconds a request fails instead of queueing for ever.
///
/// Whoever may be cancelled begins a transaction with [`begin`].
///
/// # Errors
/// When the database cannot be reached.
pub async fn connect(options: PgConnectOptions, size: u32) -> sqlx::Result<PgPool> {
    pool_options(size).connect_with(watched(options)).await
}

/// A way to connect by which the server ends what nobody goes on with, and peers that are gone without a word.
#[must_use]
pub fn watched(options: PgConnectOptions) -> PgConnectOptions {
    options.options(SESSION)
}

/// Begins a transaction, also for somebody who may be cancelled meanwhile.
///
/// The pool's own `begin` that is cancelled midway returns a connection with an open transaction to the pool, where the next
/// user's commit would not be one. It runs in a task here, which goes on, and rolls back what nobody waits for any more. The
/// API runs each of its handlers in a task, so that these need not.
///
/// # Errors
/// When the database fails.
pub async fn begin(db: &PgPool) -> sqlx::Result<PgTransaction<'static>> {
    let db = db.clone();
    let begun = tokio::spawn(async move { db.begin().await });
    // Nobody aborts it, so that all that can have happened is a panic, or the end of the runtime.
    begun.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
}

/// Whether the same statement may well succeed later: the database is down, full, busy or in recovery, somebody else was
/// faster, or every connection of the pool is taken. Nothing else is worth to be tried again.
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
            // Connections that break or are refused, rolled back transactions, insufficient resources, objects in use,
            // operator intervention, system errors; a server that became read-only; and a transaction that was given up.
            ["08", "28", "3D", "40", "53", "55", "57", "58"].iter().any(|class| code.starts_with(class))
                || ["25006", "25P03"].contains(&&*code)
        }),
        _ => false,
    }
}

/// Tries until it is done, as long as what stands in the way may pass. `what` says in a log what cannot be done meanwhile.
///
/// # Errors
/// When the database refuses it: it would do so again and again.
pub async fn persist<T, F>(what: &str, attempt: impl Fn() -> F) -> sqlx::Result<T>
where
    F: Future<Output = sqlx::Result<T>>,
{
    let failed = LogThrottle::new();
    loop {
        match attempt().await {
            Err(error) if is_transient(&error) => {
                failed.say(|held_back| tracing::warn!(%error, held_back, "cannot {what}: trying again"));
                tokio::time::sleep(RETRY).await;
            }
            ended => return ended,
        }
    }
}

/// How every pool of ours is kept.
#[must_use]
pub fn pool_options(size: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(Duration::from_secs(5))
        // A connection that was just in use need not be asked whether it stands: that is a round trip of every request.
        .test_before_acquire(false)
        .before_acquire(|conn, meta| {
            Box::pin(async move {
                if meta.idle_for > TRUSTED_FOR {
                    conn.ping().await?;
                }
                Ok(true)
            })
        })
        // A connection keeps the buffer that its largest row has needed.
        .after_release(|conn, _| {
            conn.shrink_buffers();
            Box::pin(ready(Ok(true)))
        })
}

/// Applies the migrations that the database lacks.
///
/// # Errors
/// When a migration fails.
pub async fn migrate(conn: &mut PgConnection) -> Result<(), MigrateError> {
    MIGRATIONS.run_direct(None, conn, false).await
}

/// The database's schema, compared with this program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchemaState {
    /// It lacks migrations.
    Older,
    /// It has the same migrations.
    Current,
    /// It has migrations that this program does not know.
    Newer,
}

/// Compares the database's schema with this program's.
///
/// # Errors
/// When the database fails.
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

/// Applied migration that this program cannot build on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationFault {
    /// Version, with which the name of its file begins.
    pub version: i64,
    /// Rest of the name of its file.
    pub description: String,
    /// Kind of the fault.
    pub kind: MigrationFaultKind,
}

/// Kind of a [`MigrationFault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationFaultKind {
    /// It ended before all of it was applied.
    Failed,
    /// Its text differs from the one that this program has.
    Changed,
}

/// Finds the applied migrations that failed, or whose text this program has otherwise.
///
/// # Errors
/// When the database fails.
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

/// Seconds by which the clock of this process is ahead of the database's.
///
/// # Errors
/// When the database fails.
pub async fn clock_skew(conn: &mut PgConnection) -> sqlx::Result<f64> {
    let theirs: f64 =
        sqlx::query_scalar("select extract(epoch from clock_timestamp())::float8").fetch_one(conn).await?;
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() - theirs)
}

/// The shared secret of this name, made up by whoever asks first.
///
/// # Errors
/// When the database fails.
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

/// The shared secret of this name, if there is one.
///
/// # Errors
/// When the database fails.
pub async fn find_server_secret(conn: &mut PgConnection, name: &str) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar!("select value from server_secrets where name = $1", name).fetch_optional(conn).await
}

/// Stores a shared secret of this name, unless there is one.
///
/// # Errors
/// When the database fails.
pub async fn add_server_secret(conn: &mut PgConnection, name: &str, value: &[u8]) -> sqlx::Result<()> {
    sqlx::query!("insert into server_secrets (name, value) values ($1, $2) on conflict do nothing", name, value)
        .execute(conn)
        .await?;
    Ok(())
}

/// Stores a shared secret of this name instead of the one that there may be.
///
/// # Errors
/// When the database fails.
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

/// What seals secrets of this purpose: the deployment's keys where it has some, and otherwise one that its processes share,
/// so that nothing has to be configured. What that one sealed opens later too.
///
/// # Errors
/// When the database fails.
pub async fn vault(conn: &mut PgConnection, purpose: &str, configured: Option<&Vault>) -> sqlx::Result<Vault> {
    let shared = server_secret(conn, purpose).await?;
    let shared = shared.try_into().map_err(|_| sqlx::Error::Decode("a server secret has 32 bytes".into()))?;
    Ok(match configured {
        Some(configured) => configured.clone().opening_also(shared),
        None => Vault::new(shared, &[]),
    })
}
