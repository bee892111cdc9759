//! Reasons why a message is not executed, and the replies made of them.

use std::borrow::Cow;
use std::ops::Range;

use kitfleet_types::commands::ParsedMessage;
use winnow::error::{ErrMode, ParserError};
use winnow::stream::{LocatingSlice, Location, TokenSlice};

use super::tokens::Token;
use super::vocabulary::{self, VERBS, Verb};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrammarError {
    /// Position of the error, or the position after which something is missing. `None` in an empty part of a step.
    span: Option<Range<usize>>,
    is_missing: bool,
    /// The reply may repeat the text at this position. Not if it could be a text to type, such as a password, because
    /// replies are stored longer.
    shown: bool,
    kind: GrammarErrorKind,
    /// The reply shows its examples.
    verb: Option<&'static Verb>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrammarErrorKind {
    Unknown,
    /// Continues a sentence that begins with the text.
    Reason(Cow<'static, str>),
    /// The command is understood.
    Refused(Cow<'static, str>),
}

impl GrammarErrorKind {
    pub fn reason(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Reason(text.into())
    }
}

/// Characters of the message that a reply repeats.
const MAX_REPEATED: usize = 40;

impl GrammarError {
    pub fn at(span: Range<usize>, kind: GrammarErrorKind) -> Self {
        Self { span: Some(span), is_missing: false, shown: true, kind, verb: None }
    }

    pub fn missing(kind: GrammarErrorKind) -> Self {
        Self { span: None, is_missing: true, shown: true, kind, verb: None }
    }

    /// The reply must not repeat the token.
    pub fn hidden(span: Range<usize>, kind: GrammarErrorKind) -> Self {
        Self { shown: false, ..Self::at(span, kind) }
    }

    /// The parser's error may be recoverable or not.
    pub fn of(error: ErrMode<Self>) -> Self {
        match error {
            ErrMode::Backtrack(error) | ErrMode::Cut(error) => error,
            // Parsers of complete input never return `Incomplete`.
            ErrMode::Incomplete(_) => Self::missing(GrammarErrorKind::Unknown),
        }
    }

    /// Adds the verb whose examples help, and its position if the error has none.
    pub fn in_step(mut self, verb: &'static Verb, verb_token: &Token<'_>) -> Self {
        self.verb = Some(verb);
        self.span.get_or_insert_with(|| verb_token.span.clone());
        self
    }

    /// The reply must not repeat the text, unless it lies within `harmless`.
    pub fn hiding_but(mut self, harmless: &Range<usize>) -> Self {
        self.shown &= self.span.as_ref().is_none_or(|span| harmless.start <= span.start && span.end <= harmless.end);
        self
    }

    pub fn into_reading(self, message: &str) -> ParsedMessage {
        let span = self.span.unwrap_or_default();
        let place = place(message, span.start);
        let subject = if self.shown && is_harmless(&message[span.clone()]) {
            format!("“{}” ({place})", excerpt(&message[span]))
        } else {
            format!("the text at {place}")
        };
        let kind = match self.kind {
            GrammarErrorKind::Refused(reason) => {
                return ParsedMessage::Refuse { reply: format!("{reason} Nothing was done: {subject}.") };
            }
            GrammarErrorKind::Unknown if self.is_missing => format!("something is missing after {subject}"),
            GrammarErrorKind::Unknown => format!("I do not understand {subject}"),
            GrammarErrorKind::Reason(text) => format!("{subject} {text}"),
        };
        let examples: Vec<_> = match self.verb {
            Some(verb) => verb.examples.iter().map(|(said, _)| *said).collect(),
            None => VERBS.iter().filter_map(|verb| verb.examples.first()).map(|(said, _)| *said).collect(),
        };
        ParsedMessage::Clarify { reply: format!("Nothing was done: {kind}. For example:\n{}", examples.join("\n")) }
    }
}

/// A word of letters only, a single character, or words of the vocabulary. Any other text could be a text to type.
fn is_harmless(text: &str) -> bool {
    let is_word = text.chars().all(|letter| letter.is_alphabetic() || matches!(letter, '-' | '\'' | '’'));
    let has_inner_capitals = text.chars().skip(1).any(char::is_uppercase) && text.chars().any(char::is_lowercase);
    is_word && !has_inner_capitals || text.chars().count() == 1 || text.split(' ').all(vocabulary::has)
}

fn place(message: &str, at: usize) -> String {
    let before = &message[..at];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, character {column}")
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_REPEATED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

type Tokens<'m> = TokenSlice<'m, Token<'m>>;

impl<'m> ParserError<Tokens<'m>> for GrammarError {
    type Inner = Self;

    fn from_input(input: &Tokens<'m>) -> Self {
        match (input.first(), input.previous_tokens().next()) {
            (Some(next), _) => Self::at(next.span.clone(), GrammarErrorKind::Unknown),
            (None, Some(last)) => Self { is_missing: true, ..Self::at(last.span.clone(), GrammarErrorKind::Unknown) },
            (None, None) => Self::missing(GrammarErrorKind::Unknown),
        }
    }

    /// Keeps the error of the alternative that parsed further.
    fn or(self, other: Self) -> Self {
        let start = |error: &Self| error.span.as_ref().map(|span| (span.start, error.is_missing));
        if start(&self) > start(&other) { self } else { other }
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

impl<'m> ParserError<LocatingSlice<&'m str>> for GrammarError {
    type Inner = Self;

    fn from_input(input: &LocatingSlice<&'m str>) -> Self {
        let at = input.current_token_start();
        Self::at(at..at, GrammarErrorKind::Unknown)
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}
