//! Snapshots of the page, and location of elements.

use std::time::{Duration, Instant};

use kitfleet_host_protocol::SubmissionRule;
use kitfleet_types::operations::{Locate, LocateBy, Located, Match, PageSnapshot, Snapshot, SubmissionHeld, locate};
use serde::Deserialize;
use serde_json::json;

use super::OperationEnd;
use super::page::{self, PageQuery};
use super::webkit::{Webkit, milliseconds};

/// Of a script on one page. A snapshot is truncated at this limit, and a search for an element fails.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
struct SnapshotAnswer {
    snapshot: String,
    nodes: u64,
    truncated: bool,
    links: Vec<String>,
    /// Lines of frames of other origins.
    foreign: String,
    /// Assigned in total.
    given: u64,
}

#[derive(Deserialize)]
struct FindAnswer {
    matches: Vec<FoundMatch>,
    total: u64,
    origin: String,
}

#[derive(Deserialize)]
struct FoundMatch {
    selector: String,
    description: String,
    role: String,
    name: String,
    text: String,
    submits: bool,
    form_field: bool,
    checked: Option<bool>,
    size: [u32; 2],
    traits: Vec<String>,
}

impl Webkit {
    pub(super) async fn snapshot(&mut self, wanted: &Snapshot, started: Instant) -> Result<PageSnapshot, OperationEnd> {
        let (characters, nodes) = (self.limits.snapshot_chars, self.limits.snapshot_nodes);
        if wanted.links {
            self.hold_submissions(SubmissionRule::HoldUnapproved).await?;
        }
        let wanted =
            json!({ "characters": characters, "nodes": nodes, "within_ms": within_ms(), "links": wanted.links });
        let input = self.input(wanted);
        let shown: SnapshotAnswer = page::read(&self.host, page::SNAPSHOT, &input).await?;
        let SnapshotAnswer { snapshot, nodes, truncated, links, foreign, given } = shown;
        self.refs = self.refs.max(given);
        let url = self.address().await?;
        let (duration_ms, dialogs, dialog) = (milliseconds(started), Vec::new(), None);
        Ok(PageSnapshot { snapshot, nodes, truncated, url, duration_ms, dialogs, dialog, links, foreign })
    }

    pub(super) async fn find(&mut self, locate: &Locate) -> Result<Located, OperationEnd> {
        self.hold_submissions(SubmissionRule::HoldUnapproved).await?;
        let target = match &locate.sought {
            LocateBy::Target(target) => Some(PageQuery::Target { target, field: "target", exact: false }),
            LocateBy::Described { .. } | LocateBy::Focused => None,
        };
        let input = self.input(json!({ "by": locate.sought, "target": target, "within_ms": within_ms() }));
        let FindAnswer { matches, total, origin } = page::read(&self.host, page::FIND, &input).await?;
        let matches = matches.into_iter().map(Match::from).collect();
        Ok(Located { matches, total, origin })
    }
}

impl Webkit {
    /// Reports whether the browser has held an unapproved submission.
    pub(super) async fn hold(&mut self) -> Result<SubmissionHeld, OperationEnd> {
        self.hold_submissions(SubmissionRule::HoldUnapproved).await?;
        Ok(SubmissionHeld { held: self.held_submission().await?.is_some() })
    }
}

fn within_ms() -> u64 {
    u64::try_from(SEARCH_TIMEOUT.as_millis()).unwrap_or(u64::MAX)
}

impl From<FoundMatch> for Match {
    fn from(found: FoundMatch) -> Self {
        let FoundMatch { selector, description, role, name, text, submits, form_field, checked, size, traits } = found;
        let fingerprint = locate::fingerprint(&traits);
        Self { selector, description, role, name, text, submits, form_field, checked, fingerprint, size }
    }
}
