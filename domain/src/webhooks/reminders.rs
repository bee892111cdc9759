//! Reminders about the secrets of endpoints (contract: webhooks 13; emails 8). Each secret is claimed once. Disabled
//! endpoints and accounts that are not active get no reminders.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, WebhookId};
use sqlx::PgConnection;

/// "Last about 24 hours of a grace window". A shorter one gets the reminder at its start.
const REMIND_BEFORE_END: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub struct OldSecret {
    pub endpoint: WebhookId,
    pub account: AccountId,
    pub age_seconds: i64,
}

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

/// 0 when there is none.
pub async fn oldest_secret_seconds(conn: &mut PgConnection) -> sqlx::Result<f64> {
    sqlx::query_scalar!(
        r#"select coalesce(extract(epoch from now() - min(secret_made_at)), 0)::float8 as "seconds!"
           from webhook_endpoints where disabled_at is null"#
    )
    .fetch_one(conn)
    .await
}

/// Two secrets sign until it ends.
#[derive(Debug)]
pub struct EndingGrace {
    pub endpoint: WebhookId,
    pub account: AccountId,
    /// Remaining seconds of the grace period.
    pub seconds_left: f64,
}

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
        REMIND_BEFORE_END.as_secs_f64(),
        limit,
    )
    .fetch_all(conn)
    .await
}
