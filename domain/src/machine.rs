//! Resources of the machine: room on a disk, memory, and turns of a processor.

mod memory;

use std::io;
use std::path::Path;

use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

pub use self::memory::Memory;

/// Of a small disk no more than this part has to stay free.
const FLOOR_SHARE: u64 = 20;

/// What is added to the nice value of a thread that yields; 19 is the most. It then gets a few hundredths of what one of normal
/// priority gets of a core that both want.
const NICENESS: i32 = 19;

/// The room on a disk, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct DiskSpace {
    /// What may still be written.
    pub left: u64,
    all: u64,
}

impl DiskSpace {
    /// The room on the disk that holds `folder`.
    ///
    /// # Errors
    /// When there is no such folder, or its disk does not answer.
    pub fn on(folder: &Path) -> io::Result<Self> {
        let disk = rustix::fs::statvfs(folder)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(Self { left: bytes(disk.f_bavail), all: bytes(disk.f_blocks) })
    }

    /// Bytes that have to stay free: `floor`, or a twentieth of a small disk.
    #[must_use]
    pub fn floor(&self, floor: u64) -> u64 {
        floor.min(self.all / FLOOR_SHARE)
    }

    /// Whether less is left than has to stay free.
    #[must_use]
    pub fn is_below(&self, floor: u64) -> bool {
        self.left < self.floor(floor)
    }
}

/// Makes this thread yield to all others from now on. On Linux a nice value is a thread's own.
///
/// # Errors
/// When that is refused: everything works as before then.
pub fn yield_to_others() -> io::Result<()> {
    rustix::process::nice(NICENESS)?;
    Ok(())
}

/// Makes this thread run only when no other thread of the machine wants its core. A thread of normal priority that wakes up takes the core at
/// once; from a thread that only has a higher nice value it does so after some milliseconds.
///
/// # Errors
/// When that is refused: everything works as before then.
pub fn run_when_idle() -> io::Result<()> {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_leave_its_core_to_all_others() {
        let status = || std::fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
        let policy = |told: String| told.lines().find(|line| line.starts_with("policy")).map(ToOwned::to_owned);
        std::thread::spawn(move || {
            run_when_idle().expect("any thread may");
            // 5 is SCHED_IDLE.
            assert!(policy(status()).is_none_or(|line| line.trim_end().ends_with('5')), "{:?}", policy(status()));
        })
        .join()
        .expect("it is done");
    }

    #[test]
    fn a_small_disk_has_to_keep_only_its_share() {
        let room = |left, all| DiskSpace { left, all };
        assert!(room(99, 10_000).is_below(100));
        assert!(!room(100, 10_000).is_below(100));
        assert!(!room(50, 1_000).is_below(100));
        assert!(room(49, 1_000).is_below(100));
    }
}
