//! Downloads that a browser has written, and uploads on their way to it. Both are handled in parallel to its operations.
//!
//! The folder of a running browser is untrusted: files in it are opened without following any link. An upload is written to a
//! folder that the browser cannot reach, and then moved as a whole.

use std::collections::HashMap;
use std::fs::File as BlockingFile;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::DateTime;
use kitfleet_host_protocol::{self as protocol, DownloadEntry, HostCommand, SelectedFile};
use kitfleet_live::files::{PIECE, UploadOffer};
use kitfleet_types::files::{
    Download, DownloadError, DownloadStatus, FileName, MAX_ATTACHED, MAX_ATTACHED_BYTES, is_media_type,
};
use kitfleet_types::ids::{DownloadId, UploadId};
use kitfleet_types::operations::Failure;
use kitfleet_types::timestamp::Timestamp;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use tokio::fs::{DirBuilder, File};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy_buf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use super::confinement::Confinement;
use super::directories::BrowserDirectory;
use super::host::{CallError, HostHandle, driver_failure};
use super::view::call;

/// Of a session.
const TRANSFERS: usize = 16;

/// A page cannot keep the host busy.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A reader waits as long for the end of a download.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// First and longest pause between two looks at a download.
pub(super) const POLL_PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

/// Of earlier uploads. A page may read a file long after it was selected.
const KEPT_BYTES: u64 = 128 * 1024 * 1024;

/// Does not keep the browser running.
#[derive(Clone)]
pub struct Files(Arc<Shared>);

struct Shared {
    source: Source,
    /// IDs of the downloads, by their number in the browser.
    ids: Mutex<Vec<(u32, DownloadId)>>,
    /// Complete, not taken by an operation.
    waiting: Mutex<HashMap<UploadId, Upload>>,
    /// They stay with the session, each an upload of one file.
    attached: Mutex<Vec<Upload>>,
    transfers: Arc<Semaphore>,
}

enum Source {
    Host(HostHandle, BrowserDirectory),
    /// Their content is made up.
    Simulated(Mutex<Vec<Download>>),
}

pub struct OpenDownload {
    pub file_name: FileName,
    pub content_type: Option<String>,
    pub bytes: u64,
    pub content: Box<dyn AsyncRead + Send + Unpin>,
}

#[derive(Debug)]
pub enum NotOpened {
    NoSuchDownload,
    Incomplete(DownloadStatus, Option<DownloadError>),
    Browser(Failure),
    File(io::Error),
}

#[derive(Debug)]
pub struct Upload {
    id: UploadId,
    names: Vec<FileName>,
    bytes: u64,
    /// Contains a numbered folder for each file. `None` for a simulated browser.
    folder: Option<PathBuf>,
}

/// No operation has taken the upload.
pub struct UploadGuard {
    files: Files,
    id: UploadId,
    folder: Option<PathBuf>,
    is_complete: bool,
}

impl Files {
    pub(super) fn of_host(line: HostHandle, directory: BrowserDirectory) -> Self {
        Self::of(Source::Host(line, directory))
    }

    pub(super) fn simulated() -> Self {
        Self::of(Source::Simulated(Mutex::default()))
    }

    fn of(source: Source) -> Self {
        let (ids, waiting, attached) = (Mutex::default(), Mutex::default(), Mutex::default());
        let transfers = Arc::new(Semaphore::new(TRANSFERS));
        Self(Arc::new(Shared { source, ids, waiting, attached, transfers }))
    }

    /// `None` when the session has too many transfers.
    pub fn slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.transfers).try_acquire_owned().ok()
    }

    /// Oldest first.
    pub async fn downloads(&self) -> Result<Vec<Download>, Failure> {
        match &self.0.source {
            Source::Host(line, _) => Ok(self.describe(&entries(line).await?)),
            Source::Simulated(downloads) => Ok(lock(downloads).clone()),
        }
    }

    /// Waits for the end of the download.
    pub async fn open(&self, id: DownloadId) -> Result<OpenDownload, NotOpened> {
        let given_up = Instant::now() + ENDS_WITHIN;
        let mut pause = POLL_PAUSES[0];
        loop {
            let (download, path) = self.find(id).await?;
            match download.status {
                DownloadStatus::Complete => return self.open_file(download, path).await,
                DownloadStatus::InProgress if Instant::now() < given_up => {}
                status => return Err(NotOpened::Incomplete(status, download.error)),
            }
            sleep(pause).await;
            pause = POLL_PAUSES[1].min(pause * 2);
        }
    }

    async fn find(&self, id: DownloadId) -> Result<(Download, String), NotOpened> {
        let found = match &self.0.source {
            Source::Host(line, _) => {
                let entries = entries(line).await.map_err(NotOpened::Browser)?;
                let paths = entries.iter().map(|entry| entry.path.clone());
                self.describe(&entries).into_iter().zip(paths).find(|(download, _)| download.id == id)
            }
            Source::Simulated(downloads) => {
                let found = lock(downloads).iter().find(|download| download.id == id).cloned();
                found.map(|download| (download, String::new()))
            }
        };
        found.ok_or(NotOpened::NoSuchDownload)
    }

    async fn open_file(&self, download: Download, path: String) -> Result<OpenDownload, NotOpened> {
        let Download { file_name, content_type, bytes, .. } = download;
        let Source::Host(_, directory) = &self.0.source else {
            let content = Box::new(tokio::io::repeat(b'x').take(bytes));
            return Ok(OpenDownload { file_name, content_type, bytes, content });
        };
        let root = directory.session();
        let opened = spawn_blocking(move || open_beneath(&root, Path::new(&path))).await;
        let (file, bytes) = opened.map_err(io::Error::other).flatten().map_err(NotOpened::File)?;
        Ok(OpenDownload { file_name, content_type, bytes, content: Box::new(File::from_std(file)) })
    }

    /// Assigns IDs to new entries.
    pub(super) fn describe(&self, entries: &[DownloadEntry]) -> Vec<Download> {
        let mut ids = lock(&self.0.ids);
        // The host drops old failures. A list that was read earlier than another one lacks the newest downloads only.
        let newest = entries.iter().map(|entry| entry.id).max().unwrap_or_default();
        ids.retain(|(number, _)| *number > newest || entries.iter().any(|entry| entry.id == *number));
        let mut id_of = |number: u32| {
            if let Some((_, id)) = ids.iter().find(|(known, _)| *known == number) {
                return *id;
            }
            let id = DownloadId::generate();
            ids.push((number, id));
            id
        };
        entries.iter().map(|entry| described(entry, id_of(entry.id))).collect()
    }

    /// The same download has the same ID in each list.
    pub(super) fn identify(&self, entry: &DownloadEntry) -> Download {
        let mut ids = lock(&self.0.ids);
        let known = ids.iter().find(|(number, _)| *number == entry.id).map(|(_, id)| *id);
        let id = known.unwrap_or_else(|| {
            let id = DownloadId::generate();
            ids.push((entry.id, id));
            id
        });
        described(entry, id)
    }

    pub(super) fn simulate(&self, download: Download) {
        if let Source::Simulated(downloads) = &self.0.source {
            lock(downloads).push(download);
        }
    }

    /// The caller has checked number and size. The files wait for their operation as long as the guard exists.
    pub async fn receive(
        &self,
        id: UploadId,
        offer: UploadOffer,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<UploadGuard> {
        let mut guard = self.guard(id);
        if let Some(folder) = &guard.folder {
            // The folder above it is gone when the browser has ended, and must not be created again.
            if let Some(incoming) = folder.parent() {
                create_unless_there(incoming).await?;
            }
            create(folder).await?;
        }
        let mut names = Vec::new();
        let mut total = 0;
        for (number, file) in offer.files.into_iter().enumerate() {
            let mut content = BufReader::with_capacity(PIECE, (&mut *stream).take(file.bytes));
            let copied = match &guard.folder {
                Some(folder) => {
                    let folder = folder.join(number.to_string());
                    create(&folder).await?;
                    let mut target = create_file(&folder.join(file.name.as_str())).await?;
                    let copied = copy_buf(&mut content, &mut target).await?;
                    target.flush().await?;
                    copied
                }
                None => copy_buf(&mut content, &mut tokio::io::sink()).await?,
            };
            if copied < file.bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            names.push(file.name);
            total += copied;
        }
        let upload = Upload { id, names, bytes: total, folder: guard.folder.clone() };
        lock(&self.0.waiting).insert(id, upload);
        guard.is_complete = true;
        Ok(guard)
    }

    fn guard(&self, id: UploadId) -> UploadGuard {
        let folder = match &self.0.source {
            Source::Host(_, directory) => Some(directory.incoming().join(id.as_uuid().to_string())),
            Source::Simulated(_) => None,
        };
        UploadGuard { files: self.clone(), id, folder, is_complete: false }
    }

    /// False when the session has too many.
    pub fn attach(&self, guard: &UploadGuard) -> bool {
        let mut attached = lock(&self.0.attached);
        let Some(upload) = self.take(guard.id) else { return false };
        let bytes = attached.iter().map(|upload| upload.bytes).sum::<u64>() + upload.bytes;
        let fits = attached.len() < MAX_ATTACHED && bytes <= MAX_ATTACHED_BYTES;
        if fits {
            attached.push(upload);
        } else {
            // The guard removes it.
            lock(&self.0.waiting).insert(guard.id, upload);
        }
        fits
    }

    /// Oldest first.
    pub fn attached_names(&self) -> Vec<FileName> {
        lock(&self.0.attached).iter().flat_map(|upload| upload.names.iter().take(1).cloned()).collect()
    }

    /// The copy can be given to a page. `None` when there is none.
    pub(super) async fn copy_attached(&self, name: &FileName) -> io::Result<Option<UploadGuard>> {
        let found = {
            let attached = lock(&self.0.attached);
            let found = attached.iter().rev().find(|upload| upload.names.contains(name));
            found.map(|upload| (upload.folder.clone(), upload.bytes))
        };
        let Some((source, bytes)) = found else { return Ok(None) };
        let mut guard = self.guard(UploadId::generate());
        if let (Some(source), Some(folder)) = (&source, &guard.folder) {
            // An attached file is the first one of its upload.
            let numbered = folder.join("0");
            create(folder).await?;
            create(&numbered).await?;
            tokio::fs::copy(source.join("0").join(name.as_str()), numbered.join(name.as_str())).await?;
        }
        let upload = Upload { id: guard.id, names: vec![name.clone()], bytes, folder: guard.folder.clone() };
        lock(&self.0.waiting).insert(guard.id, upload);
        guard.is_complete = true;
        Ok(Some(guard))
    }

    /// `None` when it has not arrived, or was removed.
    pub(super) fn waiting(&self, id: UploadId) -> Option<usize> {
        lock(&self.0.waiting).get(&id).map(|upload| upload.names.len())
    }

    /// `None` when it has not arrived, or was removed.
    pub(super) fn take(&self, id: UploadId) -> Option<Upload> {
        lock(&self.0.waiting).remove(&id)
    }
}

impl Upload {
    /// The last part of a path is the name that the page sees; the folder above it has a name of ours.
    ///
    /// # Errors
    ///
    /// For example because the browser has ended.
    pub(super) async fn hand_over(
        self,
        directory: &BrowserDirectory,
        confinement: &Confinement,
    ) -> io::Result<(HandedUpload, Vec<SelectedFile>)> {
        let name = format!("upload-{}", self.id.as_uuid());
        let target = directory.session().join(&name);
        if let Some(folder) = &self.folder {
            confinement.hand_over(folder, directory)?;
            // A link with this name would not be followed.
            tokio::fs::rename(folder, &target).await?;
        }
        let selected = self
            .names
            .iter()
            .enumerate()
            .map(|(number, file)| SelectedFile { path: format!("{name}/{number}/{file}"), name: file.to_string() });
        Ok((HandedUpload { folder: target, bytes: self.bytes }, selected.collect()))
    }
}

pub(super) struct HandedUpload {
    folder: PathBuf,
    bytes: u64,
}

#[derive(Default)]
pub(super) struct HandedUploads(Vec<HandedUpload>);

impl HandedUploads {
    /// Removes the oldest ones beyond [`KEPT_BYTES`].
    pub async fn add(&mut self, upload: HandedUpload) {
        self.0.push(upload);
        while self.0.len() > 1 && self.0.iter().map(|upload| upload.bytes).sum::<u64>() > KEPT_BYTES {
            remove(&self.0.remove(0).folder).await;
        }
    }
}

impl UploadGuard {
    pub(super) fn id(&self) -> UploadId {
        self.id
    }
}

impl Drop for UploadGuard {
    fn drop(&mut self) {
        let is_unused = self.files.take(self.id).is_some() || !self.is_complete;
        if let Some(folder) = self.folder.take().filter(|_| is_unused) {
            tokio::spawn(async move { remove(&folder).await });
        }
    }
}

async fn remove(folder: &Path) {
    // It follows no links.
    match tokio::fs::remove_dir_all(folder).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "cannot remove the files of an upload: they stay until the session ends");
        }
        _ => {}
    }
}

async fn create(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder).await
}

async fn create_unless_there(folder: &Path) -> io::Result<()> {
    match create(folder).await {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

async fn create_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path).await
}

pub(super) async fn entries(line: &HostHandle) -> Result<Vec<DownloadEntry>, Failure> {
    match timeout(ANSWER_WITHIN, call(line, HostCommand::Downloads)).await {
        Ok(entries) => entries.map_err(CallError::into_failure),
        Err(_) => Err(driver_failure("the browser does not answer")),
    }
}

fn described(entry: &DownloadEntry, id: DownloadId) -> Download {
    let micros = i64::try_from(entry.created_us).unwrap_or_default();
    Download {
        id,
        url: entry.uri.replace('\0', "\u{FFFD}"),
        file_name: FileName::of(&entry.file_name),
        content_type: entry.content_type.clone().filter(|media_type| is_media_type(media_type)),
        bytes: entry.bytes,
        status: match entry.status {
            protocol::DownloadStatus::InProgress => DownloadStatus::InProgress,
            protocol::DownloadStatus::Complete => DownloadStatus::Complete,
            protocol::DownloadStatus::Failed => DownloadStatus::Failed,
        },
        error: entry.error.map(|error| match error {
            protocol::DownloadError::TooLarge => DownloadError::TooLarge,
            protocol::DownloadError::Network => DownloadError::Network,
            protocol::DownloadError::Cancelled => DownloadError::Cancelled,
            protocol::DownloadError::Disk => DownloadError::Disk,
        }),
        created_at: Timestamp(DateTime::from_timestamp_micros(micros).unwrap_or_default()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The browser has chosen the path, and a compromised one can replace each part by a link to a file of the worker: no link is
/// followed.
fn open_beneath(root: &Path, path: &Path) -> io::Result<(BlockingFile, u64)> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let folder = flags | OFlag::O_DIRECTORY;
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    let (name, folders) = parts.split_last().ok_or(io::ErrorKind::InvalidInput)?;
    let root =
        BlockingFile::options().read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY).bits()).open(root)?;
    let mut within = OwnedFd::from(root);
    for part in folders {
        within = openat(&within, *part, folder, Mode::empty())?;
    }
    // Opening a pipe would wait for a writer.
    let file = BlockingFile::from(openat(&within, *name, flags | OFlag::O_NONBLOCK, Mode::empty())?);
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata.len())) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use kitfleet_live::files::OfferedFile;
    use nix::unistd::mkfifo;

    use super::*;

    /// Contract: files 12.
    #[test]
    fn open_beneath_follows_no_link() {
        let root = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
        let outside = root.with_extension("outside");
        fs::create_dir_all(root.join("downloads/1")).expect("a folder");
        fs::create_dir(&outside).expect("a folder");
        fs::write(root.join("downloads/1/file"), "content").expect("a file");
        fs::write(outside.join("file"), "secret").expect("a file");
        symlink(outside.join("file"), root.join("downloads/1/link")).expect("a link");
        symlink(&outside, root.join("downloads/2")).expect("a link");
        mkfifo(&root.join("downloads/pipe"), Mode::S_IRWXU).expect("a pipe");
        let open = |path: &str| open_beneath(&root, Path::new(path));
        assert_eq!(open("downloads/1/file").expect("a file").1, 7);
        for path in [
            "downloads/1/link",
            "downloads/2/file",
            "downloads/pipe",
            "downloads/1",
            "downloads/3",
            "downloads/../downloads/1/file",
            "",
            ".",
        ] {
            assert!(open(path).is_err(), "{path}");
        }
        assert!(open(&outside.join("file").to_string_lossy()).is_err());
        for folder in [root, outside] {
            fs::remove_dir_all(folder).expect("it is removed");
        }
    }

    fn offer(sizes: &[u64]) -> UploadOffer {
        let file = |bytes: &u64| OfferedFile { name: FileName::of("a.txt"), bytes: *bytes };
        UploadOffer { files: sizes.iter().map(file).collect() }
    }

    #[tokio::test]
    async fn upload_exists_until_it_is_taken_or_dropped() {
        let files = Files::simulated();
        let id = UploadId::generate();
        let guard = files.receive(id, offer(&[2, 3]), &mut &b"hello"[..]).await.expect("an upload");
        assert_eq!(files.waiting(id), Some(2));
        assert_eq!(files.take(id).map(|upload| upload.bytes), Some(5));
        assert!(files.take(id).is_none());
        drop(guard);
        drop(files.receive(id, offer(&[1]), &mut &b"h"[..]).await.expect("an upload"));
        assert!(files.take(id).is_none());
        let attached = files.receive(id, offer(&[1]), &mut &b"h"[..]).await.expect("an upload");
        assert!(files.attach(&attached) && files.take(id).is_none());
        let copy = files.copy_attached(&FileName::of("a.txt")).await.expect("no file system is used").expect("a file");
        assert_eq!(files.waiting(copy.id()), Some(1));
        assert!(files.copy_attached(&FileName::of("b.txt")).await.expect("no file system is used").is_none());
        assert!(files.receive(id, offer(&[6]), &mut &b"hello"[..]).await.is_err());
        assert!(files.take(id).is_none());
    }
}
