//! Figures of the service over time (contract: staff 25 to 27).
//!
//! Each process reports its own counters and gauges. A scheduled job adds them up once a minute, together with the gauges
//! that are read from the database.

use std::collections::BTreeMap;
use std::time::Duration;

use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::area::{Area, Bound, Purge, ScheduledJob};

pub(crate) const AREA: Area = Area {
    purges: &[
        Purge::new("samples", "service_samples", |conn, _, limit| Box::pin(purge(conn, limit))),
        Purge::new("samples", "process_figures", |conn, _, limit| Box::pin(purge_processes(conn, limit))),
    ],
    scheduled_jobs: &[SAMPLE],
    bounds: &[
        ("service_samples", Bound::Operator("one a minute, for 14 days")),
        ("process_figures", Bound::Operator("one for each process, until a day after it ended")),
    ],
    ..Area::named("samples")
};

pub const SAMPLE: ScheduledJob = ScheduledJob { name: "sample_service", period: 60 };

pub const KEPT: Duration = Duration::from_hours(14 * 24);

/// Gauge of the API processes.
pub const WAITING_CREATES: &str = "service_session_creates_waiting";

pub const REPORTS_EVERY: Duration = Duration::from_secs(30);

/// Values by name, such as `service_sessions_live{status="ready"}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// Adds to the figure of this name.
    pub fn add(&mut self, name: impl Into<String>, value: f64) {
        *self.0.entry(name.into()).or_default() += value;
    }

    pub fn add_labelled(&mut self, name: &str, label: &str, value_of_label: &str, value: f64) {
        self.add(format!("{name}{{{label}=\"{value_of_label}\"}}"), value);
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A counter's name ends with `_total` or `_count`, before its labels.
#[must_use]
pub fn is_counter(name: &str) -> bool {
    let bare = name.split('{').next().unwrap_or(name);
    bare.ends_with("_total") || bare.ends_with("_count")
}

/// Replaces the figures of a process.
pub async fn report(conn: &mut PgConnection, process: Uuid, figures: &Figures) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into process_figures (process, figures) values ($1, $2)
         on conflict (process) do update set figures = excluded.figures, seen_at = now()",
        process,
        Json(figures) as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Sums over the processes. Counters of a process that ended are included until its row is purged, so that a restart does not
/// lower the sum. Gauges are those of running processes.
pub async fn of_processes(conn: &mut PgConnection) -> sqlx::Result<Figures> {
    let reports = sqlx::query!(
        r#"select figures as "figures: Json<Figures>", seen_at > now() - make_interval(secs => $1) as "is_running!"
           from process_figures"#,
        REPORTS_EVERY.as_secs_f64() * 3.0,
    )
    .fetch_all(conn)
    .await?;
    let mut sum = Figures::default();
    for report in reports {
        for (name, value) in report.figures.0.0 {
            if report.is_running || is_counter(&name) {
                sum.add(name, value);
            }
        }
    }
    Ok(sum)
}

/// Sum of a gauge over the running processes. `None` when no process reports it.
pub async fn gauge(conn: &mut PgConnection, name: &str) -> sqlx::Result<Option<f64>> {
    sqlx::query_scalar!(
        "select sum((figures ->> $1)::float8) from process_figures where seen_at > now() - make_interval(secs => $2)",
        name,
        REPORTS_EVERY.as_secs_f64() * 3.0,
    )
    .fetch_one(conn)
    .await
}

/// Stores the sample of this minute. A second one in the same minute changes nothing.
pub async fn record(conn: &mut PgConnection, figures: &Figures) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into service_samples (at, figures) values (date_trunc('minute', now()), $1) on conflict (at) do nothing",
        Json(figures) as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A figure over time.
#[derive(Debug)]
pub struct Series {
    pub name: String,
    /// Array of `{at, value}`, the oldest first. The database writes it, because thousands of values would take longer as rows.
    pub points: Json<Box<RawValue>>,
}

/// The greatest value of each interval, ordered by name and time. A name without labels selects all figures of the metric.
pub async fn read(
    conn: &mut PgConnection,
    names: Option<&[String]>,
    since: Timestamp,
    step: Duration,
) -> sqlx::Result<Vec<Series>> {
    sqlx::query_as!(
        Series,
        // Materialized without an order, so that the database adds the values to a hash table: sorting them takes twice as long.
        r#"with point as materialized (
               select date_bin(make_interval(secs => $3), at, timestamptz 'epoch') as at, figure.key as name,
                      max(figure.value::float8) as value
               from service_samples, lateral jsonb_each_text(figures) figure
               where at >= $2 and ($1::text[] is null or figure.key = any($1) or split_part(figure.key, '{', 1) = any($1))
               group by 1, 2
           )
           select name as "name!",
                  json_agg(json_build_object('at', to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'value', value)
                           order by at) as "points!: Json<Box<RawValue>>"
           from point group by name order by name collate "C""#,
        names as _,
        since as _,
        step.as_secs_f64(),
    )
    .fetch_all(conn)
    .await
}

async fn purge(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from service_samples where at = any(array(
             select at from service_samples where at < now() - make_interval(secs => $1) limit $2 for update skip locked))",
        KEPT.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

async fn purge_processes(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from process_figures where process = any(array(
             select process from process_figures where seen_at < now() - interval '1 day' limit $1 for update skip locked))",
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
    fn counters_are_known_by_their_names() {
        assert!(is_counter("service_session_create_refusal_total{reason=\"full\"}"));
        assert!(is_counter("service_session_operation_duration_seconds_count"));
        assert!(!is_counter("service_sessions_live{status=\"ready\"}"));
        assert!(!is_counter("service_worker_slots"));
    }

    #[test]
    fn values_of_one_name_add_up() {
        let mut figures = Figures::default();
        figures.add("service_worker_slots", 2.0);
        figures.add("service_worker_slots", 3.0);
        figures.add_labelled("service_workers", "status", "active", 1.0);
        assert_eq!(figures.get("service_worker_slots"), Some(5.0));
        assert_eq!(figures.get("service_workers{status=\"active\"}"), Some(1.0));
    }
}
