//! Parsers for the part of a step after its verb, one for each verb.

use std::time::Duration;

use kitfleet_types::commands::{Command, ElementQuery, ExtractItem, WaitCondition};
use kitfleet_types::operations::CaptureKind;
use winnow::combinator::{alt, eof, opt, preceded, repeat, terminated};
use winnow::prelude::*;
use winnow::stream::TokenSlice;
use winnow::token::any;

use super::Context;
use super::errors::{GrammarError, GrammarErrorKind};
use super::targets::{
    Parsed, Tokens, all, articles, beginning, count, error_at, is_certain, lines, one_of, phrase, quote, split,
    split_end, stop, whole, word,
};
use super::tokens::Token;
use super::values::{FAR, distance, text};
use super::vocabulary::{
    ADDRESS, ADDRESS_TESTS, ALL, ATTRIBUTES, BEGINNINGS, CAPTURES, COMPLETIONS, DIRECTIONS, DOWNLOADS, ENDS, FROM,
    INTO, NEW_PAGES, STANDINGS, StepSyntax, UNITS, VERBS, Verb, WITH,
};
use super::{addresses, dates, gestures, keys, pages};

/// Without a number: most of a phone's screen.
const A_SCREEN: i64 = 600;

pub fn verb<'m>(step: &'m [Token<'m>]) -> Option<(&'static Verb, &'m Token<'m>, &'m [Token<'m>])> {
    let phrases = VERBS.iter().flat_map(|verb| verb.phrases.iter().map(move |phrase| (*phrase, verb)));
    let mut input = TokenSlice::new(step);
    let verb = one_of(phrases).parse_next(&mut input).ok()?;
    Some((verb, step.first()?, input.finish()))
}

pub fn command<'m>(
    verb: &'static Verb,
    verb_token: &Token<'_>,
    rest: &'m [Token<'m>],
    context: Context<'_>,
) -> Parsed<Command> {
    match verb.act {
        StepSyntax::Open => open(rest, context),
        StepSyntax::Tap => Ok(Command::Tap { target: whole(without_preposition(rest), false, context.message)? }),
        StepSyntax::DoubleTap => Ok(Command::DoubleTap { target: whole(rest, false, context.message)? }),
        StepSyntax::LongPress => Ok(Command::LongPress { target: whole(rest, false, context.message)? }),
        StepSyntax::Check => check(rest, ("checkbox", !(verb_token.is("uncheck") || verb_token.is("untick"))), context),
        StepSyntax::TurnOn => check(rest, ("switch", true), context),
        StepSyntax::TurnOff => check(rest, ("switch", false), context),
        StepSyntax::Type => typed(verb_token, rest, context),
        StepSyntax::Fill => filled(verb_token, rest, context),
        StepSyntax::Clear => Ok(Command::Fill { target: whole(rest, false, context.message)?, value: String::new() }),
        StepSyntax::SetDate => dates::set(verb_token, rest, context),
        StepSyntax::SetLocation => gestures::location(verb_token, rest),
        StepSyntax::Drag => gestures::drag(verb_token, rest, context),
        StepSyntax::Swipe => gestures::swipe(rest, context),
        StepSyntax::Hover => Ok(Command::Hover { target: whole(rest, false, context.message)? }),
        StepSyntax::AcceptDialog => pages::dialog(rest, true),
        StepSyntax::DismissDialog => pages::dialog(rest, false),
        StepSyntax::AnswerDialog => pages::answer(verb_token, rest, context),
        StepSyntax::SwitchPage => pages::switch(verb_token, rest),
        StepSyntax::ClosePage => pages::close(verb_token, rest),
        StepSyntax::Press => press(rest, context),
        StepSyntax::Choose => choose(rest, context),
        StepSyntax::Scroll => scroll(rest, context),
        StepSyntax::Wait => Ok(Command::Wait { condition: condition(verb_token, rest, context)? }),
        StepSyntax::Capture => capture(verb_token, rest),
        StepSyntax::Extract => Ok(Command::Extract { items: vec![item(rest, context)?] }),
        StepSyntax::Back => {
            all(rest, (opt(phrase(&["to"])), articles, opt(phrase(&["previous page", "last page"]))), Command::Back)
        }
        StepSyntax::Forward => {
            all(rest, (opt(phrase(&["to"])), articles, opt(phrase(&["next page"]))), Command::Forward)
        }
        StepSyntax::Reload => all(rest, (articles, opt(phrase(&["page", "this page"]))), Command::Reload),
        StepSyntax::Upload => upload(verb_token, rest, context),
        StepSyntax::Solve => solve(verb_token, rest),
    }
}

fn refuse<T>(verb_token: &Token<'_>, reason: &'static str) -> Parsed<T> {
    stop(GrammarError::at(verb_token.span.clone(), GrammarErrorKind::Refused(reason.into())))
}

/// The object may be something other than a captcha, and the grammar has no rule for that.
fn solve<T>(verb_token: &Token<'_>, rest: &[Token<'_>]) -> Parsed<T> {
    if rest.iter().any(|token| token.text.to_ascii_lowercase().contains("captcha")) {
        return refuse(verb_token, "I do not solve captchas.");
    }
    stop(GrammarError::at(verb_token.span.clone(), GrammarErrorKind::Unknown))
}

fn open(rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    let mut input = TokenSlice::new(rest);
    let noun = opt(phrase(&["page", "site", "website", "url", "address"]));
    let (_, _, address) = (articles, noun, any).parse_next(&mut input)?;
    let url = addresses::read(&address.text, address.is_quote(), context.rules.destinations)
        .or_else(|kind| stop(GrammarError::at(address.span.clone(), kind)))?;
    all(input.finish(), eof, Command::Navigate { url })
}

/// Skips the preposition in `click into the field`, which is not part of the element's name.
fn without_preposition<'m>(rest: &'m [Token<'m>]) -> &'m [Token<'m>] {
    let mut input = TokenSlice::new(rest);
    let _: Parsed<_> = opt(phrase(&["into", "inside"])).parse_next(&mut input);
    input.finish()
}

fn check(rest: &[Token<'_>], (role, checked): (&str, bool), context: Context<'_>) -> Parsed<Command> {
    let target = match whole(rest, false, context.message)? {
        ElementQuery::Described { role: None, words } => ElementQuery::Described { role: Some(role.to_owned()), words },
        target => target,
    };
    Ok(Command::Check { target, checked })
}

/// `TEXT into TARGET`
fn typed(verb_token: &Token<'_>, rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    let hidden = |error: GrammarError| error.hiding_but(&verb_token.span);
    let fail = |words| stop(GrammarError::at(verb_token.span.clone(), GrammarErrorKind::reason(words)));
    let Some((text_tokens, into, target)) = split(rest, INTO) else {
        return fail("must name the text to type and the field");
    };
    let is_quoted = text_tokens.iter().all(Token::is_quote);
    if !is_quoted && count(rest, INTO) > 1 {
        return fail("could be read in more than one way; put the text in quotes");
    }
    if !is_quoted && !into.is("into") && !is_certain(target) {
        return fail("could be read in more than one way; put the text in quotes");
    }
    let value = text(text_tokens, context).map_err(|error| error.map(hidden))?;
    let target = whole(target, false, context.message).map_err(|error| error.map(hidden))?;
    Ok(Command::Type { target, value })
}

/// `FILE into TARGET`
fn upload(verb_token: &Token<'_>, rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    if split(rest, INTO).is_none() {
        let kind = GrammarErrorKind::reason("must name an attached file and the element to upload it into");
        return stop(GrammarError::at(verb_token.span.clone(), kind));
    }
    let mut file = TokenSlice::new(rest);
    // The noun “file” is optional, because the rule implies it.
    (articles, opt(phrase(&["file"]))).parse_next(&mut file)?;
    match typed(verb_token, file.finish(), context)? {
        Command::Type { target, value } => Ok(Command::Upload { target, file: value }),
        other => Ok(other),
    }
}

/// `TARGET with TEXT`. The same verbs also accept `TEXT into TARGET`.
fn filled(verb_token: &Token<'_>, rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    let hidden = |error: GrammarError| error.hiding_but(&verb_token.span);
    let fail = |words| stop(GrammarError::at(verb_token.span.clone(), GrammarErrorKind::reason(words)));
    let Some((target, _, value)) = split(rest, WITH) else {
        return Ok(match typed(verb_token, rest, context)? {
            Command::Type { target, value } => Command::Fill { target, value },
            other => other,
        });
    };
    if count(rest, WITH) > 1 {
        return fail("could be read in more than one way; put the text in quotes");
    }
    let target = whole(target, false, context.message).map_err(|error| error.map(hidden))?;
    Ok(Command::Fill { target, value: text(value, context).map_err(|error| error.map(hidden))? })
}

fn press(rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    match keys::read(rest)? {
        Some(key) => Ok(Command::Press { key }),
        None => Ok(Command::Tap { target: whole(rest, false, context.message)? }),
    }
}

/// `OPTION from LIST`, or an element to tap.
fn choose(rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    let Some((option, from, list)) = split(rest, FROM) else {
        return Ok(Command::Tap { target: whole(rest, false, context.message)? });
    };
    let mut option = TokenSlice::new(option);
    // The noun “option” is optional, because the rule implies it.
    (articles, opt(phrase(&["option", "value", "entry"]))).parse_next(&mut option)?;
    let option = option.finish();
    let named = split_end(option, ["option", "value", "entry"].into_iter().map(|noun| (noun, ())));
    let option = named.map_or(option, |(before, ())| before);
    let is_quoted = option.iter().all(Token::is_quote);
    let is_ambiguous = !is_quoted && (count(rest, FROM) > 1 || (!from.is("from") && !is_certain(list)));
    if is_ambiguous {
        let kind = GrammarErrorKind::reason("could be part of the option; put the option in quotes");
        return stop(GrammarError::at(from.span.clone(), kind));
    }
    Ok(Command::Select { option: text(option, context)?, target: whole(list, false, context.message)? })
}

/// `[TARGET] DIRECTION [by N] …`. The target may come first or last.
fn scroll(rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    let mut input = TokenSlice::new(rest);
    let page = || (articles, phrase(&["page", "screen"])).map(|_| None);
    let before = opt(alt((page(), beginning.map(Some)))).parse_next(&mut input)?;
    let directions: Vec<_> = repeat(1.., direction).parse_next(&mut input)?;
    let within = preceded(phrase(&["in", "inside", "within", "of"]), winnow::token::rest);
    let behind = opt(within).parse_next(&mut input)?;
    let behind = match behind {
        Some(tokens) if all(tokens, page(), ()).is_ok() => Some(None),
        Some(tokens) => Some(Some(whole(tokens, false, context.message)?)),
        None => opt(page()).parse_next(&mut input)?,
    };
    let (mut delta_x, mut delta_y) = (None, None);
    for (x, y) in directions {
        let axis = if x == 0 { &mut delta_y } else { &mut delta_x };
        if axis.replace(x + y).is_some() {
            return stop(error_at(rest, GrammarErrorKind::reason("scrolls in more than one direction")));
        }
    }
    if before.is_some() && behind.is_some() {
        return stop(error_at(rest, GrammarErrorKind::reason("names more than one element to scroll")));
    }
    let target = before.or(behind).flatten();
    let (delta_x, delta_y) = (delta_x.unwrap_or_default(), delta_y.unwrap_or_default());
    all(input.finish(), eof, Command::Scroll { delta_x, delta_y, target })
}

/// Returns pixels to the right and pixels down. One of them is zero.
fn direction(input: &mut Tokens<'_>) -> Parsed<(i64, i64)> {
    let flip = |(means, phrase)| (phrase, means);
    let end = one_of(ENDS.into_iter().map(flip)).map(|(x, y)| (x * FAR, y * FAR));
    let number = preceded(opt(phrase(&["by"])), terminated(distance, opt(phrase(&["px", "pixels", "pixel"]))));
    let some = (one_of(DIRECTIONS.into_iter().map(flip)), opt(number));
    let some = some.map(|((x, y), distance)| (x * distance.unwrap_or(A_SCREEN), y * distance.unwrap_or(A_SCREEN)));
    alt((end, some)).parse_next(input)
}

/// `for TARGET [to appear | to disappear]`, `for the address to match TEXT`, `N seconds`
fn condition(verb_token: &Token<'_>, rest: &[Token<'_>], context: Context<'_>) -> Parsed<WaitCondition> {
    if rest.is_empty() {
        return stop(GrammarError::at(
            verb_token.span.clone(),
            GrammarErrorKind::reason("must name a condition to wait for"),
        ));
    }
    if let Some(ms) = time(rest, context)? {
        return Ok(WaitCondition::Time { ms });
    }
    if let Some(pattern) = address_test(rest)? {
        return Ok(WaitCondition::Url(pattern));
    }
    let download = (articles, phrase(DOWNLOADS), opt(phrase(COMPLETIONS)));
    if all(rest, download, ()).is_ok() {
        return Ok(WaitCondition::Download);
    }
    let page = (articles, phrase(NEW_PAGES), opt(phrase(BEGINNINGS)));
    if all(rest, page, ()).is_ok() {
        return Ok(WaitCondition::Page);
    }
    let (target, is_there) = split_end(rest, lines(&STANDINGS)).unwrap_or((rest, true));
    let target = whole(target, false, context.message)?;
    Ok(if is_there { WaitCondition::Visible(target) } else { WaitCondition::Hidden(target) })
}

fn time(rest: &[Token<'_>], context: Context<'_>) -> Parsed<Option<u64>> {
    let Some(first) =
        rest.first().filter(|first| !first.is_quote() && first.text.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return Ok(None);
    };
    let fail = |words: String| stop(GrammarError::at(first.span.clone(), GrammarErrorKind::reason(words)));
    let end = first.text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(first.text.len());
    let (number, unit) = first.text.split_at(end);
    let seconds = match (lines(&UNITS).find(|(name, _)| unit.eq_ignore_ascii_case(name)), &rest[1..]) {
        (Some((_, seconds)), []) => seconds,
        (None, [second]) if unit.is_empty() => all(&rest[1..], one_of(lines(&UNITS)), ())
            .and_then(|()| one_of(lines(&UNITS)).parse_next(&mut TokenSlice::new(std::slice::from_ref(second))))?,
        _ => return fail("has no known unit; use seconds, milliseconds or minutes".to_owned()),
    };
    let time = number.parse().ok().and_then(|number: f64| Duration::try_from_secs_f64(number * seconds).ok());
    let max = context.rules.limits.max_time_wait;
    match time.map(|time| (time <= max, u64::try_from(time.as_millis()))) {
        Some((true, Ok(ms))) => Ok(Some(ms)),
        _ => fail(format!("is not a time of at most {} seconds", max.as_secs())),
    }
}

fn address_test(rest: &[Token<'_>]) -> Parsed<Option<String>> {
    let mut input = TokenSlice::new(rest);
    let address = (articles, phrase(ADDRESS), one_of(lines(&ADDRESS_TESTS)));
    let Some((_, (), is_pattern)) = opt(address).parse_next(&mut input)? else {
        return Ok(None);
    };
    let token = any.parse_next(&mut input)?;
    let pattern = if is_pattern { token.text.to_string() } else { regex::escape(&token.text) };
    all(input.finish(), eof, Some(pattern))
}

/// `a screenshot [of the page]`
fn capture(verb_token: &Token<'_>, rest: &[Token<'_>]) -> Parsed<Command> {
    let captures = CAPTURES.iter().flat_map(|(kind, names)| names.iter().map(|name| (*name, *kind)));
    let mut input = TokenSlice::new(rest);
    let default = verb_token.is("screenshot").then_some(CaptureKind::Screenshot);
    articles.parse_next(&mut input)?;
    let Some(kind) = opt(one_of(captures)).parse_next(&mut input)?.or(default) else {
        return stop(GrammarError::at(
            verb_token.span.clone(),
            GrammarErrorKind::reason("must name a kind of capture, such as a screenshot"),
        ));
    };
    let of = opt((phrase(&["of"]), articles, opt(phrase(&["this", "current"])), phrase(&["page", "screen"])));
    all(input.finish(), of, Command::Capture { capture: kind })
}

/// `[the text of] TARGET [as NAME]`
fn item(rest: &[Token<'_>], context: Context<'_>) -> Parsed<ExtractItem> {
    let named = rest.iter().rposition(|token| token.is("as")).filter(|at| *at > 0);
    let (what, name) = named.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + 1..])));
    let mut input = TokenSlice::new(what);
    let attribute = opt(alt((attribute, text_of.value(None)))).parse_next(&mut input)?.flatten();
    let list = opt(phrase(ALL)).parse_next(&mut input)?.is_some();
    let target = whole(input.finish(), list, context.message)?;
    let name = match (name, &target) {
        (Some(name), _) => text(name, context)?,
        (None, ElementQuery::Described { role: Some(role), words }) if words.is_empty() => role.clone(),
        (None, ElementQuery::Css(words) | ElementQuery::Described { words, .. } | ElementQuery::Ref(words)) => {
            words.clone()
        }
    };
    let attribute = attribute.map(|token| token.text.to_string());
    Ok(ExtractItem { name, target, attribute, list })
}

fn text_of(input: &mut Tokens<'_>) -> Parsed<()> {
    (articles, phrase(&["text of", "words of", "content of", "contents of"])).void().parse_next(input)
}

/// `the attribute "x" of`, `the "x" attribute of`, `the href of`
fn attribute<'m>(input: &mut Tokens<'m>) -> Parsed<Option<&'m Token<'m>>> {
    let known = word.verify(|token: &&Token<'m>| ATTRIBUTES.iter().any(|name| token.is(name)));
    let named = alt((preceded(phrase(&["attribute"]), quote), terminated(quote, phrase(&["attribute"])), known));
    preceded(articles, terminated(named, phrase(&["of"]))).map(Some).parse_next(input)
}
