//! Detects which incarnations of workers are alive on this `data_dir` at once; a lease takes seconds.
//!
//! An incarnation locks a file that has its ID as name, and the kernel releases the lock when the process ends for any reason.
//! Only one process runs workers on a `data_dir` ([`DataDirLock`]).

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kitfleet_domain::sessions::recovery;
use kitfleet_domain::workers;
use kitfleet_types::ids::WorkerId;
use sqlx::{Connection as _, PgConnection};

use crate::RunError;

/// The kernel releases the lock when the process ends.
#[derive(Debug)]
pub struct DataDirLock(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("{holder} runs a worker on data_dir {}: give each worker a data_dir of its own", .data_dir.display())]
    InUse { data_dir: PathBuf, holder: String },
    #[error("data_dir {} cannot be used: {error}", .data_dir.display())]
    Unusable { data_dir: PathBuf, error: io::Error },
}

impl DataDirLock {
    /// The file contains the ID of the last process that locked it.
    ///
    /// # Errors
    ///
    /// When another process has the lock, or the file system refuses.
    pub fn take(data_dir: &Path) -> Result<Self, DataDirError> {
        let unusable = |error| DataDirError::Unusable { data_dir: data_dir.to_owned(), error };
        DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(unusable)?;
        let path = data_dir.join("worker.lock");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let mut file = file.map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).map_err(unusable)?;
                // The file is empty between the lock and the write of the ID.
                let holder = match pid.trim() {
                    "" => "another process".to_owned(),
                    pid => format!("process {pid}"),
                };
                return Err(DataDirError::InUse { data_dir: data_dir.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(unusable)?;
        Ok(Self(file))
    }
}

/// Proves that an incarnation is alive. [`remove_dead`] removes the file.
pub(crate) struct Living(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

impl Living {
    pub(crate) fn begin(data_dir: &Path, id: WorkerId) -> io::Result<Self> {
        let path = folder(data_dir).join(id.to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(folder(data_dir))?;
        // The file gets its final name after it is locked, so that another process does not mistake it for a dead
        // worker's file.
        let unnamed = path.with_extension("starting");
        let file = File::create(&unnamed)?;
        file.lock()?;
        fs::rename(unnamed, path)?;
        Ok(Self(file))
    }
}

/// Of one transaction.
const BATCH: u32 = 100;

/// Also ends the sessions of these workers. Runs at each start, before more sessions can be placed on them.
pub async fn remove_dead(data_dir: &Path, conn: &mut PgConnection) -> Result<(), RunError> {
    let mut buried = false;
    for (id, path) in named(data_dir)? {
        let file = match File::open(&path) {
            // Another process has just removed it.
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
        end_previous_sessions(conn).await?;
    }
    Ok(())
}

/// The API does the same, but only after it has observed the workers for the length of a lease.
async fn end_previous_sessions(conn: &mut PgConnection) -> sqlx::Result<()> {
    loop {
        let mut tx = conn.begin().await?;
        let ended = recovery::recover(&mut tx, i64::from(BATCH)).await?;
        tx.commit().await?;
        if ended < BATCH as usize {
            break;
        }
    }
    kitfleet_jobs::inspect::mark_dead(conn).await?;
    Ok(())
}

pub fn live_workers(data_dir: &Path) -> io::Result<Vec<WorkerId>> {
    let mut living = Vec::new();
    for (id, path) in named(data_dir)? {
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A shared lock, so that two processes that check at the same time do not take each other for a live worker.
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
