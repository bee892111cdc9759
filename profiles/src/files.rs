//! Site data: files, and which site each is of.
//!
//! WebKit names what it keeps for a site by the site's origin: `localstorage/https_example.com_0.localstorage`, and below
//! `databases/indexeddb/v1/https_example.com_0/`, where what a frame of another site keeps has a folder of that one's.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Files of a store and the folders that they lie in, at most.
pub const MAX_FILES: usize = 50_000;
/// Bytes of a file's path, at most.
pub const MAX_PATH: usize = 1_024;
/// Bytes of a name in a path, at most: Linux has no longer ones.
const MAX_NAME: usize = 255;
/// Names in a path, at most. The longest of WebKit's paths have seven.
const MAX_NAMES: usize = 16;
/// Bytes of all paths of a store, at most: they are in memory.
const MAX_PATHS: usize = 8 * 1024 * 1024;
/// Bytes of all files of a store, at most. What a browser has to be given must fit its machine's disk.
pub const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Where a browser keeps what sites store, below its own folder. Nothing else of it is kept.
pub const FOLDERS: [&str; 2] = ["localstorage", "databases"];

/// Site data, as files with relative paths.
#[derive(Debug)]
pub enum Files {
    /// A folder, all of which is to be kept and nothing changes any more.
    Folder(PathBuf),
    /// What a document has brought.
    Spooled(Spooled),
}

impl From<PathBuf> for Files {
    fn from(folder: PathBuf) -> Self {
        Self::Folder(folder)
    }
}

/// Files one after the other in one that has no name: it is gone when the process is.
#[derive(Debug)]
pub struct Spooled {
    /// Their bytes.
    pub bytes: Arc<File>,
    /// Which are whose.
    pub files: Vec<SpooledFile>,
}

/// A file among [`Spooled`] ones.
#[derive(Debug)]
pub struct SpooledFile {
    /// Where it belongs.
    pub path: RelativePath,
    /// Where it begins.
    pub at: u64,
    /// Its size.
    pub size: u64,
}

/// A path that leads nowhere else, whatever it is appended to: normal components, `/` between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelativePath(String);

impl RelativePath {
    /// `None` for every other path.
    pub fn parse(path: &str) -> Option<Self> {
        let normal = Path::new(path).components().all(|component| matches!(component, Component::Normal(_)));
        // `a//b`, `a/./b` and `a/` have normal components only, and are other spellings of what has one already.
        let spelled = path.split('/').all(|name| !name.is_empty() && name != "." && name.len() <= MAX_NAME)
            && path.split('/').count() <= MAX_NAMES;
        (normal && spelled && path.len() <= MAX_PATH && !path.contains('\0')).then(|| Self(path.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it lies where a browser keeps what sites store.
    pub fn is_site_data(&self) -> bool {
        self.0.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder))
    }

    /// The folders that it lies in, innermost first.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(self.0.rsplit_once('/'), |(folder, _)| folder.rsplit_once('/')).map(|(folder, _)| folder)
    }

    /// The site that the file is of, such as `https://example.com`, if its path says so.
    pub fn origin(&self) -> Option<String> {
        match self.0.split('/').collect::<Vec<_>>()[..] {
            ["localstorage", file] => origin(file.split_once(".localstorage")?.0),
            ["databases", "indexeddb", _, site, frame, _, ..] => origin(frame).or_else(|| origin(site)),
            ["databases", "indexeddb", _, site, _, ..] => origin(site),
            _ => None,
        }
    }
}

impl Borrow<str> for RelativePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Counts files, and the folders that they lie in, each of which is one more on the disk of whoever gets them.
#[derive(Default)]
pub struct Count {
    files: usize,
    folders: HashSet<String>,
    bytes: usize,
}

impl Count {
    /// Counts a file. `false` when a store does not hold so many.
    pub fn add(&mut self, file: &RelativePath) -> bool {
        self.files += 1;
        self.bytes += file.as_str().len();
        for folder in file.folders() {
            // One that is known lies in folders that are known.
            if self.folders.contains(folder) {
                break;
            }
            self.bytes += folder.len();
            self.folders.insert(folder.to_owned());
        }
        self.files + self.folders.len() <= MAX_FILES && self.bytes <= MAX_PATHS
    }
}

/// The origin that WebKit has written as a name: scheme, host and port with `_` between them; the port is 0 where it is the
/// scheme's.
fn origin(name: &str) -> Option<String> {
    let (scheme, rest) = name.split_once('_')?;
    let (host, port) = rest.rsplit_once('_')?;
    let port: u16 = port.parse().ok()?;
    let host = percent_encoding::percent_decode_str(host).decode_utf8().ok()?;
    if !["http", "https"].contains(&scheme) || host.is_empty() {
        return None;
    }
    Some(if port == 0 { format!("{scheme}://{host}") } else { format!("{scheme}://{host}:{port}") })
}

/// A file of a [`Dump`](crate::Dump).
pub struct Entry {
    /// Where it belongs.
    pub path: RelativePath,
    /// Its size.
    pub size: u64,
    source: Source,
}

enum Source {
    File(PathBuf),
    Spooled(Arc<File>, u64),
}

impl Entry {
    /// Its bytes.
    pub fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        match &self.source {
            Source::File(path) => Ok(Box::new(File::open(path)?.take(self.size))),
            Source::Spooled(file, at) => {
                let mut file: &File = file;
                file.seek(SeekFrom::Start(*at))?;
                Ok(Box::new(file.take(self.size)))
            }
        }
    }
}

/// Why files are not kept.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    #[error("more than {MAX_FILES} files and folders, or {MAX_PATHS} bytes of their paths")]
    TooMany,
    #[error("more than {MAX_BYTES} bytes of files")]
    TooLarge,
}

/// All files: those of each site together, and at the end those of none.
pub fn list(files: Files) -> Result<Vec<Entry>, ListError> {
    let mut entries = Vec::new();
    match files {
        Files::Folder(folder) => walk(&folder, "", &mut entries, &mut Count::default())?,
        Files::Spooled(Spooled { bytes, files }) => entries.extend(files.into_iter().map(|file| Entry {
            path: file.path,
            size: file.size,
            source: Source::Spooled(Arc::clone(&bytes), file.at),
        })),
    }
    if entries.iter().map(|entry| entry.size).sum::<u64>() > MAX_BYTES {
        return Err(ListError::TooLarge);
    }
    entries.sort_by_cached_key(|entry| {
        let origin = entry.path.origin();
        (origin.is_none(), origin, entry.path.clone())
    });
    Ok(entries)
}

fn walk(folder: &Path, prefix: &str, entries: &mut Vec<Entry>, count: &mut Count) -> Result<(), ListError> {
    for found in fs::read_dir(folder)? {
        let found = found?;
        let kind = found.file_type()?;
        let strange =
            || io::Error::new(io::ErrorKind::InvalidData, format!("{} has a strange name", found.path().display()));
        let name = found.file_name();
        let path =
            RelativePath::parse(&format!("{prefix}{}", name.to_str().ok_or_else(strange)?)).ok_or_else(strange)?;
        if kind.is_dir() {
            walk(&found.path(), &format!("{}/", path.as_str()), entries, count)?;
        } else if kind.is_file() {
            if !count.add(&path) {
                return Err(ListError::TooMany);
            }
            entries.push(Entry { path, size: found.metadata()?.len(), source: Source::File(found.path()) });
        }
        // A link or a socket holds nothing.
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_may_lead_elsewhere_is_none() {
        for good in ["salt", "storage/a/origin", "a/..b", "a b/ü"] {
            assert_eq!(RelativePath::parse(good).as_ref().map(RelativePath::as_str), Some(good));
        }
        for bad in ["", "/", "/etc/passwd", "..", "../a", "a/../b", "a/..", "./a", "a/./b", "a//b", "a/", "a\0b"] {
            assert_eq!(RelativePath::parse(bad), None, "{bad}");
        }
        assert_eq!(RelativePath::parse(&"a/".repeat(600)), None);
        assert!(RelativePath::parse(&["a"; MAX_NAMES].join("/")).is_some());
        assert_eq!(RelativePath::parse(&["a"; MAX_NAMES + 1].join("/")), None);
    }

    #[test]
    fn folders_count_like_files() {
        let path = |text: String| RelativePath::parse(&text).expect("a path");
        let (mut one, mut many, mut long) = (Count::default(), Count::default(), Count::default());
        let added = |count: &mut Count, name: &dyn Fn(usize) -> String| {
            (0..MAX_FILES).take_while(|n| count.add(&path(name(*n)))).count()
        };
        assert_eq!(added(&mut one, &|n| format!("databases/{n}")), MAX_FILES - 1);
        assert_eq!(added(&mut many, &|n| format!("databases/{n}/a/b/c")), (MAX_FILES - 1) / 4);
        let name = "n".repeat(200);
        assert!(added(&mut long, &|n| format!("databases/{name}/{name}/{name}/{n}")) < MAX_PATHS / 600);
    }

    #[test]
    fn a_name_says_which_site_a_file_is_of() {
        let origin = |path| RelativePath::parse(path).and_then(|path| path.origin());
        let known = [
            ("localstorage/https_example.com_0.localstorage", "https://example.com"),
            ("localstorage/http_127.0.0.1_8080.localstorage-wal", "http://127.0.0.1:8080"),
            ("localstorage/http_%5B%3A%3A1%5D_0.localstorage", "http://[::1]"),
            ("databases/indexeddb/v1/https_example.com_0/7BDC/IndexedDB.sqlite3", "https://example.com"),
            (
                "databases/indexeddb/v1/https_example.com_0/https_ads.example_0/7BDC/IndexedDB.sqlite3",
                "https://ads.example",
            ),
        ];
        for (path, site) in known {
            assert_eq!(origin(path).as_deref(), Some(site), "{path}");
        }
        for path in ["localstorage/salt", "databases/x", "localstorage/https_a_b.localstorage", "other/https_a_0/x"] {
            assert_eq!(origin(path), None, "{path}");
        }
    }

    #[test]
    fn files_of_a_site_come_together_and_links_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = [
            "databases/indexeddb/v1/https_a.example_0/1/IndexedDB.sqlite3",
            "localstorage/https_a.example_0.localstorage",
            "databases/indexeddb/v1/https_b.example_0/1/IndexedDB.sqlite3",
            "databases/known",
        ];
        for path in all {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("localstorage/link")).expect("a link");
        let listed = list(folder.path().to_owned().into()).expect("a list");
        assert_eq!(listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), all);
    }
}
