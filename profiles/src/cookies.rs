//! Cookies, as a store and a document hold them.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};
use url::Host;

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

/// Cookies of a profile, at most.
pub const MAX_COOKIES: usize = 10_000;
/// Cookies of one host that are kept of a browser, at most: each of them may go with every request to it, and no other
/// browser keeps so many. One host leaves the others room.
pub const MAX_OF_HOST: usize = 3_000;
/// Bytes of all of a profile's cookies, at most: they are in memory.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a name and its value, at most, and of a domain or a path: browsers ignore longer ones (RFC 6265bis, section 5.6).
const MAX_PAIR: usize = 4 * 1024;
const MAX_ATTRIBUTE: usize = 1024;
/// The end of the year 9999, which is the last one that a cookie can name.
const LAST_SECOND: i64 = 253_402_300_799;

impl Cookie {
    /// Whether a browser could have it. Otherwise the member that it could not have, and why.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let sendable = |text: &str| !text.chars().any(|c| (c.is_control() && c != '\t') || c == ';');
        let rules = [
            (sendable(&self.name), "name", "must have neither control characters nor `;`"),
            (!self.name.is_empty() || !self.value.is_empty(), "name", "must not be empty, like the value"),
            (sendable(&self.value), "value", "must have neither control characters nor `;`"),
            (self.name.len() + self.value.len() <= MAX_PAIR, "value", "must have at most 4096 bytes with the name"),
            (is_domain(&self.domain), "domain", "must be a host, in lower case"),
            (self.path.starts_with('/') && sendable(&self.path), "path", "must begin with `/`"),
            (self.path.len() <= MAX_ATTRIBUTE, "path", "must have at most 1024 bytes"),
            (
                self.expires.is_none_or(|at| (0..=LAST_SECOND).contains(&at)),
                "expires",
                "must be a time from 1970 to 9999",
            ),
            (["Strict", "Lax", "None"].contains(&&*self.same_site), "same_site", "must be Strict, Lax or None"),
        ];
        rules.into_iter().find(|(holds, ..)| !holds).map_or(Ok(()), |(_, member, message)| Err((member, message)))
    }

    /// The bytes of what can be long in it.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }
}

/// Whether it is a host as browsers spell it, perhaps behind a dot: a cookie of any other spelling would never be sent.
fn is_domain(domain: &str) -> bool {
    let host = domain.strip_prefix('.').unwrap_or(domain);
    let labels = host.strip_suffix('.').unwrap_or(host);
    let spelled =
        Host::parse(host).is_ok_and(|parsed| parsed.to_string() == host) && !labels.split('.').any(str::is_empty);
    domain.len() <= MAX_ATTRIBUTE && (spelled || host.parse::<Ipv6Addr>().is_ok())
}

/// Leaves out cookies that no document could have, and those beyond what a profile may have: of the cookies of a host, and of all
/// of them, those that were told first. Answers how many.
pub fn keep_within_bounds(cookies: &mut Vec<Cookie>) -> usize {
    let told = cookies.len();
    cookies.retain(|cookie| cookie.check().is_ok());
    let (mut of_hosts, mut all, mut bytes) = (HashMap::<&str, usize>::new(), 0, 0);
    let kept = |cookie| {
        let Cookie { domain, .. }: &Cookie = cookie;
        let of_host = of_hosts.entry(domain.trim_start_matches('.')).or_default();
        let keep = *of_host < MAX_OF_HOST && all < MAX_COOKIES && bytes + cookie.bytes() <= MAX_BYTES;
        if keep {
            *of_host += 1;
            all += 1;
            bytes += cookie.bytes();
        }
        keep
    };
    // The last ones come first.
    let kept: Vec<bool> = cookies.iter().rev().map(kept).collect();
    let mut kept = kept.into_iter().rev();
    cookies.retain(|_| kept.next().unwrap_or_default());
    told - cookies.len()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_a_host_as_browsers_spell_it() {
        for good in
            ["a.example", ".a.example", "localhost", "127.0.0.1", "[::1]", "::1", "xn--bcher-kva.example", "a_b.c"]
        {
            assert!(is_domain(good), "{good}");
        }
        let long = format!("{}example", "a.".repeat(600));
        for bad in [
            "",
            ".",
            "..",
            "..a",
            "a..b",
            "A.example",
            "a/b",
            "a b",
            "[",
            ":",
            "a:80",
            "b\u{fc}cher.example",
            "1",
            &long,
        ] {
            assert!(!is_domain(bad), "{bad}");
        }
    }
}
