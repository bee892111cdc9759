//! Random tokens that are shown once and stored hashed: of web sessions, links in mails, invites, challenges, device
//! codes and OAuth clients.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;

/// 32 random bytes in URL-safe base64. With 256 bits of randomness a fast hash protects it as well as a slow one would.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A fresh one.
    #[must_use]
    pub fn generate() -> Self {
        Self(URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()))
    }

    /// The token itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is stored of it.
    #[must_use]
    pub fn hash(&self) -> Vec<u8> {
        hash(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What would be stored of `text`, if it were a token.
#[must_use]
pub fn hash(text: &str) -> Vec<u8> {
    Sha256::digest(text.as_bytes()).to_vec()
}

/// Deletes tokens of every kind that expired more than a day ago (contract: retention 7): for so long their bearers hear why
/// they are refused. Up to `batch` of each; answers how many.
///
/// # Errors
/// When the database fails.
pub async fn purge_expired(conn: &mut PgConnection, batch: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query_scalar!(
        r#"with old as (select now() - interval '1 day' as age),
            sessions as (delete from web_sessions where id in
                (select id from web_sessions where expires_at < (select age from old) limit $1) returning 1),
            links as (delete from mail_links where token_hash in
                (select token_hash from mail_links where expires_at < (select age from old) limit $1) returning 1),
            challenges as (delete from mfa_challenges where id in
                (select id from mfa_challenges where expires_at < (select age from old) limit $1) returning 1),
            devices as (delete from device_authorizations where id in
                (select id from device_authorizations where expires_at < (select age from old) limit $1) returning 1),
            accesses as (delete from oauth_tokens where token_hash in
                (select token_hash from oauth_tokens where expires_at < (select age from old) limit $1) returning 1),
            invites as (delete from team_invites where id in
                (select id from team_invites where accepted_at is null and expires_at < (select age from old) limit $1)
                returning 1),
            flows as (delete from identity_flows where state_hash in
                (select state_hash from identity_flows where expires_at < (select age from old) limit $1) returning 1)
           select (select count(*) from sessions) + (select count(*) from links) + (select count(*) from challenges)
               + (select count(*) from devices) + (select count(*) from accesses) + (select count(*) from flows)
               + (select count(*) from invites) as "purged!""#,
        batch,
    )
    .fetch_one(conn)
    .await?;
    Ok(purged.unsigned_abs())
}
