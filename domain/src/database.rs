//! The connection pool, migrations, and secrets that replicas share.

use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};

use crate::vault::Vault;

/// Ours. apalis brings its own, which `kitfleet-jobs` runs first.
pub static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// How long a connection may be idle and still be taken for one that stands.
const TRUSTED_FOR: Duration = Duration::from_secs(1);

/// A pool of `size` connections. When none is free within five seconds a request fails instead of queueing for ever.
///
/// A `begin` that is cancelled midway returns a connection with an open transaction to the pool, where the next user's
/// commit would not be one: whoever uses the pool must not be cancelled. The API runs every handler in a task of its
/// own for that reason.
///
/// # Errors
/// When the database cannot be reached.
pub async fn connect(options: PgConnectOptions, size: u32) -> sqlx::Result<PgPool> {
    pool_options(size).connect_with(options).await
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
}

/// Brings the schema up to date.
///
/// # Errors
/// When a migration fails, or the database is ahead of this program.
pub async fn migrate(conn: &mut PgConnection) -> Result<(), MigrateError> {
    MIGRATIONS.run_direct(None, conn, false).await
}

/// Whether the database has every migration of this program.
///
/// # Errors
/// When the database fails.
pub async fn is_migrated(conn: &mut PgConnection) -> sqlx::Result<bool> {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max();
    let applied: Option<i64> =
        sqlx::query_scalar("select max(version) from _sqlx_migrations where success").fetch_one(conn).await?;
    Ok(applied >= newest)
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
