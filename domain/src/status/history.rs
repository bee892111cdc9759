//! Daily measurements (contract: status 7, 8).

use chrono::{Days, NaiveDate};
use sqlx::PgConnection;

use super::components::{Component, Measured, State};

/// UTC days, including today.
pub const DAYS: i32 = 90;

#[derive(Debug, Clone)]
pub struct Day {
    pub date: NaiveDate,
    pub components: Vec<DayOfComponent>,
}

#[derive(Debug, Clone, Copy)]
pub struct DayOfComponent {
    pub component: Component,
    pub samples: i32,
    /// `None` when there are no samples.
    pub state: Option<State>,
    /// Samples without an outage; `None` when there are no samples.
    pub uptime: Option<f64>,
}

struct Row {
    day: NaiveDate,
    component: Component,
    samples: i32,
    degraded: i32,
    partial: i32,
    major: i32,
}

impl From<&Row> for DayOfComponent {
    fn from(row: &Row) -> Self {
        let state = if row.major > 0 {
            State::MajorOutage
        } else if row.partial > 0 {
            State::PartialOutage
        } else if row.degraded > 0 {
            State::DegradedPerformance
        } else {
            State::Operational
        };
        let down = f64::from(row.partial) + f64::from(row.major);
        Self {
            component: row.component,
            samples: row.samples,
            state: Some(state),
            uptime: Some(1.0 - down / f64::from(row.samples.max(1))),
        }
    }
}

/// Adds to today's counts.
pub async fn record(conn: &mut PgConnection, measured: &[Measured]) -> sqlx::Result<()> {
    let known = measured.iter().filter_map(|measured| Some((measured.component.name(), measured.state?.name())));
    let (components, states): (Vec<_>, Vec<_>) = known.map(|(name, state)| (name.to_owned(), state.to_owned())).unzip();
    sqlx::query!(
        "insert into status_days (day, component, samples, degraded, partial, major)
         select (now() at time zone 'utc')::date, component, 1, (state = 'degraded_performance')::int,
                (state = 'partial_outage')::int, (state = 'major_outage')::int
         from unnest($1::text[], $2::text[]) as found (component, state)
         on conflict (day, component) do update
         set samples = status_days.samples + 1, degraded = status_days.degraded + excluded.degraded,
             partial = status_days.partial + excluded.partial, major = status_days.major + excluded.major",
        &components,
        &states,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The newest first, including days without samples.
pub async fn read(conn: &mut PgConnection) -> sqlx::Result<Vec<Day>> {
    let today =
        sqlx::query_scalar!(r#"select (now() at time zone 'utc')::date as "today!""#).fetch_one(&mut *conn).await?;
    let rows = sqlx::query_as!(
        Row,
        r#"select day, component as "component: _", samples, degraded, partial, major from status_days
           where day > $1::date - $2::int"#,
        today,
        DAYS,
    )
    .fetch_all(conn)
    .await?;
    let of = |date, component| {
        let row = rows.iter().find(|row| row.day == date && row.component == component);
        row.map_or(DayOfComponent { component, samples: 0, state: None, uptime: None }, DayOfComponent::from)
    };
    let dates = (0..u64::from(DAYS.unsigned_abs())).filter_map(|back| today.checked_sub_days(Days::new(back)));
    Ok(dates
        .map(|date| Day { date, components: Component::ALL.iter().map(|component| of(date, *component)).collect() })
        .collect())
}

/// Deletes days that are no longer shown.
pub(super) async fn purge(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from status_days where (day, component) in (
             select day, component from status_days where day <= (now() at time zone 'utc')::date - $1::int limit $2 for update skip locked)",
        DAYS,
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
