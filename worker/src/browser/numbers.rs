//! Numbers in text: prices, distances, counts.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Number, Value};

/// A sign before or after a currency symbol, then digits with separators.
static NUMERIC: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"([-−]?)(?:\p{Sc}\s?)?([-−]?)(\d[\d.,'’\u{a0}\u{202f} ]*|\.\d+)").expect("a test compiles the pattern")
});

/// Returns the first number in `text`, or null.
pub fn numeric_part(text: &str) -> Value {
    parse(text).map_or(Value::Null, Value::Number)
}

fn parse(text: &str) -> Option<Number> {
    let found = NUMERIC.captures(text)?;
    let start = found.get(0)?.start();
    // In "iPhone-16" the character is a hyphen between two words.
    let joins = text[..start].chars().next_back().is_some_and(char::is_alphanumeric);
    let has_sign = !found[1].is_empty() || !found[2].is_empty();
    let negative = has_sign && !joins;
    let plain = without_groups(&found[3]);
    let signed = if negative { format!("-{plain}") } else { plain };
    match signed.parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => Number::from_f64(signed.parse().ok()?),
    }
}

/// Removes digit grouping of any locale, and returns digits with at most one decimal point.
fn without_groups(digits: &str) -> String {
    let digits: String = match spaced_groups(digits) {
        Some(joined) => joined,
        None => digits.split(is_space).next().unwrap_or_default().to_owned(),
    };
    let digits = digits.trim_end_matches(['.', ',']);
    let decimal = match (digits.rfind('.'), digits.rfind(',')) {
        // Of two kinds of separators, the later one is the decimal point.
        (Some(dot), Some(comma)) => Some(dot.max(comma)),
        (Some(dot), None) => (digits.matches('.').count() == 1).then_some(dot),
        // A single comma before three digits groups thousands, as in English.
        (None, Some(comma)) => (digits.matches(',').count() == 1 && digits.len() - comma != 4).then_some(comma),
        (None, None) => None,
    };
    let digits_of = |part: &str| part.chars().filter(char::is_ascii_digit).collect::<String>();
    match decimal {
        Some(at) => format!("{}.{}", digits_of(&digits[..at]), digits_of(&digits[at + 1..])),
        None => digits_of(digits),
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\u{a0}' | '\u{202f}' | '\'' | '’')
}

/// Joins groups of three digits that are separated by spaces, such as `1 234 567,89`. `None` when the first gap does not
/// separate groups.
fn spaced_groups(digits: &str) -> Option<String> {
    let mut groups = digits.trim_end_matches(is_space).split(is_space);
    let mut joined =
        groups.next().filter(|first| first.len() <= 3 && first.chars().all(|c| c.is_ascii_digit()))?.to_owned();
    let before = joined.len();
    for group in groups {
        let leading = group.chars().take_while(char::is_ascii_digit).count();
        if leading != 3 || joined.contains(['.', ',']) {
            break;
        }
        joined.push_str(group);
    }
    (joined.len() > before).then_some(joined)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::numeric_part;

    #[test]
    fn first_number_is_parsed_in_common_notations() {
        for (text, number) in [
            ("$1,234.50", json!(1234.5)),
            ("-3", json!(-3)),
            ("12 km", json!(12)),
            ("-$5", json!(-5)),
            ("$-5.25", json!(-5.25)),
            ("−7 °C", json!(-7)),
            ("1.234,56 €", json!(1234.56)),
            ("1 234 567,8 kr", json!(1_234_567.8)),
            ("12\u{202f}345 €", json!(12345)),
            ("3,5", json!(3.5)),
            ("1,000", json!(1000)),
            ("1.234.567", json!(1_234_567)),
            (".5", json!(0.5)),
            ("4.7 out of 5", json!(4.7)),
            ("12 345", json!(12345)),
            ("2 34", json!(2)),
            ("iPhone-16", json!(16)),
            ("Total: 42.", json!(42)),
            ("99999999999999999999", json!(1e20)),
            ("none", json!(null)),
            ("", json!(null)),
        ] {
            assert_eq!(numeric_part(text), number, "{text:?}");
        }
    }
}
