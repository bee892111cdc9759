//! Parsers for gestures, and for the position that pages see.

use kitfleet_types::commands::{Command, Degrees, DragEnd};
use winnow::combinator::{eof, opt, preceded, repeat, terminated};
use winnow::prelude::*;
use winnow::stream::TokenSlice;

use super::Context;
use super::errors::{GrammarError, GrammarErrorKind};
use super::targets::{Parsed, Tokens, all, articles, count, error_at, one_of, phrase, split, stop, whole};
use super::tokens::Token;
use super::values::distance;
use super::vocabulary::{DIRECTIONS, ONTO, SWIPES};

/// Shortest and longest swipe in CSS pixels.
const SWIPED: std::ops::RangeInclusive<i64> = 10..=5_000;
/// CSS pixels in one direction.
const DRAGGED: i64 = 5_000;

/// `TARGET DIRECTION by N`, or `TARGET to TARGET`
pub fn drag<'m>(verb_token: &Token<'_>, rest: &'m [Token<'m>], context: Context<'_>) -> Parsed<Command> {
    let by = (1..rest.len()).find_map(|at| Some((&rest[..at], moves(&rest[at..]).ok()?)));
    if let Some((target, (delta_x, delta_y))) = by {
        let pixels = |delta: i64| i32::try_from(delta).ok().filter(|delta| i64::from(delta.abs()) <= DRAGGED);
        let (Some(delta_x), Some(delta_y)) = (pixels(delta_x), pixels(delta_y)) else {
            let kind = format!("drags by more than {DRAGGED} pixels");
            return stop(error_at(rest, GrammarErrorKind::reason(kind)));
        };
        let target = whole(target, false, context.message)?;
        return Ok(Command::Drag { target, to: DragEnd::By { delta_x, delta_y } });
    }
    let Some((target, to, end)) = split(rest, ONTO) else {
        let kind =
            "must name the element to drag, and where to: another element, or a direction and a number of pixels";
        return stop(GrammarError::at(verb_token.span.clone(), GrammarErrorKind::reason(kind)));
    };
    if count(rest, ONTO) > 1 {
        let kind = GrammarErrorKind::reason("could be part of a name; put the names in quotes");
        return stop(GrammarError::at(to.span.clone(), kind));
    }
    let end = DragEnd::Element(whole(end, false, context.message)?);
    Ok(Command::Drag { target: whole(target, false, context.message)?, to: end })
}

/// Returns the pixels to the right and down of one or two directions.
fn moves<'m>(tokens: &'m [Token<'m>]) -> Parsed<(i64, i64)> {
    let mut input = TokenSlice::new(tokens);
    let directions: Vec<_> = repeat(1..=2, direction).parse_next(&mut input)?;
    let sum = match directions[..] {
        [one] => one,
        [(x, 0), (0, y)] | [(0, y), (x, 0)] => (x, y),
        // Two movements along one line could be a correction.
        _ => return stop(error_at(tokens, GrammarErrorKind::reason("moves twice along one line"))),
    };
    all(input.finish(), eof, sum)
}

/// `right by N`
fn direction(input: &mut Tokens<'_>) -> Parsed<(i64, i64)> {
    let direction = one_of(DIRECTIONS.into_iter().map(|(direction, word)| (word, direction)));
    let ((x, y), pixels) = (direction, pixels).parse_next(input)?;
    Ok((x * pixels, y * pixels))
}

/// `by N pixels`
fn pixels(input: &mut Tokens<'_>) -> Parsed<i64> {
    preceded(opt(phrase(&["by"])), terminated(distance, opt(phrase(&["px", "pixels", "pixel"])))).parse_next(input)
}

/// `DIRECTION [by N] [on TARGET]`
pub fn swipe(rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    let mut input = TokenSlice::new(rest);
    let direction = one_of(SWIPES).parse_next(&mut input)?;
    let distance = match opt(pixels).parse_next(&mut input)? {
        Some(distance) if !SWIPED.contains(&distance) => {
            let kind = format!("swipes by other than {} to {} pixels", SWIPED.start(), SWIPED.end());
            return stop(error_at(rest, GrammarErrorKind::reason(kind)));
        }
        distance => distance.and_then(|distance| u32::try_from(distance).ok()),
    };
    let within = preceded(phrase(&["on", "in", "inside", "within", "over", "across"]), winnow::token::rest);
    let target = match opt(within).parse_next(&mut input)? {
        Some(tokens) if all(tokens, (articles, phrase(&["page", "screen"])), ()).is_ok() => None,
        Some(tokens) => Some(whole(tokens, false, context.message)?),
        None => None,
    };
    all(input.finish(), eof, Command::Swipe { direction, distance, target })
}

/// Quoted as one text, or as written.
pub fn location(verb_token: &Token<'_>, rest: &[Token<'_>]) -> Parsed<Command> {
    let text = rest.iter().map(|token| &*token.text).collect::<Vec<_>>().join(" ");
    let numbers: Vec<_> = text.split([' ', ',']).filter(|number| !number.is_empty()).collect();
    let degrees = match numbers[..] {
        [latitude, longitude] => {
            Degrees::parse(latitude, Degrees::LATITUDE).zip(Degrees::parse(longitude, Degrees::LONGITUDE))
        }
        _ => None,
    };
    if let Some((latitude, longitude)) = degrees {
        return Ok(Command::SetLocation { latitude, longitude });
    }
    let kind = "needs two numbers: the latitude of -90 to 90 degrees and the longitude of -180 to 180 degrees";
    stop(GrammarError::at(verb_token.span.clone(), GrammarErrorKind::reason(kind)))
}
