//! Cookies in stores and documents.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};
use url::Host;

/// A cookie of a browser, with the same members as in the host protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    pub name: String,
    pub value: String,
    /// Host; with a leading dot also the hosts below it.
    pub domain: String,
    pub path: String,
    /// Seconds since 1970; `None` for a session cookie.
    pub expires: Option<i64>,
    pub secure: bool,
    pub http_only: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: String,
}

pub const MAX_COOKIES: usize = 10_000;
/// Each may be sent with every request to the host, and no other browser keeps so many. The limit leaves room for other
/// hosts.
pub const MAX_OF_HOST: usize = 3_000;
/// Bytes of all cookies of a profile, because they are in memory.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a name with its value, and of a domain or a path. Browsers ignore longer ones (RFC 6265bis, section 5.6).
const MAX_PAIR: usize = 4 * 1024;
const MAX_ATTRIBUTE: usize = 1024;
/// End of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

impl Cookie {
    /// Returns the invalid member and the reason.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let sendable = |text: &str| !text.chars().any(|c| (c.is_control() && c != '\t') || c == ';');
        let rules = [
            (sendable(&self.name), "name", "must have neither control characters nor `;`"),
            (!self.name.is_empty() || !self.value.is_empty(), "name", "must not be empty if the value is empty"),
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

    /// Members of variable length.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }
}

/// Normal form of browsers, with an optional leading dot. A cookie with any other form would never be sent.
fn is_domain(domain: &str) -> bool {
    let host = domain.strip_prefix('.').unwrap_or(domain);
    let labels = host.strip_suffix('.').unwrap_or(host);
    let spelled =
        Host::parse(host).is_ok_and(|parsed| parsed.to_string() == host) && !labels.split('.').any(str::is_empty);
    domain.len() <= MAX_ATTRIBUTE && (spelled || host.parse::<Ipv6Addr>().is_ok())
}

/// Removes cookies that no document may contain, and the first ones beyond the limits of a profile, of each host and of
/// all. Returns the number of removed cookies.
pub fn enforce_limits(cookies: &mut Vec<Cookie>) -> usize {
    let count = cookies.len();
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
    // From the end, so that the last ones are kept.
    let kept: Vec<bool> = cookies.iter().rev().map(kept).collect();
    let mut kept = kept.into_iter().rev();
    cookies.retain(|_| kept.next().unwrap_or_default());
    count - cookies.len()
}

#[cfg(test)]
impl Cookie {
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
    fn domain_is_a_host_in_normal_form() {
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
