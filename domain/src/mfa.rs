//! Second factors (contract: mfa): a sealed TOTP secret and hashed recovery codes.
//!
//! A transaction that checks a proof locks the factor's row: only one of several callers with the same code succeeds,
//! and wrong guesses of all callers count together.

pub mod challenges;
mod recovery_codes;
mod totp;

use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::limits::Limits;
use kitfleet_types::timestamp::Timestamp;
use serde_json::json;
use sqlx::PgConnection;

use crate::accounts;
use crate::audit::{self, Actor, Entry};
use crate::vault::{UnsealError, Vault};

use crate::area::{Area, Bound, Purge, Sealed};
pub use recovery_codes::{Batch, hash as hash_recovery_code};
pub use totp::Enrollment;

pub(crate) const AREA: Area = Area {
    kept: &[
        ("mfa_factors", "one for each account"),
        ("recovery_codes", "ten for each account"),
        ("totp_steps", "a hundred for each account"),
    ],
    purges: &[Purge::new("tokens", "mfa_challenges", |conn, _, limit| {
        Box::pin(challenges::purge_expired(conn, limit))
    })],
    actions: &["account.mfa_enrolled", "account.mfa_disabled", "account.recovery_code_used"],
    on_account_delete: &[|conn, account, _| Box::pin(async move { forget(conn, account).await.map(drop) })],
    bounds: &[
        ("mfa_factors", Bound::Account("1")),
        ("recovery_codes", Bound::Account("`limits.recovery_codes` (10)")),
        ("totp_steps", Bound::Account("100")),
        ("mfa_challenges", Bound::Term("a day after it expired")),
    ],
    sealed: &[Sealed {
        kind: "second_factors",
        table: "mfa_factors",
        id: "account_id",
        part: None,
        purpose: PURPOSE,
        has_shared_key: false,
        columns: &[("sealed_secret", |row| AccountId::from(row.id).to_string())],
    }],
    ..Area::named("mfa")
};

/// Purpose for which the vault derives the sealing key.
const PURPOSE: &str = "mfa";

#[derive(Debug)]
pub struct Status {
    /// `None` when the account has no second factor.
    pub enrolled_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub unused_recovery_codes: i64,
}

pub async fn status(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Status> {
    let row = sqlx::query_as!(
        Status,
        r#"select f.enrolled_at, f.last_used_at,
                  (select count(*) from recovery_codes c where c.account_id = f.account_id and c.used_at is null)
                      as "unused_recovery_codes!"
           from mfa_factors f where f.account_id = $1 and f.enrolled_at is not null"#,
        account as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.unwrap_or(Status { enrolled_at: None, last_used_at: None, unused_recovery_codes: 0 }))
}

pub async fn is_enrolled(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<bool> {
    Ok(status(conn, account).await?.enrolled_at.is_some())
}

#[derive(Debug, thiserror::Error)]
pub enum MfaError {
    /// The secret was sealed with a key that this process does not have.
    #[error(transparent)]
    Sealed(#[from] UnsealError),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The secret is pending until one of its codes is verified. `None` when the account already has a factor.
pub async fn enroll(conn: &mut PgConnection, account: AccountId, vault: &Vault) -> sqlx::Result<Option<Enrollment>> {
    let enrollment = Enrollment::generate();
    let row = sqlx::query_scalar!(
        r#"with pending as (
               insert into mfa_factors (account_id, sealed_secret) values ($1, $2)
               on conflict (account_id) do update set sealed_secret = excluded.sealed_secret, created_at = now()
               where mfa_factors.enrolled_at is null
               returning account_id
           )
           select a.email from accounts a join pending p on p.account_id = a.id"#,
        account as _,
        vault.seal(PURPOSE, &account.to_string(), enrollment.secret()),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|email| enrollment.labelled(email)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotVerified {
    /// The code is wrong, or no secret is pending. A pending secret remains.
    Wrong,
    /// Contains the time to wait.
    TooMany(Duration),
    Enrolled,
}

/// Pending secret for which a correct code was given.
pub struct Verified {
    sealed_secret: Vec<u8>,
}

/// Counts a wrong code, so the caller must commit in either case.
pub async fn verify(
    conn: &mut PgConnection,
    account: AccountId,
    code: &str,
    vault: &Vault,
    guesses: GuessLimits,
) -> Result<Result<Verified, NotVerified>, MfaError> {
    let Some(factor) = lock(conn, account, guesses.window).await? else { return Ok(Err(NotVerified::Wrong)) };
    if factor.enrolled {
        return Ok(Err(NotVerified::Enrolled));
    }
    if let Some(wait) = factor.locked_out(guesses) {
        return Ok(Err(NotVerified::TooMany(wait)));
    }
    let Some(step) = factor.accepted_step(vault, account, code, guesses.drift)? else {
        count_wrong_guess(conn, account, guesses.window).await?;
        return Ok(Err(NotVerified::Wrong));
    };
    if use_step(conn, account, step).await? {
        Ok(Ok(Verified { sealed_secret: factor.sealed_secret }))
    } else {
        // Another request used this code first and will complete the enrolment.
        Ok(Err(NotVerified::Wrong))
    }
}

/// Writes `account.mfa_enrolled`. Returns false when the secret was replaced or a factor is already enrolled.
pub async fn complete(
    conn: &mut PgConnection,
    account: AccountId,
    verified: &Verified,
    batch: &Batch,
    actor: &Actor,
) -> sqlx::Result<bool> {
    let completed = sqlx::query!(
        "update mfa_factors set enrolled_at = now(), wrong_guesses = 0, guessing_since = null
         where account_id = $1 and sealed_secret = $2 and enrolled_at is null",
        account as _,
        verified.sealed_secret,
    )
    .execute(&mut *conn)
    .await?;
    if completed.rows_affected() == 0 {
        return Ok(false);
    }
    recovery_codes::replace(conn, account, batch).await?;
    let entry = Entry { action: "account.mfa_enrolled", target: None, payload: json!({}) };
    audit::record(conn, account, actor, entry).await?;
    Ok(true)
}

/// Writes `account.mfa_disabled`. Returns false when there is no factor; a pending secret is then deleted.
pub async fn disable(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<bool> {
    if !forget(conn, account).await? {
        return Ok(false);
    }
    let entry = Entry { action: "account.mfa_disabled", target: None, payload: json!({}) };
    audit::record(conn, account, actor, entry).await?;
    Ok(true)
}

/// Returns false when there was none or it was pending.
pub async fn forget(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<bool> {
    let enrolled = sqlx::query_scalar!(
        r#"delete from mfa_factors where account_id = $1 returning enrolled_at is not null as "enrolled!""#,
        account as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(enrolled == Some(true))
}

pub async fn regenerate(conn: &mut PgConnection, account: AccountId, batch: &Batch) -> sqlx::Result<bool> {
    let enrolled = sqlx::query_scalar!(
        "select account_id from mfa_factors where account_id = $1 and enrolled_at is not null for update",
        account as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    if enrolled.is_some() {
        recovery_codes::replace(conn, account, batch).await?;
    }
    Ok(enrolled.is_some())
}

pub async fn recovery_salt(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<Vec<u8>>> {
    let salt = sqlx::query_scalar!(
        "select recovery_salt from mfa_factors where account_id = $1 and enrolled_at is not null",
        account as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(salt.flatten())
}

pub enum Proof<'a> {
    Totp {
        code: &'a str,
        vault: &'a Vault,
    },
    Recovery {
        /// Hash of the code with the account's salt.
        hash: &'a [u8],
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Via {
    Totp,
    Recovery,
}

impl Via {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The proof is now used.
    Proven(Via),
    Wrong,
    /// The proof was used before.
    UsedBefore,
    /// Contains the time to wait.
    TooMany(Duration),
    NotEnrolled,
}

#[derive(Debug, Clone, Copy)]
pub struct GuessLimits {
    pub allowed: u32,
    pub window: Duration,
    /// Periods that a clock can be off.
    pub drift: u16,
}

impl GuessLimits {
    #[must_use]
    pub fn of(limits: &Limits) -> Self {
        Self { allowed: limits.mfa_guesses, window: limits.mfa_guess_window, drift: limits.totp_drift_periods }
    }
}

/// Marks a correct proof as used and counts a wrong one, so the caller must commit in either case. A recovery code
/// writes `account.recovery_code_used`.
pub async fn check_proof(
    conn: &mut PgConnection,
    account: AccountId,
    proof: Proof<'_>,
    guesses: GuessLimits,
    actor: &Actor,
) -> Result<Verdict, MfaError> {
    let factor = match lock(conn, account, guesses.window).await? {
        Some(factor) if factor.enrolled => factor,
        _ => return Ok(Verdict::NotEnrolled),
    };
    if let Some(wait) = factor.locked_out(guesses) {
        return Ok(Verdict::TooMany(wait));
    }
    let via = match proof {
        Proof::Totp { code, vault } => match factor.accepted_step(vault, account, code, guesses.drift)? {
            Some(step) if use_step(conn, account, step).await? => Some(Via::Totp),
            // A code that was correct is not a guess and does not count.
            Some(_) => return Ok(Verdict::UsedBefore),
            None => None,
        },
        Proof::Recovery { hash } => match recovery_codes::redeem(conn, account, hash).await? {
            recovery_codes::Redeemed::Good { remaining } => {
                let payload = json!({"remaining": remaining});
                let entry = Entry { action: "account.recovery_code_used", target: None, payload };
                audit::record(conn, account, actor, entry).await?;
                Some(Via::Recovery)
            }
            recovery_codes::Redeemed::Used => return Ok(Verdict::UsedBefore),
            recovery_codes::Redeemed::Unknown => None,
        },
    };
    let Some(via) = via else {
        count_wrong_guess(conn, account, guesses.window).await?;
        return Ok(Verdict::Wrong);
    };
    sqlx::query!(
        "update mfa_factors set last_used_at = now(), wrong_guesses = 0, guessing_since = null where account_id = $1",
        account as _,
    )
    .execute(conn)
    .await?;
    Ok(Verdict::Proven(via))
}

struct Factor {
    enrolled: bool,
    sealed_secret: Vec<u8>,
    wrong_guesses: i32,
    window_left: Duration,
    /// Seconds since 1970 by the database's clock.
    now: u64,
}

impl Factor {
    fn locked_out(&self, guesses: GuessLimits) -> Option<Duration> {
        (i64::from(self.wrong_guesses) >= i64::from(guesses.allowed)).then_some(self.window_left)
    }

    fn accepted_step(
        &self,
        vault: &Vault,
        account: AccountId,
        code: &str,
        drift: u16,
    ) -> Result<Option<i64>, UnsealError> {
        let secret = vault.open(PURPOSE, &account.to_string(), &self.sealed_secret)?;
        Ok(totp::accepted_step(&secret, code, self.now, drift))
    }
}

async fn lock(conn: &mut PgConnection, account: AccountId, window: Duration) -> sqlx::Result<Option<Factor>> {
    // Lock the account's row first, in the same order as changes of the account, which lock its factor next.
    if accounts::hold(&mut *conn, account).await?.is_none() {
        return Ok(None);
    }
    let row = sqlx::query!(
        r#"select enrolled_at is not null as "enrolled!", sealed_secret,
                  case when guessing_since + $2 > now() then wrong_guesses else 0 end as "wrong_guesses!",
                  coalesce(extract(epoch from guessing_since + $2 - now()), 0)::float8 as "window_left!",
                  floor(extract(epoch from now()))::int8 as "now!"
           from mfa_factors where account_id = $1 for update"#,
        account as _,
        window as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Factor {
        enrolled: row.enrolled,
        sealed_secret: row.sealed_secret,
        wrong_guesses: row.wrong_guesses,
        window_left: Duration::from_secs_f64(row.window_left.max(0.0)),
        now: row.now.unsigned_abs(),
    }))
}

async fn count_wrong_guess(conn: &mut PgConnection, account: AccountId, window: Duration) -> sqlx::Result<()> {
    sqlx::query!(
        "update mfa_factors
         set wrong_guesses = case when guessing_since + $2 > now() then wrong_guesses + 1 else 1 end,
             guessing_since = case when guessing_since + $2 > now() then guessing_since else now() end
         where account_id = $1",
        account as _,
        window as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Returns false when a code of this time step was accepted before.
async fn use_step(conn: &mut PgConnection, account: AccountId, step: i64) -> sqlx::Result<bool> {
    // Codes of steps this old are no longer accepted, so the rows are not needed.
    sqlx::query!("delete from totp_steps where account_id = $1 and step < $2::bigint - 100", account as _, step)
        .execute(&mut *conn)
        .await?;
    let used = sqlx::query!(
        "insert into totp_steps (account_id, step) values ($1, $2) on conflict do nothing",
        account as _,
        step,
    )
    .execute(conn)
    .await?;
    Ok(used.rows_affected() == 1)
}
