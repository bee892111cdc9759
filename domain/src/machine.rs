//! Resources of the machine: room on a disk, memory, and turns of a processor.

mod memory;

use std::io;
use std::path::Path;

pub use self::memory::Memory;

/// Of a small disk no more than this part has to stay free.
const FLOOR_SHARE: u64 = 20;

/// What is added to the nice value of a thread that yields; 19 is the most. It then gets a few hundredths of what one of normal
/// priority gets of a core that both want.
const NICENESS: i32 = 19;

/// The room on a disk, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// What may still be written.
    pub left: u64,
    all: u64,
}

impl Room {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_disk_has_to_keep_only_its_share() {
        let room = |left, all| Room { left, all };
        assert!(room(99, 10_000).is_below(100));
        assert!(!room(100, 10_000).is_below(100));
        assert!(!room(50, 1_000).is_below(100));
        assert!(room(49, 1_000).is_below(100));
    }
}
