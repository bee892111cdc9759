use std::time::Duration;

use kitfleet_types::ids::{AccountId, ProfileId, SnapshotId};
use sqlx::{PgConnection, PgPool};
use tokio::time::{Instant, sleep};

use crate::account_share;
use crate::profiles::{self, Origin, ProfileName, StoredProfile, snapshots};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A worker saves the state of the last session: a client that destroyed the session expects its state. Returns false
/// when that takes longer than `patience`.
pub async fn wait_until_kept(
    db: &PgPool,
    account: AccountId,
    profile: ProfileId,
    patience: Duration,
) -> sqlx::Result<bool> {
    let deadline = Instant::now() + patience;
    while profiles::is_being_saved(&mut *db.acquire().await?, account, profile).await? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        account_share::release();
        sleep(POLL_INTERVAL).await;
    }
    Ok(true)
}

#[derive(Debug, Clone, Copy)]
pub enum Source {
    Profile(ProfileId),
    Snapshot(SnapshotId),
}

impl Source {
    /// Returns nothing if the source belongs to another account or is in the recycle bin.
    pub async fn find(self, conn: &mut PgConnection, account: AccountId) -> sqlx::Result<Option<StoredProfile>> {
        match self {
            Self::Profile(id) => profiles::find_kept(conn, account, id).await,
            Self::Snapshot(id) => snapshots::find_kept(conn, account, id).await,
        }
    }

    #[must_use]
    pub fn origin(self) -> Origin {
        match self {
            Self::Profile(id) => Origin::Clone(id),
            Self::Snapshot(id) => Origin::Snapshot(id),
        }
    }

    /// Default for the new profile.
    #[must_use]
    pub fn name(self, of: &str) -> ProfileName {
        match self {
            Self::Profile(_) => ProfileName::of_another(of, "copy"),
            Self::Snapshot(_) => ProfileName::of_another(of, "restored"),
        }
    }
}
