//! Commands of a message, parsed by the grammar or by a model before the page is examined.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::PageId;
use crate::operations::{CaptureKind, Direction};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Navigate {
        /// Address with a scheme, otherwise as written in the message.
        url: String,
    },
    Tap {
        target: ElementQuery,
    },
    DoubleTap {
        target: ElementQuery,
    },
    LongPress {
        target: ElementQuery,
    },
    /// A control that already has the requested state is left alone.
    Check {
        target: ElementQuery,
        checked: bool,
    },
    Type {
        target: ElementQuery,
        value: String,
    },
    Fill {
        target: ElementQuery,
        /// The new content, in the form of HTML for fields with a picker.
        value: String,
    },
    Press {
        /// A character or a name such as `Enter`, optionally after modifiers: `Control+a`.
        key: String,
    },
    Select {
        target: ElementQuery,
        option: String,
    },
    Upload {
        /// File input, or element that opens a file chooser.
        target: ElementQuery,
        file: String,
    },
    Drag {
        target: ElementQuery,
        to: DragEnd,
    },
    Swipe {
        direction: Direction,
        /// CSS pixels; `None` is a part of the page or the element.
        distance: Option<u32>,
        /// `None` is the page.
        target: Option<ElementQuery>,
    },
    Hover {
        target: ElementQuery,
    },
    Scroll {
        /// CSS pixels to the right and down.
        delta_x: i64,
        delta_y: i64,
        /// `None` is the page.
        target: Option<ElementQuery>,
    },
    Wait {
        condition: WaitCondition,
    },
    Capture {
        capture: CaptureKind,
    },
    Extract {
        items: Vec<ExtractItem>,
    },
    Dialog {
        accept: bool,
        text: Option<String>,
    },
    SwitchPage {
        page: PageQuery,
    },
    ClosePage {
        /// `None` is the active one.
        page: Option<PageQuery>,
    },
    SetLocation {
        latitude: Degrees,
        longitude: Degrees,
    },
    Back,
    Forward,
    Reload,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElementQuery {
    Css(String),
    Described {
        /// ARIA role, such as `button`.
        role: Option<String>,
        /// Name, label, placeholder or text. If empty, the role alone describes the element.
        words: String,
    },
    Ref(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DragEnd {
    Element(ElementQuery),
    /// CSS pixels from the middle of the element.
    By {
        delta_x: i32,
        delta_y: i32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageQuery {
    /// A part of the title or of the address.
    Words(String),
    /// The only page that is not active.
    Other,
    Id(PageId),
}

/// Degrees of latitude or longitude, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Degrees(i32);

const MILLIONTHS: i32 = 1_000_000;

impl Degrees {
    pub const LATITUDE: i32 = 90;
    pub const LONGITUDE: i32 = 180;

    /// Parses a decimal number of at most `max` degrees in either direction. Digits after the millionths are cut off.
    #[must_use]
    pub fn parse(text: &str, max: i32) -> Option<Self> {
        let (sign, digits) = match text.strip_prefix(['-', '\u{2212}']) {
            Some(digits) => (-1, digits),
            None => (1, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !(1..=3).contains(&whole.len()) || !are_digits(whole) || !are_digits(fraction) {
            return None;
        }
        let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let millionths = whole.parse::<i32>().ok()? * MILLIONTHS + fraction.parse::<i32>().ok()?;
        (millionths <= max * MILLIONTHS).then_some(Self(sign * millionths))
    }

    #[must_use]
    pub fn degrees(self) -> f64 {
        f64::from(self.0) / f64::from(MILLIONTHS)
    }
}

impl fmt::Display for Degrees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.degrees())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitCondition {
    Visible(ElementQuery),
    /// No matching element, or an invisible one.
    Hidden(ElementQuery),
    Url(String),
    Time {
        ms: u64,
    },
    /// A download has ended, or takes long.
    Download,
    Page,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractItem {
    pub name: String,
    pub target: ElementQuery,
    /// Attribute to read; the text when absent.
    pub attribute: Option<String>,
    pub list: bool,
}

impl ExtractItem {
    /// The operation itself evaluates lists and CSS selectors; others must be resolved to a single match first.
    #[must_use]
    pub fn names_one_element(&self) -> bool {
        !self.list && !matches!(self.target, ElementQuery::Css(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedMessage {
    Plan(Vec<Command>),
    Clarify {
        /// Explanation of the part that was not understood, with examples.
        reply: String,
    },
    /// The message was understood.
    Refuse {
        reply: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_are_decimal_numbers_within_their_range() {
        for (text, written) in [
            ("52.52", "52.52"),
            ("-13.4", "-13.4"),
            ("0", "0"),
            ("90", "90"),
            ("7.1234567", "7.123456"),
            ("-0.000001", "-0.000001"),
        ] {
            let degrees = Degrees::parse(text, Degrees::LATITUDE).map(|degrees| degrees.to_string());
            assert_eq!(degrees.as_deref(), Some(written), "{text}");
        }
        for text in ["", "-", "90.000001", "1e1", "NaN", "+1", "1,5", "1.2.3", "0x1", "1000"] {
            assert_eq!(Degrees::parse(text, Degrees::LATITUDE), None, "{text}");
        }
    }
}
