//! Webhook endpoints: their URLs, subscriptions and signing secrets.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;

use super::secrets::SigningSecret;
use super::{Subscriptions, WebhookUrl};
use crate::accounts;
use crate::audit::{self, Actor, Entry};
use crate::vault::Vault;

#[derive(Debug, Clone)]
pub struct Endpoint {
    pub id: WebhookId,
    pub url: String,
    pub secret_prefix: String,
    /// Present while the previous secret still signs.
    pub prev_secret_prefix: Option<String>,
    /// Time the previous secret stops signing.
    pub rotation_grace_expires_at: Option<Timestamp>,
    pub events: Vec<String>,
    pub description: Option<String>,
    /// Neither paused nor disabled.
    pub active: bool,
    /// Consecutive dead letters.
    pub consecutive_failures: i32,
    pub last_success_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    pub disabled_at: Option<Timestamp>,
    pub delivered: i64,
    /// Number of deliveries that failed because the endpoint was disabled or deleted.
    pub failed: i64,
    pub dlq: i64,
    pub created_at: Timestamp,
}

#[derive(Debug)]
pub struct NewEndpoint<'a> {
    pub url: &'a WebhookUrl,
    pub events: &'a Subscriptions,
    pub description: Option<&'a str>,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the account has {0} webhook endpoints that are not disabled, the maximum; delete one first")]
    TooMany(u32),
    #[error("the account does not exist")]
    NoAccount,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Writes `webhook_endpoint.created`. The account's row is locked, so that concurrent calls count each other's
/// endpoints.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    new: NewEndpoint<'_>,
    max: u32,
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
    if count >= i64::from(max) {
        return Err(CreateError::TooMany(max));
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

/// Returns the account's endpoint with this id, including a deleted one.
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

#[derive(Debug, Clone, Copy)]
pub struct EndpointDescription<'a>(pub Option<&'a str>);

#[derive(Debug, Default)]
pub struct Changes<'a> {
    pub url: Option<WebhookUrl>,
    /// New event types, for future events.
    pub events: Option<Subscriptions>,
    pub description: Option<EndpointDescription<'a>>,
    /// False to pause the endpoint, true to resume it.
    pub active: Option<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("the endpoint does not exist")]
    NoEndpoint,
    #[error("the endpoint is disabled")]
    Disabled,
    #[error("the endpoint is paused")]
    Paused,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Writes `webhook_endpoint.updated` with the changed values.
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
        changes.description.and_then(|description| description.0),
    )
    .execute(&mut *conn)
    .await?;
    let payload = [
        ("url", url.map(Value::from)),
        ("events", events.map(Value::from)),
        ("description", changes.description.map(|description| Value::from(description.0))),
        ("active", changes.active.map(Value::from)),
    ];
    let payload: Map<_, _> = payload.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    record(&mut *conn, account, actor, "webhook_endpoint.updated", id, payload.into()).await?;
    find(conn, account, id).await?.ok_or(ChangeError::NoEndpoint)
}

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

/// Writes `webhook_endpoint.deleted`. Pending deliveries fail. A second call changes nothing.
pub async fn delete(conn: &mut PgConnection, account: AccountId, id: WebhookId, actor: &Actor) -> sqlx::Result<bool> {
    // This waits for transactions that write an event for the endpoint. Later transactions see it as deleted.
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

/// Deletes the endpoints of an account that is being deleted. Their pending deliveries fail, including those of this
/// transaction, and their secrets are erased. As for other objects of a deleted account, there is no audit entry.
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

/// Deletes up to `limit` rows of endpoints that were deleted longer ago than `age` and have no deliveries. Returns the
/// number of deleted rows.
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

#[derive(Debug)]
pub struct Rotated {
    pub secret: SigningSecret,
    pub prev_secret_prefix: String,
    /// Time the previous secret stops signing.
    pub grace_expires_at: Timestamp,
}

/// Writes `webhook_endpoint.secret_rotated`. The previous secret signs too for `grace`; an older one stops signing.
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

/// Locks the row.
pub(super) async fn require_active(
    conn: &mut PgConnection,
    account: AccountId,
    id: WebhookId,
) -> Result<(), ChangeError> {
    hold_enabled(&mut *conn, account, id).await?;
    let active = sqlx::query_scalar!("select active from webhook_endpoints where id = $1", id as _);
    if active.fetch_one(conn).await? { Ok(()) } else { Err(ChangeError::Paused) }
}
