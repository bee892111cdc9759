//! Site data: the files, and the site of each (`webkit/names.rs`).

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use crate::scratch::Scratch;
use crate::webkit::names::{self, Kind, Site};

/// Includes the folders of the files.
pub const MAX_FILES: usize = 50_000;
pub const MAX_PATH: usize = 1_024;
/// Limit of Linux.
const MAX_NAME: usize = 255;
/// WebKit's longest paths have seven.
const MAX_NAMES: usize = 16;
/// Bytes of all paths of a store, because they are in memory.
const MAX_PATHS: usize = 8 * 1024 * 1024;
/// Bytes of all files of a store, because they must fit on the disk of a browser's machine.
pub const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Other folders are not saved.
pub const FOLDERS: [&str; 2] = ["localstorage", "databases"];

#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    /// Set if the files were built from a document. Removed on drop.
    _scratch: Option<Scratch>,
}

impl Files {
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl From<PathBuf> for Files {
    fn from(folder: PathBuf) -> Self {
        Self { folder, _scratch: None }
    }
}

impl From<Scratch> for Files {
    fn from(scratch: Scratch) -> Self {
        Self { folder: scratch.path().to_owned(), _scratch: Some(scratch) }
    }
}

/// Cannot leave the folder it is appended to: normal components separated by `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelativePath(String);

impl RelativePath {
    pub fn parse(path: &str) -> Option<Self> {
        let normal = Path::new(path).components().all(|component| matches!(component, Component::Normal(_)));
        // Rejects `a//b`, `a/./b` and `a/`, which are other spellings of valid paths.
        let spelled = path.split('/').all(|name| !name.is_empty() && name != "." && name.len() <= MAX_NAME)
            && path.split('/').count() <= MAX_NAMES;
        (normal && spelled && path.len() <= MAX_PATH && !path.contains('\0')).then(|| Self(path.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Innermost first.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(self.0.rsplit_once('/'), |(folder, _)| folder.rsplit_once('/')).map(|(folder, _)| folder)
    }
}

/// Folders also use space on the receiving disk.
#[derive(Default)]
pub struct Count {
    files: usize,
    folders: HashSet<String>,
    bytes: usize,
}

impl Count {
    /// `false` when a limit of a store is exceeded.
    pub fn add(&mut self, file: &RelativePath) -> bool {
        self.files += 1;
        self.bytes += file.as_str().len();
        for folder in file.folders() {
            // The parents of a known folder are known, too.
            if self.folders.contains(folder) {
                break;
            }
            self.bytes += folder.len();
            self.folders.insert(folder.to_owned());
        }
        self.files + self.folders.len() <= MAX_FILES && self.bytes <= MAX_PATHS
    }
}

pub struct Entry {
    pub path: RelativePath,
    pub size: u64,
    pub site: Site,
    pub kind: Kind,
    pub from: PathBuf,
}

impl Entry {
    /// Limited to the listed size.
    pub fn open(&self) -> io::Result<impl Read + use<>> {
        Ok(File::open(&self.from)?.take(self.size))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    #[error("more than {MAX_FILES} files and folders, or {MAX_PATHS} bytes of their paths")]
    TooMany,
    #[error("more than {MAX_BYTES} bytes of files")]
    TooLarge,
}

/// Grouped by site. Skips files whose names are not WebKit's, and files that WebKit recreates.
pub fn list(folder: &Path) -> Result<Vec<Entry>, ListError> {
    let mut entries = Vec::new();
    walk(folder, "", &mut entries, &mut Count::default())?;
    if entries.iter().map(|entry| entry.size).sum::<u64>() > MAX_BYTES {
        return Err(ListError::TooLarge);
    }
    entries.sort_by(|one, other| (&one.site, &one.path).cmp(&(&other.site, &other.path)));
    Ok(entries)
}

fn walk(folder: &Path, prefix: &str, entries: &mut Vec<Entry>, count: &mut Count) -> Result<(), ListError> {
    for found in fs::read_dir(folder)? {
        let found = found?;
        let kind = found.file_type()?;
        let path = found.file_name().to_str().and_then(|name| RelativePath::parse(&format!("{prefix}{name}")));
        let Some(path) = path else { continue };
        if kind.is_dir() {
            walk(&found.path(), &format!("{}/", path.as_str()), entries, count)?;
            continue;
        }
        // Links and sockets have no content to save.
        let Some((site, kind)) = names::parse_path(path.as_str()).filter(|_| kind.is_file()) else { continue };
        if kind != Kind::Shared {
            if !count.add(&path) {
                return Err(ListError::TooMany);
            }
            entries.push(Entry { path, size: found.metadata()?.len(), site, kind, from: found.path() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        for bad in ["", "/", "/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "a/.", "a\0b", &"a/".repeat(20)] {
            assert_eq!(RelativePath::parse(bad), None, "{bad}");
        }
        assert!(RelativePath::parse("a/b..c/d").is_some());
    }

    #[test]
    fn files_are_grouped_by_site_and_others_are_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let hash = "A".repeat(64);
        let all = [
            format!("databases/indexeddb/v1/https_a.example_0/{hash}/IndexedDB.sqlite3"),
            "localstorage/https_a.example_0.localstorage".to_owned(),
            "localstorage/https_a.example_0.localstorage-wal".to_owned(),
            format!("databases/indexeddb/v1/https_b.example_0/{hash}/1.blob"),
        ];
        let others = [
            "databases/known".to_owned(),
            "localstorage/https_a.example_0.localstorage-shm".to_owned(),
            format!("databases/indexeddb/v1/https_b.example_0/{hash}/IndexedDB.sqlite3-journal"),
        ];
        for path in all.iter().chain(&others) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        let link = folder.path().join("localstorage/https_c.example_0.localstorage");
        std::os::unix::fs::symlink("/etc/passwd", link).expect("a link");
        let listed = list(folder.path()).expect("a list");
        assert_eq!(listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), all);
    }
}
