//! Taking what a browser of ours has written, as it is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::databases::Database;
use super::names::{Kind, meaning};

/// Has what is in the journals of databases come into them, and removes a database that names files elsewhere, or cannot be
/// read: no browser of ours has written that, and it is given to none.
///
/// # Errors
/// When the folder cannot be read, or written.
pub fn settle(folder: &Path) -> io::Result<()> {
    let mut databases = Vec::new();
    find(folder, "", &mut databases)?;
    for path in databases {
        let settled = Database::open(&path).and_then(|database| database.check_blobs());
        if let (Err(error), Some(folder)) = (settled, path.parent()) {
            tracing::warn!(%error, database = %path.display(), "a database of a browser is not kept");
            fs::remove_dir_all(folder)?;
        }
    }
    Ok(())
}

fn find(folder: &Path, prefix: &str, databases: &mut Vec<PathBuf>) -> io::Result<()> {
    for found in fs::read_dir(folder)? {
        let found = found?;
        let Ok(name) = found.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        if found.file_type()?.is_dir() {
            find(&found.path(), &format!("{path}/"), databases)?;
        } else if matches!(meaning(&path), Some((_, Kind::Database))) {
            databases.push(found.path());
        }
    }
    Ok(())
}
