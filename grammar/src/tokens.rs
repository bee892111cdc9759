//! Tokens of a message: words, quoted texts and breaks.

use std::borrow::Cow;
use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'m> {
    pub kind: Kind,
    /// The escapes of a quoted text are resolved.
    pub text: Cow<'m, str>,
    /// Position in bytes, including quotation marks.
    pub span: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Word,
    Quote,
    /// After a soft one, the next step may omit its verb.
    Break {
        soft: bool,
    },
}

impl Token<'_> {
    pub fn is_quote(&self) -> bool {
        self.kind == Kind::Quote
    }

    /// Ignores case.
    pub fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && same(&self.text, word)
    }
}

/// Ignores case. The vocabulary is ASCII.
pub fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}
