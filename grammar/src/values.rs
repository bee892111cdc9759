//! Parsers for texts and distances.

use winnow::prelude::*;

use super::Context;
use super::errors::{GrammarError, GrammarErrorKind};
use super::targets::{Parsed, Tokens, as_written, error_at, stop, word};
use super::tokens::Token;
use super::vocabulary::UNCLEAR;

/// Distance to the end of any page, and the maximum distance in a message.
pub const FAR: i64 = 1_000_000;

/// Quoted, or the words as written.
pub fn text(tokens: &[Token<'_>], context: Context<'_>) -> Parsed<String> {
    match tokens {
        [quoted] if quoted.is_quote() => Ok(quoted.text.to_string()),
        [] => stop(error_at(tokens, GrammarErrorKind::reason("contains no text"))),
        words if words.iter().any(Token::is_quote) => {
            stop(error_at(words, GrammarErrorKind::reason("must be one quoted text, or a text without quotes")))
        }
        words if words.iter().any(|word| UNCLEAR.iter().any(|unclear| word.is(unclear))) => {
            stop(error_at(words, GrammarErrorKind::reason("is ambiguous; put the text in quotes")))
        }
        words => Ok(as_written(words, context.message).to_owned()),
    }
}

pub fn distance(input: &mut Tokens<'_>) -> Parsed<i64> {
    let number =
        word.verify(|token: &&Token<'_>| token.text.starts_with(|c: char| c.is_ascii_digit())).parse_next(input)?;
    let digits = number.text.strip_suffix("px").unwrap_or(&number.text);
    match digits.parse() {
        Ok(pixels @ 0..=FAR) => Ok(pixels),
        _ => stop(GrammarError::at(
            number.span.clone(),
            GrammarErrorKind::reason(format!("is not a number of pixels up to {FAR}")),
        )),
    }
}
