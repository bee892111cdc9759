//! What profiles hold (decisions D8): everything a site keeps in a browser.
//!
//! A *store* is the state of one profile at one moment: an archive of the browser's files and its cookies, compressed, sealed
//! under the profile's own key, and never changed once it is written. It streams from end to end, whatever its size: no more
//! than a few chunks are in memory. A profile refers to one store at a time, and so does each of its snapshots.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::Stream;
use kitfleet_domain::ids::{ProfileId, StoreId};
use kitfleet_domain::vault::Vault;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

/// A cookie, as a browser keeps it. The same members as the host protocol's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The host it is for; with a leading dot, the hosts below it too.
    pub domain: String,
    /// The path it is for.
    pub path: String,
    /// When it expires, in seconds since 1970; `None` for one that ends with the browser.
    pub expires: Option<i64>,
    /// Whether only https gets it.
    pub secure: bool,
    /// Whether scripts cannot see it.
    pub http_only: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: String,
}

/// What a browser holds when its session ends.
#[derive(Debug)]
pub struct Dump {
    /// All of its cookies.
    pub cookies: Vec<Cookie>,
    /// A folder with its site data, which nothing changes any more.
    pub files: PathBuf,
}

/// A store that is written, and that nobody refers to yet: what nobody refers to within an hour is removed.
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
    #[error("the sealed store is larger than {0} bytes")]
    TooLarge(u64),
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

/// Keeps stores and gives them back.
#[derive(Clone)]
pub struct Stores(Arc<Shared>);

struct Shared {
    db: PgPool,
    vault: Vault,
}

impl Stores {
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

    /// Puts the files of a store into an empty folder, and answers its cookies.
    ///
    /// # Errors
    /// When the store cannot be read.
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
    /// When one cannot be removed.
    pub async fn sweep(&self, batch: i64) -> Result<u64, ReadError> {
        todo!()
    }
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
