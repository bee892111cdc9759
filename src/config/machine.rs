//! What this machine has, where a default depends on it.

use std::fs;
use std::path::PathBuf;

use kitfleet_domain::workers::MOST_SESSIONS;

pub(super) fn name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "worker".to_owned())
}

/// Beside this program, where a build puts it, else wherever `PATH` finds it.
pub(super) fn host_program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("kitfleet-host"));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("kitfleet-host"))
}

/// A session takes about 90 MiB, and a heavy page more; the rest of the machine keeps 1 GiB.
pub(super) fn sessions_that_fit(memory: u64) -> u32 {
    const MIB: u64 = 1024 * 1024;
    let sessions = memory.saturating_sub(1024 * MIB) / (110 * MIB);
    u32::try_from(sessions).unwrap_or(u32::MAX).clamp(1, MOST_SESSIONS)
}

/// The machine's memory, or what the control group of a container leaves of it.
pub fn memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    });
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_still_gets_a_session() {
        assert_eq!(sessions_that_fit(512 << 20), 1);
        assert_eq!(sessions_that_fit(4 << 30), 27);
    }
}
