//! Available memory of the machine, and of the control groups (version 1 or 2) that contain this process.

use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Memory available without swapping.
    pub left: u64,
    pub all: u64,
}

/// Bytes that must stay free on a large machine.
const FLOOR: u64 = 256 * 1024 * 1024;

/// On a small machine, one twentieth must stay free.
const FLOOR_SHARE: u64 = 20;

impl Memory {
    /// `None` when the kernel does not provide the values.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::read_below(Path::new("/"))
    }

    /// Less than must stay free: 256 MiB, or one twentieth of a small machine. Other processes on the machine, such as
    /// another worker, count too.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.left < FLOOR.min(self.all / FLOOR_SHARE)
    }

    /// The lowest limit applies.
    fn read_below(root: &Path) -> Option<Self> {
        let lower = |one: Self, other: Self| Self { left: one.left.min(other.left), all: one.all.min(other.all) };
        let groups = groups(root).into_iter().filter_map(|group| of_group(&group));
        Some(groups.fold(of_machine(root)?, lower))
    }
}

fn of_machine(root: &Path) -> Option<Memory> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let bytes = |name| Some(number(&text, name)? * 1024);
    Some(Memory { left: bytes("MemAvailable:")?, all: bytes("MemTotal:")? })
}

/// Returns the control groups of this process and their ancestors, in both hierarchies. In a container the path can be
/// that on the host, of which only the root is visible.
fn groups(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounted = root.join("sys/fs/cgroup");
    let of = |path: &str, mounted: &Path| {
        let groups = Path::new(path.trim_start_matches('/')).ancestors();
        groups.map(|group| mounted.join(group)).collect::<Vec<_>>()
    };
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        if controllers.is_empty() {
            return Some(of(path, &mounted));
        }
        controllers.split(',').any(|controller| controller == "memory").then(|| of(path, &mounted.join("memory")))
    };
    text.lines().filter_map(of_line).flatten().collect()
}

/// `None` for a group without a limit.
fn of_group(group: &Path) -> Option<Memory> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    let bytes = |file: &str| read(file)?.trim().parse::<u64>().ok();
    let stat = |name: &str| number(&read("memory.stat")?, name);
    // Above `memory.high` the kernel throttles the processes.
    let newer = bytes("memory.max").into_iter().chain(bytes("memory.high")).min();
    let (all, used, spare) = match newer {
        Some(all) => (all, bytes("memory.current")?, stat("inactive_file")?),
        // Without a limit, this is close to the largest number, and the memory of the machine is lower.
        None => (bytes("memory.limit_in_bytes")?, bytes("memory.usage_in_bytes")?, stat("total_inactive_file")?),
    };
    // The kernel reclaims inactive file pages first.
    Some(Memory { left: all.saturating_sub(used.saturating_sub(spare)), all })
}

fn number(text: &str, name: &str) -> Option<u64> {
    let mut words = text.lines().map(str::split_whitespace);
    words.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * 1024 * 1024;

    #[test]
    fn lowest_limit_applies() {
        let root = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        assert_eq!(Memory::read_below(&root), None);
        write("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          100 kB\nMemAvailable:    4194304 kB\n");
        assert_eq!(Memory::read_below(&root), Some(Memory { left: 4 * GIB, all: 8 * GIB }));

        // The slice has a limit and the service in it has none.
        write("proc/self/cgroup", "0::/some.slice/kitfleet.service\n");
        write("sys/fs/cgroup/some.slice/kitfleet.service/memory.max", "max\n");
        write("sys/fs/cgroup/some.slice/memory.max", &format!("{}\n", 2 * GIB));
        write("sys/fs/cgroup/some.slice/memory.high", "max\n");
        write("sys/fs/cgroup/some.slice/memory.current", &format!("{}\n", 2 * GIB));
        write("sys/fs/cgroup/some.slice/memory.stat", &format!("anon 1\ninactive_file {GIB}\nactive_file 2\n"));
        assert_eq!(Memory::read_below(&root), Some(Memory { left: GIB, all: 2 * GIB }));

        // Container with control groups of version 1, which sees its own group as the root.
        write("proc/self/cgroup", "9:cpu,cpuacct:/docker/5a\n4:memory:/docker/5a\n0::/\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", &format!("{GIB}\n"));
        write("sys/fs/cgroup/memory/memory.usage_in_bytes", &format!("{GIB}\n"));
        write("sys/fs/cgroup/memory/memory.stat", &format!("inactive_file 1\ntotal_inactive_file {}\n", GIB / 2));
        assert_eq!(Memory::read_below(&root), Some(Memory { left: GIB / 2, all: GIB }));
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(Memory::read_below(&root), Some(Memory { left: 4 * GIB, all: 8 * GIB }));
        fs::remove_dir_all(root).expect("it is removed");
    }

    #[test]
    fn memory_is_short_below_256_mib_or_a_twentieth() {
        let memory = |left, all| Memory { left, all };
        assert!(memory(GIB / 4 - 1, 64 * GIB).is_short() && !memory(GIB / 4, 64 * GIB).is_short());
        assert!(memory(GIB / 20 - 1, GIB).is_short() && !memory(GIB / 20, GIB).is_short());
    }

    #[test]
    fn memory_of_this_machine_is_known() {
        let Memory { left, all } = Memory::now().expect("Linux provides the values");
        assert!(0 < left && left <= all, "{left} of {all}");
    }
}
