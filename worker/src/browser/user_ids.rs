//! User IDs for browsers, when the worker runs as root.
//!
//! A process can access the files and processes of every other process with its user ID, and unrelated services share the user
//! `nobody`. Each family of a browser therefore leases a user ID of its own, which no account, running process or other browser
//! has. No account is created for it: the kernel knows numbers only.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

use nix::unistd::{Uid, User, geteuid};
use rand::Rng as _;

/// The first range that the user namespace maps completely is used. systemd documents the first one as unused. The second one
/// is the range of systemd's `DynamicUser=`, for containers, whose namespace seldom maps more than 65,536 IDs.
const RANGES: [RangeInclusive<u32>; 2] = [1_879_048_192..=1_895_825_407, 61_184..=65_519];

/// Random user IDs that are tried.
const TRIES: usize = 100;

/// Linux's overflow user ID.
const NOBODY: u32 = 65_534;

#[derive(Debug)]
pub struct UserIds {
    range: RangeInclusive<u32>,
    leased: Mutex<BTreeSet<u32>>,
}

/// Dropping it releases the ID.
#[derive(Debug)]
pub struct UserId {
    id: u32,
    of: Arc<UserIds>,
}

impl UserIds {
    /// `None` when the user is not root, or its user namespace maps none of the ranges.
    pub fn find() -> io::Result<Option<Arc<Self>>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let mapped = [fs::read_to_string("/proc/self/uid_map")?, fs::read_to_string("/proc/self/gid_map")?];
        let usable = |range: &RangeInclusive<u32>| mapped.iter().all(|map| maps(map, range));
        let range = RANGES.into_iter().find(usable);
        Ok(range.map(|range| Arc::new(Self { range, leased: Mutex::default() })))
    }

    pub fn lease(self: &Arc<Self>) -> io::Result<UserId> {
        let running = running()?;
        for _ in 0..TRIES {
            let id = rand::rng().random_range(self.range.clone());
            if running.contains(&id) || User::from_uid(Uid::from_raw(id))?.is_some() {
                continue;
            }
            if self.leased.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
                return Ok(UserId { id, of: Arc::clone(self) });
            }
        }
        Err(io::Error::other("no user id is free for a browser"))
    }
}

impl UserId {
    /// The user ID, which is also the group ID.
    pub fn get(&self) -> u32 {
        self.id
    }
}

impl Drop for UserId {
    fn drop(&mut self) {
        self.of.leased.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// True when the current user is shared with unrelated services.
pub fn is_shared() -> io::Result<bool> {
    let user = geteuid();
    Ok(user.as_raw() == NOBODY || User::from_uid(user)?.is_some_and(|user| user.name == "nobody"))
}

/// One line of an ID map (`user_namespaces(7)`) covers the whole range.
fn maps(map: &str, range: &RangeInclusive<u32>) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u64>().ok());
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else {
            return false;
        };
        first <= u64::from(*range.start()) && u64::from(*range.end()) < first + count
    })
}

fn running() -> io::Result<BTreeSet<u32>> {
    let is_process =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
    let processes = fs::read_dir("/proc")?.filter_map(Result::ok).filter(is_process);
    // A process that has ended meanwhile has no metadata.
    Ok(processes.filter_map(|process| Some(process.metadata().ok()?.uid())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_usable_if_one_line_of_the_map_covers_it() {
        let whole = "         0          0 4294967295\n";
        let rootless = "         0       1000          1\n         1     100000      65536\n";
        let alone = "         0       1000          1\n";
        let usable = |map: &str| RANGES.iter().map(|range| maps(map, range)).collect::<Vec<_>>();
        assert_eq!(usable(whole), [true, true]);
        assert_eq!(usable(rootless), [false, true]);
        assert_eq!(usable(alone), [false, false]);
        assert_eq!(usable(""), [false, false]);
    }

    #[test]
    fn leased_id_is_not_leased_again() {
        let ids = Arc::new(UserIds { range: 1_879_048_192..=1_879_048_193, leased: Mutex::default() });
        let [one, other] = [(); 2].map(|()| ids.lease().expect("a free id"));
        assert_ne!(one.get(), other.get());
        assert!(ids.lease().is_err(), "both are leased");
        let free = one.get();
        drop(one);
        assert_eq!(ids.lease().expect("a free id").get(), free);
    }

    #[test]
    fn id_of_an_account_or_a_process_is_not_leased() {
        let own = geteuid().as_raw();
        let ids = Arc::new(UserIds { range: own..=own, leased: Mutex::default() });
        assert!(ids.lease().is_err(), "this test's process has it");
    }
}
