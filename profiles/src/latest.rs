//! What a profile holds now, although a session that ends may put another store in the place of the one that was just found.

use std::io;

use bytes::Bytes;
use futures_util::Stream;
use kitfleet_domain::ids::{AccountId, ProfileId, StoreId};
use kitfleet_domain::profiles::sources::Source;
use kitfleet_domain::profiles::{Profile, StoredProfile, find_kept};

use crate::{CopyError, DocumentInfo, ReadError, Saved, Stores};

/// Why what a profile holds was not read.
#[derive(Debug, thiserror::Error)]
pub enum LatestError<E> {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// The store could not be read, or what was to be made of it could not.
    #[error(transparent)]
    Store(E),
}

impl Stores {
    /// Copies what `source` holds now, if anything, to another profile of the account, whose key seals the copy. `None` when
    /// there is no such source.
    ///
    /// # Errors
    /// Those of [`Stores::copy`], and when the database fails.
    pub async fn copy_latest(
        &self,
        account: AccountId,
        source: Source,
        to: (ProfileId, &[u8]),
    ) -> Result<Option<(StoredProfile, Option<Saved>)>, LatestError<CopyError>> {
        let mut unreadable = UnreadableStore::default();
        loop {
            let found = source.find(&mut *self.0.db.acquire().await?, account).await?;
            let Some(kept) = found else { return Ok(None) };
            let Some(store) = kept.store else { return Ok(Some((kept, None))) };
            match self.copy(account, (kept.profile.id, &kept.sealed_key, store), to).await {
                Ok(saved) => return Ok(Some((kept, Some(saved)))),
                Err(CopyError::Read(_)) if unreadable.for_the_first_time(store) => {}
                Err(error) => return Err(LatestError::Store(error)),
            }
        }
    }

    /// The account's profile of this id, and what it holds now as a document. `None` when there is no such profile.
    ///
    /// # Errors
    /// Those of [`Stores::export`], and when the database fails.
    pub async fn export_latest(
        &self,
        account: AccountId,
        profile: ProfileId,
    ) -> Result<Option<(Profile, impl Stream<Item = io::Result<Bytes>> + Send + use<>)>, LatestError<ReadError>> {
        let mut unreadable = UnreadableStore::default();
        loop {
            let found = find_kept(&mut *self.0.db.acquire().await?, account, profile).await?;
            let Some(kept) = found else { return Ok(None) };
            let about = DocumentInfo {
                exported_at: kept.read_at,
                profile,
                account,
                name: kept.profile.name.clone(),
                archetype: kept.profile.archetype.clone(),
            };
            match self.export(about, &kept.sealed_key, kept.store).await {
                Ok(document) => return Ok(Some((kept.profile, document))),
                Err(_) if kept.store.is_some_and(|store| unreadable.for_the_first_time(store)) => {}
                Err(error) => return Err(LatestError::Store(error)),
            }
        }
    }
}

/// The store that could not be read last. Another may be in its place by now, because a session ended; one that is still there is
/// given up.
#[derive(Default)]
struct UnreadableStore(Option<StoreId>);

impl UnreadableStore {
    fn for_the_first_time(&mut self, store: StoreId) -> bool {
        self.0.replace(store) != Some(store)
    }
}
