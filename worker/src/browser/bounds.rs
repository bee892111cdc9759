//! Limits on a browser's use of memory and disk space.
//!
//! A page determines this use, so one task measures all browsers periodically, and kills one that exceeds a limit. The
//! measurement is cheap: it uses resident memory, which counts shared pages in full, and computes exact shares only above the
//! limit. It measures folders every fourth time, unless the disk is nearly full. Control groups would be exact, but few
//! machines delegate one to a service.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use kitfleet_domain::metrics::Gauge;
use kitfleet_types::log_throttle::LogThrottle;
use nix::unistd::Pid;
use procfs::WithCurrentSystemInfo;
use procfs::process::{Process, Stat};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::cause::Cause;
use super::processes::Processes;
use crate::config::{Bounds, bytes};

pub const BROWSER_MEMORY: Gauge = Gauge::new(
    "service_browser_memory_bytes",
    "Bytes of memory of this worker's browsers, idle ones included. Memory that processes share is counted once (PSS).",
    [],
)
.starting_at_zero();

/// A page can fill 1 GiB of memory in 0.5 s.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Folders are measured once per this number of measurements, because disks are slower than memory.
const FOLDERS_AFTER: u32 = 4;

/// For the memory metric. The kernel walks all pages of a process for it.
const SHARES_AFTER: Duration = Duration::from_secs(10);

/// A smaller folder is not blamed for a nearly full disk.
const MIN_BLAMED_BYTES: u64 = 16 * MIB;

/// Each entry of a folder counts at least this size.
const ENTRY: u64 = 4_096;

const MIB: u64 = 1024 * 1024;

/// Condemns browsers that exceed a limit.
pub struct Watchdog {
    bounds: Bounds,
    watched: Mutex<Vec<WatchedBrowser>>,
    /// For the memory metric.
    measured_at: Mutex<Option<Instant>>,
}

/// Measured as long as its kill order has an owner.
#[derive(Clone)]
struct WatchedBrowser {
    leader: Pid,
    folder: PathBuf,
    kill_order: Weak<KillOrder>,
}

impl WatchedBrowser {
    fn judge(&self, kill_order: &KillOrder, bytes: u64, limit: u64, cause: Cause) {
        if bytes > limit {
            let of = if cause == Cause::Memory { "memory" } else { "the disk" };
            let reason = format!("the browser took more than {} MiB of {of}", limit / MIB);
            tracing::warn!(detail = reason, path = %self.folder.display(), "browser exceeded its memory or disk limit");
            kill_order.issue(cause, reason);
        }
    }
}

#[derive(Default)]
pub struct KillOrder {
    reason: OnceLock<(Cause, String)>,
    issued: CancellationToken,
}

impl KillOrder {
    pub async fn issued(&self) -> (Cause, &str) {
        self.issued.cancelled().await;
        self.reason.get().map_or((Cause::Memory, ""), |(cause, reason)| (*cause, reason))
    }

    fn issue(&self, cause: Cause, reason: String) {
        // Only the first reason counts.
        let _ = self.reason.set((cause, reason));
        self.issued.cancel();
    }
}

impl Watchdog {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, watched: Mutex::default(), measured_at: Mutex::default() }
    }

    /// Starts to measure a browser, given the leader of its family and its folder.
    pub fn watch(&self, leader: Pid, folder: PathBuf) -> Arc<KillOrder> {
        let kill_order = Arc::<KillOrder>::default();
        self.with(|watched| watched.push(WatchedBrowser { leader, folder, kill_order: Arc::downgrade(&kill_order) }));
        kill_order
    }

    /// Never returns.
    pub async fn run(self: Arc<Self>) {
        for turn in (0..FOLDERS_AFTER).cycle() {
            sleep(POLL_INTERVAL).await;
            let this = Arc::clone(&self);
            if let Err(error) = spawn_blocking(move || this.measure(turn == 0)).await {
                tracing::error!(%error, "cannot measure the resources of browsers");
            }
        }
    }

    fn measure(&self, at_folders: bool) {
        let browsers: Vec<_> = self.with(|watched| {
            watched.retain(|browser| browser.kill_order.strong_count() > 0);
            watched.iter().filter_map(|browser| Some((browser.clone(), browser.kill_order.upgrade()?))).collect()
        });
        self.check_memory(&browsers);
        // All folders are on the same disk.
        let is_full = browsers.first().is_some_and(|(browser, _)| self.bounds.is_full(&browser.folder));
        if at_folders || is_full {
            self.check_folders(&browsers, is_full);
        }
    }

    fn check_memory(&self, browsers: &[(WatchedBrowser, Arc<KillOrder>)]) {
        static FAILED: LogThrottle = LogThrottle::new();
        let processes = match Processes::now() {
            Ok(processes) => processes,
            Err(error) => {
                return FAILED
                    .log(|held_back| tracing::error!(%error, held_back, "cannot measure the memory of browsers: its limit is not enforced"));
            }
        };
        let (measures, mut shares) = (self.measures_shares(), 0);
        for (browser, kill_order) in browsers {
            let family = processes.below(browser.leader);
            let taken = memory(&family, self.bounds.memory);
            browser.judge(kill_order, taken, self.bounds.memory, Cause::Memory);
            if measures {
                shares += own_shares(&family);
            }
        }
        if measures {
            BROWSER_MEMORY.series().set(bytes(shares));
        }
    }

    fn measures_shares(&self) -> bool {
        let mut measured_at = self.measured_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = measured_at.is_none_or(|at| at.elapsed() >= SHARES_AFTER);
        if is_due {
            *measured_at = Some(Instant::now());
        }
        is_due
    }

    /// If the disk is nearly full, also condemns the browser with the largest folder, one at a time.
    fn check_folders(&self, browsers: &[(WatchedBrowser, Arc<KillOrder>)], is_full: bool) {
        let weighed = browsers.iter().map(|(browser, kill_order)| {
            let bytes = size(&browser.folder, self.bounds.disk);
            browser.judge(kill_order, bytes, self.bounds.disk, Cause::Disk);
            (bytes, browser, kill_order)
        });
        let max = weighed.max_by_key(|(bytes, ..)| *bytes);
        // The space of a browser with a kill order is released soon.
        let is_dying = browsers.iter().any(|(_, kill_order)| kill_order.issued.is_cancelled());
        if let Some((bytes, browser, kill_order)) = max
            && is_full
            && !is_dying
            && bytes >= MIN_BLAMED_BYTES
        {
            tracing::warn!(path = %browser.folder.display(), disk_bytes = bytes, "the disk is nearly full: killing the browser that wrote most");
            kill_order.issue(Cause::Disk, "the disk is nearly full, and this browser wrote most".to_owned());
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<WatchedBrowser>) -> T) -> T {
        change(&mut self.watched.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// In bytes. An upper bound if that is within the limit, and exact otherwise.
fn memory(family: &[&Stat], limit: u64) -> u64 {
    let resident = family.iter().map(|process| process.rss_bytes().get()).sum();
    if resident <= limit { resident } else { own_shares(family) }
}

/// In bytes. Shared pages count proportionally.
fn own_shares(family: &[&Stat]) -> u64 {
    family.iter().map(|process| own_share(process.pid)).sum()
}

/// Shared pages count proportionally. 0 for a process that has ended.
fn own_share(pid: i32) -> u64 {
    let maps = Process::new(pid).and_then(|process| process.smaps_rollup());
    let sums = maps.into_iter().flat_map(|rollup| rollup.memory_map_rollup);
    sums.filter_map(|map| map.extension.map.get("Pss").copied()).sum()
}

/// In bytes. Counting stops above the limit. The browser changes the folder meanwhile, so missing entries are skipped. Links
/// are not followed.
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
    fn size_of_a_folder_includes_its_subfolders_but_no_link_targets() {
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
    fn memory_of_a_family_includes_its_processes() {
        // The child has memory once it has answered. It ends with its input, also when the test fails.
        let piped = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = piped.expect("it starts");
        let (mut input, mut output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        input.write_all(b"?").and_then(|()| output.read_exact(&mut [0])).expect("it answers");
        let processes = Processes::now().expect("there is a /proc");
        let family = processes.below(Pid::this());
        assert!(family.iter().any(|process| process.pid.unsigned_abs() == child.id()));
        // Both values may grow during the test.
        let (shares, resident) = (memory(&family, 0), memory(&family, u64::MAX));
        assert!(0 < shares && shares <= resident, "{shares} of {resident}");
        drop(input);
        child.wait().expect("it ends");
    }
}
