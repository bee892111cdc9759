//! Headers that a customer adds to the requests of a browser.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use crate::validation::{Invalid, Rules};

const MAX_HEADERS: usize = 20;
/// Names, values and origins together.
const MAX_BYTES: usize = 4 * 1024;

/// A browser sets them itself: for the address and the cookies, for one connection only (RFC 9110, section 7.6.1), and
/// for the length of a message. `Proxy-Authorization` is in [`CREDENTIALS`].
const RESERVED: [&str; 11] = [
    "connection",
    "content-length",
    "cookie",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// They must not be sent to every site that a page refers to.
const CREDENTIALS: [&str; 2] = ["authorization", "proxy-authorization"];

/// The value is a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraHeader {
    pub name: String,
    /// Empty in everything that is stored in clear.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origins: Option<Vec<String>>,
}

/// Prints no value, so that it never reaches a log.
impl fmt::Debug for ExtraHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtraHeader").field("name", &self.name).field("origins", &self.origins).finish_non_exhaustive()
    }
}

/// A header that is added to requests, without its value
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AddedHeader, example = json!({"name": "X-Preview", "origins": ["https://example.com"]}))]
pub struct HeaderState {
    /// Name of the header
    pub name: String,
    /// Origins that receive the header; null for all
    #[schema(required = true)]
    pub origins: Option<Vec<String>>,
}

impl ExtraHeader {
    pub(super) fn state(&self) -> HeaderState {
        HeaderState { name: self.name.clone(), origins: self.origins.clone() }
    }

    /// Removes the values, so that they can be sealed. `None` if there are no headers.
    pub(crate) fn take_values(headers: &mut [Self]) -> Option<Vec<String>> {
        let values: Vec<_> = headers.iter_mut().map(|header| std::mem::take(&mut header.value)).collect();
        (!values.is_empty()).then_some(values)
    }

    /// Counterpart of [`Self::take_values`].
    pub(crate) fn restore_values(headers: &mut [Self], values: Vec<String>) {
        for (header, value) in headers.iter_mut().zip(values) {
            header.value = value;
        }
    }

    /// The same name, and a request can receive both.
    fn collides_with(&self, other: &Self) -> bool {
        let is_shared = match (&self.origins, &other.origins) {
            (Some(own), Some(others)) => own.iter().any(|origin| others.contains(origin)),
            (None, _) | (_, None) => true,
        };
        self.name.eq_ignore_ascii_case(&other.name) && is_shared
    }
}

impl HeaderState {
    pub(super) fn weight(&self) -> usize {
        self.name.len() + self.origins.iter().flatten().map(String::len).sum::<usize>()
    }
}

pub fn parse(mut headers: Vec<ExtraHeader>) -> Result<Vec<ExtraHeader>, Invalid> {
    let mut rules = Rules::default();
    let is_few = headers.len() <= MAX_HEADERS;
    rules.require(is_few, "extra_headers", format!("must have at most {MAX_HEADERS} headers"));
    let bytes: usize = headers.iter().map(|header| header.state().weight() + header.value.len()).sum();
    let is_small = bytes <= MAX_BYTES;
    rules.require(is_small, "extra_headers", format!("must have at most {MAX_BYTES} bytes in all"));
    rules.check()?;
    let mut rules = Rules::default();
    for (at, header) in headers.iter_mut().enumerate() {
        check_name(&mut rules, header, at);
        let message = "must have only printable characters of ASCII and spaces";
        rules.require(header.value.bytes().all(is_of_value), &format!("extra_headers.{at}.value"), message);
        if let Some(origins) = &mut header.origins {
            let message = "must name at least one origin; leave it out for all origins";
            rules.require(!origins.is_empty(), &format!("extra_headers.{at}.origins"), message);
            for (index, origin) in origins.iter_mut().enumerate() {
                let parsed = parse_origin(origin);
                let message = "must be an http or https origin, such as https://example.com";
                rules.require(parsed.is_some(), &format!("extra_headers.{at}.origins.{index}"), message);
                if let Some(parsed) = parsed {
                    *origin = parsed;
                }
            }
        }
    }
    for (at, header) in headers.iter().enumerate() {
        let is_alone = !headers[..at].iter().any(|other| header.collides_with(other));
        rules.require(is_alone, &format!("extra_headers.{at}.name"), "is set twice for the same origin");
    }
    rules.check()?;
    Ok(headers)
}

fn check_name(rules: &mut Rules, header: &ExtraHeader, at: usize) {
    let (name, field) = (header.name.to_ascii_lowercase(), format!("extra_headers.{at}.name"));
    let is_token = !name.is_empty() && name.bytes().all(is_of_token);
    rules.require(is_token, &field, "must be the name of a header");
    rules.require(!RESERVED.contains(&name.as_str()), &field, "is set by the browser");
    let is_limited = header.origins.is_some() || !CREDENTIALS.contains(&name.as_str());
    rules.require(is_limited, &format!("extra_headers.{at}.origins"), "is required for a header with credentials");
}

/// RFC 9110, section 5.6.2.
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_of_value(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

fn parse_origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let is_origin = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    is_origin.then(|| url.origin().ascii_serialization())
}
