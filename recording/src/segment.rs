//! Format of a segment.
//!
//! A record is its length (4 bytes, little-endian), its type (1 byte), the number of its event (8 bytes) and its payload. Records
//! follow each other, are compressed together unless they are pictures, and are sealed with AES-256-GCM. A sealed segment is a
//! version byte, a compression byte, a nonce of 12 bytes and the ciphertext. The recording's key seals only its own segments, and
//! each segment only for its place.

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use bytes::Bytes;
use kitfleet_domain::recordings::SegmentKind;
use kitfleet_types::ids::SessionId;
use zeroize::Zeroizing;

/// Maximum size of the records of a segment.
pub const SEGMENT_BYTES: usize = 1024 * 1024;

const VERSION: u8 = 1;
const HEADER: usize = 2;
const NONCE: usize = 12;
const RECORD_HEADER: usize = 13;
const ZSTD_LEVEL: i32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// JSON of an [`crate::events::Event`].
    Event = 1,
    /// The content is a JPEG.
    Frame = 2,
    /// JSON of a [`crate::Snapshot`].
    Snapshot = 3,
}

impl RecordKind {
    fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Event),
            2 => Some(Self::Frame),
            3 => Some(Self::Snapshot),
            _ => None,
        }
    }

    #[must_use]
    pub fn segment(self) -> SegmentKind {
        match self {
            Self::Event => SegmentKind::Events,
            Self::Frame | Self::Snapshot => SegmentKind::Pictures,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub kind: RecordKind,
    pub seq: u64,
    pub payload: Bytes,
}

impl Record {
    #[must_use]
    pub fn size(&self) -> usize {
        RECORD_HEADER + self.payload.len()
    }
}

/// Place of a segment, which its content is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPlace {
    pub session: SessionId,
    pub kind: SegmentKind,
    pub first_seq: u64,
}

impl SegmentPlace {
    fn associated_data(&self) -> Vec<u8> {
        [self.session.as_uuid().as_bytes(), self.kind.name().as_bytes(), &self.first_seq.to_le_bytes()].concat()
    }

    /// Name of its object in a bucket.
    #[must_use]
    pub fn object_name(&self) -> String {
        format!("recordings/{}/{}-{:012}", self.session, self.kind.name(), self.first_seq)
    }
}

/// The segment is not authentic or not complete, or a newer version wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a segment of a recording is damaged")]
pub struct DamagedSegment;

#[derive(Clone)]
pub struct SegmentKey(Aes256Gcm);

impl SegmentKey {
    #[must_use]
    pub fn new(key: &Zeroizing<[u8; 32]>) -> Self {
        Self(Aes256Gcm::new(&(**key).into()))
    }

    /// # Panics
    /// Never panics: AES-GCM fails only on texts of 64 GiB.
    #[must_use]
    pub fn seal(&self, place: &SegmentPlace, records: &[Record]) -> Vec<u8> {
        let mut clear = Vec::with_capacity(records.iter().map(Record::size).sum());
        for record in records {
            clear.extend_from_slice(&u32::try_from(record.payload.len()).unwrap_or(u32::MAX).to_le_bytes());
            clear.push(record.kind as u8);
            clear.extend_from_slice(&record.seq.to_le_bytes());
            clear.extend_from_slice(&record.payload);
        }
        // Pictures are compressed already.
        let compressed = match place.kind {
            SegmentKind::Events => zstd::bulk::compress(&clear, ZSTD_LEVEL).ok(),
            SegmentKind::Pictures => None,
        };
        let header = [VERSION, u8::from(compressed.is_some())];
        let clear = compressed.unwrap_or(clear);
        let nonce = rand::random::<[u8; NONCE]>();
        let aad = [header.as_slice(), &place.associated_data()].concat();
        let sealed = self.0.encrypt(&Nonce::from(nonce), Payload { msg: &clear, aad: &aad });
        [header.as_slice(), &nonce, &sealed.expect("a segment is short")].concat()
    }

    pub fn open(&self, place: &SegmentPlace, sealed: &[u8]) -> Result<Vec<Record>, DamagedSegment> {
        let (header, rest) = sealed.split_first_chunk::<HEADER>().ok_or(DamagedSegment)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE>().ok_or(DamagedSegment)?;
        let aad = [header.as_slice(), &place.associated_data()].concat();
        let clear =
            self.0.decrypt(&Nonce::from(*nonce), Payload { msg: text, aad: &aad }).map_err(|_| DamagedSegment)?;
        let clear = match header {
            [VERSION, 0] => clear,
            // A segment has one record at least, which may exceed the usual size.
            [VERSION, 1] => zstd::bulk::decompress(&clear, 2 * SEGMENT_BYTES).map_err(|_| DamagedSegment)?,
            _ => return Err(DamagedSegment),
        };
        read_records(&Bytes::from(clear))
    }
}

fn read_records(clear: &Bytes) -> Result<Vec<Record>, DamagedSegment> {
    let (mut records, mut at) = (Vec::new(), 0);
    while at < clear.len() {
        let (length, rest) = clear[at..].split_first_chunk::<4>().ok_or(DamagedSegment)?;
        let (&kind, rest) = rest.split_first().ok_or(DamagedSegment)?;
        let (seq, rest) = rest.split_first_chunk::<8>().ok_or(DamagedSegment)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| DamagedSegment)?;
        if length > rest.len() {
            return Err(DamagedSegment);
        }
        let kind = RecordKind::of(kind).ok_or(DamagedSegment)?;
        let payload = clear.slice(at + RECORD_HEADER..at + RECORD_HEADER + length);
        records.push(Record { kind, seq: u64::from_le_bytes(*seq), payload });
        at += RECORD_HEADER + length;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SegmentKey {
        SegmentKey::new(&Zeroizing::new([byte; 32]))
    }

    fn place(kind: SegmentKind) -> SegmentPlace {
        SegmentPlace { session: SessionId::generate(), kind, first_seq: 7 }
    }

    fn record(kind: RecordKind, seq: u64, payload: &[u8]) -> Record {
        Record { kind, seq, payload: Bytes::copy_from_slice(payload) }
    }

    #[test]
    fn segment_opens_with_its_key_at_its_place_only() {
        for (kind, of) in [(RecordKind::Event, SegmentKind::Events), (RecordKind::Frame, SegmentKind::Pictures)] {
            let records = [record(kind, 7, b"{}"), record(kind, 8, b""), record(kind, u64::MAX, &vec![0xff; 70_000])];
            let place = place(of);
            let sealed = key(1).seal(&place, &records);
            assert_eq!(key(1).open(&place, &sealed).as_deref(), Ok(&records[..]));
            assert_eq!(key(2).open(&place, &sealed), Err(DamagedSegment));
            let other = SegmentPlace { first_seq: 8, ..place };
            assert_eq!(key(1).open(&other, &sealed), Err(DamagedSegment));
            for length in [0, 1, 2, 13, 14, sealed.len() - 1] {
                assert_eq!(key(1).open(&place, &sealed[..length]), Err(DamagedSegment));
            }
            let mut changed = sealed;
            changed[1] ^= 1;
            assert_eq!(key(1).open(&place, &changed), Err(DamagedSegment));
        }
    }

    #[test]
    fn events_are_compressed() {
        let records: Vec<_> = (0..1_000).map(|seq| record(RecordKind::Event, seq, &[b'x'; 900])).collect();
        assert!(key(1).seal(&place(SegmentKind::Events), &records).len() < 20_000);
    }

    #[test]
    fn cut_records_are_damaged() {
        let whole = [&3_u32.to_le_bytes()[..], &[1], &9_u64.to_le_bytes(), b"abc"].concat();
        assert_eq!(read_records(&Bytes::from(whole.clone())).map(|records| records.len()), Ok(1));
        for length in 1..whole.len() {
            assert_eq!(read_records(&Bytes::from(whole[..length].to_vec())), Err(DamagedSegment));
        }
        assert_eq!(read_records(&Bytes::from([&whole[..4], &[9], &whole[5..]].concat())), Err(DamagedSegment));
    }
}
