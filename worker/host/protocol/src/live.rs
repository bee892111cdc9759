//! Live view of a page.

use serde::{Deserialize, Serialize};

use crate::dialogs::Dialog;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveEvent {
    pub picture: Option<Picture>,
    /// Address and title, when one of them has changed.
    pub page: Option<PageInfo>,
    pub asked: Option<DialogRequest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub seq: u32,
    /// Picture that this one is drawn over. 0 for the whole viewport.
    pub base: u32,
    /// No sharper version will follow.
    pub sharp: bool,
    pub view: [u16; 2],
    /// Left, top, width and height, in CSS pixels.
    pub rect: [u16; 4],
    /// Microseconds since 1970.
    pub taken_us: u64,
    /// JPEG in base64.
    pub jpeg: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageInfo {
    pub uri: String,
    /// Truncated. `None` when the document has none.
    pub title: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogRequest {
    pub menu: Option<Vec<MenuItem>>,
    pub dialog: Option<Dialog>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MenuItem {
    pub label: String,
    pub enabled: bool,
    pub selected: bool,
    /// Heading of the following options.
    pub group: bool,
}
