//! Signs of challenges (contract: challenges 2 to 4): parts of a page that the known systems add, each with a
//! confidence.
//!
//! The signs are in `challenges.json`, the more specific system first. Of a script's result nothing is trusted except indexes
//! and host names.

use std::sync::LazyLock;

use kitfleet_domain::challenges::{ChallengeType, Finding};
use serde::{Deserialize, Serialize};

pub static SYSTEMS: LazyLock<Vec<System>> =
    LazyLock::new(|| serde_json::from_str(include_str!("challenges.json")).expect("a test reads it"));

const MAX_HOST_CHARS: usize = 100;
const MAX_LISTED_SIGNS: usize = 4;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    #[serde(rename = "type")]
    kind: ChallengeType,
    signs: Vec<Sign>,
    /// A value in this field means that the challenge is solved.
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Sign {
    #[serde(flatten)]
    what: ProviderPart,
    confidence: f64,
    /// The element must be visible.
    #[serde(default)]
    in_view: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProviderPart {
    Script(ProviderClues),
    Frame(ProviderClues),
    /// Complete, compared without case.
    Title(String),
    Id(String),
    /// Counts only if the page also has one of the parts above.
    Element(String),
    /// Of a name that scripts can read. Counts only if the page also has one of the parts above.
    Cookie(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderClues {
    /// Including subdomains. `None` accepts every host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hosts: Option<Vec<String>>,
    /// Including subdomains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    except: Vec<String>,
    /// All of them must be in the URL after the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    contains: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    without: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChallengeScan {
    /// Another number is another page.
    pub document: u64,
    /// Those of more specific systems first.
    pub found: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
pub struct ScanResult {
    document: u64,
    /// Index of a system and of its sign, and host of the sign.
    met: Vec<(usize, usize, String)>,
}

impl ScanResult {
    /// Invalid indexes, which a compromised page process could send, are ignored.
    pub fn judged(&self) -> ChallengeScan {
        let judge = |(place, system): (usize, &System)| {
            let met = self.met.iter().filter(|met| met.0 == place);
            let met: Vec<_> = met.filter_map(|(_, sign, host)| Some((system.signs.get(*sign)?, host))).collect();
            let doubt: f64 = met.iter().map(|(sign, _)| 1.0 - sign.confidence).product();
            let found_signs: Vec<_> =
                met.iter().take(MAX_LISTED_SIGNS).map(|(sign, host)| sign.what.describe(host)).collect();
            (!met.is_empty()).then(|| Finding {
                kind: system.kind,
                confidence: ((1.0 - doubt) * 100.0).round() / 100.0,
                detail: format!("The page has {}.", found_signs.join(", ")),
            })
        };
        ChallengeScan { document: self.document, found: SYSTEMS.iter().enumerate().filter_map(judge).collect() }
    }
}

impl ProviderPart {
    /// The host name is the only part from the page.
    fn describe(&self, host: &str) -> String {
        match self {
            Self::Script(_) => format!("a script of {}", named(host)),
            Self::Frame(_) => format!("a frame of {}", named(host)),
            Self::Title(title) => format!("the title \"{title}\""),
            Self::Id(id) => format!("the element #{id}"),
            Self::Element(selector) => format!("the element {selector}"),
            Self::Cookie(name) => format!("a cookie {name}…"),
        }
    }
}

/// `its own` if the text is too long or contains other characters.
fn named(host: &str) -> &str {
    let plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    Some(host).filter(|host| !host.is_empty() && host.len() <= MAX_HOST_CHARS).filter(plain).unwrap_or("its own")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn place(kind: ChallengeType) -> usize {
        SYSTEMS.iter().position(|system| system.kind == kind).expect("a system that is known")
    }

    fn judged(kind: ChallengeType, signs: &[(usize, &str)]) -> Option<Finding> {
        let met = signs.iter().map(|(sign, host)| (place(kind), *sign, (*host).to_owned())).collect();
        ScanResult { document: 7, met }.judged().found.pop()
    }

    /// Contract: challenges 1, 3.
    #[test]
    fn every_type_has_signs_with_a_confidence() {
        let known: BTreeSet<_> = SYSTEMS.iter().map(|system| system.kind.name()).collect();
        assert_eq!(known, ChallengeType::NAMES.iter().copied().collect());
        assert_eq!(SYSTEMS.len(), known.len());
        for system in &*SYSTEMS {
            let all: Vec<_> = (0..system.signs.len()).map(|sign| (sign, "example.com")).collect();
            let Finding { confidence, detail, .. } = judged(system.kind, &all).expect("a finding");
            assert!((0.0..=1.0).contains(&confidence) && detail.len() < 600, "{confidence} {detail}");
            // reCAPTCHA v3 only computes a score, and does not ask the user anything.
            assert_eq!(
                confidence < 0.7,
                system.kind == ChallengeType::RecaptchaV3,
                "{}: {confidence}",
                system.kind.name()
            );
            assert!(system.signs.iter().all(|sign| sign.confidence > 0.0 && sign.confidence < 1.0));
        }
    }

    /// Contract: challenges 3, 4.
    #[test]
    fn finding_contains_only_fixed_text_and_a_valid_host() {
        let kind = ChallengeType::CloudflareTurnstile;
        let found = judged(kind, &[(1, "challenges.cloudflare.com"), (2, "")]).expect("a finding");
        assert!((found.confidence - 0.79).abs() < 1e-9, "{found:?}");
        assert_eq!(found.detail, "The page has a script of challenges.cloudflare.com, the element .cf-turnstile.");
        let long = "x".repeat(101);
        for hostile in ["<b>hello</b>", "a b", "", "ä.example", &long] {
            assert_eq!(judged(kind, &[(1, hostile)]).expect("a finding").detail, "The page has a script of its own.");
        }
        let met =
            vec![(SYSTEMS.len(), 0, String::new()), (0, 99, String::new()), (usize::MAX, usize::MAX, String::new())];
        assert_eq!(ScanResult { document: 1, met }.judged(), ChallengeScan { document: 1, found: Vec::new() });
    }
}
