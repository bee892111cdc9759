//! Returns a worker to service (contract: workers 28; staff 20; command-line 20).

use kitfleet_domain::workers::{self, Worker};
use kitfleet_types::ids::WorkerId;
use sqlx::{Connection as _, PgConnection};

use crate::refused::Refused;

pub async fn undrain(conn: &mut PgConnection, id: WorkerId) -> Result<Worker, Refused> {
    let mut tx = conn.begin().await?;
    let is_returned = workers::undrain(&mut tx, id).await?;
    let worker = workers::find(&mut tx, id).await?.ok_or(Refused::Unknown)?;
    if !is_returned {
        let reason = match (worker.status.as_str(), &worker.version) {
            ("draining", None) => "the worker runs a version that cannot return to service; restart it".to_owned(),
            ("draining", Some(_)) => "the worker received a stop signal".to_owned(),
            (status, _) => format!("the worker is {status}"),
        };
        return Err(Refused::Conflict(reason));
    }
    tx.commit().await?;
    Ok(worker)
}
