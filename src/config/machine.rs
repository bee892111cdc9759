//! Defaults that depend on the machine.

use std::path::PathBuf;

use kitfleet_domain::machine::Memory;
use kitfleet_domain::workers::MAX_SESSIONS;

pub(super) fn name() -> String {
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_else(|| "worker".to_owned())
}

/// The program beside this one, where a build puts it, otherwise the one in `PATH`.
pub(super) fn host_program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("kitfleet-host"));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("kitfleet-host"))
}

/// A session takes about 90 MiB, a heavy page takes more, and 1 GiB stays for the rest of the machine.
pub(super) fn sessions_that_fit(memory: u64) -> u32 {
    const MIB: u64 = 1024 * 1024;
    let sessions = memory.saturating_sub(1024 * MIB) / (110 * MIB);
    u32::try_from(sessions).unwrap_or(u32::MAX).clamp(1, MAX_SESSIONS)
}

/// Bytes of the machine's memory, or of the narrowest control group around this process.
pub fn memory_bytes() -> u64 {
    Memory::now().map_or(0, |memory| memory.all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_machine_has_one_session() {
        assert_eq!(sessions_that_fit(512 << 20), 1);
        assert_eq!(sessions_that_fit(4 << 30), 27);
    }
}
