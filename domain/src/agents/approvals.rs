//! Which steps are not run before somebody has approved of them (contract: agents 19). It is decided by the page and by us, whoever
//! made the plan.

use super::wishes::Wish;
use crate::operations::Match;

/// What controls are called that pay, buy, delete, send, publish or confirm something.
const CONSEQUENCES: &[&str] = &[
    "accept",
    "agree",
    "approve",
    "authorize",
    "bid",
    "buy",
    "cancel",
    "checkout",
    "confirm",
    "consent",
    "deactivate",
    "delete",
    "deny",
    "discard",
    "donate",
    "erase",
    "invite",
    "order",
    "pay",
    "place",
    "post",
    "publish",
    "purchase",
    "release",
    "remove",
    "reply",
    "reserve",
    "revoke",
    "save",
    "send",
    "share",
    "submit",
    "subscribe",
    "transfer",
    "tweet",
    "unsubscribe",
    "upload",
    "withdraw",
];
/// Endings that such a word may have.
const ENDINGS: [&str; 6] = ["", "s", "d", "ed", "ing", "ment"];

/// Whether a control of this name does something that cannot be taken back, as far as its name says.
#[must_use]
pub fn is_consequential(name: &str) -> bool {
    let name = name.to_lowercase();
    let mut words = name.split(|letter: char| !letter.is_alphanumeric());
    let said = words.any(|word| {
        CONSEQUENCES.iter().any(|consequence| {
            let stem = consequence.strip_suffix('e').unwrap_or(consequence);
            let ending = word.strip_prefix(consequence).or_else(|| word.strip_prefix(stem));
            ending.is_some_and(|ending| ENDINGS.contains(&ending))
        })
    });
    said || name.contains("check out")
}

/// Whether carrying out `wish` on what was found for it submits data.
#[must_use]
pub fn submits(wish: &Wish, found: &Match) -> bool {
    match wish {
        Wish::Tap { .. } | Wish::Check { .. } => found.submits || is_a_control(found) && is_consequential(&found.name),
        // A line's end in a field is Enter.
        Wish::Type { value, .. } => found.form_field && value.contains(['\n', '\r']),
        Wish::Press { key } => match key.rsplit('+').next().unwrap_or(key).to_ascii_lowercase().as_str() {
            "enter" | "return" | "numpadenter" => found.form_field || found.submits || is_consequential(&found.name),
            "space" | " " | "spacebar" => found.submits || is_a_control(found) && is_consequential(&found.name),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a key does something to whatever has the focus, so that one has to look what that is.
#[must_use]
pub fn depends_on_focus(key: &str) -> bool {
    let key = key.rsplit('+').next().unwrap_or(key).to_ascii_lowercase();
    ["enter", "return", "numpadenter", "space", " ", "spacebar"].contains(&key.as_str())
}

/// A field that is tapped only gets the focus, whatever it is called.
fn is_a_control(found: &Match) -> bool {
    !matches!(
        found.role.as_str(),
        "textbox" | "searchbox" | "combobox" | "listbox" | "spinbutton" | "slider" | "tab" | "heading"
    )
}

#[cfg(test)]
mod tests {
    use super::super::wishes::Sought;
    use super::*;

    fn found(role: &str, name: &str, submits: bool, form_field: bool) -> Match {
        let text = String::new;
        let (role, name) = (role.to_owned(), name.to_owned());
        let (selector, description, fingerprint) = (text(), text(), text());
        Match { selector, description, role, name, submits, form_field, checked: None, fingerprint }
    }

    /// Contract: agents 19.
    #[test]
    fn names_say_what_cannot_be_taken_back() {
        for name in [
            "Pay now",
            "BUY",
            "Place order",
            "Delete",
            "Deleting…",
            "Remove item",
            "Send",
            "Send message",
            "Post",
            "Publish",
            "Confirm",
            "Confirm & pay",
            "Check out",
            "Checkout",
            "Subscribe",
            "Submit",
            "payment",
            "Purchased",
        ] {
            assert!(is_consequential(name), "{name}");
        }
        for name in [
            "",
            "Next",
            "Details",
            "Posture",
            "Payload",
            "Menu",
            "Address",
            "Senders' guild",
            "Back",
            "Sign in",
            "Close",
            "Books",
        ] {
            assert!(!is_consequential(name), "{name}");
        }
    }

    /// Contract: agents 19.
    #[test]
    fn what_submits_is_told_by_the_page() {
        let target = Sought::Css("#a".to_owned());
        let tap = Wish::Tap { target: target.clone() };
        let typed = |value: &str| Wish::Type { target: target.clone(), value: value.to_owned() };
        let press = |key: &str| Wish::Press { key: key.to_owned() };
        assert!(submits(&tap, &found("button", "Next", true, false)));
        assert!(submits(&tap, &found("link", "Delete", false, false)));
        assert!(!submits(&tap, &found("textbox", "Send to", false, true)));
        assert!(!submits(&tap, &found("button", "Next", false, false)));
        assert!(submits(&press("Enter"), &found("textbox", "Name", false, true)));
        assert!(submits(&press("Control+Enter"), &found("textbox", "Name", false, true)));
        assert!(!submits(&press("Enter"), &found("textbox", "Notes", false, false)));
        assert!(submits(&press("Space"), &found("button", "Next", true, false)));
        assert!(!submits(&press("Tab"), &found("textbox", "Name", false, true)));
        assert!(submits(&typed("a\n"), &found("textbox", "Name", false, true)));
        assert!(!submits(&typed("a"), &found("textbox", "Name", false, true)));
    }
}
