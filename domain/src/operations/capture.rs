//! Taking a screenshot, the document or a PDF.

use serde::{Deserialize, Serialize};

use crate::limits::Limits;

/// `POST /v1/sessions/:id/capture`
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Capture {
    /// Of what.
    pub kind: CaptureKind,
    /// The whole document instead of the viewport; for screenshots.
    pub full_page: bool,
    /// Bytes the result may have.
    pub limit_bytes: Option<u64>,
}

impl Capture {
    /// A capture under the limits of its kind.
    #[must_use]
    pub fn new(kind: CaptureKind, full_page: bool, limits: &Limits) -> Self {
        let limit_bytes = match kind {
            CaptureKind::Screenshot => Some(limits.screenshot_bytes),
            CaptureKind::Pdf => Some(limits.pdf_bytes),
            CaptureKind::DomSnapshot => None,
        };
        Self { kind, full_page, limit_bytes }
    }
}

/// What a capture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureKind {
    /// A PNG in physical pixels.
    Screenshot,
    /// The document as HTML.
    DomSnapshot,
    /// A4 pages.
    Pdf,
}

impl CaptureKind {
    /// As the caller spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Screenshot => "screenshot",
            Self::DomSnapshot => "dom_snapshot",
            Self::Pdf => "pdf",
        }
    }

    /// The content's media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Screenshot => "image/png",
            Self::DomSnapshot => "text/html; charset=utf-8",
            Self::Pdf => "application/pdf",
        }
    }
}
