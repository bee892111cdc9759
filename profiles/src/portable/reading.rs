//! Reading a document.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek as _, Write};
use std::rc::Rc;
use std::sync::Arc;

use base64::engine::general_purpose::STANDARD as BASE64;
use base64::read::DecoderReader;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use kitfleet_domain::validation::{Invalid, Rules};
use struson::reader::json_path::JsonPathPiece;
use struson::reader::{JsonReader as _, JsonReaderPosition, JsonStreamReader, ReaderError, ReaderSettings, ValueType};
use tokio::io::AsyncWriteExt as _;

use super::{Document, DocumentError, FORMAT, PIECE, VERSION};
use crate::cookies::{self, Cookie, MAX_COOKIES};
use crate::files::{Count, FOLDERS, MAX_FILES, RelativePath, Spooled, SpooledFile};
use crate::{Dump, Files};

/// Bytes of a text in a document, at most, but for a file's.
const MAX_TEXT: usize = 16 * 1024;
/// Characters of where a document comes from, at most: an id of ours has fewer.
const MAX_SOURCE: usize = 64;
/// Bytes of anything else that a document is made of: a member's name, a number, a gap between them.
const MAX_TOKEN: u64 = 64 * 1024;
/// How deep what we do not know in a document may go, as in any other request.
const MAX_DEPTH: u32 = 128;
/// Members that we do not know and that are told of, at most.
const MAX_UNKNOWN: usize = 100;
/// Characters of their names, at most.
const MAX_UNKNOWN_CHARS: usize = 256;
/// What is told of a member that is missing.
const MISSING: &str = "is missing";

/// Puts a document into a file as it arrives, so that no thread waits for somebody's network.
pub async fn receive<E: fmt::Display>(
    body: impl Stream<Item = Result<Bytes, E>>,
    file: File,
    limit: u64,
) -> Result<File, DocumentError> {
    let mut body = std::pin::pin!(body);
    let (mut file, mut size) = (tokio::fs::File::from_std(file), 0);
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(|error| DocumentError::Body(error.to_string()))?;
        size += bytes.len() as u64;
        if size > limit {
            return Err(DocumentError::TooLarge(limit));
        }
        file.write_all(&bytes).await.map_err(DocumentError::Disk)?;
    }
    file.flush().await.map_err(DocumentError::Disk)?;
    let mut file = file.into_std().await;
    file.rewind().map_err(DocumentError::Disk)?;
    Ok(file)
}

/// Reads a document, whose files go into another one. Members of it that we do not know are as if absent, and those of the
/// document itself are added to `unknown`.
pub fn read(document: &mut dyn Read, files: File, unknown: &mut Vec<String>) -> Result<Document, DocumentError> {
    let mut json = Json::new(document);
    let mut spool =
        Spool { to: BufWriter::new(files), at: 0, files: Vec::new(), paths: HashSet::new(), count: Count::default() };
    let (mut format, mut version, mut name, mut archetype) = (None, None, None, None);
    let (mut source_profile_id, mut source_account_id) = (None, None);
    let (mut cookies, mut cookie_bytes) = (Vec::new(), 0);
    json.object(|json, member| {
        match member {
            "format" => format = Some(json.text_that(|text| text == FORMAT, "must be kitfleet.profile")?),
            "version" => version = Some(json.number_that(|number| number == i64::from(VERSION), "must be 1")?),
            "name" => name = Some(json.text()?),
            "archetype" => archetype = Some(json.text()?),
            "source_profile_id" => source_profile_id = Some(json.source()?),
            "source_account_id" => source_account_id = Some(json.source()?),
            "exported_at" => drop(json.text()?),
            "cookies" => json.array(MAX_COOKIES, |json| {
                let (at, cookie) = (json.here(), json.cookie()?);
                cookie_bytes += cookie.bytes();
                if cookie_bytes > cookies::MAX_BYTES {
                    let message = format!("all cookies must have at most {} bytes", cookies::MAX_BYTES);
                    return Err(Invalid::field(at, message).into());
                }
                cookies.push(cookie);
                Ok(())
            })?,
            "origins" => json.array(MAX_FILES, |json| {
                json.object(|json, member| {
                    match member {
                        // For its readers: the paths say it, too.
                        "origin" => drop(json.text()?),
                        "files" => json.array(MAX_FILES, |json| json.file(&mut spool))?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })
            })?,
            "files" => json.array(MAX_FILES, |json| json.file(&mut spool))?,
            name => {
                if unknown.len() < MAX_UNKNOWN {
                    unknown.push(name.chars().take(MAX_UNKNOWN_CHARS).collect());
                }
                return Ok(false);
            }
        }
        Ok(true)
    })?;
    json.end()?;
    let mut missing = Rules::default();
    missing.require(format.is_some(), "format", MISSING);
    missing.require(version.is_some(), "version", MISSING);
    let (name, archetype) = (name.unwrap_or_default(), archetype.unwrap_or_default());
    let files = spool.finish()?;
    let holds_nothing = cookies.is_empty() && files.files.iter().all(|file| file.size == 0);
    let dump = (!holds_nothing).then_some(Dump { cookies, files: Files::Spooled(files) });
    Ok(Document { source_profile_id, source_account_id, name, archetype, missing, dump, _turn: None })
}

fn present<T>(member: Option<T>, field: &str) -> Result<T, Invalid> {
    member.ok_or_else(|| Invalid::field(field, MISSING))
}

/// Files on their way from a document.
struct Spool {
    to: BufWriter<File>,
    at: u64,
    files: Vec<SpooledFile>,
    paths: HashSet<RelativePath>,
    count: Count,
}

impl Spool {
    fn finish(self) -> Result<Spooled, DocumentError> {
        for path in &self.paths {
            if path.folders().any(|folder| self.paths.contains(folder)) {
                let message = format!("{} lies in what is a file", path.as_str());
                return Err(Invalid::field("files", message).into());
            }
        }
        let bytes = self.to.into_inner().map_err(|error| DocumentError::Disk(error.into_error()))?;
        Ok(Spooled { bytes: Arc::new(bytes), files: self.files })
    }
}

/// A document, token by token. None of its tokens can fill the memory.
struct Json<R: Read> {
    reader: JsonStreamReader<Rationed<R>>,
    ration: Rc<Cell<u64>>,
}

/// Gives so many bytes, and then an error.
struct Rationed<R> {
    from: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Rationed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        let left = self.left.get().checked_sub(read as u64);
        self.left.set(left.ok_or_else(|| io::Error::other("a name, a number or a gap is longer than any should be"))?);
        Ok(read)
    }
}

impl<R: Read> Json<R> {
    fn new(document: R) -> Self {
        let ration = Rc::new(Cell::new(MAX_TOKEN));
        let from = Rationed { from: document, left: Rc::clone(&ration) };
        let settings = ReaderSettings { max_nesting_depth: Some(MAX_DEPTH), ..ReaderSettings::default() };
        Self { reader: JsonStreamReader::new_custom(from, settings), ration }
    }

    /// For the next token.
    fn token(&mut self) -> &mut JsonStreamReader<Rationed<R>> {
        self.ration.set(MAX_TOKEN);
        &mut self.reader
    }

    /// Where the reader is, as our problem documents write it.
    fn here(&self) -> String {
        dotted(&self.reader.current_position(true))
    }

    /// An object, each of whose members `each` reads, once; it answers `false` for those it does not know, which are passed
    /// over (interface, "Errors").
    fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<bool, DocumentError>,
    ) -> Result<(), DocumentError> {
        self.token().begin_object()?;
        let mut seen = HashSet::new();
        while self.token().has_next()? {
            let name = self.token().next_name_owned()?;
            let at = self.here();
            if seen.contains(&name) {
                return Err(Invalid::field(at, "must be there once").into());
            }
            if each(self, &name)? {
                seen.insert(name);
            } else {
                self.skip()?;
            }
        }
        Ok(self.token().end_object()?)
    }

    /// Passes over a value, whatever its size. The crate's own way would remember names, however long they are.
    fn skip(&mut self) -> Result<(), DocumentError> {
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

    /// An array, each of whose items `each` reads.
    fn array(
        &mut self,
        max: usize,
        mut each: impl FnMut(&mut Self) -> Result<(), DocumentError>,
    ) -> Result<(), DocumentError> {
        let at = self.here();
        self.token().begin_array()?;
        for items in 0.. {
            if !self.token().has_next()? {
                break;
            }
            if items == max {
                return Err(Invalid::field(at, format!("must have at most {max} items")).into());
            }
            each(self)?;
        }
        Ok(self.token().end_array()?)
    }

    fn text(&mut self) -> Result<String, DocumentError> {
        self.text_that(|_| true, "")
    }

    fn text_that(&mut self, rule: impl Fn(&str) -> bool, message: &str) -> Result<String, DocumentError> {
        let at = self.here();
        let mut text = Vec::new();
        let read = self.token().next_string_reader()?.take(MAX_TEXT as u64 + 1).read_to_end(&mut text);
        read.map_err(|error| DocumentError::Malformed(error.to_string()))?;
        if text.len() > MAX_TEXT {
            return Err(Invalid::field(at, format!("must have at most {MAX_TEXT} bytes")).into());
        }
        let text = String::from_utf8(text).map_err(|error| DocumentError::Malformed(error.to_string()))?;
        if text.contains('\0') {
            return Err(Invalid::field(at, "must not contain the character U+0000").into());
        }
        if rule(&text) { Ok(text) } else { Err(Invalid::field(at, message).into()) }
    }

    fn source(&mut self) -> Result<String, DocumentError> {
        self.text_that(|text| text.chars().count() <= MAX_SOURCE, &format!("must have at most {MAX_SOURCE} characters"))
    }

    fn number_that(&mut self, rule: impl Fn(i64) -> bool, message: &str) -> Result<i64, DocumentError> {
        let at = self.here();
        let number = self.token().next_number::<i64>()?.ok().filter(|number| rule(*number));
        number.ok_or_else(|| Invalid::field(at, message).into())
    }

    fn cookie(&mut self) -> Result<Cookie, DocumentError> {
        let at = self.here();
        let (mut name, mut value, mut domain, mut path, mut same_site) = (None, None, None, None, None);
        let (mut expires, mut secure, mut http_only) = (None, None, None);
        self.object(|json, member| {
            match member {
                "name" => name = Some(json.text()?),
                "value" => value = Some(json.text()?),
                "domain" => domain = Some(json.text()?.to_ascii_lowercase()),
                "path" => path = Some(json.text()?),
                "same_site" => same_site = Some(json.text()?),
                "expires" if json.token().peek()? == ValueType::Null => json.token().next_null()?,
                "expires" => expires = Some(json.number_that(|_| true, "must be a whole number of seconds")?),
                "secure" => secure = Some(json.token().next_bool()?),
                "http_only" => http_only = Some(json.token().next_bool()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let field = |member| format!("{at}.{member}");
        let cookie = Cookie {
            name: present(name, &field("name"))?,
            value: present(value, &field("value"))?,
            domain: present(domain, &field("domain"))?,
            path: present(path, &field("path"))?,
            expires,
            secure: present(secure, &field("secure"))?,
            http_only: present(http_only, &field("http_only"))?,
            same_site: present(same_site, &field("same_site"))?,
        };
        cookie.check().map_err(|(member, message)| Invalid::field(field(member), message))?;
        Ok(cookie)
    }

    fn file(&mut self, spool: &mut Spool) -> Result<(), DocumentError> {
        let at = self.here();
        let (mut path, mut size) = (None, None);
        self.object(|json, member| {
            match member {
                "path" => path = Some(json.path()?),
                "data" => size = Some(json.data(&mut spool.to)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let path = present(path, &format!("{at}.path"))?;
        let size = present(size, &format!("{at}.data"))?;
        if !spool.count.add(&path) {
            let message = format!("there must be at most {MAX_FILES} files and folders, with shorter paths");
            return Err(Invalid::field(at, message).into());
        }
        if !spool.paths.insert(path.clone()) {
            return Err(Invalid::field(format!("{at}.path"), "must be that of one file only").into());
        }
        spool.files.push(SpooledFile { path, at: spool.at, size });
        spool.at += size;
        Ok(())
    }

    fn path(&mut self) -> Result<RelativePath, DocumentError> {
        let at = self.here();
        let path = RelativePath::parse(&self.text()?).filter(RelativePath::is_site_data);
        let message = || format!("must be a relative path without `..`, below {}", FOLDERS.join("/ or ") + "/");
        path.ok_or_else(|| Invalid::field(at, message()).into())
    }

    /// Writes what a text holds in base64 to `to`. Answers how many bytes that was.
    fn data(&mut self, to: &mut impl Write) -> Result<u64, DocumentError> {
        let at = self.here();
        self.ration.set(u64::MAX);
        let text = self.reader.next_string_reader()?;
        let mut data = DecoderReader::new(text, &BASE64);
        let mut size = 0;
        let mut buffer = vec![0; PIECE];
        loop {
            let read = data.read(&mut buffer).map_err(|error| match error.get_ref() {
                Some(inner) if inner.is::<base64::DecodeError>() => Invalid::field(&at, "must be base64").into(),
                _ => DocumentError::Malformed(error.to_string()),
            })?;
            if read == 0 {
                return Ok(size);
            }
            to.write_all(&buffer[..read]).map_err(DocumentError::Disk)?;
            size += read as u64;
        }
    }

    fn end(self) -> Result<(), DocumentError> {
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
                // As everywhere, what is wrong with all of it is told of the body.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use kitfleet_domain::ids::{AccountId, ProfileId};
    use serde_json::{Value, json};

    use super::*;
    use crate::gate::Gate;
    use crate::portable::{About, write};
    use crate::{archive, files};

    const LOCAL: &str = "localstorage/https_a.example_0.localstorage";
    const INDEXED: &str = "databases/indexeddb/v1/https_b.example_0/1/IndexedDB.sqlite3";
    const LOOSE: &str = "databases/known";

    fn document() -> Value {
        json!({
            "format": "kitfleet.profile", "version": 1, "exported_at": "2026-11-21T00:00:00.000Z",
            "source_profile_id": "prof_1", "source_account_id": "acc_1", "name": "Shop", "archetype": "iphone",
            "cookies": [Cookie::sample("sid")],
            "origins": [
                {"origin": "https://a.example", "files": [{"path": LOCAL, "data": "AAEC/w=="}]},
                {"origin": "https://b.example", "files": [{"path": INDEXED, "data": "aGk="}]},
            ],
            "files": [{"path": LOOSE, "data": ""}],
        })
    }

    fn read_text(text: &str) -> Result<Document, DocumentError> {
        read(&mut text.as_bytes(), tempfile::tempfile().expect("a file"), &mut Vec::new())
    }

    /// Which member breaks a rule.
    fn refused(change: impl FnOnce(&mut Value)) -> String {
        let mut document = document();
        change(&mut document);
        match read_text(&document.to_string()) {
            Err(DocumentError::Invalid(Invalid(fields))) => fields[0].field.clone(),
            other => panic!("{other:?} for {document}"),
        }
    }

    fn archived(dump: Dump) -> Vec<u8> {
        let mut archive = Vec::new();
        let cookies = archive::spell(&dump.cookies).expect("cookies");
        archive::pack(&cookies, &files::list(dump.files).expect("a list"), &mut archive).expect("an archive");
        archive
    }

    #[test]
    fn what_is_read_is_written_again() {
        let read = read_text(&document().to_string()).expect("a document");
        assert_eq!((read.name.as_str(), read.archetype.as_str()), ("Shop", "iphone"));
        assert_eq!(read.source_account_id.as_deref(), Some("acc_1"));
        let about = About {
            exported_at: serde_json::from_value(json!("2026-11-21T00:00:00Z")).expect("a time"),
            profile: ProfileId::generate(),
            account: AccountId::generate(),
            name: read.name,
            archetype: read.archetype,
        };
        let archive = archived(read.dump.expect("what it holds"));
        let folder = tempfile::tempdir().expect("a folder");
        archive::unpack(&mut archive.as_slice(), folder.path(), &Gate::default()).expect("an archive");
        assert_eq!(fs::read(folder.path().join(LOCAL)).expect("a file"), [0, 1, 2, 255]);

        let mut text = Vec::new();
        write(&about, Some(&mut archive.as_slice()), &mut text).expect("a document");
        let written: Value = serde_json::from_slice(&text).expect("JSON");
        let mut expected = document();
        expected["source_profile_id"] = json!(about.profile);
        expected["source_account_id"] = json!(about.account);
        assert_eq!(written, expected);

        let mut nothing = Vec::new();
        write(&about, None, &mut nothing).expect("a document");
        let read = read_text(std::str::from_utf8(&nothing).expect("text")).expect("a document");
        assert!(read.dump.is_none() && read.name == "Shop");
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        let Value::Object(members) = document() else { panic!("an object") };
        let turned: serde_json::Map<_, _> = members.into_iter().rev().collect();
        assert!(read_text(&serde_json::to_string_pretty(&turned).expect("JSON")).is_ok());
    }

    #[test]
    fn members_that_nobody_knows_are_passed_over() {
        let mut document = document();
        document["more"] = json!({"deep": [[{"cookies": 1}]]});
        document["n".repeat(300)] = json!("x".repeat(1024 * 1024));
        document["cookies"][0]["priority"] = json!("high");
        document["origins"][0]["files"][0]["mode"] = json!(644);
        let (mut unknown, files) = (Vec::new(), tempfile::tempfile().expect("a file"));
        let read = read(&mut document.to_string().as_bytes(), files, &mut unknown).expect("a document");
        assert_eq!(read.dump.expect("what it holds").cookies, [Cookie::sample("sid")]);
        assert_eq!(unknown, ["more".to_owned(), "n".repeat(256)]);
    }

    #[test]
    fn every_member_is_checked() {
        assert_eq!(refused(|document| document["format"] = json!("other")), "format");
        assert_eq!(refused(|document| document["version"] = json!(2)), "version");
        assert_eq!(refused(|document| document["version"] = json!("1")), "version");
        assert_eq!(refused(|document| document["name"] = json!(null)), "name");
        assert_eq!(refused(|document| document["name"] = json!("a\0b")), "name");
        assert_eq!(refused(|document| document["name"] = json!("n".repeat(MAX_TEXT + 1))), "name");
        for member in ["source_profile_id", "source_account_id"] {
            assert_eq!(refused(|document| document[member] = json!("p".repeat(MAX_SOURCE + 1))), member);
        }
        let cookie = |member: &str, value: Value| refused(|document| document["cookies"][0][member] = value);
        for (member, value) in [
            ("name", json!("a\nb")),
            ("value", json!("a;b")),
            ("domain", json!("a/b")),
            ("domain", json!("")),
            ("domain", json!(".")),
            ("value", json!("v".repeat(4096))),
            ("path", json!(format!("/{}", "p".repeat(1024)))),
            ("path", json!("x")),
            ("expires", json!(-1)),
            ("expires", json!("soon")),
            ("secure", json!(1)),
            ("same_site", json!("lax")),
        ] {
            assert_eq!(cookie(member, value), format!("cookies.0.{member}"));
        }
        let many = |document: &mut Value| document["cookies"] = json!(vec![Cookie::sample("a"); MAX_COOKIES + 1]);
        assert_eq!(refused(many), "cookies");
        let fat = Cookie { value: "v".repeat(4_000), ..Cookie::sample("a") };
        let fits = cookies::MAX_BYTES / fat.bytes();
        assert_eq!(refused(|document| document["cookies"] = json!(vec![fat; 5_000])), format!("cookies.{fits}"));
    }

    #[test]
    fn what_is_missing_is_told_together() {
        let read = read_text("{}").expect("one that lacks everything");
        assert_eq!((read.name.as_str(), read.archetype.as_str()), ("", ""));
        let missing = read.missing.check().expect_err("some of it");
        let fields: Vec<_> = missing.0.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["format", "version"]);
    }

    #[test]
    fn a_domain_may_be_spelled_otherwise() {
        let mut document = document();
        document["cookies"][0]["domain"] = json!(".Example.COM");
        let dump = read_text(&document.to_string()).expect("a document").dump.expect("what it holds");
        assert_eq!(dump.cookies, [Cookie::sample("sid")]);
    }

    #[test]
    fn a_file_lies_where_sites_keep_theirs_and_nowhere_else() {
        let file = |path: &str| refused(|document| document["files"][0]["path"] = json!(path));
        let outside = ["../up", "/etc/passwd", "databases/../../up", "cookies.sqlite", "storage/salt", "databases", ""];
        for path in outside {
            assert_eq!(file(path), "files.0.path", "{path}");
        }
        assert_eq!(file(&format!("databases/{}file", "a/".repeat(20))), "files.0.path");
        // One that is there, and one below what is a file.
        assert_eq!(file(LOCAL), "files.0.path");
        assert_eq!(file(&format!("{LOCAL}/below")), "files");
        assert_eq!(
            refused(|document| document["origins"][1]["files"][0]["data"] = json!("a")),
            "origins.1.files.0.data"
        );
        assert_eq!(refused(|document| document["files"][0]["data"] = json!("####")), "files.0.data");
    }

    #[test]
    fn many_folders_are_refused() {
        let path = |n: usize| format!("databases/{n}/{}file", "a/".repeat(12));
        let files: Vec<_> = (0..4_000).map(|n| json!({"path": path(n), "data": ""})).collect();
        assert_eq!(refused(|document| document["files"] = json!(files)), "files.3570");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let good = document().to_string();
        let twice = good.replacen('{', r#"{"name": "a", "#, 1);
        assert!(matches!(read_text(&twice), Err(DocumentError::Invalid(_))));
        let deep = good.replacen(r#""version":1"#, &format!(r#""version":{}"#, "[".repeat(100_000)), 1);
        assert!(read_text(&deep).is_err());
        for length in [0, 1, good.len() / 2, good.len() - 1] {
            assert!(matches!(read_text(&good[..length]), Err(DocumentError::Malformed(_))), "{length}");
        }
        assert!(matches!(read_text(&format!("{good}x")), Err(DocumentError::Malformed(_))));
        assert!(matches!(read_text("[1]"), Err(DocumentError::Invalid(_))));
    }

    #[test]
    fn nothing_in_a_document_fills_the_memory() {
        for start in ["{\"", "{\"version\": 1", "{\"name\": \"", "{\"more\": {\"", "{\"more\": [1"] {
            let mut endless = start.as_bytes().chain(io::repeat(b'1'));
            assert!(read(&mut endless, tempfile::tempfile().expect("a file"), &mut Vec::new()).is_err(), "{start}");
        }
    }
}
