//! Taking a screenshot, the document or a PDF.

use std::string::FromUtf8Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::results::in_place;
use super::{OperationOutput, OperationSpec, Parameters};
use crate::limits::Limits;
use crate::usage::Record;

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

impl Parameters for Capture {
    const SPEC: OperationSpec =
        OperationSpec { kind: "capture", route: Some("capture"), allowed_while_paused: true, ..OperationSpec::READS };

    fn spec(&self) -> OperationSpec {
        match self.kind {
            CaptureKind::Screenshot => OperationSpec { usage: Some(Record::ScreenshotCapture), ..Self::SPEC },
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

/// A capture
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"kind": "screenshot", "encoding": "base64", "content": "iVBORw0KGgo…",
    "content_type": "image/png", "bytes": 48213, "duration_ms": 71, "url": "https://example.com/"}))]
#[allow(missing_docs, reason = "what has no words is told to customers by its name")]
pub struct Captured {
    #[schema(value_type = String)]
    pub kind: CaptureKind,
    /// `base64` for a screenshot or PDF, `utf8` for a DOM snapshot.
    #[schema(schema_with = in_place::<Encoding>)]
    pub encoding: Encoding,
    pub content: String,
    pub content_type: String,
    /// Of the content before it was encoded
    pub bytes: u64,
    pub duration_ms: u64,
    /// The page's address
    pub url: String,
}

impl Captured {
    /// A capture of so many bytes, which are not in it yet: they travel beside it, because as text they are a third longer.
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

    /// The whole of it.
    ///
    /// # Errors
    /// When `bytes` should be text, and are none.
    pub fn with_content(mut self, bytes: Vec<u8>) -> Result<Self, FromUtf8Error> {
        self.content = match self.encoding {
            Encoding::Base64 => BASE64.encode(bytes),
            Encoding::Utf8 => String::from_utf8(bytes)?,
        };
        Ok(self)
    }
}

/// How a capture's content is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Bytes, as text.
    Base64,
    /// Text.
    Utf8,
}

/// What a capture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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
        self.into()
    }

    fn encoding(self) -> Encoding {
        match self {
            Self::Screenshot | Self::Pdf => Encoding::Base64,
            Self::DomSnapshot => Encoding::Utf8,
        }
    }

    /// The content's media type.
    fn content_type(self) -> &'static str {
        match self {
            Self::Screenshot => "image/png",
            Self::DomSnapshot => "text/html; charset=utf-8",
            Self::Pdf => "application/pdf",
        }
    }
}
