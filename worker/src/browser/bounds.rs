//! What a browser may use of the machine: memory, room on the disk, and what has to stay free there.
//!
//! A page decides how much of either its browser takes, so it is looked at, all browsers by one task. One that takes too
//! much is condemned: it is killed, its session fails, and no other is the worse for it. Looking costs little: the
//! processes' resident memory, which counts what they share with others in full, is exact enough until it is too much;
//! and folders are measured every fourth time, unless the disk is nearly full.
//! Control groups would bound it to the byte, but few machines give a service one to divide.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use kitfleet_domain::log_throttle::LogThrottle;
use nix::unistd::Pid;
use procfs::WithCurrentSystemInfo;
use procfs::process::{Process, Stat};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::host::Cause;
use super::processes::Processes;
use crate::config::{Bounds, bytes};

/// How often browsers are looked at. A page can fill a gigabyte of memory in half a second.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// Every how manieth time their folders are measured too: disks are slower than memory.
const FOLDERS_AFTER: u32 = 4;

/// How often the shares of memory are measured that the metric tells: the kernel walks through all pages of a process for that.
const SHARES_AFTER: Duration = Duration::from_secs(10);

/// Bytes on the disk below which a browser is not to blame for a full one.
const WORTH_BLAMING: u64 = 16 * MIB;

/// What an entry of a folder counts at least.
const ENTRY: u64 = 4_096;

const MIB: u64 = 1024 * 1024;

/// Looks at browsers.
pub struct Watchdog {
    bounds: Bounds,
    watched: Mutex<Vec<WatchedBrowser>>,
    /// When the shares of memory were last measured.
    measured_at: Mutex<Option<Instant>>,
}

/// A browser that is looked at for as long as anybody waits for its verdict.
#[derive(Clone)]
struct WatchedBrowser {
    leader: Pid,
    folder: PathBuf,
    verdict: Weak<Verdict>,
}

impl WatchedBrowser {
    /// Condemns who takes more than the limit.
    fn judge(&self, verdict: &Verdict, bytes: u64, limit: u64, cause: Cause) {
        if bytes > limit {
            let of = if cause == Cause::Memory { "memory" } else { "the disk" };
            let words = format!("the browser took more than {} MiB of {of}", limit / MIB);
            tracing::warn!(words, folder = %self.folder.display(), "browser exceeded its memory or disk limit");
            verdict.speak(cause, words);
        }
    }
}

/// Whether a browser was condemned.
#[derive(Default)]
pub struct Verdict {
    words: OnceLock<(Cause, String)>,
    spoken: CancellationToken,
}

impl Verdict {
    /// Waits until the browser is condemned, and says for what.
    pub async fn spoken(&self) -> (Cause, &str) {
        self.spoken.cancelled().await;
        self.words.get().map_or((Cause::Memory, ""), |(cause, words)| (*cause, words))
    }

    fn speak(&self, cause: Cause, words: String) {
        // The first verdict is the last.
        let _ = self.words.set((cause, words));
        self.spoken.cancel();
    }
}

impl Watchdog {
    /// One that knows no browser yet.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, watched: Mutex::default(), measured_at: Mutex::default() }
    }

    /// Looks at a browser from now on: a family and the folder that it writes to.
    pub fn watch(&self, leader: Pid, folder: PathBuf) -> Arc<Verdict> {
        let verdict = Arc::<Verdict>::default();
        self.with(|watched| watched.push(WatchedBrowser { leader, folder, verdict: Arc::downgrade(&verdict) }));
        verdict
    }

    /// Looks, for ever.
    pub async fn run(self: Arc<Self>) {
        for turn in (0..FOLDERS_AFTER).cycle() {
            sleep(LOOK_AFTER).await;
            let this = Arc::clone(&self);
            if let Err(error) = spawn_blocking(move || this.look(turn == 0)).await {
                tracing::error!(%error, "cannot measure the resources of browsers");
            }
        }
    }

    fn look(&self, at_folders: bool) {
        let browsers: Vec<_> = self.with(|watched| {
            watched.retain(|browser| browser.verdict.strong_count() > 0);
            watched.iter().filter_map(|browser| Some((browser.clone(), browser.verdict.upgrade()?))).collect()
        });
        self.look_at_memory(&browsers);
        // All folders lie on one disk.
        let is_full = browsers.first().is_some_and(|(browser, _)| self.bounds.is_full(&browser.folder));
        if at_folders || is_full {
            self.look_at_folders(&browsers, is_full);
        }
    }

    fn look_at_memory(&self, browsers: &[(WatchedBrowser, Arc<Verdict>)]) {
        static FAILED: LogThrottle = LogThrottle::new();
        let processes = match Processes::now() {
            Ok(processes) => processes,
            Err(error) => {
                return FAILED
                    .say(|held_back| tracing::error!(%error, held_back, "cannot measure the memory of browsers: its limit is not enforced"));
            }
        };
        let (measures, mut shares) = (self.measures_shares(), 0);
        for (browser, verdict) in browsers {
            let family = processes.below(browser.leader);
            let taken = memory(&family, self.bounds.memory);
            browser.judge(verdict, taken, self.bounds.memory, Cause::Memory);
            if measures {
                shares += own_shares(&family);
            }
        }
        if measures {
            metrics::gauge!("service_browser_memory_bytes").set(bytes(shares));
        }
    }

    /// Whether it is time to measure the shares of memory.
    fn measures_shares(&self) -> bool {
        let mut measured_at = self.measured_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = measured_at.is_none_or(|at| at.elapsed() >= SHARES_AFTER);
        if is_due {
            *measured_at = Some(Instant::now());
        }
        is_due
    }

    /// Condemns who has written too much, and who has written most when the disk is nearly full, one after the other.
    fn look_at_folders(&self, browsers: &[(WatchedBrowser, Arc<Verdict>)], is_full: bool) {
        let weighed = browsers.iter().map(|(browser, verdict)| {
            let bytes = size(&browser.folder, self.bounds.disk);
            browser.judge(verdict, bytes, self.bounds.disk, Cause::Disk);
            (bytes, browser, verdict)
        });
        let most = weighed.max_by_key(|(bytes, ..)| *bytes);
        // What the dead had is free soon.
        let is_dying = browsers.iter().any(|(_, verdict)| verdict.spoken.is_cancelled());
        if let Some((bytes, browser, verdict)) = most
            && is_full
            && !is_dying
            && bytes >= WORTH_BLAMING
        {
            tracing::warn!(folder = %browser.folder.display(), bytes, "the disk is nearly full: killing the browser that wrote most");
            verdict.speak(Cause::Disk, "the disk is nearly full, and this browser wrote most".to_owned());
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<WatchedBrowser>) -> T) -> T {
        change(&mut self.watched.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Bytes of memory that processes have: an upper bound where that is enough to say that it is within the limit.
fn memory(family: &[&Stat], limit: u64) -> u64 {
    let resident = family.iter().map(|process| process.rss_bytes().get()).sum();
    if resident <= limit { resident } else { own_shares(family) }
}

/// Bytes of memory that processes have, each with its part of what it shares with others.
fn own_shares(family: &[&Stat]) -> u64 {
    family.iter().map(|process| own_share(process.pid)).sum()
}

/// A process's memory, with its part of what it shares with others; 0 for one that is gone.
fn own_share(pid: i32) -> u64 {
    let maps = Process::new(pid).and_then(|process| process.smaps_rollup());
    let sums = maps.into_iter().flat_map(|rollup| rollup.memory_map_rollup);
    sums.filter_map(|map| map.extension.map.get("Pss").copied()).sum()
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
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

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
        // It has run, and so has memory, when it has answered; and it ends with its input, also when the test fails.
        let piped = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = piped.expect("it starts");
        let (mut input, mut output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        input.write_all(b"?").and_then(|()| output.read_exact(&mut [0])).expect("it answers");
        let processes = Processes::now().expect("there is a /proc");
        let family = processes.below(Pid::this());
        assert!(family.iter().any(|process| process.pid.unsigned_abs() == child.id()));
        // Both grow meanwhile.
        let (shares, resident) = (memory(&family, 0), memory(&family, u64::MAX));
        assert!(0 < shares && shares <= resident, "{shares} of {resident}");
        drop(input);
        child.wait().expect("it ends");
    }
}
