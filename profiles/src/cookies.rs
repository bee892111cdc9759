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
