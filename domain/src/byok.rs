//! Model access of customers (contract: byok), with their own keys or, if they consent, with the deployment's.
//!
//! A key is sealed before it reaches the database, only with the deployment's own sealing key: one stored in the same
//! database would not protect keys that customers pay for.

use std::fmt;
use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::validation::{Invalid, Rules};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::PgConnection;
use strum::VariantArray as _;

use crate::accounts;
use crate::area::{Area, Bound, Purge, ScheduledJob, Sealed};
use crate::audit::{self, Actor, Entry};
use crate::vault::{UnsealError, Vault};

pub(crate) const AREA: Area = Area {
    kept: &[("bundled_llm_consents", "one for each account")],
    purges: &[Purge::new("byok", "byok_keys", |conn, terms, limit| {
        Box::pin(purge_lost(conn, terms.deleted_account_secrets, limit))
    })
    .counting(|conn, terms| Box::pin(count_lost(conn, terms.deleted_account_secrets)))],
    actions: &[
        "account.byok_provider_key_set",
        "account.byok_provider_key_cleared",
        "account.byok_provider_key_tested",
        "account.bundled_llm_consent_changed",
    ],
    mails: &["byok_key_reminder"],
    scheduled_jobs: &[REMIND_OF_KEYS],
    on_account_delete: &[|conn, account, _| Box::pin(on_account_delete(conn, account))],
    bounds: &[
        ("byok_keys", Bound::Account("1 for each model provider")),
        ("bundled_llm_consents", Bound::Account("1")),
    ],
    sealed: &[Sealed {
        kind: "model_keys",
        table: "byok_keys",
        id: "account_id",
        part: Some("provider"),
        purpose: PURPOSE,
        has_shared_key: false,
        columns: &[("sealed_key", |row| owner(AccountId::from(row.id), row.part.as_deref().unwrap_or_default()))],
    }],
    ..Area::named("byok")
};

pub const REMIND_OF_KEYS: ScheduledJob = ScheduledJob { name: "remind_byok_keys", period: 3_600 };

const PURPOSE: &str = "byok";

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Provider {
    Anthropic,
    Openai,
}

impl Provider {
    /// All providers, in the order in which an account's keys are preferred.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic",
            Self::Openai => "OpenAI",
        }
    }
}

/// Sent in an HTTP header, so it contains no character that could end one.
#[derive(Clone)]
pub struct ProviderKey(String);

impl ProviderKey {
    /// Minimum and maximum, in characters.
    pub const CHARS: (usize, usize) = (8, 512);

    /// Ignores white space around the key (contract: byok 2).
    ///
    /// An error does not contain the key.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let key = text.trim();
        let mut rules = Rules::default();
        rules.length(key, Self::CHARS.0, Self::CHARS.1, "key");
        let is_printable = key.bytes().all(|byte| byte.is_ascii_graphic());
        rules.require(is_printable, "key", "must contain only printable ASCII characters without white space");
        rules.check()?;
        Ok(Self(key.to_owned()))
    }

    /// Returns the key in clear text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn seal(&self, vault: &Vault, account: AccountId, provider: Provider) -> Vec<u8> {
        vault.seal(PURPOSE, &owner(account, provider.name()), self.0.as_bytes())
    }
}

impl fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderKey(…)")
    }
}

fn owner(account: AccountId, provider: &str) -> String {
    format!("{account} {provider}")
}

#[derive(Debug)]
pub struct SealedKey {
    pub account: AccountId,
    pub provider: Provider,
    sealed: Vec<u8>,
}

impl SealedKey {
    pub(crate) fn new(account: AccountId, provider: Provider, sealed: Vec<u8>) -> Self {
        Self { account, provider, sealed }
    }

    pub fn open(&self, vault: &Vault) -> Result<ProviderKey, UnsealError> {
        let opened = vault.open(PURPOSE, &owner(self.account, self.provider.name()), &self.sealed)?;
        String::from_utf8(opened).map(ProviderKey).map_err(|_| UnsealError)
    }
}

/// Replaces the previous key and writes `account.byok_provider_key_set`. Returns false when the account is deleted.
pub async fn set_key(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    provider: Provider,
    key: &ProviderKey,
    vault: &Vault,
) -> sqlx::Result<bool> {
    if accounts::hold(&mut *conn, account).await?.is_none() {
        return Ok(false);
    }
    sqlx::query!(
        "insert into byok_keys (account_id, provider, sealed_key) values ($1, $2, $3)
         on conflict (account_id, provider) do update
         set sealed_key = excluded.sealed_key, set_at = now(), reminded_at = null",
        account as _,
        provider as _,
        key.seal(vault, account, provider),
    )
    .execute(&mut *conn)
    .await?;
    let payload = json!({"provider": provider.name(), "outcome": "ok"});
    let entry = Entry { action: "account.byok_provider_key_set", target: None, payload };
    audit::record(conn, account, actor, entry).await?;
    Ok(true)
}

/// Writes `account.byok_provider_key_cleared` if there was a key.
pub async fn clear_key(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    provider: Provider,
) -> sqlx::Result<()> {
    let cleared =
        sqlx::query!("delete from byok_keys where account_id = $1 and provider = $2", account as _, provider as _)
            .execute(&mut *conn)
            .await?;
    if cleared.rows_affected() == 0 {
        return Ok(());
    }
    let payload = json!({"provider": provider.name(), "outcome": "ok"});
    let entry = Entry { action: "account.byok_provider_key_cleared", target: None, payload };
    audit::record(conn, account, actor, entry).await
}

pub async fn find_key(
    conn: &mut PgConnection,
    account: AccountId,
    provider: Provider,
) -> sqlx::Result<Option<SealedKey>> {
    let sealed = sqlx::query_scalar!(
        "select sealed_key from byok_keys where account_id = $1 and provider = $2 and lost_at is null",
        account as _,
        provider as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(sealed.map(|sealed| SealedKey::new(account, provider, sealed)))
}

#[derive(Debug)]
pub struct ModelAccess {
    pub keys: Vec<SealedKey>,
    pub consented: bool,
}

pub async fn model_access(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<ModelAccess> {
    let rows = sqlx::query!(
        r#"select exists(select from bundled_llm_consents where account_id = $1) as "consented!",
                  k.provider as "provider?: Provider", k.sealed_key as "sealed_key?"
           from (select) one left join byok_keys k on k.account_id = $1 and k.lost_at is null"#,
        account as _,
    )
    .fetch_all(conn)
    .await?;
    let consented = rows.iter().any(|row| row.consented);
    let keys = rows.into_iter().filter_map(|row| Some(SealedKey::new(account, row.provider?, row.sealed_key?)));
    Ok(ModelAccess { keys: keys.collect(), consented })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum TestOutcome {
    Ok,
    /// The key is invalid or lacks a permission.
    Invalid,
    /// The quota of the key is exceeded or not paid.
    QuotaExceeded,
    Unknown,
}

impl TestOutcome {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Writes `account.byok_provider_key_tested`.
pub async fn note_test(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    provider: Provider,
    outcome: TestOutcome,
) -> sqlx::Result<()> {
    let payload = json!({"provider": provider.name(), "outcome": outcome.name()});
    let entry = Entry { action: "account.byok_provider_key_tested", target: None, payload };
    audit::record(conn, account, actor, entry).await
}

/// Writes `account.bundled_llm_consent_changed` if the consent changed. Returns false when the account is deleted.
pub async fn set_consent(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    consented: bool,
) -> sqlx::Result<bool> {
    if accounts::hold(&mut *conn, account).await?.is_none() {
        return Ok(false);
    }
    let changed = if consented {
        sqlx::query!("insert into bundled_llm_consents (account_id) values ($1) on conflict do nothing", account as _)
            .execute(&mut *conn)
            .await?
    } else {
        sqlx::query!("delete from bundled_llm_consents where account_id = $1", account as _).execute(&mut *conn).await?
    };
    if changed.rows_affected() == 1 {
        let payload = json!({"from": !consented, "to": consented});
        let entry = Entry { action: "account.bundled_llm_consent_changed", target: None, payload };
        audit::record(conn, account, actor, entry).await?;
    }
    Ok(true)
}

#[derive(Debug)]
pub struct OldKey {
    pub account: AccountId,
    pub provider: Provider,
    pub age_seconds: i64,
}

/// Claims keys older than `age` for a reminder (contract: byok 8). Each key is claimed once. Keys of accounts that are
/// not active are left out.
pub async fn take_old_keys(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<Vec<OldKey>> {
    sqlx::query_as!(
        OldKey,
        r#"update byok_keys k set reminded_at = now()
           from (
               select k.account_id, k.provider from byok_keys k join accounts a on a.id = k.account_id
               where k.set_at <= now() - make_interval(secs => $1) and k.reminded_at is null and k.lost_at is null
                 and a.status = 'active'
               order by k.set_at limit $2 for no key update of k skip locked
           ) old
           where k.account_id = old.account_id and k.provider = old.provider
           returning k.account_id as account, k.provider as "provider: _",
                     extract(epoch from now() - k.set_at)::bigint as "age_seconds!""#,
        age.as_secs_f64(),
        limit,
    )
    .fetch_all(conn)
    .await
}

/// 0 when there is none.
pub async fn oldest_key_seconds(conn: &mut PgConnection) -> sqlx::Result<f64> {
    sqlx::query_scalar!(
        r#"select coalesce(extract(epoch from now() - min(set_at)), 0)::float8 as "seconds!" from byok_keys where lost_at is null"#
    )
    .fetch_one(conn)
    .await
}

async fn on_account_delete(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from bundled_llm_consents where account_id = $1", account as _).execute(&mut *conn).await?;
    sqlx::query!("update byok_keys set lost_at = now() where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}

/// Deletes keys of accounts that were deleted longer ago than `age`. Returns the number of deleted keys.
async fn purge_lost(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from byok_keys where (account_id, provider) in (
             select account_id, provider from byok_keys where lost_at < now() - make_interval(secs => $1)
             order by lost_at limit $2 for update skip locked)",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

async fn count_lost(conn: &mut PgConnection, age: Duration) -> sqlx::Result<u64> {
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from byok_keys where lost_at < now() - make_interval(secs => $1)"#,
        age.as_secs_f64(),
    );
    Ok(count.fetch_one(conn).await?.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_must_be_printable_and_of_valid_length() {
        let longest = "k".repeat(512);
        for good in ["sk-ant-api03-abc_DEF", "  sk-proj-0123456789\r\n", &longest] {
            assert_eq!(ProviderKey::parse(good).map(|key| key.0), Ok(good.trim().to_owned()));
        }
        let longer = "k".repeat(513);
        for bad in [
            "",
            "       ",
            "sk-1234",
            "sk-ant x-evil",
            "sk-ant-0123\r\nx-evil: 1",
            "sk-ant-0123\0",
            "sk-ant-0123\u{7f}",
            "sk-ant-é0123",
            "sk-ant-0123\u{2028}x",
            &longer,
        ] {
            let refused = ProviderKey::parse(bad).expect_err(bad).to_string();
            assert!(bad.trim().is_empty() || !refused.contains(bad.trim()), "{refused}");
        }
    }

    #[test]
    fn key_opens_for_its_account_and_provider_only_and_debug_hides_it() {
        let (vault, account) = (Vault::new([1; 32], &[]), AccountId::generate());
        let key = ProviderKey::parse("sk-ant-0123456789").expect("a key");
        assert!(!format!("{key:?}").contains("sk-"));
        let sealed = key.seal(&vault, account, Provider::Anthropic);
        let of = |account, provider| SealedKey { account, provider, sealed: sealed.clone() };
        let opened = of(account, Provider::Anthropic).open(&vault).expect("it opens");
        assert_eq!(opened.reveal(), "sk-ant-0123456789");
        assert!(of(account, Provider::Openai).open(&vault).is_err());
        assert!(of(AccountId::generate(), Provider::Anthropic).open(&vault).is_err());
    }
}
