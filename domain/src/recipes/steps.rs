//! The steps of a recipe: what was done to the browser, as it is sealed and kept.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::operations::{self, CaptureKind, Target};

/// One step that was carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Step {
    /// A page was loaded.
    Navigate {
        /// Which.
        url: String,
    },
    /// An element was tapped.
    Tap(Element),
    /// Something was typed.
    Type {
        /// Into which element.
        #[serde(flatten)]
        element: Element,
        /// What, exactly: never shown to anybody (contract: recipes 8).
        value: String,
    },
    /// A key was pressed.
    Press {
        /// Which.
        key: String,
    },
    /// An option was chosen.
    Select {
        /// Of which element.
        #[serde(flatten)]
        element: Element,
        /// Which.
        option: String,
    },
    /// The page, or an element of it, was scrolled.
    Scroll {
        /// CSS pixels to the right.
        delta_x: i64,
        /// CSS pixels down.
        delta_y: i64,
        /// What was scrolled; `None` is the page.
        target: Option<Element>,
    },
    /// Something was waited for.
    Wait {
        /// What.
        condition: Condition,
    },
    /// The page was captured.
    Capture {
        /// As what.
        capture: CaptureKind,
    },
    /// Values were read.
    Extract {
        /// Which.
        items: Vec<Item>,
    },
    /// The page before.
    Back,
    /// The page once more.
    Reload,
}

/// An element, as a step found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// CSS.
    pub selector: String,
    /// What it was, for people: `button "Sign in"`.
    pub description: String,
}

/// What a step looked for itself, because it need not have been one element: by a selector, or by what somebody said of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeLocator {
    /// How it was looked for.
    pub by: operations::Element,
    /// What it was, for people.
    pub description: String,
}

impl RecipeLocator {
    /// The CSS selector, if it was one.
    #[must_use]
    pub fn selector(&self) -> Option<&str> {
        match &self.by {
            operations::Element::Selector(selector) => Some(selector),
            operations::Element::Target(_) => None,
        }
    }

    /// The members of the `target` that it was otherwise, as an operation takes them.
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

/// What a step waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// An element that is visible.
    Selector(RecipeLocator),
    /// No element, or an invisible one.
    SelectorHidden(RecipeLocator),
    /// An address.
    UrlMatches {
        /// A regular expression.
        pattern: String,
    },
    /// Just time.
    Time {
        /// Milliseconds.
        ms: u64,
    },
}

/// One value that a step read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// What it is called.
    pub name: String,
    /// Where it stands.
    pub sought: RecipeLocator,
    /// Which attribute of it; its text when `None`.
    pub attribute: Option<String>,
    /// Whether it is read of every match.
    pub list: bool,
}

/// Words of which one makes a field one for secrets.
static SECRET_WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let alone = "otp|totp|hotp|mfa|2fa|pin|tan|pwd|pass|card|cc|ccnum|cvc|cvv|csc|secret|token";
    let together = "one time|api key|access key|private key|secret key|security code|verification code|auth code";
    let anywhere = "password|passwd|passphrase|passcode|apikey|otpcode|pincode|cardnumber|ccnumber|creditcard|onetime";
    Regex::new(&format!(r"\b(?:{alone}|{together})\b|{anywhere}")).expect("an expression")
});

impl Element {
    /// Whether what is typed into it is a secret, as far as its selector and its description tell: a password, a code that is good
    /// once, a PIN, a card's number, an API key (contract: recipes 9).
    #[must_use]
    pub fn is_for_secrets(&self) -> bool {
        [&self.selector, &self.description].iter().any(|text| SECRET_WORDS.is_match(&words(text)))
    }
}

/// The words of a name, as programmers and people join them: `cardNumber`, `card-number` and `Card number` are the same.
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
    fn fields_for_secrets_are_told_by_their_names() {
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
    fn a_step_is_read_as_it_was_written() {
        let element = Element { selector: "#a".to_owned(), description: "button \"A\"".to_owned() };
        let by = operations::Element::Target(Target::Role { role: "link".to_owned(), name: None });
        let sought = RecipeLocator { by, description: "link".to_owned() };
        let item = Item { name: "a".to_owned(), sought: sought.clone(), attribute: None, list: true };
        let steps = vec![
            Step::Navigate { url: "https://example.com/".to_owned() },
            Step::Tap(element.clone()),
            Step::Type { element: element.clone(), value: "x".to_owned() },
            Step::Select { element: element.clone(), option: "B".to_owned() },
            Step::Scroll { delta_x: 0, delta_y: 600, target: None },
            Step::Scroll { delta_x: 0, delta_y: 600, target: Some(element) },
            Step::Wait { condition: Condition::SelectorHidden(sought) },
            Step::Capture { capture: CaptureKind::Screenshot },
            Step::Extract { items: vec![item] },
            Step::Back,
        ];
        let written = serde_json::to_string(&steps).expect("JSON");
        assert_eq!(serde_json::from_str::<Vec<Step>>(&written).expect("steps"), steps);
    }
}
