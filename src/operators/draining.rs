//! `kitfleet workers drain` (contract: workers 20, 21; command-line 14).

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kitfleet_domain::database::persist;
use kitfleet_domain::workers::{self, DrainProgress};
use kitfleet_types::ids::WorkerId;
use kitfleet_worker::incarnations;
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::cli::Drain;
use crate::config::Config;
use crate::database::Database;
use crate::output::Format;

/// Interval between two reads of the worker's state while the command waits.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Drains a worker. With `--wait` it waits until the worker has no live session.
pub async fn drain(config: &Config, database: &Database, conn: &mut PgConnection, order: &Drain) -> Result<()> {
    let id = match &order.worker {
        Some(worker) => worker_called(conn, worker).await?,
        None => worker_of_this_machine(config)?,
    };
    let mut tx = conn.begin().await?;
    let begun = workers::drain(&mut tx, id).await?;
    if let Some(within) = order.deadline {
        workers::drain_within(&mut tx, id, within).await?;
    }
    let drained = workers::drained(&mut tx, id).await?.with_context(|| format!("there is no worker {id}"))?;
    tx.commit().await?;
    match drained.status.as_str() {
        "draining" => {}
        status => bail!("{id} cannot be drained: its status is {status}"),
    }
    if order.wait && drained.live_sessions == 0 && order.deadline.is_none() {
        // The command of the earlier drain has reported the sessions that it ended.
        return order.format.report(&drained, progress);
    }
    if order.wait {
        return wait_until_empty(&database.retrying_pool(), id, order.format).await;
    }
    ensure!(begun || order.deadline.is_some(), "{id} is already draining");
    order.format.print(&drained, |_| format!("{id} receives no more sessions"))
}

/// Finds a worker by its id, or by its name when exactly one live worker has it.
pub async fn worker_called(conn: &mut PgConnection, id_or_name: &str) -> Result<WorkerId> {
    if let Ok(id) = id_or_name.parse() {
        return Ok(id);
    }
    let alive = workers::list(conn, false).await?;
    let named = alive.iter().filter(|worker| worker.name == id_or_name).map(|worker| worker.id);
    match *named.collect::<Vec<_>>() {
        [id] => Ok(id),
        [] => bail!("no live worker is named {id_or_name}"),
        ref several => bail!("several live workers are named {id_or_name}: pass one of their ids: {}", list(several)),
    }
}

fn worker_of_this_machine(config: &Config) -> Result<WorkerId> {
    let place = config.data_dir.display();
    let living =
        incarnations::live_workers(&config.data_dir).with_context(|| format!("cannot look for a worker in {place}"))?;
    match *living {
        [id] => Ok(id),
        [] => bail!("no worker runs on {place}"),
        // Workers of an earlier version can share one.
        ref several => bail!("several workers run on {place}: pass one of their ids: {}", list(several)),
    }
}

fn list(ids: &[WorkerId]) -> String {
    ids.iter().map(WorkerId::to_string).collect::<Vec<_>>().join(", ")
}

/// Retries during an outage of the database, as the worker itself does.
async fn wait_until_empty(db: &PgPool, id: WorkerId, format: Format) -> Result<()> {
    let look = || async { workers::drained(&mut *db.acquire().await?, id).await };
    let mut reported = None;
    loop {
        let drained = persist("read the worker's drain progress", look).await?;
        let drained = drained.with_context(|| format!("{id} was deleted"))?;
        if reported.as_ref() != Some(&drained) {
            format.report(&drained, progress)?;
        }
        let DrainProgress { live_sessions, ended_sessions, .. } = drained;
        match drained.status.as_str() {
            "lost" => bail!("{id} was lost with its live sessions while it drained"),
            "active" => bail!("{id} was returned to service while it drained"),
            "draining" if live_sessions > 0 => {}
            _ => {
                ensure!(ended_sessions == 0, "had to end {} at the deadline", sessions(ended_sessions));
                return Ok(());
            }
        }
        reported = Some(drained);
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn progress(drained: &DrainProgress) -> String {
    let DrainProgress { id, status, live_sessions, drain_by, .. } = drained;
    match (live_sessions, drain_by) {
        (0, _) => format!("{id} is {status} and has no live session"),
        (live, None) => format!("{id} is {status} with {}", sessions(*live)),
        (live, Some(by)) => format!("{id} is {status} with {}, which end by {by}", sessions(*live)),
    }
}

fn sessions(count: i64) -> String {
    if count == 1 { "1 live session".to_owned() } else { format!("{count} live sessions") }
}
