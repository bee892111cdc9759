//! Which incarnations of workers on this `data_dir` live.
//!
//! A lease says only after seconds that a worker is dead, and until then sessions are placed on it. Its own machine knows
//! at once: an incarnation holds a lock on a file that is called like it, and the kernel lets go of the lock when the
//! process dies, however it dies. Several processes may share a `data_dir`; the locks of those that live are held.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use kitfleet_domain::ids::WorkerId;
use kitfleet_domain::sessions::leftovers;
use kitfleet_domain::workers;
use sqlx::{Connection as _, PgConnection};

use crate::RunError;

/// The proof that an incarnation lives, for as long as this does. Its file is removed by [`bury_dead`].
pub(crate) struct Living(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

impl Living {
    /// # Errors
    /// When the file system refuses.
    pub(crate) fn begin(data_dir: &Path, id: WorkerId) -> io::Result<Self> {
        let path = folder(data_dir).join(id.to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(folder(data_dir))?;
        // It gets its name when it is locked, so that nobody takes it for a dead one's.
        let unnamed = path.with_extension("starting");
        let file = File::create(&unnamed)?;
        file.lock()?;
        fs::rename(unnamed, path)?;
        Ok(Self(file))
    }
}

/// Intents a transaction ends at most.
const BATCH: u32 = 100;

/// Declares those lost that died on this `data_dir`, and ends what they left: a start does it before anything can be
/// placed on them.
///
/// # Errors
/// When the file system refuses, or the database fails.
pub async fn bury_dead(data_dir: &Path, conn: &mut PgConnection) -> Result<(), RunError> {
    let mut buried = false;
    for (id, path) in named(data_dir)? {
        let file = match File::open(&path) {
            // Somebody else has just buried it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        if workers::declare_lost_one(&mut *conn, id).await? {
            tracing::warn!(worker = %id, "an earlier worker of this machine died and is marked as lost");
            buried = true;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    if buried {
        end_what_is_left(conn).await?;
    }
    Ok(())
}

/// The API does it too, but only when it has watched for as long as a lease lasts.
async fn end_what_is_left(conn: &mut PgConnection) -> sqlx::Result<()> {
    loop {
        let mut tx = conn.begin().await?;
        let ended = leftovers::rescue(&mut tx, i64::from(BATCH)).await?;
        tx.commit().await?;
        if ended < BATCH as usize {
            break;
        }
    }
    kitfleet_jobs::inspect::kill_dead(conn).await?;
    Ok(())
}

/// The incarnations that live on this `data_dir`.
///
/// # Errors
/// When the file system refuses.
pub fn living(data_dir: &Path) -> io::Result<Vec<WorkerId>> {
    let mut living = Vec::new();
    for (id, path) in named(data_dir)? {
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Shared, so that nobody who looks at the same time takes this look for its life.
            opened => match opened?.try_lock_shared() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => living.push(id),
                Err(TryLockError::Error(error)) => return Err(error),
            },
        }
    }
    Ok(living)
}

fn named(data_dir: &Path) -> io::Result<Vec<(WorkerId, PathBuf)>> {
    let entries = match fs::read_dir(folder(data_dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?.collect::<io::Result<Vec<_>>>()?,
    };
    Ok(entries
        .into_iter()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect())
}

fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("workers")
}
