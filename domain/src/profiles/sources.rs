//! What a profile can be made of.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio::time::{Instant, sleep};

use crate::account_share;
use crate::ids::{AccountId, ProfileId, SnapshotId};
use crate::profiles::{self, Origin, ProfileName, StoredProfile, snapshots};

/// How often whoever waits looks again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits while a worker keeps what the last session of the account's profile left: whoever destroyed that session expects to
/// find it. `false` when that takes longer than `patience`.
///
/// # Errors
/// When the database fails.
pub async fn wait_until_kept(
    db: &PgPool,
    account: AccountId,
    profile: ProfileId,
    patience: Duration,
) -> sqlx::Result<bool> {
    let deadline = Instant::now() + patience;
    while profiles::is_being_kept(&mut *db.acquire().await?, account, profile).await? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        account_share::release();
        sleep(LOOK_EVERY).await;
    }
    Ok(true)
}

/// What another profile holds, or held once.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// A profile, as it is now.
    Profile(ProfileId),
    /// As it was at one moment.
    Snapshot(SnapshotId),
}

impl Source {
    /// What it holds, unless it is another account's or in the recycle bin.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn find(self, conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<StoredProfile>> {
        match self {
            Self::Profile(id) => profiles::find_kept(conn, account, id).await,
            Self::Snapshot(id) => snapshots::find_kept(conn, account, id).await,
        }
    }

    /// What the new one says it was made of.
    #[must_use]
    pub fn origin(self) -> Origin {
        match self {
            Self::Profile(id) => Origin::Clone(id),
            Self::Snapshot(id) => Origin::Snapshot(id),
        }
    }

    /// What the new one is called without a name of its own.
    #[must_use]
    pub fn name(self, of: &str) -> ProfileName {
        match self {
            Self::Profile(_) => ProfileName::of_another(of, "copy"),
            Self::Snapshot(_) => ProfileName::of_another(of, "restored"),
        }
    }
}
