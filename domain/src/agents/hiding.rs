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
    let mut shown = message.to_owned();
    for value in typed(plan.iter()) {
        let hidden = without(&shown, value);
        if hidden == shown && !message.contains(value) {
            // It was written otherwise than it is typed, with escapes for one.
            return unread_or_plain(message);
        }
        shown = hidden;
    }
    shown
}

/// What a model says about a message, of which it made `plan`: without what that types, and without what of the message may have been to
/// be typed and is no plain word.
#[must_use]
pub fn said<'a>(reply: &str, message: &str, plan: impl Iterator<Item = &'a Wish>) -> String {
    let mut said = reply.to_owned();
    for value in typed(plan) {
        said = without(&said, value);
    }
    let Some(from) = typing_from(message) else { return said };
    doubtful(&message[from..]).iter().fold(said, |said, word| without(&said, word))
}

/// What a plan types, the longest first: one that is a part of another must not take it apart.
fn typed<'a>(plan: impl Iterator<Item = &'a Wish>) -> Vec<&'a str> {
    let mut typed: Vec<_> = plan
        .filter_map(|wish| match wish {
            Wish::Type { value, .. } if !value.is_empty() => Some(value.as_str()),
            _ => None,
        })
        .collect();
    typed.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
    typed
}

/// A word without the signs around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|letter: char| "\"'`“”‘’„«»()[]{}<>,;:.?".contains(letter))
}

/// Whether a word could be a password, a code or an address: it is more than letters, or has capitals where no word has some.
fn is_doubtful(word: &str) -> bool {
    let plain = word.chars().all(|letter| letter.is_alphabetic() || "-'’".contains(letter));
    !word.is_empty() && (!plain || word.chars().skip(1).any(char::is_uppercase))
}

/// A message that nobody has understood: whatever may have been to be typed is not shown.
#[must_use]
pub fn unread(message: &str) -> String {
    match typing_from(message) {
        Some(from) if !message[from..].trim().is_empty() => format!("{} {HIDDEN}", &message[..from]),
        _ => message.to_owned(),
    }
}

/// A message of which somebody has made what is to be typed, without saying what of it that was: it may stand where no word announces it.
fn unread_or_plain(message: &str) -> String {
    if typing_from(message).is_some() {
        return unread(message);
    }
    doubtful(message).iter().fold(message.to_owned(), |shown, word| without(&shown, word))
}

/// Words of a text that could be a password, a code or an address, the longest first.
fn doubtful(text: &str) -> Vec<&str> {
    let mut doubtful: Vec<_> = text.split_whitespace().map(bare).filter(|word| is_doubtful(word)).collect();
    doubtful.sort_unstable_by_key(|word| std::cmp::Reverse(word.len()));
    doubtful
}

/// Where a message may begin to say what is to be typed.
fn typing_from(message: &str) -> Option<usize> {
    let lower = message.to_ascii_lowercase();
    let words = TYPING.iter().flat_map(|word| lower.match_indices(word).map(|(at, word)| (at, at + word.len())));
    words.filter(|(from, to)| stands_alone(&lower, *from, *to)).min().map(|(_, end)| end)
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
            ("log in as ada with HUNTER2, please", &["hunter2"], "log in as ada with •••, please"),
            ("call +49 170-1234 for me", &["+491701234"], "call ••• ••• for me"),
        ] {
            assert_eq!(shown(message, &typing(values)), expected, "{message}");
        }
    }

    /// Contract: byok 23.
    #[test]
    fn what_a_model_says_does_not_repeat_what_is_typed() {
        let login = Wish::Type { target: Sought::Ref("e1".to_owned()), value: "let me in".to_owned() };
        for (reply, message, plan, expected) in [
            ("Typed 'let me in'.", "the password is let me in", std::slice::from_ref(&login), "Typed '•••'."),
            ("Where does hunter2 go?", "type hunter2 somewhere", &[], "Where does ••• go?"),
            ("Is “CorrectHorse” for the field?", "enter CorrectHorse", &[], "Is “•••” for the field?"),
            ("Which field do you mean?", "type my name into the field", &[], "Which field do you mean?"),
            ("There is no hunter2.", "tap hunter2", &[], "There is no hunter2."),
        ] {
            assert_eq!(said(reply, message, plan.iter()), expected, "{message}");
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
