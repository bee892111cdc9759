//! Transfer of files between an API process and a worker, over a [`link`](crate::link).
//!
//! After the worker has admitted the ticket ([`FileAccess`](kitfleet_domain::file_access::FileAccess)), both sides
//! send messages, each of which is a length of four bytes and JSON. The bytes of files follow their description without
//! a frame:
//!
//! | transfer | API process | worker |
//! |---|---|---|
//! | downloads | | [`FileReply::Downloads`] |
//! | content | | [`FileReply::Content`] and the bytes of the file |
//! | upload, attachment | [`UploadOffer`] and the bytes of all files | [`FileReply::Received`] |
//!
//! The worker keeps the files of an upload until their operation has taken them, or the API process closes the connection.

use std::io;

use kitfleet_types::files::{Download, DownloadError, DownloadStatus, FileName};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A list of 100 downloads with the longest addresses has 13 MB.
const MESSAGE_BYTES: u32 = 16 * 1024 * 1024;

pub const PIECE: usize = 256 * 1024;

/// Files that an API process sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UploadOffer {
    /// The files, in the order of their bytes.
    pub files: Vec<OfferedFile>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OfferedFile {
    pub name: FileName,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FileReply {
    /// Oldest first.
    Downloads {
        downloads: Vec<Download>,
    },
    Content {
        file_name: FileName,
        content_type: Option<String>,
        /// Number of bytes that follow.
        bytes: u64,
    },
    NoSuchDownload,
    /// The download has not ended in time, or has failed.
    Incomplete {
        status: DownloadStatus,
        error: Option<DownloadError>,
    },
    Received,
    Full,
    Gone,
    Failed {
        detail: String,
    },
}

pub async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let message = serde_json::to_vec(message)?;
    let length = u32::try_from(message.len()).ok().filter(|length| *length <= MESSAGE_BYTES);
    stream.write_u32(length.ok_or(io::ErrorKind::InvalidData)?).await?;
    stream.write_all(&message).await?;
    stream.flush().await
}

/// Receives a message and no byte after it.
pub async fn receive<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<T> {
    let length = stream.read_u32().await?;
    if length > MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = Vec::new();
    // The memory is allocated as the bytes arrive.
    let read = stream.take(u64::from(length)).read_to_end(&mut message).await?;
    if read < usize::try_from(length).unwrap_or(usize::MAX) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&message)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn message_leaves_the_bytes_after_it() {
        let (mut one, mut other) = tokio::io::duplex(64);
        let content = FileReply::Content {
            file_name: FileName::of("a.txt"),
            content_type: Some("text/plain".to_owned()),
            bytes: 5,
        };
        let sent = content.clone();
        let sending = tokio::spawn(async move {
            send(&mut one, &sent).await.expect("a message");
            one.write_all(b"hello").await.expect("five bytes");
        });
        assert_eq!(receive::<FileReply>(&mut other).await.expect("a message"), content);
        let mut bytes = Vec::new();
        other.read_to_end(&mut bytes).await.expect("five bytes");
        assert_eq!(bytes, b"hello");
        sending.await.expect("no panic");
    }

    #[tokio::test]
    async fn invalid_messages_are_refused() {
        for sent in [&b"\xff\xff\xff\xff{}"[..], b"\0\0\0\x02[]", b"\0\0\0\x09{}", b"\0\0"] {
            assert!(receive::<UploadOffer>(&mut &*sent).await.is_err(), "{sent:?}");
        }
    }
}
