use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use serde::{Serialize, Serializer};
use struson::serde::SerializerError;
use struson::writer::{JsonStreamWriter, JsonWriter as _};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::mpsc::{self, Sender};

use super::json::MAX_TEXT;
use super::{DocumentInfo, FORMAT, MAX_DATABASES, MAX_RECORDS, MAX_SITES, PIECE, VERSION, values};
use crate::blob_stores::CHUNKS_IN_FLIGHT;
use crate::cookies::Cookie;
use crate::files;
use crate::webkit::databases::{self, Database, Info, ReadError, Record, Store};
use crate::webkit::key_paths::KeyPath;
use crate::webkit::names::{Kind, Origin, Site};
use crate::webkit::values::{MAX_BYTES as MAX_VALUE, NoValue};

/// One per store and reason.
const MAX_LEFT_OUT: usize = 1_000;

/// Maximum time a piece may wait for the reader, because it blocks a thread, and maximum time for the whole document.
const TAKEN_WITHIN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_hours(1));

/// The folder is as a browser left it.
pub fn write(about: &DocumentInfo, cookies: &[Cookie], folder: Option<&Path>, to: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer { json: JsonStreamWriter::new(to), left_out: BTreeMap::new(), records: 0, databases: 0 };
    writer.begin(about)?;
    writer.member("cookies", cookies)?;
    writer.list("origins")?;
    if let Some(folder) = folder {
        writer.sites(folder)?;
    }
    writer.json.end_array()?;
    writer.end()
}

struct Writer<W: Write> {
    json: JsonStreamWriter<W>,
    left_out: BTreeMap<MissingParts, u64>,
    records: usize,
    databases: usize,
}

/// Missing data of a site, one of its databases, or a store in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MissingParts {
    site: Site,
    database: Option<String>,
    store: Option<String>,
    reason: &'static str,
}

/// A type that only a browser supports, a limit of documents, or content that WebKit has not written.
mod reason {
    pub const UNSUPPORTED: &str = "unsupported";
    pub const TOO_LARGE: &str = "too_large";
    pub const UNREADABLE: &str = "unreadable";
}

#[derive(Default)]
struct StoredSite {
    local_storage: Option<PathBuf>,
    databases: Vec<PathBuf>,
}

impl<W: Write> Writer<W> {
    fn begin(&mut self, about: &DocumentInfo) -> io::Result<()> {
        self.json.begin_object()?;
        self.member("format", FORMAT)?;
        self.member("version", &VERSION)?;
        self.member("exported_at", &about.exported_at)?;
        self.member("source_profile_id", &about.profile)?;
        self.member("source_account_id", &about.account)?;
        self.member("name", &about.name)?;
        self.member("archetype", &about.archetype)
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> io::Result<()> {
        self.json.name(name)?;
        self.json.serialize_value(&value).map_err(|error| match error {
            SerializerError::IoError(error) => error,
            error => io::Error::other(error),
        })
    }

    fn list(&mut self, name: &str) -> io::Result<()> {
        self.json.name(name)?;
        self.json.begin_array()
    }

    fn sites(&mut self, folder: &Path) -> io::Result<()> {
        let mut sites = BTreeMap::<Site, StoredSite>::new();
        for file in files::list(folder).map_err(io::Error::other)? {
            let kept = sites.entry(file.site).or_default();
            match file.kind {
                Kind::LocalStorage => kept.local_storage = Some(file.from),
                Kind::Database => kept.databases.push(file.from),
                Kind::Journal | Kind::Shared | Kind::Blob => {}
            }
        }
        for (number, (site, kept)) in sites.into_iter().enumerate() {
            if number == MAX_SITES {
                self.omit(&site, None, None, reason::TOO_LARGE);
                return Ok(());
            }
            self.site(&site, &kept)?;
        }
        Ok(())
    }

    fn site(&mut self, site: &Site, kept: &StoredSite) -> io::Result<()> {
        self.json.begin_object()?;
        self.member("origin", site.origin.as_str())?;
        if let Some(page) = &site.embedded_in {
            self.member("embedded_in", page.as_str())?;
        }
        if let Some(file) = &kept.local_storage {
            self.list("local_storage")?;
            self.local_storage(site, file)?;
            self.json.end_array()?;
        }
        self.list("databases")?;
        for file in &kept.databases {
            self.database(site, file)?;
        }
        self.json.end_array()?;
        self.json.end_object()
    }

    fn omit(&mut self, site: &Site, database: Option<&str>, store: Option<&str>, reason: &'static str) {
        let (database, store) = (database.map(str::to_owned), store.map(str::to_owned));
        let left_out = MissingParts { site: site.clone(), database, store, reason };
        if self.left_out.len() < MAX_LEFT_OUT || self.left_out.contains_key(&left_out) {
            *self.left_out.entry(left_out).or_default() += 1;
        }
    }

    /// Returns false when the limit is exceeded.
    fn has_room(&mut self) -> bool {
        self.records += 1;
        self.records <= MAX_RECORDS
    }

    fn local_storage(&mut self, site: &Site, file: &Path) -> io::Result<()> {
        let shown = databases::local_storage(file, |item| {
            let Some((key, value)) = item else {
                self.omit(site, None, None, reason::UNREADABLE);
                return Ok(());
            };
            if key.len().max(value.bytes()) > MAX_VALUE || !self.has_room() {
                self.omit(site, None, None, reason::TOO_LARGE);
                return Ok(());
            }
            self.json.begin_array()?;
            self.json.string_value(key)?;
            values::write_text(&mut self.json, &value)?;
            self.json.end_array()
        });
        match shown {
            Ok(()) => Ok(()),
            Err(ReadError::Shown(error)) => Err(error),
            Err(ReadError::Unusable(error)) => {
                tracing::warn!(%error, "profile export omits an unreadable local storage");
                self.omit(site, None, None, reason::UNREADABLE);
                Ok(())
            }
        }
    }

    fn database(&mut self, site: &Site, file: &Path) -> io::Result<()> {
        let opened = Database::open(file).and_then(|database| Ok((database.info()?, database)));
        let (info, database) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(%error, "profile export omits an unreadable database");
                self.omit(site, None, None, reason::UNREADABLE);
                return Ok(());
            }
        };
        // A page started to create this database and did not finish.
        if info.version == 0 {
            return Ok(());
        }
        self.databases += 1;
        if self.databases > MAX_DATABASES || !info.is_bounded() {
            self.omit(site, None, None, reason::TOO_LARGE);
            return Ok(());
        }
        self.json.begin_object()?;
        self.member("name", &info.name)?;
        self.member("version", &info.version)?;
        self.list("stores")?;
        info.stores.iter().try_for_each(|store| self.store(store))?;
        self.json.end_array()?;
        self.list("records")?;
        let stores: HashMap<i64, &Store> = info.stores.iter().map(|store| (store.id, store)).collect();
        let shown = database.records(|record| match record {
            Ok(record) => match stores.get(&record.store) {
                Some(store) if self.has_room() => self.record(store, &record),
                Some(store) => {
                    self.omit(site, Some(&info.name), Some(&store.name), reason::TOO_LARGE);
                    Ok(())
                }
                // A record of a store that no longer exists.
                None => Ok(()),
            },
            Err((store, why)) => {
                let reason = match why {
                    NoValue::Unsupported => reason::UNSUPPORTED,
                    NoValue::TooLarge => reason::TOO_LARGE,
                    NoValue::Malformed(_) => reason::UNREADABLE,
                };
                let store = stores.get(&store).map(|store| store.name.as_str());
                self.omit(site, Some(&info.name), store, reason);
                Ok(())
            }
        });
        match shown {
            Err(ReadError::Shown(error)) => return Err(error),
            Err(ReadError::Unusable(error)) => {
                tracing::warn!(%error, "profile export omits the unreadable rest of a database");
                self.omit(site, Some(&info.name), None, reason::UNREADABLE);
            }
            Ok(()) => {}
        }
        self.json.end_array()?;
        self.json.end_object()
    }

    fn store(&mut self, store: &Store) -> io::Result<()> {
        self.json.begin_object()?;
        self.member("name", &store.name)?;
        self.member("key_path", &Keys(&store.key_path))?;
        self.member("auto_increment", &store.auto_increment)?;
        self.member("last_key", &store.last_key)?;
        self.list("indexes")?;
        for index in &store.indexes {
            self.json.begin_object()?;
            self.member("name", &index.name)?;
            self.member("key_path", &Keys(&index.key_path))?;
            self.member("unique", &index.unique)?;
            self.member("multi_entry", &index.multi_entry)?;
            self.json.end_object()?;
        }
        self.json.end_array()?;
        self.json.end_object()
    }

    fn record(&mut self, store: &Store, record: &Record) -> io::Result<()> {
        self.json.begin_object()?;
        self.member("store", &store.name)?;
        self.json.name("key")?;
        values::write(&mut self.json, &record.key.clone().into_value())?;
        self.json.name("value")?;
        values::write(&mut self.json, &record.value)?;
        if !record.index_keys.is_empty() {
            self.list("index_keys")?;
            for (id, key) in &record.index_keys {
                // Keys of an index that no longer exists are skipped.
                if let Some(index) = store.indexes.iter().find(|index| index.id == *id) {
                    self.json.begin_object()?;
                    self.member("index", &index.name)?;
                    self.json.name("key")?;
                    values::write(&mut self.json, &key.clone().into_value())?;
                    self.json.end_object()?;
                }
            }
            self.json.end_array()?;
        }
        self.json.end_object()
    }

    fn end(mut self) -> io::Result<()> {
        self.list("left_out")?;
        for (MissingParts { site, database, store, reason }, count) in std::mem::take(&mut self.left_out) {
            self.json.begin_object()?;
            let words = [
                ("origin", Some(site.origin.as_str())),
                ("embedded_in", site.embedded_in.as_ref().map(Origin::as_str)),
                ("database", database.as_deref()),
                ("store", store.as_deref()),
                ("reason", Some(reason)),
            ];
            for (name, word) in words.into_iter().filter_map(|(name, word)| Some((name, word?))) {
                self.member(name, word)?;
            }
            self.member("count", &count)?;
            self.json.end_object()?;
        }
        self.json.end_array()?;
        self.json.end_object()?;
        self.json.finish_document()?.flush()
    }
}

/// Null, a text, or a list of texts.
struct Keys<'a>(&'a KeyPath);

impl Serialize for Keys<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            KeyPath::None => serializer.serialize_unit(),
            KeyPath::One(path) => path.serialize(serializer),
            KeyPath::Several(paths) => paths.serialize(serializer),
        }
    }
}

impl Info {
    fn is_bounded(&self) -> bool {
        let names = |store: &Store| {
            store.name.len() <= MAX_TEXT && store.indexes.iter().all(|index| index.name.len() <= MAX_TEXT)
        };
        self.name.len() <= MAX_TEXT && self.stores.iter().all(names)
    }
}

/// An error before the first piece is returned directly; a later one ends the stream.
pub async fn written(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
    let (to, mut pieces) = mpsc::channel(CHUNKS_IN_FLIGHT);
    let writing = tokio::task::spawn_blocking(move || {
        let mut document = BufWriter::with_capacity(PIECE, Pieces::new(to));
        let written = write(&mut document).and_then(|()| document.flush());
        // After an error, the buffered rest must not be sent.
        let _ = document.into_parts();
        written
    });
    // An error of the thread is passed on when the thread ends, because the channel may be closed.
    let end = stream::once(writing).filter_map(async |end| end.map_err(io::Error::other).flatten().err().map(Err));
    let mut document = stream::poll_fn(move |context| pieces.poll_recv(context)).map(Ok).chain(end).boxed();
    let first = document.next().await.unwrap_or_else(|| Err(io::Error::other("nothing was written")))?;
    Ok(stream::iter([Ok(first)]).chain(document).boxed())
}

struct Pieces {
    to: Sender<Bytes>,
    runtime: Handle,
    until: Instant,
}

impl Pieces {
    fn new(to: Sender<Bytes>) -> Self {
        Self { to, runtime: Handle::current(), until: Instant::now() + TAKEN_WITHIN.1 }
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Long writes bypass the buffer, so they are split here.
        let bytes = &bytes[..bytes.len().min(PIECE)];
        let patience = TAKEN_WITHIN.0.min(self.until.saturating_duration_since(Instant::now()));
        let sent = self.to.send_timeout(Bytes::copy_from_slice(bytes), patience);
        match self.runtime.block_on(sent) {
            Ok(()) => Ok(bytes.len()),
            Err(SendTimeoutError::Timeout(_)) => Err(io::ErrorKind::TimedOut.into()),
            Err(SendTimeoutError::Closed(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
