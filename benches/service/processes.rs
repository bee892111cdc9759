//! Resource use of processes, as the kernel counts it.

use std::time::Duration;

use procfs::process::{Process, Stat, all_processes};

use crate::Result;

/// Unit of the kernel's processor times (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

pub fn time(ticks: u64) -> Duration {
    TICK * u32::try_from(ticks).unwrap_or(u32::MAX)
}

pub fn own(process: &Stat) -> Duration {
    time(process.utime + process.stime)
}

pub fn all() -> Result<Vec<Stat>> {
    Ok(all_processes()?.flatten().filter_map(|process| process.stat().ok()).collect())
}

/// Including descendants, of those whose name has this prefix.
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

pub fn memory_mib(pid: i32) -> Result<f64> {
    let kib = Process::new(pid)?.status()?.vmrss.ok_or("it has ended")?;
    Ok(f64::from(u32::try_from(kib)?) / 1024.0)
}
