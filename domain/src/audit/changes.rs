//! Limits how often an account can change its configuration (contract: audit-log 20 to 22): the audit log keeps a row
//! of each change permanently, so an account could fill the database by changing a setting in a loop.
//!
//! The first statement of a transaction counts its change in the account's row of `audited_changes`, so only committed
//! changes count, in all processes together. The limit is a bucket that refills evenly.

use std::num::NonZeroU32;
use std::time::Duration;

use kitfleet_types::ids::AccountId;
use sqlx::PgConnection;

pub const COUNTED: [&str; 25] = [
    "account.bundled_llm_consent_changed",
    "account.byok_provider_key_set",
    "account.byok_provider_key_tested",
    "account.email_preferences_changed",
    "account.mfa_enrolled",
    "agent_session.mode.changed",
    "agent_session.pair_mode.takeover",
    "api_key.minted",
    "api_key.rotated",
    "api_key.updated",
    "profile.created",
    "profile.exported",
    "profile.imported",
    "profile.restored",
    "proxy.created",
    "proxy.updated",
    "recipe.created",
    "team.member_invited",
    "team.member_role_changed",
    "team.updated",
    "trace_link.created",
    "webhook_delivery.replayed",
    "webhook_endpoint.created",
    "webhook_endpoint.secret_rotated",
    "webhook_endpoint.updated",
];

/// Each with the reason.
pub const NOT_COUNTED: [(&str, &str); 33] = [
    ("account.byok_provider_key_cleared", "a deletion"),
    ("account.email_changed", "its link is mailed"),
    ("account.email_verified", "a sign-in"),
    ("account.limits_changed", "an action of the system"),
    ("account.login", "a sign-in"),
    ("account.logout", "a sign-out"),
    ("account.mfa_disabled", "a deletion"),
    ("account.password_changed", "a sign-in: its link is mailed"),
    ("account.recovery_code_used", "a sign-in"),
    ("account.web_session_revoked", "a revocation"),
    ("admin.refund_recorded", "an action of staff"),
    ("admin.support_note", "an action of staff"),
    ("agent.decompose.claude", "a message to an agent session"),
    ("agent.decompose.deterministic", "a message to an agent session"),
    ("agent_session.created", "an agent session"),
    ("agent_session.destroyed", "an agent session"),
    ("agent_session.pair_mode.handback", "gives back what was taken over, which is counted"),
    ("agent_session.pair_mode.timeout", "an action of the system"),
    ("api_key.revoked", "a revocation"),
    ("approval.decided", "at most one for each message to an agent session"),
    ("profile.deleted", "a deletion"),
    ("profile.purged", "a deletion"),
    ("proxy.deleted", "a deletion"),
    ("recipe.deleted", "a deletion"),
    ("session.created", "a session"),
    ("session.destroyed", "a session"),
    ("subscription.tier_changed", "an action of the system"),
    ("team.invite_accepted", "one for each invitation, which is counted"),
    ("team.invite_revoked", "a revocation"),
    ("team.member_removed", "a revocation"),
    ("webhook_endpoint.deleted", "a deletion"),
    ("session.recording_deleted", "a deletion"),
    ("trace_link.revoked", "a revocation"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the account has reached its limit of configuration changes per hour ({limit})")]
pub struct TooManyChanges {
    pub limit: NonZeroU32,
    pub wait: Duration,
}

/// Time in which an empty bucket refills completely.
const WINDOW: Duration = Duration::from_hours(1);

/// Returns the time in which the bucket refills by one change.
fn share(per_hour: NonZeroU32) -> Duration {
    // Rounded down to whole microseconds, the resolution of the database, so that the sum of all shares does not exceed
    // 1 h.
    Duration::from_micros(u64::try_from(WINDOW.as_micros()).unwrap_or(u64::MAX) / u64::from(per_hour.get()))
}

/// `conn` must be in the transaction of the change and must not hold locks yet.
pub async fn count(
    conn: &mut PgConnection,
    account: AccountId,
    per_hour: NonZeroU32,
) -> sqlx::Result<Result<(), TooManyChanges>> {
    count_shares(conn, account, per_hour, 1).await
}

/// The later change that reverses it is never refused. When the limit is 1, both count as one change.
pub async fn count_with_undoing(
    conn: &mut PgConnection,
    account: AccountId,
    per_hour: NonZeroU32,
) -> sqlx::Result<Result<(), TooManyChanges>> {
    count_shares(conn, account, per_hour, per_hour.get().min(2)).await
}

async fn count_shares(
    conn: &mut PgConnection,
    account: AccountId,
    per_hour: NonZeroU32,
    shares: u32,
) -> sqlx::Result<Result<(), TooManyChanges>> {
    let share = share(per_hour) * shares;
    let counted = sqlx::query!(
        "insert into audited_changes as c (account_id, full_at) values ($1, clock_timestamp() + make_interval(secs => $2))
         on conflict (account_id) do update set full_at = greatest(c.full_at, clock_timestamp()) + make_interval(secs => $2)
         where greatest(c.full_at, clock_timestamp()) + make_interval(secs => $2) <= clock_timestamp() + make_interval(secs => $3)",
        account as _,
        share.as_secs_f64(),
        WINDOW.as_secs_f64(),
    )
    .execute(&mut *conn)
    .await?;
    if counted.rows_affected() > 0 {
        return Ok(Ok(()));
    }
    let seconds = sqlx::query_scalar!(
        r#"select extract(epoch from full_at + make_interval(secs => $2) - make_interval(secs => $3) - clock_timestamp())::float8
                  as "seconds!" from audited_changes where account_id = $1"#,
        account as _,
        share.as_secs_f64(),
        WINDOW.as_secs_f64(),
    )
    .fetch_one(conn)
    .await?;
    let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(Err(TooManyChanges { limit: per_hour, wait }))
}

/// Reverts [`count`] in the same transaction, for a change that turned out to change nothing.
pub async fn uncount(conn: &mut PgConnection, account: AccountId, per_hour: NonZeroU32) -> sqlx::Result<()> {
    sqlx::query!(
        "update audited_changes set full_at = full_at - make_interval(secs => $2) where account_id = $1",
        account as _,
        share(per_hour).as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_do_not_exceed_an_hour() {
        for count in [1, 3, 7, 1_000, 50_000] {
            let share = share(NonZeroU32::new(count).expect("more than none"));
            assert!(share * count <= WINDOW, "{count}");
            assert!(share * (count + 1) > WINDOW, "{count}");
        }
    }
}
