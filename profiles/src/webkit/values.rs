//! Values that pages store in `IndexedDB`: decodes and encodes WebKit's `SerializedScriptValue`, version 15.
//!
//! An object that occurs repeatedly, or contains itself, is stored once; later occurrences refer to it by its number.
//! Values that only a browser supports are not decoded: blobs, files, images, `WebCrypto` keys, geometry, DOM
//! exceptions and growable buffers.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::bytes::Bytes;
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

impl Value {
    pub fn decode(bytes: &[u8]) -> Result<Self, NoValue> {
        if bytes.len() > MAX_BYTES {
            return Err(NoValue::TooLarge);
        }
        let mut decoder =
            Decoder { bytes: Bytes(bytes), pool: Pool::default(), texts: Vec::new(), parts: 0, pooled: 0 };
        // Other versions are not interpreted.
        if decoder.bytes.u32() != Some(VERSION) {
            return Err(NoValue::Unsupported);
        }
        let value = decoder.value(0)?;
        if decoder.bytes.is_empty() { Ok(value) } else { Err(NoValue::Malformed("more than one value")) }
    }

    pub fn encode(&self) -> Result<Vec<u8>, NoValue> {
        let mut encoder = Encoder { bytes: VERSION.to_le_bytes().to_vec(), pool: Pool::default(), parts: 0 };
        encoder.value(self, 0)?;
        Ok(encoder.bytes)
    }
}

struct Decoder<'a> {
    bytes: Bytes<'a>,
    pool: Pool,
    texts: Vec<Text>,
    parts: usize,
    /// Total size of the strings that were repeated.
    pooled: usize,
}

const CUT: NoValue = NoValue::Malformed("it is truncated");

impl Decoder<'_> {
    fn value(&mut self, depth: u32) -> Result<Value, NoValue> {
        self.parts += 1;
        if depth > MAX_DEPTH || self.parts > MAX_PARTS {
            return Err(NoValue::TooLarge);
        }
        let tag = self.bytes.u8().ok_or(CUT)?;
        Ok(match tag {
            tag::UNDEFINED => Value::Undefined,
            tag::NULL => Value::Null,
            tag::FALSE => Value::Bool(false),
            tag::TRUE => Value::Bool(true),
            tag::ZERO => Value::Number(0.0),
            tag::ONE => Value::Number(1.0),
            tag::INT => Value::Number(f64::from(self.bytes.u32().ok_or(CUT)?.cast_signed())),
            tag::DOUBLE => Value::Number(self.bytes.f64().ok_or(CUT)?),
            tag::DATE => {
                let date = self.bytes.f64().ok_or(CUT)?;
                check_date(date)?;
                Value::Date(date)
            }
            tag::STRING => Value::Text(self.text()?),
            tag::EMPTY_STRING => Value::Text(Text::from("")),
            tag::BIG_INT => Value::BigInt(self.big_int()?),
            tag::REG_EXP => {
                let (pattern, flags) = (self.text()?, self.text()?);
                check_flags(&flags)?;
                Value::RegExp { pattern, flags }
            }
            tag::ERROR => Value::Error(Box::new(self.error()?)),
            tag::OBJECT => {
                self.pool.add();
                Value::Object(self.members(depth)?)
            }
            tag::ARRAY => self.array(depth)?,
            tag::MAP => {
                self.pool.add();
                let mut entries = Vec::new();
                while !self.next_is(tag::NAMED_OF_MAP) {
                    entries.push((self.value(depth + 1)?, self.value(depth + 1)?));
                }
                Value::Map { entries, named: self.members(depth)? }
            }
            tag::SET => {
                self.pool.add();
                let mut items = Vec::new();
                while !self.next_is(tag::NAMED_OF_SET) {
                    items.push(self.value(depth + 1)?);
                }
                Value::Set { items, named: self.members(depth)? }
            }
            tag::BUFFER => {
                let length = self.bytes.u64().ok_or(CUT)?;
                let buffer = self.bytes.run(length).ok_or(CUT)?.to_vec();
                self.pool.add_buffer(buffer.len());
                Value::Buffer(buffer)
            }
            tag::VIEW => self.view(depth)?,
            tag::REFERENCE => {
                let number = self.number(self.pool.width())?;
                self.pool.get(number)?;
                Value::Reference(number)
            }
            tag::BOXED_TRUE | tag::BOXED_FALSE => {
                self.pool.add();
                Value::BoxedBool(tag == tag::BOXED_TRUE)
            }
            tag::BOXED_NUMBER => {
                self.pool.add();
                Value::BoxedNumber(self.bytes.f64().ok_or(CUT)?)
            }
            tag::BOXED_STRING => {
                self.pool.add();
                Value::BoxedText(self.text()?)
            }
            tag::BOXED_EMPTY_STRING => {
                self.pool.add();
                Value::BoxedText(Text::from(""))
            }
            tag::BOXED_BIG_INT => {
                self.pool.add();
                Value::BoxedBigInt(self.big_int()?)
            }
            _ => return Err(NoValue::Unsupported),
        })
    }

    fn next_is(&mut self, tag: u8) -> bool {
        let is_next = self.bytes.0.first() == Some(&tag);
        if is_next {
            self.bytes.0 = &self.bytes.0[1..];
        }
        is_next
    }

    fn array(&mut self, depth: u32) -> Result<Value, NoValue> {
        self.pool.add();
        let length = self.bytes.u32().ok_or(CUT)?;
        let mut items = Vec::new();
        loop {
            let index = self.bytes.u32().ok_or(CUT)?;
            if index == END {
                break;
            }
            if index >= length {
                return Err(NoValue::Malformed("an item beyond the array's length"));
            }
            items.push((index, self.value(depth + 1)?));
        }
        let named = match self.bytes.u32().ok_or(CUT)? {
            END => Vec::new(),
            NAMED => self.members(depth)?,
            _ => return Err(NoValue::Malformed("an invalid end of an array")),
        };
        Ok(Value::Array { length, items, named })
    }

    fn view(&mut self, depth: u32) -> Result<Value, NoValue> {
        let kind = ViewKind::numbered(self.bytes.u8().ok_or(CUT)?).ok_or(NoValue::Unsupported)?;
        let (offset, length) = (self.bytes.u64().ok_or(CUT)?, self.bytes.u64().ok_or(CUT)?);
        let of = self.value(depth + 1)?;
        let bytes = match &of {
            Value::Buffer(buffer) => Some(buffer.len() as u64),
            Value::Reference(number) => self.pool.get(*number)?,
            _ => None,
        };
        check_view(kind, offset, length, bytes)?;
        self.pool.add();
        Ok(Value::View { kind, offset, length, of: Box::new(of) })
    }

    fn members(&mut self, depth: u32) -> Result<Members, NoValue> {
        let mut members = Vec::new();
        while let Some(name) = self.text_or_end()? {
            members.push((name, self.value(depth + 1)?));
        }
        Ok(members)
    }

    fn text(&mut self) -> Result<Text, NoValue> {
        self.text_or_end()?.ok_or(NoValue::Malformed("an unexpected end"))
    }

    fn text_or_end(&mut self) -> Result<Option<Text>, NoValue> {
        let text = match self.bytes.u32().ok_or(CUT)? {
            END => return Ok(None),
            POOLED => {
                let number = self.number(width(self.texts.len()))?;
                let text = usize::try_from(number).ok().and_then(|number| self.texts.get(number));
                let text = text.cloned().ok_or(NoValue::Malformed("a reference to a missing string"))?;
                self.pooled += text.bytes();
                return if self.pooled > MAX_BYTES { Err(NoValue::TooLarge) } else { Ok(Some(text)) };
            }
            length if length & LATIN1 != 0 => Text::of_latin1(self.bytes.run(u64::from(length & !LATIN1)).ok_or(CUT)?),
            length => {
                let bytes = self.bytes.run(2 * u64::from(length)).ok_or(CUT)?;
                Text::of_utf16(bytes).ok_or(CUT)?
            }
        };
        self.texts.push(text.clone());
        Ok(Some(text))
    }

    fn number(&mut self, width: usize) -> Result<u32, NoValue> {
        let number = match width {
            1 => self.bytes.u8().map(u32::from),
            2 => self.bytes.u16().map(u32::from),
            _ => self.bytes.u32(),
        };
        number.ok_or(CUT)
    }

    fn big_int(&mut self) -> Result<BigInt, NoValue> {
        let negative = self.bool()?;
        let count = self.bytes.u32().ok_or(CUT)?;
        let bytes = self.bytes.run(8 * u64::from(count)).ok_or(CUT)?;
        let digits = bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes);
        Ok(BigInt { negative, digits: digits.collect() }.normal())
    }

    fn bool(&mut self) -> Result<bool, NoValue> {
        match self.bytes.u8().ok_or(CUT)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(NoValue::Malformed("an invalid boolean")),
        }
    }

    fn error(&mut self) -> Result<Error, NoValue> {
        let kind = ErrorKind::numbered(self.bytes.u8().ok_or(CUT)?).ok_or(NoValue::Unsupported)?;
        Ok(Error {
            kind,
            message: self.nullable()?,
            line: self.bytes.u32().ok_or(CUT)?,
            column: self.bytes.u32().ok_or(CUT)?,
            source: self.nullable()?,
            stack: self.nullable()?,
            cause: self.nullable()?,
        })
    }

    /// Decodes a string after a byte that is 1 if the string is null.
    fn nullable(&mut self) -> Result<Option<Text>, NoValue> {
        if self.bool()? { Ok(None) } else { self.text().map(Some) }
    }
}

struct Encoder {
    bytes: Vec<u8>,
    pool: Pool,
    parts: usize,
}

impl Encoder {
    fn value(&mut self, value: &Value, depth: u32) -> Result<(), NoValue> {
        self.parts += 1;
        if depth > MAX_DEPTH || self.parts > MAX_PARTS || self.bytes.len() > MAX_BYTES {
            return Err(NoValue::TooLarge);
        }
        match value {
            Value::Undefined => self.tag(tag::UNDEFINED),
            Value::Null => self.tag(tag::NULL),
            Value::Bool(is) => self.tag(if *is { tag::TRUE } else { tag::FALSE }),
            Value::Number(number) => self.number(*number),
            Value::BigInt(number) => {
                self.tag(tag::BIG_INT);
                self.big_int(number)?;
            }
            Value::Text(text) if text.bytes() == 0 => self.tag(tag::EMPTY_STRING),
            Value::Text(text) => {
                self.tag(tag::STRING);
                self.text(text)?;
            }
            Value::Date(date) => {
                check_date(*date)?;
                self.tag(tag::DATE);
                self.put(date.to_le_bytes());
            }
            Value::RegExp { pattern, flags } => {
                check_flags(flags)?;
                self.tag(tag::REG_EXP);
                self.text(pattern)?;
                self.text(flags)?;
            }
            Value::Error(error) => self.error(error)?,
            Value::Object(members) => {
                self.begin(tag::OBJECT);
                self.members(members, depth)?;
            }
            Value::Array { length, items, named } => self.array(*length, items, named, depth)?,
            Value::Map { entries, named } => {
                self.begin(tag::MAP);
                for (key, value) in entries {
                    self.value(key, depth + 1)?;
                    self.value(value, depth + 1)?;
                }
                self.tag(tag::NAMED_OF_MAP);
                self.members(named, depth)?;
            }
            Value::Set { items, named } => {
                self.begin(tag::SET);
                for item in items {
                    self.value(item, depth + 1)?;
                }
                self.tag(tag::NAMED_OF_SET);
                self.members(named, depth)?;
            }
            Value::Buffer(buffer) => {
                self.tag(tag::BUFFER);
                self.put((buffer.len() as u64).to_le_bytes());
                self.bytes.extend(buffer);
                self.pool.add_buffer(buffer.len());
            }
            Value::View { kind, offset, length, of } => self.view(*kind, *offset, *length, of, depth)?,
            Value::BoxedBool(is) => self.begin(if *is { tag::BOXED_TRUE } else { tag::BOXED_FALSE }),
            Value::BoxedNumber(number) => {
                self.begin(tag::BOXED_NUMBER);
                self.put(number.to_le_bytes());
            }
            Value::BoxedText(text) if text.bytes() == 0 => self.begin(tag::BOXED_EMPTY_STRING),
            Value::BoxedText(text) => {
                self.begin(tag::BOXED_STRING);
                self.text(text)?;
            }
            Value::BoxedBigInt(number) => {
                self.begin(tag::BOXED_BIG_INT);
                self.big_int(number)?;
            }
            Value::Reference(number) => {
                self.pool.get(*number)?;
                self.tag(tag::REFERENCE);
                self.bytes.extend(&number.to_le_bytes()[..self.pool.width()]);
            }
        }
        Ok(())
    }

    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes.extend(bytes);
    }

    fn tag(&mut self, tag: u8) {
        self.bytes.push(tag);
    }

    /// Writes the tag of an object that can be referred to.
    fn begin(&mut self, tag: u8) {
        self.pool.add();
        self.tag(tag);
    }

    fn number(&mut self, number: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "the next line checks whether it is this integer")]
        let integer = number as i32;
        if f64::from(integer).to_bits() != number.to_bits() {
            self.tag(tag::DOUBLE);
            self.put(number.to_le_bytes());
        } else if integer == 0 {
            self.tag(tag::ZERO);
        } else if integer == 1 {
            self.tag(tag::ONE);
        } else {
            self.tag(tag::INT);
            self.put(integer.to_le_bytes());
        }
    }

    fn array(&mut self, length: u32, items: &[(u32, Value)], named: &Members, depth: u32) -> Result<(), NoValue> {
        self.begin(tag::ARRAY);
        self.put(length.to_le_bytes());
        for (index, item) in items {
            if *index >= length {
                return Err(NoValue::Malformed("an item beyond the array's length"));
            }
            self.put(index.to_le_bytes());
            self.value(item, depth + 1)?;
        }
        self.put(END.to_le_bytes());
        if named.is_empty() {
            self.put(END.to_le_bytes());
            return Ok(());
        }
        self.put(NAMED.to_le_bytes());
        self.members(named, depth)
    }

    fn view(&mut self, kind: ViewKind, offset: u64, length: u64, of: &Value, depth: u32) -> Result<(), NoValue> {
        let bytes = match of {
            Value::Buffer(buffer) => Some(buffer.len() as u64),
            Value::Reference(number) => self.pool.get(*number)?,
            _ => None,
        };
        check_view(kind, offset, length, bytes)?;
        self.tag(tag::VIEW);
        self.tag(kind as u8);
        self.put(offset.to_le_bytes());
        self.put(length.to_le_bytes());
        self.value(of, depth + 1)?;
        self.pool.add();
        Ok(())
    }

    fn members(&mut self, members: &Members, depth: u32) -> Result<(), NoValue> {
        for (name, value) in members {
            self.text(name)?;
            self.value(value, depth + 1)?;
        }
        self.put(END.to_le_bytes());
        Ok(())
    }

    /// Repeated strings are written in full: a reference would only be shorter.
    fn text(&mut self, text: &Text) -> Result<(), NoValue> {
        let length = |length: usize| u32::try_from(length).ok().filter(|length| length & LATIN1 == 0);
        if let Some(bytes) = text.latin1() {
            self.put((length(bytes.len()).ok_or(NoValue::TooLarge)? | LATIN1).to_le_bytes());
            self.bytes.extend(bytes);
        } else {
            let bytes = text.utf16();
            self.put(length(bytes.len() / 2).ok_or(NoValue::TooLarge)?.to_le_bytes());
            self.bytes.extend(bytes);
        }
        Ok(())
    }

    fn big_int(&mut self, number: &BigInt) -> Result<(), NoValue> {
        self.tag(number.negative.into());
        self.put(u32::try_from(number.digits.len()).map_err(|_| NoValue::TooLarge)?.to_le_bytes());
        self.bytes.extend(number.digits.iter().flat_map(|digit| digit.to_le_bytes()));
        Ok(())
    }

    fn error(&mut self, error: &Error) -> Result<(), NoValue> {
        self.tag(tag::ERROR);
        self.tag(error.kind as u8);
        self.nullable(error.message.as_ref())?;
        self.put(error.line.to_le_bytes());
        self.put(error.column.to_le_bytes());
        self.nullable(error.source.as_ref())?;
        self.nullable(error.stack.as_ref())?;
        self.nullable(error.cause.as_ref())
    }

    fn nullable(&mut self, text: Option<&Text>) -> Result<(), NoValue> {
        self.tag(text.is_none().into());
        text.map_or(Ok(()), |text| self.text(text))
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
