//! File choosers and downloads.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenChooser {
    pub multiple: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedFile {
    /// Below the browser's folder.
    pub path: String,
    /// The last part of the path, because WebKit takes the name from there.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChooserState {
    Selected,
    NoChooser,
    /// The chooser takes one file, and stays open.
    Rejected,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadEntry {
    /// Never used again in a browser.
    pub id: u32,
    pub uri: String,
    /// Suggested by the page or the server, truncated. No file has this name.
    pub file_name: String,
    pub content_type: Option<String>,
    pub bytes: u64,
    pub status: DownloadStatus,
    pub error: Option<DownloadError>,
    /// Below the browser's folder. The file exists for the status `complete` only.
    pub path: String,
    /// Microseconds since 1970.
    pub created_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadStatus {
    InProgress,
    Complete,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadError {
    /// Of the file, or of all files together.
    TooLarge,
    Network,
    Cancelled,
    Disk,
}
