//! Splits a message into words, quoted texts and breaks, with their positions.

use std::borrow::Cow;

use winnow::combinator::{alt, cut_err, dispatch, eof, fail, peek, preceded, repeat};
use winnow::error::{ErrMode, ModalResult};
use winnow::prelude::*;
use winnow::stream::{LocatingSlice, Location};
use winnow::token::{any, take_while};

use super::errors::{GrammarError, GrammarErrorKind};
use super::tokens::{Kind, Token, same};

type Text<'m> = LocatingSlice<&'m str>;

const MARKS: [(char, char); 4] = [('"', '"'), ('“', '”'), ('\'', '\''), ('‘', '’')];

/// Splits a message into tokens, in time linear in its length.
pub fn lex(message: &str) -> Result<Vec<Token<'_>>, GrammarError> {
    let tokens: ModalResult<Vec<_>, GrammarError> =
        repeat(0.., preceded(blanks, token)).parse_next(&mut LocatingSlice::new(message.trim_end()));
    tokens.map_err(GrammarError::of)
}

fn blanks(input: &mut Text<'_>) -> ModalResult<(), GrammarError> {
    take_while(0.., |c: char| c != '\n' && c.is_whitespace()).void().parse_next(input)
}

fn token<'m>(input: &mut Text<'m>) -> ModalResult<Token<'m>, GrammarError> {
    let kinds = dispatch! {peek(any);
        ',' => any.value((Kind::Break { soft: true }, Cow::Borrowed(""))),
        '\n' | ';' => any.value((Kind::Break { soft: false }, Cow::Borrowed(""))),
        '"' | '“' | '\'' | '‘' => quoted,
        _ => alt((end_of_sentence, word)),
    };
    let ((kind, text), span) = kinds.with_span().parse_next(input)?;
    Ok(Token { kind, text, span })
}

/// A full stop at the end of a sentence, not one within a word.
fn end_of_sentence<'m>(input: &mut Text<'m>) -> ModalResult<(Kind, Cow<'m, str>), GrammarError> {
    let blank = any.verify(|c: &char| c.is_whitespace()).void();
    ('.', peek(alt((blank, eof.void())))).void().parse_next(input)?;
    Ok((Kind::Break { soft: false }, Cow::Borrowed("")))
}

fn word<'m>(input: &mut Text<'m>) -> ModalResult<(Kind, Cow<'m, str>), GrammarError> {
    let whole: &'m str = input;
    let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '"' | '“' | '”');
    // Unmatched closing marks form a word of their own, which no rule accepts.
    let end = match whole.trim_start_matches('”').len() {
        rest if rest < whole.len() => whole.len() - rest,
        _ => whole.find(ends).unwrap_or(whole.len()),
    };
    if end == 0 {
        return fail.parse_next(input);
    }
    let (mut text, rest) = whole.split_at(end);
    // The full stop after a sentence is not part of its last word, but an ellipsis is.
    let is_last = rest.chars().next().is_none_or(char::is_whitespace);
    if let Some(shorter) = text.strip_suffix('.').filter(|shorter| is_last && !shorter.ends_with('.')) {
        text = shorter;
    }
    input.next_slice(text.len());
    let kind = match text {
        _ if same(text, "and") => Kind::Break { soft: true },
        _ if same(text, "then") => Kind::Break { soft: false },
        _ => Kind::Word,
    };
    Ok((kind, Cow::Borrowed(text)))
}

/// A backslash escapes a mark of the same kind and another backslash.
fn quoted<'m>(input: &mut Text<'m>) -> ModalResult<(Kind, Cow<'m, str>), GrammarError> {
    let start = input.current_token_start();
    let opening = any.verify_map(|c| MARKS.into_iter().find(|(opening, _)| *opening == c)).parse_next(input)?;
    let text = cut_err(|input: &mut Text<'m>| closed(input, opening, start)).parse_next(input)?;
    Ok((Kind::Quote, text))
}

fn closed<'m>(
    input: &mut Text<'m>,
    (opening, closing): (char, char),
    start: usize,
) -> ModalResult<Cow<'m, str>, GrammarError> {
    let whole: &'m str = input;
    let (mut text, mut from, mut at) = (String::new(), 0, 0);
    while let Some(found) = whole[at..].find(['\\', closing]) {
        at += found;
        let (before, mark_and_rest) = whole.split_at(at);
        let mut characters = mark_and_rest.chars();
        let (mark, following) = (characters.next(), characters.next());
        at += mark.map_or(0, char::len_utf8);
        if mark == Some(closing) && !is_apostrophe(before.chars().next_back(), closing, following) {
            input.next_slice(at);
            let rest = &before[from..];
            return Ok(if text.is_empty() { Cow::Borrowed(rest) } else { Cow::Owned(text + rest) });
        }
        if mark == Some('\\')
            && let Some(escaped) = following.filter(|c| [opening, closing, '\\'].contains(c))
        {
            text.push_str(&before[from..]);
            from = at;
            at += escaped.len_utf8();
        }
    }
    let kind = GrammarErrorKind::reason("is a quotation mark without a closing one");
    Err(ErrMode::Backtrack(GrammarError::at(start..start + opening.len_utf8(), kind)))
}

/// True for the apostrophe in `Don't`, false for the closing mark of `'Done'`.
fn is_apostrophe(before: Option<char>, mark: char, following: Option<char>) -> bool {
    let is_within = [before, following].iter().all(|beside| beside.is_some_and(char::is_alphanumeric));
    matches!(mark, '\'' | '’') && is_within
}
