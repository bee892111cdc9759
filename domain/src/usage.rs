//! Usage of an account by UTC day (contract: usage). No limit depends on it.
//!
//! The statement that ends an operation counts it ([`crate::sessions::intents::finish`]). A trigger counts the minutes
//! of a session when the session ends, and readers add the minutes of live sessions. A minute counts when it begins, on
//! the day it begins.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{Datelike, Days, Months, NaiveDate, NaiveTime};
use kitfleet_types::ids::AccountId;
use kitfleet_types::operations::UsageKind;
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use sqlx::PgConnection;

use crate::accounts;
use crate::area::{Area, Bound, Purge};

pub(crate) const AREA: Area = Area {
    purges: &[
        Purge::new("usage", "usage_counts", |conn, terms, limit| Box::pin(purge(conn, terms.usage, limit))),
        Purge::new("usage", "usage_breakdown", |conn, terms, limit| {
            Box::pin(purge_breakdown(conn, terms.usage, limit))
        }),
    ],
    bounds: &[
        ("usage_counts", Bound::Term("`retention.usage` (400 days); 6 rows a day")),
        (
            "usage_breakdown",
            Bound::Term("`retention.usage` (400 days); 6 rows a day for each key, archetype and label in use"),
        ),
    ],
    ..Area::named("usage")
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Started minutes of sessions.
    pub session_minute: i64,
    pub navigate: i64,
    /// Taps, typed texts, scrolls and key presses.
    pub interact: i64,
    pub wait: i64,
    pub state_capture: i64,
    pub screenshot_capture: i64,
}

impl Totals {
    fn add(&mut self, used: &UsageCount) {
        *match used.record {
            UsageKind::SessionMinute => &mut self.session_minute,
            UsageKind::Navigate => &mut self.navigate,
            UsageKind::Interact => &mut self.interact,
            UsageKind::Wait => &mut self.wait,
            UsageKind::StateCapture => &mut self.state_capture,
            UsageKind::ScreenshotCapture => &mut self.screenshot_capture,
        } += used.count;
    }
}

#[derive(Debug)]
pub struct Summary {
    pub period_start: Timestamp,
    pub period_end: Timestamp,
    pub tier: Tier,
    pub totals: Totals,
}

pub async fn summary(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<Summary>> {
    let Some(owner) = accounts::find(&mut *conn, account).await? else { return Ok(None) };
    let today = today(&mut *conn).await?;
    let first = today - Days::new(u64::from(today.day0()));
    let next = first + Months::new(1);
    let mut totals = Totals::default();
    for used in used(conn, account, first, next).await? {
        totals.add(&used);
    }
    let midnight = |day: NaiveDate| Timestamp(day.and_time(NaiveTime::MIN).and_utc());
    Ok(Some(Summary { period_start: midnight(first), period_end: midnight(next), tier: owner.tier, totals }))
}

#[derive(Debug)]
pub struct Day {
    pub date: NaiveDate,
    pub totals: Totals,
}

/// The oldest first.
pub async fn series(conn: &mut PgConnection, account: AccountId, days: u32) -> sqlx::Result<Vec<Day>> {
    let today = today(&mut *conn).await?;
    let first = today - Days::new(u64::from(days));
    let mut by_day: HashMap<NaiveDate, Totals> = HashMap::new();
    for used in used(conn, account, first, today).await? {
        by_day.entry(used.day).or_default().add(&used);
    }
    let closed = first.iter_days().take_while(|date| *date < today);
    Ok(closed.map(|date| Day { date, totals: by_day.remove(&date).unwrap_or_default() }).collect())
}

#[derive(Debug, Serialize)]
pub struct AccountUsage {
    pub account_id: AccountId,
    pub email: String,
    pub tier: Tier,
    pub live_sessions: i64,
    pub totals: Totals,
}

/// Includes today (contract: staff 22). Ordered by session minutes and then by operations. With `only`, returns that
/// account, even without usage.
pub async fn by_account(
    conn: &mut PgConnection,
    days: u32,
    only: Option<AccountId>,
    limit: i64,
) -> sqlx::Result<Vec<AccountUsage>> {
    let first = today(&mut *conn).await? - Days::new(u64::from(days.saturating_sub(1)));
    let rows = sqlx::query!(
        r#"with used as (
               select account_id, record::text as record, count from usage_counts
               where day >= $1 and ($2::uuid is null or account_id = $2)
               union all
               select s.account_id, 'session_minute', lived.minutes
               from sessions s, session_minutes(s.created_at, now()) lived
               where s.live and s.status in ('ready', 'busy') and lived.day >= $1 and ($2 is null or s.account_id = $2)
           ), totals as (
               select account_id,
                      coalesce(sum(count) filter (where record = 'session_minute'), 0)::bigint as session_minute,
                      coalesce(sum(count) filter (where record = 'navigate'), 0)::bigint as navigate,
                      coalesce(sum(count) filter (where record = 'interact'), 0)::bigint as interact,
                      coalesce(sum(count) filter (where record = 'wait'), 0)::bigint as wait,
                      coalesce(sum(count) filter (where record = 'state_capture'), 0)::bigint as state_capture,
                      coalesce(sum(count) filter (where record = 'screenshot_capture'), 0)::bigint as screenshot_capture,
                      coalesce(sum(count) filter (where record <> 'session_minute'), 0)::bigint as operations
               from used group by account_id
           ), top as (
               select * from totals where session_minute + operations > 0
               order by session_minute desc, operations desc, account_id limit $3
           )
           select a.id, a.email, a.tier as "tier: Tier",
                  (select count(*) from sessions s where s.account_id = a.id and s.live) as "live_sessions!",
                  coalesce(t.session_minute, 0) as "session_minute!", coalesce(t.navigate, 0) as "navigate!",
                  coalesce(t.interact, 0) as "interact!", coalesce(t.wait, 0) as "wait!",
                  coalesce(t.state_capture, 0) as "state_capture!", coalesce(t.screenshot_capture, 0) as "screenshot_capture!"
           from (select account_id from top where $2 is null union all select $2 where $2 is not null) listed
                join accounts a on a.id = listed.account_id
                left join top t on t.account_id = a.id
           order by t.session_minute desc nulls last, t.operations desc nulls last, a.id"#,
        first,
        only as _,
        limit,
    )
    .fetch_all(conn)
    .await?;
    let accounts = rows.into_iter().map(|row| AccountUsage {
        account_id: row.id,
        email: row.email,
        tier: row.tier,
        live_sessions: row.live_sessions,
        totals: Totals {
            session_minute: row.session_minute,
            navigate: row.navigate,
            interact: row.interact,
            wait: row.wait,
            state_capture: row.state_capture,
            screenshot_capture: row.screenshot_capture,
        },
    });
    Ok(accounts.collect())
}

pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from usage_counts where ctid = any(array(
             select ctid from usage_counts
             where day < ((now() - make_interval(secs => $1)) at time zone 'utc')::date
             order by day limit $2 for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

async fn purge_breakdown(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from usage_breakdown where ctid = any(array(
             select ctid from usage_breakdown
             where day < ((now() - make_interval(secs => $1)) at time zone 'utc')::date
             order by day limit $2 for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Property of sessions that usage is broken down by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    ApiKey,
    Archetype,
    Label,
}

impl Dimension {
    pub const ALL: [Self; 3] = [Self::ApiKey, Self::Archetype, Self::Label];

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug)]
pub struct Breakdown {
    pub from: NaiveDate,
    pub to: NaiveDate,
    pub parts: Vec<BreakdownPart>,
}

#[derive(Debug)]
pub struct BreakdownPart {
    /// Id of the key or the archetype, or the label; `None` for sessions without one.
    pub key: Option<String>,
    /// Name of the API key, which may have been deleted since.
    pub key_name: Option<String>,
    pub totals: Totals,
}

/// Most parts of a breakdown. Labels are free texts, so there can be any number of them.
const MAX_PARTS: i64 = 1_000;

/// Of the last complete UTC days, with the most session minutes first (contract: usage 8).
pub async fn breakdown(
    conn: &mut PgConnection,
    account: AccountId,
    by: Dimension,
    days: u32,
) -> sqlx::Result<Breakdown> {
    let today = today(&mut *conn).await?;
    let first = today - Days::new(u64::from(days));
    let rows = sqlx::query!(
        r#"with used as (
               select key, record::text as record, count from usage_breakdown
               where account_id = $1 and dimension = $2 and day >= $3 and day < $4
               union all
               select coalesce(case $2 when 'api_key' then s.api_key_id::text when 'archetype' then s.archetype else s.label end, ''),
                      uses.record, uses.count
               from sessions s, session_uses(s.used, s.created_at, s.status in ('ready', 'busy')) uses
               where s.account_id = $1 and s.live and uses.day >= $3 and uses.day < $4
           ), totals as (
               select key,
                      coalesce(sum(count) filter (where record = 'session_minute'), 0)::bigint as session_minute,
                      coalesce(sum(count) filter (where record = 'navigate'), 0)::bigint as navigate,
                      coalesce(sum(count) filter (where record = 'interact'), 0)::bigint as interact,
                      coalesce(sum(count) filter (where record = 'wait'), 0)::bigint as wait,
                      coalesce(sum(count) filter (where record = 'state_capture'), 0)::bigint as state_capture,
                      coalesce(sum(count) filter (where record = 'screenshot_capture'), 0)::bigint as screenshot_capture
               from used group by key order by 2 desc, sum(count) desc, key limit $5
           )
           select t.key as "key!", k.name as "name?", session_minute as "session_minute!", navigate as "navigate!",
                  interact as "interact!", wait as "wait!", state_capture as "state_capture!",
                  screenshot_capture as "screenshot_capture!"
           from totals t left join api_keys k on $2 = 'api_key' and k.account_id = $1 and k.id::text = t.key
           order by session_minute desc, t.key"#,
        account as _,
        by.name(),
        first,
        today,
        MAX_PARTS,
    )
    .fetch_all(conn)
    .await?;
    let parts = rows.into_iter().map(|row| BreakdownPart {
        key: Some(row.key).filter(|key| !key.is_empty()),
        key_name: row.name,
        totals: Totals {
            session_minute: row.session_minute,
            navigate: row.navigate,
            interact: row.interact,
            wait: row.wait,
            state_capture: row.state_capture,
            screenshot_capture: row.screenshot_capture,
        },
    });
    Ok(Breakdown { from: first, to: today - Days::new(1), parts: parts.collect() })
}

async fn today(conn: &mut PgConnection) -> sqlx::Result<NaiveDate> {
    sqlx::query_scalar!(r#"select (now() at time zone 'utc')::date as "today!""#).fetch_one(conn).await
}

struct UsageCount {
    day: NaiveDate,
    record: UsageKind,
    count: i64,
}

/// Returns the account's usage by day, from `from` to before `until`.
async fn used(
    conn: &mut PgConnection,
    account: AccountId,
    from: NaiveDate,
    until: NaiveDate,
) -> sqlx::Result<Vec<UsageCount>> {
    sqlx::query_as!(
        UsageCount,
        r#"with used as (
               select day, record, count from usage_counts where account_id = $1 and day >= $2 and day < $3
               union all
               select lived.day, 'session_minute', lived.minutes
               from sessions s, session_minutes(s.created_at, now()) lived
               where s.account_id = $1 and s.live and s.status in ('ready', 'busy') and lived.day >= $2 and lived.day < $3
           )
           select day as "day!", record as "record!: UsageKind", sum(count)::bigint as "count!" from used group by day, record"#,
        account as _,
        from,
        until,
    )
    .fetch_all(conn)
    .await
}
