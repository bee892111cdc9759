//! Measures the components of the service (contract: status 2 to 5).
//!
//! A failure for one customer does not show a failure of the service: an endpoint may be down, or a mailbox full. Mails
//! count only if they fail for three customers or more, and webhooks only by failures on the service's side.

use std::time::Duration;

use serde::Serialize;
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use crate::events::EventType;
use crate::webhooks::attempts;
use crate::workers::{self, Slots};

/// Fewer affected customers are no failure of the service.
const MIN_CUSTOMERS: i64 = 3;
const MIN_FAILURES: i64 = 10;
pub const REPORTS_EVERY: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, sqlx::Type, Serialize, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Component {
    Api,
    Workers,
    Webhooks,
    Mail,
    Database,
}

impl Component {
    /// All components, in the order in which the page shows them.
    pub const ALL: &'static [Self] = Self::VARIANTS;
    pub const NAMES: [&'static str; 5] = ["api", "workers", "webhooks", "mail", "database"];

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|component| component.name() == name)
    }
}

/// State of a component, in increasing order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum State {
    Operational,
    DegradedPerformance,
    PartialOutage,
    MajorOutage,
}

impl State {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub component: Component,
    /// `None` when it is unknown.
    pub state: Option<State>,
}

/// The database is operational, because it answers the queries.
pub async fn measure(conn: &mut PgConnection) -> sqlx::Result<Vec<Measured>> {
    let states = [
        (Component::Api, api(&mut *conn).await?),
        (Component::Workers, browsers(&mut *conn).await?),
        (Component::Webhooks, webhooks(&mut *conn).await?),
        (Component::Mail, mail(conn).await?),
        (Component::Database, State::Operational),
    ];
    Ok(states.map(|(component, state)| Measured { component, state: Some(state) }).into())
}

/// Number of customers with recent deliveries or mails, and of those with failures only.
struct Customers {
    all: i64,
    troubled: i64,
}

impl Customers {
    fn judge(&self) -> State {
        let Self { all, troubled } = *self;
        match troubled {
            ..MIN_CUSTOMERS => State::Operational,
            _ if troubled == all => State::MajorOutage,
            _ if troubled * 2 >= all => State::PartialOutage,
            _ if troubled * 10 >= all => State::DegradedPerformance,
            _ => State::Operational,
        }
    }
}

async fn api(conn: &mut PgConnection) -> sqlx::Result<State> {
    let reports = sqlx::query!(
        r#"select count(*) as "processes!", coalesce(sum(answered), 0)::bigint as "answered!",
                  coalesce(sum(failed), 0)::bigint as "failed!"
           from status_reports where seen_at > now() - make_interval(secs => $1)"#,
        REPORTS_EVERY.as_secs_f64() * 3.0,
    )
    .fetch_one(conn)
    .await?;
    Ok(match (reports.processes, reports.failed) {
        (0, _) => State::MajorOutage,
        (_, ..MIN_FAILURES) => State::Operational,
        (_, failed) if failed * 2 >= reports.answered => State::PartialOutage,
        (_, failed) if failed * 20 >= reports.answered => State::DegradedPerformance,
        _ => State::Operational,
    })
}

async fn browsers(conn: &mut PgConnection) -> sqlx::Result<State> {
    let workers = sqlx::query!(
        r#"select count(*) filter (where alive and status = 'active' and driver <> 'none') as "taking!",
                  count(*) filter (where alive and status = 'draining' and driver <> 'none') as "draining!",
                  count(*) filter (where status = 'lost' or not alive and status <> 'stopped') as "lost!"
           from workers, lateral (select last_seen_at > now() - make_interval(secs => $1) as alive) lease
           where last_seen_at > now() - interval '5 minutes'"#,
        workers::LEASE.as_secs_f64(),
    )
    .fetch_one(&mut *conn)
    .await?;
    let Slots { all, free } = workers::slots(conn).await?;
    Ok(match (workers.taking, workers.draining, workers.lost) {
        (0, 0, _) => State::MajorOutage,
        (0, ..) | (_, _, 1..) => State::PartialOutage,
        _ if all > 0 && free == 0 => State::DegradedPerformance,
        _ => State::Operational,
    })
}

/// Accounts with due deliveries that are examined.
const ACCOUNTS: i64 = 100;
/// Deliveries that are examined, the newest first.
const DELIVERIES: i64 = 2_000;

/// Judges by accounts, because one account can have any number of deliveries. A failure counts only if the service did
/// not attempt a due delivery, although it attempted no other delivery of the account, or could not sign. The
/// endpoint's owner is responsible for its response or its absence. `test.ping` events do not count.
async fn webhooks(conn: &mut PgConnection) -> sqlx::Result<State> {
    let customers = sqlx::query_as!(
        Customers,
        r#"with recursive waiting (account_id) as (
               -- Jumps from account to account in the index, however much is due to each.
               (select account_id from webhook_deliveries where due order by account_id limit 1)
               union all
               select next.account_id from waiting w
               cross join lateral (
                   select d.account_id from webhook_deliveries d
                   where d.due and d.account_id > w.account_id order by d.account_id limit 1
               ) next
           ), late as (
               select w.account_id from (select account_id from waiting limit $1) w
               where exists (
                         select from webhook_endpoints e
                         join webhook_deliveries d on d.account_id = e.account_id and d.endpoint_id = e.id
                         where e.account_id = w.account_id and e.active and e.disabled_at is null
                           and d.due and d.next_attempt_at < now() - interval '5 minutes' and d.event_type <> $3)
                 and not exists (
                         select from webhook_endpoints e
                         where e.account_id = w.account_id
                           and greatest(e.last_success_at, e.last_failure_at) > now() - interval '5 minutes')
           ), attempted as (
               select account_id, bool_or(status = 'delivered') as arrived, bool_or(last_error = $4) as unsigned
               from (
                   select account_id, status, attempts, last_error from webhook_deliveries
                   where id >= uuid_v7_of(now() - interval '15 minutes') and event_type <> $3 order by id desc limit $2
               ) recent
               where attempts > 0
               group by account_id
           )
           select count(*) as "all!",
                  count(*) filter (where l.account_id is not null or coalesce(a.unsigned and not a.arrived, false)) as "troubled!"
           from late l full join attempted a on a.account_id = l.account_id"#,
        ACCOUNTS,
        DELIVERIES,
        EventType::TestPing.name(),
        attempts::UNSIGNED,
    )
    .fetch_one(conn)
    .await?;
    Ok(customers.judge())
}

/// A mail that the recipient's mailbox refused counts as sent.
async fn mail(conn: &mut PgConnection) -> sqlx::Result<State> {
    let customers = sqlx::query_as!(
        Customers,
        r#"select count(*) as "all!", count(*) filter (where troubled) as "troubled!"
           from (
               select bool_and(outcome is null or outcome in ('transport', 'rate-limited', 'unknown', 'pending-approval'))
                          as troubled
               from (
                   select outcome, attempts, created_at,
                          coalesce(account_id::text, email_key, invite_id::text, subscriber_id::text) as reader
                   from emails where id >= uuid_v7_of(now() - interval '15 minutes') order by id desc limit 2000
               ) recent
               where outcome is not null or attempts = 0 and created_at < now() - interval '5 minutes'
               group by reader
           ) customers"#,
    )
    .fetch_one(conn)
    .await?;
    Ok(customers.judge())
}

/// Requests since the last report: all, and those answered with a 500.
pub async fn report(conn: &mut PgConnection, process: Uuid, answered: i64, failed: i64) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into status_reports (process, answered, failed) values ($1, $2, $3)
         on conflict (process) do update set answered = excluded.answered, failed = excluded.failed, seen_at = now()",
        process,
        answered,
        failed,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes up to `limit` reports of processes that no longer exist. Returns the number of deleted rows.
pub(super) async fn purge_reports(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from status_reports where process = any(array(
             select process from status_reports where seen_at < now() - interval '1 day' limit $1 for update skip locked))",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_names_match_the_contract() {
        let names: Vec<_> = Component::ALL.iter().map(|component| component.name()).collect();
        assert_eq!(names, Component::NAMES);
    }

    /// Contract: status 4.
    #[test]
    fn failures_for_few_customers_do_not_count() {
        for (all, troubled, state) in [
            (0, 0, State::Operational),
            (2, 2, State::Operational),
            (3, 3, State::MajorOutage),
            (6, 3, State::PartialOutage),
            (30, 3, State::DegradedPerformance),
            (31, 3, State::Operational),
            (1_000, 99, State::Operational),
            (1_000, 100, State::DegradedPerformance),
            (1_000, 999, State::PartialOutage),
        ] {
            assert_eq!(Customers { all, troubled }.judge(), state, "{troubled} of {all}");
        }
    }
}
