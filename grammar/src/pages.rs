//! Parsers for pages of the browser, and for their dialogs.

use kitfleet_types::commands::{Command, PageQuery};
use winnow::combinator::{eof, opt, preceded};
use winnow::prelude::*;
use winnow::stream::TokenSlice;
use winnow::token::any;

use super::Context;
use super::errors::{GrammarError, GrammarErrorKind};
use super::targets::{Parsed, all, articles, phrase, quote, stop};
use super::tokens::Token;
use super::values::text;
use super::vocabulary::{CALLED, PAGES};

/// `the page NAME`, or `the other page`
pub fn switch(verb_token: &Token<'_>, rest: &[Token<'_>]) -> Parsed<Command> {
    // The phrase that begins with “go” names the page already.
    if verb_token.is("go") {
        return all(rest, eof, Command::SwitchPage { page: PageQuery::Other });
    }
    Ok(Command::SwitchPage { page: query(verb_token, rest)? })
}

/// `this page`, or the page as in [`switch`]
pub fn close(verb_token: &Token<'_>, rest: &[Token<'_>]) -> Parsed<Command> {
    let this = (articles, opt(phrase(&["this", "current"])), phrase(PAGES));
    if all(rest, this, ()).is_ok() {
        return Ok(Command::ClosePage { page: None });
    }
    Ok(Command::ClosePage { page: Some(query(verb_token, rest)?) })
}

fn query(verb_token: &Token<'_>, rest: &[Token<'_>]) -> Parsed<PageQuery> {
    let mut input = TokenSlice::new(rest);
    articles.parse_next(&mut input)?;
    if opt(preceded(phrase(&["other"]), phrase(PAGES))).parse_next(&mut input)?.is_some() {
        return all(input.finish(), eof, PageQuery::Other);
    }
    let kind = "must name a page of the browser, such as the page “Sign in”; to use an element of a page, tap it";
    let unnamed = || stop(GrammarError::at(verb_token.span.clone(), GrammarErrorKind::reason(kind)));
    let before = opt(phrase(PAGES)).parse_next(&mut input)?.is_some();
    if before && opt(phrase(&["ref"])).parse_next(&mut input)?.is_some() {
        let id = any.parse_next(&mut input)?;
        let Ok(page) = id.text.parse() else { return unnamed() };
        return all(input.finish(), eof, PageQuery::Id(page));
    }
    let _: Option<()> = opt(phrase(CALLED)).parse_next(&mut input)?;
    let Some(name) = opt(quote).parse_next(&mut input)? else { return unnamed() };
    let is_page = before || opt(phrase(PAGES)).parse_next(&mut input)?.is_some();
    if !is_page {
        return unnamed();
    }
    if name.text.trim().is_empty() {
        return stop(GrammarError::at(name.span.clone(), GrammarErrorKind::reason("names nothing")));
    }
    all(input.finish(), eof, PageQuery::Words(name.text.to_string()))
}

/// The phrase of the verb says everything.
pub fn dialog(rest: &[Token<'_>], accept: bool) -> Parsed<Command> {
    all(rest, eof, Command::Dialog { accept, text: None })
}

pub fn answer(verb_token: &Token<'_>, rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    let hidden = |error: GrammarError| error.hiding_but(&verb_token.span);
    let text = text(rest, context).map_err(|error| error.map(hidden))?;
    Ok(Command::Dialog { accept: true, text: Some(text) })
}
