//! What somebody wants done to a page, before anybody has looked at the page: what a message comes to, whoever reads it.

use serde::{Deserialize, Serialize};

use crate::operations::CaptureKind;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Load a page.
    Navigate {
        /// With its scheme, otherwise as it was said.
        url: String,
    },
    /// A finger on an element.
    Tap {
        /// The element.
        target: ElementQuery,
    },
    /// A checkbox, or what is like one, as it should stand. One that stands so is left as it is.
    Check {
        /// The element.
        target: ElementQuery,
        /// How it should stand.
        checked: bool,
    },
    /// Text into an element.
    Type {
        /// The element.
        target: ElementQuery,
        /// The text.
        value: String,
    },
    /// One key, on whatever has the focus.
    Press {
        /// A character or a name such as `Enter`, after modifiers if need be: `Control+a`.
        key: String,
    },
    /// An option of a list.
    Select {
        /// The list.
        target: ElementQuery,
        /// The option, as it reads.
        option: String,
    },
    /// The page, or an element that scrolls.
    Scroll {
        /// CSS pixels to the right.
        delta_x: i64,
        /// CSS pixels down.
        delta_y: i64,
        /// The element; `None` is the page.
        target: Option<ElementQuery>,
    },
    /// Nothing, until something has come about.
    Wait {
        /// What has to.
        condition: WaitCondition,
    },
    /// A picture of the page, or another kind of copy.
    Capture {
        /// Which.
        capture: CaptureKind,
    },
    /// Values out of the page.
    Extract {
        /// Each under a name of its own.
        items: Vec<ExtractItem>,
    },
    /// The page before this one.
    Back,
    /// This page, anew.
    Reload,
}

/// What a wish is about, in words or exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElementQuery {
    /// A CSS selector.
    Css(String),
    /// What an element is, and what it is called.
    Described {
        /// A role of ARIA, such as `button`; `None` is any.
        role: Option<String>,
        /// Its name, label, placeholder or text. Nothing is said of that when it is empty, and then there is a role.
        words: String,
    },
    /// An element of a snapshot, by the reference that stands there.
    Ref(String),
}

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitCondition {
    /// An element that is visible.
    Visible(ElementQuery),
    /// No such element, or an invisible one.
    Hidden(ElementQuery),
    /// An address in which this regular expression is found.
    Url(String),
    /// Just time.
    Time {
        /// Milliseconds.
        ms: u64,
    },
}

/// One value to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractItem {
    /// Its key in the answer.
    pub name: String,
    /// Where it is.
    pub target: ElementQuery,
    /// The attribute to take; the text when absent.
    pub attribute: Option<String>,
    /// Whether all matches are meant.
    pub list: bool,
}

impl ExtractItem {
    /// Whether somebody has to find out which one element is meant: of what a selector says nobody looks for the one.
    #[must_use]
    pub fn is_one_in_words(&self) -> bool {
        !self.list && !matches!(self.target, ElementQuery::Css(_))
    }
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedMessage {
    /// What to do, in this order.
    Plan(Vec<Command>),
    /// It was not understood, and nothing of it is done.
    Clarify {
        /// What was not understood, and what would be.
        reply: String,
    },
    /// It was understood, and is not done.
    Refuse {
        /// What is not done, and why.
        reply: String,
    },
}
