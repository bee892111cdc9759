//! Parser for dates, as HTML writes them and as people do.

use chrono::NaiveDate;
use kitfleet_types::commands::Command;

use super::Context;
use super::errors::{GrammarError, GrammarErrorKind};
use super::targets::{Parsed, error_at, split, stop, whole};
use super::tokens::Token;
use super::vocabulary::{INTO, MONTHS, WITH};

/// `TARGET to DATE`, or `DATE in TARGET`
pub fn set(verb_token: &Token<'_>, rest: &[Token<'_>], context: Context<'_>) -> Parsed<Command> {
    let parts = split(rest, WITH).map(|(target, _, date)| (target, date));
    let Some((target, date)) = parts.or_else(|| split(rest, INTO).map(|(date, _, target)| (target, date))) else {
        let kind = GrammarErrorKind::reason("must name the field and the date");
        return stop(GrammarError::at(verb_token.span.clone(), kind));
    };
    let value = read(date)?;
    Ok(Command::Fill { target: whole(target, false, context.message)?, value })
}

fn read(tokens: &[Token<'_>]) -> Parsed<String> {
    let fail = |words: &'static str| stop(error_at(tokens, GrammarErrorKind::reason(words)));
    let text = tokens.iter().map(|token| &*token.text).collect::<Vec<_>>().join(" ");
    let parts: Vec<_> =
        text.split([' ', '-', '/', '.', ',']).filter(|part| !part.is_empty() && *part != "of").collect();
    let number =
        |part: &str| if part.bytes().all(|byte| byte.is_ascii_digit()) { part.parse::<u32>().ok() } else { None };
    let &[first, second, third] = &parts[..] else { return fail("is not a date; write it as 2026-12-24") };
    let is_year = |part: &str| part.len() == 4 && number(part).is_some();
    let (year, month, day) = match (month(first), month(second)) {
        (None, None) if is_year(first) => (number(first), number(second), number(third)),
        (None, None) if is_year(third) => match (number(first), number(second)) {
            (Some(one), Some(other)) if one == other || other > 12 => (number(third), Some(one), Some(other)),
            (Some(one), Some(other)) if one > 12 => (number(third), Some(other), Some(one)),
            (Some(_), Some(_)) => return fail("could be two dates; write it as 2026-12-24"),
            _ => (None, None, None),
        },
        (Some(month), None) if is_year(third) => (number(third), Some(month), number(without_ending(second))),
        (None, Some(month)) if is_year(third) => (number(third), Some(month), number(without_ending(first))),
        _ => (None, None, None),
    };
    let date = year
        .zip(month)
        .zip(day)
        .and_then(|((year, month), day)| NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day));
    match date {
        Some(date) => Ok(date.format("%Y-%m-%d").to_string()),
        None => fail("is not a date; write it as 2026-12-24"),
    }
}

/// Returns the number of a month, by its name or the first three letters of it.
fn month(part: &str) -> Option<u32> {
    MONTHS.iter().zip(1..).find(|(name, _)| is_month(part, name)).map(|(_, number)| number)
}

fn is_month(part: &str, name: &str) -> bool {
    [name, &name[..3]].iter().any(|known| part.eq_ignore_ascii_case(known))
        || (name == "september" && part.eq_ignore_ascii_case("sept"))
}

/// Removes the ending of `24th`.
fn without_ending(part: &str) -> &str {
    let lower = part.get(part.len().saturating_sub(2)..).unwrap_or_default().to_ascii_lowercase();
    if ["st", "nd", "rd", "th"].contains(&lower.as_str()) { &part[..part.len() - 2] } else { part }
}
