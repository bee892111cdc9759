//! What a browser may use of the machine: memory, room on the disk, and what has to stay free there.
//!
//! A page decides how much of either its browser takes, so it is looked at, all browsers by one task. One that takes too
//! much is condemned: it is killed, its session fails, and no other is the worse for it. Looking costs little: the
//! processes' resident memory, which counts what they share with others in full, is exact enough until it is too much.
//! Control groups would bound it to the byte, but few machines give a service one to divide.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::processes::below;
use crate::config::Bounds;

/// How often browsers are looked at. A page can fill a gigabyte of memory in half a second.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// Of a small disk this part has to stay free at most.
const FLOOR_SHARE: u64 = 20;

/// Bytes on the disk below which a browser is not to blame for a full one.
const WORTH_BLAMING: u64 = 16 * MIB;

/// What an entry of a folder counts at least.
const ENTRY: u64 = 4_096;

const MIB: u64 = 1024 * 1024;

/// Looks at browsers.
pub struct Watchdog {
    bounds: Bounds,
    watched: Mutex<Vec<Watched>>,
}

/// A browser that is looked at for as long as anybody waits for its verdict.
#[derive(Clone)]
struct Watched {
    leader: Pid,
    folder: PathBuf,
    verdict: Weak<Verdict>,
}

/// Whether a browser was condemned.
#[derive(Default)]
pub struct Verdict {
    words: OnceLock<String>,
    spoken: CancellationToken,
}

impl Verdict {
    /// Waits until the browser is condemned, and says for what.
    pub async fn spoken(&self) -> &str {
        self.spoken.cancelled().await;
        self.words.get().map_or("", String::as_str)
    }

    fn speak(&self, words: String) {
        // The first verdict is the last.
        let _ = self.words.set(words);
        self.spoken.cancel();
    }
}

impl Watchdog {
    /// One that knows no browser yet.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, watched: Mutex::default() }
    }

    /// Looks at a browser from now on: a family and the folder that it writes to.
    pub fn watch(&self, leader: Pid, folder: PathBuf) -> Arc<Verdict> {
        let verdict = Arc::<Verdict>::default();
        self.with(|watched| watched.push(Watched { leader, folder, verdict: Arc::downgrade(&verdict) }));
        verdict
    }

    /// Looks, for ever.
    pub async fn run(self: Arc<Self>) {
        loop {
            sleep(LOOK_AFTER).await;
            let this = Arc::clone(&self);
            if let Err(error) = spawn_blocking(move || this.look()).await {
                tracing::error!(%error, "browsers were not looked at");
            }
        }
    }

    fn look(&self) {
        let watched = self.with(|watched| {
            watched.retain(|browser| browser.verdict.strong_count() > 0);
            watched.clone()
        });
        let mut writers = Vec::new();
        for Watched { leader, folder, verdict } in watched {
            let Some(verdict) = verdict.upgrade() else { continue };
            let bytes = size(&folder, self.bounds.disk);
            if let Some(words) = self.trespass(leader, bytes) {
                tracing::warn!(words, folder = %folder.display(), "a browser takes too much");
                verdict.speak(words);
            }
            writers.push((bytes, folder, verdict));
        }
        self.keep_room(writers);
    }

    /// What a browser has done, if it has done anything.
    fn trespass(&self, leader: Pid, written: u64) -> Option<String> {
        // A family that is gone has nobody who could be condemned.
        let memory = memory(leader, self.bounds.memory).unwrap_or_default();
        let exceeded = |bytes: u64, limit: u64, of: &str| {
            (bytes > limit).then(|| format!("the browser took more than {} MiB of {of}", limit / MIB))
        };
        exceeded(memory, self.bounds.memory, "memory").or_else(|| exceeded(written, self.bounds.disk, "the disk"))
    }

    /// Condemns who has written most when the disk is nearly full, one after the other.
    fn keep_room(&self, mut writers: Vec<(u64, PathBuf, Arc<Verdict>)>) {
        writers.sort_unstable_by_key(|(bytes, ..)| *bytes);
        // What the dead had is free soon.
        if writers.iter().any(|(.., verdict)| verdict.spoken.is_cancelled()) {
            return;
        }
        let Some((bytes, folder, verdict)) = writers.pop() else { return };
        let Ok(disk) = statvfs(&folder) else { return };
        let in_bytes = |blocks: u64| blocks.saturating_mul(disk.fragment_size());
        let (left, all) = (in_bytes(disk.blocks_available()), in_bytes(disk.blocks()));
        if bytes >= WORTH_BLAMING && left < self.bounds.free_disk.min(all / FLOOR_SHARE) {
            tracing::warn!(folder = %folder.display(), bytes, left, "the disk is nearly full: ending who wrote most");
            verdict.speak("the disk is nearly full, and this browser wrote most".to_owned());
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<Watched>) -> T) -> T {
        change(&mut self.watched.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Bytes of memory that a family has: an upper bound where that is enough to say that it is within its limit.
fn memory(leader: Pid, limit: u64) -> io::Result<u64> {
    let family = below(leader)?;
    let sum = |file: &str, field: &str| family.iter().map(|pid| kib(*pid, file, field)).sum::<u64>() * 1024;
    let resident = sum("status", "VmRSS:");
    Ok(if resident <= limit { resident } else { sum("smaps_rollup", "Pss:") })
}

/// A number of what the kernel says of a process; 0 for one that is gone.
fn kib(pid: Pid, file: &str, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix("kB")?.trim().parse().ok());
    value.unwrap_or_default()
}

/// Bytes on the disk of all that lies in a folder, or more than the limit. The browser changes it meanwhile, so that what
/// is not there is not counted, and no link is followed.
fn size(folder: &Path, limit: u64) -> u64 {
    use std::os::unix::fs::MetadataExt;
    const BLOCK: u64 = 512;
    let (mut bytes, mut folders) = (0, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            bytes += (metadata.blocks() * BLOCK).max(ENTRY);
            if bytes > limit {
                return bytes;
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_as_large_as_all_that_lies_in_it() {
        let folder = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
        fs::create_dir_all(folder.join("below")).expect("a folder");
        fs::write(folder.join("below/file"), vec![1; 300_000]).expect("a file");
        std::os::unix::fs::symlink("/", folder.join("link")).expect("a link");
        let all = size(&folder, u64::MAX);
        assert!((300_000..500_000).contains(&all), "{all}");
        assert!(size(&folder, 100_000) > 100_000);
        fs::remove_dir_all(folder).expect("it is removed");
    }

    #[test]
    fn the_memory_of_a_family_is_that_of_its_processes() {
        let own = memory(Pid::this(), u64::MAX).expect("this process runs");
        assert!(own > MIB, "{own}");
    }
}
