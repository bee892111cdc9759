//! Downloads of a browser, within their limits.

use std::cell::{Cell, RefCell};

use kitfleet_host_protocol::{DownloadEntry, DownloadError, DownloadLimits, DownloadStatus};

/// Below the browser's folder.
pub(super) const FOLDER: &str = "downloads";

#[derive(Default)]
pub struct Downloads {
    limits: Cell<DownloadLimits>,
    entries: RefCell<Vec<DownloadEntry>>,
    last_id: Cell<u32>,
}

impl Downloads {
    pub fn set_limits(&self, limits: DownloadLimits) {
        self.limits.set(limits);
    }

    /// Oldest first.
    pub fn list(&self) -> Vec<DownloadEntry> {
        self.entries.borrow().clone()
    }

    /// The status says whether the download may go on. Failed entries beyond twice the number of files are dropped, the oldest
    /// first.
    pub(super) fn add(&self, uri: String, created_us: u64) -> DownloadEntry {
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        let mut entries = self.entries.borrow_mut();
        let max = usize::try_from(self.limits.get().files).unwrap_or(usize::MAX);
        let is_full = entries.iter().filter(|entry| entry.status != DownloadStatus::Failed).count() >= max;
        if entries.len() >= max.saturating_mul(2)
            && let Some(oldest) = entries.iter().position(|entry| entry.status == DownloadStatus::Failed)
        {
            entries.remove(oldest);
        }
        let entry = DownloadEntry {
            id,
            uri,
            file_name: String::new(),
            content_type: None,
            bytes: 0,
            status: if is_full { DownloadStatus::Failed } else { DownloadStatus::InProgress },
            error: is_full.then_some(DownloadError::TooLarge),
            path: format!("{FOLDER}/{id}"),
            created_us,
        };
        entries.push(entry.clone());
        entry
    }

    /// `None` if the download is not in progress.
    pub(super) fn change<T>(&self, id: u32, change: impl FnOnce(&mut DownloadEntry) -> T) -> Option<T> {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.iter_mut().find(|entry| entry.id == id && entry.status == DownloadStatus::InProgress)?;
        Some(change(entry))
    }

    pub(super) fn find(&self, id: u32) -> Option<DownloadEntry> {
        self.entries.borrow().iter().find(|entry| entry.id == id).cloned()
    }

    pub(super) fn fail(&self, id: u32, error: DownloadError) -> bool {
        let failed = self.change(id, |entry| {
            entry.status = DownloadStatus::Failed;
            entry.error = Some(error);
        });
        failed.is_some()
    }

    /// Together with the other downloads.
    pub(super) fn exceeds(&self, id: u32, bytes: u64) -> bool {
        let limits = self.limits.get();
        let entries = self.entries.borrow();
        let kept = entries.iter().filter(|entry| entry.id != id && entry.status != DownloadStatus::Failed);
        let others: u64 = kept.map(|entry| entry.bytes).sum();
        bytes > limits.file_bytes || others.saturating_add(bytes) > limits.total_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn downloads(file_bytes: u64, total_bytes: u64, files: u32) -> Downloads {
        let downloads = Downloads::default();
        downloads.set_limits(DownloadLimits { file_bytes, total_bytes, files });
        downloads
    }

    fn add(downloads: &Downloads) -> DownloadEntry {
        downloads.add("https://example.com/file".to_owned(), 0)
    }

    #[test]
    fn download_beyond_the_number_of_files_fails_and_the_list_stays_short() {
        let downloads = downloads(10, 100, 2);
        assert_eq!(add(&downloads).status, DownloadStatus::InProgress);
        assert_eq!(add(&downloads).status, DownloadStatus::InProgress);
        for _ in 0..1_000 {
            assert_eq!(add(&downloads).error, Some(DownloadError::TooLarge));
        }
        let listed = downloads.list();
        assert_eq!(listed.iter().map(|entry| entry.id).collect::<Vec<_>>(), [1, 2, 1_001, 1_002]);
    }

    #[test]
    fn failed_download_makes_room_for_another() {
        let downloads = downloads(10, 100, 1);
        let first = add(&downloads);
        assert!(downloads.fail(first.id, DownloadError::Network));
        assert!(!downloads.fail(first.id, DownloadError::Disk), "a failed download fails once");
        assert_eq!(add(&downloads).status, DownloadStatus::InProgress);
    }

    #[test]
    fn sizes_of_a_file_and_of_all_files_are_limited() {
        let downloads = downloads(10, 15, 5);
        let (first, second) = (add(&downloads), add(&downloads));
        assert!(!downloads.exceeds(first.id, 10));
        assert!(downloads.exceeds(first.id, 11));
        downloads.change(first.id, |entry| entry.bytes = 10);
        assert!(!downloads.exceeds(second.id, 5));
        assert!(downloads.exceeds(second.id, 6));
        downloads.fail(first.id, DownloadError::Cancelled);
        assert!(!downloads.exceeds(second.id, 10));
    }
}
