//! What was typed in an agent session, wherever a page gives it back (contract: agents 36): in what its elements are called, in its
//! address, in what is said about it.
//!
//! It is hidden when somebody reads, and not when it is written: so it is hidden, too, in what was kept before it was typed, and
//! whoever runs a step has the selector as it is.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::hiding::HIDDEN;

/// Characters of the shortest text that is hidden: what is shorter stands everywhere.
const SHORTEST: usize = 4;
/// Characters by which a text is found. What follows them is compared, so that a text that was cut is found as well.
const HEAD: usize = 24;
/// What `encodeURIComponent` leaves as it is.
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

/// Members that a page can have a say in.
const OF_PAGES: [&str; 5] = ["url", "final_url", "description", "option", "pattern"];

/// Texts that were typed.
#[derive(Debug)]
pub struct Typed {
    all: Finder,
    /// Those that are more than letters. A selector with a plain word stays as it is: it has to mean its element.
    telling: Finder,
}

impl Typed {
    /// Of these texts.
    #[must_use]
    pub fn new(texts: &[String]) -> Self {
        let long_enough = || texts.iter().filter(|text| text.trim().chars().count() >= SHORTEST);
        let telling = long_enough().filter(|text| !text.trim().chars().all(char::is_alphabetic));
        Self { all: Finder::new(long_enough()), telling: Finder::new(telling) }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.heads.is_none()
    }

    /// `text` without them.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        self.all.hide(text)
    }

    /// The same, but for these parts of it, which are ours.
    #[must_use]
    pub fn hide_around(&self, text: &str, ours: &[String]) -> String {
        let Some((first, rest)) = ours.split_first() else { return self.hide(text) };
        text.split(first.as_str()).map(|part| self.hide_around(part, rest)).collect::<Vec<_>>().join(first)
    }

    /// A selector without those that are more than letters.
    #[must_use]
    pub fn hide_in_selector(&self, selector: &str) -> String {
        self.telling.hide(selector)
    }

    /// Hides them in the members of a value that a page has a say in.
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

/// Finds texts in linear time, however they are written and whatever their case.
#[derive(Debug)]
struct Finder {
    /// By their heads; `None` when there are none.
    heads: Option<AhoCorasick>,
    /// The texts that have each head.
    whole: Vec<Vec<String>>,
}

impl Finder {
    fn new<'t>(texts: impl Iterator<Item = &'t String>) -> Self {
        let mut by_head: HashMap<String, Vec<String>> = HashMap::new();
        for spelling in texts.flat_map(|text| spellings(text)) {
            let head = spelling.chars().take(HEAD).collect::<String>().to_ascii_lowercase();
            let whole = by_head.entry(head).or_default();
            if !whole.contains(&spelling) {
                whole.push(spelling);
            }
        }
        let (heads, whole): (Vec<_>, Vec<_>) = by_head.into_iter().unzip();
        let mut finder = AhoCorasick::builder();
        let finder = finder.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest);
        let heads = if heads.is_empty() { None } else { finder.build(&heads).ok() };
        Self { heads, whole }
    }

    fn hide(&self, text: &str) -> String {
        let Some(heads) = &self.heads else { return text.to_owned() };
        let (mut hidden, mut from) = (String::with_capacity(text.len()), 0);
        while let Some(found) = heads.find(&text[from..]) {
            let start = from + found.start();
            let whole = &self.whole[found.pattern().as_usize()];
            let length = whole.iter().map(|whole| in_common(&text[start..], whole)).max().unwrap_or_default();
            hidden.push_str(&text[from..start]);
            hidden.push_str(HIDDEN);
            from = start + length.max(found.len());
        }
        hidden.push_str(&text[from..]);
        hidden
    }
}

/// How many bytes two texts begin with alike.
fn in_common(one: &str, other: &str) -> usize {
    let alike = one.chars().zip(other.chars()).take_while(|(one, other)| one.eq_ignore_ascii_case(other));
    alike.map(|(letter, _)| letter.len_utf8()).sum()
}

/// How a page can give a text back: as it is, on one line, in quotation marks, as an identifier, and in an address.
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

/// As `CSS.escape` writes it, but for digits at its beginning.
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
    use serde_json::json;

    use super::*;

    fn typed(texts: &[&str]) -> Typed {
        Typed::new(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    /// Contract: agents 36.
    #[test]
    fn what_was_typed_is_hidden_however_it_comes_back() {
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

    /// Contract: agents 36.
    #[test]
    fn members_that_a_page_has_a_say_in_are_hidden() {
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
