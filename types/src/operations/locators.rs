//! Element queries: by CSS selector, or by the properties that a person sees (contract: operations 29 to 33).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::require_selector;
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Element {
    /// The first visible match, otherwise the first match.
    Selector(String),
    /// An action fails if several elements match.
    Target(Target),
    /// The words must be the whole text, in the same case.
    Exact(Target),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    Selector(String),
    Role { role: String, name: Option<String> },
    Label(String),
    Text(String),
    Placeholder(String),
    Ref(String),
}

/// The WAI-ARIA roles that an HTML element can have, and `iframe`.
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

/// More than a session can reach.
const REF_DIGITS: usize = 9;

impl Element {
    /// The members `selector` and `target` of the field `of`. `None` if both are absent.
    pub fn chosen(selector: Option<String>, target: Option<Self>, of: &str) -> Result<Option<Self>, Invalid> {
        match (selector, target) {
            (Some(_), Some(_)) => Err(Invalid::field(member_of(of, "target"), "must not be combined with selector")),
            (selector, target) => Ok(selector.map(Self::Selector).or(target)),
        }
    }

    /// Like [`Element::chosen`], but one of the two is required.
    pub fn required(selector: Option<String>, target: Option<Self>, of: &str) -> Result<Self, Invalid> {
        let missing = || Invalid::field(member_of(of, "selector"), "is required unless target is given");
        Self::chosen(selector, target, of)?.ok_or_else(missing)
    }

    #[must_use]
    pub fn field(&self, of: &str) -> String {
        match self {
            Self::Selector(_) => member_of(of, "selector"),
            Self::Target(_) | Self::Exact(_) => member_of(of, "target"),
        }
    }
}

/// Path of a member of the field `of`, or of the body if `of` is empty.
#[must_use]
pub fn member_of(of: &str, member: &str) -> String {
    if of.is_empty() { member.to_owned() } else { format!("{of}.{member}") }
}

impl From<String> for Element {
    fn from(selector: String) -> Self {
        Self::Selector(selector)
    }
}

/// Element that matches an ambiguous target
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Candidate {
    /// Human-readable description, such as `button "Sign in"`
    pub description: String,
    /// CSS selector that matches only this element
    pub selector: String,
}

pub const MAX_CANDIDATES: usize = 5;

pub(super) fn require_element(rules: &mut Rules, element: &Element, limits: &Limits, of: &str) {
    let field = element.field(of);
    match element {
        Element::Selector(selector) => require_selector(rules, selector, limits, &field),
        Element::Target(target) | Element::Exact(target) => require_target(rules, target, limits, &field),
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
            rules.require(ROLES.contains(&role.as_str()), &at("role"), "must be a WAI-ARIA role, such as button");
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
