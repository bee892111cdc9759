//! Recordings of sessions (contract: recordings).
//!
//! A worker has one [`Recorder`] for each recorded session. It numbers the events, holds them in memory, and its task stores them in
//! sealed segments: rows of the database, or objects of the bucket that has the profile stores. API processes read the segments
//! with [`Reader`], and write traces and HAR files from them.

pub mod events;
pub mod har;
pub mod reader;
mod recorder;
mod redact;
pub mod segment;
mod source;
pub mod trace;
mod zip;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kitfleet_domain::database::{self, begin};
use kitfleet_domain::recordings::{self, KEY_PURPOSE, Recording, RecordingLimits};
use kitfleet_domain::vault::Vault;
use kitfleet_profiles::PlaceConfig;
use kitfleet_types::ids::{OperationId, SessionId};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool};
use tokio::sync::Mutex;
use tokio::time::timeout;
use zeroize::Zeroizing;

pub use self::reader::{ReadError, Reader};
pub use self::recorder::Recorder;
pub use self::recorder::state::RecorderTotals;
pub use self::recorder::task::RecorderTask;
use self::segment::{SegmentKey, SegmentPlace};

/// An unavailable bucket would delay the other removals and hold connections.
const REMOVE_WITHIN: Duration = Duration::from_secs(30);
const FAILURES: u32 = 3;

#[derive(Debug, Clone)]
pub struct RecordingsConfig {
    /// By default the deployment's processes share a key in the database.
    pub vault: Option<Vault>,
    /// That of the profile stores.
    pub place: PlaceConfig,
    pub limits: RecordingLimits,
}

/// Accessibility snapshot of the page, which only traces contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub operation_id: OperationId,
    pub text: String,
}

#[derive(Clone)]
pub struct Recordings(Arc<Shared>);

struct Shared {
    db: PgPool,
    vault: Vault,
    place: PlaceConfig,
    limits: RecordingLimits,
    sweep: Mutex<()>,
}

impl Recordings {
    pub async fn new(db: PgPool, config: RecordingsConfig) -> sqlx::Result<Self> {
        let vault = database::vault(&mut *db.acquire().await?, KEY_PURPOSE, config.vault.as_ref()).await?;
        let RecordingsConfig { place, limits, .. } = config;
        Ok(Self(Arc::new(Shared { db, vault, place, limits, sweep: Mutex::new(()) })))
    }

    /// Begins to record a session. The caller runs the task, for example with `tokio::spawn(task.run())`, until it ends by itself
    /// after [`Recorder::finish`]. Nothing is stored before the first event.
    ///
    /// `secret_headers` are the names of the session's `extra_headers`.
    pub fn record(&self, session: SessionId, secret_headers: Vec<String>) -> (Recorder, RecorderTask) {
        recorder::start(self.clone(), session, secret_headers)
    }

    /// `None` if nothing is recorded, or if the recording was deleted.
    pub async fn reader(&self, session: SessionId) -> Result<Option<Reader>, ReadError> {
        let recording = recordings::find(&mut *self.0.db.acquire().await?, session).await?;
        recording.map(|recording| Reader::new(self.clone(), &recording)).transpose()
    }

    /// Removes recordings past their term and deleted ones. Returns their number. Removes none while another sweep of this process
    /// runs, and few while the bucket is unavailable.
    pub async fn sweep(&self, age: Duration, batch: i64) -> sqlx::Result<u64> {
        let Ok(_alone) = self.0.sweep.try_lock() else { return Ok(0) };
        recordings::expire(&mut *self.0.db.acquire().await?, age, batch).await?;
        let (mut removed, mut failures) = (0, 0);
        for _ in 0..batch {
            let mut tx = begin(&self.0.db).await?;
            let Some(session) = recordings::take_removable(&mut tx).await? else { break };
            match self.remove_taken(&mut tx, session).await {
                Ok(()) => {
                    tx.commit().await?;
                    removed += 1;
                }
                Err(error) => {
                    tx.rollback().await?;
                    tracing::warn!(%session, %error, "cannot remove a recording: trying again later");
                    recordings::postpone_removal(&mut *self.0.db.acquire().await?, session).await?;
                    failures += 1;
                    if failures == FAILURES {
                        break;
                    }
                }
            }
        }
        Ok(removed)
    }

    /// Removes a deleted recording at once. If it cannot be removed now, a sweep removes it later.
    pub async fn remove(&self, session: SessionId) {
        let removed = async {
            let mut tx = begin(&self.0.db).await.map_err(io::Error::other)?;
            if recordings::take_if_removable(&mut tx, session).await.map_err(io::Error::other)? {
                self.remove_taken(&mut tx, session).await?;
            }
            tx.commit().await.map_err(io::Error::other)
        };
        if let Err(error) = removed.await {
            tracing::warn!(%session, %error, "cannot remove a deleted recording: trying again later");
        }
    }

    /// Removes the objects first: while one of them cannot be removed, the rows stay.
    async fn remove_taken(&self, conn: &mut PgConnection, session: SessionId) -> io::Result<()> {
        if let PlaceConfig::Objects(objects) = &self.0.place {
            let segments = recordings::objects(&mut *conn, session).await.map_err(io::Error::other)?;
            let remove_all = async {
                for (kind, first_seq) in segments {
                    let first_seq = u64::try_from(first_seq).unwrap_or_default();
                    objects.delete_named(&SegmentPlace { session, kind, first_seq }.object_name()).await?;
                }
                io::Result::Ok(())
            };
            timeout(REMOVE_WITHIN, remove_all).await??;
        }
        recordings::remove(conn, session).await.map_err(io::Error::other)
    }

    fn new_key(&self, session: SessionId) -> (SegmentKey, Vec<u8>) {
        let key = Zeroizing::new(rand::random::<[u8; 32]>());
        (SegmentKey::new(&key), self.0.vault.seal(KEY_PURPOSE, &session.to_string(), &*key))
    }

    fn key(&self, recording: &Recording) -> Option<SegmentKey> {
        let key = self.0.vault.open(KEY_PURPOSE, &recording.session.to_string(), &recording.sealed_key).ok()?;
        Some(SegmentKey::new(&Zeroizing::new(key.try_into().ok()?)))
    }

    async fn load(&self, place: SegmentPlace, content: Option<Vec<u8>>) -> io::Result<Bytes> {
        match (content, &self.0.place) {
            (Some(content), _) => Ok(content.into()),
            (None, PlaceConfig::Objects(objects)) => objects.get_named(&place.object_name()).await,
            (None, PlaceConfig::Database) => {
                Err(io::Error::new(io::ErrorKind::NotFound, "the segment is in a bucket, and none is configured"))
            }
        }
    }
}
