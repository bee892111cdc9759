//! Strings as JavaScript has them: of UTF-16 code units, which need not pair up.

use std::borrow::Cow;

/// A string.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Text {
    /// One that is text.
    Plain(String),
    /// One with half of a character in it.
    Broken(Vec<u16>),
}

impl Text {
    pub fn of_units(units: Vec<u16>) -> Self {
        String::from_utf16(&units).map_or(Self::Broken(units), Self::Plain)
    }

    /// Of bytes in little-endian order. `None` when there is half a unit.
    pub fn of_utf16(bytes: &[u8]) -> Option<Self> {
        let (units, rest) = bytes.as_chunks();
        rest.is_empty().then(|| Self::of_units(units.iter().copied().map(u16::from_le_bytes).collect()))
    }

    /// Each byte is a character.
    pub fn of_latin1(bytes: &[u8]) -> Self {
        Self::Plain(bytes.iter().copied().map(char::from).collect())
    }

    pub fn units(&self) -> Cow<'_, [u16]> {
        match self {
            Self::Plain(text) => Cow::Owned(text.encode_utf16().collect()),
            Self::Broken(units) => Cow::Borrowed(units),
        }
    }

    /// Its code units in little-endian order.
    pub fn utf16(&self) -> Vec<u8> {
        self.units().iter().flat_map(|unit| unit.to_le_bytes()).collect()
    }

    /// Its characters as a byte each, if they all are one.
    pub fn latin1(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(text) => text.chars().map(|c| u8::try_from(c).ok()).collect(),
            Self::Broken(_) => None,
        }
    }

    /// About as many bytes as it takes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Plain(text) => text.len(),
            Self::Broken(units) => 2 * units.len(),
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}
