//! What processes have taken until now, as the kernel counts it.

use std::time::Duration;

use procfs::process::{Process, Stat, all_processes};

use crate::Result;

/// In which the kernel counts processor time (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// So many of the kernel's ticks.
pub fn time(ticks: u64) -> Duration {
    TICK * u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// The processor time of a process itself.
pub fn own(process: &Stat) -> Duration {
    time(process.utime + process.stime)
}

/// All processes that there are.
pub fn all() -> Result<Vec<Stat>> {
    Ok(all_processes()?.flatten().filter_map(|process| process.stat().ok()).collect())
}

/// The processor time of these, and of what they have started and what that has, whose name begins so.
pub fn with_descendants(roots: &[i32], name: &str) -> Result<Duration> {
    let all = all()?;
    let mut family = roots.to_vec();
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        family.extend(all.iter().filter(|process| process.ppid == parent).map(|process| process.pid));
        at += 1;
    }
    let wanted = |process: &&Stat| family.contains(&process.pid) && process.comm.starts_with(name);
    Ok(all.iter().filter(wanted).map(own).sum())
}

/// The memory that a process has, in MiB.
pub fn memory_mib(pid: i32) -> Result<f64> {
    let kib = Process::new(pid)?.status()?.vmrss.ok_or("it has ended")?;
    Ok(f64::from(u32::try_from(kib)?) / 1024.0)
}
