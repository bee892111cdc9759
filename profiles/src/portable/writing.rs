//! Writing a document.

use std::io::{self, BufWriter, Read, Write};
use std::time::{Duration, Instant};

use base64::engine::general_purpose::STANDARD as BASE64;
use base64::write::EncoderWriter;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use struson::writer::{JsonStreamWriter, JsonWriter as _, StringValueWriter as _};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::mpsc::{self, Sender};

use super::{About, FORMAT, PIECE, VERSION};
use crate::archive::{self, Item};
use crate::cookies::Cookie;
use crate::files::RelativePath;
use crate::places::CHUNKS_UNDER_WAY;

/// How long a piece may wait for somebody to take it, with a thread that could do something else, and how long all of them.
const TAKEN_WITHIN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_hours(1));

/// Writes a document of the profile whose archive `archive` is.
pub fn write(about: &About, archive: Option<&mut dyn Read>, to: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer { json: JsonStreamWriter::new(to), stage: Stage::Origins(None) };
    writer.begin(about)?;
    match archive {
        Some(archive) => archive::read(archive, &mut |item| match item {
            Item::Cookies(cookies) => writer.cookies(&cookies),
            Item::File { path, content } => writer.file(path, content),
        })?,
        None => writer.cookies(&[])?,
    }
    writer.end()
}

struct Writer<W: Write> {
    json: JsonStreamWriter<W>,
    stage: Stage,
}

/// Which list of files is being written. An archive has the files of a site together, and those of none at its end.
#[derive(PartialEq)]
enum Stage {
    /// `origins`, and the files of the one that is named.
    Origins(Option<String>),
    /// `files`
    Files,
}

impl<W: Write> Writer<W> {
    fn begin(&mut self, about: &About) -> io::Result<()> {
        let json = &mut self.json;
        json.begin_object()?;
        json.name("format")?;
        json.string_value(FORMAT)?;
        json.name("version")?;
        json.number_value(VERSION)?;
        let texts = [
            ("exported_at", about.exported_at.to_string()),
            ("source_profile_id", about.profile.to_string()),
            ("source_account_id", about.account.to_string()),
            ("name", about.name.clone()),
            ("archetype", about.archetype.clone()),
        ];
        for (name, text) in texts {
            json.name(name)?;
            json.string_value(&text)?;
        }
        Ok(())
    }

    fn cookies(&mut self, cookies: &[Cookie]) -> io::Result<()> {
        let json = &mut self.json;
        json.name("cookies")?;
        json.begin_array()?;
        for cookie in cookies {
            json.serialize_value(cookie).map_err(io::Error::other)?;
        }
        json.end_array()?;
        json.name("origins")?;
        json.begin_array()
    }

    fn file(&mut self, path: &RelativePath, content: &mut dyn Read) -> io::Result<()> {
        let origin = path.origin();
        if self.stage != Stage::Files && self.stage != Stage::Origins(origin.clone()) {
            self.end_origin()?;
            let json = &mut self.json;
            if let Some(origin) = origin {
                json.begin_object()?;
                json.name("origin")?;
                json.string_value(&origin)?;
                json.name("files")?;
                json.begin_array()?;
                self.stage = Stage::Origins(Some(origin));
            }
        }
        if self.stage == Stage::Origins(None) {
            self.begin_files()?;
        }
        let json = &mut self.json;
        json.begin_object()?;
        json.name("path")?;
        json.string_value(path.as_str())?;
        json.name("data")?;
        let mut data = json.string_value_writer()?;
        let mut encoder = EncoderWriter::new(&mut data, &BASE64);
        io::copy(content, &mut encoder)?;
        encoder.finish()?;
        drop(encoder);
        data.finish_value()?;
        json.end_object()
    }

    fn end_origin(&mut self) -> io::Result<()> {
        if let Stage::Origins(Some(_)) = self.stage {
            self.json.end_array()?;
            self.json.end_object()?;
            self.stage = Stage::Origins(None);
        }
        Ok(())
    }

    fn begin_files(&mut self) -> io::Result<()> {
        self.json.end_array()?;
        self.json.name("files")?;
        self.json.begin_array()?;
        self.stage = Stage::Files;
        Ok(())
    }

    fn end(mut self) -> io::Result<()> {
        self.end_origin()?;
        if self.stage != Stage::Files {
            self.begin_files()?;
        }
        self.json.end_array()?;
        self.json.end_object()?;
        self.json.finish_document()?.flush()
    }
}

/// What `write` writes, as a stream. An error before the first piece is answered instead of one; a later one ends the stream.
pub async fn written(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
    let (to, mut pieces) = mpsc::channel(CHUNKS_UNDER_WAY);
    let writing = tokio::task::spawn_blocking(move || {
        let mut document = BufWriter::with_capacity(PIECE, Pieces::new(to));
        let written = write(&mut document).and_then(|()| document.flush());
        // What is left of one that breaks off is not to be sent any more.
        let _ = document.into_parts();
        written
    });
    // Nobody may take an error off a thread that could not even hand on a piece: it comes from the thread's end.
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
