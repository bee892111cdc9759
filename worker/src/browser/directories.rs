//! Folders of browser data: `browsers/<boot>/<browser>/session` under the data directory.
//!
//! A worker holds a lock on a file beside its folder, which the kernel releases when the worker ends for any reason. The next
//! worker removes the folders without a lock.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use super::user_ids::{UserId, UserIds};

#[derive(Debug, Clone)]
pub struct BrowserDirectory {
    path: PathBuf,
    user: Option<Arc<UserId>>,
}

impl BrowserDirectory {
    /// Its contents are untrusted while the browser runs.
    pub fn session(&self) -> PathBuf {
        self.path.join("session")
    }

    /// `None` for the worker's own user. Leased as long as the folder is in use.
    pub fn user(&self) -> Option<u32> {
        self.user.as_ref().map(|user| user.get())
    }

    /// Profile data in transit, on the same file system and not accessible to the browser.
    pub fn kept(&self) -> PathBuf {
        self.path.join("kept")
    }

    /// Uploads in transit, on the same file system and not accessible to the browser.
    pub fn incoming(&self) -> PathBuf {
        self.path.join("incoming")
    }

    /// Removes the folder with its contents. The browser must have ended.
    pub async fn remove(&self) {
        if let Err(error) = tokio::fs::remove_dir_all(&self.path).await {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove a browser's data");
        }
    }
}

/// Dropping it removes the folder.
pub struct WorkerDirectory {
    path: PathBuf,
    lock_path: PathBuf,
    users: Option<Arc<UserIds>>,
    _lock: File,
}

impl WorkerDirectory {
    /// Also removes the folders of dead workers.
    pub fn claim(data_dir: &Path, users: Option<Arc<UserIds>>) -> io::Result<Self> {
        let browsers = data_dir.join("browsers");
        create(&browsers)?;
        // Hosts receive absolute paths.
        let browsers = browsers.canonicalize()?;
        // This lock serializes starting workers. Without it, a worker could take another one's new lock file for that of
        // a dead worker.
        let starting = File::create(browsers.join("starting.lock"))?;
        starting.lock()?;
        remove_stale(&browsers)?;
        let boot = Uuid::now_v7().to_string();
        let lock_path = browsers.join(&boot).with_extension("worker");
        let lock = File::create(&lock_path)?;
        lock.lock()?;
        let path = browsers.join(boot);
        create(&path)?;
        Ok(Self { path, lock_path, users, _lock: lock })
    }

    /// Leases a user ID if browsers have separate IDs.
    pub fn browser(&self) -> io::Result<BrowserDirectory> {
        let user = self.users.as_ref().map(UserIds::lease).transpose()?.map(Arc::new);
        let directory = BrowserDirectory { path: self.path.join(Uuid::now_v7().to_string()), user };
        create(&directory.session())?;
        Ok(directory)
    }

    pub fn remove(&self) {
        match remove(&self.path, &self.lock_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %self.path.display(), "cannot remove the browsers' data");
            }
            _ => {}
        }
    }
}

impl Drop for WorkerDirectory {
    fn drop(&mut self) {
        self.remove();
    }
}

fn create(path: &Path) -> io::Result<()> {
    // The folders hold cookies, so no other user has access.
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn remove_stale(browsers: &Path) -> io::Result<()> {
    for entry in fs::read_dir(browsers)? {
        let lock_path = entry?.path();
        if lock_path.extension().is_some_and(|extension| extension == "worker")
            && File::open(&lock_path)?.try_lock().is_ok()
        {
            let path = lock_path.with_extension("");
            tracing::info!(path = %path.display(), "removing the files of a dead worker");
            remove(&path, &lock_path)?;
        }
    }
    Ok(())
}

fn remove(path: &Path, lock_path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::remove_file(lock_path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_removes_folders_of_dead_workers_only() {
        let data = std::env::temp_dir().join(Uuid::now_v7().to_string());
        let living = WorkerDirectory::claim(&data, None).expect("a folder");
        let kept = living.browser().expect("a folder");
        let dead = data.join("browsers/0");
        fs::create_dir_all(dead.join("cookies")).expect("a folder");
        File::create(dead.with_extension("worker")).expect("a file");

        let other = WorkerDirectory::claim(&data, None).expect("a folder");
        assert!(!dead.exists());
        assert!(kept.session().exists());

        drop((living, other));
        let left: Vec<_> = fs::read_dir(data.join("browsers")).expect("a folder").collect();
        assert_eq!(left.len(), 1, "only the lock of starting workers is left: {left:?}");
        fs::remove_dir_all(data).expect("it is removed");
    }
}
