use std::string::FromUtf8Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::locators::require_element;
use super::results::in_place;
use super::{Element, OperationOutput, OperationSpec, Parameters, UsageKind};
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

/// Quality of a JPEG or a WebP without one in the request.
const DEFAULT_QUALITY: u8 = 80;
const QUALITY: std::ops::RangeInclusive<u8> = 1..=100;
const MARGIN_MM: std::ops::RangeInclusive<f64> = 0.0..=50.0;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Capture {
    pub kind: CaptureKind,
    pub full_page: bool,
    /// So that lazy content loads.
    #[serde(default)]
    pub reveal: bool,
    /// Instead of the viewport.
    #[serde(default)]
    pub element: Option<Element>,
    #[serde(default)]
    pub format: ImageFormat,
    /// Quality of a JPEG or a WebP. Not used for a PNG.
    #[serde(default)]
    pub quality: u8,
    #[serde(default)]
    pub scale: CaptureScale,
    #[serde(default)]
    pub layout: PdfLayout,
    pub limit_bytes: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct CaptureOptions {
    pub full_page: Option<bool>,
    pub reveal: Option<bool>,
    pub element: Option<Element>,
    pub format: Option<ImageFormat>,
    pub quality: Option<u8>,
    pub scale: Option<CaptureScale>,
    pub paper: Option<Paper>,
    pub landscape: Option<bool>,
    pub margins: Option<Margins>,
    pub background: Option<bool>,
}

impl Capture {
    #[must_use]
    pub fn new(kind: CaptureKind, full_page: bool, limits: &Limits) -> Self {
        let limit_bytes = match kind {
            CaptureKind::Screenshot => Some(limits.screenshot_bytes),
            CaptureKind::Pdf => Some(limits.pdf_bytes),
            CaptureKind::DomSnapshot => None,
        };
        Self {
            kind,
            full_page,
            reveal: false,
            element: None,
            format: ImageFormat::default(),
            quality: DEFAULT_QUALITY,
            scale: CaptureScale::default(),
            layout: PdfLayout::default(),
            limit_bytes,
        }
    }

    pub fn parse(kind: CaptureKind, options: CaptureOptions, limits: &Limits) -> Result<Self, Invalid> {
        let CaptureOptions {
            full_page,
            reveal,
            element,
            format,
            quality,
            scale,
            paper,
            landscape,
            margins,
            background,
        } = options;
        let (full_page, reveal) = (full_page.unwrap_or_default(), reveal.unwrap_or_default());
        let (is_screenshot, is_pdf) = (kind == CaptureKind::Screenshot, kind == CaptureKind::Pdf);
        let mut rules = Rules::default();
        if let Some(element) = &element {
            require_element(&mut rules, element, limits, "");
            rules.require(is_screenshot, &element.field(""), "requires a screenshot");
            rules.require(!full_page, "full_page", "must not be combined with an element");
        }
        let has_page = full_page && is_screenshot;
        rules.require(!reveal || has_page, "reveal", "requires a screenshot with `full_page`");
        rules.require(format.is_none() || is_screenshot, "format", "requires a screenshot");
        rules.require(scale.is_none() || is_screenshot, "scale", "requires a screenshot");
        let format = format.unwrap_or_default();
        if let Some(quality) = quality {
            let is_lossy = is_screenshot && format != ImageFormat::Png;
            rules.require(is_lossy, "quality", "requires a screenshot with the format jpeg or webp");
            rules.require(QUALITY.contains(&quality), "quality", "must be 1 to 100");
        }
        rules.require(paper.is_none() || is_pdf, "paper", "requires a PDF");
        rules.require(landscape.is_none() || is_pdf, "landscape", "requires a PDF");
        rules.require(margins.is_none() || is_pdf, "margins", "requires a PDF");
        rules.require(background.is_none() || is_pdf, "background", "requires a PDF");
        let margins = margins.unwrap_or_default();
        for (side, margin) in margins.sides() {
            let is_valid = margin.is_none_or(|margin| MARGIN_MM.contains(&margin));
            rules.require(is_valid, &format!("margins.{side}"), "must be 0 to 50 millimetres");
        }
        rules.check()?;
        Ok(Self {
            reveal,
            element,
            format,
            quality: quality.unwrap_or(DEFAULT_QUALITY),
            scale: scale.unwrap_or_default(),
            layout: PdfLayout {
                paper: paper.unwrap_or_default(),
                landscape: landscape.unwrap_or_default(),
                margins,
                background: background.unwrap_or(true),
            },
            ..Self::new(kind, full_page, limits)
        })
    }

    #[must_use]
    pub fn is_of_viewport(&self) -> bool {
        self.kind == CaptureKind::Screenshot && !self.full_page && self.element.is_none()
    }

    #[must_use]
    pub fn content_type(&self) -> &'static str {
        match self.kind {
            CaptureKind::Screenshot => self.format.content_type(),
            CaptureKind::DomSnapshot => "text/html; charset=utf-8",
            CaptureKind::Pdf => "application/pdf",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    #[default]
    Png,
    Jpeg,
    Webp,
}

impl ImageFormat {
    fn content_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaptureScale {
    Css,
    #[default]
    Device,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PdfLayout {
    pub paper: Paper,
    pub landscape: bool,
    pub margins: Margins,
    pub background: bool,
}

impl Default for PdfLayout {
    fn default() -> Self {
        Self { paper: Paper::default(), landscape: false, margins: Margins::default(), background: true }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    #[default]
    A4,
    A5,
    Letter,
    Legal,
}

/// Margins of a PDF
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(title = "Margins", example = json!({"top": 20, "right": 15, "bottom": 20, "left": 15}))]
pub struct Margins {
    /// Millimetres at the top
    #[schema(minimum = 0, maximum = 50)]
    pub top: Option<f64>,
    /// Millimetres at the right
    #[schema(minimum = 0, maximum = 50)]
    pub right: Option<f64>,
    /// Millimetres at the bottom
    #[schema(minimum = 0, maximum = 50)]
    pub bottom: Option<f64>,
    /// Millimetres at the left
    #[schema(minimum = 0, maximum = 50)]
    pub left: Option<f64>,
}

impl Margins {
    fn sides(self) -> [(&'static str, Option<f64>); 4] {
        [("top", self.top), ("right", self.right), ("bottom", self.bottom), ("left", self.left)]
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

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaptureResult {
    #[serde(flatten)]
    pub captured: Captured,
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
    /// The content is transferred separately as bytes, because base64 is a third longer.
    #[must_use]
    pub fn without_content(capture: &Capture, bytes: usize, duration_ms: u64, url: String) -> Self {
        Self {
            kind: capture.kind,
            encoding: capture.kind.encoding(),
            content: String::new(),
            content_type: capture.content_type().to_owned(),
            bytes: bytes as u64,
            duration_ms,
            url,
        }
    }

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum CaptureKind {
    Screenshot,
    DomSnapshot,
    Pdf,
}

impl CaptureKind {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: operations 22. Members that do not belong together, or are out of range, are named.
    #[test]
    fn members_of_another_kind_are_errors() {
        let fields = |kind, options| match Capture::parse(kind, options, &Limits::default()) {
            Ok(_) => Vec::new(),
            Err(Invalid(errors)) => errors.into_iter().map(|error| error.field).collect::<Vec<_>>(),
        };
        let none = CaptureOptions::default;
        let (shot, pdf) = (CaptureKind::Screenshot, CaptureKind::Pdf);
        assert_eq!(fields(shot, none()), Vec::<String>::new());
        let jpeg = |quality| CaptureOptions { format: Some(ImageFormat::Jpeg), quality: Some(quality), ..none() };
        assert_eq!(fields(shot, jpeg(1)), Vec::<String>::new());
        assert_eq!(fields(shot, jpeg(0)), ["quality"]);
        assert_eq!(fields(shot, jpeg(101)), ["quality"]);
        assert_eq!(fields(shot, CaptureOptions { quality: Some(80), ..none() }), ["quality"]);
        assert_eq!(fields(pdf, jpeg(80)), ["format", "quality"]);
        let element = Some(Element::from("#a".to_owned()));
        assert_eq!(fields(pdf, CaptureOptions { element: element.clone(), ..none() }), ["selector"]);
        assert_eq!(fields(shot, CaptureOptions { element, full_page: Some(true), ..none() }), ["full_page"]);
        assert_eq!(fields(shot, CaptureOptions { paper: Some(Paper::A5), ..none() }), ["paper"]);
        let margins = Some(Margins { top: Some(50.0), left: Some(50.5), ..Margins::default() });
        assert_eq!(fields(pdf, CaptureOptions { margins, ..none() }), ["margins.left"]);
    }
}
