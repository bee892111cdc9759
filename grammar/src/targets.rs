//! Parsers for the element that a step refers to, by description or exactly.

use kitfleet_types::commands::ElementQuery;
use winnow::combinator::{alt, eof, opt, preceded, repeat, terminated};
use winnow::error::{ErrMode, ModalResult};
use winnow::prelude::*;
use winnow::stream::TokenSlice;
use winnow::token::any;

use super::errors::{GrammarError, GrammarErrorKind};
use super::tokens::Token;
use super::vocabulary::{ARTICLES, CALLED, NOUNS, Noun, UNCLEAR};

pub type Tokens<'m> = TokenSlice<'m, Token<'m>>;
pub type Parsed<T> = ModalResult<T, GrammarError>;

/// No other alternative can match.
pub fn stop<T>(error_at: GrammarError) -> Parsed<T> {
    Err(ErrMode::Cut(error_at))
}

pub fn error_at(tokens: &[Token<'_>], kind: GrammarErrorKind) -> GrammarError {
    match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => GrammarError::at(first.span.start..last.span.end, kind),
        _ => GrammarError::missing(kind),
    }
}

fn length(phrase: &str, tokens: &[Token<'_>]) -> Option<usize> {
    let words = phrase.split(' ').count();
    let fits = tokens.len() >= words && phrase.split(' ').zip(tokens).all(|(word, token)| token.is(word));
    fits.then_some(words)
}

/// Returns the meaning and token count of the longest phrase that the tokens begin with.
fn longest<'p, T>(phrases: impl IntoIterator<Item = (&'p str, T)>, tokens: &[Token<'_>]) -> Option<(usize, T)> {
    let fitting = phrases.into_iter().filter_map(|(phrase, means)| Some((length(phrase, tokens)?, means)));
    fitting.max_by_key(|(length, _)| *length)
}

pub fn one_of<'m, T: 'm>(
    phrases: impl IntoIterator<Item = (&'static str, T)> + Clone,
) -> impl Parser<Tokens<'m>, T, ErrMode<GrammarError>> {
    move |input: &mut Tokens<'m>| match longest(phrases.clone(), input) {
        Some((length, means)) => winnow::token::take(length).value(()).parse_next(input).map(|()| means),
        None => winnow::combinator::fail.parse_next(input),
    }
}

pub fn phrase<'m>(phrases: &'static [&'static str]) -> impl Parser<Tokens<'m>, (), ErrMode<GrammarError>> {
    one_of(phrases.iter().map(|phrase| (*phrase, ())))
}

pub fn lines<T: Copy>(
    table: &'static [(T, &'static [&'static str])],
) -> impl Iterator<Item = (&'static str, T)> + Clone {
    table.iter().flat_map(|(means, phrases)| phrases.iter().map(|phrase| (*phrase, *means)))
}

/// Returns the tokens before it, its first token, and the tokens after it.
pub fn split<'m>(
    tokens: &'m [Token<'m>],
    phrases: &'static [&'static str],
) -> Option<(&'m [Token<'m>], &'m Token<'m>, &'m [Token<'m>])> {
    let at = (1..tokens.len()).find(|at| phrases.iter().any(|phrase| length(phrase, &tokens[*at..]).is_some()))?;
    let (length, ()) = longest(phrases.iter().map(|phrase| (*phrase, ())), &tokens[at..])?;
    Some((&tokens[..at], &tokens[at], &tokens[at + length..]))
}

pub fn count(tokens: &[Token<'_>], phrases: &[&str]) -> usize {
    (0..tokens.len()).filter(|at| phrases.iter().any(|phrase| length(phrase, &tokens[*at..]).is_some())).count()
}

/// Returns the tokens before it and its meaning.
pub fn split_end<'m, T: Copy>(
    tokens: &'m [Token<'m>],
    phrases: impl Iterator<Item = (&'static str, T)>,
) -> Option<(&'m [Token<'m>], T)> {
    let ending = phrases.filter_map(|(phrase, means)| {
        let at = tokens.len().checked_sub(phrase.split(' ').count())?;
        length(phrase, &tokens[at..]).map(|_| (at, means))
    });
    ending.min_by_key(|(at, _)| *at).map(|(at, means)| (&tokens[..at], means))
}

pub fn all<'m, T, W>(
    rest: &'m [Token<'m>],
    parser: impl Parser<Tokens<'m>, T, ErrMode<GrammarError>>,
    means: W,
) -> Parsed<W> {
    terminated(parser, eof).parse_next(&mut TokenSlice::new(rest)).map(|_| means)
}

pub fn quote<'m>(input: &mut Tokens<'m>) -> Parsed<&'m Token<'m>> {
    any.verify(|token: &&Token<'m>| token.is_quote()).parse_next(input)
}

pub fn word<'m>(input: &mut Tokens<'m>) -> Parsed<&'m Token<'m>> {
    any.verify(|token: &&Token<'m>| !token.is_quote()).parse_next(input)
}

pub fn articles(input: &mut Tokens<'_>) -> Parsed<usize> {
    repeat(0.., phrase(ARTICLES)).parse_next(input)
}

/// Returns the names of all nouns. Includes the plurals if a list is read.
fn nouns(several: bool) -> impl Iterator<Item = (&'static str, &'static Noun)> + Clone {
    let names = NOUNS.iter().flat_map(|noun| noun.names.iter().map(move |name| (*name, noun)));
    let plurals = NOUNS.iter().flat_map(|noun| noun.plurals.iter().map(move |name| (*name, noun)));
    names.chain(plurals.filter(move |_| several))
}

fn noun<'m>(several: bool) -> impl Parser<Tokens<'m>, &'static Noun, ErrMode<GrammarError>> {
    one_of(nouns(several))
}

pub fn whole<'m>(tokens: &'m [Token<'m>], several: bool, message: &str) -> Parsed<ElementQuery> {
    let mut input = TokenSlice::new(tokens);
    let exact = alt((exactly, |input: &mut Tokens<'m>| named(input, several)));
    match terminated(exact, eof).parse_next(&mut input) {
        Err(ErrMode::Backtrack(further)) if tokens.iter().any(Token::is_quote) => stop(further),
        Err(ErrMode::Backtrack(_)) => plain(tokens, several, message),
        done => done,
    }
}

/// Parses an element with a quoted name or a reference. The caller parses the tokens after it.
pub fn beginning<'m>(input: &mut Tokens<'m>) -> Parsed<ElementQuery> {
    alt((exactly, |input: &mut Tokens<'m>| named(input, false))).parse_next(input)
}

/// A selector, or a reference of a snapshot.
fn exactly<'m>(input: &mut Tokens<'m>) -> Parsed<ElementQuery> {
    let css = preceded(phrase(&["css", "css selector"]), any);
    let css = css.map(|token: &'m Token<'m>| ElementQuery::Css(token.text.to_string()));
    let reference =
        preceded(phrase(&["ref"]), any).map(|token: &'m Token<'m>| ElementQuery::Ref(token.text.to_string()));
    preceded(articles, alt((css, reference))).parse_next(input)
}

/// `the "Sign in" button`, `button "Sign in"`, `the button called "Sign in"`.
fn named(input: &mut Tokens<'_>, several: bool) -> Parsed<ElementQuery> {
    articles.parse_next(input)?;
    let before = opt(noun(several)).parse_next(input)?;
    let is_text = opt(phrase(CALLED)).parse_next(input)?.is_some() || before.is_some_and(|noun| noun.role.is_none());
    let text = quote.parse_next(input)?;
    if text.text.trim().is_empty() {
        return stop(GrammarError::at(text.span.clone(), GrammarErrorKind::reason("names nothing")));
    }
    let after = if before.is_none() { opt(noun(several)).parse_next(input)? } else { None };
    if !is_text && text.text.starts_with(['#', '.', '[']) {
        return Ok(ElementQuery::Css(text.text.to_string()));
    }
    let role = before.or(after).and_then(|noun| noun.role).map(str::to_owned);
    Ok(ElementQuery::Described { role, words: text.text.to_string() })
}

/// `the Sign in button`, `the button`, `Sign in`.
fn plain<'m>(tokens: &'m [Token<'m>], several: bool, message: &str) -> Parsed<ElementQuery> {
    let mut input = TokenSlice::new(tokens);
    let articles = articles.parse_next(&mut input)?;
    let words = input.finish();
    let (Some(first), Some(_)) = (words.first(), words.last()) else {
        return stop(error_at(tokens, GrammarErrorKind::reason("does not name an element")));
    };
    if let Some(unclear) = words.iter().find(|word| UNCLEAR.iter().any(|unclear| word.is(unclear))) {
        let kind = GrammarErrorKind::reason("is ambiguous; put it in quotes, with the text that it is part of");
        return stop(GrammarError::at(unclear.span.clone(), kind));
    }
    let begins = longest(nouns(several), words);
    let (called, role) = split_end(words, nouns(several)).map_or((words, None), |(rest, noun)| (rest, noun.role));
    let is_only_noun = called.is_empty();
    if is_only_noun && articles == 0 && !several {
        let kind = format!("could be a name or a kind of element; write “the {0}” or \"{0}\"", first.text);
        return stop(error_at(words, GrammarErrorKind::reason(kind)));
    }
    if is_only_noun && role.is_none() {
        return stop(error_at(words, GrammarErrorKind::reason("does not identify an element; name it")));
    }
    if !is_only_noun && begins.is_some() && called.len() == words.len() {
        let kind = "could be part of a name or a kind of element; put the name in quotes";
        return stop(GrammarError::at(first.span.clone(), GrammarErrorKind::reason(kind)));
    }
    Ok(ElementQuery::Described { role: role.map(str::to_owned), words: as_written(called, message).to_owned() })
}

/// Returns the part of the message from the first token to the last, including the white space between them.
pub fn as_written<'t>(tokens: &[Token<'_>], message: &'t str) -> &'t str {
    match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => &message[first.span.start..last.span.end],
        _ => "",
    }
}

/// The tokens have a noun, a quoted name or a reference, so they cannot be part of a longer text.
pub fn is_certain(tokens: &[Token<'_>]) -> bool {
    tokens.iter().any(Token::is_quote)
        || split_end(tokens, nouns(false)).is_some()
        || tokens.first().is_some_and(|first| ["css", "ref"].iter().any(|exact| first.is(exact)))
}
