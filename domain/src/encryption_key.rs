//! Check of the configured encryption key against the key that the deployment's secrets are sealed with.
//!
//! The first process that has a key seals a probe and stores it. A process whose keys do not open the probe cannot open
//! the secrets of customers either, and no other process opens the secrets that it seals.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use crate::area::Sealed;
use crate::vault::Vault;
use crate::{areas, database};

const PROBE: &str = "encryption_key_probe";
const PURPOSE: &str = "probe";
const OWNER: &str = "deployment";
/// Rows of a table that are examined when no probe is stored.
const SAMPLE: u32 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum KeyStatus {
    Ok,
    /// The deployment's key is being changed, or this process does not have the new key yet.
    Retired,
    None,
    /// No key is configured, but secrets are sealed with one.
    Missing,
    /// None of the configured keys opens the probe.
    Wrong,
}

impl KeyStatus {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Ok | Self::Retired | Self::None)
    }

    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Ok => "mfa.encryption_key opens the secrets in the database",
            Self::Retired => {
                "the last `kitfleet key rotate-sealing` used one of mfa.retired_encryption_keys and not mfa.encryption_key"
            }
            Self::None => "mfa.encryption_key is not set, and no secret is sealed with a key",
            Self::Missing => "mfa.encryption_key is not set, but secrets in the database are sealed with a key",
            Self::Wrong => {
                "neither mfa.encryption_key nor one of mfa.retired_encryption_keys opens the secrets in the database"
            }
        }
    }
}

/// Compares the configured keys with the probe, or with a sample of the sealed rows if no process has stored a probe
/// yet.
pub async fn check(conn: &mut PgConnection, configured: Option<&Vault>) -> sqlx::Result<KeyStatus> {
    let probe = database::find_server_secret(&mut *conn, PROBE).await?;
    Ok(match (configured, probe) {
        (Some(vault), Some(probe)) if vault.open(PURPOSE, OWNER, &probe).is_err() => KeyStatus::Wrong,
        (Some(vault), Some(probe)) if probe.starts_with(&vault.present_key_id()) => KeyStatus::Ok,
        (Some(_), Some(_)) => KeyStatus::Retired,
        (None, Some(_)) => KeyStatus::Missing,
        (configured, None) => match (configured, sample(conn, configured).await?) {
            (Some(_), (false, _) | (_, true)) => KeyStatus::Ok,
            (Some(_), (true, false)) => KeyStatus::Wrong,
            (None, (false, _)) => KeyStatus::None,
            (None, (true, _)) => KeyStatus::Missing,
        },
    })
}

/// A rotation of the key can change the result while the process runs.
#[derive(Debug, Default)]
pub struct KeyWatch(Mutex<Option<(Instant, KeyStatus)>>);

impl KeyWatch {
    const CHECK_AFTER: Duration = Duration::from_secs(30);
    const WITHIN: Duration = Duration::from_secs(1);

    /// `None` before the first check.
    pub fn latest(&self) -> Option<KeyStatus> {
        self.get().map(|(_, status)| status)
    }

    /// Checks the keys and stores the result.
    pub async fn check(&self, conn: &mut PgConnection, configured: Option<&Vault>) -> sqlx::Result<KeyStatus> {
        let status = check(conn, configured).await?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), status));
        Ok(status)
    }

    /// Repeats the check if the latest result is more than 30 s old, and returns the latest result. A check that fails
    /// or takes longer than 1 s leaves the result unchanged.
    pub async fn refresh(&self, db: &PgPool, configured: Option<&Vault>) -> Option<KeyStatus> {
        if self.get().is_none_or(|(at, _)| at.elapsed() >= Self::CHECK_AFTER) {
            let check = async { self.check(&mut *db.acquire().await?, configured).await };
            if !matches!(tokio::time::timeout(Self::WITHIN, check).await, Ok(Ok(_))) {
                tracing::debug!("cannot check the encryption key: keeping the previous result");
            }
        }
        self.latest()
    }

    fn get(&self) -> Option<(Instant, KeyStatus)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores a probe if there is none and the configured key is not known to be wrong.
pub async fn register(conn: &mut PgConnection, configured: Option<&Vault>) -> sqlx::Result<KeyStatus> {
    let status = check(&mut *conn, configured).await?;
    let Some(vault) = configured.filter(|_| status == KeyStatus::Ok) else { return Ok(status) };
    // Another process with another key may store its probe at the same time.
    database::add_server_secret(&mut *conn, PROBE, &vault.seal(PURPOSE, OWNER, b"kitfleet")).await?;
    check(conn, configured).await
}

/// Seals the probe with the current key, regardless of the key that sealed it before.
pub async fn replace_probe(conn: &mut PgConnection, vault: &Vault) -> sqlx::Result<()> {
    database::replace_server_secret(conn, PROBE, &vault.seal(PURPOSE, OWNER, b"kitfleet")).await
}

#[derive(Debug, Clone, Copy)]
pub struct UnopenableKind {
    pub kind: &'static str,
    pub count: u64,
}

/// Counts the secrets that none of the configured keys opens, by the id of the key that sealed them. Kinds without such
/// secrets are left out.
pub async fn count_unopenable(
    conn: &mut PgConnection,
    configured: Option<&Vault>,
) -> sqlx::Result<Vec<UnopenableKind>> {
    let mut kinds = Vec::new();
    for sealed in areas::sealed() {
        let ids = if sealed.has_shared_key {
            database::vault(&mut *conn, sealed.purpose, configured).await?.key_ids()
        } else {
            configured.map(Vault::key_ids).unwrap_or_default()
        };
        let counts: Vec<_> = sealed
            .columns
            .iter()
            .map(|(column, _)| format!("count(*) filter (where substr({column}, 1, 4) <> all($1))"))
            .collect();
        let select = format!("select {} from {}", counts.join(" + "), sealed.table);
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(select)).bind(ids).fetch_one(&mut *conn).await?;
        if count > 0 {
            kinds.push(UnopenableKind { kind: sealed.kind, count: count.unsigned_abs() });
        }
    }
    Ok(kinds)
}

/// Whether only a key of the deployment can have sealed some secrets, and whether the configured keys open at least one
/// row of the sample.
async fn sample(conn: &mut PgConnection, configured: Option<&Vault>) -> sqlx::Result<(bool, bool)> {
    let columns = || {
        let own = areas::sealed().filter(|sealed| !sealed.has_shared_key);
        own.flat_map(|sealed: &Sealed| sealed.columns.iter().map(|(column, _)| (sealed.table, *column)))
    };
    let any: Vec<_> =
        columns().map(|(table, column)| format!("exists(select from {table} where {column} is not null)")).collect();
    let opens: Vec<_> = columns()
        .map(|(table, column)| {
            format!(
                "exists(select from (select {column} from {table} where {column} is not null limit {SAMPLE}) sample
                        where substr({column}, 1, 4) = any($1))"
            )
        })
        .collect();
    let select = format!("select {}, {}", any.join(" or "), opens.join(" or "));
    let ids = configured.map(Vault::key_ids).unwrap_or_default();
    sqlx::query_as(AssertSqlSafe(select)).bind(ids).fetch_one(conn).await
}
