//! Recovery codes, single-use and hashed like passwords. The codes of a batch share a salt, so that a guess costs one
//! hash and not one for each remaining code.

use kitfleet_types::ids::AccountId;
use sqlx::PgConnection;

use crate::crockford;
use crate::passwords;

/// Ten characters have 50 bits.
const LENGTH: usize = 10;

pub struct Batch {
    codes: Vec<String>,
    salt: Vec<u8>,
    hashes: Vec<Vec<u8>>,
}

impl Batch {
    /// Takes as long as hashing that many passwords.
    #[must_use]
    pub fn generate(codes: usize) -> Self {
        let salt = rand::random::<[u8; 16]>().to_vec();
        let codes: Vec<_> = (0..codes).map(|_| crockford::random(LENGTH)).collect();
        let hashes = codes.iter().map(|code| hash(code, &salt)).collect();
        Self { codes, salt, hashes }
    }

    /// The codes can be shown only once.
    #[must_use]
    pub fn shown(&self) -> Vec<String> {
        self.codes.iter().map(|code| crockford::shown(code)).collect()
    }
}

/// Returns the hash of a code in any spelling. Takes as long as hashing a password.
#[must_use]
pub fn hash(typed: &str, salt: &[u8]) -> Vec<u8> {
    passwords::derive_code(&crockford::normalized(typed), salt)
}

pub(super) async fn replace(conn: &mut PgConnection, account: AccountId, batch: &Batch) -> sqlx::Result<()> {
    sqlx::query!("delete from recovery_codes where account_id = $1", account as _).execute(&mut *conn).await?;
    sqlx::query!(
        "with salted as (update mfa_factors set recovery_salt = $2 where account_id = $1 returning account_id)
         insert into recovery_codes (account_id, code_hash) select account_id, unnest($3::bytea[]) from salted",
        account as _,
        batch.salt,
        &batch.hashes,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub(super) enum Redeemed {
    Good { remaining: i64 },
    Used,
    Unknown,
}

/// The caller must hold the lock on the factor's row.
pub(super) async fn redeem(conn: &mut PgConnection, account: AccountId, hash: &[u8]) -> sqlx::Result<Redeemed> {
    let used = sqlx::query_scalar!(
        r#"select used_at is not null as "used!" from recovery_codes where account_id = $1 and code_hash = $2"#,
        account as _,
        hash,
    )
    .fetch_optional(&mut *conn)
    .await?;
    match used {
        None => return Ok(Redeemed::Unknown),
        Some(true) => return Ok(Redeemed::Used),
        Some(false) => {}
    }
    sqlx::query!(
        "update recovery_codes set used_at = now() where account_id = $1 and code_hash = $2",
        account as _,
        hash
    )
    .execute(&mut *conn)
    .await?;
    let remaining = sqlx::query_scalar!(
        r#"select count(*) as "remaining!" from recovery_codes where account_id = $1 and used_at is null"#,
        account as _,
    )
    .fetch_one(conn)
    .await?;
    Ok(Redeemed::Good { remaining })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: mfa 9. Ten characters in two groups of five, joined by a hyphen.
    #[test]
    fn code_matches_in_any_spelling() {
        let batch = Batch::generate(2);
        let shown = batch.shown();
        assert_eq!(shown.len(), 2);
        assert!(shown.iter().all(|code| code.len() == 11 && &code[5..6] == "-"), "{shown:?}");
        assert_eq!(hash(&shown[0].replace('-', "").to_lowercase(), &batch.salt), batch.hashes[0]);
        assert_ne!(hash(&shown[1], &batch.salt), batch.hashes[0]);
    }
}
