//! Doing what has to be done, however long the database is away.

use std::time::Duration;

use kitfleet_domain::database::may_pass;
use tokio::time::sleep;

/// How long to wait before something is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Tries until it is done, as long as what stands in the way may pass. `what` says in a log what cannot be done meanwhile.
///
/// # Errors
/// When the database refuses it: it would do so again and again.
pub(crate) async fn persist<T, F>(what: &str, attempt: impl Fn() -> F) -> sqlx::Result<T>
where
    F: Future<Output = sqlx::Result<T>>,
{
    let mut told = false;
    loop {
        match attempt().await {
            Err(error) if may_pass(&error) => {
                if !told {
                    tracing::warn!(%error, "cannot {what} yet; trying again until that passes");
                    told = true;
                }
                sleep(RETRY).await;
            }
            ended => return ended,
        }
    }
}
