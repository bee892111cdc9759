//! Parser for addresses as people write them.

use kitfleet_types::addresses::Destinations;
use kitfleet_types::operations::BrowserUrl;
use url::{Host, Url};

use super::errors::GrammarErrorKind;

/// Absolute, and unchanged except that a missing scheme is added.
pub fn read(text: &str, is_quoted: bool, destinations: &Destinations) -> Result<String, GrammarErrorKind> {
    let text = text.trim();
    let url = if has_scheme(text) { text.to_owned() } else { format!("https://{text}") };
    let parsed = Url::parse(&url).map_err(|_| not_an_address(is_quoted))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(GrammarErrorKind::Refused("I open http and https addresses only.".into()));
    }
    if !has_scheme(text) && !is_host(text, &parsed) {
        return Err(not_an_address(is_quoted));
    }
    let is_local = |name: &str| name == "localhost" || name.ends_with(".localhost");
    let this_machine = matches!(parsed.host(), Some(Host::Domain(name)) if is_local(name.trim_end_matches('.')));
    // These names resolve to the local machine under any resolver.
    let judged = if this_machine { "http://127.0.0.1" } else { &url };
    match BrowserUrl::parse(judged, destinations) {
        Ok(_) => Ok(url),
        Err(_) => Err(GrammarErrorKind::Refused("I do not open private addresses.".into())),
    }
}

fn not_an_address(is_quoted: bool) -> GrammarErrorKind {
    let tap = if is_quoted { "tap it" } else { "tap it, with the name in quotes" };
    GrammarErrorKind::reason(format!("is not an address; to use an element with this name, {tap}"))
}

/// The colon in `example.com:8080` and `localhost:3000` precedes a port.
fn has_scheme(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let port = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
    is_scheme && !(is_port && (scheme.contains('.') || scheme.eq_ignore_ascii_case("localhost")))
}

/// True for a text without a scheme that is an IP address, or a name that ends like a top-level domain.
fn is_host(text: &str, url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let last = name.trim_end_matches('.').rsplit_once('.').map(|(_, last)| last);
            name == "localhost"
                || last.is_some_and(|last| {
                    last.starts_with("xn--") || (last.len() > 1 && last.chars().all(|c| c.is_ascii_alphabetic()))
                })
        }
        // A bare number parses as an IPv4 address, but people do not write addresses that way.
        Some(_) => text.contains(['.', '[']),
        None => false,
    }
}
