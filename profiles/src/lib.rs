//! Content of profiles (contract: profiles 8 to 15): all data that sites keep in a browser.
//!
//! A *store* is the state of a profile at one moment: an immutable archive of cookies and files, compressed and
//! encrypted with the profile's own key. Stores are streamed, with only a few chunks in memory. A profile and each of
//! its snapshots refer to one store at a time.

mod archive;
mod blob_stores;
mod cookies;
mod files;
mod gate;
mod latest;
mod portable;
mod scratch;
mod seal;
mod webkit;

use std::fs::File;
use std::io::{self, Read, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use kitfleet_domain::account_semaphore::{AccountSemaphore, AcquireTimeout};
use kitfleet_domain::database::{self, begin};
use kitfleet_domain::profiles::{KEY_PURPOSE, stores};
use kitfleet_domain::vault::Vault;
use kitfleet_types::ids::{AccountId, ProfileId, StoreId};
use sqlx::{PgConnection, PgPool};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::blob_stores::{BlobStore, CHUNKS_IN_FLIGHT, Rows};
pub use self::blob_stores::{Bucket, Objects};
pub use self::cookies::Cookie;
use self::files::ListError;
pub use self::files::{FOLDERS, Files};
use self::gate::Gate;
pub use self::latest::LatestError;
pub use self::portable::{Document, DocumentError, DocumentInfo};
use self::scratch::Scratch;
use self::seal::{Opener, Sealer, StoreKey};

const BATCH: i64 = 500;
/// An unavailable storage would delay the other removals and hold connections.
const REMOVE_WITHIN: Duration = Duration::from_secs(10);
const FAILURES: u32 = 3;

#[derive(Debug, Clone)]
pub struct StoresConfig {
    /// By default the deployment's processes share a key in the database.
    pub vault: Option<Vault>,
    pub place: PlaceConfig,
    /// Named entries are locked while in use, so that leftovers of killed processes can be detected.
    pub scratch: PathBuf,
    /// Maximum size of an encrypted store.
    pub store_bytes: u64,
    pub document_bytes: u64,
}

#[derive(Debug, Clone, Default)]
pub enum PlaceConfig {
    #[default]
    Database,
    Objects(Objects),
}

#[derive(Debug)]
pub struct Dump {
    pub cookies: Vec<Cookie>,
    pub files: Files,
}

/// A written store without references; it is removed after 1 h unless a row refers to it.
///
/// To refer to it, a transaction first sets the row's `removable_at` to null, and must find the row.
#[derive(Debug, Clone, Copy)]
pub struct Saved {
    pub id: StoreId,
    /// Size of the encrypted store in bytes.
    pub size_bytes: i64,
}

/// Concurrent documents and copies in this process, and per account. Each may use hundreds of megabytes of disk and a
/// thread. The limit per account keeps one account's slow readers from using them all.
const AT_ONCE: usize = 16;
const AT_ONCE_OF_AN_ACCOUNT: usize = 2;

/// Wait for the account's slot. A slow reader may hold one for 1 h.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The browser contains no site data.
    #[error("the browser has no data to save")]
    Empty,
    #[error("the browser's files cannot be read: {0}")]
    Serialize(io::Error),
    /// The configured keys do not open the profile's key.
    #[error("the profile's key cannot be opened with the configured keys")]
    Seal,
    #[error("the data exceeds the maximum size of a profile store: {0}")]
    TooLarge(String),
    #[error("the store cannot be written: {0}")]
    Upload(String),
}

impl From<ListError> for SaveError {
    fn from(error: ListError) -> Self {
        match error {
            ListError::Unreadable(error) => Self::Serialize(error),
            ListError::TooMany | ListError::TooLarge => Self::TooLarge(error.to_string()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The configured keys do not open the profile's key.
    #[error("the profile's key cannot be opened with the configured keys")]
    Sealed,
    /// The store's content is not authentic or not complete.
    #[error("the store is damaged")]
    Damaged,
    #[error(transparent)]
    NotYet(#[from] AcquireTimeout),
    #[error("the store cannot be read: {0}")]
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::InvalidData { Self::Damaged } else { Self::Io(error) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Save(#[from] SaveError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Rotated {
    pub resealed: u64,
    pub unreadable: u64,
}

#[derive(Clone)]
pub struct Stores(Arc<Shared>);

struct Shared {
    db: PgPool,
    vault: Vault,
    place: Box<dyn BlobStore>,
    scratch: PathBuf,
    store_bytes: u64,
    document_bytes: u64,
    turns: AccountSemaphore,
    sweep: Mutex<()>,
}

pub async fn vault(conn: &mut PgConnection, configured: Option<&Vault>) -> sqlx::Result<Vault> {
    database::vault(conn, KEY_PURPOSE, configured).await
}

impl Stores {
    /// Also removes temporary files of killed processes.
    pub async fn new(db: PgPool, config: StoresConfig) -> sqlx::Result<Self> {
        let vault = vault(&mut *db.acquire().await?, config.vault.as_ref()).await?;
        let place: Box<dyn BlobStore> = match config.place {
            PlaceConfig::Database => Box::new(Rows(db.clone())),
            PlaceConfig::Objects(objects) => Box::new(objects),
        };
        let StoresConfig { scratch, store_bytes, document_bytes, .. } = config;
        if let Err(error) = scratch::sweep(&scratch) {
            tracing::warn!(%error, path = %scratch.display(), "cannot remove temporary profile files");
        }
        let (turns, sweep) = (AccountSemaphore::new(AT_ONCE, AT_ONCE_OF_AN_ACCOUNT), Mutex::new(()));
        Ok(Self(Arc::new(Shared { db, vault, place, scratch, store_bytes, document_bytes, turns, sweep })))
    }

    /// Creates a value for `profiles.sealed_key`.
    #[must_use]
    pub fn new_key(&self, profile: ProfileId) -> Vec<u8> {
        self.0.vault.seal(KEY_PURPOSE, &profile.to_string(), &rand::random::<[u8; 32]>())
    }

    /// Leaves out cookies that no document may contain, so that every store can be exported and imported. Browsers that
    /// follow the standard ignore such cookies.
    pub async fn save(&self, profile: ProfileId, sealed_key: &[u8], mut dump: Dump) -> Result<Saved, SaveError> {
        let key = self.key(profile, sealed_key).ok_or(SaveError::Seal)?;
        let (cookies, files, listed) = blocking(move || {
            webkit::capture::settle(dump.files.folder()).map_err(SaveError::Serialize)?;
            let listed = files::list(dump.files.folder())?;
            let left_out = cookies::enforce_limits(&mut dump.cookies);
            if left_out > 0 {
                tracing::warn!(%profile, left_out, kept = dump.cookies.len(), "profile keeps only part of the cookies");
            }
            if dump.cookies.is_empty() && listed.iter().all(|file| file.size == 0) {
                return Err(SaveError::Empty);
            }
            Ok((archive::serialize(&dump.cookies)?, dump.files, listed))
        })
        .await
        .map_err(SaveError::Serialize)??;
        let pack = move |sealer: &mut dyn Write| {
            // The files exist until the last of them is read.
            let _files = files;
            archive::pack(&cookies, &listed, sealer)
        };
        self.write(profile, key, Box::new(pack)).await
    }

    /// Restores a store into a folder and returns the cookies. Once the future is dropped nothing more is written, so
    /// the folder can be removed.
    ///
    /// After an error the folder may contain a part of the files.
    pub async fn restore(
        &self,
        profile: ProfileId,
        sealed_key: &[u8],
        store: StoreId,
        into: &Path,
    ) -> Result<Vec<Cookie>, ReadError> {
        let key = self.key(profile, sealed_key).ok_or(ReadError::Sealed)?;
        let (store_key, folder) = (StoreKey::derive(&key, profile, store), into.to_owned());
        let gate = Arc::new(Gate::default());
        let _closing = gate.close_when_dropped();
        let behind = Arc::clone(&gate);
        let unpack = move |sealed| archive::unpack(&mut Opener::new(store_key, Box::new(sealed))?, &folder, &behind);
        if let Some(cookies) = self.fetch(store, unpack).await? {
            return Ok(cookies);
        }
        let (store_key, folder) = (StoreKey::derive(&key, profile, store), into.to_owned());
        let (sealed, scratch) = (self.spool(store).await?, self.0.scratch.clone());
        let rebuild = move || {
            rebuild(&mut Opener::new(store_key, Box::new(sealed))?, &scratch, &mut |archive| {
                archive::unpack(archive, &folder, &gate)
            })
        };
        Ok(blocking(rebuild).await??.unwrap_or_default())
    }

    /// Waits for a slot of the account.
    pub async fn copy(
        &self,
        account: AccountId,
        from: (ProfileId, &[u8], StoreId),
        to: (ProfileId, &[u8]),
    ) -> Result<Saved, CopyError> {
        let key = self.key(from.0, from.1).ok_or(ReadError::Sealed)?;
        let new_key = self.key(to.0, to.1).ok_or(SaveError::Seal)?;
        let _turn = self.0.turns.take(account, PATIENCE).await.map_err(ReadError::from)?;
        let sealed = self.spool(from.2).await.map_err(ReadError::from)?;
        let key = StoreKey::derive(&key, from.0, from.2);
        let reseal =
            move |mut sealer: &mut dyn Write| io::copy(&mut Opener::new(key, Box::new(sealed))?, &mut sealer).map(drop);
        let copied = self.write(to.0, new_key, Box::new(reseal));
        copied.await.map_err(|error| match error {
            SaveError::Serialize(error) => CopyError::Read(error.into()),
            error => CopyError::Save(error),
        })
    }

    /// Waits for a slot of the account. The document is produced as fast as it is read. It ends with an error if the
    /// reader stalls for too long, or does not read all of it within 1 h.
    ///
    /// Errors that occur later end the stream.
    pub async fn export(
        &self,
        about: DocumentInfo,
        sealed_key: &[u8],
        store: Option<StoreId>,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, ReadError> {
        let profile = about.profile;
        let key = self.key(profile, sealed_key).ok_or(ReadError::Sealed)?;
        let turn = self.0.turns.take(about.account, PATIENCE).await?;
        let sealed = match store {
            Some(store) => Some((StoreKey::derive(&key, profile, store), self.spool(store).await?)),
            None => None,
        };
        let scratch = self.0.scratch.clone();
        let write = move |to: &mut dyn Write| {
            let _turn = turn;
            match sealed {
                Some((key, sealed)) => export(&about, &mut Opener::new(key, Box::new(sealed))?, &scratch, to),
                None => portable::write(&about, &[], None, to),
            }
        };
        Ok(portable::written(write).await?)
    }

    /// Validates a document and stores nothing; pass its [`Document::dump`] to [`Stores::save`]. Waits for a slot of
    /// the account, which the document holds until it is dropped. Adds the names of unknown members to `unknown`.
    pub async fn read_document<B, E>(
        &self,
        account: AccountId,
        body: B,
        unknown: &mut Vec<String>,
    ) -> Result<Document, DocumentError>
    where
        B: Stream<Item = Result<Bytes, E>> + Send,
        E: std::fmt::Display,
    {
        let turn = self.0.turns.take(account, PATIENCE).await?;
        let scratch = temporary_file(&self.0.scratch).map_err(DocumentError::Disk)?;
        let mut document = portable::receive(body, scratch, self.0.document_bytes).await?;
        let into = Scratch::new(&self.0.scratch).map_err(DocumentError::Disk)?;
        let read = move || {
            let mut unknown = Vec::new();
            (portable::read(&mut document, into, &mut unknown), unknown)
        };
        let (document, found) = blocking(read).await.map_err(DocumentError::Disk)?;
        unknown.extend(found);
        Ok(Document { _turn: Some(turn), ..document? })
    }

    /// Removes a store without references, unless it is being read.
    ///
    /// A store that cannot be removed now is removed by a later sweep.
    pub async fn remove(&self, store: StoreId) -> Result<(), ReadError> {
        let mut tx = begin(&self.0.db).await.map_err(io::Error::other)?;
        if stores::take_if_removable(&mut tx, store).await.map_err(io::Error::other)?.is_some() {
            self.remove_taken(&mut tx, store).await?;
        }
        Ok(tx.commit().await.map_err(io::Error::other)?)
    }

    /// Returns the number of removed stores. Removes none while another sweep of this process runs, and few while the
    /// storage is unavailable.
    pub async fn sweep(&self, batch: i64) -> sqlx::Result<u64> {
        let Ok(_alone) = self.0.sweep.try_lock() else { return Ok(0) };
        let (mut removed, mut failures) = (0, 0);
        for _ in 0..batch {
            let mut tx = begin(&self.0.db).await?;
            let Some(store) = stores::take_removable(&mut tx).await? else { break };
            match self.remove_taken(&mut tx, store).await {
                Ok(()) => {
                    tx.commit().await?;
                    removed += 1;
                }
                Err(error) => {
                    tx.rollback().await?;
                    tracing::warn!(%store, %error, "cannot remove a profile store: trying again later");
                    stores::postpone_removal(&mut *self.0.db.acquire().await?, store).await?;
                    failures += 1;
                    if failures == FAILURES {
                        break;
                    }
                }
            }
        }
        Ok(removed)
    }

    /// Afterwards, older keys are no longer needed.
    pub async fn rotate_keys(&self) -> sqlx::Result<Rotated> {
        let mut rotated = Rotated { resealed: 0, unreadable: 0 };
        let mut after = None;
        loop {
            let mut tx = begin(&self.0.db).await?;
            let keys = stores::sealed_keys(&mut tx, after, BATCH).await?;
            let Some(last) = keys.last() else { return Ok(rotated) };
            after = Some(last.profile);
            for stores::SealedKey { profile, sealed } in keys {
                let owner = profile.to_string();
                if let Ok(key) = self.0.vault.open(KEY_PURPOSE, &owner, &sealed) {
                    stores::reseal_key(&mut tx, profile, &self.0.vault.seal(KEY_PURPOSE, &owner, &key)).await?;
                    rotated.resealed += 1;
                } else {
                    tracing::warn!(%profile, "cannot open the key of a profile: no configured encryption key fits");
                    rotated.unreadable += 1;
                }
            }
            tx.commit().await?;
        }
    }

    fn key(&self, profile: ProfileId, sealed: &[u8]) -> Option<[u8; 32]> {
        self.0.vault.open(KEY_PURPOSE, &profile.to_string(), sealed).ok()?.try_into().ok()
    }

    async fn write(&self, profile: ProfileId, key: [u8; 32], produce: Produce) -> Result<Saved, SaveError> {
        let id = StoreId::generate();
        let (key, limit) = (StoreKey::derive(&key, profile, id), self.0.store_bytes);
        stores::begin(&mut *self.connection().await?, id, profile).await.map_err(upload)?;
        let (to_place, chunks) = mpsc::channel(CHUNKS_IN_FLIGHT);
        let produced = blocking(move || seal_all(key, limit, &to_place, produce));
        let (kept, produced) = tokio::join!(self.0.place.write(id, chunks), produced);
        // An error of the storage takes precedence, because it causes the other side to fail, too.
        let written = match (kept, produced.map_err(SaveError::Serialize).flatten()) {
            (Err(error), Err(SaveError::Upload(_)) | Ok(_)) => Err(upload(error)),
            (_, Err(error)) => Err(error),
            (Ok(()), Ok(size)) => self.finish(id, size).await,
        };
        if written.is_err() {
            self.discard(id).await;
        }
        written
    }

    async fn finish(&self, id: StoreId, size: u64) -> Result<Saved, SaveError> {
        let size_bytes = i64::try_from(size).map_err(upload)?;
        if stores::finish(&mut *self.connection().await?, id, size_bytes).await.map_err(upload)? {
            Ok(Saved { id, size_bytes })
        } else {
            Err(SaveError::Upload("the write took so long that the store was removed".to_owned()))
        }
    }

    async fn connection(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Postgres>, SaveError> {
        self.0.db.acquire().await.map_err(upload)
    }

    /// If this fails, a sweep removes it later.
    async fn discard(&self, store: StoreId) {
        let discarded = async {
            let mut tx = begin(&self.0.db).await.map_err(io::Error::other)?;
            self.remove_taken(&mut tx, store).await?;
            tx.commit().await.map_err(io::Error::other)
        };
        if let Err(error) = discarded.await {
            tracing::warn!(%store, %error, "cannot remove an unused profile store: trying again later");
        }
    }

    /// Deletes the row first: if the bytes cannot be removed, the transaction restores it.
    async fn remove_taken(&self, conn: &mut PgConnection, store: StoreId) -> io::Result<()> {
        stores::delete(conn, store).await.map_err(io::Error::other)?;
        timeout(REMOVE_WITHIN, self.0.place.remove(store)).await?
    }

    /// The store is not removed meanwhile.
    async fn fetch<T: Send + 'static>(
        &self,
        store: StoreId,
        consume: impl FnOnce(Chunks) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let mut tx = begin(&self.0.db).await.map_err(io::Error::other)?;
        if !stores::hold(&mut tx, store).await.map_err(io::Error::other)? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such store"));
        }
        let (to, chunks) = mpsc::channel(CHUNKS_IN_FLIGHT);
        let consumed = blocking(move || consume(Chunks { chunks, chunk: Bytes::new() }));
        let (given, consumed) = tokio::join!(self.0.place.read(&mut tx, store, to), consumed);
        // An error of the storage takes precedence, because it makes the store look truncated.
        given?;
        tx.commit().await.map_err(io::Error::other)?;
        consumed?
    }

    /// Uses a temporary file because a slow reader would hold the connection for too long.
    async fn spool(&self, store: StoreId) -> io::Result<File> {
        let mut file = temporary_file(&self.0.scratch)?;
        self.fetch(store, move |mut sealed| {
            io::copy(&mut sealed, &mut file)?;
            file.rewind()?;
            Ok(file)
        })
        .await
    }
}

fn export(about: &DocumentInfo, archive: &mut dyn Read, scratch: &Path, to: &mut dyn Write) -> io::Result<()> {
    let folder = Scratch::new(scratch)?;
    let cookies = archive::unpack_for_reading(archive, folder.path())?;
    portable::write(about, &cookies, Some(folder.path()), to)
}

/// Rebuilds an archive whose files were never validated from its values, as an export and an import would.
fn rebuild<T>(
    archive: &mut dyn Read,
    scratch: &Path,
    take: &mut dyn FnMut(&mut dyn Read) -> io::Result<T>,
) -> io::Result<T> {
    let mut document = temporary_file(scratch)?;
    export(&DocumentInfo::anonymous(), archive, scratch, &mut document)?;
    document.rewind()?;
    let read = portable::read(&mut io::BufReader::new(document), Scratch::new(scratch)?, &mut Vec::new());
    let read = read.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let mut rebuilt = temporary_file(scratch)?;
    let (cookies, listed) = match &read.dump {
        Some(dump) => (&dump.cookies[..], files::list(dump.files.folder()).map_err(io::Error::other)?),
        None => (&[][..], Vec::new()),
    };
    archive::pack(&archive::serialize(cookies).map_err(io::Error::other)?, &listed, &mut rebuilt)?;
    rebuilt.rewind()?;
    take(&mut rebuilt)
}

type Produce = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// Returns the size in bytes, at most `limit`.
fn seal_all(key: StoreKey, limit: u64, to_place: &Sender<Bytes>, produce: Produce) -> Result<u64, SaveError> {
    let (mut size, mut refused) = (0, None);
    let mut take = |chunk: Vec<u8>| {
        size += chunk.len() as u64;
        if size > limit {
            refused = Some(SaveError::TooLarge(format!("more than {limit} bytes")));
        } else if to_place.blocking_send(Bytes::from(chunk)).is_err() {
            refused = Some(SaveError::Upload("the storage accepts no more data".to_owned()));
        }
        if refused.is_some() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    let mut sealer = Sealer::new(key, &mut take);
    let done = produce(&mut sealer).and_then(|()| sealer.finish());
    match (refused, done) {
        (Some(refused), _) => Err(refused),
        (None, Err(error)) => Err(SaveError::Serialize(error)),
        (None, Ok(())) => Ok(size),
    }
}

fn upload(error: impl std::fmt::Display) -> SaveError {
    SaveError::Upload(error.to_string())
}

fn temporary_file(folder: &Path) -> io::Result<File> {
    std::fs::create_dir_all(folder)?;
    tempfile::tempfile_in(folder)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)
}

/// Reader of chunks for a blocking thread.
struct Chunks {
    chunks: Receiver<Bytes>,
    chunk: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        self.chunk.split_to(into.len().min(self.chunk.len())).as_ref().read(into)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rusqlite::Connection;

    use super::*;
    use crate::webkit::databases::{Database, Index, Store};
    use crate::webkit::key_paths::KeyPath;
    use crate::webkit::keys::Key;
    use crate::webkit::names::{self, Origin, Site};
    use crate::webkit::rebuilding::DatabaseBuilder;
    use crate::webkit::text::Text;
    use crate::webkit::values::Value;

    fn site() -> Site {
        Site { origin: Origin::parse("https://shop.example").expect("an origin"), embedded_in: None }
    }

    fn store() -> Store {
        let path = KeyPath::Several(vec!["a".to_owned(), "b.c".to_owned()]);
        let index = Index { id: 7, name: "by".to_owned(), key_path: path, unique: true, multi_entry: false };
        let key_path = KeyPath::One("id".to_owned());
        Store { id: 3, name: "items".to_owned(), key_path, auto_increment: true, last_key: 9, indexes: vec![index] }
    }

    fn database(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(names::database(&site(), name));
        let building = DatabaseBuilder::database(&path, 1 << 20).expect("a database");
        let key = Key::Text(Text::from("k")).encode().expect("a key");
        building.store(&store()).expect("a store");
        building.record(1, 3, &key, &Value::Bool(true).encode().expect("a value")).expect("a record");
        building.index_key((3, 7, 1), &Key::Number(1.5).encode().expect("a key"), &key).expect("an index key");
        building.name(name, 5).expect("a name");
        building.finish().expect("a database");
        path
    }

    /// Documents of an earlier version may contain files with paths of the worker, or code.
    #[test]
    fn store_that_was_never_validated_is_rebuilt() {
        let folder = tempfile::tempdir().expect("a folder");
        let change = |path: &Path, sql: &str| {
            let connection = Connection::open(path).expect("a database");
            connection.create_collation("IDBKEY", str::cmp).expect("an order");
            connection.execute_batch(sql).expect("a change");
        };
        let hostile = database(folder.path(), "shop");
        change(
            &hostile,
            "insert into BlobFiles values ('blob:x', '../../../x'); insert into BlobRecords values (1, 'blob:x')",
        );
        let strange = database(folder.path(), "view");
        change(&strange, "alter table Records rename to R; create view Records as select * from R");
        let listed = files::list(folder.path()).expect("a list");
        assert_eq!(listed.len(), 2);
        let mut packed = Vec::new();
        archive::pack(&archive::serialize(&[Cookie::sample("sid")]).expect("cookies"), &listed, &mut packed)
            .expect("an archive");

        let (scratch, into) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let cookies = rebuild(&mut packed.as_slice(), scratch.path(), &mut |archive| {
            archive::unpack(archive, into.path(), &Gate::default())
        });
        assert_eq!(cookies.expect("an archive").as_deref(), Some(&[Cookie::sample("sid")][..]));
        assert_eq!(fs::read_dir(scratch.path()).expect("a folder").count(), 0);
        let listed = files::list(into.path()).expect("a list");
        let [rebuilt] = &listed[..] else { unreachable!("the strange one is left out") };
        assert_eq!(rebuilt.path.as_str(), names::database(&site(), "shop"));
        let of_blobs = "select (select count(*) from BlobFiles) + (select count(*) from BlobRecords)";
        let blobs: i64 = Connection::open(&rebuilt.from)
            .and_then(|connection| {
                connection.create_collation("IDBKEY", str::cmp)?;
                connection.query_row(of_blobs, [], |row| row.get(0))
            })
            .expect("a count");
        assert_eq!(blobs, 0);

        let database = Database::open(&rebuilt.from).expect("a database");
        database.check_blobs().expect("no blobs");
        let described = database.info().expect("what it is");
        assert_eq!((described.name.as_str(), described.version), ("shop", 5));
        let (id, index_id) = (described.stores[0].id, described.stores[0].indexes[0].id);
        let Store { indexes, .. } = store();
        let indexes = indexes.into_iter().map(|of| Index { id: index_id, ..of }).collect();
        assert_eq!(described.stores, [Store { id, indexes, ..store() }]);
        let mut records = Vec::new();
        let shown = database.records(|record| {
            records.push(record.expect("a record"));
            Ok::<_, io::Error>(())
        });
        shown.expect("records");
        let [record] = &records[..] else { unreachable!("there is one") };
        assert_eq!((record.store, &record.key), (id, &Key::Text(Text::from("k"))));
        assert!(matches!(record.value, Value::Bool(true)));
        assert_eq!(record.index_keys, [(index_id, Key::Number(1.5))]);
    }

    #[test]
    fn damaged_databases_are_handled() {
        let folder = tempfile::tempdir().expect("a folder");
        let good = fs::read(database(folder.path(), "shop")).expect("a file");
        let strange = folder.path().join("strange");
        for step in 0..300 {
            let mut bytes = good.clone();
            for place in 0..4 {
                let at = (step * 7919 + place * 104_729) % bytes.len();
                bytes[at] = bytes[at].wrapping_add(u8::try_from(step % 250).expect("few") + 1);
            }
            fs::write(&strange, &bytes).expect("a file");
            if let Ok(database) = Database::open(&strange) {
                let _ = (database.check_blobs(), database.info(), database.records(|_| Ok::<_, io::Error>(())));
            }
        }
    }
}
