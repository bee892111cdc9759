//! Rate limit of configuration changes (contract: audit-log 20 to 22). Each change adds a permanent row to the audit log.

use kitfleet_domain::audit::changes::{self, TooManyChanges};
use kitfleet_types::ids::AccountId;
use sqlx::{Postgres, Transaction};

use crate::http::error::{Problem, Result};
use crate::http::state::App;

impl App {
    /// Only committed changes count.
    pub async fn begin_change(&self, account: AccountId) -> Result<Transaction<'static, Postgres>> {
        let mut tx = self.db.begin().await?;
        changes::count(&mut tx, account, self.config.limits.audited_changes_per_hour).await??;
        Ok(tx)
    }

    /// Counted for the change and for its undoing, which is then neither refused nor counted.
    pub async fn begin_change_with_undoing(&self, account: AccountId) -> Result<Transaction<'static, Postgres>> {
        let mut tx = self.db.begin().await?;
        changes::count_with_undoing(&mut tx, account, self.config.limits.audited_changes_per_hour).await??;
        Ok(tx)
    }
}

impl From<TooManyChanges> for Problem {
    fn from(error: TooManyChanges) -> Self {
        Self::rate_limited_by(error.to_string(), error.wait).with("limit", error.limit)
    }
}
