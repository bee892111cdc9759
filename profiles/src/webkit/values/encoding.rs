use super::super::text::Text;
use super::{
    BigInt, END, Error, LATIN1, MAX_BYTES, MAX_DEPTH, MAX_PARTS, Members, NAMED, NoValue, Pool, VERSION, Value,
    ViewKind, check_date, check_flags, check_view, tag,
};

impl Value {
    pub fn encode(&self) -> Result<Vec<u8>, NoValue> {
        let mut encoder = Encoder { bytes: VERSION.to_le_bytes().to_vec(), pool: Pool::default(), parts: 0 };
        encoder.value(self, 0)?;
        Ok(encoder.bytes)
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
