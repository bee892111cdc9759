//! What transcripts show of a message (contract: agents 26): all but what was to be typed.

use super::grammar;
use super::wishes::{Reading, Wish};

/// What stands for a text that is not shown.
pub const HIDDEN: &str = "•••";

/// Words after which somebody may say what is to be typed.
const TYPING: [&str; 14] = [
    "type", "types", "typing", "enter", "fill", "write", "input", "put", "paste", "insert", "set", "search",
    "password", "key in",
];

/// A message of which `reading` was made, as others may see it.
#[must_use]
pub fn shown(message: &str, reading: &Reading) -> String {
    let Reading::Plan(plan) = reading else { return unread(message) };
    let mut typed: Vec<_> = plan
        .iter()
        .filter_map(|wish| match wish {
            Wish::Type { value, .. } if !value.is_empty() => Some(value.as_str()),
            _ => None,
        })
        .collect();
    // One that is a part of another must not take it apart.
    typed.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
    let mut shown = message.to_owned();
    for value in typed {
        let hidden = without(&shown, value);
        if hidden == shown && !message.contains(value) {
            // It was written otherwise than it is typed, with escapes for one.
            return unread(message);
        }
        shown = hidden;
    }
    shown
}

/// What people say when they approve of something.
const APPROVING: [&str; 9] = ["approve", "approved", "confirmed", "do", "go", "ahead", "ok", "okay", "yes"];

/// A message that nobody has understood: of it only words of the grammar are shown, outside of quotation marks and before any that is
/// about typing. Whatever else there is may have been to be typed.
#[must_use]
pub fn unread(message: &str) -> String {
    let lower = message.to_ascii_lowercase();
    let words = TYPING.iter().flat_map(|word| lower.match_indices(word).map(|(at, word)| (at, at + word.len())));
    let first = words.filter(|(from, to)| stands_alone(&lower, *from, *to)).min();
    match first {
        Some((_, end)) if !message[end..].trim().is_empty() => format!("{} {HIDDEN}", known(&message[..end])),
        _ => known(message),
    }
}

/// Of a text the words that the grammar knows, up to the first quotation mark.
fn known(text: &str) -> String {
    const QUOTES: [char; 8] = ['"', '\'', '`', '“', '”', '‘', '’', '«'];
    let (plain, quoted) = text.split_at(text.find(QUOTES).unwrap_or(text.len()));
    let is_known = |word: &str| {
        let bare = word.trim_matches([',', ';', '.', ':', '!', '?']);
        grammar::knows(bare) || APPROVING.contains(&bare.to_lowercase().as_str())
    };
    let words = plain.split_whitespace().map(|word| if is_known(word) { word } else { HIDDEN });
    let mut shown: Vec<_> = words.chain((!quoted.is_empty()).then_some(HIDDEN)).collect();
    shown.dedup_by(|one, other| one == other && *one == HIDDEN);
    shown.join(" ")
}

/// `text` without `value`, where that is no part of a longer word.
fn without(text: &str, value: &str) -> String {
    let (mut hidden, mut from) = (String::with_capacity(text.len()), 0);
    for (at, found) in text.match_indices(value) {
        if stands_alone(text, at, at + found.len()) {
            hidden.push_str(&text[from..at]);
            hidden.push_str(HIDDEN);
            from = at + found.len();
        }
    }
    hidden.push_str(&text[from..]);
    hidden
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
    use super::super::wishes::Sought;
    use super::*;

    fn typing(values: &[&str]) -> Reading {
        let target = Sought::Css("#a".to_owned());
        Reading::Plan(
            values.iter().map(|value| Wish::Type { target: target.clone(), value: (*value).to_owned() }).collect(),
        )
    }

    /// Contract: agents 26.
    #[test]
    fn what_is_typed_is_not_shown() {
        for (message, values, expected) in [
            ("type 'ada' into name", &["ada"][..], "type '•••' into name"),
            ("type \"a\" into a field", &["a"], "type \"•••\" into ••• field"),
            ("type 'ab' into 'abc', 'ab c' into d", &["ab", "ab c"], "type '•••' into 'abc', '•••' into d"),
            ("type 'it\\'s' into name", &["it's"], "type •••"),
            ("open example.com", &[], "open example.com"),
            ("type '' into name", &[""], "type '' into name"),
        ] {
            assert_eq!(shown(message, &typing(values)), expected, "{message}");
        }
    }

    /// Contract: agents 26.
    #[test]
    fn of_a_message_that_was_not_understood_nothing_is_shown_that_may_be_typed() {
        let clarify = Reading::Clarify { reply: String::new() };
        for (message, expected) in [
            ("tap 'Sign in' twice", "tap •••"),
            ("open a.example and TYPE hunter2 in passwd", "open ••• and TYPE •••"),
            ("Enter: s3cret", "Enter •••"),
            ("press Enter", "press Enter"),
            ("typ \"SEC-1\" into Password", "•••"),
            ("login as ada with SEC-7", "••• as ••• with •••"),
            ("code SEC-20", "•••"),
            ("tap Login; SEC-15", "tap •••"),
            ("wait for the sms; SEC-23", "wait for the •••"),
            ("select “SEC-17 into Password", "select •••"),
            ("Yes, go ahead.", "Yes, go ahead."),
        ] {
            assert_eq!(shown(message, &clarify), expected, "{message}");
        }
    }
}
