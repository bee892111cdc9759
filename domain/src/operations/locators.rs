//! Which element is meant: by a CSS selector, or by what a person would call it (contract: operations 29 to 33).

use serde::{Deserialize, Serialize};

use super::require_selector;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

/// What an action, a condition or an extraction is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Element {
    /// CSS: the first that can be seen, or else the first.
    Selector(String),
    /// By what it is: of several an action takes none.
    Target(Target),
}

/// What an element is told by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// CSS.
    Selector(String),
    /// What it is for those who cannot see it.
    Role {
        /// One of [`ROLES`].
        role: String,
        /// A part of its accessible name.
        name: Option<String>,
    },
    /// A part of its label.
    Label(String),
    /// A part of what it says.
    Text(String),
    /// A part of what stands in a field that is empty.
    Placeholder(String),
    /// As a snapshot calls it.
    Ref(String),
}

/// The roles that an element can be told by: those of WAI-ARIA that an element of HTML has or can be given, and `iframe`.
pub const ROLES: &[&str] = &[
    "alert",
    "alertdialog",
    "application",
    "article",
    "banner",
    "blockquote",
    "button",
    "caption",
    "cell",
    "checkbox",
    "columnheader",
    "combobox",
    "complementary",
    "contentinfo",
    "definition",
    "dialog",
    "document",
    "feed",
    "figure",
    "form",
    "grid",
    "gridcell",
    "group",
    "heading",
    "iframe",
    "img",
    "link",
    "list",
    "listbox",
    "listitem",
    "log",
    "main",
    "marquee",
    "math",
    "menu",
    "menubar",
    "menuitem",
    "menuitemcheckbox",
    "menuitemradio",
    "meter",
    "navigation",
    "note",
    "option",
    "paragraph",
    "progressbar",
    "radio",
    "radiogroup",
    "region",
    "row",
    "rowgroup",
    "rowheader",
    "scrollbar",
    "search",
    "searchbox",
    "separator",
    "slider",
    "spinbutton",
    "status",
    "switch",
    "tab",
    "table",
    "tablist",
    "tabpanel",
    "term",
    "textbox",
    "time",
    "timer",
    "toolbar",
    "tooltip",
    "tree",
    "treegrid",
    "treeitem",
];

/// Digits of a ref at most: more than a session can be given.
const REF_DIGITS: usize = 9;

impl Element {
    /// What a caller has written as `selector` or `target`, of the field `of`; `None` when it is neither.
    ///
    /// # Errors
    /// When it is both.
    pub fn chosen(selector: Option<String>, target: Option<Target>, of: &str) -> Result<Option<Self>, Invalid> {
        match (selector, target) {
            (Some(_), Some(_)) => Err(Invalid::field(format!("{of}.target"), "must not stand beside selector")),
            (selector, target) => Ok(selector.map(Self::Selector).or(target.map(Self::Target))),
        }
    }

    /// [`Element::chosen`] where there has to be one.
    ///
    /// # Errors
    /// When it is both, or neither.
    pub fn required(selector: Option<String>, target: Option<Target>, of: &str) -> Result<Self, Invalid> {
        let missing = || Invalid::field(format!("{of}.selector"), "is required, or target instead");
        Self::chosen(selector, target, of)?.ok_or_else(missing)
    }

    /// Where its caller wrote it, if it is a member of the field `of`.
    #[must_use]
    pub fn field(&self, of: &str) -> String {
        match self {
            Self::Selector(_) => format!("{of}.selector"),
            Self::Target(_) => format!("{of}.target"),
        }
    }
}

/// By a CSS selector.
impl From<String> for Element {
    fn from(selector: String) -> Self {
        Self::Selector(selector)
    }
}

/// One of several elements that a target can mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// In our words, such as `button "Sign in"`.
    pub description: String,
    /// CSS that means no other.
    pub selector: String,
}

/// Candidates that are told of, at most.
pub const MOST_CANDIDATES: usize = 5;

pub(super) fn require_element(rules: &mut Rules, element: &Element, limits: &Limits, of: &str) {
    let field = element.field(of);
    match element {
        Element::Selector(selector) => require_selector(rules, selector, limits, &field),
        Element::Target(target) => require_target(rules, target, limits, &field),
    }
}

fn require_target(rules: &mut Rules, target: &Target, limits: &Limits, field: &str) {
    let at = |member: &str| format!("{field}.{member}");
    let mut words = |text: &str, member: &str| {
        rules.length(text, 0, limits.locator_chars, &at(member));
        rules.require(!text.trim().is_empty(), &at(member), "must not be empty");
    };
    match target {
        Target::Selector(selector) => require_selector(rules, selector, limits, &at("selector")),
        Target::Role { role, name } => {
            if let Some(name) = name {
                words(name, "name");
            }
            rules.require(ROLES.contains(&role.as_str()), &at("role"), "must be a role of WAI-ARIA, such as button");
        }
        Target::Label(text) => words(text, "label"),
        Target::Text(text) => words(text, "text"),
        Target::Placeholder(text) => words(text, "placeholder"),
        Target::Ref(text) => {
            let digits = text.strip_prefix('e').unwrap_or_default();
            let is_one = (1..=REF_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            rules.require(is_one, &at("ref"), "must be a ref of a snapshot, such as e12");
        }
    }
}
