//! Cookies of a browser.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    pub name: String,
    pub value: String,
    /// Leading dot when the cookie is valid for subdomains.
    pub domain: String,
    pub path: String,
    /// Unix seconds. `None` for a session cookie.
    pub expires: Option<i64>,
    pub secure: bool,
    pub http_only: bool,
    pub same_site: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookiesSet {
    /// Indexes of cookies whose domain is a public suffix. If there is one, no cookie is set.
    pub public_suffixes: Vec<usize>,
    /// Indexes of cookies that WebKit has not kept.
    pub dropped: Vec<usize>,
}
