//! Removes text to type from the messages shown in transcripts (contract: agents 26).

use std::collections::BTreeSet;

use kitfleet_types::commands::{Command, ParsedMessage};
use kitfleet_types::dictionary::Dictionary;
use kitfleet_types::redaction::MASK;

use super::knows;

const TYPING: [&str; 15] = [
    "answer", "type", "types", "typing", "enter", "fill", "write", "input", "put", "paste", "insert", "set", "search",
    "password", "key in",
];

/// `reading` is the parsed message.
#[must_use]
pub fn shown(message: &str, reading: &ParsedMessage) -> String {
    let ParsedMessage::Plan(plan) = reading else { return unread(message) };
    let Hidden { text, has_all } = without(message, typed(plan.iter()));
    // A text that the message spells differently from the typed value, for example with escapes, cannot be located.
    if has_all { text } else { unread_or_plain(message) }
}

/// Removes the texts that the `plan` types, and words of the message that are not plain and may be texts to type.
/// Without a plan, such words are hidden wherever they occur in the message.
#[must_use]
pub fn redact_reply<'a>(reply: &str, message: &'a str, plan: impl Iterator<Item = &'a Command>) -> String {
    let mut plan = plan.peekable();
    let has_plan = plan.peek().is_some();
    let from = if has_plan { typing_from(message) } else { Some(0) };
    let doubtful = from.iter().flat_map(|from| doubtful(&message[*from..]));
    without(reply, typed(plan).chain(doubtful)).text
}

fn typed<'a>(plan: impl Iterator<Item = &'a Command>) -> impl Iterator<Item = &'a str> {
    plan.filter_map(|command| match command {
        Command::Type { value, .. } | Command::Fill { value, .. } => Some(value.as_str()),
        Command::Dialog { text, .. } => text.as_deref(),
        _ => None,
    })
}

fn bare(word: &str) -> &str {
    word.trim_matches(|letter: char| "\"'`“”‘’„«»()[]{}<>,;:.?".contains(letter))
}

/// Characters other than letters, or capitals after the first letter, could be a password, a code or an address.
fn is_doubtful(word: &str) -> bool {
    let plain = word.chars().all(|letter| letter.is_alphabetic() || "-'’".contains(letter));
    !word.is_empty() && (!plain || word.chars().skip(1).any(char::is_uppercase))
}

/// True for a web address without credentials.
fn is_address(word: &str) -> bool {
    word.contains("://") && !word.contains('@')
}

/// Returns a message that was not understood as transcripts show it. It keeps plain words and addresses outside of quotation
/// marks and before any word about typing. Everything else may be a text to type.
#[must_use]
pub fn unread(message: &str) -> String {
    match typing_from(message) {
        Some(from) if !message[from..].trim().is_empty() => format!("{} {MASK}", plain(&message[..from])),
        _ => plain(message),
    }
}

fn plain(text: &str) -> String {
    const QUOTES: [char; 7] = ['"', '`', '“', '”', '‘', '’', '«'];
    let is_quote = |(at, letter): (usize, char)| {
        QUOTES.contains(&letter) || letter == '\'' && !text[..at].ends_with(char::is_alphanumeric)
    };
    let quoted_from = text.char_indices().find(|found| is_quote(*found)).map_or(text.len(), |(at, _)| at);
    let (plain, quoted) = text.split_at(quoted_from);
    let is_plain = |word: &str| knows(bare(word)) || !is_doubtful(bare(word)) || is_address(word);
    let words = plain.split_whitespace().map(|word| if is_plain(word) { word } else { MASK });
    let mut shown: Vec<_> = words.chain((!quoted.is_empty()).then_some(MASK)).collect();
    shown.dedup_by(|one, other| one == other && *one == MASK);
    shown.join(" ")
}

/// Returns a message whose plan types a text that was not located in it. The text may occur without a preceding word about
/// typing.
fn unread_or_plain(message: &str) -> String {
    if typing_from(message).is_some() {
        return unread(message);
    }
    without(message, doubtful(message)).text
}

fn doubtful(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().map(bare).filter(|word| is_doubtful(word))
}

fn typing_from(message: &str) -> Option<usize> {
    let lower = message.to_ascii_lowercase();
    let words = TYPING.iter().flat_map(|word| lower.match_indices(word).map(|(at, word)| (at, at + word.len())));
    words.filter(|(from, to)| stands_alone(&lower, *from, *to)).min().map(|(_, end)| end)
}

struct Hidden {
    text: String,
    /// True when the text contains each value, possibly as part of a longer word.
    has_all: bool,
}

/// Keeps longer words. Overlapping values are hidden together.
fn without<'v>(text: &str, values: impl Iterator<Item = &'v str>) -> Hidden {
    let values = Dictionary::new(values.map(Box::from).collect());
    let mut missing: BTreeSet<_> = (0..values.count()).collect();
    let (mut hidden, mut from, mut hidden_to) = (String::with_capacity(text.len()), 0, 0);
    for (at, _) in text.char_indices() {
        let mut longest = None;
        for value in values.at_the_beginning_of(&text.as_bytes()[at..]) {
            let end = at + values.text(value).len();
            if longest.is_none() && stands_alone(text, at, end) {
                longest = Some(end);
            }
            // Shorter values at this position were already removed together with the longer one.
            if !missing.remove(&value) && longest.is_some() {
                break;
            }
        }
        let Some(end) = longest.filter(|end| *end > hidden_to) else { continue };
        if at >= hidden_to {
            hidden.push_str(&text[from..at]);
            hidden.push_str(MASK);
        }
        (from, hidden_to) = (end, end);
    }
    hidden.push_str(&text[from..]);
    Hidden { text: hidden, has_all: missing.is_empty() }
}

fn stands_alone(text: &str, from: usize, to: usize) -> bool {
    let (before, inside, after) = (&text[..from], &text[from..to], &text[to..]);
    let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let runs_on_before = is_word(before.chars().next_back()) && is_word(inside.chars().next());
    let runs_on_behind = is_word(inside.chars().next_back()) && is_word(after.chars().next());
    !runs_on_before && !runs_on_behind
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use kitfleet_types::commands::ElementQuery;

    use super::*;

    fn typing(values: &[&str]) -> ParsedMessage {
        let target = ElementQuery::Css("#a".to_owned());
        ParsedMessage::Plan(
            values.iter().map(|value| Command::Type { target: target.clone(), value: (*value).to_owned() }).collect(),
        )
    }

    /// Contract: agents 26.
    #[test]
    fn typed_texts_are_hidden() {
        for (message, values, expected) in [
            ("type 'ada' into name", &["ada"][..], "type '•••' into name"),
            ("type \"a\" into a field", &["a"], "type \"•••\" into ••• field"),
            ("type 'ab' into 'abc', 'ab c' into d", &["ab", "ab c"], "type '•••' into 'abc', '•••' into d"),
            ("type 'it\\'s' into name", &["it's"], "type •••"),
            ("open example.com", &[], "open example.com"),
            ("type '' into name", &[""], "type '' into name"),
            ("log in as ada with HUNTER2, please", &["hunter2"], "log in as ada with •••, please"),
            ("call +49 170-1234 for me", &["+491701234"], "call ••• ••• for me"),
        ] {
            assert_eq!(shown(message, &typing(values)), expected, "{message}");
        }
    }

    /// Contract: byok 23.
    #[test]
    fn model_reply_does_not_repeat_typed_texts() {
        let login = Command::Type { target: ElementQuery::Ref("e1".to_owned()), value: "let me in".to_owned() };
        let tap = Command::Tap { target: ElementQuery::Ref("e1".to_owned()) };
        for (reply, message, plan, expected) in [
            ("Typed 'let me in'.", "the password is let me in", std::slice::from_ref(&login), "Typed '•••'."),
            ("Where does hunter2 go?", "type hunter2 somewhere", &[], "Where does ••• go?"),
            ("Is “CorrectHorse” for the field?", "enter CorrectHorse", &[], "Is “•••” for the field?"),
            ("Which field do you mean?", "type my name into the field", &[], "Which field do you mean?"),
            ("There is no hunter2.", "my word is hunter2", &[], "There is no •••."),
            ("Is it Tr0ub4dor to type, or 'x'?", "Tr0ub4dor is what to type", &[], "Is it ••• to type, or 'x'?"),
            ("Tapped e-42.", "tap e-42", std::slice::from_ref(&tap), "Tapped e-42."),
        ] {
            assert_eq!(redact_reply(reply, message, plan.iter()), expected, "{message}");
        }
    }

    /// Contract: limits 5. The time is linear in the words of the message and in the text, not in their product.
    #[test]
    fn hiding_time_is_linear_in_message_and_reply() {
        let clarify = ParsedMessage::Clarify { reply: String::new() };
        let time = |words: usize| {
            let words: Vec<_> = (0..words).map(|at| format!("x{at}")).collect();
            let (message, values) = (words.join(" "), words.iter().map(String::as_str).collect::<Vec<_>>());
            let begun = Instant::now();
            assert!(!redact_reply(&message, &message, std::iter::empty()).contains('x'));
            assert!(!shown(&message, &typing(&values)).contains('x'));
            assert!(!shown(&format!("{message} typed"), &typing(&["otherwise"])).contains('x'));
            assert!(!shown(&message, &clarify).contains('x'));
            begun.elapsed()
        };
        let times = [5_000, 50_000].map(|words| (0..3).map(|_| time(words)).min().unwrap_or_default());
        assert!(times[1] < times[0] * 40, "{times:?}");
        assert!(times[1] < Duration::from_secs(10), "{times:?}");
    }

    /// Contract: agents 26.
    #[test]
    fn message_not_understood_shows_no_possible_text_to_type() {
        let clarify = ParsedMessage::Clarify { reply: String::new() };
        for (message, expected) in [
            ("tap 'Sign in' twice", "tap •••"),
            ("open a.example and TYPE hunter2 in passwd", "open ••• and TYPE •••"),
            ("Enter: s3cret", "Enter •••"),
            ("press Enter", "press Enter"),
            ("typ \"SEC-1\" into Password", "typ •••"),
            ("login as ada with SEC-7", "login as ada with •••"),
            ("code SEC-20", "code •••"),
            ("tap Login; SEC-15", "tap Login; •••"),
            ("wait for the sms; SEC-23", "wait for the sms; •••"),
            ("don't log me in with CorrectHorse", "don't log me in with •••"),
            ("open file:///etc/passwd", "open file:///etc/passwd"),
            ("open https://ada:lovelace@a.example/", "open •••"),
            ("make me a sandwich, please", "make me a sandwich, please"),
            ("select “SEC-17 into Password", "select •••"),
            ("Yes, go ahead.", "Yes, go ahead."),
        ] {
            assert_eq!(shown(message, &clarify), expected, "{message}");
        }
    }
}
