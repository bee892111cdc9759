//! Webhook endpoints: who is told, of what, and signed with what.

use std::time::Duration;

use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use super::secrets::SigningSecret;
use super::{Subscriptions, WebhookUrl};
use crate::accounts;
use crate::audit::{self, Actor, Entry};
use crate::ids::{AccountId, WebhookId};
use crate::timestamp::Timestamp;
use crate::vault::Vault;

/// An endpoint, as customers see it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its id.
    pub id: WebhookId,
    /// Where deliveries go.
    pub url: String,
    /// How its secret begins.
    pub secret_prefix: String,
    /// How the secret before begins, as long as that signs too.
    pub prev_secret_prefix: Option<String>,
    /// Until when it does.
    pub rotation_grace_expires_at: Option<Timestamp>,
    /// What it is told of.
    pub events: Vec<String>,
    /// Its owner's words.
    pub description: Option<String>,
    /// Whether it is not paused.
    pub active: bool,
    /// Deliveries in a row that ended in the dead-letter state.
    pub consecutive_failures: i32,
    /// When a delivery last arrived.
    pub last_success_at: Option<Timestamp>,
    /// When an attempt last failed.
    pub last_failure_at: Option<Timestamp>,
    /// Since when it is told of nothing, for good.
    pub disabled_at: Option<Timestamp>,
    /// Deliveries that arrived.
    pub delivered: i64,
    /// Deliveries that were given up because the endpoint went away.
    pub failed: i64,
    /// Deliveries that are in the dead-letter state.
    pub dlq: i64,
    /// When it was made.
    pub created_at: Timestamp,
}

/// An endpoint to be.
#[derive(Debug)]
pub struct NewEndpoint<'a> {
    /// Where deliveries go.
    pub url: &'a WebhookUrl,
    /// What it is told of.
    pub events: &'a Subscriptions,
    /// Its owner's words.
    pub description: Option<&'a str>,
}

/// Why there is no new endpoint.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The account has as many as it may.
    #[error("the account has {0} webhook endpoints that are not disabled, the maximum; delete one first")]
    TooMany(u32),
    /// The account is gone.
    #[error("the account does not exist")]
    NoAccount,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Makes an endpoint and its secret, and writes `webhook_endpoint.created`. The account's row is locked meanwhile, so that
/// creates of one account count each other.
///
/// # Errors
/// When the account may not have another, or the database fails.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    new: NewEndpoint<'_>,
    most: u32,
    vault: &Vault,
    actor: &Actor,
) -> Result<(Endpoint, SigningSecret), CreateError> {
    accounts::lock(&mut *conn, account).await?.ok_or(CreateError::NoAccount)?;
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from webhook_endpoints where account_id = $1 and disabled_at is null"#,
        account as _,
    )
    .fetch_one(&mut *conn)
    .await?;
    if count >= i64::from(most) {
        return Err(CreateError::TooMany(most));
    }
    let (id, secret, events) = (WebhookId::generate(), SigningSecret::generate(), new.events.names());
    sqlx::query!(
        "insert into webhook_endpoints (id, account_id, url, events, description, sealed_secret, secret_prefix)
         values ($1, $2, $3, $4, $5, $6, $7)",
        id as _,
        account as _,
        new.url.as_str(),
        &events,
        new.description,
        secret.seal(vault, id),
        secret.shown_prefix(),
    )
    .execute(&mut *conn)
    .await?;
    let payload = json!({"url": new.url.as_str(), "events": events});
    record(&mut *conn, account, actor, "webhook_endpoint.created", id, payload).await?;
    let endpoint = find(conn, account, id).await?.ok_or(sqlx::Error::RowNotFound)?;
    Ok((endpoint, secret))
}

async fn record(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    action: &'static str,
    id: WebhookId,
    payload: Value,
) -> sqlx::Result<()> {
    audit::record(conn, account, actor, Entry { action, target: Some(id.to_string()), payload }).await
}

/// The account's endpoint of this id, also a deleted one.
///
/// # Errors
/// When the database fails.
pub async fn find(conn: &mut PgConnection, account: AccountId, id: WebhookId) -> sqlx::Result<Option<Endpoint>> {
    sqlx::query_as!(
        Endpoint,
        r#"select id, url, secret_prefix,
                  case when grace_expires_at > now() then prev_secret_prefix end as prev_secret_prefix,
                  case when grace_expires_at > now() then grace_expires_at end as rotation_grace_expires_at,
                  events, description, active and disabled_at is null as "active!", consecutive_failures, last_success_at,
                  last_failure_at, disabled_at, delivered, failed, dlq, created_at
           from webhook_endpoints where account_id = $1 and id = $2"#,
        account as _,
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// The account's endpoints but for the deleted ones, the newest first.
///
/// # Errors
/// When the database fails.
pub async fn list(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Vec<Endpoint>> {
    sqlx::query_as!(
        Endpoint,
        r#"select id, url, secret_prefix,
                  case when grace_expires_at > now() then prev_secret_prefix end as prev_secret_prefix,
                  case when grace_expires_at > now() then grace_expires_at end as rotation_grace_expires_at,
                  events, description, active and disabled_at is null as "active!", consecutive_failures, last_success_at,
                  last_failure_at, disabled_at, delivered, failed, dlq, created_at
           from webhook_endpoints where account_id = $1 and deleted_at is null order by id desc"#,
        account as _,
    )
    .fetch_all(conn)
    .await
}

/// What an endpoint's owner says of it, which may be nothing.
#[derive(Debug, Clone, Copy)]
pub struct EndpointDescription<'a>(pub Option<&'a str>);

/// What is to change of an endpoint.
#[derive(Debug, Default)]
pub struct Changes<'a> {
    /// Another URL.
    pub url: Option<WebhookUrl>,
    /// Other events, for those that happen from now on.
    pub events: Option<Subscriptions>,
    /// Other words, or none.
    pub description: Option<EndpointDescription<'a>>,
    /// Whether it is not paused.
    pub active: Option<bool>,
}

/// Why an endpoint does not change.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The account has no such endpoint.
    #[error("the endpoint does not exist")]
    NoEndpoint,
    /// It is disabled for good.
    #[error("the endpoint is disabled")]
    Disabled,
    /// It is paused.
    #[error("the endpoint is paused")]
    Paused,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Changes an endpoint, and writes `webhook_endpoint.updated` with what was changed.
///
/// # Errors
/// When there is none, it is disabled, or the database fails.
pub async fn update(
    conn: &mut PgConnection,
    account: AccountId,
    id: WebhookId,
    changes: &Changes<'_>,
    actor: &Actor,
) -> Result<Endpoint, ChangeError> {
    hold_enabled(&mut *conn, account, id).await?;
    let (url, events) =
        (changes.url.as_ref().map(WebhookUrl::as_str), changes.events.as_ref().map(Subscriptions::names));
    sqlx::query!(
        "update webhook_endpoints
         set url = coalesce($2, url), events = coalesce($3, events), active = coalesce($4, active),
             description = case when $5 then $6 else description end
         where id = $1",
        id as _,
        url,
        events.as_deref(),
        changes.active,
        changes.description.is_some(),
        changes.description.and_then(|words| words.0),
    )
    .execute(&mut *conn)
    .await?;
    let payload = [
        ("url", url.map(Value::from)),
        ("events", events.map(Value::from)),
        ("description", changes.description.map(|words| Value::from(words.0))),
        ("active", changes.active.map(Value::from)),
    ];
    let payload: Map<_, _> = payload.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    record(&mut *conn, account, actor, "webhook_endpoint.updated", id, payload.into()).await?;
    find(conn, account, id).await?.ok_or(ChangeError::NoEndpoint)
}

/// Locks an endpoint's row against other changes of it.
async fn hold_enabled(conn: &mut PgConnection, account: AccountId, id: WebhookId) -> Result<(), ChangeError> {
    let disabled = sqlx::query_scalar!(
        r#"select disabled_at is not null as "disabled!" from webhook_endpoints
           where account_id = $1 and id = $2 for no key update"#,
        account as _,
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    match disabled {
        None => Err(ChangeError::NoEndpoint),
        Some(true) => Err(ChangeError::Disabled),
        Some(false) => Ok(()),
    }
}

/// Deletes an endpoint: its pending deliveries fail for good, and it is listed no more. Writes `webhook_endpoint.deleted`.
/// Once more changes nothing. `false` when there is none.
///
/// # Errors
/// When the database fails.
pub async fn delete(conn: &mut PgConnection, account: AccountId, id: WebhookId, actor: &Actor) -> sqlx::Result<bool> {
    // Whoever writes an event for it is waited for, and sees it deleted afterwards.
    let held = sqlx::query!(
        "select url, deleted_at from webhook_endpoints where account_id = $1 and id = $2 for update",
        account as _,
        id as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(held) = held else { return Ok(false) };
    if held.deleted_at.is_some() {
        return Ok(true);
    }
    sqlx::query!(
        "with given_up as (
             update webhook_deliveries
             set status = 'failed', next_attempt_at = null, due = false, updated_at = now(),
                 last_error = 'the endpoint was deleted'
             where endpoint_id = $1 and status = 'pending' returning 1
         )
         update webhook_endpoints
         set deleted_at = now(), disabled_at = coalesce(disabled_at, now()), failed = failed + (select count(*) from given_up)
         where id = $1",
        id as _,
    )
    .execute(&mut *conn)
    .await?;
    record(conn, account, actor, "webhook_endpoint.deleted", id, json!({"url": held.url})).await?;
    Ok(true)
}

/// Ends the endpoints of an account that is being deleted: what is on its way to them, or was written in this transaction,
/// fails, and their secrets are forgotten. The audit log says nothing of them, as of nothing else that a deletion ends.
///
/// # Errors
/// When the database fails.
pub async fn delete_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("select id from webhook_endpoints where account_id = $1 order by id for update", account as _)
        .fetch_all(&mut *conn)
        .await?;
    sqlx::query!(
        "with given_up as (
             update webhook_deliveries
             set status = 'failed', next_attempt_at = null, due = false, updated_at = now(),
                 last_error = 'the endpoint was deleted'
             where status = 'pending' and endpoint_id in (select id from webhook_endpoints where account_id = $1)
             returning endpoint_id
         )
         update webhook_endpoints e
         set deleted_at = coalesce(deleted_at, now()), disabled_at = coalesce(disabled_at, now()),
             failed = failed + (select count(*) from given_up g where g.endpoint_id = e.id),
             sealed_secret = '', sealed_prev_secret = null
         where account_id = $1",
        account as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes endpoints that were deleted by their owner longer ago than `age`, and whose deliveries are gone, up to `limit`.
/// Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from webhook_endpoints where id in (
             select e.id from webhook_endpoints e
             where e.deleted_at < now() - make_interval(secs => $1)
               and not exists (select from webhook_deliveries d where d.endpoint_id = e.id)
             order by e.deleted_at limit $2 for update skip locked)",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// A secret that took the place of another.
#[derive(Debug)]
pub struct Rotated {
    /// The new one.
    pub secret: SigningSecret,
    /// How the one before begins.
    pub prev_secret_prefix: String,
    /// Until when that signs too.
    pub grace_expires_at: Timestamp,
}

/// Gives an endpoint another secret; the one before signs too for `grace`, and one that was before that no more. Writes
/// `webhook_endpoint.secret_rotated`.
///
/// # Errors
/// When there is none, it is disabled, or the database fails.
pub async fn rotate_secret(
    conn: &mut PgConnection,
    account: AccountId,
    id: WebhookId,
    grace: Duration,
    vault: &Vault,
    actor: &Actor,
) -> Result<Rotated, ChangeError> {
    hold_enabled(&mut *conn, account, id).await?;
    let secret = SigningSecret::generate();
    let row = sqlx::query!(
        r#"update webhook_endpoints
           set sealed_prev_secret = sealed_secret, prev_secret_prefix = secret_prefix, sealed_secret = $2, secret_prefix = $3,
               secret_made_at = now(), reminded_at = null, grace_expires_at = now() + make_interval(secs => $4),
               grace_told_at = null
           where id = $1 returning prev_secret_prefix as "prev_secret_prefix!", grace_expires_at as "grace_expires_at!""#,
        id as _,
        secret.seal(vault, id),
        secret.shown_prefix(),
        grace.as_secs_f64(),
    )
    .fetch_one(&mut *conn)
    .await?;
    let payload = json!({
        "new_secret_prefix": secret.shown_prefix(),
        "old_secret_prefix": row.prev_secret_prefix,
        "grace_expires_at": row.grace_expires_at,
    });
    record(conn, account, actor, "webhook_endpoint.secret_rotated", id, payload).await?;
    Ok(Rotated { secret, prev_secret_prefix: row.prev_secret_prefix, grace_expires_at: row.grace_expires_at })
}

/// Whether something can be sent to an endpoint, which is held meanwhile.
///
/// # Errors
/// When there is none, it is disabled or paused, or the database fails.
pub(super) async fn require_told(
    conn: &mut PgConnection,
    account: AccountId,
    id: WebhookId,
) -> Result<(), ChangeError> {
    hold_enabled(&mut *conn, account, id).await?;
    let active = sqlx::query_scalar!("select active from webhook_endpoints where id = $1", id as _);
    if active.fetch_one(conn).await? { Ok(()) } else { Err(ChangeError::Paused) }
}
