//! The tables that WebKit makes, in its words: it compares them, and ends itself when they are others.

use rusqlite::Connection;

/// Tells `SQLite` the name of the order of keys, which tables of them name. Nothing here compares by it: only indexes do, and
/// those are WebKit's to make.
pub fn name_order(connection: &Connection) -> rusqlite::Result<()> {
    connection.create_collation("IDBKEY", str::cmp)
}

/// Of an `IndexedDB` database.
pub const INDEXED: [(&str, &str); 8] = [
    (
        "Records",
        "CREATE TABLE Records (objectStoreID INTEGER NOT NULL ON CONFLICT FAIL, key TEXT COLLATE IDBKEY NOT NULL ON CONFLICT FAIL, value NOT NULL ON CONFLICT FAIL, recordID INTEGER PRIMARY KEY)",
    ),
    (
        "IndexRecords",
        "CREATE TABLE IndexRecords (indexID INTEGER NOT NULL ON CONFLICT FAIL, objectStoreID INTEGER NOT NULL ON CONFLICT FAIL, key TEXT COLLATE IDBKEY NOT NULL ON CONFLICT FAIL, value TEXT COLLATE IDBKEY NOT NULL ON CONFLICT FAIL, objectStoreRecordID INTEGER NOT NULL ON CONFLICT FAIL)",
    ),
    (
        "BlobRecords",
        "CREATE TABLE BlobRecords (objectStoreRow INTEGER NOT NULL ON CONFLICT FAIL, blobURL TEXT NOT NULL ON CONFLICT FAIL)",
    ),
    (
        "BlobFiles",
        "CREATE TABLE BlobFiles (blobURL TEXT NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT FAIL, fileName TEXT NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT FAIL)",
    ),
    (
        "IDBDatabaseInfo",
        "CREATE TABLE IDBDatabaseInfo (key TEXT NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT REPLACE, value TEXT NOT NULL ON CONFLICT FAIL)",
    ),
    (
        "ObjectStoreInfo",
        "CREATE TABLE ObjectStoreInfo (id INTEGER PRIMARY KEY NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT FAIL, name TEXT NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT FAIL, keyPath BLOB NOT NULL ON CONFLICT FAIL, autoInc INTEGER NOT NULL ON CONFLICT FAIL)",
    ),
    (
        "IndexInfo",
        "CREATE TABLE IndexInfo (id INTEGER NOT NULL ON CONFLICT FAIL, name TEXT NOT NULL ON CONFLICT FAIL, objectStoreID INTEGER NOT NULL ON CONFLICT FAIL, keyPath BLOB NOT NULL ON CONFLICT FAIL, isUnique INTEGER NOT NULL ON CONFLICT FAIL, multiEntry INTEGER NOT NULL ON CONFLICT FAIL)",
    ),
    (
        "KeyGenerators",
        "CREATE TABLE KeyGenerators (objectStoreID INTEGER NOT NULL ON CONFLICT FAIL UNIQUE ON CONFLICT REPLACE, currentKey INTEGER NOT NULL ON CONFLICT FAIL)",
    ),
];

/// What finds a record's keys in indexes. WebKit makes the two other indexes itself, which are in the order of keys: an order
/// that it alone has to know.
pub const RECORD_INDEX: (&str, &str) = (
    "IndexRecordsRecordIndex",
    "CREATE INDEX IndexRecordsRecordIndex ON IndexRecords (objectStoreID, objectStoreRecordID)",
);

/// Of local storage.
pub const LOCAL: (&str, &str) =
    ("ItemTable", "CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB NOT NULL ON CONFLICT FAIL)");
