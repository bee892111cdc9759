//! Addresses as people write them.

use url::{Host, Url};

use super::complaints::GrammarErrorKind;
use crate::addresses::Destinations;
use crate::operations::BrowserUrl;

/// An absolute address, as it was written but for a scheme that was left out.
///
/// # Errors
/// When it is no address, or one where nobody is sent.
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
    // The name means the machine itself, whoever is asked for it.
    let judged = if this_machine { "http://127.0.0.1" } else { &url };
    match BrowserUrl::parse(judged, destinations) {
        Ok(_) => Ok(url),
        Err(_) => Err(GrammarErrorKind::Refused("I do not open private addresses.".into())),
    }
}

fn not_an_address(is_quoted: bool) -> GrammarErrorKind {
    let tap = if is_quoted { "tap it" } else { "tap it, with the name in quotes" };
    GrammarErrorKind::says(format!("is not an address; to use an element with this name, {tap}"))
}

/// Whether it begins with one. `example.com:8080` has a port there, and `localhost:3000` too.
fn has_scheme(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let port = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
    is_scheme && !(is_port && (scheme.contains('.') || scheme.eq_ignore_ascii_case("localhost")))
}

/// Whether a word without a scheme names a host: an address, or a name that ends as one of the internet does.
fn is_host(text: &str, url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let last = name.trim_end_matches('.').rsplit_once('.').map(|(_, last)| last);
            name == "localhost"
                || last.is_some_and(|last| {
                    last.starts_with("xn--") || (last.len() > 1 && last.chars().all(|c| c.is_ascii_alphabetic()))
                })
        }
        // A number alone is one too, which nobody means.
        Some(_) => text.contains(['.', '[']),
        None => false,
    }
}
