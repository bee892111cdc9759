//! Finds the elements that a query matches, before an action is performed on them. Internal to agent sessions: no route
//! offers it.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{OperationOutput, OperationSpec, Parameters, Target};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Locate {
    pub sought: LocateBy,
}

impl Parameters for Locate {
    const SPEC: OperationSpec = OperationSpec::READS;
}

impl OperationOutput for Located {}

/// Only the service runs it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Hold {}

impl Parameters for Hold {
    const SPEC: OperationSpec = OperationSpec::READS;
}

impl OperationOutput for SubmissionHeld {}

/// Finds only visible elements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocateBy {
    Target(Target),
    /// An element whose name equals the words comes first, otherwise elements whose name contains them match. Controls
    /// with the role precede others, and a name precedes a label, a placeholder and a text.
    Described {
        /// One of [`super::ROLES`], or a word such as `field` or `dropdown`.
        role: Option<String>,
        /// May be empty if there is a role.
        words: String,
    },
    Focused,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// At most [`super::MAX_CANDIDATES`].
    pub matches: Vec<Match>,
    pub total: u64,
    pub origin: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// Matches only this element. ` >>> ` descends into a shadow root or a frame.
    pub selector: String,
    /// Readable description such as `button "Sign in"`.
    pub description: String,
    /// One of [`super::ROLES`], or `generic`.
    pub role: String,
    /// Truncated; may be empty.
    pub name: String,
    /// Other texts of the element and its form, one per line, truncated. They may differ from the name, which a page
    /// can set freely.
    #[serde(default)]
    pub text: String,
    /// Tapping the element submits a form.
    pub submits: bool,
    /// Pressing Enter in the element would submit a form.
    pub form_field: bool,
    /// `None` if the element cannot be checked or is partly checked.
    pub checked: Option<bool>,
    /// Changes if the element's tag, type, role, name, form action or page origin changes.
    pub fingerprint: String,
    /// Width and height in CSS pixels.
    #[serde(default)]
    pub size: [u32; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmissionHeld {
    /// Since the last check.
    pub held: bool,
}

#[must_use]
pub fn fingerprint(traits: &[String]) -> String {
    let mut hash = Sha256::new();
    for text in traits {
        // Hash the lengths, too, so that different lists have different hashes.
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hex::encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trait_changes_the_fingerprint() {
        let of = |traits: &[&str]| fingerprint(&traits.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["button", "submit"]), of(&["button", "submit"]));
        assert_eq!(of(&[]).len(), 64);
        let others = [of(&["buttons", "ubmit"]), of(&["button", ""]), of(&["button"]), of(&["submit", "button"])];
        assert!(!others.contains(&of(&["button", "submit"])));
    }
}
