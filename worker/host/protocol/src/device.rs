//! Device of a browser: its sizes, identity, limits and emulation.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dialogs::DialogPolicy;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraHeader {
    pub name: String,
    pub value: String,
    /// Such as `https://example.com`. `None` for all.
    pub origins: Option<Vec<String>>,
}

/// Prints no value, because it may be a secret.
impl fmt::Debug for ExtraHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtraHeader").field("name", &self.name).field("origins", &self.origins).finish_non_exhaustive()
    }
}

/// The device pixel ratio is fixed at GTK's start, so it is an argument of the host (`--scale`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// `innerWidth`, in CSS pixels.
    pub viewport_width: u32,
    /// `innerHeight`, in CSS pixels.
    pub viewport_height: u32,
    /// `screen.width`, in CSS pixels.
    pub screen_width: u32,
    /// `screen.height`, in CSS pixels.
    pub screen_height: u32,
    /// `navigator.userAgent`, and the header.
    pub user_agent: String,
    /// `navigator.platform`.
    pub platform: String,
    /// `navigator.maxTouchPoints`.
    pub max_touch_points: u32,
    /// `navigator.languages`.
    pub languages: Vec<String>,
    /// Has more entries than `navigator.languages`.
    pub accept_language: String,
    /// In force from the first page on. Its sizes are those of this device.
    pub emulation: Emulation,
    /// Such as `socks5://127.0.0.1:40001`.
    pub proxy: String,
    pub dialogs: DialogPolicy,
    pub downloads: DownloadLimits,
    /// Longer addresses are truncated, because a page can give itself an address of any length.
    pub uri_chars: usize,
    /// Longer ones are truncated.
    pub title_chars: usize,
    /// Collect events of pages, and remember which fields pictures do not show.
    pub is_recorded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadLimits {
    pub file_bytes: u64,
    pub total_bytes: u64,
    /// Later ones are not started.
    pub files: u32,
}

impl Default for DownloadLimits {
    fn default() -> Self {
        Self { file_bytes: 64 * 1024 * 1024, total_bytes: 256 * 1024 * 1024, files: 100 }
    }
}

/// Can change while the browser is open. A time zone cannot, so it is an environment variable of the host (`TZ`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Emulation {
    /// Reported to secure origins. `None` denies the permission.
    pub geolocation: Option<Geolocation>,
    /// `prefers-color-scheme`.
    pub color_scheme: ColorScheme,
    /// `screen.orientation`.
    pub orientation: Orientation,
    /// In this orientation, in CSS pixels.
    pub viewport: [u32; 2],
    /// In this orientation, in CSS pixels.
    pub screen: [u32; 2],
    pub extra_headers: Vec<ExtraHeader>,
    /// `!navigator.onLine`. The egress guard cuts the connections.
    pub offline: bool,
    pub block: Block,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Geolocation {
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    pub accuracy: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColorScheme {
    #[default]
    Light,
    Dark,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Orientation {
    #[default]
    Portrait,
    Landscape,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub resource_types: Vec<ResourceType>,
    /// As URLs spell them. Each covers its subdomains.
    pub hosts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResourceType {
    Image,
    Media,
    Font,
    Stylesheet,
    Script,
    Websocket,
    Xhr,
}
