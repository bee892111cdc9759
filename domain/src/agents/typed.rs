//! Hides texts typed in an agent session wherever a page returns them (contract: agents 36): in names of elements, in
//! addresses and in replies.
//!
//! Texts are hidden when data is read, not when it is stored: this covers data stored before the text was typed, and a
//! step runs with the unmodified selector.
//!
//! The search takes time linear in the searched text. At each position, one binary search finds whether a typed text
//! begins there, and another one the length of the match. Above `MAX_BYTES` of typed texts, every text that a page
//! controls is hidden.

use kitfleet_types::dictionary::Dictionary;
use kitfleet_types::redaction::MASK;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::{Url, form_urlencoded};

/// Bytes. Above it, everything is hidden.
pub(crate) const MAX_BYTES: u32 = 1024 * 1024;
/// Shorter texts occur too often by chance.
const SHORTEST: usize = 4;
/// Characters that identify a text. The match is then extended, so that a shortened text is hidden as well.
const HEAD: usize = 24;
/// Escapes the same characters as `encodeURIComponent`.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Members whose values a page can control.
const OF_PAGES: [&str; 5] = ["url", "final_url", "description", "option", "pattern"];

#[derive(Debug, Default)]
pub struct TypedTexts {
    pub(crate) texts: Vec<String>,
    pub(crate) too_many: bool,
}

impl TypedTexts {
    fn bytes(&self) -> usize {
        self.texts.iter().map(String::len).sum()
    }
}

#[derive(Debug)]
pub struct Typed {
    all: Finder,
    /// Texts other than plain words. A selector keeps plain words, because it must still match its element.
    telling: Finder,
}

impl Typed {
    /// Takes up to several tenths of a second.
    #[must_use]
    pub fn new(texts: &TypedTexts) -> Self {
        if texts.too_many || texts.bytes() > MAX_BYTES as usize {
            return Self { all: Finder::Everything, telling: Finder::Everything };
        }
        let long_enough = || texts.texts.iter().filter(|text| text.trim().chars().count() >= SHORTEST);
        let telling = long_enough().filter(|text| !text.trim().chars().all(char::is_alphabetic));
        Self { all: Finder::new(long_enough()), telling: Finder::new(telling) }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.all, Finder::Nothing)
    }

    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        self.all.hide(text)
    }

    /// The service itself wrote the parts in `ours`.
    #[must_use]
    pub fn hide_around(&self, text: &str, ours: &[String]) -> String {
        let ours = Dictionary::new(ours.iter().map(|text| text.as_str().into()).collect());
        let (mut hidden, mut from, mut at) = (String::with_capacity(text.len()), 0, 0);
        while let Some(letter) = text[at..].chars().next() {
            match ours.at_the_beginning_of(&text.as_bytes()[at..]).next() {
                Some(found) => {
                    hidden.push_str(&self.hide(&text[from..at]));
                    hidden.push_str(ours.text(found));
                    at += ours.text(found).len();
                    from = at;
                }
                None => at += letter.len_utf8(),
            }
        }
        hidden.push_str(&self.hide(&text[from..]));
        hidden
    }

    /// Keeps plain words.
    #[must_use]
    pub fn hide_in_selector(&self, selector: &str) -> String {
        self.telling.hide(selector)
    }

    pub fn hide_members(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match value {
                        Value::String(text) if OF_PAGES.contains(&name.as_str()) => *text = self.hide(text),
                        Value::String(text) if name == "selector" => *text = self.hide_in_selector(text),
                        value => self.hide_members(value),
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.hide_members(value)),
            _ => {}
        }
    }
}

/// Finds texts in linear time, in any of their spellings and ignoring case.
#[derive(Debug)]
enum Finder {
    Nothing,
    /// Too many texts to search for.
    Everything,
    These {
        heads: Dictionary,
        spellings: Dictionary,
    },
}

impl Finder {
    fn new<'t>(texts: impl Iterator<Item = &'t String>) -> Self {
        let folded = |mut spelling: String| {
            spelling.make_ascii_lowercase();
            spelling.into_boxed_str()
        };
        let spellings: Vec<_> = texts.flat_map(|text| spellings(text)).map(folded).collect();
        if spellings.is_empty() {
            return Self::Nothing;
        }
        let heads = Dictionary::new(spellings.iter().map(|spelling| head(spelling).into()).collect());
        Self::These { heads, spellings: Dictionary::new(spellings) }
    }

    fn hide(&self, text: &str) -> String {
        let (heads, spellings) = match self {
            Self::Nothing => return text.to_owned(),
            Self::Everything if text.is_empty() => return String::new(),
            Self::Everything => return MASK.to_owned(),
            Self::These { heads, spellings } => (heads, spellings),
        };
        let folded = text.to_ascii_lowercase();
        let (mut hidden, mut from, mut at) = (String::with_capacity(text.len()), 0, 0);
        while let Some(letter) = text[at..].chars().next() {
            let rest = &folded.as_bytes()[at..];
            let Some(head) = heads.at_the_beginning_of(rest).next().map(|head| heads.text(head)) else {
                at += letter.len_utf8();
                continue;
            };
            hidden.push_str(&text[from..at]);
            hidden.push_str(MASK);
            // A shorter head is the complete spelling.
            let is_whole = head.chars().count() < HEAD;
            at += if is_whole { head.len() } else { spellings.most_in_common(rest) };
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            from = at;
        }
        hidden.push_str(&text[from..]);
        hidden
    }
}

fn head(spelling: &str) -> &str {
    spelling.char_indices().nth(HEAD).map_or(spelling, |(end, _)| &spelling[..end])
}

/// Unchanged, on one line, in quotation marks, as an identifier, and in an address.
fn spellings(text: &str) -> Vec<String> {
    let on_a_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted = Value::from(text).to_string();
    let mut spellings = vec![
        text.to_owned(),
        quoted[1..quoted.len() - 1].to_owned(),
        identifier(text),
        form_urlencoded::byte_serialize(text.as_bytes()).collect(),
        utf8_percent_encode(text, COMPONENT).to_string(),
        on_a_line,
    ];
    if let Ok(mut url) = Url::parse("http://a/") {
        url.set_query(Some(text));
        url.set_fragment(Some(text));
        spellings.extend([url.query(), url.fragment()].into_iter().flatten().map(ToOwned::to_owned));
        url.set_path(text);
        spellings.push(url.path().trim_start_matches('/').to_owned());
    }
    spellings.retain(|spelling| spelling.chars().count() >= SHORTEST);
    spellings.sort_unstable();
    spellings.dedup();
    spellings
}

fn identifier(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii() && !letter.is_ascii_alphanumeric() && !matches!(letter, '-' | '_') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    fn typed(texts: &[&str]) -> Typed {
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        Typed::new(&TypedTexts { texts, too_many: false })
    }

    fn time(work: impl Fn()) -> Duration {
        let once = || {
            let begun = Instant::now();
            work();
            begun.elapsed()
        };
        (0..3).map(|_| once()).min().unwrap_or_default()
    }

    fn alike(count: usize, bytes: usize) -> Vec<String> {
        (0..count).map(|at| format!("{}{at:08}", "a".repeat(bytes - 8))).collect()
    }

    /// Contract: agents 36.
    #[test]
    fn typed_texts_are_hidden_in_all_spellings() {
        let long = "correct horse battery staple and some more of it";
        let texts = typed(&["ZEBRA-111", "a b&c=d/ü", "Ada", long, "two\nlines", "say \"hi\""]);
        for (text, expected) in [
            ("button \"Continue as ZEBRA-111\"", "button \"Continue as •••\""),
            ("CONTINUE AS zebra-111!", "CONTINUE AS •••!"),
            ("http://a/submitted?password=ZEBRA-111&note=x#ZEBRA-111", "http://a/submitted?password=•••&note=x#•••"),
            ("http://a/?q=a+b%26c%3Dd%2F%C3%BC", "http://a/?q=•••"),
            ("http://a/?q=a%20b%26c%3dd%2f%c3%bc", "http://a/?q=•••"),
            ("http://a/#a%20b&c=d/%C3%BC", "http://a/#•••"),
            ("Hello Ada", "Hello Ada"),
            ("it is correct horse battery staple and…", "it is •••…"),
            ("xZEBRA-111xZEBRA-111", "x•••x•••"),
            ("link \"two lines\"", "link \"•••\""),
            ("link \"say \\\"hi\\\"\"", "link \"•••\""),
            ("nothing of it", "nothing of it"),
        ] {
            assert_eq!(texts.hide(text), expected, "{text}");
        }
        let ours = ["step_2026".to_owned()];
        assert_eq!(typed(&["2026"]).hide_around("2026, [step_2026]", &ours), "•••, [step_2026]");
        assert_eq!(typed(&[]).hide("anything"), "anything");
    }

    /// Contract: agents 36. A partial match ends at a character boundary.
    #[test]
    fn texts_with_a_common_beginning_are_hidden_up_to_the_longest_match() {
        let beginning = "correct horse battery staple";
        let texts = [format!("{beginning} one"), format!("{beginning} onerous ä"), beginning.to_uppercase()];
        let texts = typed(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        for (text, expected) in [
            (format!("<{beginning}>"), "<•••>"),
            (format!("<{beginning} one>"), "<•••>"),
            (format!("<{beginning} oner>"), "<•••>"),
            (format!("<{beginning} onerous ö>"), "<•••ö>"),
            (format!("<{beginning} two>"), "<•••two>"),
            (format!("<{}>", &beginning[..24]), "<•••>"),
            (format!("<{}>", &beginning[..23]), "<correct horse battery s>"),
        ] {
            assert_eq!(texts.hide(&text), expected, "{text}");
        }
    }

    /// Contract: agents 45.
    #[test]
    fn too_many_texts_hide_everything() {
        let quarter = MAX_BYTES as usize / 4;
        let (max, one_more) = (alike(4, quarter), alike(5, quarter));
        let [max, one_more] = [max, one_more].map(|texts| Typed::new(&TypedTexts { texts, too_many: false }));
        assert_eq!(max.hide("a button"), "a button");
        let unread = Typed::new(&TypedTexts { texts: Vec::new(), too_many: true });
        for typed in [one_more, unread] {
            assert!(!typed.is_empty());
            assert_eq!(
                (typed.hide("a button"), typed.hide(""), typed.hide_in_selector("#a")),
                ("•••".to_owned(), String::new(), "•••".to_owned())
            );
            assert_eq!(typed.hide_around("approve step_1!", &["step_1".to_owned()]), "•••step_1•••");
        }
    }

    /// Contract: limits 5. Ten times the page text, with a match at every position, takes about ten times as long.
    #[test]
    fn hiding_time_is_linear_in_the_text() {
        let texts = alike(200, 5_000);
        let typed = typed(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let page = |bytes: usize| format!("{}b", "a".repeat(24)).repeat(bytes / 25);
        let times = [page(1_000_000), page(10_000_000)].map(|page| time(|| drop(typed.hide(&page))));
        assert!(times[1] < times[0] * 40, "{times:?}");
        assert!(times[1] < Duration::from_secs(20), "{times:?}");
        let ours: Vec<_> = (0..100_000).map(|at| format!("step_{at:08}")).collect();
        let reply = ours.concat();
        let times =
            [10_000, 100_000].map(|count| time(|| drop(typed.hide_around(&reply[..count * 13], &ours[..count]))));
        assert!(times[1] < times[0] * 40, "{times:?}");
    }

    /// Contract: limits 5. Builds the filter at the size limit and at ten times of it.
    #[test]
    fn setup_time_is_linear_in_the_typed_texts() {
        for scale in [1, 10] {
            let texts = TypedTexts { texts: alike(100 * scale, 10_000), too_many: false };
            let time = time(|| drop(Typed::new(&texts)));
            assert!(time < Duration::from_secs(5), "{time:?}");
        }
        let distinct =
            |count: usize| (0..count).map(|at| format!("{at:05} \"{}\\ä/?&#=", "Ünïcödé".repeat(10))).collect();
        let texts = TypedTexts { texts: distinct(1_000), too_many: false };
        let time = time(|| drop(Typed::new(&texts)));
        assert!(time < Duration::from_secs(10), "{time:?}");
    }

    /// Contract: agents 36.
    #[test]
    fn members_that_a_page_controls_are_hidden() {
        let mut value = json!({
            "url": "http://a/?q=search", "kind": "search", "selector": "#search", "target": {"description": "b \"search s3cret!\""},
            "items": [{"name": "search", "selector": "#a\\!s3cret\\!"}],
        });
        typed(&["search", "s3cret!"]).hide_members(&mut value);
        let expected = json!({
            "url": "http://a/?q=•••", "kind": "search", "selector": "#search", "target": {"description": "b \"••• •••\""},
            "items": [{"name": "search", "selector": "#a\\!•••"}],
        });
        assert_eq!(value, expected);
    }
}
