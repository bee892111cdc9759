//! Mails as files, for installations without a mail server and for tests: one `.eml` file per message, which any mail program
//! opens. File names sort by time. The mails hold sign-in links, so only the files' owner can read them.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use kitfleet_domain::emails::Outcome;
use tokio::fs::{self, DirBuilder, OpenOptions};
use tokio::io::AsyncWriteExt as _;

use super::NotSent;
use super::mail::{Mail, Sender};

pub(super) struct Outbox(PathBuf);

impl Outbox {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub(super) async fn send(&self, mail: &Mail, from: &Sender) -> Result<(), NotSent> {
        let message = mail.message(from)?.formatted();
        self.keep(mail, &message).await.map_err(|error| NotSent::new(Outcome::Transport, error))
    }

    /// Returns the number of files removed.
    pub(super) async fn remove_older_than(&self, age: Duration) -> io::Result<usize> {
        let mut entries = match fs::read_dir(&self.0).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut removed = 0;
        while let Some(entry) = entries.next_entry().await? {
            let written_at = entry.metadata().await?.modified()?;
            if SystemTime::now().duration_since(written_at).is_ok_and(|old| old > age) {
                fs::remove_file(entry.path()).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Under a temporary name first, so that readers never see a partial file.
    async fn keep(&self, mail: &Mail, message: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).await?;
        let time = mail.written_at.0.format("%Y%m%dT%H%M%S%.6fZ");
        let name = format!("{time}-{}-{}.eml", mail.template.name(), mail.id);
        let unfinished = self.0.join(format!(".{name}.{}", mail.attempt));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished).await?;
        file.write_all(message).await?;
        // Reports a write that failed in the background, for example on a full disk.
        file.flush().await?;
        file.sync_all().await?;
        fs::rename(unfinished, self.0.join(name)).await
    }
}
