//! Keys of `IndexedDB` in WebKit's format: a zero byte for the version, and the key.

use super::bytes::Bytes;
use super::text::Text;
use super::values::Value;

/// Maximum size of a key in bytes, and maximum nesting depth of arrays in it.
pub const MAX_BYTES: usize = 64 * 1024;
const MAX_DEPTH: u32 = 32;
const VERSION: u8 = 0;

/// Equal exactly when WebKit considers the keys equal.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    Number(f64),
    /// Milliseconds since 1970.
    Date(f64),
    Text(Text),
    Binary(Vec<u8>),
    Array(Vec<Key>),
}

mod tag {
    pub const NUMBER: u8 = 0x20;
    pub const DATE: u8 = 0x40;
    pub const TEXT: u8 = 0x60;
    pub const BINARY: u8 = 0x80;
    pub const ARRAY: u8 = 0xA0;
}

impl Key {
    /// `None` for an invalid key.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        let versioned = bytes.0.len() <= MAX_BYTES && bytes.u8()? == VERSION;
        let key = if versioned { decode(&mut bytes, 0)? } else { return None };
        bytes.is_empty().then_some(key)
    }

    /// `None` if the key is too large.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![VERSION];
        encode(self, &mut bytes);
        (bytes.len() <= MAX_BYTES).then_some(bytes)
    }

    /// `None` if the value is not a valid key.
    pub fn of(value: &Value) -> Option<Self> {
        of(value, 0)
    }

    pub fn into_value(self) -> Value {
        match self {
            Self::Number(number) => Value::Number(number),
            Self::Date(date) => Value::Date(date),
            Self::Text(text) => Value::Text(text),
            Self::Binary(bytes) => Value::Buffer(bytes),
            Self::Array(keys) => {
                let items = (0..).zip(keys).map(|(index, key)| (index, key.into_value())).collect::<Vec<_>>();
                Value::Array { length: u32::try_from(items.len()).unwrap_or(u32::MAX), items, named: Vec::new() }
            }
        }
    }
}

/// Rejects NaN and normalizes -0 to 0: WebKit treats both zeros as equal but encodes them differently.
fn number(number: f64) -> Option<f64> {
    (!number.is_nan()).then_some(number + 0.0)
}

fn decode(bytes: &mut Bytes<'_>, depth: u32) -> Option<Key> {
    if depth > MAX_DEPTH {
        return None;
    }
    Some(match bytes.u8()? {
        tag::NUMBER => Key::Number(number(bytes.f64()?)?),
        tag::DATE => Key::Date(number(bytes.f64()?)?),
        tag::TEXT => {
            let units = bytes.u32()?;
            Key::Text(Text::of_utf16(bytes.run(2 * u64::from(units))?)?)
        }
        tag::BINARY => {
            let length = bytes.u64()?;
            Key::Binary(bytes.run(length)?.to_vec())
        }
        tag::ARRAY => {
            let count = bytes.u64()?;
            // Each key needs at least one byte, so the remaining bytes bound the count.
            let keys = (0..count).map(|_| decode(bytes, depth + 1));
            Key::Array(keys.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn encode(key: &Key, to: &mut Vec<u8>) {
    match key {
        Key::Number(number) => {
            to.push(tag::NUMBER);
            to.extend(number.to_le_bytes());
        }
        Key::Date(date) => {
            to.push(tag::DATE);
            to.extend(date.to_le_bytes());
        }
        Key::Text(text) => {
            let bytes = text.utf16();
            to.push(tag::TEXT);
            // A longer text is rejected because of its size.
            to.extend(u32::try_from(bytes.len() / 2).unwrap_or(u32::MAX).to_le_bytes());
            to.extend(bytes);
        }
        Key::Binary(bytes) => {
            to.push(tag::BINARY);
            to.extend((bytes.len() as u64).to_le_bytes());
            to.extend(bytes);
        }
        Key::Array(keys) => {
            to.push(tag::ARRAY);
            to.extend((keys.len() as u64).to_le_bytes());
            for key in keys {
                encode(key, to);
            }
        }
    }
}

fn of(value: &Value, depth: u32) -> Option<Key> {
    if depth > MAX_DEPTH {
        return None;
    }
    Some(match value {
        Value::Number(is) => Key::Number(number(*is)?),
        Value::Date(date) => Key::Date(number(*date)?),
        Value::Text(text) => Key::Text(text.clone()),
        Value::Buffer(bytes) => Key::Binary(bytes.clone()),
        Value::Array { length, items, named } => {
            let whole = named.is_empty() && (0..*length).eq(items.iter().map(|(index, _)| *index));
            if !whole {
                return None;
            }
            Key::Array(items.iter().map(|(_, item)| of(item, depth + 1)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
