//! Builds databases in WebKit's format from values.
//!
//! A file is written without a journal and is discarded if an error occurs. It contains no blobs and therefore no file names.
//! WebKit creates the indexes over keys when it first opens the file.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params};

use super::databases::Store;
use super::schema;
use super::text::Text;

/// WebKit upgrades the tables to its own version.
const METADATA_VERSION: &str = "1";
const PAGE: u64 = 4096;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("the database exceeds its maximum size")]
    TooLarge,
    #[error("the database cannot be written: {0}")]
    Disk(io::Error),
}

#[derive(Debug)]
pub struct DatabaseBuilder {
    connection: Connection,
    max_pages: u32,
}

/// Stored with `SQLite`'s text type, regardless of their content, as WebKit stores keys.
struct Bytes<'a>(&'a [u8]);

impl ToSql for Bytes<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

impl DatabaseBuilder {
    pub fn database(path: &Path, max_bytes: u64) -> Result<Self, BuildError> {
        let tables = schema::INDEXED.into_iter().chain([schema::RECORD_INDEX]);
        Self::begin(path, max_bytes, tables)
    }

    pub fn local_storage(path: &Path, max_bytes: u64) -> Result<Self, BuildError> {
        Self::begin(path, max_bytes, [schema::LOCAL])
    }

    fn begin(
        path: &Path,
        max_bytes: u64,
        tables: impl IntoIterator<Item = (&'static str, &'static str)>,
    ) -> Result<Self, BuildError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(BuildError::Disk)?;
        }
        fs::File::create_new(path).map_err(BuildError::Disk)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(disk)?;
        let max_pages = u32::try_from((max_bytes / PAGE).max(1)).unwrap_or(u32::MAX);
        let building = Self { connection, max_pages };
        building.with(|connection| {
            connection.execute_batch(&format!(
                "pragma page_size = {PAGE}; pragma max_page_count = {}; pragma journal_mode = off; pragma synchronous = off;
                 pragma locking_mode = exclusive; begin",
                building.max_pages
            ))?;
            schema::name_order(connection)?;
            tables.into_iter().try_for_each(|(_, sql)| connection.execute_batch(sql))
        })?;
        Ok(building)
    }

    /// Detects whether the file became too large.
    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, BuildError> {
        work(&self.connection).map_err(|error| {
            let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
            if full && self.pages().is_ok_and(|pages| pages >= self.max_pages) {
                BuildError::TooLarge
            } else {
                disk(error)
            }
        })
    }

    pub fn item(&self, key: &str, value: &Text) -> Result<(), BuildError> {
        self.with(|connection| {
            let mut insert = connection.prepare_cached("insert into ItemTable values (?1, ?2)")?;
            insert.execute(params![key, value.utf16()]).map(drop)
        })
    }

    /// Key and value are in WebKit's encoding.
    pub fn record(&self, number: i64, store: i64, key: &[u8], value: &[u8]) -> Result<(), BuildError> {
        self.with(|connection| {
            let mut insert = connection.prepare_cached("insert into Records values (?1, ?2, ?3, ?4)")?;
            insert.execute(params![store, Bytes(key), value, number]).map(drop)
        })
    }

    pub fn index_key(
        &self,
        (store, index, number): (i64, i64, i64),
        key: &[u8],
        primary: &[u8],
    ) -> Result<(), BuildError> {
        self.with(|connection| {
            let mut insert = connection.prepare_cached("insert into IndexRecords values (?1, ?2, ?3, ?4, ?5)")?;
            insert.execute(params![index, store, Bytes(key), Bytes(primary), number]).map(drop)
        })
    }

    pub fn store(&self, store: &Store) -> Result<(), BuildError> {
        self.with(|connection| {
            let path = store.key_path.encode();
            connection.execute(
                "insert into ObjectStoreInfo values (?1, ?2, ?3, ?4)",
                params![store.id, store.name, path, store.auto_increment],
            )?;
            connection.execute("insert into KeyGenerators values (?1, ?2)", params![store.id, store.last_key])?;
            store.indexes.iter().try_for_each(|index| {
                let values =
                    params![index.id, index.name, store.id, index.key_path.encode(), index.unique, index.multi_entry];
                connection.execute("insert into IndexInfo values (?1, ?2, ?3, ?4, ?5, ?6)", values).map(drop)
            })
        })
    }

    pub fn name(&self, name: &str, version: u64) -> Result<(), BuildError> {
        let version = version.to_string();
        let words = [
            ("MetadataVersion", METADATA_VERSION),
            ("DatabaseName", name),
            ("DatabaseVersion", &version),
            ("MaxObjectStoreID", "1"),
        ];
        self.with(|connection| {
            words.iter().try_for_each(|(key, value)| {
                connection.execute("insert into IDBDatabaseInfo values (?1, ?2)", params![key, value]).map(drop)
            })
        })
    }

    /// Returns the size in bytes.
    pub fn finish(self) -> Result<u64, BuildError> {
        self.with(|connection| connection.execute_batch("commit"))?;
        let pages = self.pages().map_err(disk)?;
        self.connection.close().map_err(|(_, error)| disk(error))?;
        Ok(u64::from(pages) * PAGE)
    }

    fn pages(&self) -> rusqlite::Result<u32> {
        self.connection.pragma_query_value(None, "page_count", |row| row.get(0))
    }
}

fn disk(error: rusqlite::Error) -> BuildError {
    BuildError::Disk(io::Error::other(error))
}
