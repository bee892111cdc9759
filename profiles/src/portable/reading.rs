//! Reads a document and builds a browser's files from it. No byte of these files is copied from the document.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Seek as _};
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use kitfleet_types::validation::{Invalid, Rules};
use sha2::{Digest as _, Sha256};
use struson::reader::{JsonReader as _, ValueType};
use tokio::io::AsyncWriteExt as _;

use super::json::{Json, MAX_TEXT};
use super::values::{self, Refused};
use super::{Document, DocumentError, FORMAT, MAX_DATABASES, MAX_INDEX_KEYS, MAX_RECORDS, MAX_SITES, VERSION};
use crate::cookies::{self, Cookie, MAX_COOKIES};
use crate::files::{Files, MAX_BYTES};
use crate::scratch::Scratch;
use crate::webkit::databases::{self, Index, MAX_INDEXES, MAX_STORES, Store};
use crate::webkit::key_paths::KeyPath;
use crate::webkit::keys::Key;
use crate::webkit::names::{self, Origin, Site};
use crate::webkit::rebuilding::{BuildError, DatabaseBuilder};
use crate::{Dump, webkit};

/// Ids of Kitfleet are shorter.
const MAX_SOURCE: usize = 64;
const MAX_UNKNOWN: usize = 100;
const MAX_UNKNOWN_CHARS: usize = 256;
/// 2^53.
const MAX_WHOLE: i64 = 1 << 53;
const MISSING: &str = "is missing";

/// No thread waits for a client's network.
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

/// Ignores unknown members; those at the top level are added to `unknown`.
pub fn read(document: &mut dyn Read, into: Scratch, unknown: &mut Vec<String>) -> Result<Document, DocumentError> {
    let mut json = Json::new(document);
    let mut making =
        SiteFiles { into, left: MAX_BYTES, made: 0, sites: HashSet::new(), databases: 0, records: 0, index_keys: 0 };
    let (mut format, mut version, mut name, mut archetype) = (None, None, None, None);
    let (mut source_profile_id, mut source_account_id) = (None, None);
    let (mut cookies, mut cookie_bytes) = (Vec::new(), 0);
    json.object(|json, member| {
        match member {
            "format" => format = Some(json.text_that(|text| text == FORMAT, "must be kitfleet.profile")?),
            "version" => version = Some(json.number_that(|number| number == i64::from(VERSION), "must be 2")?),
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
            "origins" => json.array(MAX_SITES, |json| making.site(json))?,
            // Information for readers of the document.
            "left_out" => json.skip()?,
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
    let holds_nothing = cookies.is_empty() && making.made == 0;
    let dump = (!holds_nothing).then(|| Dump { cookies, files: Files::from(making.into) });
    Ok(Document { source_profile_id, source_account_id, name, archetype, missing, dump, _turn: None })
}

fn present<T>(member: Option<T>, field: &str) -> Result<T, Invalid> {
    member.ok_or_else(|| Invalid::field(field, MISSING))
}

struct SiteFiles {
    into: Scratch,
    left: u64,
    made: usize,
    sites: HashSet<Site>,
    databases: usize,
    records: usize,
    index_keys: usize,
}

struct RebuiltDatabase {
    at: String,
    name: String,
    file: PathBuf,
}

impl SiteFiles {
    /// The site of the file is not known yet.
    fn next(&mut self) -> PathBuf {
        self.made += 1;
        self.into.path().join("made").join(self.made.to_string())
    }

    fn finish(&mut self, building: DatabaseBuilder) -> Result<(), DocumentError> {
        let bytes = building.finish()?;
        self.left = self.left.checked_sub(bytes).ok_or(BuildError::TooLarge)?;
        Ok(())
    }

    fn put(&self, file: PathBuf, path: &str) -> Result<(), DocumentError> {
        let path = self.into.path().join(path);
        let moved = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::rename(file, path));
        moved.map_err(DocumentError::Disk)
    }

    fn site<R: Read>(&mut self, json: &mut Json<R>) -> Result<(), DocumentError> {
        let at = json.here();
        let (mut origin, mut embedded_in, mut local, mut databases) = (None, None, None, Vec::new());
        json.object(|json, member| {
            match member {
                "origin" => origin = Some(json.origin()?),
                "embedded_in" => embedded_in = Some(json.origin()?),
                "local_storage" => local = self.local_storage(json)?,
                "databases" => json.array(MAX_DATABASES, |json| {
                    databases.push(self.database(json)?);
                    Ok(())
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let site = Site { origin: present(origin, &format!("{at}.origin"))?, embedded_in };
        if site.embedded_in.is_some() && local.is_some() {
            return Err(Invalid::field(format!("{at}.local_storage"), "is not kept for embedded sites").into());
        }
        if let Some(file) = local {
            self.put(file, &names::local_storage(&site.origin))?;
        }
        let mut named = HashSet::new();
        for RebuiltDatabase { at, name, file } in databases {
            self.put(file, &names::database(&site, &name))?;
            if !named.insert(name) {
                return Err(Invalid::field(format!("{at}.name"), "must be unique among the databases").into());
            }
        }
        if !self.sites.insert(site) {
            return Err(Invalid::field(at, "must occur only once").into());
        }
        Ok(())
    }

    fn local_storage<R: Read>(&mut self, json: &mut Json<R>) -> Result<Option<PathBuf>, DocumentError> {
        json.token().begin_array()?;
        if !json.token().has_next()? {
            json.token().end_array()?;
            return Ok(None);
        }
        let file = self.next();
        let building = DatabaseBuilder::local_storage(&file, self.left)?;
        while json.token().has_next()? {
            let at = json.here();
            self.count_record(&at)?;
            json.token().begin_array()?;
            let key = json.text_of(webkit::values::MAX_BYTES)?;
            let key = key.ok_or_else(|| Invalid::field(&at, "has a key that is too long"))?;
            let value = values::read_text(json).map_err(|refused| refused.at(&at))?;
            json.token().end_array()?;
            building.item(&key, &value)?;
        }
        json.token().end_array()?;
        self.finish(building)?;
        Ok(Some(file))
    }

    fn count_record(&mut self, at: &str) -> Result<(), DocumentError> {
        self.records += 1;
        if self.records > MAX_RECORDS {
            let message = format!("there must be at most {MAX_RECORDS} records and items of local storage");
            return Err(Invalid::field(at, message).into());
        }
        Ok(())
    }

    fn count_index_keys(&mut self, more: usize, at: &str) -> Result<(), DocumentError> {
        self.index_keys += more;
        if self.index_keys > MAX_INDEX_KEYS {
            let message = format!("there must be at most {MAX_INDEX_KEYS} keys in indexes");
            return Err(Invalid::field(format!("{at}.index_keys"), message).into());
        }
        Ok(())
    }

    fn database<R: Read>(&mut self, json: &mut Json<R>) -> Result<RebuiltDatabase, DocumentError> {
        let at = json.here();
        self.databases += 1;
        if self.databases > MAX_DATABASES {
            return Err(Invalid::field(at, format!("there must be at most {MAX_DATABASES} databases")).into());
        }
        let file = self.next();
        let building = DatabaseBuilder::database(&file, self.left)?;
        let mut database = DatabaseMaking { building, numbers: Numbers::default(), keys: HashSet::new(), records: 0 };
        let (mut name, mut version, mut stores) = (None, None, Vec::new());
        json.object(|json, member| {
            match member {
                "name" => name = Some(json.name()?),
                "version" => version = Some(json.whole_from(1)?),
                "stores" => json.array(MAX_STORES, |json| {
                    stores.push(json.store(&mut database.numbers)?);
                    Ok(())
                })?,
                "records" => json.array(MAX_RECORDS, |json| {
                    let at = json.here();
                    self.count_record(&at)?;
                    let index_keys = database.record(json)?;
                    self.count_index_keys(index_keys, &at)
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let name = present(name, &format!("{at}.name"))?;
        let version = present(version, &format!("{at}.version"))?;
        database.numbers.check(&at, &stores)?;
        let building = database.building;
        stores.iter().try_for_each(|store| building.store(store))?;
        building.name(&name, version.unsigned_abs())?;
        self.finish(building)?;
        Ok(RebuiltDatabase { at, name, file })
    }
}

struct DatabaseMaking {
    building: DatabaseBuilder,
    numbers: Numbers,
    /// WebKit does not open a database in which two records have the same key.
    keys: HashSet<[u8; 16]>,
    records: i64,
}

/// Records may refer to stores and indexes before they are defined.
#[derive(Default)]
struct Numbers {
    stores: HashMap<String, i64>,
    indexes: HashMap<(i64, String), i64>,
}

impl Numbers {
    fn store(&mut self, name: String) -> i64 {
        let next = 1 + i64::try_from(self.stores.len()).unwrap_or(i64::MAX - 1);
        *self.stores.entry(name).or_insert(next)
    }

    fn index(&mut self, store: i64, name: String) -> i64 {
        let next = 1 + i64::try_from(self.indexes.len()).unwrap_or(i64::MAX - 1);
        *self.indexes.entry((store, name)).or_insert(next)
    }

    /// Each one that was referred to is defined exactly once.
    fn check(&self, at: &str, stores: &[Store]) -> Result<(), Invalid> {
        let (mut known_stores, mut known_indexes) = (HashSet::new(), HashSet::new());
        let once = stores.iter().all(|store| {
            known_stores.insert(store.id) && store.indexes.iter().all(|index| known_indexes.insert(index.id))
        });
        if !once {
            return Err(Invalid::field(format!("{at}.stores"), "must not have two stores or indexes of one name"));
        }
        if known_stores.len() < self.stores.len() || known_indexes.len() < self.indexes.len() {
            return Err(Invalid::field(format!("{at}.records"), "must refer to defined stores and indexes"));
        }
        Ok(())
    }
}

impl DatabaseMaking {
    /// Returns the number of index keys.
    fn record<R: Read>(&mut self, json: &mut Json<R>) -> Result<usize, DocumentError> {
        let at = json.here();
        let (mut store, mut key, mut value, mut index_keys) = (None, None, None, Vec::new());
        json.object(|json, member| {
            match member {
                "store" => store = Some(json.name()?),
                "key" => key = Some(json.key()?),
                "value" => {
                    let read = values::read(json).map(|value| value.encode());
                    let encoded = read.map_err(|refused| refused.at(&format!("{at}.value")))?;
                    let broken = |error| Invalid::field(format!("{at}.value"), format!("{error}"));
                    value = Some(encoded.map_err(broken)?);
                }
                "index_keys" => json.array(databases::MAX_INDEX_KEYS, |json| {
                    index_keys.push(json.index_key()?);
                    Ok(())
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let store = self.numbers.store(present(store, &format!("{at}.store"))?);
        let key = present(key, &format!("{at}.key"))?;
        let value = present(value, &format!("{at}.value"))?;
        let mut digest = [0; 16];
        let hash = Sha256::new_with_prefix(store.to_le_bytes()).chain_update(&key).finalize();
        digest.copy_from_slice(&hash[..16]);
        if !self.keys.insert(digest) {
            return Err(Invalid::field(format!("{at}.key"), "must be unique among the records").into());
        }
        self.records += 1;
        self.building.record(self.records, store, &key, &value)?;
        let count = index_keys.len();
        for (index, index_key) in index_keys {
            let index = self.numbers.index(store, index);
            self.building.index_key((store, index, self.records), &index_key, &key)?;
        }
        Ok(count)
    }
}

impl<R: Read> Json<R> {
    fn source(&mut self) -> Result<String, DocumentError> {
        self.text_that(|text| text.chars().count() <= MAX_SOURCE, &format!("must have at most {MAX_SOURCE} characters"))
    }

    fn origin(&mut self) -> Result<Origin, DocumentError> {
        let at = self.here();
        let origin = Origin::parse(&self.text()?);
        origin.ok_or_else(|| Invalid::field(at, "must be the origin of a site, such as https://example.com").into())
    }

    /// A page may have chosen any text.
    fn name(&mut self) -> Result<String, DocumentError> {
        let at = self.here();
        let name = self.text_of(MAX_TEXT)?;
        name.ok_or_else(|| Invalid::field(at, format!("must have at most {MAX_TEXT} bytes")).into())
    }

    fn whole_from(&mut self, least: i64) -> Result<i64, DocumentError> {
        let message = format!("must be a whole number from {least} to {MAX_WHOLE}");
        self.number_that(|number| (least..=MAX_WHOLE).contains(&number), &message)
    }

    /// Returns WebKit's encoding of the key.
    fn key(&mut self) -> Result<Vec<u8>, DocumentError> {
        let at = self.here();
        let value = values::read(self).map_err(|refused| refused.at(&at))?;
        let key = Key::of(&value).and_then(|key| key.encode());
        key.ok_or_else(|| {
            Invalid::field(at, "must be a key of at most 64 KiB: a number, a date, a text, bytes or an array").into()
        })
    }

    fn index_key(&mut self) -> Result<(String, Vec<u8>), DocumentError> {
        let at = self.here();
        let (mut index, mut key) = (None, None);
        self.object(|json, member| {
            match member {
                "index" => index = Some(json.name()?),
                "key" => key = Some(json.key()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok((present(index, &format!("{at}.index"))?, present(key, &format!("{at}.key"))?))
    }

    fn store(&mut self, numbers: &mut Numbers) -> Result<Store, DocumentError> {
        let at = self.here();
        let (mut name, mut key_path, mut auto_increment, mut last_key) = (None, KeyPath::None, false, 0);
        let mut indexes = Vec::new();
        self.object(|json, member| {
            match member {
                "name" => name = Some(json.name()?),
                "key_path" => key_path = json.key_path()?,
                "auto_increment" => auto_increment = json.token().next_bool()?,
                "last_key" => last_key = json.whole_from(0)?,
                "indexes" => json.array(MAX_INDEXES, |json| {
                    indexes.push(json.index()?);
                    Ok(())
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let name = present(name, &format!("{at}.name"))?;
        let id = numbers.store(name.clone());
        for index in &mut indexes {
            index.id = numbers.index(id, index.name.clone());
        }
        Ok(Store { id, name, key_path, auto_increment, last_key, indexes })
    }

    /// The number is assigned later.
    fn index(&mut self) -> Result<Index, DocumentError> {
        let at = self.here();
        let (mut name, mut key_path, mut unique, mut multi_entry) = (None, None, false, false);
        self.object(|json, member| {
            match member {
                "name" => name = Some(json.name()?),
                "key_path" => key_path = Some(json.key_path()?),
                "unique" => unique = json.token().next_bool()?,
                "multi_entry" => multi_entry = json.token().next_bool()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let key_path = key_path.filter(|path| *path != KeyPath::None);
        let key_path = present(key_path, &format!("{at}.key_path"))?;
        Ok(Index { id: 0, name: present(name, &format!("{at}.name"))?, key_path, unique, multi_entry })
    }

    fn key_path(&mut self) -> Result<KeyPath, DocumentError> {
        let at = self.here();
        let path = match self.token().peek()? {
            ValueType::Null => {
                self.token().next_null()?;
                KeyPath::None
            }
            ValueType::Array => {
                let mut paths = Vec::new();
                self.array(usize::MAX, |json| {
                    paths.push(json.name()?);
                    // Fails before the whole array is read.
                    if paths.len() > webkit::key_paths::MAX_STRINGS { Err(too_long(&at)) } else { Ok(()) }
                })?;
                KeyPath::Several(paths)
            }
            _ => KeyPath::One(self.name()?),
        };
        if path.is_bounded() { Ok(path) } else { Err(too_long(&at)) }
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
}

fn too_long(at: &str) -> DocumentError {
    Invalid::field(at, "must be a key path of at most 16 KiB and 100 parts, without the character U+0000").into()
}

impl Refused {
    fn at(self, at: &str) -> DocumentError {
        match self {
            Self::Rule(rule) => Invalid::field(at, rule).into(),
            Self::Document(error) => error,
        }
    }
}

impl From<BuildError> for DocumentError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::TooLarge => {
                Invalid::field("origins", format!("must have at most {MAX_BYTES} bytes as databases")).into()
            }
            BuildError::Disk(error) => Self::Disk(error),
        }
    }
}
