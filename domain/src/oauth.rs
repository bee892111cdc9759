//! OAuth clients and their access tokens (RFC 6749, section 4.4; contract: oauth).

use std::fmt;
use std::time::Duration;

use kitfleet_types::ids::{AccountId, OauthClientId};
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};
use sqlx::PgConnection;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::accounts::{self, AccountStatus};
use crate::api_keys::Scopes;
use crate::area::{Area, Bound, Purge};
use crate::tokens::{self, Token};

pub(crate) const AREA: Area = Area {
    purges: &[
        Purge::new("tokens", "oauth_tokens", |conn, _, limit| Box::pin(purge_expired_tokens(conn, limit))),
        Purge::new("oauth_clients", "oauth_clients", |conn, terms, limit| Box::pin(purge(conn, terms.revoked, limit))),
    ],
    on_account_delete: &[|conn, account, _| Box::pin(revoke_all(conn, account))],
    bounds: &[
        (
            "oauth_clients",
            Bound::Account("`limits.oauth_clients` (100) that are not revoked; revoked ones are deleted after 90 days"),
        ),
        ("oauth_tokens", Bound::Term("a day after it expired")),
    ],
    ..Area::named("oauth")
};

#[derive(Debug, Clone)]
pub struct Client {
    /// Sent as `client_id`.
    pub id: OauthClientId,
    pub name: String,
    pub scopes: Scopes,
    pub created_at: Timestamp,
}

/// Returns the name trimmed.
pub fn check_name(name: &str) -> Result<&str, Invalid> {
    let name = name.trim();
    let mut rules = Rules::default();
    rules.length(name, 1, 120, "name");
    rules.require(!name.contains(char::is_control), "name", "must not contain control characters");
    rules.check()?;
    Ok(name)
}

/// The account's row is locked, so that concurrent calls count each other's clients. A team member must not create a
/// client, because it would remain after the end of the membership, unlike a key: the route that creates clients
/// ignores the account header.
pub async fn create_client(
    conn: &mut PgConnection,
    account: AccountId,
    name: &str,
    scopes: Scopes,
    max: u32,
) -> Result<(Client, Token), CreateClientError> {
    let name = check_name(name)?;
    accounts::lock(&mut *conn, account).await?.ok_or(CreateClientError::NoAccount)?;
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from oauth_clients where account_id = $1 and revoked_at is null"#,
        account as _,
    )
    .fetch_one(&mut *conn)
    .await?;
    if count >= i64::from(max) {
        return Err(CreateClientError::TooMany(max));
    }
    let (id, secret) = (OauthClientId::generate(), Token::generate());
    let created_at = sqlx::query_scalar!(
        "insert into oauth_clients (id, account_id, name, scopes, secret_hash, created_by_account_id)
         values ($1, $2, $3, $4, $5, $2) returning created_at",
        id as _,
        account as _,
        name,
        &scopes.names(),
        secret.hash(),
    )
    .fetch_one(conn)
    .await?;
    Ok((Client { id, name: name.to_owned(), scopes, created_at }, secret))
}

#[derive(Debug, thiserror::Error)]
pub enum CreateClientError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("the account has {0} OAuth clients, the maximum")]
    TooMany(u32),
    #[error("the account does not exist")]
    NoAccount,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

pub async fn list_clients(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Vec<Client>> {
    sqlx::query!(
        "select id, name, scopes, created_at from oauth_clients where account_id = $1 and revoked_at is null order by id desc",
        account as _,
    )
    .map(|row| Client { id: row.id, name: row.name, scopes: Scopes::stored(&row.scopes), created_at: row.created_at })
    .fetch_all(conn)
    .await
}

/// Time the previous secret works after a rotation (contract: oauth 8).
const SECRET_GRACE: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub struct RotatedSecret {
    pub secret: Token,
    pub grace_expires_at: Timestamp,
}

/// The previous secret works for `SECRET_GRACE`. Another rotation within that time ends it. `None` for a deleted client, too.
pub async fn rotate_secret(
    conn: &mut PgConnection,
    account: AccountId,
    id: OauthClientId,
) -> sqlx::Result<Option<RotatedSecret>> {
    let secret = Token::generate();
    let grace_expires_at = sqlx::query_scalar!(
        r#"update oauth_clients
           set secret_hash = $3, prev_secret_hash = secret_hash, prev_secret_expires_at = now() + $4
           where id = $1 and account_id = $2 and revoked_at is null
           returning prev_secret_expires_at as "at!: Timestamp""#,
        id as _,
        account as _,
        secret.hash(),
        SECRET_GRACE as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(grace_expires_at.map(|grace_expires_at| RotatedSecret { secret, grace_expires_at }))
}

/// Also revokes all tokens immediately. A second call changes nothing.
pub async fn delete_client(conn: &mut PgConnection, account: AccountId, id: OauthClientId) -> sqlx::Result<bool> {
    let row = sqlx::query!(
        "update oauth_clients set revoked_at = coalesce(revoked_at, now()) where id = $1 and account_id = $2",
        id as _,
        account as _,
    )
    .execute(conn)
    .await?;
    Ok(row.rows_affected() > 0)
}

/// As [`delete_client`], for an account that is being deleted.
async fn revoke_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!(
        "update oauth_clients set revoked_at = now() where account_id = $1 and revoked_at is null",
        account as _
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes up to `limit` clients that were revoked longer ago than `age` and have no tokens. Returns the number of
/// deleted clients.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from oauth_clients where id in (
             select c.id from oauth_clients c
             where c.revoked_at < now() - make_interval(secs => $1)
               and not exists (select from oauth_tokens t where t.client_id = c.id)
             order by c.revoked_at limit $2 for update skip locked)",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

#[derive(Debug)]
pub struct Authenticated {
    id: OauthClientId,
    scopes: Scopes,
    account_status: AccountStatus,
}

/// `None` also for a client whose account is deleted. An unknown client takes the same steps as a wrong secret.
pub async fn authenticate(conn: &mut PgConnection, id: &str, secret: &str) -> sqlx::Result<Option<Authenticated>> {
    let id = id.parse().unwrap_or_else(|_| OauthClientId::from(Uuid::nil()));
    let row = sqlx::query!(
        r#"select c.secret_hash, case when c.prev_secret_expires_at > now() then c.prev_secret_hash end as prev_secret_hash,
                  c.scopes, a.status as "status: AccountStatus"
           from oauth_clients c join accounts a on a.id = c.account_id
           where c.id = $1 and c.revoked_at is null and a.status <> 'deleted'"#,
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    let given = tokens::hash(secret);
    let stored = row.as_ref().map_or(&[0; 32][..], |row| &row.secret_hash);
    let previous = row.as_ref().and_then(|row| row.prev_secret_hash.as_deref()).unwrap_or(&[0; 32][..]);
    let matches = bool::from(given.ct_eq(stored) | given.ct_eq(previous));
    Ok(row.filter(|_| matches).map(|row| Authenticated {
        id,
        scopes: Scopes::stored(&row.scopes),
        account_status: row.status,
    }))
}

/// Only its hash is stored. Its prefix distinguishes it from other bearer tokens.
#[derive(Clone)]
pub struct AccessToken(String);

impl AccessToken {
    pub const PREFIX: &str = "svc_oauth_";

    fn generate() -> Self {
        Self(format!("{}{}", Self::PREFIX, Token::generate().reveal()))
    }

    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("svc_oauth_…")
    }
}

/// Issues a token to `client` for `lifetime`, with the scopes it requests or otherwise with all of its scopes.
pub async fn issue_token(
    conn: &mut PgConnection,
    client: &Authenticated,
    requested: Option<&str>,
    lifetime: Duration,
) -> Result<(AccessToken, Scopes), IssueError> {
    if client.account_status != AccountStatus::Active {
        return Err(IssueError::Suspended);
    }
    let scopes = match requested {
        Some(requested) => narrowed(&client.scopes, requested).ok_or(IssueError::Scope)?,
        None => client.scopes.clone(),
    };
    let token = AccessToken::generate();
    sqlx::query!(
        "insert into oauth_tokens (token_hash, client_id, scopes, expires_at)
         values ($1, $2, $3, now() + $4)",
        tokens::hash(token.reveal()),
        client.id as _,
        &scopes.names(),
        lifetime as _,
    )
    .execute(conn)
    .await?;
    Ok((token, scopes))
}

/// `None` if `scopes` do not satisfy all of them. A broad scope includes the narrow scopes that it satisfies.
fn narrowed(scopes: &Scopes, requested: &str) -> Option<Scopes> {
    let names: Vec<_> = requested.split(' ').filter(|name| !name.is_empty()).collect();
    Scopes::grantable(&names, scopes).ok()
}

#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    #[error("the account of the client is suspended")]
    Suspended,
    #[error("the scope is unknown or was not granted to the client")]
    Scope,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

#[derive(Debug, Clone)]
pub struct TokenRecord {
    pub client_id: OauthClientId,
    pub account_id: AccountId,
    pub scopes: Scopes,
    pub expires_at: Timestamp,
    pub expired: bool,
    pub revoked: bool,
    pub account_status: AccountStatus,
    pub tier: Tier,
}

pub async fn find_by_token(conn: &mut PgConnection, token: &str) -> sqlx::Result<Option<TokenRecord>> {
    sqlx::query!(
        r#"select t.client_id, c.account_id, t.scopes, t.expires_at, t.expires_at <= now() as "expired!",
                  c.revoked_at is not null as "revoked!", a.status as "status: AccountStatus", a.tier as "tier: Tier"
           from oauth_tokens t join oauth_clients c on c.id = t.client_id join accounts a on a.id = c.account_id
           where t.token_hash = $1"#,
        tokens::hash(token),
    )
    .map(|row| TokenRecord {
        client_id: row.client_id,
        account_id: row.account_id,
        scopes: Scopes::stored(&row.scopes),
        expires_at: row.expires_at,
        expired: row.expired,
        revoked: row.revoked,
        account_status: row.status,
        tier: row.tier,
    })
    .fetch_optional(conn)
    .await
}

/// An expired row is kept for a day (contract: retention 7), in which a caller with the token receives the reason for the refusal.
async fn purge_expired_tokens(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from oauth_tokens where token_hash in (
             select token_hash from oauth_tokens where expires_at < now() - interval '1 day' limit $1 for update skip locked)",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6749, section 3.3.
    #[test]
    fn token_scopes_are_a_subset_of_the_client_scopes() {
        let narrowed = |scopes: &[&str], requested: &str| {
            narrowed(&Scopes::parse(scopes).expect("known scopes"), requested).map(|scopes| scopes.names().join(" "))
        };
        assert_eq!(narrowed(&["read", "write"], "write").as_deref(), Some("write"));
        assert_eq!(narrowed(&["read"], "read:sessions read:audit").as_deref(), Some("read:sessions read:audit"));
        assert_eq!(narrowed(&["account_owner"], "read write").as_deref(), Some("read write"));
        for requested in
            ["write", "read write", "account_owner", "nonsense", "read nonsense", "READ", " ", "read,write"]
        {
            assert_eq!(narrowed(&["read"], requested), None, "{requested:?}");
        }
        assert_eq!(narrowed(&["account_owner"], "admin"), None, "staff only");
    }
}
