//! Encryption of streams: AES-256-GCM in chunks with the STREAM construction, which detects missing, moved, repeated
//! and changed chunks and truncation.
//!
//! A store's key is derived from its profile's key, the profile's id and the store's id, and opens no other store.
//!
//! Nothing here or in its callers is generic: generic code is compiled in the calling crate, without optimization in
//! development builds, which makes encryption a hundred times slower.

use std::io::{self, Read, Write};

use aead_stream::{DecryptorBE32, EncryptorBE32};
use aes_gcm::{Aes256Gcm, KeyInit};
use hkdf::Hkdf;
use kitfleet_types::ids::{ProfileId, StoreId};
use sha2::Sha256;

/// The last chunk is smaller.
const CHUNK: usize = 1024 * 1024;
const TAG: usize = 16;
/// Type and version.
const MAGIC: [u8; 8] = *b"kitfst\0\x01";
const NONCE: usize = 7;

pub struct StoreKey(Aes256Gcm);

impl StoreKey {
    pub fn derive(profile_key: &[u8; 32], profile: ProfileId, store: StoreId) -> Self {
        let name = [b"store".as_slice(), profile.as_uuid().as_bytes(), store.as_uuid().as_bytes()].concat();
        let mut key = [0; 32];
        let expanded = Hkdf::<Sha256>::new(None, profile_key).expand(&name, &mut key);
        expanded.expect("32 bytes are a length that HKDF gives");
        Self(Aes256Gcm::new(&key.into()))
    }
}

pub struct Sealer<'a> {
    stream: EncryptorBE32<Aes256Gcm>,
    header: Vec<u8>,
    /// A full chunk waits, because it may be the last one.
    clear: Vec<u8>,
    take: Take<'a>,
}

type Take<'a> = &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>;

impl<'a> Sealer<'a> {
    /// The key must not have been used before.
    pub fn new(key: StoreKey, take: Take<'a>) -> Self {
        let nonce = rand::random::<[u8; NONCE]>();
        let stream = EncryptorBE32::from_aead(key.0, &nonce.into());
        Self { stream, header: [MAGIC.as_slice(), &nonce].concat(), clear: Vec::new(), take }
    }

    /// Without this call, the last chunk cannot be opened.
    pub fn finish(mut self) -> io::Result<()> {
        let mut chunk = self.clear;
        self.stream.encrypt_last_in_place(&[], &mut chunk).map_err(|_| too_long())?;
        self.header.append(&mut chunk);
        (self.take)(self.header)
    }
}

impl Write for Sealer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.clear.len() == CHUNK - TAG && !bytes.is_empty() {
            self.stream.encrypt_next_in_place(&[], &mut self.clear).map_err(|_| too_long())?;
            let mut chunk = std::mem::replace(&mut self.clear, Vec::with_capacity(CHUNK));
            if !self.header.is_empty() {
                let mut first = std::mem::take(&mut self.header);
                first.append(&mut chunk);
                chunk = first;
            }
            (self.take)(chunk)?;
        }
        let taken = bytes.len().min(CHUNK - TAG - self.clear.len());
        self.clear.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn too_long() -> io::Error {
    io::Error::other("a store has at most 2^32 chunks")
}

/// Returns only authenticated data.
pub struct Opener {
    from: Box<dyn Read + Send>,
    /// `None` after the last chunk.
    stream: Option<DecryptorBE32<Aes256Gcm>>,
    /// Encrypted chunk after the present one. If it is empty, the present one is the last.
    next: Vec<u8>,
    open: Vec<u8>,
    given: usize,
}

impl Opener {
    pub fn new(key: StoreKey, mut from: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut header = [0; MAGIC.len() + NONCE];
        from.read_exact(&mut header).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => cannot_open(),
            _ => error,
        })?;
        let (magic, nonce) = header.split_at(MAGIC.len());
        let nonce = <[u8; NONCE]>::try_from(nonce).map_err(|_| cannot_open())?;
        if magic != MAGIC {
            return Err(cannot_open());
        }
        let stream = Some(DecryptorBE32::from_aead(key.0, &nonce.into()));
        let next = chunk(&mut from)?;
        Ok(Self { from, stream, next, open: Vec::new(), given: 0 })
    }
}

impl Read for Opener {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.open.len() {
            let Some(mut stream) = self.stream.take() else { return Ok(0) };
            let next = chunk(&mut self.from)?;
            let mut chunk = std::mem::replace(&mut self.next, next);
            if self.next.is_empty() {
                stream.decrypt_last_in_place(&[], &mut chunk).map_err(|_| cannot_open())?;
            } else {
                stream.decrypt_next_in_place(&[], &mut chunk).map_err(|_| cannot_open())?;
                self.stream = Some(stream);
            }
            self.open = chunk;
            self.given = 0;
        }
        let taken = into.len().min(self.open.len() - self.given);
        into[..taken].copy_from_slice(&self.open[self.given..self.given + taken]);
        self.given += taken;
        Ok(taken)
    }
}

/// Empty at the end.
fn chunk(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut chunk = Vec::new();
    from.take(CHUNK as u64).read_to_end(&mut chunk)?;
    Ok(chunk)
}

fn cannot_open() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the data is damaged, or encrypted with another key")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(key: StoreKey, clear: &[u8]) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        let mut take = |chunk| {
            chunks.push(chunk);
            Ok(())
        };
        let mut sealer = Sealer::new(key, &mut take);
        sealer.write_all(clear).expect("a sealer takes everything");
        sealer.finish().expect("a sealer ends");
        chunks
    }

    fn opened(key: StoreKey, sealed: &[u8]) -> io::Result<Vec<u8>> {
        let mut clear = Vec::new();
        Opener::new(key, Box::new(io::Cursor::new(sealed.to_vec())))?.read_to_end(&mut clear)?;
        Ok(clear)
    }

    #[test]
    fn sealed_data_of_any_length_opens() {
        let (profile, store) = (ProfileId::generate(), StoreId::generate());
        let key = || StoreKey::derive(&[1; 32], profile, store);
        let whole = CHUNK - TAG;
        for length in [0, 1, whole - 1, whole, whole + 1, 2 * whole, 2 * whole + 1] {
            let clear: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap_or_default()).collect();
            let chunks = sealed(key(), &clear);
            assert_eq!(chunks.len(), length.div_ceil(whole).max(1));
            assert!(opened(key(), &chunks.concat()).is_ok_and(|open| open == clear), "{length}");
        }
        assert_ne!(sealed(key(), b"same"), sealed(key(), b"same"));
    }

    #[test]
    fn sealed_data_opens_only_for_its_profile_and_store() {
        let (profile, store) = (ProfileId::generate(), StoreId::generate());
        let sealed = sealed(StoreKey::derive(&[1; 32], profile, store), b"secret").concat();
        for other in [
            StoreKey::derive(&[2; 32], profile, store),
            StoreKey::derive(&[1; 32], ProfileId::generate(), store),
            StoreKey::derive(&[1; 32], profile, StoreId::generate()),
        ] {
            assert_eq!(opened(other, &sealed).map_err(|error| error.kind()), Err(io::ErrorKind::InvalidData));
        }
    }

    #[test]
    fn changes_and_truncation_are_detected() {
        let (profile, store) = (ProfileId::generate(), StoreId::generate());
        let key = || StoreKey::derive(&[1; 32], profile, store);
        let chunks = sealed(key(), &vec![7; 3 * CHUNK]);
        let refused =
            |sealed: &[u8]| opened(key(), sealed).is_err_and(|error| error.kind() == io::ErrorKind::InvalidData);
        let whole = chunks.concat();
        assert!(!refused(&whole));
        // Truncated in the header, between chunks, and inside a chunk.
        for length in [0, 3, MAGIC.len() + NONCE, chunks[0].len(), 2 * CHUNK, whole.len() - 1] {
            assert!(refused(&whole[..length]), "{length}");
        }
        for at in [0, MAGIC.len(), MAGIC.len() + NONCE, CHUNK + 100, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(refused(&changed), "{at}");
        }
        assert!(refused(&[whole.as_slice(), b"more"].concat()));
        let swapped = [&chunks[0][..], &chunks[2], &chunks[1], &chunks[3]].concat();
        assert!(refused(&swapped));
    }
}
