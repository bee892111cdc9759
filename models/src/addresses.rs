//! Whether somebody wants to go where a model wants to go.
//!
//! What a page says can talk a model into anything, and an address can carry away what the page holds. So a model goes by itself
//! only where the customer's own words, or a link of the page, lead; everywhere else somebody is asked first.

use url::Url;

/// Whether `wanted` is an address that one of the `messages` names, or one of the `links` leads to.
pub fn is_expected<'a>(
    wanted: &Url,
    messages: impl Iterator<Item = &'a str>,
    mut links: impl Iterator<Item = &'a str>,
) -> bool {
    // Neither end of a link is what it seems to be where somebody's name stands in it.
    if !wanted.username().is_empty() || wanted.password().is_some() {
        return false;
    }
    let mut words = messages.flat_map(words);
    let is_link = |link: &str| Url::parse(link).is_ok_and(|link| same_place(&link, wanted));
    words.any(|word| names(word, wanted)) || links.any(is_link)
}

/// What stands in a message between white space, without what surrounds a word.
fn words(message: &str) -> impl Iterator<Item = &str> {
    let surrounds = |c: char| "\"'`“”‘’„«»‹›()[]{}<>,;:!?.".contains(c);
    message.split_whitespace().map(move |word| word.trim_matches(surrounds))
}

/// Whether a word is this address, with its scheme or, as people write it, without.
fn names(word: &str, wanted: &Url) -> bool {
    if word.contains("://") {
        return Url::parse(word).is_ok_and(|named| same_place(&named, wanted));
    }
    // A word without a dot or a port is a word.
    let host = word.split(['/', '?', '#']).next().unwrap_or_default();
    if !host.contains(['.', ':']) {
        return false;
    }
    ["https", "http"].iter().any(|scheme| {
        let named = Url::parse(&format!("{scheme}://{word}"));
        named.is_ok_and(|named| named.scheme() == wanted.scheme() && same_place(&named, wanted))
    })
}

/// Whether two addresses are of one document. What stands behind `#` stays in the browser.
fn same_place(one: &Url, other: &Url) -> bool {
    let place = |url: &Url| {
        let mut url = url.clone();
        url.set_fragment(None);
        url.to_string()
    };
    place(one) == place(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(wanted: &str, message: &str, links: &[&str]) -> bool {
        let wanted = Url::parse(wanted).expect("a URL");
        is_expected(&wanted, std::iter::once(message), links.iter().copied())
    }

    /// Contract: byok 14.
    #[test]
    fn an_address_is_expected_that_the_customer_names_or_the_page_links_to() {
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

    /// Contract: byok 14.
    #[test]
    fn what_only_looks_like_it_is_not() {
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
