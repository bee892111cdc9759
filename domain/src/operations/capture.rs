//! Capturing a screenshot, the DOM or a PDF.

use std::string::FromUtf8Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::results::in_place;
use super::{OperationOutput, OperationSpec, Parameters, UsageKind};
use crate::limits::Limits;
use crate::validation::Invalid;

/// `POST /v1/sessions/:id/capture`
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Capture {
    /// Kind of capture.
    pub kind: CaptureKind,
    /// True to capture the whole document instead of the viewport; for screenshots.
    pub full_page: bool,
    /// True to scroll through the page first, so that lazy content loads.
    #[serde(default)]
    pub reveal: bool,
    /// Maximum size of the result in bytes.
    pub limit_bytes: Option<u64>,
}

impl Capture {
    /// Creates a capture with the size limit of its kind.
    #[must_use]
    pub fn new(kind: CaptureKind, full_page: bool, limits: &Limits) -> Self {
        let limit_bytes = match kind {
            CaptureKind::Screenshot => Some(limits.screenshot_bytes),
            CaptureKind::Pdf => Some(limits.pdf_bytes),
            CaptureKind::DomSnapshot => None,
        };
        Self { kind, full_page, reveal: false, limit_bytes }
    }

    /// Sets whether to scroll through the page first.
    ///
    /// # Errors
    /// On `reveal`, if this is not a screenshot of the whole page.
    pub fn revealing(self, reveal: bool) -> Result<Self, Invalid> {
        if reveal && !(self.full_page && self.kind == CaptureKind::Screenshot) {
            return Err(Invalid::field("reveal", "requires a screenshot with `full_page`"));
        }
        Ok(Self { reveal, ..self })
    }
}

impl Parameters for Capture {
    const SPEC: OperationSpec = OperationSpec {
        kind: "capture",
        route: Some("capture"),
        allowed_while_paused: true,
        allowed_with_dialog: true,
        ..OperationSpec::READS
    };

    fn spec(&self) -> OperationSpec {
        match self.kind {
            CaptureKind::Screenshot => OperationSpec { usage: Some(UsageKind::ScreenshotCapture), ..Self::SPEC },
            CaptureKind::DomSnapshot | CaptureKind::Pdf => Self::SPEC,
        }
    }
}

/// A capture as its browser makes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaptureResult {
    /// All members but the content.
    #[serde(flatten)]
    pub captured: Captured,
    /// Bytes of the content.
    #[serde(skip)]
    pub content: Vec<u8>,
}

impl OperationOutput for CaptureResult {
    fn into_content(self) -> Option<Vec<u8>> {
        Some(self.content)
    }
}

/// Capture of a page
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"kind": "screenshot", "encoding": "base64", "content": "iVBORw0KGgo…",
    "content_type": "image/png", "bytes": 48213, "duration_ms": 71, "url": "https://example.com/"}))]
#[allow(missing_docs, reason = "a field without a description needs none in the contract")]
pub struct Captured {
    #[schema(value_type = String)]
    pub kind: CaptureKind,
    /// Encoding of the content: `base64` for a screenshot or PDF, `utf8` for a DOM snapshot.
    #[schema(schema_with = in_place::<Encoding>)]
    pub encoding: Encoding,
    pub content: String,
    pub content_type: String,
    /// Size of the content in bytes, before encoding
    pub bytes: u64,
    pub duration_ms: u64,
    /// Address of the page
    pub url: String,
}

impl Captured {
    /// Creates a capture without its content, which is transferred separately as bytes, because base64 is a third longer.
    #[must_use]
    pub fn without_content(kind: CaptureKind, bytes: usize, duration_ms: u64, url: String) -> Self {
        Self {
            kind,
            encoding: kind.encoding(),
            content: String::new(),
            content_type: kind.content_type().to_owned(),
            bytes: bytes as u64,
            duration_ms,
            url,
        }
    }

    /// Adds the content.
    ///
    /// # Errors
    /// If the content of a DOM snapshot is not valid UTF-8.
    pub fn with_content(mut self, bytes: Vec<u8>) -> Result<Self, FromUtf8Error> {
        self.content = match self.encoding {
            Encoding::Base64 => BASE64.encode(bytes),
            Encoding::Utf8 => String::from_utf8(bytes)?,
        };
        Ok(self)
    }
}

/// Encoding of a capture's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Bytes in base64.
    Base64,
    /// Text.
    Utf8,
}

/// Kind of capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum CaptureKind {
    /// PNG in physical pixels.
    Screenshot,
    /// The document as HTML.
    DomSnapshot,
    /// PDF with A4 pages.
    Pdf,
}

impl CaptureKind {
    /// Name in a request.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn encoding(self) -> Encoding {
        match self {
            Self::Screenshot | Self::Pdf => Encoding::Base64,
            Self::DomSnapshot => Encoding::Utf8,
        }
    }

    /// Media type of the content.
    fn content_type(self) -> &'static str {
        match self {
            Self::Screenshot => "image/png",
            Self::DomSnapshot => "text/html; charset=utf-8",
            Self::Pdf => "application/pdf",
        }
    }
}
