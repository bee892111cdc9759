//! Decides where a model may enter a text without approval (contract: byok 28).
//!
//! A page can trick a model into entering a text that another page has shown, and a script can then send it to an attacker. A
//! text that occurs in no message of the customer therefore needs approval, except on hosts that the customer named and on
//! origins that showed the text. The comparison is by words, so that a text cannot be assembled from single letters that occur
//! anywhere.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;
use url::{Host, Url};

const MAX_HOSTS: usize = 100;
/// A text with at most this many letters and digits, such as a number or a date, is also matched with different
/// separators.
const MAX_RESPELLED: usize = 64;
/// Letters and digits of a text that counts as seen on one of several origins. A page could show every shorter text.
const FEWEST_SEEN: usize = 4;
/// Letters and digits at which a text with digits is too long for a page to guess.
const UNGUESSABLE: usize = 8;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextOrigins {
    named: Vec<NamedHost>,
    seen: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NamedHost {
    host: String,
    scheme: Option<String>,
    port: Option<u16>,
}

impl TextOrigins {
    #[must_use]
    pub fn allow(&self, origin: &str) -> bool {
        let Some(origin) = Url::parse(origin).ok().filter(Url::has_host) else { return false };
        let text = origin.origin().ascii_serialization();
        self.seen.contains(&text) || self.named.iter().any(|named| named.covers(&origin))
    }
}

impl NamedHost {
    fn parse(word: &str) -> Option<Self> {
        let has_scheme = word.contains("://");
        let host = word.split(['/', '?', '#']).next().unwrap_or_default();
        let url = if has_scheme {
            Url::parse(word).ok()?
        } else if host.contains(['.', ':']) {
            Url::parse(&format!("https://{word}")).ok()?
        } else {
            return None;
        };
        // The host after a user name, such as in a mail address, is not a named site.
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
            return None;
        }
        let scheme = has_scheme.then(|| url.scheme().to_owned());
        Some(Self { host: url.host_str()?.to_owned(), scheme, port: url.port() })
    }

    fn covers(&self, origin: &Url) -> bool {
        let is_host = match origin.host() {
            Some(Host::Domain(host)) => {
                let below = host.strip_suffix(&self.host).and_then(|rest| rest.strip_suffix('.'));
                host == self.host || self.host.contains('.') && below.is_some()
            }
            _ => origin.host_str() == Some(&self.host),
        };
        // Sites commonly redirect http to https, but not the other way round.
        let is_scheme = self.scheme.as_deref().is_none_or(|scheme| scheme == "http" || scheme == origin.scheme());
        is_host && is_scheme && self.port == origin.port()
    }
}

/// The texts known to a turn: messages of the customer and contents of pages.
#[derive(Debug, Default)]
pub struct TextSources {
    messages: Vec<Searchable>,
    named: Vec<NamedHost>,
    /// They may contain texts of any origin.
    replies: Vec<Searchable>,
    pages: Vec<(String, Searchable)>,
}

impl TextSources {
    #[must_use]
    pub fn new<'t>(messages: impl Iterator<Item = &'t str>, replies: impl Iterator<Item = &'t str>) -> Self {
        let messages: Vec<_> = messages.collect();
        let surrounds = |c: char| "\"'`“”‘’„«»‹›()[]{}<>,;:!?.".contains(c);
        let words = messages.iter().flat_map(|message| message.split_whitespace());
        let mut named: Vec<NamedHost> = Vec::new();
        for host in words.filter_map(|word| NamedHost::parse(word.trim_matches(surrounds))) {
            if named.len() < MAX_HOSTS && !named.contains(&host) {
                named.push(host);
            }
        }
        let messages = messages.into_iter().map(Searchable::new).collect();
        Self { messages, named, replies: replies.map(Searchable::new).collect(), pages: Vec::new() }
    }

    pub fn add(&mut self, address: &str, text: &str) {
        let origin = Url::parse(address).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        self.pages.push((origin, Searchable::new(text)));
    }

    /// `None` if a message of the customer contains the text.
    #[must_use]
    pub fn origins(&self, text: &str) -> Option<TextOrigins> {
        let text = Searchable::new(text);
        if text.is_blank() || self.messages.iter().any(|message| message.contains(&text)) {
            return None;
        }
        let all: BTreeSet<_> = self.pages.iter().map(|(origin, _)| origin).collect();
        let is_long = text.length() >= FEWEST_SEEN || all.len() == 1;
        // A page that shows the same text as another page or an earlier reply may have guessed it.
        let is_elsewhere = |origin: &str| {
            let mut others = self.pages.iter().filter(|(other, _)| other != origin).map(|(_, page)| page);
            let guessable = text.length() < UNGUESSABLE && text.has_digits();
            others.any(|page| page.has_part(&text))
                || guessable && self.replies.iter().any(|reply| reply.has_part(&text))
        };
        let shown_by = self.pages.iter().filter(|(_, page)| is_long && page.contains(&text)).map(|(origin, _)| origin);
        let seen: BTreeSet<_> = shown_by.filter(|origin| !is_elsewhere(origin)).cloned().collect();
        Some(TextOrigins { named: self.named.clone(), seen: seen.into_iter().collect() })
    }

    #[must_use]
    pub fn origins_of_unknown(&self) -> TextOrigins {
        TextOrigins { named: self.named.clone(), seen: Vec::new() }
    }
}

#[derive(Debug)]
struct Searchable {
    /// The original text, for texts without letters and digits.
    raw: String,
    /// The words, with one space before, between and after them. In scripts without word separators, each letter is a word.
    words: String,
    letters: String,
}

impl Searchable {
    fn new(text: &str) -> Self {
        let mut words = " ".to_owned();
        for letter in text.nfkc().flat_map(char::to_lowercase) {
            let separates = !letter.is_alphanumeric() || is_word_of_its_own(letter);
            if separates && !words.ends_with(' ') {
                words.push(' ');
            }
            if letter.is_alphanumeric() {
                words.push(letter);
            }
            if is_word_of_its_own(letter) {
                words.push(' ');
            }
        }
        if !words.ends_with(' ') {
            words.push(' ');
        }
        Self { raw: text.trim().to_owned(), letters: words.replace(' ', ""), words }
    }

    fn is_blank(&self) -> bool {
        self.raw.is_empty()
    }

    fn length(&self) -> usize {
        self.letters.chars().count()
    }

    fn has_digits(&self) -> bool {
        self.letters.chars().any(char::is_numeric)
    }

    /// All words of the other, consecutively, possibly with different separators between their letters.
    fn contains(&self, other: &Self) -> bool {
        if other.letters.is_empty() {
            return self.raw.contains(&other.raw);
        }
        self.words.contains(&other.words) || other.letters.len() <= MAX_RESPELLED && self.spells(&other.letters)
    }

    fn spells(&self, letters: &str) -> bool {
        let words: Vec<_> = self.words.split_whitespace().collect();
        (0..words.len()).any(|first| {
            let mut left = letters;
            for word in &words[first..] {
                let Some(rest) = left.strip_prefix(word) else { return false };
                if rest.is_empty() {
                    return true;
                }
                left = rest;
            }
            false
        })
    }

    fn has_part(&self, other: &Self) -> bool {
        if other.letters.is_empty() { self.raw.contains(&other.raw) } else { self.letters.contains(&other.letters) }
    }
}

/// Scripts such as Chinese, Japanese and Thai do not separate words by spaces.
fn is_word_of_its_own(letter: char) -> bool {
    matches!(letter, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn allowed(message: &str, pages: &[(&str, &str)], text: &str, origin: &str) -> bool {
        let mut sources = TextSources::new(std::iter::once(message), std::iter::empty());
        for (address, shown) in pages {
            sources.add(address, shown);
        }
        sources.origins(text).is_none_or(|origins| origins.allow(origin))
    }

    const BANK: (&str, &str) = ("https://bank.example/account", "text \"Your code is 4821\" [ref=e1]");

    /// Contract: byok 28.
    #[test]
    fn texts_of_the_customer_are_allowed_anywhere() {
        for (message, text) in [
            ("go in as Ada with hunter2", "Ada"),
            ("go in as ada with hunter2", "ADA"),
            ("my name is Ada Lovelace, born 1815-12-10", "Ada Lovelace"),
            ("my name is Ada Lovelace, born 1815-12-10", "10 "),
            ("my name is Ada Lovelace, born 1815-12-10", "18151210"),
            ("call +49 170-1234", "+491701234"),
            ("search for \"red shoes\"!", "red shoes\n"),
            ("把张三填入姓名", "张三"),
            ("write ？？？ into it", "？？？"),
            ("anything", ""),
            ("anything", "  "),
        ] {
            assert!(allowed(message, &[BANK], text, "https://evil.example"), "{text} of {message}");
        }
    }

    /// Contract: byok 28. Letters and fragments of a text do not make it the customer's own.
    #[test]
    fn text_seen_on_another_origin_needs_approval() {
        let message = "open https://bank.example/account and tell me what is new";
        let shows_all = ("https://evil.example/", "1 2 3 4 5 6 7 8 9 0 48 21 4821 code your");
        for text in [
            "4821",
            "48",
            "4",
            "1284",
            "NDgyMQ==",
            "4 8 2 1",
            "Your code is 4821",
            "what is new: 4821",
            "e",
            "i",
            "•",
            "news",
        ] {
            for pages in [&[BANK][..], &[BANK, shows_all]] {
                assert!(!allowed(message, pages, text, "https://evil.example"), "{text}");
            }
            assert!(allowed(message, &[BANK], text, "https://bank.example"), "{text}");
        }
    }

    /// Contract: byok 28.
    #[test]
    fn text_seen_on_a_single_origin_is_allowed_there() {
        let shop = ("https://shop.example/", "text \"Use SPRING24 today\"");
        let other = ("https://other.example/", "text \"Nothing\"");
        assert!(allowed("use the coupon", &[shop], "SPRING24", "https://shop.example"));
        assert!(allowed("use the coupon", &[shop, other], "spring24", "https://shop.example"));
        assert!(!allowed("use the coupon", &[shop], "24", "https://shop.example"));
        assert!(!allowed("use the coupon", &[shop, other], "SPRING24", "https://other.example"));
        assert!(!allowed(
            "use the coupon",
            &[shop, ("https://other.example/", "SPRING24")],
            "SPRING24",
            "https://shop.example"
        ));
        // An earlier reply may contain a text of any origin.
        let mut sources = TextSources::new(std::iter::once("go on"), std::iter::once("Your code is 4821."));
        sources.add("https://evil.example/", "4820 4821 4822");
        assert!(!sources.origins("4821").is_some_and(|origins| origins.allow("https://evil.example")));
        for origin in ["null", "", "about:blank", "data:text/html,x"] {
            assert!(!allowed("use it", &[("data:text/html,x", "SPRING24")], "SPRING24", origin), "{origin}");
        }
    }

    /// Contract: byok 28.
    #[test]
    fn named_hosts_are_recognized() {
        for (message, origin, named) in [
            ("open https://shop.example/cart", "https://shop.example", true),
            ("open shop.example", "https://shop.example", true),
            ("open shop.example", "http://shop.example", true),
            ("on (Shop.Example).", "https://www.shop.example", true),
            ("open http://shop.example", "https://shop.example", true),
            ("open bücher.example", "https://xn--bcher-kva.example", true),
            ("open http://127.0.0.1:8080/x", "http://127.0.0.1:8080", true),
            ("open localhost:8080", "http://localhost:8080", true),
            ("open https://shop.example", "http://shop.example", false),
            ("open www.shop.example", "https://shop.example", false),
            ("open shop.example", "https://evilshop.example", false),
            ("open shop.example", "https://shop.example.evil.example", false),
            ("open http://127.0.0.1:8080/x", "http://127.0.0.1:8081", false),
            ("open http://127.0.0.1:8080/x", "http://localhost:8080", false),
            ("open shop.example", "https://shop.example:8443", false),
            ("write to ada@evil.example", "https://evil.example", false),
            ("open https://shop.example@evil.example/", "https://evil.example", false),
            ("open https://shop.example/?to=https://evil.example/", "https://evil.example", false),
            ("open the shop", "https://the", false),
        ] {
            assert_eq!(allowed(message, &[BANK], "4821", origin), named, "{origin} of {message}");
        }
    }

    /// Contract: limits 5.
    #[test]
    fn long_texts_are_compared_in_linear_time() {
        let (long, words) = ("a".repeat(100_000), "a ".repeat(50_000));
        let begun = Instant::now();
        for shown in [&long, &words] {
            for text in [&long[..30_000], &words[..30_001], "aaaaaaaaab"] {
                let text = format!("{text}b");
                assert!(!allowed(shown, &[("https://a.example/", shown)], &text, "https://a.example"));
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
