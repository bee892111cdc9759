//! All other operations act on the active page.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::interact::NAVIGATE_TIMEOUT;
use super::{BrowserUrl, OperationOutput, OperationSpec, Parameters, UsageKind};
use crate::addresses::Destinations;
use crate::ids::{PageId, SessionId};
use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListPages {
    pub session: SessionId,
}

impl Parameters for ListPages {
    // It has the same path as `OpenPage`, which cannot be repeated.
    const SPEC: OperationSpec =
        OperationSpec { kind: "state_capture", usage: Some(UsageKind::StateCapture), ..OperationSpec::READS };
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenPage {
    pub session: SessionId,
    /// `None` for a blank page.
    pub url: Option<BrowserUrl>,
}

impl Parameters for OpenPage {
    const SPEC: OperationSpec = OperationSpec { kind: "unknown", route: Some("pages"), ..OperationSpec::ACTS };

    fn spec(&self) -> OperationSpec {
        match self.url {
            Some(_) => OperationSpec { kind: "navigate", usage: Some(UsageKind::Navigate), ..Self::SPEC },
            None => Self::SPEC,
        }
    }

    fn budget(&self) -> Duration {
        NAVIGATE_TIMEOUT
    }
}

impl OpenPage {
    pub fn parse_url(
        url: Option<&str>,
        destinations: &Destinations,
        limits: &Limits,
    ) -> Result<Option<BrowserUrl>, Invalid> {
        let mut rules = Rules::default();
        rules.length(url.unwrap_or_default(), 0, limits.url_chars, "url");
        rules.check()?;
        url.map(|url| BrowserUrl::parse(url, destinations)).transpose()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ActivatePage {
    pub session: SessionId,
    pub page: PageId,
}

impl Parameters for ActivatePage {
    const SPEC: OperationSpec = OperationSpec {
        kind: "unknown",
        route: Some("pages/{page_id}/activate"),
        retryable: true,
        ..OperationSpec::ACTS
    };
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClosePage {
    pub session: SessionId,
    pub page: PageId,
}

impl Parameters for ClosePage {
    const SPEC: OperationSpec =
        OperationSpec { kind: "unknown", route: Some("pages/{page_id}"), ..OperationSpec::ACTS };
}

/// Page of a session
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionPage, example = json!({
    "id": "page_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f60", "url": "https://accounts.example.com/", "title": "Sign in",
    "active": true, "opener_id": "page_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5f",
}))]
pub struct BrowserPage {
    /// Page ID
    #[schema(value_type = String)]
    pub id: PageId,
    /// Address of the page, limited to its first 32,768 characters
    pub url: String,
    /// Title of the page, limited to its first 4,096 characters
    #[schema(required = true)]
    pub title: Option<String>,
    /// True for the page that operations act on
    pub active: bool,
    /// Page that opened this one by a link or a script, and may be closed; null if there is none
    #[schema(value_type = Option<String>, required = true)]
    pub opener_id: Option<PageId>,
}

impl OperationOutput for BrowserPage {}

/// Pages of a session, oldest first
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionPages, example = json!({"data": [{
    "id": "page_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5f", "url": "https://example.com/", "title": "Example", "active": true,
    "opener_id": null,
}]}))]
pub struct BrowserPages {
    /// Pages, at most 8
    pub data: Vec<BrowserPage>,
}

impl OperationOutput for BrowserPages {}

/// Result of closing a page, which has no members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageClosed {}

impl OperationOutput for PageClosed {}
