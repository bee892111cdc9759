//! A streaming JSON reader with limits on the size of each token.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{self, Read};
use std::rc::Rc;

use kitfleet_types::validation::Invalid;
use struson::reader::json_path::JsonPathPiece;
use struson::reader::{JsonReader as _, JsonReaderPosition, JsonStreamReader, ReaderError, ReaderSettings, ValueType};

use super::DocumentError;

/// Bytes, except texts in values.
pub const MAX_TEXT: usize = 16 * 1024;
/// Any other token: a member name, a number, or white space.
const MAX_TOKEN: u64 = 64 * 1024;
/// One level of a value uses three levels of its JSON form.
const MAX_DEPTH: u32 = 256;
/// Document bytes per byte of text.
const ESCAPED: u64 = 6;

/// The size of each token is limited.
pub struct Json<R: Read> {
    reader: JsonStreamReader<CappedReader<R>>,
    ration: Rc<Cell<u64>>,
}

pub struct CappedReader<R> {
    from: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for CappedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        let left = self.left.get().checked_sub(read as u64);
        self.left.set(left.ok_or_else(|| io::Error::other("a name, a number or white space is too long"))?);
        Ok(read)
    }
}

impl<R: Read> Json<R> {
    pub fn new(document: R) -> Self {
        let ration = Rc::new(Cell::new(MAX_TOKEN));
        let from = CappedReader { from: document, left: Rc::clone(&ration) };
        let settings = ReaderSettings {
            max_nesting_depth: Some(MAX_DEPTH),
            // Numbers of a page may have any exponent; the byte limit bounds their digits.
            restrict_number_values: false,
            ..ReaderSettings::default()
        };
        Self { reader: JsonStreamReader::new_custom(from, settings), ration }
    }

    /// Resets the byte limit.
    pub fn token(&mut self) -> &mut JsonStreamReader<CappedReader<R>> {
        self.ration.set(MAX_TOKEN);
        &mut self.reader
    }

    /// Path of the present position, in the notation of problem documents.
    pub fn here(&self) -> String {
        dotted(&self.reader.current_position(true))
    }

    /// `each` reads a member and returns `false` for unknown ones, which are skipped (contract: requests 8). A known
    /// member may occur only once.
    pub fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<bool, DocumentError>,
    ) -> Result<(), DocumentError> {
        self.token().begin_object()?;
        let mut seen = HashSet::new();
        while self.token().has_next()? {
            let name = self.token().next_name_owned()?;
            if seen.contains(&name) {
                return Err(Invalid::field(self.here(), "must occur only once").into());
            }
            if each(self, &name)? {
                seen.insert(name);
            } else {
                self.skip()?;
            }
        }
        Ok(self.token().end_object()?)
    }

    /// Skips a value of any size. The crate's own function would keep member names of any length in memory.
    pub fn skip(&mut self) -> Result<(), DocumentError> {
        match self.token().peek()? {
            ValueType::Array => {
                self.token().begin_array()?;
                while self.token().has_next()? {
                    self.skip()?;
                }
                self.token().end_array()?;
            }
            ValueType::Object => {
                self.token().begin_object()?;
                while self.token().has_next()? {
                    self.token().skip_name()?;
                    self.skip()?;
                }
                self.token().end_object()?;
            }
            ValueType::String => {
                self.ration.set(u64::MAX);
                self.reader.skip_value()?;
            }
            ValueType::Number | ValueType::Boolean | ValueType::Null => self.token().skip_value()?,
        }
        Ok(())
    }

    pub fn array(
        &mut self,
        max: usize,
        mut each: impl FnMut(&mut Self) -> Result<(), DocumentError>,
    ) -> Result<(), DocumentError> {
        self.token().begin_array()?;
        for items in 0.. {
            if !self.token().has_next()? {
                break;
            }
            if items == max {
                let (at, _) =
                    self.here().rsplit_once('.').map(|(at, item)| (at.to_owned(), item.to_owned())).unwrap_or_default();
                return Err(Invalid::field(at, format!("must have at most {max} items")).into());
            }
            each(self)?;
        }
        Ok(self.token().end_array()?)
    }

    pub fn text(&mut self) -> Result<String, DocumentError> {
        self.text_that(|_| true, "")
    }

    pub fn text_that(&mut self, rule: impl Fn(&str) -> bool, message: &str) -> Result<String, DocumentError> {
        let at = self.here();
        let Some(text) = self.text_of(MAX_TEXT)? else {
            return Err(Invalid::field(at, format!("must have at most {MAX_TEXT} bytes")).into());
        };
        if text.contains('\0') {
            return Err(Invalid::field(at, "must not contain the character U+0000").into());
        }
        if rule(&text) { Ok(text) } else { Err(Invalid::field(at, message).into()) }
    }

    /// `None` if the text is larger than `max` bytes.
    pub fn text_of(&mut self, max: usize) -> Result<Option<String>, DocumentError> {
        self.ration.set(MAX_TOKEN + ESCAPED * max as u64);
        let mut text = Vec::new();
        let read = self.reader.next_string_reader()?.take(max as u64 + 1).read_to_end(&mut text);
        read.map_err(|error| DocumentError::Malformed(error.to_string()))?;
        if text.len() > max {
            return Ok(None);
        }
        String::from_utf8(text).map(Some).map_err(|error| DocumentError::Malformed(error.to_string()))
    }

    pub fn number_that(&mut self, rule: impl Fn(i64) -> bool, message: &str) -> Result<i64, DocumentError> {
        let at = self.here();
        let number = self.token().next_number::<i64>()?.ok().filter(|number| rule(*number));
        number.ok_or_else(|| Invalid::field(at, message).into())
    }

    pub fn end(self) -> Result<(), DocumentError> {
        self.ration.set(MAX_TOKEN);
        Ok(self.reader.consume_trailing_whitespace()?)
    }
}

impl From<ReaderError> for DocumentError {
    fn from(error: ReaderError) -> Self {
        match error {
            ReaderError::UnexpectedValueType { expected, location, .. } => {
                let message = format!("must be of type {}", expected.to_string().to_lowercase());
                let at = Some(dotted(&location)).filter(|at| !at.is_empty());
                // As in other problem documents, an error of the whole document has the field `body`.
                Invalid::field(at.unwrap_or_else(|| "body".to_owned()), message).into()
            }
            error => Self::Malformed(error.to_string()),
        }
    }
}

fn dotted(position: &JsonReaderPosition) -> String {
    let pieces = position.path.iter().flatten().map(|piece| match piece {
        JsonPathPiece::ArrayItem(index) => index.to_string(),
        JsonPathPiece::ObjectMember(name) => name.clone(),
    });
    pieces.collect::<Vec<_>>().join(".")
}
