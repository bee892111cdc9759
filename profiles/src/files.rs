//! Site data: files, and which site each is of.
//!
//! WebKit keeps what a site stores in a folder of its own and writes a file `origin` beside it, which names the site. What has
//! none lies outside of those folders, such as the salts that the folders' names are made with.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Files of a store, at most.
pub const MAX_FILES: usize = 50_000;
/// Bytes of a file's path, at most.
pub const MAX_PATH: usize = 1_024;
/// Bytes of all files of a store, at most. What a browser has to be given must fit its machine's disk.
pub const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// The file that names the site whose folder it is in.
const ORIGIN: &str = "origin";
/// What the folders' names are made with. No site has kept it.
const SALT: &str = "salt";

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
        let spelled = path.split('/').all(|name| !name.is_empty() && name != ".");
        (normal && spelled && path.len() <= MAX_PATH && !path.contains('\0')).then(|| Self(path.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder of a site, when this is the file that names the site.
    pub fn site_folder(&self) -> Option<&str> {
        self.0.strip_suffix(ORIGIN)?.strip_suffix('/')
    }

    /// Whether it lies in this folder, or below it.
    pub fn is_in(&self, folder: &str) -> bool {
        self.0.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }

    fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
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

    /// Whether a site may have kept something in it.
    pub fn is_data(&self) -> bool {
        self.size > 0 && ![ORIGIN, SALT].contains(&self.path.name())
    }
}

/// Why files are not kept.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    #[error("more than {MAX_FILES} files")]
    TooMany,
    #[error("more than {MAX_BYTES} bytes of files")]
    TooLarge,
}

/// All files: those of each site together, the one that names it first, and at the end those of none.
pub fn list(files: Files) -> Result<Vec<Entry>, ListError> {
    let mut entries = Vec::new();
    match files {
        Files::Folder(folder) => walk(&folder, "", &mut entries)?,
        Files::Spooled(Spooled { bytes, files }) => entries.extend(files.into_iter().map(|file| Entry {
            path: file.path,
            size: file.size,
            source: Source::Spooled(Arc::clone(&bytes), file.at),
        })),
    }
    if entries.iter().map(|entry| entry.size).sum::<u64>() > MAX_BYTES {
        return Err(ListError::TooLarge);
    }
    let sites: HashSet<_> = entries.iter().filter_map(|entry| entry.path.site_folder()).map(str::to_owned).collect();
    entries.sort_by_cached_key(|entry| {
        let site = sites_of(&entry.path).find(|folder| sites.contains(*folder)).map(str::to_owned);
        (site.is_none(), site, entry.path.site_folder().is_none(), entry.path.clone())
    });
    Ok(entries)
}

fn walk(folder: &Path, prefix: &str, entries: &mut Vec<Entry>) -> Result<(), ListError> {
    for found in fs::read_dir(folder)? {
        let found = found?;
        let kind = found.file_type()?;
        let strange = || io::Error::new(io::ErrorKind::InvalidData, format!("{} has a strange name", found.path().display()));
        let name = found.file_name();
        let path = RelativePath::parse(&format!("{prefix}{}", name.to_str().ok_or_else(strange)?)).ok_or_else(strange)?;
        if kind.is_dir() {
            walk(&found.path(), &format!("{}/", path.as_str()), entries)?;
        } else if kind.is_file() {
            if entries.len() == MAX_FILES {
                return Err(ListError::TooMany);
            }
            entries.push(Entry { path, size: found.metadata()?.len(), source: Source::File(found.path()) });
        }
        // A link or a socket holds nothing.
    }
    Ok(())
}

/// The folders that a file lies in, innermost first.
fn sites_of(path: &RelativePath) -> impl Iterator<Item = &str> {
    std::iter::successors(path.0.rsplit_once('/'), |(folder, _)| folder.rsplit_once('/')).map(|(folder, _)| folder)
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
    }

    #[test]
    fn files_of_a_site_come_together_and_its_name_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "x").expect("a file");
        };
        for path in ["salt", "s/b/origin", "s/b/Local/x", "s/b/Index/deep/y", "s/a/c/z", "s/a/c/origin", "s/a/loose"] {
            put(path);
        }
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).expect("a link");
        let listed = list(folder.path().to_owned().into()).expect("a list");
        let paths: Vec<_> = listed.iter().map(|entry| entry.path.as_str()).collect();
        let expected =
            ["s/a/c/origin", "s/a/c/z", "s/b/origin", "s/b/Index/deep/y", "s/b/Local/x", "s/a/loose", "salt"];
        assert_eq!(paths, expected);
    }
}
