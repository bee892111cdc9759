//! Finding out who it is that words mean, before anything is done to it. For those who act for a customer: there is no route.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{OperationOutput, OperationSpec, Parameters, Target};

/// Asks which elements are meant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Locate {
    /// By what.
    pub sought: LocateBy,
}

impl Parameters for Locate {
    const SPEC: OperationSpec = OperationSpec::READS;
}

impl OperationOutput for Located {}

/// Holds submissions that nothing has approved. Only the service runs it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Hold {}

impl Parameters for Hold {
    const SPEC: OperationSpec = OperationSpec::READS;
}

impl OperationOutput for SubmissionHeld {}

/// What an element is sought by. Only what can be seen is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocateBy {
    /// By what is exact.
    Target(Target),
    /// As a person describes it: what is called so, or else what has that in its name. A control of that role comes before
    /// others, a name before a label, a placeholder and a text.
    Described {
        /// What kind of control it is: one of [`super::ROLES`] or a word such as `field` or `dropdown`.
        role: Option<String>,
        /// What it is called; may be empty where there is a role.
        words: String,
    },
    /// What has the focus.
    Focused,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// The first of them, at most [`super::MOST_CANDIDATES`].
    pub matches: Vec<Match>,
    /// How many there are.
    pub total: u64,
    /// The page's origin.
    pub origin: String,
}

/// One element that is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// CSS that means no other element of the page. ` >>> ` leads into a shadow root or a frame.
    pub selector: String,
    /// In our words, such as `button "Sign in"`.
    pub description: String,
    /// One of [`super::ROLES`], or `generic`.
    pub role: String,
    /// Its accessible name, cut to size; may be empty.
    pub name: String,
    /// What else it says of itself, or what it is in does: a line each, cut to size. It may differ from the name, which a page can write.
    #[serde(default)]
    pub text: String,
    /// Whether it submits a form when it is tapped.
    pub submits: bool,
    /// Whether Enter in it would submit a form.
    pub form_field: bool,
    /// Whether it is checked; `None` when it cannot be, or is so in part.
    pub checked: Option<bool>,
    /// Another when its tag, type, role, name, the action of its form, or the page's origin is another.
    pub fingerprint: String,
}

/// Whether a page was kept from submitting a form by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionHeld {
    /// Since this was last asked.
    pub held: bool,
}

/// A fingerprint of what tells an element apart.
#[must_use]
pub fn fingerprint(traits: &[String]) -> String {
    let mut hash = Sha256::new();
    for text in traits {
        // With their lengths, so that no two lists look the same.
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_of_each_trait() {
        let of = |traits: &[&str]| fingerprint(&traits.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["button", "submit"]), of(&["button", "submit"]));
        assert_eq!(of(&[]).len(), 64);
        let others = [of(&["buttons", "ubmit"]), of(&["button", ""]), of(&["button"]), of(&["submit", "button"])];
        assert!(!others.contains(&of(&["button", "submit"])));
    }
}
