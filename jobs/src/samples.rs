//! Measures the figures that staff see over time (contract: staff 25).

use kitfleet_domain::samples::{self, Figures};
use kitfleet_domain::sessions::live_counts;
use kitfleet_domain::workers;
use sqlx::PgConnection;

use crate::inspect;

/// Figures of the deployment now, under the names of the metrics.
pub async fn measure(conn: &mut PgConnection) -> sqlx::Result<Figures> {
    let mut values = samples::of_processes(&mut *conn).await?;
    for (status, sessions) in live_counts::live_by_status(&mut *conn).await? {
        values.add_labelled("service_sessions_live", "status", status.name(), number(sessions));
    }
    for (status, count) in workers::count_by_status(&mut *conn).await? {
        values.add_labelled("service_workers", "status", status, number(count));
    }
    let slots = workers::slots(&mut *conn).await?;
    values.add("service_worker_slots", number(slots.all));
    values.add("service_worker_slots_free", number(slots.free));
    for backlog in inspect::backlogs(conn).await? {
        values.add_labelled("service_job_queue_depth", "job_type", backlog.job_type, number(backlog.depth));
        values.add_labelled("service_job_queue_age_seconds", "job_type", backlog.job_type, backlog.age.as_secs_f64());
    }
    Ok(values)
}

fn number(count: i64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}
