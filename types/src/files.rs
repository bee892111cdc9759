//! Files of a session: uploads to its pages, and downloads from them (contract: files).
//!
//! The bytes of a file are in no row: an API process exchanges them with the session's worker over the connection that
//! also carries live views.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::DownloadId;
use crate::timestamp::Timestamp;
use crate::validation::{Invalid, Rules, join_path};

pub const MAX_FILES: usize = 10;

pub const MAX_UPLOAD_BYTES: usize = 16 * 1024 * 1024;

const NAME_CHARS: usize = 4_096;

const MEDIA_TYPE_CHARS: usize = 255;

pub const MAX_ATTACHED: usize = 20;

pub const MAX_ATTACHED_BYTES: u64 = 64 * 1024 * 1024;

/// Limit of Linux file systems.
const NAME_BYTES: usize = 255;

/// An extension of at most this length is kept when a name is truncated.
const EXTENSION_BYTES: usize = 32;

/// Name of a file without a usable name.
const NAMELESS: &str = "file";

/// Names that Windows reserves for devices, with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Name of a file that is safe as the last part of a path and in a header.
///
/// It is not a path, has no invisible characters and none that change the direction of text, has at most 255 bytes, and is not
/// a name that an operating system reserves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct FileName(String);

impl FileName {
    /// A page, a server or a caller has chosen the text. Of a path only the last part counts.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let last = text.rsplit(['/', '\\']).next().unwrap_or_default();
        let shown: String = last.chars().filter(|character| !is_hidden(*character)).collect();
        let mut name = truncate(shown.trim_start());
        if is_reserved(&name) {
            name = truncate(&format!("_{name}"));
        }
        Self(if name.is_empty() { NAMELESS.to_owned() } else { name })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for FileName {
    fn from(text: String) -> Self {
        Self::of(&text)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Control characters, marks of direction, and characters without a width. Joiners of letters and emoji are kept.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{AD}'
                | '\u{61C}'
                | '\u{180E}'
                | '\u{200B}'
                | '\u{200E}'..='\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FEFF}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{E0000}'..='\u{E007F}'
        )
}

fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let is_port = |prefix: &str| {
        let number = stem.strip_prefix(prefix).unwrap_or_default();
        number.len() == 1 && number.chars().all(|digit| digit.is_ascii_digit())
    };
    DEVICES.contains(&stem.as_str()) || is_port("com") || is_port("lpt")
}

/// Keeps the extension, and removes dots and spaces at the end.
fn truncate(name: &str) -> String {
    let trim = |text: &str| text.trim_end_matches(|end: char| end == '.' || end.is_whitespace()).to_owned();
    let name = trim(name);
    if name.len() <= NAME_BYTES {
        return name;
    }
    let extension = name.rfind('.').map(|dot| &name[dot..]).filter(|extension| extension.len() <= EXTENSION_BYTES);
    let extension = extension.unwrap_or_default();
    let stem = &name[..name.len() - extension.len()];
    let end = stem.floor_char_boundary(NAME_BYTES - extension.len());
    trim(&format!("{}{extension}", &stem[..end]))
}

/// Exists in memory only.
#[derive(Clone)]
pub struct UploadedFile {
    pub name: FileName,
    pub content: Vec<u8>,
}

/// Prints neither the name nor the content.
impl fmt::Debug for UploadedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadedFile").field("bytes", &self.content.len()).finish_non_exhaustive()
    }
}

impl UploadedFile {
    /// `field` is the path in the request. A browser derives the media type from the name, so `content_type` is only
    /// checked.
    pub fn parse(name: &str, content_type: Option<&str>, content: Vec<u8>, field: &str) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        rules.length(name, 1, NAME_CHARS, &join_path(field, "name"));
        if let Some(media_type) = content_type {
            let is_valid = media_type.chars().count() <= MEDIA_TYPE_CHARS && is_media_type(media_type);
            rules.require(is_valid, &join_path(field, "content_type"), "must be a media type, such as text/plain");
        }
        rules.check()?;
        Ok(Self { name: FileName::of(name), content })
    }
}

/// RFC 9110, section 8.3.1.
#[must_use]
pub fn is_media_type(text: &str) -> bool {
    let is_token = |token: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !token.is_empty() && token.bytes().all(is_part)
    };
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let is_printable = parameters.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let parts = essence.trim().split_once('/');
    is_printable && parts.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

/// Download that an operation has started or waited for
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"id": "dl_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f", "file_name": "invoice.pdf"}))]
pub struct DownloadRef {
    /// ID of the download
    #[schema(value_type = String)]
    pub id: DownloadId,
    /// Suggested name of the file
    #[schema(value_type = String)]
    pub file_name: FileName,
}

/// File that a page has downloaded
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "id": "dl_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f", "url": "https://shop.example/invoice/7", "file_name": "invoice.pdf",
    "content_type": "application/pdf", "bytes": 48_213, "status": "complete", "error": null,
    "created_at": "2026-11-20T18:10:00.000Z",
}))]
pub struct Download {
    /// ID of the download
    #[schema(value_type = String)]
    pub id: DownloadId,
    /// Address of the file, limited to its first 32,768 characters
    pub url: String,
    /// Name that the server or the page suggests, without a path and without hidden characters, of at most 255 bytes
    #[schema(value_type = String)]
    pub file_name: FileName,
    /// Media type of the response; null if there is none
    #[schema(required = true)]
    pub content_type: Option<String>,
    /// Number of bytes received so far
    pub bytes: u64,
    /// Progress of the download
    pub status: DownloadStatus,
    /// Reason why the download has failed, otherwise null
    #[schema(required = true)]
    pub error: Option<DownloadError>,
    /// Time the download began
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

impl Download {
    #[must_use]
    pub fn reference(&self) -> DownloadRef {
        DownloadRef { id: self.id, file_name: self.file_name.clone() }
    }
}

/// Progress of a download
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DownloadStatus {
    InProgress,
    Complete,
    Failed,
}

/// Reason why a download has failed
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DownloadError {
    TooLarge,
    Network,
    Cancelled,
    Disk,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> String {
        FileName::of(text).as_str().to_owned()
    }

    /// Contract: files 4.
    #[test]
    fn hostile_names_become_safe() {
        for (text, safe) in [
            ("invoice.pdf", "invoice.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\a.txt", "a.txt"),
            ("..", "file"),
            (".", "file"),
            ("", "file"),
            ("folder/", "file"),
            ("a\0b\n.txt", "ab.txt"),
            ("invoice\u{202E}fdp.exe", "invoicefdp.exe"),
            ("\u{2066}\u{200B}", "file"),
            (" a .txt. . ", "a .txt"),
            ("CON", "_CON"),
            ("nul.txt", "_nul.txt"),
            ("com1.log", "_com1.log"),
            ("common.log", "common.log"),
            (".htaccess", ".htaccess"),
            ("résumé 日本.pdf", "résumé 日本.pdf"),
        ] {
            assert_eq!(name(text), safe, "{text:?}");
        }
        let long = name(&format!("{}.tar", "é".repeat(4_096)));
        assert!(long.len() <= 255 && long.ends_with("é.tar"), "{long}");
        assert_eq!(name(&"x".repeat(4_096)), "x".repeat(255));
        assert_eq!(name(&format!("x.{}", "y".repeat(4_096))).len(), 255);
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_safe_name(text in any::<String>()) {
            let name = name(&text);
            prop_assert!(!name.is_empty() && name.len() <= NAME_BYTES);
            prop_assert!(!name.contains(['/', '\\', '\0']) && name != "." && name != "..");
            let again = FileName::of(&name);
            prop_assert_eq!(again.as_str(), &name);
        }
    }

    #[test]
    fn media_types_are_recognised() {
        for good in ["text/plain", "text/plain; charset=utf-8", "application/vnd.a+json", "image/svg+xml"] {
            assert!(is_media_type(good), "{good}");
        }
        for bad in ["", "text", "text/", "/plain", "text/pl ain", "text/plain\r\nX: 1", "a/b;\u{7f}", "é/a"] {
            assert!(!is_media_type(bad), "{bad}");
        }
    }

    #[test]
    fn file_name_media_type_and_size_are_validated() {
        let parse = |name: &str, media_type| UploadedFile::parse(name, media_type, Vec::new(), "files.0");
        let fields = |result: Result<UploadedFile, Invalid>| {
            result.err().map(|Invalid(errors)| errors.into_iter().map(|error| error.field).collect::<Vec<_>>())
        };
        assert_eq!(fields(parse("a.txt", None)), None);
        assert_eq!(fields(parse("", Some("text"))), Some(vec!["files.0.name".into(), "files.0.content_type".into()]));
        assert_eq!(fields(parse(&"x".repeat(4_097), Some("text/plain"))), Some(vec!["files.0.name".into()]));
    }
}
