//! Reads WebKit's databases.
//!
//! The files are untrusted: `SQLite` is configured to trust nothing in them, and a database with other tables than
//! WebKit's is rejected, so no view, trigger or expression can run.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Row};

use super::key_paths::KeyPath;
use super::keys::Key;
use super::names;
use super::schema;
use super::text::Text;
use super::values::{NoValue, Value};

const MAX_CELL: i32 = 64 * 1024 * 1024;
/// Maximum number of stores and indexes of a database, and of index keys of a record.
pub const MAX_STORES: usize = 1_000;
pub const MAX_INDEXES: usize = 1_000;
pub const MAX_INDEX_KEYS: usize = 10_000;
const MAX_BLOBS: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("the file is not a database of WebKit: {0}")]
    Strange(&'static str),
}

impl DatabaseError {
    /// False for other errors, such as a full disk.
    pub fn is_its_own(&self) -> bool {
        match self {
            Self::Sqlite(error) => {
                matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
            }
            Self::Strange(_) => true,
        }
    }
}

/// Error of reading a database, or of the callback that receives its content.
#[derive(Debug, thiserror::Error)]
pub enum ReadError<E> {
    #[error(transparent)]
    Unusable(#[from] DatabaseError),
    #[error(transparent)]
    Shown(E),
}

impl<E> From<rusqlite::Error> for ReadError<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Unusable(error.into())
    }
}

#[derive(Debug)]
pub struct Database(Connection);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    pub name: String,
    /// 0 if the page that creates the database has not finished.
    pub version: u64,
    pub stores: Vec<Store>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    pub id: i64,
    pub name: String,
    pub key_path: KeyPath,
    pub auto_increment: bool,
    pub last_key: i64,
    pub indexes: Vec<Index>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    pub id: i64,
    pub name: String,
    pub key_path: KeyPath,
    pub unique: bool,
    pub multi_entry: bool,
}

#[derive(Debug)]
pub struct Record {
    pub store: i64,
    pub key: Key,
    pub value: Value,
    pub index_keys: Vec<(i64, Key)>,
}

/// No other process has the file open. Merges its journal.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_CELL)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    // With exclusive locking, the journal needs no shared memory file.
    connection.execute_batch("pragma locking_mode = exclusive; pragma cell_size_check = on; pragma query_only = on")?;
    schema::name_order(&connection)?;
    Ok(connection)
}

fn require(connection: &Connection, (name, sql): (&str, &str), kind: &str) -> Result<(), DatabaseError> {
    let mut found = connection.prepare("select type, sql from sqlite_schema where name = ?1 collate nocase")?;
    let mut found = found.query([name])?;
    let as_made = match found.next()? {
        Some(row) => {
            row.get_ref(0)? == ValueRef::Text(kind.as_bytes()) && row.get_ref(1)? == ValueRef::Text(sql.as_bytes())
        }
        None => false,
    };
    if as_made && found.next()?.is_none() { Ok(()) } else { Err(DatabaseError::Strange("other tables")) }
}

impl Database {
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        let connection = open(path)?;
        for table in schema::INDEXED {
            require(&connection, table, "table")?;
        }
        require(&connection, schema::RECORD_INDEX, "index")?;
        Ok(Self(connection))
    }

    /// WebKit opens and removes files by these names.
    pub fn check_blobs(&self) -> Result<(), DatabaseError> {
        let mut files = self.0.prepare("select fileName from BlobFiles")?;
        let mut files = files.query([])?;
        let mut count = 0;
        while let Some(row) = files.next()? {
            count += 1;
            if count > MAX_BLOBS || !row.get_ref(0)?.as_str().is_ok_and(names::is_blob) {
                return Err(DatabaseError::Strange("a file outside its folder"));
            }
        }
        Ok(())
    }

    pub fn info(&self) -> Result<Info, DatabaseError> {
        let word = |key: &str| {
            let mut found = self.0.prepare("select value from IDBDatabaseInfo where key = ?1")?;
            let word = found.query_row([key], |row| text(row, 0)).optional()?;
            word.ok_or(DatabaseError::Strange("no name or version"))
        };
        let version = word("DatabaseVersion")?.parse().map_err(|_| DatabaseError::Strange("an invalid version"))?;
        Ok(Info { name: word("DatabaseName")?, version, stores: self.stores()? })
    }

    fn stores(&self) -> Result<Vec<Store>, DatabaseError> {
        let mut rows = self.0.prepare(
            "select id, name, keyPath, autoInc, coalesce((select currentKey from KeyGenerators where objectStoreID = id), 0)
             from ObjectStoreInfo order by id",
        )?;
        let mut rows = rows.query([])?;
        let mut stores = Vec::new();
        while let Some(row) = rows.next()? {
            if stores.len() == MAX_STORES {
                return Err(DatabaseError::Strange("too many stores"));
            }
            let id = row.get(0)?;
            let (auto_increment, last_key) = (row.get(3)?, row.get(4)?);
            let (name, key_path, indexes) = (text(row, 1)?, key_path(row, 2)?, self.indexes(id)?);
            stores.push(Store { id, name, key_path, auto_increment, last_key, indexes });
        }
        Ok(stores)
    }

    fn indexes(&self, store: i64) -> Result<Vec<Index>, DatabaseError> {
        let mut rows = self.0.prepare_cached(
            "select id, name, keyPath, isUnique, multiEntry from IndexInfo where objectStoreID = ?1 order by id",
        )?;
        let mut rows = rows.query([store])?;
        let mut indexes = Vec::new();
        while let Some(row) = rows.next()? {
            if indexes.len() == MAX_INDEXES {
                return Err(DatabaseError::Strange("too many indexes"));
            }
            indexes.push(Index {
                id: row.get(0)?,
                name: text(row, 1)?,
                key_path: key_path(row, 2)?,
                unique: row.get(3)?,
                multi_entry: row.get(4)?,
            });
        }
        Ok(indexes)
    }

    /// Passes each record to `show`, or its store and the reason why it cannot be decoded.
    pub fn records<E>(
        &self,
        mut show: impl FnMut(Result<Record, (i64, NoValue)>) -> Result<(), E>,
    ) -> Result<(), ReadError<E>> {
        let mut rows = self.0.prepare("select objectStoreID, key, value, recordID from Records order by recordID")?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let store = row.get(0)?;
            let record = self.record(store, row)?;
            show(record.map_err(|why| (store, why))).map_err(ReadError::Shown)?;
        }
        Ok(())
    }

    fn record(&self, store: i64, row: &Row<'_>) -> rusqlite::Result<Result<Record, NoValue>> {
        let decoded = key(row, 1).and_then(|key| Ok((key, Value::decode(bytes(row, 2)?)?)));
        let (key, value) = match decoded {
            Ok(decoded) => decoded,
            Err(why) => return Ok(Err(why)),
        };
        let index_keys = self.index_keys(store, row.get(3)?)?;
        Ok(index_keys.map(|index_keys| Record { store, key, value, index_keys }))
    }

    fn index_keys(&self, store: i64, record: i64) -> rusqlite::Result<Result<Vec<(i64, Key)>, NoValue>> {
        let mut rows = self.0.prepare_cached(
            "select indexID, key from IndexRecords indexed by IndexRecordsRecordIndex
             where objectStoreID = ?1 and objectStoreRecordID = ?2",
        )?;
        let mut rows = rows.query([store, record])?;
        let mut keys = Vec::new();
        while let Some(row) = rows.next()? {
            match key(row, 1) {
                _ if keys.len() == MAX_INDEX_KEYS => return Ok(Err(NoValue::TooLarge)),
                Ok(key) => keys.push((row.get(0)?, key)),
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(keys))
    }
}

/// `None` for an invalid item.
pub fn local_storage<E>(
    path: &Path,
    mut show: impl FnMut(Option<(&str, Text)>) -> Result<(), E>,
) -> Result<(), ReadError<E>> {
    let connection = open(path)?;
    require(&connection, schema::LOCAL, "table")?;
    let mut rows = connection.prepare("select key, value from ItemTable order by rowid")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let value = bytes(row, 1).ok().and_then(Text::of_utf16);
        show(row.get_ref(0)?.as_str().ok().zip(value)).map_err(ReadError::Shown)?;
    }
    Ok(())
}

/// WebKit writes keys and names as text or as blobs.
fn bytes<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], NoValue> {
    row.get_ref(column).ok().and_then(|value| value.as_bytes().ok()).ok_or(NoValue::Malformed("no bytes"))
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    let value = row.get_ref(column)?;
    let text = value.as_bytes().ok().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    text.ok_or_else(|| rusqlite::Error::InvalidColumnType(column, "not UTF-8".to_owned(), value.data_type()))
}

fn key(row: &Row<'_>, column: usize) -> Result<Key, NoValue> {
    Key::decode(bytes(row, column)?).ok_or(NoValue::Malformed("an invalid key"))
}

fn key_path(row: &Row<'_>, column: usize) -> Result<KeyPath, DatabaseError> {
    bytes(row, column).ok().and_then(KeyPath::decode).ok_or(DatabaseError::Strange("an invalid key path"))
}
