use super::super::bytes::Bytes;
use super::super::text::Text;
use super::{
    BigInt, END, Error, ErrorKind, LATIN1, MAX_BYTES, MAX_DEPTH, MAX_PARTS, Members, NAMED, NoValue, POOLED, Pool,
    VERSION, Value, ViewKind, check_date, check_flags, check_view, tag, width,
};

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
