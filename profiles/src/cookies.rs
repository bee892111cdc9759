//! Cookies, as a store and a document hold them.

use serde::{Deserialize, Serialize};

/// A cookie, as a browser keeps it. The same members as the host protocol's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The host it is for; with a leading dot, the hosts below it too.
    pub domain: String,
    /// The path it is for.
    pub path: String,
    /// When it expires, in seconds since 1970; `None` for one that ends with the browser.
    pub expires: Option<i64>,
    /// Whether only https gets it.
    pub secure: bool,
    /// Whether scripts cannot see it.
    pub http_only: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: String,
}

/// Cookies of a document, at most.
pub const MAX_COOKIES: usize = 10_000;
/// The end of the year 9999, which is the last one that a cookie can name.
const LAST_SECOND: i64 = 253_402_300_799;

impl Cookie {
    /// Whether a browser could have it. Otherwise the member that it could not have, and why.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let sendable = |text: &str| !text.chars().any(|c| (c.is_control() && c != '\t') || c == ';');
        let host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        let rules = [
            (sendable(&self.name), "name", "must have neither control characters nor `;`"),
            (!self.name.is_empty() || !self.value.is_empty(), "name", "must not be empty, like the value"),
            (sendable(&self.value), "value", "must have neither control characters nor `;`"),
            ((1..=254).contains(&self.domain.len()) && self.domain.chars().all(host), "domain", "must be a host"),
            (self.path.starts_with('/') && sendable(&self.path), "path", "must begin with `/`"),
            (
                self.expires.is_none_or(|at| (0..=LAST_SECOND).contains(&at)),
                "expires",
                "must be a time from 1970 to 9999",
            ),
            (["Strict", "Lax", "None"].contains(&&*self.same_site), "same_site", "must be Strict, Lax or None"),
        ];
        rules.into_iter().find(|(holds, ..)| !holds).map_or(Ok(()), |(_, member, message)| Err((member, message)))
    }
}

#[cfg(test)]
impl Cookie {
    /// One of this name.
    pub(crate) fn sample(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: "1".to_owned(),
            domain: ".example.com".to_owned(),
            path: "/".to_owned(),
            expires: Some(2_000_000_000),
            secure: true,
            http_only: true,
            same_site: "Lax".to_owned(),
        }
    }
}
