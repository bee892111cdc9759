//! Values that pages store in `IndexedDB`: decodes and encodes WebKit's `SerializedScriptValue`, version 15.
//!
//! An object that occurs repeatedly, or contains itself, is stored once; later occurrences refer to it by its number.
//! Values that only a browser supports are not decoded: blobs, files, images, `WebCrypto` keys, geometry, DOM
//! exceptions and growable buffers.

mod decoding;
mod encoding;

use std::collections::HashSet;
use std::fmt::Write as _;

use super::text::Text;

/// Depth, number of parts and size in bytes, because a value is in memory.
pub const MAX_DEPTH: u32 = 64;
pub const MAX_PARTS: usize = 200_000;
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

const VERSION: u32 = 15;
/// Marks the end of an object's members and of an array's items.
const END: u32 = 0xFFFF_FFFF;
/// In place of a string's length: the index of an earlier string follows.
const POOLED: u32 = 0xFFFF_FFFE;
/// Marks the start of an array's named members.
const NAMED: u32 = 0xFFFF_FFFD;
/// Bit in a string's length: each character is one byte.
const LATIN1: u32 = 0x8000_0000;
/// Maximum distance of a date from 1970 in milliseconds.
const MAX_DATE: f64 = 8.64e15;

#[derive(Debug, Clone)]
pub enum Value {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    BigInt(BigInt),
    Text(Text),
    /// Milliseconds since 1970; NaN for an invalid date.
    Date(f64),
    Object(Members),
    Array {
        length: u32,
        /// Items by index; each index is less than the length.
        items: Vec<(u32, Value)>,
        named: Members,
    },
    Map {
        entries: Vec<(Value, Value)>,
        named: Members,
    },
    Set {
        items: Vec<Value>,
        named: Members,
    },
    Buffer(Vec<u8>),
    View {
        kind: ViewKind,
        offset: u64,
        length: u64,
        /// A buffer, or a reference to one.
        of: Box<Value>,
    },
    RegExp {
        pattern: Text,
        flags: Text,
    },
    Error(Box<Error>),
    /// `new Boolean(…)` and similar.
    BoxedBool(bool),
    BoxedNumber(f64),
    BoxedText(Text),
    BoxedBigInt(BigInt),
    /// Reference to the object with this number.
    Reference(u32),
}

pub type Members = Vec<(Text, Value)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BigInt {
    pub negative: bool,
    /// 64-bit digits, lowest first; the last one is not zero.
    pub digits: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub message: Option<Text>,
    pub line: u32,
    pub column: u32,
    pub source: Option<Text>,
    pub stack: Option<Text>,
    pub cause: Option<Text>,
}

macro_rules! kinds {
    ($(#[$about:meta])* $kind:ident { $($name:ident = $number:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind { $($name = $number),+ }

        impl $kind {
            pub const ALL: &[Self] = &[$(Self::$name),+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),+ }
            }

            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            fn numbered(number: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| *kind as u8 == number)
            }
        }
    };
}

kinds! {
    ErrorKind {
        Error = 0, EvalError = 1, RangeError = 2, ReferenceError = 3, SyntaxError = 4, TypeError = 5, URIError = 6,
    }
}

kinds! {
    /// Type of a view of a buffer.
    ViewKind {
        DataView = 0, Int8Array = 1, Uint8Array = 2, Uint8ClampedArray = 3, Int16Array = 4, Uint16Array = 5,
        Int32Array = 6, Uint32Array = 7, Float32Array = 8, Float64Array = 9, BigInt64Array = 10, BigUint64Array = 11,
        Float16Array = 12,
    }
}

impl ViewKind {
    fn width(self) -> u64 {
        match self {
            Self::DataView | Self::Int8Array | Self::Uint8Array | Self::Uint8ClampedArray => 1,
            Self::Int16Array | Self::Uint16Array | Self::Float16Array => 2,
            Self::Int32Array | Self::Uint32Array | Self::Float32Array => 4,
            Self::Float64Array | Self::BigInt64Array | Self::BigUint64Array => 8,
        }
    }
}

/// Tags that start each part of a value.
mod tag {
    pub const ARRAY: u8 = 1;
    pub const OBJECT: u8 = 2;
    pub const UNDEFINED: u8 = 3;
    pub const NULL: u8 = 4;
    pub const INT: u8 = 5;
    pub const ZERO: u8 = 6;
    pub const ONE: u8 = 7;
    pub const FALSE: u8 = 8;
    pub const TRUE: u8 = 9;
    pub const DOUBLE: u8 = 10;
    pub const DATE: u8 = 11;
    pub const STRING: u8 = 16;
    pub const EMPTY_STRING: u8 = 17;
    pub const REG_EXP: u8 = 18;
    pub const REFERENCE: u8 = 19;
    pub const BUFFER: u8 = 21;
    pub const VIEW: u8 = 22;
    pub const BOXED_TRUE: u8 = 24;
    pub const BOXED_FALSE: u8 = 25;
    pub const BOXED_STRING: u8 = 26;
    pub const BOXED_EMPTY_STRING: u8 = 27;
    pub const BOXED_NUMBER: u8 = 28;
    pub const SET: u8 = 29;
    pub const MAP: u8 = 30;
    pub const NAMED_OF_MAP: u8 = 31;
    pub const NAMED_OF_SET: u8 = 32;
    pub const BIG_INT: u8 = 47;
    pub const BOXED_BIG_INT: u8 = 48;
    pub const ERROR: u8 = 55;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoValue {
    #[error("contains a type that only a browser supports")]
    Unsupported,
    #[error("has more than 64 levels, 200000 parts or 8 MiB")]
    TooLarge,
    #[error("is not a valid value of a browser: {0}")]
    Malformed(&'static str),
}

/// Objects that can be referred to, by number: the size for a buffer, `None` for others.
#[derive(Default)]
struct Pool(Vec<Option<u64>>);

impl Pool {
    fn add(&mut self) {
        self.0.push(None);
    }

    fn add_buffer(&mut self, bytes: usize) {
        self.0.push(Some(bytes as u64));
    }

    fn get(&self, number: u32) -> Result<Option<u64>, NoValue> {
        let found = usize::try_from(number).ok().and_then(|number| self.0.get(number));
        found.copied().ok_or(NoValue::Malformed("a reference to a missing object"))
    }

    /// Size of an object's number in bytes.
    fn width(&self) -> usize {
        width(self.0.len())
    }
}

/// Size of a number in bytes, for this many objects.
fn width(count: usize) -> usize {
    match count {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        _ => 4,
    }
}

/// Checks that a view is aligned and inside a buffer of this size.
fn check_view(kind: ViewKind, offset: u64, length: u64, of: Option<u64>) -> Result<(), NoValue> {
    let of = of.ok_or(NoValue::Malformed("a view without a buffer"))?;
    let aligned = offset.is_multiple_of(kind.width()) && length.is_multiple_of(kind.width());
    let inside = offset.checked_add(length).is_some_and(|end| end <= of);
    if aligned && inside { Ok(()) } else { Err(NoValue::Malformed("a view beyond its buffer")) }
}

fn check_date(date: f64) -> Result<(), NoValue> {
    if date.is_nan() || date.abs() <= MAX_DATE { Ok(()) } else { Err(NoValue::Malformed("a date out of range")) }
}

fn check_flags(flags: &Text) -> Result<(), NoValue> {
    let Text::Plain(flags) = flags else { return Err(NoValue::Malformed("flags of a regular expression")) };
    let mut seen = HashSet::new();
    if flags.chars().all(|flag| "dgimsuvy".contains(flag) && seen.insert(flag)) {
        Ok(())
    } else {
        Err(NoValue::Malformed("flags of a regular expression"))
    }
}

impl BigInt {
    /// Longer than any `BigInt` of WebKit.
    const MAX_HEX: usize = 262_144;

    fn normal(mut self) -> Self {
        while self.digits.pop_if(|digit| *digit == 0).is_some() {}
        self.negative &= !self.digits.is_empty();
        self
    }

    /// Formats in hexadecimal, such as `-0x1f`.
    pub fn to_hex(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let mut digits = self.digits.iter().rev();
        let first = digits.next().map_or_else(|| "0".to_owned(), |digit| format!("{digit:x}"));
        let mut hex = format!("{sign}0x{first}");
        for digit in digits {
            // Writing to a `String` cannot fail.
            let _ = write!(hex, "{digit:016x}");
        }
        hex
    }

    pub fn from_hex(text: &str) -> Option<Self> {
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let hex = rest.strip_prefix("0x")?;
        let good = !hex.is_empty() && hex.len() <= Self::MAX_HEX && hex.bytes().all(|c| c.is_ascii_hexdigit());
        if !good {
            return None;
        }
        let digits = hex.as_bytes().rchunks(16).map(|digit| u64::from_str_radix(str::from_utf8(digit).ok()?, 16).ok());
        Some(Self { negative, digits: digits.collect::<Option<_>>()? }.normal())
    }
}
