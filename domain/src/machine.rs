//! Resources of the machine: disk space, memory and scheduling priority.

mod load;
mod memory;

use std::io;
use std::path::Path;

use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

pub use self::load::processor_load;
pub use self::memory::Memory;

/// On a small disk, the free space can be as low as this fraction of the disk (one twentieth).
const FLOOR_SHARE: u64 = 20;

/// 19 is the maximum. On a contended core, the thread then gets a few percent of the time of a thread with normal
/// priority.
const NICENESS: i32 = 19;

#[derive(Debug, Clone, Copy)]
pub struct DiskSpace {
    pub left: u64,
    all: u64,
}

impl DiskSpace {
    pub fn on(folder: &Path) -> io::Result<Self> {
        let disk = rustix::fs::statvfs(folder)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(Self { left: bytes(disk.f_bavail), all: bytes(disk.f_blocks) })
    }

    /// `floor`, or one twentieth of a small disk.
    #[must_use]
    pub fn floor(&self, floor: u64) -> u64 {
        floor.min(self.all / FLOOR_SHARE)
    }

    #[must_use]
    pub fn is_below(&self, floor: u64) -> bool {
        self.left < self.floor(floor)
    }
}

/// On Linux, the nice value belongs to the thread.
///
/// After an error the thread keeps its priority.
pub fn lower_thread_priority() -> io::Result<()> {
    rustix::process::nice(NICENESS)?;
    Ok(())
}

/// Waits while another thread needs the core. A waking thread of normal priority gets the core at once; from a thread
/// that only has a higher nice value it gets the core after some milliseconds.
///
/// After an error the thread keeps its priority.
pub fn run_when_idle() -> io::Result<()> {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_can_get_idle_priority() {
        let status = || std::fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
        let policy = |text: String| text.lines().find(|line| line.starts_with("policy")).map(ToOwned::to_owned);
        std::thread::spawn(move || {
            run_when_idle().expect("no privilege is required");
            // 5 is SCHED_IDLE.
            assert!(policy(status()).is_none_or(|line| line.trim_end().ends_with('5')), "{:?}", policy(status()));
        })
        .join()
        .expect("the thread ends");
    }

    #[test]
    fn small_disk_keeps_one_twentieth_free() {
        let disk = |left, all| DiskSpace { left, all };
        assert!(disk(99, 10_000).is_below(100));
        assert!(!disk(100, 10_000).is_below(100));
        assert!(!disk(50, 1_000).is_below(100));
        assert!(disk(49, 1_000).is_below(100));
    }
}
