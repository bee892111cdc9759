//! Which owners are to be told of their endpoints' secrets (contract: webhooks 13; emails 8). Each is taken once a secret, by
//! whoever locks its row first, and not again when the taker's transaction commits. An endpoint that is disabled is told of
//! nothing, and nobody is told whose account may not act.

use std::time::Duration;

use sqlx::PgConnection;

use crate::ids::{AccountId, WebhookId};

/// How much of a grace is left at most when its owner is told ("last about 24 hours of a grace window"): of one that takes
/// 24 hours in all, at its beginning.
const NEARLY_OVER: Duration = Duration::from_hours(24);

/// A secret that should be replaced.
#[derive(Debug)]
pub struct OldSecret {
    /// Whose it is.
    pub endpoint: WebhookId,
    /// Whose that is.
    pub account: AccountId,
    /// How old it is.
    pub age_seconds: i64,
}

/// Takes secrets that have reached an age.
///
/// # Errors
/// When the database fails.
pub async fn take_old_secrets(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<Vec<OldSecret>> {
    sqlx::query_as!(
        OldSecret,
        r#"update webhook_endpoints set reminded_at = now()
           where id in (
               select e.id from webhook_endpoints e join accounts a on a.id = e.account_id
               where e.secret_made_at <= now() - make_interval(secs => $1) and e.reminded_at is null
                 and e.disabled_at is null and a.status = 'active'
               order by e.secret_made_at limit $2 for no key update of e skip locked
           )
           returning id as endpoint, account_id as account,
                     extract(epoch from now() - secret_made_at)::bigint as "age_seconds!""#,
        age.as_secs_f64(),
        limit,
    )
    .fetch_all(conn)
    .await
}

/// How many seconds old the oldest secret is that signs; 0 when none does.
///
/// # Errors
/// When the database fails.
pub async fn oldest_secret_seconds(conn: &mut PgConnection) -> sqlx::Result<f64> {
    sqlx::query_scalar!(
        r#"select coalesce(extract(epoch from now() - min(secret_made_at)), 0)::float8 as "seconds!"
           from webhook_endpoints where disabled_at is null"#
    )
    .fetch_one(conn)
    .await
}

/// A grace in which two secrets sign, and soon one.
#[derive(Debug)]
pub struct EndingGrace {
    /// Whose secrets they are.
    pub endpoint: WebhookId,
    /// Whose that is.
    pub account: AccountId,
    /// How long it lasts.
    pub seconds_left: f64,
}

/// Takes graces that are nearly over.
///
/// # Errors
/// When the database fails.
pub async fn take_ending_graces(conn: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<EndingGrace>> {
    sqlx::query_as!(
        EndingGrace,
        r#"update webhook_endpoints set grace_told_at = now()
           where id in (
               select e.id from webhook_endpoints e join accounts a on a.id = e.account_id
               where e.grace_expires_at > now() and e.grace_expires_at <= now() + make_interval(secs => $1)
                 and e.grace_told_at is null and e.disabled_at is null and a.status = 'active'
               order by e.grace_expires_at limit $2 for no key update of e skip locked
           )
           returning id as endpoint, account_id as account,
                     extract(epoch from grace_expires_at - now())::float8 as "seconds_left!""#,
        NEARLY_OVER.as_secs_f64(),
        limit,
    )
    .fetch_all(conn)
    .await
}
