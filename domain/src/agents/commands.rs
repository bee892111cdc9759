//! The commands that a message is parsed into, by the grammar or by a model, before the page is examined.

use serde::{Deserialize, Serialize};

use crate::operations::CaptureKind;

/// A command to the browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Load a page.
    Navigate {
        /// Address with a scheme, otherwise as written in the message.
        url: String,
    },
    /// Tap an element.
    Tap {
        /// The element.
        target: ElementQuery,
    },
    /// Set a checkbox or a similar control. One that already has the requested state is left alone.
    Check {
        /// The control.
        target: ElementQuery,
        /// Requested state.
        checked: bool,
    },
    /// Type text into an element.
    Type {
        /// The element.
        target: ElementQuery,
        /// The text.
        value: String,
    },
    /// Press a key on the focused element.
    Press {
        /// A character or a name such as `Enter`, optionally after modifiers: `Control+a`.
        key: String,
    },
    /// Choose an option of a list.
    Select {
        /// The list.
        target: ElementQuery,
        /// Visible text of the option.
        option: String,
    },
    /// Give an attached file to a page.
    Upload {
        /// File input, or element that opens a file chooser.
        target: ElementQuery,
        /// Name of the file.
        file: String,
    },
    /// Scroll the page or an element.
    Scroll {
        /// Distance to the right in CSS pixels.
        delta_x: i64,
        /// Distance down in CSS pixels.
        delta_y: i64,
        /// Element to scroll; `None` is the page.
        target: Option<ElementQuery>,
    },
    /// Wait for a condition.
    Wait {
        /// The condition.
        condition: WaitCondition,
    },
    /// Capture the page.
    Capture {
        /// Format of the capture.
        capture: CaptureKind,
    },
    /// Read values from the page.
    Extract {
        /// The values. Each has a different name.
        items: Vec<ExtractItem>,
    },
    /// Go back in the history.
    Back,
    /// Reload the page.
    Reload,
}

/// Query for an element, by description or exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElementQuery {
    /// A CSS selector.
    Css(String),
    /// A description of the element.
    Described {
        /// ARIA role, such as `button`; `None` matches any.
        role: Option<String>,
        /// Name, label, placeholder or text. If it is empty, the role alone describes the element.
        words: String,
    },
    /// Reference of an element in a snapshot.
    Ref(String),
}

/// Condition to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitCondition {
    /// A visible element.
    Visible(ElementQuery),
    /// No matching element, or an invisible one.
    Hidden(ElementQuery),
    /// An address that contains a match of this regular expression.
    Url(String),
    /// A fixed time.
    Time {
        /// Duration in milliseconds.
        ms: u64,
    },
}

/// A value to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractItem {
    /// Key of the value in the response.
    pub name: String,
    /// The element.
    pub target: ElementQuery,
    /// Attribute to read; the text when absent.
    pub attribute: Option<String>,
    /// True when the value is read from all matches.
    pub list: bool,
}

impl ExtractItem {
    /// True when the element must be resolved to a single match first. Lists and CSS selectors are evaluated by the operation
    /// itself.
    #[must_use]
    pub fn is_one_in_words(&self) -> bool {
        !self.list && !matches!(self.target, ElementQuery::Css(_))
    }
}

/// Result of parsing a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedMessage {
    /// Commands, in order of execution.
    Plan(Vec<Command>),
    /// The message was not understood. Nothing of it is executed.
    Clarify {
        /// Explanation of the part that was not understood, with examples.
        reply: String,
    },
    /// The message was understood, but the service does not do this.
    Refuse {
        /// Explanation of the refusal.
        reply: String,
    },
}
