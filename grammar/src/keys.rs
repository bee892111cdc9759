//! Parser for the keys of the keyboard.

use winnow::combinator::opt;
use winnow::prelude::*;
use winnow::stream::TokenSlice;

use super::errors::{GrammarError, GrammarErrorKind};
use super::targets::{Parsed, error_at, phrase, stop};
use super::tokens::{Token, same};
use super::vocabulary::{KEYS, KeyName, MODIFIERS};

/// `None` if the text names an element to tap.
pub fn read(rest: &[Token<'_>]) -> Parsed<Option<String>> {
    let mut input = TokenSlice::new(rest);
    let the = opt(phrase(&["the"])).parse_next(&mut input)?.is_some();
    let words = input.finish();
    let is_key = |token: &Token<'_>| token.is("key") || token.is("keys");
    let said = match words {
        [first, said @ ..] | [said @ .., first] if is_key(first) => Some(said),
        _ => None,
    };
    // “The a key” names the key A; “a key” names none.
    if said.is_some_and(<[_]>::is_empty) || (!the && matches!(words, [a, key] if a.is("a") && is_key(key))) {
        return stop(error_at(words, GrammarErrorKind::reason("does not name a key")));
    }
    if let Some(said @ [first, ..]) = said {
        let kind = || GrammarErrorKind::reason("is not a known key; use a character or a name such as Enter");
        let Some(key) = key(&written(said)) else { return stop(GrammarError::at(first.span.clone(), kind())) };
        return Ok(Some(key));
    }
    let Some(first) = words.first() else { return Ok(None) };
    match (named(&written(words)), words) {
        (Some(name), [quote]) if quote.is_quote() => either(quote, name.names[0]),
        (Some(name), _) if name.alone => Ok(Some(name.key.to_owned())),
        (Some(name), _) => either(first, name.names[0]),
        (None, [combination]) if !combination.is_quote() && combination.text.len() > 1 => {
            Ok(combined(&combination.text).or_else(|| function_key(&combination.text)))
        }
        (None, [key, place, ..])
            if ["in", "into", "on"].iter().any(|word| place.is(word)) && named(&key.text).is_some() =>
        {
            let kind = GrammarErrorKind::reason(
                "does not apply to a key, which goes to the focused element; tap the field first",
            );
            stop(GrammarError::at(place.span.clone(), kind))
        }
        _ => Ok(None),
    }
}

fn either<T>(token: &Token<'_>, name: &str) -> Parsed<T> {
    let kind = format!("could be a key or a button; write “press the {name} key” or “tap \"{name}\"”");
    stop(GrammarError::at(token.span.clone(), GrammarErrorKind::reason(kind)))
}

fn written(tokens: &[Token<'_>]) -> String {
    tokens.iter().map(|token| &*token.text).collect::<Vec<_>>().join(" ")
}

fn named(text: &str) -> Option<&'static KeyName> {
    KEYS.iter().find(|key| key.names.iter().any(|name| same(name, text)))
}

/// A named key, a character, or either after modifiers.
fn key(text: &str) -> Option<String> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) if !character.is_control() => Some(character.to_string()),
        _ => named(text).map(|name| name.key.to_owned()).or_else(|| function_key(text)).or_else(|| combined(text)),
    }
}

fn function_key(text: &str) -> Option<String> {
    let number: u8 = text.strip_prefix(['f', 'F'])?.parse().ok()?;
    (1..=12).contains(&number).then(|| format!("F{number}"))
}

/// Such as `Ctrl+Shift+A`. The letter names the key, so it becomes lower case; only Shift makes it a capital.
fn combined(text: &str) -> Option<String> {
    // The last plus sign of `Control++` is the key.
    let (held, last) = match text.strip_suffix("++") {
        Some(held) => (held, "+"),
        None => text.rsplit_once('+')?,
    };
    let mut names: Vec<String> = Vec::new();
    for word in held.split('+') {
        let (name, _) = MODIFIERS.iter().find(|(_, names)| names.iter().any(|name| same(name, word)))?;
        if names.iter().any(|held| held == name) {
            return None;
        }
        names.push((*name).to_owned());
    }
    names.push(key(last).map(|key| if key.chars().count() == 1 { key.to_lowercase() } else { key })?);
    Some(names.join("+"))
}
