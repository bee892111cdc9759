//! Pictures and PDF files of a page.

use serde::{Deserialize, Serialize};

/// Size of a written picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub width: u32,
    pub height: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    Viewport,
    Document,
    /// Left, top, width and height in CSS pixels of the viewport; may reach beyond it.
    Clip([f64; 4]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureFormat {
    Png,
    Jpeg(u8),
    Webp(u8),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PdfLayout {
    /// PWG 5101.1, such as `iso_a4`.
    pub paper: String,
    pub landscape: bool,
    /// Top, right, bottom and left, in millimetres. `None` for that of the paper.
    pub margins: [Option<f64>; 4],
    pub background: bool,
}
