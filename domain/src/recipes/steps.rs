//! The steps of a recipe. Their serialized form is sealed and stored.

use std::sync::LazyLock;

use kitfleet_types::commands::Degrees;
use kitfleet_types::operations::{self, CaptureKind, Direction, Target};
use regex::Regex;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    Navigate {
        url: String,
    },
    Tap(Element),
    DoubleTap(Element),
    LongPress(Element),
    Check {
        #[serde(flatten)]
        element: Element,
        checked: bool,
    },
    Fill {
        #[serde(flatten)]
        element: Element,
        /// No response contains it (contract: recipes 8).
        value: String,
    },
    Drag {
        #[serde(flatten)]
        element: Element,
        to: DragEnd,
    },
    Swipe {
        direction: Direction,
        /// CSS pixels; `None` is a part of the page or the element.
        distance: Option<u32>,
        /// `None` is the page.
        target: Option<Element>,
    },
    Hover(Element),
    Dialog {
        accept: bool,
        /// No response contains it (contract: recipes 8).
        text: Option<String>,
    },
    ActivatePage(Page),
    ClosePage(Page),
    SetLocation {
        latitude: Degrees,
        longitude: Degrees,
    },
    Type {
        #[serde(flatten)]
        element: Element,
        /// No response contains it (contract: recipes 8).
        value: String,
    },
    Press {
        key: String,
    },
    Select {
        #[serde(flatten)]
        element: Element,
        option: String,
    },
    Scroll {
        /// CSS pixels to the right and down.
        delta_x: i64,
        delta_y: i64,
        /// `None` is the page.
        target: Option<Element>,
    },
    Wait {
        condition: Condition,
    },
    Capture {
        capture: CaptureKind,
    },
    Extract {
        items: Vec<Item>,
    },
    Back,
    Forward,
    Reload,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DragEnd {
    Element(Element),
    /// Points from the top left corner of the dragged element, in tenths of CSS pixels.
    Path([(i64, i64); 2]),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Position in the list of pages, counted from 1.
    pub position: u32,
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    pub selector: String,
    /// Readable description such as `button "Sign in"`.
    pub description: String,
}

/// Locator of a step that searches by itself, because it may match no element or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeLocator {
    pub by: operations::Element,
    pub description: String,
}

impl RecipeLocator {
    #[must_use]
    pub fn selector(&self) -> Option<&str> {
        match &self.by {
            operations::Element::Selector(selector) => Some(selector),
            operations::Element::Target(_) | operations::Element::Exact(_) => None,
        }
    }

    /// `None` for a plain selector.
    #[must_use]
    pub fn target(&self) -> Option<Vec<(&'static str, &str)>> {
        let operations::Element::Target(target) = &self.by else { return None };
        Some(match target {
            Target::Selector(selector) => vec![("selector", selector)],
            Target::Role { role, name } => {
                [("role", role.as_str())].into_iter().chain(name.iter().map(|name| ("name", name.as_str()))).collect()
            }
            Target::Label(label) => vec![("label", label)],
            Target::Text(text) => vec![("text", text)],
            Target::Placeholder(placeholder) => vec![("placeholder", placeholder)],
            Target::Ref(reference) => vec![("ref", reference)],
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    Selector(RecipeLocator),
    /// No matching element, or an invisible one.
    SelectorHidden(RecipeLocator),
    UrlMatches {
        /// A regular expression that the address matches.
        pattern: String,
    },
    Time {
        ms: u64,
    },
    Download,
    Page,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub name: String,
    pub sought: RecipeLocator,
    /// The text when `None`.
    pub attribute: Option<String>,
    pub list: bool,
}

static SECRET_WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let alone = "otp|totp|hotp|mfa|2fa|pin|tan|pwd|pass|card|cc|ccnum|cvc|cvv|csc|secret|token";
    let together = "one time|api key|access key|private key|secret key|security code|verification code|auth code";
    let anywhere = "password|passwd|passphrase|passcode|apikey|otpcode|pincode|cardnumber|ccnumber|creditcard|onetime";
    Regex::new(&format!(r"\b(?:{alone}|{together})\b|{anywhere}")).expect("an expression")
});

impl Element {
    /// The selector or description suggests a password, a one-time code, a PIN, a card number or an API key (contract:
    /// recipes 9).
    #[must_use]
    pub fn is_for_secrets(&self) -> bool {
        [&self.selector, &self.description].iter().any(|text| SECRET_WORDS.is_match(&words(text)))
    }
}

/// Lower case, so that `cardNumber`, `card-number` and `Card number` are equal.
fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut before = ' ';
    for letter in text.chars() {
        if letter.is_uppercase() && before.is_lowercase() {
            words.push(' ');
        }
        before = letter;
        if letter.is_alphanumeric() { words.extend(letter.to_lowercase()) } else { words.push(' ') }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_for_secrets(selector: &str, description: &str) -> bool {
        Element { selector: selector.to_owned(), description: description.to_owned() }.is_for_secrets()
    }

    /// Contract: recipes 9.
    #[test]
    fn secret_fields_are_recognized_by_name() {
        let selectors = [
            "#password",
            "#newPassword",
            "input[type=password]",
            "input[name='user[password_confirmation]']",
            "#passwd",
            "[autocomplete=one-time-code]",
            "#otp",
            "input.otp-input",
            "#totpCode",
            "#pin",
            "#cardPin",
            "[name=card_number]",
            "#cardnumber",
            "[autocomplete=cc-number]",
            "#cvc",
            "#api-key",
            "#apiKey",
            "#apikey",
            "#API_KEY",
            "#access_token",
        ];
        for selector in selectors {
            assert!(is_for_secrets(selector, "textbox"), "{selector}");
        }
        for description in
            ["textbox \"Password\"", "textbox \"Security code\"", "textbox \"API key\"", "textbox \"PIN\""]
        {
            assert!(is_for_secrets("form > input:nth-of-type(2)", description), "{description}");
        }
        for selector in
            ["#email", "#shipping", "#opinion", "#discard", "#spinner", "#q", "#hotpot", "#accent", "#cardigan"]
        {
            assert!(!is_for_secrets(selector, "textbox \"Name\""), "{selector}");
        }
    }

    #[test]
    fn steps_survive_serialization() {
        let element = Element { selector: "#a".to_owned(), description: "button \"A\"".to_owned() };
        let by = operations::Element::Target(Target::Role { role: "link".to_owned(), name: None });
        let sought = RecipeLocator { by, description: "link".to_owned() };
        let degrees = |text| Degrees::parse(text, Degrees::LATITUDE).expect("degrees");
        let item = Item { name: "a".to_owned(), sought: sought.clone(), attribute: None, list: true };
        let steps = vec![
            Step::Navigate { url: "https://example.com/".to_owned() },
            Step::Tap(element.clone()),
            Step::Type { element: element.clone(), value: "x".to_owned() },
            Step::Select { element: element.clone(), option: "B".to_owned() },
            Step::Scroll { delta_x: 0, delta_y: 600, target: None },
            Step::Scroll { delta_x: 0, delta_y: 600, target: Some(element.clone()) },
            Step::Wait { condition: Condition::SelectorHidden(sought) },
            Step::Capture { capture: CaptureKind::Screenshot },
            Step::Extract { items: vec![item] },
            Step::DoubleTap(element.clone()),
            Step::LongPress(element.clone()),
            Step::Check { element: element.clone(), checked: true },
            Step::Fill { element: element.clone(), value: "2026-12-24".to_owned() },
            Step::Drag { element: element.clone(), to: DragEnd::Element(element.clone()) },
            Step::Drag { element: element.clone(), to: DragEnd::Path([(5, 5), (-395, 5)]) },
            Step::Swipe { direction: Direction::Left, distance: Some(200), target: Some(element.clone()) },
            Step::Hover(element),
            Step::Dialog { accept: true, text: Some("x".to_owned()) },
            Step::ActivatePage(Page { position: 2, description: "page \"A\"".to_owned() }),
            Step::ClosePage(Page { position: 1, description: String::new() }),
            Step::SetLocation { latitude: degrees("52.52"), longitude: degrees("-13.4") },
            Step::Wait { condition: Condition::Download },
            Step::Wait { condition: Condition::Page },
            Step::Back,
            Step::Forward,
        ];
        let written = serde_json::to_string(&steps).expect("JSON");
        assert_eq!(serde_json::from_str::<Vec<Step>>(&written).expect("steps"), steps);
    }
}
