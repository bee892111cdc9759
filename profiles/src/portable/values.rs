//! Values in a document: JSON where it has an equivalent, otherwise an object whose first member names the type, such
//! as `{"date": 0}` (docs/profile-format.md).

use std::io::{self, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use struson::reader::{JsonReader as _, ValueType};
use struson::writer::{JsonStreamWriter, JsonWriter as _};

use super::DocumentError;
use super::json::Json;
use crate::webkit::text::Text;
use crate::webkit::values::{BigInt, Error, ErrorKind, MAX_BYTES, MAX_DEPTH, MAX_PARTS, Members, Value, ViewKind};

pub fn write<W: Write>(json: &mut JsonStreamWriter<W>, value: &Value) -> io::Result<()> {
    match value {
        Value::Null => json.null_value(),
        Value::Bool(is) => json.bool_value(*is),
        Value::Number(number) => write_number(json, *number),
        Value::Text(text) => write_text(json, text),
        Value::Array { length, items, named } if named.is_empty() && is_dense(*length, items) => {
            json.begin_array()?;
            items.iter().try_for_each(|(_, item)| write(json, item))?;
            json.end_array()
        }
        _ => {
            json.begin_object()?;
            write_members(json, value)?;
            json.end_object()
        }
    }
}

fn write_members<W: Write>(json: &mut JsonStreamWriter<W>, value: &Value) -> io::Result<()> {
    match value {
        Value::Undefined => {
            json.name("undefined")?;
            json.bool_value(true)
        }
        Value::BigInt(number) => {
            json.name("bigint")?;
            json.string_value(&number.to_hex())
        }
        Value::Date(date) => {
            json.name("date")?;
            write_number(json, *date)
        }
        Value::Object(members) => {
            json.name("object")?;
            write_pairs(json, members)
        }
        Value::Array { length, items, named } => {
            json.name("array")?;
            json.begin_array()?;
            for (index, item) in items {
                json.begin_array()?;
                json.number_value(*index)?;
                write(json, item)?;
                json.end_array()?;
            }
            json.end_array()?;
            json.name("length")?;
            json.number_value(*length)?;
            write_named(json, named)
        }
        Value::Map { entries, named } => {
            json.name("map")?;
            json.begin_array()?;
            for (key, value) in entries {
                json.begin_array()?;
                write(json, key)?;
                write(json, value)?;
                json.end_array()?;
            }
            json.end_array()?;
            write_named(json, named)
        }
        Value::Set { items, named } => {
            json.name("set")?;
            json.begin_array()?;
            items.iter().try_for_each(|item| write(json, item))?;
            json.end_array()?;
            write_named(json, named)
        }
        Value::Buffer(bytes) => {
            json.name("bytes")?;
            json.string_value(&BASE64.encode(bytes))
        }
        Value::View { kind, offset, length, of } => {
            json.name("view")?;
            json.string_value(kind.name())?;
            json.name("offset")?;
            json.number_value(*offset)?;
            json.name("length")?;
            json.number_value(*length)?;
            json.name("of")?;
            write(json, of)
        }
        Value::RegExp { pattern, flags } => {
            json.name("regexp")?;
            write_text(json, pattern)?;
            json.name("flags")?;
            write_text(json, flags)
        }
        Value::Error(error) => write_error(json, error),
        Value::BoxedBool(is) => {
            json.name("boxed")?;
            json.bool_value(*is)
        }
        Value::BoxedNumber(number) => {
            json.name("boxed")?;
            write_number(json, *number)
        }
        Value::BoxedText(text) => {
            json.name("boxed")?;
            write_text(json, text)
        }
        Value::BoxedBigInt(number) => {
            json.name("boxed")?;
            write(json, &Value::BigInt(number.clone()))
        }
        Value::Reference(number) => {
            json.name("ref")?;
            json.number_value(*number)
        }
        // These are written without an object.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => Ok(()),
    }
}

fn is_dense(length: u32, items: &[(u32, Value)]) -> bool {
    (0..length).eq(items.iter().map(|(index, _)| *index))
}

/// Writes a number, including those that JSON cannot represent.
fn write_number<W: Write>(json: &mut JsonStreamWriter<W>, number: f64) -> io::Result<()> {
    let name = match number {
        _ if number.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ if number == 0.0 && number.is_sign_negative() => "-0",
        _ => return json.number_value_from_string(&format_number(number)).map_err(io::Error::other),
    };
    json.begin_object()?;
    json.name("number")?;
    json.string_value(name)?;
    json.end_object()
}

/// The result reads as the same number, without a fraction for whole numbers.
fn format_number(number: f64) -> String {
    let text = format!("{number:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Writes a string, including one with unpaired surrogates.
pub fn write_text<W: Write>(json: &mut JsonStreamWriter<W>, text: &Text) -> io::Result<()> {
    match text {
        Text::Plain(text) => json.string_value(text),
        Text::Broken(_) => {
            json.begin_object()?;
            json.name("utf16")?;
            json.string_value(&BASE64.encode(text.utf16()))?;
            json.end_object()
        }
    }
}

fn write_pairs<W: Write>(json: &mut JsonStreamWriter<W>, members: &Members) -> io::Result<()> {
    json.begin_array()?;
    for (name, value) in members {
        json.begin_array()?;
        write_text(json, name)?;
        write(json, value)?;
        json.end_array()?;
    }
    json.end_array()
}

fn write_named<W: Write>(json: &mut JsonStreamWriter<W>, named: &Members) -> io::Result<()> {
    if named.is_empty() {
        return Ok(());
    }
    json.name("named")?;
    write_pairs(json, named)
}

fn write_error<W: Write>(json: &mut JsonStreamWriter<W>, error: &Error) -> io::Result<()> {
    json.name("error")?;
    json.string_value(error.kind.name())?;
    json.name("line")?;
    json.number_value(error.line)?;
    json.name("column")?;
    json.number_value(error.column)?;
    let texts =
        [("message", &error.message), ("source", &error.source), ("stack", &error.stack), ("cause", &error.cause)];
    for (name, text) in texts {
        if let Some(text) = text {
            json.name(name)?;
            write_text(json, text)?;
        }
    }
    Ok(())
}

#[derive(Debug)]
pub enum Refused {
    Rule(&'static str),
    Document(DocumentError),
}

impl<E: Into<DocumentError>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Document(error.into())
    }
}

const TOO_LARGE: Refused = Refused::Rule("must have at most 200000 parts, 8 MiB and 64 levels");
/// Parts and text bytes of a value's JSON form: some parts are written as two, a name may be one more, and a byte takes
/// at most two characters. Encoding for WebKit checks the limits of the value itself.
const SPELLED: (usize, usize) = (3 * MAX_PARTS, 2 * MAX_BYTES);
const NO_VALUE: Refused = Refused::Rule("must be a value in the form of a document");

pub fn read<R: Read>(json: &mut Json<R>) -> Result<Value, Refused> {
    Reader { json, parts: 0, bytes: 0 }.value(0)
}

pub fn read_text<R: Read>(json: &mut Json<R>) -> Result<Text, Refused> {
    Reader { json, parts: 0, bytes: 0 }.text()
}

struct Reader<'a, R: Read> {
    json: &'a mut Json<R>,
    parts: usize,
    bytes: usize,
}

#[derive(Default)]
struct ValueMembers {
    value: Option<Value>,
    named: Option<Members>,
    length: Option<u64>,
    offset: Option<u64>,
    of: Option<Value>,
    view: Option<ViewKind>,
    flags: Option<Text>,
    message: Option<Text>,
    line: Option<u32>,
    column: Option<u32>,
    source: Option<Text>,
    stack: Option<Text>,
    cause: Option<Text>,
}

impl<R: Read> Reader<'_, R> {
    fn value(&mut self, depth: u32) -> Result<Value, Refused> {
        self.parts += 1;
        if depth > MAX_DEPTH + 1 || self.parts > SPELLED.0 {
            return Err(TOO_LARGE);
        }
        Ok(match self.json.token().peek()? {
            ValueType::Null => {
                self.json.token().next_null()?;
                Value::Null
            }
            ValueType::Boolean => Value::Bool(self.json.token().next_bool()?),
            ValueType::Number => Value::Number(self.plain_number()?),
            ValueType::String => Value::Text(Text::Plain(self.plain_text()?)),
            ValueType::Array => {
                let items: Vec<_> = (0..).zip(self.list(|reader| reader.value(depth + 1))?).collect();
                Value::Array { length: u32::try_from(items.len()).map_err(|_| TOO_LARGE)?, items, named: Vec::new() }
            }
            ValueType::Object => self.value_members(depth)?.into_value()?,
        })
    }

    fn value_members(&mut self, depth: u32) -> Result<ValueMembers, Refused> {
        let mut members = ValueMembers::default();
        self.json.token().begin_object()?;
        while self.json.token().has_next()? {
            let name = self.json.token().next_name_owned()?;
            let before = members.value.is_some();
            match name.as_str() {
                "named" => members.named = Some(self.pairs(depth)?),
                "length" => members.length = Some(self.whole()?),
                "offset" => members.offset = Some(self.whole()?),
                "of" => members.of = Some(self.value(depth + 1)?),
                "flags" => members.flags = Some(self.text()?),
                "message" => members.message = Some(self.text()?),
                "line" => members.line = Some(self.small()?),
                "column" => members.column = Some(self.small()?),
                "source" => members.source = Some(self.text()?),
                "stack" => members.stack = Some(self.text()?),
                "cause" => members.cause = Some(self.text()?),
                // Only one member may name the type.
                _ if before => return Err(NO_VALUE),
                "view" => {
                    members.view = Some(ViewKind::named(&self.plain_text()?).ok_or(NO_VALUE)?);
                    members.value = Some(Value::Undefined);
                }
                name => members.value = Some(self.kind(name, depth)?),
            }
        }
        self.json.token().end_object()?;
        Ok(members)
    }

    fn kind(&mut self, name: &str, depth: u32) -> Result<Value, Refused> {
        Ok(match name {
            "undefined" => {
                self.json.token().next_bool()?;
                Value::Undefined
            }
            "number" => Value::Number(self.named_number()?),
            "bigint" => Value::BigInt(self.big_int()?),
            "utf16" => Value::Text(Text::of_utf16(&self.base64()?).ok_or(NO_VALUE)?),
            "date" => Value::Date(self.number(depth)?),
            "object" => Value::Object(self.pairs(depth)?),
            "array" => {
                let items = self.list(|reader| reader.pair(Self::small, |reader| reader.value(depth + 1)))?;
                Value::Array { length: 0, items, named: Vec::new() }
            }
            "map" => {
                let pair =
                    |reader: &mut Self| reader.pair(|reader| reader.value(depth + 1), |reader| reader.value(depth + 1));
                Value::Map { entries: self.list(pair)?, named: Vec::new() }
            }
            "set" => Value::Set { items: self.list(|reader| reader.value(depth + 1))?, named: Vec::new() },
            "bytes" => Value::Buffer(self.base64()?),
            "regexp" => Value::RegExp { pattern: self.text()?, flags: Text::from("") },
            "error" => Value::Error(Box::new(Error {
                kind: ErrorKind::named(&self.plain_text()?).ok_or(NO_VALUE)?,
                message: None,
                line: 0,
                column: 0,
                source: None,
                stack: None,
                cause: None,
            })),
            "boxed" => match self.value(depth + 1)? {
                Value::Bool(is) => Value::BoxedBool(is),
                Value::Number(number) => Value::BoxedNumber(number),
                Value::Text(text) => Value::BoxedText(text),
                Value::BigInt(number) => Value::BoxedBigInt(number),
                _ => return Err(NO_VALUE),
            },
            "ref" => Value::Reference(self.small()?),
            _ => return Err(NO_VALUE),
        })
    }

    fn plain_number(&mut self) -> Result<f64, Refused> {
        let number = self.json.token().next_number::<f64>()?.ok().filter(|number| number.is_finite());
        number.ok_or(NO_VALUE)
    }

    fn named_number(&mut self) -> Result<f64, Refused> {
        match self.plain_text()?.as_str() {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            "-0" => Ok(-0.0),
            _ => Err(NO_VALUE),
        }
    }

    fn number(&mut self, depth: u32) -> Result<f64, Refused> {
        match self.value(depth + 1)? {
            Value::Number(number) => Ok(number),
            _ => Err(NO_VALUE),
        }
    }

    fn whole(&mut self) -> Result<u64, Refused> {
        self.json.token().next_number()?.map_err(|_| NO_VALUE)
    }

    fn small(&mut self) -> Result<u32, Refused> {
        self.json.token().next_number()?.map_err(|_| NO_VALUE)
    }

    fn plain_text(&mut self) -> Result<String, Refused> {
        let text = self.json.text_of(SPELLED.1 - self.bytes)?.ok_or(TOO_LARGE)?;
        self.bytes += text.len();
        Ok(text)
    }

    fn text(&mut self) -> Result<Text, Refused> {
        if self.json.token().peek()? == ValueType::String {
            return Ok(Text::Plain(self.plain_text()?));
        }
        match self.value(MAX_DEPTH)? {
            Value::Text(text) => Ok(text),
            _ => Err(NO_VALUE),
        }
    }

    fn base64(&mut self) -> Result<Vec<u8>, Refused> {
        BASE64.decode(self.plain_text()?).map_err(|_| Refused::Rule("must be base64"))
    }

    fn big_int(&mut self) -> Result<BigInt, Refused> {
        BigInt::from_hex(&self.plain_text()?).ok_or(NO_VALUE)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Refused>) -> Result<Vec<T>, Refused> {
        let mut items = Vec::new();
        self.json.token().begin_array()?;
        while self.json.token().has_next()? {
            items.push(item(self)?);
        }
        self.json.token().end_array()?;
        Ok(items)
    }

    fn pair<A, B>(
        &mut self,
        first: impl FnOnce(&mut Self) -> Result<A, Refused>,
        second: impl FnOnce(&mut Self) -> Result<B, Refused>,
    ) -> Result<(A, B), Refused> {
        self.json.token().begin_array()?;
        let pair = (first(self)?, second(self)?);
        self.json.token().end_array()?;
        Ok(pair)
    }

    fn pairs(&mut self, depth: u32) -> Result<Members, Refused> {
        self.list(|reader| reader.pair(Self::text, |reader| reader.value(depth + 1)))
    }
}

impl ValueMembers {
    fn into_value(mut self) -> Result<Value, Refused> {
        let mut value = self.value.take().ok_or(NO_VALUE)?;
        if let Some(kind) = self.view {
            let (offset, length, of) = (self.offset, self.length, self.of.map(Box::new));
            let (offset, length, of) = (offset.ok_or(NO_VALUE)?, length.ok_or(NO_VALUE)?, of.ok_or(NO_VALUE)?);
            return Ok(Value::View { kind, offset, length, of });
        }
        match &mut value {
            Value::Array { length, named, .. } => {
                *length = self.length.and_then(|length| u32::try_from(length).ok()).ok_or(NO_VALUE)?;
                *named = self.named.unwrap_or_default();
            }
            Value::Map { named, .. } | Value::Set { named, .. } => *named = self.named.unwrap_or_default(),
            Value::RegExp { flags, .. } => *flags = self.flags.ok_or(NO_VALUE)?,
            Value::Error(error) => {
                error.message = self.message;
                error.line = self.line.unwrap_or_default();
                error.column = self.column.unwrap_or_default();
                error.source = self.source;
                error.stack = self.stack;
                error.cause = self.cause;
            }
            _ => {}
        }
        Ok(value)
    }
}
