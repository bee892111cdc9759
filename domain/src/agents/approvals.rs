//! Decides which steps need the customer's approval before they run (contract: agents 19, 44), from the page and fixed
//! rules, never from the author of the plan.
//!
//! The page chooses the names of its controls. A name is folded before the comparison, so that full-width and styled
//! letters, diacritics, invisible characters, look-alike letters and spaced-out letters do not evade the word list.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use kitfleet_types::commands::Command;
use kitfleet_types::operations::Match;
use serde::Deserialize;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Words that need approval, by language and by effect. A phrase matches consecutive words, `word*` the beginning of a
/// word, `*word` its end, and `=word` only a name that equals it.
const WORDS: &str = include_str!("approval_words.json");

/// The page scripts already cut names to 1,000.
const MAX_CHARS: usize = 2_000;

/// Consecutive single letters that are also read as one word.
const FEWEST_SPACED_LETTERS: usize = 3;

#[derive(Deserialize)]
struct Language {
    #[serde(default)]
    endings: Vec<String>,
    /// The language does not separate words, so its words match anywhere in a name.
    #[serde(default)]
    anywhere: bool,
    words: BTreeMap<String, Vec<String>>,
}

/// Find all words in one pass over a name.
struct ApprovalWords {
    separate: AhoCorasick,
    anywhere: AhoCorasick,
}

static CONSEQUENCES: LazyLock<ApprovalWords> = LazyLock::new(|| {
    let languages: Vec<Language> =
        serde_json::from_str(WORDS).unwrap_or_else(|error| unreachable!("the words are part of the program: {error}"));
    let (mut separate, mut anywhere) = (Vec::new(), Vec::new());
    for language in &languages {
        let words = language.words.values().flatten();
        if language.anywhere {
            anywhere.extend(words.map(|word| together(word)));
        } else {
            separate.extend(words.flat_map(|word| patterns(word, &language.endings)));
        }
    }
    let build = |patterns: &[String]| {
        AhoCorasick::new(patterns).unwrap_or_else(|error| unreachable!("there are few words: {error}"))
    };
    ApprovalWords { separate: build(&separate), anywhere: build(&anywhere) }
});

/// Returns the patterns of a word. They are searched for in texts normalized by [`apart`].
fn patterns(word: &str, endings: &[String]) -> Vec<String> {
    let folded = |word: &str| tokens(&fold(word)).collect::<Vec<_>>().join(" ");
    if let Some(whole) = word.strip_prefix('=') {
        return vec![format!("^ {} $", folded(whole))];
    }
    if let Some(end) = word.strip_prefix('*') {
        return vec![format!("{} ", folded(end))];
    }
    if let Some(beginning) = word.strip_suffix('*') {
        return vec![format!(" {}", folded(beginning))];
    }
    let word = folded(word);
    let mut patterns = vec![format!(" {word} ")];
    if !word.contains(' ') {
        patterns.extend(endings.iter().map(|ending| format!(" {word}{ending} ")));
        if let Some(stem) = word.strip_suffix('e') {
            patterns.extend(endings.iter().map(|ending| format!(" {stem}{ending} ")));
        }
    }
    patterns
}

/// The control has an effect that cannot be undone.
#[must_use]
pub fn is_consequential(name: &str) -> bool {
    let name: String = name.chars().take(MAX_CHARS).nfkc().collect();
    let ApprovalWords { separate, anywhere } = &*CONSEQUENCES;
    let folded = fold(&name);
    let latin = fold(&name.chars().map(look_alike).collect::<String>());
    separate.is_match(&apart(&folded))
        || latin != folded && separate.is_match(&apart(&latin))
        || separate.is_match(&apart(&with_letters_for_digits(&latin)))
        || anywhere.is_match(&together(&name))
}

/// `found` is the resolved element.
#[must_use]
pub fn submits(command: &Command, found: &Match) -> bool {
    // No role is exempt: a page can give an element any role, and the element's script can do anything on a tap.
    let says_so = || is_consequential(&found.name) || found.text.lines().any(is_consequential);
    match command {
        Command::Tap { .. }
        | Command::DoubleTap { .. }
        | Command::LongPress { .. }
        | Command::Check { .. }
        | Command::Drag { .. }
        | Command::Swipe { .. }
        | Command::Dialog { accept: true, .. } => found.submits || says_so(),
        // A line break in a form field acts like Enter.
        Command::Type { value, .. } | Command::Fill { value, .. } => found.form_field && value.contains(['\n', '\r']),
        Command::Press { key } => match Activation::of(key) {
            Some(Activation::Enter) => found.form_field || found.submits || says_so(),
            Some(Activation::Space) => found.submits || says_so(),
            None => false,
        },
        _ => false,
    }
}

/// The focused element must be examined first.
#[must_use]
pub fn depends_on_focus(key: &str) -> bool {
    Activation::of(key).is_some()
}

/// Approval of a step that only enters text does not cover a submission.
#[must_use]
pub fn may_submit(command: &Command) -> bool {
    match command {
        Command::Type { value, .. } | Command::Fill { value, .. } => value.contains(['\n', '\r']),
        Command::Press { key } => depends_on_focus(key),
        Command::Select { .. } | Command::Scroll { .. } | Command::Hover { .. } => false,
        _ => true,
    }
}

enum Activation {
    Enter,
    Space,
}

impl Activation {
    fn of(key: &str) -> Option<Self> {
        match key.rsplit('+').next().unwrap_or(key).to_ascii_lowercase().as_str() {
            "enter" | "return" | "numpadenter" | "\n" | "\r" => Some(Self::Enter),
            "space" | " " | "spacebar" => Some(Self::Space),
            _ => None,
        }
    }
}

fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let letters = text.nfkc().filter(|letter| !is_ignorable(*letter)).flat_map(char::to_lowercase).nfd();
    for letter in letters.filter(|letter| !is_combining_mark(*letter)) {
        match letter {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ł' => folded.push('l'),
            'ø' => folded.push('o'),
            'đ' => folded.push('d'),
            'ı' => folded.push('i'),
            letter => folded.push(letter),
        }
    }
    folded
}

fn tokens(folded: &str) -> impl Iterator<Item = &str> {
    folded.split(|letter: char| !letter.is_alphanumeric()).filter(|token| !token.is_empty())
}

/// Joins the words of a folded name with single spaces, between the markers `^` and `$`. A run of single letters is added as one
/// word.
fn apart(folded: &str) -> String {
    let mut words = "^ ".to_owned();
    let (mut run, mut letters) = (String::new(), 0);
    let mut joined = String::new();
    // The empty token at the end completes the last run of letters.
    for token in tokens(folded).chain([""]) {
        if token.chars().count() == 1 {
            run.push_str(token);
            letters += 1;
        } else {
            if letters >= FEWEST_SPACED_LETTERS {
                joined.push_str(&run);
                joined.push(' ');
            }
            run.clear();
            letters = 0;
        }
        if !token.is_empty() {
            words.push_str(token);
            words.push(' ');
        }
    }
    if joined.is_empty() { words + "$" } else { words + &joined + "$" }
}

/// Joins the letters and digits of a name without separators. Keeps diacritics, because in these languages they form other
/// letters.
fn together(name: &str) -> String {
    let letters = name.nfkc().filter(|letter| !is_ignorable(*letter)).flat_map(char::to_lowercase);
    letters.filter(|letter| letter.is_alphanumeric()).collect()
}

/// Replaces digits within words by the letters they resemble.
fn with_letters_for_digits(folded: &str) -> String {
    let word = |token: &str| -> String {
        if !token.chars().any(char::is_alphabetic) {
            return token.to_owned();
        }
        let letter = |letter| match letter {
            '0' => 'o',
            '1' => 'l',
            '3' => 'e',
            '4' => 'a',
            '5' => 's',
            letter => letter,
        };
        token.chars().map(letter).collect()
    };
    tokens(folded).map(word).collect::<Vec<_>>().join(" ")
}

/// Default ignorable code points.
fn is_ignorable(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the Latin letter that a small capital or a letter of another script resembles.
fn look_alike(letter: char) -> char {
    match letter {
        'А' | 'Α' => 'A',
        'а' | 'α' | 'ɑ' | 'ᴀ' => 'a',
        'В' | 'Β' => 'B',
        'в' | 'ь' | 'β' | 'ʙ' => 'b',
        'С' => 'C',
        'с' | 'ς' | 'ᴄ' => 'c',
        'ԁ' | 'ᴅ' => 'd',
        'Е' | 'Ε' => 'E',
        'е' | 'ε' | 'ᴇ' => 'e',
        'ꜰ' => 'f',
        'ɡ' | 'ɢ' => 'g',
        'Н' | 'Η' => 'H',
        'н' | 'һ' | 'հ' | 'ʜ' => 'h',
        'І' | 'Ι' => 'I',
        'і' | 'ι' | 'ɪ' => 'i',
        'Ј' => 'J',
        'ј' | 'ᴊ' => 'j',
        'К' | 'Κ' => 'K',
        'к' | 'κ' | 'ᴋ' => 'k',
        'ӏ' | 'Ӏ' | 'ʟ' => 'l',
        'М' | 'Μ' => 'M',
        'м' | 'ᴍ' => 'm',
        'Ν' => 'N',
        'п' | 'η' | 'ո' | 'ɴ' => 'n',
        'О' | 'Ο' => 'O',
        'о' | 'ο' | 'σ' | 'օ' | 'ᴏ' => 'o',
        'Р' | 'Ρ' => 'P',
        'р' | 'ρ' | 'ᴘ' => 'p',
        'ԛ' => 'q',
        'г' | 'ʀ' => 'r',
        'Ѕ' => 'S',
        'ѕ' | 'ꜱ' => 's',
        'Т' | 'Τ' => 'T',
        'т' | 'τ' | 'ᴛ' => 't',
        'υ' | 'ս' | 'ᴜ' => 'u',
        'ѵ' | 'ν' | 'ᴠ' => 'v',
        'ԝ' | 'ω' | 'ᴡ' => 'w',
        'Х' | 'Χ' => 'X',
        'х' | 'χ' => 'x',
        'У' | 'Υ' | 'Ү' => 'Y',
        'у' | 'γ' | 'ү' | 'ʏ' => 'y',
        'Ζ' => 'Z',
        'ᴢ' => 'z',
        letter => letter,
    }
}

#[cfg(test)]
mod tests;
