//! What challenges are told by (contract: challenges 2 to 4): signs that the known systems put into a page, with how much each says.
//!
//! They are data, `challenges.json`, in which the more particular of two systems comes first. A script of ours says which of them a
//! page meets, and nothing else of what it says is used: what is told of a challenge is made here, of our own words.

use std::sync::LazyLock;

use kitfleet_domain::challenges::{ChallengeType, Finding};
use serde::{Deserialize, Serialize};

/// The systems that are known.
pub static SYSTEMS: LazyLock<Vec<System>> =
    LazyLock::new(|| serde_json::from_str(include_str!("challenges.json")).expect("a test reads it"));

/// Characters of a host's name that are told.
const MOST_HOST_CHARS: usize = 100;
/// Signs that are told of one challenge.
const MOST_TOLD: usize = 4;

/// What is known of a system.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Which.
    #[serde(rename = "type")]
    kind: ChallengeType,
    signs: Vec<Sign>,
    /// The field in which its answer is, when somebody has given it: then it asks no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Sign {
    #[serde(flatten)]
    what: ProviderPart,
    /// How sure it makes that this is a challenge, 0 to 1.
    confidence: f64,
    /// Whether an element has to be seen.
    #[serde(default)]
    in_view: bool,
}

/// What can be seen of a system.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProviderPart {
    /// A script that the page has.
    Script(ProviderClues),
    /// A frame that can be seen.
    Frame(ProviderClues),
    /// All of the page's title, whatever its case.
    Title(String),
    /// The id of an element that can be seen.
    Id(String),
    /// A selector. It is looked for only when the page has shown one of those above.
    Element(String),
    /// How the name of a cookie begins that scripts can read. The same.
    Cookie(String),
}

/// Where a script or a frame is from.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderClues {
    /// One of these hosts, or one below them; any, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hosts: Option<Vec<String>>,
    /// But none of these, nor below them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    except: Vec<String>,
    /// All of these, behind the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    contains: Vec<String>,
    /// And not this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    without: Option<String>,
}

/// What was seen of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct ChallengeScan {
    /// The document that it was, by a number of ours: another one is another page.
    pub document: u64,
    /// What it may be, of the more particular systems first.
    pub found: Vec<Finding>,
}

/// What the script answers.
#[derive(Debug, Deserialize)]
pub struct ScanResult {
    document: u64,
    /// Places of a system and of its sign, and whose it was.
    met: Vec<(usize, usize, String)>,
}

impl ScanResult {
    /// What that may be. Places that there are not, as a page's process might say that somebody has taken over, are none.
    pub fn judged(&self) -> ChallengeScan {
        let judge = |(place, system): (usize, &System)| {
            let met = self.met.iter().filter(|met| met.0 == place);
            let met: Vec<_> = met.filter_map(|(_, sign, host)| Some((system.signs.get(*sign)?, host))).collect();
            let doubt: f64 = met.iter().map(|(sign, _)| 1.0 - sign.confidence).product();
            let told: Vec<_> = met.iter().take(MOST_TOLD).map(|(sign, host)| sign.what.told(host)).collect();
            (!met.is_empty()).then(|| Finding {
                kind: system.kind,
                confidence: ((1.0 - doubt) * 100.0).round() / 100.0,
                detail: format!("The page has {}.", told.join(", ")),
            })
        };
        ChallengeScan { document: self.document, found: SYSTEMS.iter().enumerate().filter_map(judge).collect() }
    }
}

impl ProviderPart {
    /// In our own words, and the name of a host.
    fn told(&self, host: &str) -> String {
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

/// A host as it is told: a name or an address, cut to size, and nothing else that a page may have said.
fn named(host: &str) -> &str {
    let plain = |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    Some(host).filter(|host| !host.is_empty() && host.len() <= MOST_HOST_CHARS).filter(plain).unwrap_or("its own")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn place(kind: ChallengeType) -> usize {
        SYSTEMS.iter().position(|system| system.kind == kind).expect("a system that is known")
    }

    /// What is made of signs of one system, by their places.
    fn judged(kind: ChallengeType, signs: &[(usize, &str)]) -> Option<Finding> {
        let met = signs.iter().map(|(sign, host)| (place(kind), *sign, (*host).to_owned())).collect();
        ScanResult { document: 7, met }.judged().found.pop()
    }

    /// Contract: challenges 1, 3.
    #[test]
    fn each_type_has_signs_that_say_something() {
        let known: BTreeSet<_> = SYSTEMS.iter().map(|system| system.kind.name()).collect();
        assert_eq!(known, ChallengeType::NAMES.iter().copied().collect());
        assert_eq!(SYSTEMS.len(), known.len());
        for system in &*SYSTEMS {
            let all: Vec<_> = (0..system.signs.len()).map(|sign| (sign, "example.com")).collect();
            let Finding { confidence, detail, .. } = judged(system.kind, &all).expect("a finding");
            assert!((0.0..=1.0).contains(&confidence) && detail.len() < 600, "{confidence} {detail}");
            // A score asks nobody anything.
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
    fn what_is_told_is_of_our_own_words() {
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
