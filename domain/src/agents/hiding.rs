//! What transcripts show of a message (contract: agents 26): all but what was to be typed.

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

/// A message that nobody has understood: whatever may have been to be typed is not shown.
#[must_use]
pub fn unread(message: &str) -> String {
    let lower = message.to_ascii_lowercase();
    let words = TYPING.iter().flat_map(|word| lower.match_indices(word).map(|(at, word)| (at, at + word.len())));
    let first = words.filter(|(from, to)| stands_alone(&lower, *from, *to)).min();
    match first {
        Some((_, end)) if !message[end..].trim().is_empty() => format!("{} {HIDDEN}", &message[..end]),
        _ => message.to_owned(),
    }
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
            ("tap 'Sign in' twice", "tap 'Sign in' twice"),
            ("open a.example and TYPE hunter2 in passwd", "open a.example and TYPE •••"),
            ("Enter: s3cret", "Enter •••"),
            ("prototype a thing", "prototype a thing"),
            ("press Enter", "press Enter"),
        ] {
            assert_eq!(shown(message, &clarify), expected, "{message}");
        }
    }
}
