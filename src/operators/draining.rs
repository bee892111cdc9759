//! `kitfleet workers drain` (contract: workers 20, 21; command-line 14).

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kitfleet_domain::database::persist;
use kitfleet_domain::ids::WorkerId;
use kitfleet_domain::workers::{self, Drained};
use kitfleet_worker::incarnations;
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::cli::Drain;
use crate::config::Config;
use crate::database::Database;
use crate::output::Format;

/// How often whoever waits looks how far the worker has come.
const LOOK: Duration = Duration::from_millis(500);

/// Drains a worker, and with `--wait` waits until no session lives on it.
///
/// # Errors
/// When there is no such worker, it does not live, or sessions had to be ended.
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
        status => bail!("{id} cannot be drained: it is {status}"),
    }
    if order.wait && drained.live_sessions == 0 && order.deadline.is_none() {
        // What was ended in an earlier drain was told then.
        return order.format.report(&drained, progress);
    }
    if order.wait {
        return wait_until_empty(&database.patient_pool(), id, order.format).await;
    }
    ensure!(begun || order.deadline.is_some(), "{id} is draining already");
    order.format.print(&drained, |_| format!("{id} takes no more sessions"))
}

/// The worker of this id or, when it is the only one alive, of this name.
///
/// # Errors
/// When no living worker has the name, or several have it.
pub async fn worker_called(conn: &mut PgConnection, id_or_name: &str) -> Result<WorkerId> {
    if let Ok(id) = id_or_name.parse() {
        return Ok(id);
    }
    let alive = workers::list(conn, false).await?;
    let named = alive.iter().filter(|worker| worker.name == id_or_name).map(|worker| worker.id);
    match *named.collect::<Vec<_>>() {
        [id] => Ok(id),
        [] => bail!("no worker {id_or_name} is alive"),
        ref several => bail!("several workers are called {id_or_name}: name one by its id, of {}", list(several)),
    }
}

fn worker_of_this_machine(config: &Config) -> Result<WorkerId> {
    let place = config.data_dir.display();
    let living = incarnations::living(&config.data_dir).with_context(|| format!("looking for a worker in {place}"))?;
    match *living {
        [id] => Ok(id),
        [] => bail!("no worker runs on {place}"),
        // Workers of an earlier version can share one.
        ref several => bail!("several workers run on {place}: name one by its id, of {}", list(several)),
    }
}

fn list(ids: &[WorkerId]) -> String {
    ids.iter().map(WorkerId::to_string).collect::<Vec<_>>().join(", ")
}

/// An outage of the database is waited out, as by the worker itself.
async fn wait_until_empty(db: &PgPool, id: WorkerId, format: Format) -> Result<()> {
    let look = || async { workers::drained(&mut *db.acquire().await?, id).await };
    let mut told = None;
    loop {
        let drained = persist("see how far the worker has come", look).await?;
        let drained = drained.with_context(|| format!("{id} is gone"))?;
        if told.as_ref() != Some(&drained) {
            format.report(&drained, progress)?;
        }
        let Drained { live_sessions, ended_sessions, .. } = drained;
        match drained.status.as_str() {
            "lost" => bail!("{id} was lost while it drained, with the sessions that lived on it"),
            "active" => bail!("{id} was returned to service while it drained"),
            "draining" if live_sessions > 0 => {}
            _ => {
                ensure!(
                    ended_sessions == 0,
                    "at the deadline {} still lived, and had to be ended",
                    sessions(ended_sessions)
                );
                return Ok(());
            }
        }
        told = Some(drained);
        tokio::time::sleep(LOOK).await;
    }
}

fn progress(drained: &Drained) -> String {
    let Drained { id, status, live_sessions, drain_by, .. } = drained;
    match (live_sessions, drain_by) {
        (0, _) => format!("{id} is {status}, and no session lives on it"),
        (live, None) => format!("{id} is {status}: {} on it", sessions(*live)),
        (live, Some(by)) => format!("{id} is {status}: {} on it, until {by} at most", sessions(*live)),
    }
}

fn sessions(count: i64) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}
