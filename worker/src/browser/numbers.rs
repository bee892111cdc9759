//! The rule is in the contract (operations 20). The separators themselves decide wherever only one reading is possible,
//! and the language of the text decides the rest, such as `1.234`.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use serde_json::{Number, Value};

/// Zeros of the decimal digits (category Nd of Unicode 16). Nine more digits follow each of them.
#[rustfmt::skip]
const ZEROS: [u32; 76] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
    0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620,
    0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x10d40, 0x11066, 0x110f0, 0x11136,
    0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x116d0, 0x116da, 0x11730, 0x118e0, 0x11950, 0x11bf0,
    0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16130, 0x16a60, 0x16ac0, 0x16b50, 0x16d70, 0x1ccf0, 0x1d7ce, 0x1d7d8,
    0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e5f1, 0x1e950, 0x1fbf0,
];

static CURRENCY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\p{Sc}$").expect("a test compiles the pattern"));

/// From CLDR.
#[derive(Debug, Clone, Deserialize)]
pub struct Separators {
    /// With the digits 0 to 9.
    decimal: String,
    /// With the digits 0 to 9.
    group: String,
}

impl Separators {
    fn decimal_is(&self, separator: char) -> bool {
        self.decimal.chars().eq([separator])
    }

    fn group_is_space(&self) -> bool {
        self.group.chars().all(char::is_whitespace)
    }
}

pub fn numeric_part(text: &str, language: &Separators) -> Value {
    let text: Vec<char> = text.chars().filter(|&character| !is_ignored(character)).map(plain).collect();
    parse(&text, language).map_or(Value::Null, Value::Number)
}

fn parse(text: &[char], language: &Separators) -> Option<Number> {
    let first_digit = text.iter().position(char::is_ascii_digit)?;
    let has_leading_mark = leads_fraction(&text[..first_digit]);
    let start = if has_leading_mark { first_digit - 1 } else { first_digit };
    let mut digits = if has_leading_mark {
        let end = first_digit + digits_at(text, first_digit);
        Digits { whole: String::new(), fraction: text[first_digit..end].iter().collect(), end }
    } else {
        Groups::read(text, first_digit).digits(text, language)
    };
    let exponent = exponent_at(text, start, &mut digits.end);
    let is_negative = has_sign_before(text, start)
        || has_sign_after(text, digits.end)
        || is_in_brackets(text, start, digits.end, digits.fraction.len());

    let sign = if is_negative { "-" } else { "" };
    let Digits { whole, fraction, .. } = digits;
    if fraction.chars().all(|digit| digit == '0')
        && exponent.is_empty()
        && let Ok(number) = format!("{sign}0{whole}").parse::<i64>()
    {
        return Some(number.into());
    }
    // The sum turns -0 into 0, as in `-0e1`.
    let number = format!("{sign}0{whole}.{fraction}0{exponent}").parse::<f64>().ok()? + 0.0;
    Number::from_f64(number)
}

struct Digits {
    whole: String,
    fraction: String,
    /// First index after the number.
    end: usize,
}

/// Divided by single separators, such as `1 234,50`.
struct Groups {
    first: (usize, usize),
    /// Separator before each further group, and the range of the group.
    rest: Vec<(char, usize, usize)>,
}

impl Groups {
    fn read(text: &[char], start: usize) -> Self {
        let mut end = start + digits_at(text, start);
        let first = (start, end);
        let mut rest = Vec::new();
        while let Some(&separator) = text.get(end).filter(|&&character| is_separator(character)) {
            let length = digits_at(text, end + 1);
            if length == 0 {
                break;
            }
            rest.push((separator, end + 1, end + 1 + length));
            end += 1 + length;
        }
        Self { first, rest }
    }

    fn digits(&self, text: &[char], language: &Separators) -> Digits {
        let Some(&(separator, ..)) = self.rest.first() else { return self.take(text, 0, false) };
        let count = self.count_from(0);
        let next = self.rest.get(count).map(|&(next, ..)| next);
        // A decimal separator after the groups occurs once.
        let has_fraction = next.is_some_and(is_mark) && self.count_from(count) == 1;
        let is_grouped = text[self.first.0] != '0' && self.is_grouped(count);
        if !is_mark(separator) {
            let groups = is_grouped && (separator != ' ' || self.space_groups(text, language, count, has_fraction));
            return if groups { self.take(text, count, has_fraction) } else { self.take(text, 0, false) };
        }
        let is_decimal = separator == '٫';
        match count {
            1 if is_grouped && has_fraction && !is_decimal => self.take(text, 1, true),
            1 if is_grouped && !is_decimal && !language.decimal_is(separator) => self.take(text, 1, false),
            1 => self.take(text, 0, true),
            _ if is_grouped && !is_decimal => self.take(text, count, has_fraction),
            // A date, a version, an address or a list.
            _ => self.take(text, 0, false),
        }
    }

    /// Equal separators from index `from` on.
    fn count_from(&self, from: usize) -> usize {
        let Some(&(separator, ..)) = self.rest.get(from) else { return 0 };
        self.rest[from..].iter().take_while(|&&(other, ..)| other == separator).count()
    }

    /// By thousands, or as in India (`12,34,567`).
    fn is_grouped(&self, count: usize) -> bool {
        let lengths: Vec<usize> = self.rest[..count].iter().map(|&(_, start, end)| end - start).collect();
        let Some((&last, middle)) = lengths.split_last() else { return false };
        let first = self.first.1 - self.first.0;
        let by_thousands = first <= 3 && middle.iter().all(|&length| length == 3);
        let as_in_india = first <= 2 && middle.iter().all(|&length| length == 2);
        last == 3 && (by_thousands || as_in_india)
    }

    /// Ordinary spaces can also divide two numbers, such as a model and a size.
    fn space_groups(&self, text: &[char], language: &Separators, count: usize, has_fraction: bool) -> bool {
        let (start, end) = (self.first.0, self.rest[count - 1].2);
        let is_price = currency_before(text, start).is_some() || currency_after(text, end);
        let follows_word = text[..start].iter().any(|character| character.is_alphabetic());
        language.group_is_space() || has_fraction || count > 1 || is_price || !follows_word
    }

    /// The first group, `count` further ones, and the fraction.
    fn take(&self, text: &[char], count: usize, has_fraction: bool) -> Digits {
        let mut whole: String = text[self.first.0..self.first.1].iter().collect();
        let mut end = self.first.1;
        for &(_, start, after) in &self.rest[..count] {
            whole.extend(&text[start..after]);
            end = after;
        }
        let mut fraction = String::new();
        if let Some(&(_, start, after)) = self.rest.get(count).filter(|_| has_fraction) {
            fraction.extend(&text[start..after]);
            end = after;
        }
        Digits { whole, fraction, end }
    }
}

fn digits_at(text: &[char], start: usize) -> usize {
    text.get(start..).unwrap_or_default().iter().take_while(|character| character.is_ascii_digit()).count()
}

/// A decimal separator that has no digit before it, as in `,89`.
fn leads_fraction(before: &[char]) -> bool {
    match before {
        [.., previous, mark] => is_mark(*mark) && !previous.is_alphanumeric() && !is_mark(*previous),
        [mark] => is_mark(*mark),
        [] => false,
    }
}

/// Such as `e-7`. Moves `end` behind it.
fn exponent_at(text: &[char], start: usize, end: &mut usize) -> String {
    let joins = start.checked_sub(1).is_some_and(|before| text[before].is_alphanumeric());
    if joins || !matches!(text.get(*end), Some('e' | 'E')) {
        return String::new();
    }
    let (sign, first) = match text.get(*end + 1) {
        Some('+') => ("", *end + 2),
        Some(&sign) if is_minus(sign) => ("-", *end + 2),
        _ => ("", *end + 1),
    };
    let after = first + digits_at(text, first);
    if !(1..=3).contains(&(after - first)) || text.get(after).is_some_and(|next| next.is_alphanumeric()) {
        return String::new();
    }
    *end = after;
    format!("e{sign}{}", text[first..after].iter().collect::<String>())
}

/// Or before its currency. A hyphen after a letter or a digit joins words.
fn has_sign_before(text: &[char], start: usize) -> bool {
    let signs = |at: usize| {
        let joins = at.checked_sub(2).is_some_and(|before| text[before].is_alphanumeric());
        at > 0 && is_minus(text[at - 1]) && !joins
    };
    let is_spaced = match text[..start] {
        // A hyphen before an ordinary space is a dash or a bullet.
        [.., sign, ' '] => sign == '−',
        [.., _, '\u{a0}'] => true,
        _ => false,
    };
    signs(start) || (is_spaced && signs(start - 1)) || currency_before(text, start).is_some_and(signs)
}

/// As in some ledgers.
fn has_sign_after(text: &[char], end: usize) -> bool {
    let is_sign = matches!(text.get(end), Some('-' | '−' | '－' | '﹣'));
    let next = text.get(end + 1..).unwrap_or_default().iter().position(|character| !character.is_whitespace());
    let next = next.map(|offset| end + 1 + offset);
    is_sign && next.is_none_or(|next| is_currency(text[next]) || text[next] == '%' || is_code(text, next))
}

/// A number of things in brackets is not an amount.
fn is_in_brackets(text: &[char], start: usize, end: usize, decimals: usize) -> bool {
    let (before, after) = (&text[..start], &text[end..]);
    let one = |part: &[char], bracket: char| part.iter().filter(|&&character| character == bracket).count() == 1;
    let others = || before.iter().chain(after);
    let is_rest = |&character: &char| {
        is_currency(character)
            || character.is_whitespace()
            || character.is_ascii_uppercase()
            || "()%".contains(character)
    };
    let is_amount = decimals == 2 || others().any(|&character| is_currency(character));
    is_amount && one(before, '(') && one(after, ')') && others().all(is_rest)
}

/// Such as `€`, `US$` or `USD`.
fn currency_before(text: &[char], start: usize) -> Option<usize> {
    let mut at = start;
    if at > 0 && matches!(text[at - 1], ' ' | '\u{a0}') {
        at -= 1;
    }
    let symbols = text[..at].iter().rev().take_while(|&&character| is_currency(character)).take(1).count();
    at -= symbols;
    let letters = text[..at].iter().rev().take(4).take_while(|character| character.is_alphabetic()).count();
    let word: String = text[at - letters..at].iter().collect();
    let is_code = letters == 3 && word.chars().all(|letter| letter.is_ascii_uppercase());
    let is_prefix = symbols == 1 && (1..3).contains(&letters) && word.chars().all(|letter| letter.is_ascii_uppercase());
    if is_code || is_prefix || matches!(word.as_str(), "kr" | "Kč" | "zł" | "Ft" | "Rs") {
        return Some(at - letters);
    }
    (symbols == 1).then_some(at)
}

fn currency_after(text: &[char], end: usize) -> bool {
    match text.get(end..).unwrap_or_default() {
        [' ' | '\u{a0}', next, ..] | [next, ..] => is_currency(*next),
        [] => false,
    }
}

/// Three capital letters.
fn is_code(text: &[char], start: usize) -> bool {
    let letters = text[start..].iter().take(4).take_while(|character| character.is_ascii_uppercase()).count();
    letters == 3 && text.get(start + 3).is_none_or(|next| !next.is_alphanumeric())
}

fn is_currency(character: char) -> bool {
    !character.is_alphanumeric() && CURRENCY.is_match(character.encode_utf8(&mut [0; 4]))
}

const fn is_minus(character: char) -> bool {
    matches!(character, '-' | '−' | '‐' | '‑' | '‒' | '–' | '—' | '⁻' | '－' | '﹣')
}

const fn is_mark(character: char) -> bool {
    matches!(character, '.' | ',' | '٫')
}

const fn is_separator(character: char) -> bool {
    is_mark(character) || matches!(character, ' ' | '\u{a0}' | '\'' | '٬')
}

/// Soft hyphens, and characters without a width.
const fn is_ignored(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Digits and separators of other scripts become ASCII. All spaces that do not break are the same.
fn plain(character: char) -> char {
    match character {
        '\0'..='&' | '('..='\u{9f}' => character,
        '\u{2005}'..='\u{200a}' | '\u{202f}' => '\u{a0}',
        '’' | '‘' | 'ʼ' | '＇' => '\'',
        '．' | '﹒' => '.',
        '，' | '﹐' => ',',
        '（' => '(',
        '）' => ')',
        _ => digit(character).unwrap_or(character),
    }
}

fn digit(character: char) -> Option<char> {
    let code = u32::from(character);
    let zero = ZEROS[..ZEROS.partition_point(|&zero| zero <= code)].last()?;
    char::from_digit(code - zero, 10)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn separators(decimal: &str, group: &str) -> Separators {
        Separators { decimal: decimal.to_owned(), group: group.to_owned() }
    }

    fn english() -> Separators {
        separators(".", ",")
    }

    fn german() -> Separators {
        separators(",", ".")
    }

    fn french() -> Separators {
        separators(",", "\u{202f}")
    }

    fn assert_numbers(language: &Separators, cases: &[(&str, Value)]) {
        for (text, number) in cases {
            assert_eq!(numeric_part(text, language), *number, "{text:?} with {language:?}");
        }
    }

    #[test]
    fn first_number_is_parsed_in_common_notations() {
        let cases = [
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
            ("No.5", json!(5)),
            ("...5", json!(5)),
            ("10%", json!(10)),
            ("007", json!(7)),
            ("-0", json!(0)),
            ("-0.0", json!(0)),
            (".0", json!(0)),
            ("none", json!(null)),
            ("½", json!(null)),
            ("", json!(null)),
        ];
        assert_numbers(&english(), &cases);
    }

    #[test]
    fn separators_that_cannot_group_are_decimal() {
        let cases = [
            ("0,750 kg", json!(0.75)),
            ("−0,004", json!(-0.004)),
            ("1234,567", json!(1234.567)),
            ("1 299,000 BYN", json!(1299)),
            (",89 €", json!(0.89)),
            ("1\u{2009}234,50", json!(1234.5)),
            ("1'234'567.89", json!(1_234_567.89)),
            ("1’234", json!(1234)),
            ("5'11\"", json!(5)),
            ("12,34,567.89", json!(1_234_567.89)),
            ("1,23,456", json!(123_456)),
            ("1.234,567", json!(1234.567)),
            ("1,234.-", json!(1234)),
            ("5,–", json!(5)),
            ("4.5,3.8", json!(4.5)),
        ];
        assert_numbers(&english(), &cases);
    }

    #[test]
    fn separators_that_repeat_without_groups_end_the_number() {
        let cases = [
            ("1,2,3", json!(1)),
            ("1, 2, 3", json!(1)),
            ("12.05.2024", json!(12)),
            ("2024-05-12", json!(2024)),
            ("Version 17.5.1", json!(17)),
            ("192.168.0.1", json!(192)),
            ("12:30", json!(12)),
            ("1,234,56", json!(1)),
            ("0,123,456", json!(0)),
            ("iPhone 16 128 GB", json!(16)),
            ("16\n128", json!(16)),
            ("555 123 4567", json!(555)),
            ("10–20 €", json!(10)),
            ("$10 - $20", json!(10)),
        ];
        assert_numbers(&english(), &cases);
    }

    #[test]
    fn digits_and_separators_of_other_scripts_are_parsed() {
        let cases = [
            ("٣ items 12", json!(3)),
            ("١٢٬٣٤٥٫٦٧", json!(12345.67)),
            ("١٬٢٣٤", json!(1234)),
            ("۱۲٬۳۴۵ تومان", json!(12345)),
            ("۱٫۲۳۴", json!(1.234)),
            ("٫٥", json!(0.5)),
            ("१२,३४,५६७.८९", json!(1_234_567.89)),
            ("১২,৩৪৫", json!(12345)),
            ("฿๑,๒๓๔.๕๐", json!(1234.5)),
            ("１２３", json!(123)),
            ("￥１，２３４．５６", json!(1234.56)),
            ("\u{200f}-\u{200f}٥", json!(-5)),
            ("1\u{200b}234\u{ad}5", json!(12345)),
        ];
        assert_numbers(&english(), &cases);
    }

    #[test]
    fn language_decides_about_one_separator_before_three_digits() {
        for (text, in_english, in_german, in_french) in [
            ("1.234", json!(1.234), json!(1234), json!(1234)),
            ("1,234", json!(1234), json!(1.234), json!(1.234)),
            ("-12.345 €", json!(-12.345), json!(-12345), json!(-12345)),
            ("Modell 16 128", json!(16), json!(16), json!(16128)),
            ("1.234.567", json!(1_234_567), json!(1_234_567), json!(1_234_567)),
            ("1,5", json!(1.5), json!(1.5), json!(1.5)),
        ] {
            assert_numbers(&english(), &[(text, in_english)]);
            assert_numbers(&german(), &[(text, in_german)]);
            assert_numbers(&french(), &[(text, in_french)]);
        }
    }

    #[test]
    fn minus_signs_of_any_script_are_parsed() {
        let cases = [
            ("–5 °C", json!(-5)),
            ("‑5", json!(-5)),
            ("－5", json!(-5)),
            ("‒5", json!(-5)),
            ("− 5", json!(-5)),
            ("- 5 eggs", json!(5)),
            ("-\u{a0}5", json!(-5)),
            ("-US$5", json!(-5)),
            ("-USD 5.00", json!(-5)),
            ("-kr 5", json!(-5)),
            ("− € 5", json!(5)),
            ("−€ 5", json!(-5)),
            ("5.00-", json!(-5)),
            ("1.234,56- EUR", json!(-1234.56)),
            ("5- inch", json!(5)),
            ("($1,234.56)", json!(-1234.56)),
            ("$(12)", json!(-12)),
            ("(1,234.56)", json!(-1234.56)),
            ("(12)", json!(12)),
            ("(1,234)", json!(1234)),
            ("(4.5)", json!(4.5)),
            ("Cart ($5.00)", json!(5)),
            ("+5", json!(5)),
        ];
        assert_numbers(&english(), &cases);
    }

    #[test]
    fn spaces_group_a_price_after_a_word() {
        let cases = [
            ("Total 12 345 €", json!(12345)),
            ("Total € 12 345", json!(12345)),
            ("Total PLN 12 345", json!(12345)),
            ("Population 1 234 567", json!(1_234_567)),
            ("Total 12\u{a0}345", json!(12345)),
            ("Total 12 345,60", json!(12345.6)),
            ("Total 12 345", json!(12)),
        ];
        assert_numbers(&english(), &cases);
    }

    #[test]
    fn exponents_are_parsed() {
        let cases = [
            ("1e5", json!(1e5)),
            ("1.5E+3", json!(1500.0)),
            ("2e-7 m", json!(2e-7)),
            ("2e−7", json!(2e-7)),
            ("5 eggs", json!(5)),
            ("5e", json!(5)),
            ("x1e5", json!(1)),
            ("1e999", json!(null)),
            ("1e5x", json!(1)),
        ];
        assert_numbers(&english(), &cases);
    }

    #[test]
    fn every_decimal_digit_of_unicode_is_known() {
        let pattern = Regex::new(r"^\d$").expect("a pattern");
        for character in '\0'..=char::MAX {
            // Only characters that can be digits, because the pattern is slow.
            let known = plain(character).is_ascii_digit();
            if known || (character.is_numeric() && !character.is_alphabetic()) {
                assert_eq!(known, pattern.is_match(character.encode_utf8(&mut [0; 4])), "{character:?}");
            }
        }
    }

    #[test]
    fn megabyte_of_text_is_parsed_in_linear_time() {
        let started = Instant::now();
        for unit in ["1", "1,", "1 ", "123 ", "123,", "1.", "-", "$", "(", "x", "٣٬", "1e", ",", " "] {
            let text = unit.repeat(1_000_000 / unit.len());
            let _ = numeric_part(&text, &english());
            let _ = numeric_part(&format!("{text}7"), &french());
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text in r"[\-−(,. '٫٬ €$eE1234567890٣a\u{a0}]{0,20}") {
            let number = numeric_part(&text, &english());
            let has_digit = text.chars().map(plain).any(|character| character.is_ascii_digit());
            prop_assert!(number.is_number() == has_digit || number.is_null());
        }

        #[test]
        fn formatted_numbers_are_parsed(number in 0..10_000_000_u32, cents in 0..100_u32) {
            let groups = |separator: &str| {
                let digits = number.to_string();
                let parts: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
                parts.join(separator)
            };
            let decimal = format!("{number}.{cents:02}").parse::<f64>().expect("a number");
            let expected = if cents == 0 { json!(number) } else { json!(decimal) };
            for (group, decimal) in [(",", "."), (".", ","), (" ", ","), ("\u{202f}", ","), ("'", "."), ("٬", "٫")] {
                let text = format!("{}{decimal}{cents:02}", groups(group));
                prop_assert_eq!(&numeric_part(&text, &english()), &expected, "{}", text);
            }
        }
    }
}
