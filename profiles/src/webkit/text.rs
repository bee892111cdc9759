//! JavaScript strings: UTF-16 code units, which may contain unpaired surrogates.

use std::borrow::Cow;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Text {
    Plain(String),
    /// Contains an unpaired surrogate.
    Broken(Vec<u16>),
}

impl Text {
    pub fn of_units(units: Vec<u16>) -> Self {
        String::from_utf16(&units).map_or(Self::Broken(units), Self::Plain)
    }

    /// Little-endian. `None` for an odd number of bytes.
    pub fn of_utf16(bytes: &[u8]) -> Option<Self> {
        let (units, rest) = bytes.as_chunks();
        rest.is_empty().then(|| Self::of_units(units.iter().copied().map(u16::from_le_bytes).collect()))
    }

    /// Each byte is one character.
    pub fn of_latin1(bytes: &[u8]) -> Self {
        Self::Plain(bytes.iter().copied().map(char::from).collect())
    }

    pub fn units(&self) -> Cow<'_, [u16]> {
        match self {
            Self::Plain(text) => Cow::Owned(text.encode_utf16().collect()),
            Self::Broken(units) => Cow::Borrowed(units),
        }
    }

    /// Encodes little-endian code units.
    pub fn utf16(&self) -> Vec<u8> {
        self.units().iter().flat_map(|unit| unit.to_le_bytes()).collect()
    }

    /// Encodes each character as one byte, if all characters fit.
    pub fn latin1(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(text) => text.chars().map(|c| u8::try_from(c).ok()).collect(),
            Self::Broken(_) => None,
        }
    }

    /// Approximate size in memory.
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
