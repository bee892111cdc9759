//! Time of the last use of credentials. Writing it for each request would cost as much as the request, so it is collected and
//! written every few seconds in one statement.

use std::collections::HashSet;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kitfleet_domain::credentials::Credential;
use kitfleet_domain::{api_keys, web_sessions};
use kitfleet_types::ids::{ApiKeyId, WebSessionId};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

const WRITE_EVERY: Duration = Duration::from_secs(5);

/// Not written yet.
#[derive(Default)]
pub struct LastUsed(Mutex<CredentialUse>);

#[derive(Default)]
struct CredentialUse {
    keys: HashSet<ApiKeyId>,
    web_sessions: HashSet<WebSessionId>,
}

impl LastUsed {
    pub fn note(&self, credential: Credential) {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match credential {
            Credential::Key { id, .. } => {
                used.keys.insert(id);
            }
            Credential::WebSession { id, .. } => {
                used.web_sessions.insert(id);
            }
            // The last use of an OAuth token is not shown anywhere.
            Credential::OauthToken { .. } => {}
        }
    }

    /// Once more at the end.
    pub async fn write(&self, db: &PgPool, end: &CancellationToken) {
        loop {
            let ended = end.run_until_cancelled(tokio::time::sleep(WRITE_EVERY)).await.is_none();
            // A failed write is dropped; the next use replaces it.
            if let Err(error) = self.write_now(db).await {
                tracing::debug!(%error, "cannot record the last use of some credentials");
            }
            if ended {
                return;
            }
        }
    }

    pub async fn write_now(&self, db: &PgPool) -> sqlx::Result<()> {
        let used = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if used.keys.is_empty() && used.web_sessions.is_empty() {
            return Ok(());
        }
        let mut conn = db.acquire().await?;
        if !used.keys.is_empty() {
            api_keys::touch(&mut conn, &used.keys.into_iter().collect::<Vec<_>>()).await?;
        }
        if !used.web_sessions.is_empty() {
            web_sessions::touch(&mut conn, &used.web_sessions.into_iter().collect::<Vec<_>>()).await?;
        }
        Ok(())
    }
}
