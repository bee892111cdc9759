//! Prepares the files that a browser has written for saving.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::databases::Database;
use super::names::{Kind, parse_path};

/// Merges the journals of databases. Removes databases that are invalid or name files outside their folder: no browser
/// of this service has written them, and none receives them.
pub fn settle(folder: &Path) -> io::Result<()> {
    let mut databases = Vec::new();
    find(folder, "", &mut databases)?;
    for path in databases {
        match Database::open(&path).and_then(|database| database.check_blobs()) {
            Ok(()) => {}
            Err(error) if error.is_its_own() => {
                tracing::warn!(%error, path = %path.display(), "removing an invalid browser database from a profile");
                path.parent().map_or(Ok(()), fs::remove_dir_all)?;
            }
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(())
}

fn find(folder: &Path, prefix: &str, databases: &mut Vec<PathBuf>) -> io::Result<()> {
    for found in fs::read_dir(folder)? {
        let found = found?;
        let Ok(name) = found.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        let kind = found.file_type()?;
        if kind.is_dir() {
            find(&found.path(), &format!("{path}/"), databases)?;
        } else if kind.is_file() && matches!(parse_path(&path), Some((_, Kind::Database))) {
            databases.push(found.path());
        }
    }
    Ok(())
}
