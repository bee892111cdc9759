//! Status page (contract: status): the measured state of the service, incidents posted by staff, and subscribers to
//! mails.

pub mod components;
pub mod history;
pub mod incidents;
pub mod notices;
pub mod subscribers;

use std::time::Duration;

use kitfleet_types::timestamp::Timestamp;
use sqlx::PgConnection;

use self::components::Measured;
use self::history::Day;
use self::incidents::Incident;
use crate::area::{Area, Bound, Purge, ScheduledJob};

pub(crate) const AREA: Area = Area {
    kept: &[
        ("incidents", "a few a year, written by staff"),
        ("incident_updates", "a few for each incident"),
        ("incident_notices", "a few for each incident"),
    ],
    purges: &[
        Purge::new("status", "status_days", |conn, _, limit| Box::pin(history::purge(conn, limit))),
        Purge::new("status", "status_reports", |conn, _, limit| Box::pin(components::purge_reports(conn, limit))),
        Purge::new("tokens", "status_subscribers", |conn, _, limit| {
            Box::pin(subscribers::purge_unconfirmed(conn, limit))
        }),
    ],
    mails: &["status_confirm", "status_subscribed", "incident_posted", "incident_updated", "incident_resolved"],
    scheduled_jobs: &[SAMPLE, SEND_NOTICES],
    bounds: &[
        ("incidents", Bound::Operator("written by staff")),
        ("incident_updates", Bound::Operator("written by staff")),
        ("incident_notices", Bound::Operator("a few for each incident")),
        ("status_days", Bound::Operator("90 days")),
        ("status_reports", Bound::Operator("one for each API process")),
        ("status_subscribers", Bound::Term("a day after an unused link expired; one for each confirmed address")),
    ],
    ..Area::named("status")
};

/// Measures every component for the history.
pub const SAMPLE: ScheduledJob = ScheduledJob { name: "sample_status", period: 60 };

pub const SEND_NOTICES: ScheduledJob = ScheduledJob { name: "send_incident_notices", period: 10 };

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Minimum interval between two updates of an incident to a subscriber.
    pub update_interval: Duration,
    pub confirm_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { update_interval: Duration::from_hours(1), confirm_ttl: Duration::from_hours(24) }
    }
}

#[derive(Debug, Clone)]
pub struct StatusPage {
    pub components: Vec<Measured>,
    /// Unresolved ones, the newest first.
    pub incidents: Vec<Incident>,
    /// Last 90 days, the newest first.
    pub history: Vec<Day>,
    pub at: Timestamp,
}

pub async fn load(conn: &mut PgConnection) -> sqlx::Result<StatusPage> {
    let components = components::measure(&mut *conn).await?;
    let incidents = incidents::list_open(&mut *conn).await?;
    let history = history::read(&mut *conn).await?;
    let at = sqlx::query_scalar!(r#"select now() as "now!: Timestamp""#).fetch_one(conn).await?;
    Ok(StatusPage { components, incidents, history, at })
}
