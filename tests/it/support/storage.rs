//! Local storage in WebKit's file format.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

pub fn write(file: &Path, items: impl IntoIterator<Item = (String, String)>) {
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let mut storage = Connection::open(file).expect("a database");
    let table = "CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB NOT NULL ON CONFLICT FAIL)";
    storage.execute_batch(table).expect("a table");
    let change = storage.transaction().expect("a transaction");
    for (key, value) in items {
        let value: Vec<u8> = value.encode_utf16().flat_map(u16::to_le_bytes).collect();
        change.execute("insert into ItemTable values (?1, ?2)", (key, value)).expect("an item");
    }
    change.commit().expect("a commit");
}

/// Ordered by key.
pub fn read(file: &Path) -> Vec<(String, String)> {
    let storage = Connection::open(file).expect("a database");
    let mut items = storage.prepare("select key, value from ItemTable order by key").expect("the table");
    let items = items.query_map([], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?))).expect("items");
    let text = |bytes: Vec<u8>| {
        let units = bytes.as_chunks().0.iter().copied().map(u16::from_le_bytes);
        String::from_utf16(&units.collect::<Vec<_>>()).expect("text")
    };
    items.map(|item| item.expect("an item")).map(|(key, value)| (key, text(value))).collect()
}
