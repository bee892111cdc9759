//! Temporary folders for files that need names, such as databases.
//!
//! The process that creates a folder locks it, so the folders of killed processes are unlocked, and the next process
//! removes them.

use std::fs::File;
use std::io;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "profile-";

/// Removed on drop.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    pub fn new(below: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(below)?;
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(below)?;
        let lock = File::open(folder.path())?;
        lock.try_lock()?;
        Ok(Self { folder, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A folder that is being created has no lock yet; it is empty and stays.
pub fn sweep(below: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(below) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
        let left = ours && path.is_dir() && path.read_dir()?.next().is_some() && File::open(&path)?.try_lock().is_ok();
        if left {
            std::fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_removes_only_folders_of_killed_processes() {
        let below = tempfile::tempdir().expect("a folder");
        let mine = Scratch::new(&below.path().join("new")).expect("a folder");
        std::fs::write(mine.path().join("file"), "x").expect("a file");
        let left = below.path().join("new/profile-left");
        std::fs::create_dir(&left).expect("a folder");
        std::fs::write(left.join("file"), "x").expect("a file");
        sweep(&below.path().join("new")).expect("a sweep");
        assert!(mine.path().join("file").exists() && !left.exists());
        sweep(&below.path().join("nowhere")).expect("a sweep");
    }
}
