//! Reads the present content of a profile, although an ending session may replace its store meanwhile.

use std::io;

use bytes::Bytes;
use futures_util::Stream;
use kitfleet_domain::profiles::sources::Source;
use kitfleet_domain::profiles::{Profile, StoredProfile, find_kept};
use kitfleet_types::ids::{AccountId, ProfileId, StoreId};

use crate::{CopyError, DocumentInfo, ReadError, Saved, Stores};

#[derive(Debug, thiserror::Error)]
pub enum LatestError<E> {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// The store could not be read, or its copy or document could not be made.
    #[error(transparent)]
    Store(E),
}

impl Stores {
    /// Encrypts the copy with the new profile's key. `None` if there is no such source.
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
                Err(CopyError::Read(_)) if unreadable.is_new(store) => {}
                Err(error) => return Err(LatestError::Store(error)),
            }
        }
    }

    /// `None` if there is no such profile.
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
                Err(_) if kept.store.is_some_and(|store| unreadable.is_new(store)) => {}
                Err(error) => return Err(LatestError::Store(error)),
            }
        }
    }
}

/// An ending session may have replaced the store, so the read is retried; a store that is still current fails.
#[derive(Default)]
struct UnreadableStore(Option<StoreId>);

impl UnreadableStore {
    fn is_new(&mut self, store: StoreId) -> bool {
        self.0.replace(store) != Some(store)
    }
}
