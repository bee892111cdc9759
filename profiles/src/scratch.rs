//! Folders for what is on its way and needs names for a while, as databases do.
//!
//! Each is locked by the process that made it, so that what a process left that was killed is known, and removed by the
//! next one.

use std::fs::File;
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// What their names begin with.
const PREFIX: &str = "profile-";

/// A folder that is gone when this is.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes one below a folder, which is made too.
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

/// Removes those that nobody has any more. One that is being made just now has no lock yet, and nothing in it: it stays.
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
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
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
