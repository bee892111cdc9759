//! ZIP files as a stream: only the list of entries is in memory. An entry that is compressed has its sizes behind its bytes.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use tokio::sync::mpsc::Sender;

/// Size from which bytes are passed on.
const CHUNK: usize = 64 * 1024;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// The sizes follow the bytes.
const HAS_DESCRIPTOR: u16 = 1 << 3;
const IS_UTF8: u16 = 1 << 11;
/// 1 January 1980, the earliest date of the format.
const DATE: u16 = (1 << 5) | 1;

/// The sink receives chunks. When its receiver is gone, writing fails.
pub(crate) struct ZipWriter<'a> {
    sink: &'a Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
    offset: u64,
    entries: Vec<Entry>,
    deflating: Option<Deflating>,
}

struct Entry {
    name: String,
    method: u16,
    flags: u16,
    crc: u32,
    compressed: u32,
    size: u32,
    offset: u32,
}

struct Deflating {
    name: String,
    offset: u32,
    begin: u64,
    size: u64,
    crc: crc32fast::Hasher,
    encoder: DeflateEncoder<Vec<u8>>,
}

impl<'a> ZipWriter<'a> {
    pub(crate) fn new(sink: &'a Sender<io::Result<Bytes>>) -> Self {
        Self { sink, buffer: Vec::new(), offset: 0, entries: Vec::new(), deflating: None }
    }

    /// Adds bytes that are compressed already.
    pub(crate) async fn store(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (crc, size) = (crc32fast::hash(bytes), short(bytes.len() as u64)?);
        let entry = Entry {
            name: name.to_owned(),
            method: STORED,
            flags: IS_UTF8,
            crc,
            compressed: size,
            size,
            offset: short(self.offset)?,
        };
        self.put(&local_header(&entry));
        self.put(bytes);
        self.entries.push(entry);
        self.pass_on().await
    }

    pub(crate) fn begin(&mut self, name: &str) -> io::Result<()> {
        let offset = short(self.offset)?;
        let flags = IS_UTF8 | HAS_DESCRIPTOR;
        let entry = Entry { name: name.to_owned(), method: DEFLATED, flags, crc: 0, compressed: 0, size: 0, offset };
        self.put(&local_header(&entry));
        self.deflating = Some(Deflating {
            name: entry.name,
            offset,
            begin: self.offset,
            size: 0,
            crc: crc32fast::Hasher::new(),
            encoder: DeflateEncoder::new(Vec::new(), Compression::fast()),
        });
        Ok(())
    }

    /// Adds bytes to the entry that was begun.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(deflating) = &mut self.deflating else { return Err(io::ErrorKind::InvalidInput.into()) };
        deflating.crc.update(bytes);
        deflating.size += bytes.len() as u64;
        deflating.encoder.write_all(bytes)?;
        let compressed = std::mem::take(deflating.encoder.get_mut());
        self.put(&compressed);
        self.pass_on().await
    }

    pub(crate) async fn end(&mut self) -> io::Result<()> {
        let Some(deflating) = self.deflating.take() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let Deflating { name, offset, begin, size, crc, encoder } = deflating;
        let rest = encoder.finish()?;
        self.put(&rest);
        let (crc, compressed, size) = (crc.finalize(), short(self.offset - begin)?, short(size)?);
        let mut descriptor = b"PK\x07\x08".to_vec();
        for number in [crc, compressed, size] {
            descriptor.extend_from_slice(&number.to_le_bytes());
        }
        self.put(&descriptor);
        let flags = IS_UTF8 | HAS_DESCRIPTOR;
        self.entries.push(Entry { name, method: DEFLATED, flags, crc, compressed, size, offset });
        self.pass_on().await
    }

    /// Without this call, the file cannot be read.
    pub(crate) async fn finish(mut self) -> io::Result<()> {
        let begin = self.offset;
        for entry in std::mem::take(&mut self.entries) {
            let mut header = b"PK\x01\x02".to_vec();
            for number in [20, 20, entry.flags, entry.method, 0, DATE] {
                header.extend_from_slice(&number.to_le_bytes());
            }
            for number in [entry.crc, entry.compressed, entry.size] {
                header.extend_from_slice(&number.to_le_bytes());
            }
            let name_length = u16::try_from(entry.name.len()).map_err(|_| too_large())?;
            header.extend_from_slice(&name_length.to_le_bytes());
            header.extend_from_slice(&[0; 12]);
            header.extend_from_slice(&entry.offset.to_le_bytes());
            header.extend_from_slice(entry.name.as_bytes());
            self.put(&header);
            self.entries.push(entry);
        }
        let count = u16::try_from(self.entries.len()).map_err(|_| too_large())?;
        let mut end = b"PK\x05\x06\0\0\0\0".to_vec();
        end.extend_from_slice(&count.to_le_bytes());
        end.extend_from_slice(&count.to_le_bytes());
        end.extend_from_slice(&short(self.offset - begin)?.to_le_bytes());
        end.extend_from_slice(&short(begin)?.to_le_bytes());
        end.extend_from_slice(&[0; 2]);
        self.put(&end);
        let rest = std::mem::take(&mut self.buffer);
        send(self.sink, rest).await
    }

    fn put(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        self.buffer.extend_from_slice(bytes);
    }

    async fn pass_on(&mut self) -> io::Result<()> {
        if self.buffer.len() < CHUNK {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.buffer);
        send(self.sink, chunk).await
    }
}

pub(crate) async fn send(sink: &Sender<io::Result<Bytes>>, chunk: Vec<u8>) -> io::Result<()> {
    sink.send(Ok(chunk.into())).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
}

fn local_header(entry: &Entry) -> Vec<u8> {
    let mut header = b"PK\x03\x04".to_vec();
    for number in [20, entry.flags, entry.method, 0, DATE] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    for number in [entry.crc, entry.compressed, entry.size] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    header.extend_from_slice(&u16::try_from(entry.name.len()).unwrap_or(u16::MAX).to_le_bytes());
    header.extend_from_slice(&[0; 2]);
    header.extend_from_slice(entry.name.as_bytes());
    header
}

/// Recordings are far smaller than 4 GiB.
fn short(number: u64) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| too_large())
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the recording is too large for a ZIP file")
}
