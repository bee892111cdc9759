//! Memory that is left: of the machine, and of the control groups that this process is in, such as a container's. Version 1 and
//! version 2 of control groups are read.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// What can be had without anybody's being the worse for it.
    pub left: u64,
    /// What there is at all.
    pub all: u64,
}

/// Bytes that have to stay free on a large machine.
const FLOOR: u64 = 256 * 1024 * 1024;

/// Of a small machine no more than this part has to stay free.
const FLOOR_SHARE: u64 = 20;

impl Memory {
    /// As it is now; `None` where the kernel does not tell.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::told_below(Path::new("/"))
    }

    /// Whether less is left than has to stay free: 256 MiB, or a twentieth of a small machine. Whatever else runs there counts, such as
    /// another worker.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.left < FLOOR.min(self.all / FLOOR_SHARE)
    }

    /// As the files of the kernel tell that lie below `root`. Who is narrowest decides.
    fn told_below(root: &Path) -> Option<Self> {
        let narrower = |one: Self, other: Self| Self { left: one.left.min(other.left), all: one.all.min(other.all) };
        let groups = groups(root).into_iter().filter_map(|group| of_group(&group));
        Some(groups.fold(of_machine(root)?, narrower))
    }
}

fn of_machine(root: &Path) -> Option<Memory> {
    let told = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let bytes = |name| Some(number(&told, name)? * 1024);
    Some(Memory { left: bytes("MemAvailable:")?, all: bytes("MemTotal:")? })
}

/// The control group of this process and those around it, in both hierarchies. In a container the path may be one of the machine, of which
/// only the root is there to see.
fn groups(root: &Path) -> Vec<PathBuf> {
    let told = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
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
    told.lines().filter_map(of_line).flatten().collect()
}

/// `None` for a group without a limit.
fn of_group(group: &Path) -> Option<Memory> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    let bytes = |file: &str| read(file)?.trim().parse::<u64>().ok();
    let stat = |name: &str| number(&read("memory.stat")?, name);
    // Above `memory.high` nothing is killed, but everything is slowed down.
    let newer = bytes("memory.max").into_iter().chain(bytes("memory.high")).min();
    let (all, used, spare) = match newer {
        Some(all) => (all, bytes("memory.current")?, stat("inactive_file")?),
        // Without a limit this is nearly the largest number, which the machine's memory is below.
        None => (bytes("memory.limit_in_bytes")?, bytes("memory.usage_in_bytes")?, stat("total_inactive_file")?),
    };
    // What was read of files, and not lately, is given up first.
    Some(Memory { left: all.saturating_sub(used.saturating_sub(spare)), all })
}

/// The number behind a name at the beginning of a line.
fn number(told: &str, name: &str) -> Option<u64> {
    let mut words = told.lines().map(str::split_whitespace);
    words.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * 1024 * 1024;

    #[test]
    fn the_narrowest_limit_counts() {
        let root = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        assert_eq!(Memory::told_below(&root), None);
        write("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          100 kB\nMemAvailable:    4194304 kB\n");
        assert_eq!(Memory::told_below(&root), Some(Memory { left: 4 * GIB, all: 8 * GIB }));

        // What a slice has is limited, and a service in it is not.
        write("proc/self/cgroup", "0::/some.slice/kitfleet.service\n");
        write("sys/fs/cgroup/some.slice/kitfleet.service/memory.max", "max\n");
        write("sys/fs/cgroup/some.slice/memory.max", &format!("{}\n", 2 * GIB));
        write("sys/fs/cgroup/some.slice/memory.high", "max\n");
        write("sys/fs/cgroup/some.slice/memory.current", &format!("{}\n", 2 * GIB));
        write("sys/fs/cgroup/some.slice/memory.stat", &format!("anon 1\ninactive_file {GIB}\nactive_file 2\n"));
        assert_eq!(Memory::told_below(&root), Some(Memory { left: GIB, all: 2 * GIB }));

        // A container of version 1, which sees its own group as the root.
        write("proc/self/cgroup", "9:cpu,cpuacct:/docker/5a\n4:memory:/docker/5a\n0::/\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", &format!("{GIB}\n"));
        write("sys/fs/cgroup/memory/memory.usage_in_bytes", &format!("{GIB}\n"));
        write("sys/fs/cgroup/memory/memory.stat", &format!("inactive_file 1\ntotal_inactive_file {}\n", GIB / 2));
        assert_eq!(Memory::told_below(&root), Some(Memory { left: GIB / 2, all: GIB }));
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(Memory::told_below(&root), Some(Memory { left: 4 * GIB, all: 8 * GIB }));
        fs::remove_dir_all(root).expect("it is removed");
    }

    #[test]
    fn memory_is_short_below_256_mib_or_a_twentieth() {
        let memory = |left, all| Memory { left, all };
        assert!(memory(GIB / 4 - 1, 64 * GIB).is_short() && !memory(GIB / 4, 64 * GIB).is_short());
        assert!(memory(GIB / 20 - 1, GIB).is_short() && !memory(GIB / 20, GIB).is_short());
    }

    #[test]
    fn this_machine_tells() {
        let Memory { left, all } = Memory::now().expect("Linux tells");
        assert!(0 < left && left <= all, "{left} of {all}");
    }
}
