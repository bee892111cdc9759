//! What profiles hold (decisions D8): everything a site keeps in a browser.
//!
//! A *store* is the state of one profile at one moment: an archive of the browser's files and its cookies, compressed, sealed
//! under the profile's own key, and never changed once it is written. It streams from end to end, whatever its size: no more
//! than a few chunks are in memory. A profile refers to one store at a time, and so does each of its snapshots.

mod cookies;
mod portable;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use kitfleet_domain::ids::{ProfileId, StoreId};
use kitfleet_domain::vault::Vault;
use sqlx::PgPool;

pub use self::cookies::Cookie;
pub use self::portable::{About, Document, DocumentError};

/// How stores are sealed, and where they are kept.
#[derive(Debug, Clone)]
pub struct StoresConfig {
    /// The deployment's keys, which seal those of the profiles; by default its processes share one.
    pub vault: Option<Vault>,
    /// Where stores are kept.
    pub place: PlaceConfig,
    /// A folder on a disk for what is on its way. Nothing in it has a name, and so nothing is left behind.
    pub scratch: PathBuf,
    /// Bytes of a store, sealed.
    pub store_bytes: u64,
    /// Bytes of a document that is imported.
    pub document_bytes: u64,
}

/// Where stores are kept.
#[derive(Debug, Clone, Default)]
pub enum PlaceConfig {
    /// In the database.
    #[default]
    Database,
}

/// What a browser holds when its session ends, or what a document says that one held.
#[derive(Debug)]
pub struct Dump {
    /// All of its cookies.
    pub cookies: Vec<Cookie>,
    /// Its site data.
    pub files: Files,
}

/// Site data, as files with relative paths.
#[derive(Debug)]
pub enum Files {
    /// A folder, all of which is to be kept and nothing changes any more.
    Folder(PathBuf),
}

impl From<PathBuf> for Files {
    fn from(folder: PathBuf) -> Self {
        Self::Folder(folder)
    }
}

/// A store that is written, and that nobody refers to yet: what nobody refers to within an hour is removed.
///
/// Whoever refers to it sets its row's `removable_at` to null first, in the same transaction, and has to find a row.
#[derive(Debug, Clone, Copy)]
pub struct Saved {
    /// The store.
    pub id: StoreId,
    /// Its size, sealed.
    pub size_bytes: i64,
}

/// Why there is no new store.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// Nothing is in it that a site has kept.
    #[error("the browser holds nothing")]
    Empty,
    /// The files cannot be read.
    #[error("the browser's files cannot be read: {0}")]
    Serialize(std::io::Error),
    /// The profile's key cannot be opened.
    #[error("the profile's key cannot be opened with the configured keys")]
    Seal,
    /// It is larger than a store may be.
    #[error("larger than a store may be: {0}")]
    TooLarge(String),
    /// It cannot be put where stores are kept.
    #[error("the store cannot be kept: {0}")]
    Upload(String),
}

/// Why a store cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The profile's key cannot be opened, or the store is not what was written.
    #[error("the store cannot be opened with the configured keys")]
    Sealed,
    /// It cannot be fetched, or put on disk.
    #[error("the store cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

/// Why a copy was not made.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The copy cannot be kept.
    #[error(transparent)]
    Save(#[from] SaveError),
}

/// What became of the profiles' keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Rotated {
    /// Those that the present key seals now.
    pub resealed: u64,
    /// Those that none of the configured keys opens.
    pub unreadable: u64,
}

/// Keeps stores and gives them back.
#[derive(Clone)]
pub struct Stores(Arc<Shared>);

struct Shared {
    db: PgPool,
    vault: Vault,
    config: StoresConfig,
}

impl Stores {
    /// # Errors
    /// When the database fails.
    pub async fn new(db: PgPool, config: StoresConfig) -> sqlx::Result<Self> {
        todo!()
    }

    /// A fresh key for a profile's stores, sealed with the deployment's: what `profiles.sealed_key` holds.
    #[must_use]
    pub fn new_key(&self, profile: ProfileId) -> Vec<u8> {
        todo!()
    }

    /// Writes what a browser holds as a new store of a profile.
    ///
    /// # Errors
    /// When it holds nothing, or the store cannot be made.
    pub async fn save(&self, profile: ProfileId, sealed_key: &[u8], dump: Dump) -> Result<Saved, SaveError> {
        todo!()
    }

    /// Puts the files of a store into a folder that has none of them, and answers its cookies.
    ///
    /// # Errors
    /// When the store cannot be read. Then the folder holds some of it.
    pub async fn restore(
        &self,
        profile: ProfileId,
        sealed_key: &[u8],
        store: StoreId,
        into: &Path,
    ) -> Result<Vec<Cookie>, ReadError> {
        todo!()
    }

    /// Copies a store to another profile, whose key seals the copy.
    ///
    /// # Errors
    /// When the store cannot be read, or the copy cannot be kept.
    pub async fn copy(&self, from: (ProfileId, &[u8], StoreId), to: (ProfileId, &[u8])) -> Result<Saved, CopyError> {
        todo!()
    }

    /// A profile as a document, which is read from its store as fast as somebody takes it. `None` is a profile that holds
    /// nothing yet.
    ///
    /// # Errors
    /// When the store cannot be read. What is found out later ends the stream with an error.
    pub async fn export(
        &self,
        about: About,
        sealed_key: &[u8],
        store: Option<StoreId>,
    ) -> Result<impl Stream<Item = std::io::Result<Bytes>> + Send + use<>, ReadError> {
        todo!();
        #[allow(unreachable_code)]
        Ok(futures_util::stream::empty())
    }

    /// Reads a document to its end and checks all of it; nothing is kept. Its [`Document::dump`] is for [`Stores::save`].
    ///
    /// # Errors
    /// When it is no such document, or breaks off.
    pub async fn read_document<B, E>(&self, body: B, unknown: &mut Vec<String>) -> Result<Document, DocumentError>
    where
        B: Stream<Item = Result<Bytes, E>> + Send + Unpin,
        E: std::fmt::Display,
    {
        todo!()
    }

    /// Removes a store that nobody refers to.
    ///
    /// # Errors
    /// When it cannot be removed now. It is tried again with the others that are removable.
    pub async fn remove(&self, store: StoreId) -> Result<(), ReadError> {
        todo!()
    }

    /// Removes up to `batch` stores that nobody refers to any more. Answers how many.
    ///
    /// # Errors
    /// When the database fails. A store that cannot be removed now is tried again later.
    pub async fn sweep(&self, batch: i64) -> sqlx::Result<u64> {
        todo!()
    }

    /// Seals every profile's key with the deployment's present key, so that those before it can be forgotten.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rotate_keys(&self) -> sqlx::Result<Rotated> {
        todo!()
    }
}
