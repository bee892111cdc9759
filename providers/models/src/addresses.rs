//! Checks whether the customer expects an address that a model wants to open.
//!
//! Text on a page can manipulate a model, and an address can leak the page's content: without approval, a model opens
//! only addresses that the customer named or the page links to.

use std::collections::HashSet;

use url::Url;

#[derive(Debug)]
pub struct ExpectedDocuments(HashSet<String>);

impl ExpectedDocuments {
    /// The addresses in `messages` and the targets of `links`.
    pub fn of<'a>(messages: impl Iterator<Item = &'a str>, links: impl Iterator<Item = &'a str>) -> Self {
        let named = messages.flat_map(words).flat_map(named);
        let linked = links.filter_map(|link| Url::parse(link).ok());
        Self(named.chain(linked).map(place).collect())
    }

    pub fn has(&self, wanted: &Url) -> bool {
        // An address with a user name or password can disguise its host, so it is never expected.
        wanted.username().is_empty() && wanted.password().is_none() && self.0.contains(&place(wanted.clone()))
    }
}

/// Trims surrounding punctuation.
fn words(message: &str) -> impl Iterator<Item = &str> {
    let surrounds = |c: char| "\"'`“”‘’„«»‹›()[]{}<>,;:!?.".contains(c);
    message.split_whitespace().map(move |word| word.trim_matches(surrounds))
}

/// Addresses that a word denotes, with or without a scheme.
fn named(word: &str) -> Vec<Url> {
    if word.contains("://") {
        return Url::parse(word).into_iter().collect();
    }
    // A word without a dot or a port is not an address.
    let host = word.split(['/', '?', '#']).next().unwrap_or_default();
    if !host.contains(['.', ':']) {
        return Vec::new();
    }
    let with = |scheme: &str| Url::parse(&format!("{scheme}://{word}")).ok().filter(|named| named.scheme() == scheme);
    ["https", "http"].into_iter().filter_map(with).collect()
}

/// The fragment stays in the browser.
fn place(mut url: Url) -> String {
    url.set_fragment(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn expected(wanted: &str, message: &str, links: &[&str]) -> bool {
        let wanted = Url::parse(wanted).expect("a URL");
        ExpectedDocuments::of(std::iter::once(message), links.iter().copied()).has(&wanted)
    }

    /// Contract: byok 14.
    #[test]
    fn address_named_by_the_customer_or_linked_by_the_page_is_expected() {
        for (wanted, message) in [
            ("https://example.com/", "open https://example.com"),
            ("https://example.com/", "Open “example.com”, please."),
            ("http://example.com/", "go to (EXAMPLE.com)!"),
            ("https://example.com/a?b=c", "see <https://example.com/a?b=c#d>"),
            ("https://example.com/a?b=c#top", "example.com/a?b=c"),
            ("http://localhost:8080/x", "open localhost:8080/x"),
            ("https://xn--bcher-kva.example/", "open bücher.example"),
        ] {
            assert!(expected(wanted, message, &[]), "{wanted} of {message}");
        }
        assert!(expected("https://shop.example/cart", "buy it", &["https://shop.example/cart#items"]));
    }

    /// Contract: limits 5. The messages are parsed once and not for each address, so ten times the text takes about ten times
    /// as long.
    #[test]
    fn time_to_check_addresses_is_linear_in_the_messages() {
        let wanted: Vec<_> = (0..200).map(|at| Url::parse(&format!("https://{at}.example/")).expect("a URL")).collect();
        let time = |words: usize| {
            let (message, begun) = ("a.b ".repeat(words), Instant::now());
            let expected = ExpectedDocuments::of(std::iter::once(message.as_str()), std::iter::empty());
            assert!(!wanted.iter().any(|wanted| expected.has(wanted)));
            begun.elapsed()
        };
        let times = [5_000, 50_000].map(|words| (0..3).map(|_| time(words)).min().unwrap_or_default());
        assert!(times[1] < times[0] * 40 && times[1] < Duration::from_mins(1), "{times:?}");
    }

    /// Contract: byok 14.
    #[test]
    fn similar_address_is_not_expected() {
        for (wanted, message, link) in [
            ("https://evil.example/", "open https://example.com", "https://example.com/"),
            ("https://example.com/?q=secret", "open https://example.com", "https://example.com/"),
            ("https://example.com.evil.example/", "open example.com", "https://example.com/"),
            ("https://example.com@evil.example/", "open https://example.com@evil.example/", "https://example.com/"),
            ("https://evil.example/", "open https://evil.example@example.com/", "x"),
            ("http://example.com/", "open https://example.com", "https://example.com/"),
            ("https://example.com:8443/", "open example.com", ""),
            ("https://login/", "open the login", "/login"),
            ("https://evil.example/", "", "not a link: https://evil.example/"),
        ] {
            assert!(!expected(wanted, message, &[link]), "{wanted} of {message}");
        }
    }
}
