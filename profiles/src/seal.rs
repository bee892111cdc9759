//! Sealing a stream: AES-256-GCM in chunks, by the STREAM construction, so that a chunk that is missing, moved, repeated or
//! changed is noticed, and so is an end that came too early.
//!
//! A store's key is derived from its profile's and from what the store is, so that it opens as no other store and for no other
//! profile.
//!
//! Nothing here is generic, and nor is what uses it: what is, is built with whoever awaits it, and without optimization in
//! development, which makes a hundred times of the time that sealing takes.

use std::io::{self, Read, Write};

use aead_stream::{DecryptorBE32, EncryptorBE32};
use aes_gcm::{Aes256Gcm, KeyInit};
use hkdf::Hkdf;
use kitfleet_domain::ids::{ProfileId, StoreId};
use sha2::Sha256;

/// Bytes of a sealed chunk; the last one has fewer.
const CHUNK: usize = 1024 * 1024;
const TAG: usize = 16;
/// What a sealed stream begins with: what it is, and its version.
const MAGIC: [u8; 8] = *b"kitfst\0\x01";
const NONCE: usize = 7;

/// The key of one store.
pub struct StoreKey(Aes256Gcm);

impl StoreKey {
    /// That of a store, by its profile's key.
    pub fn derive(profile_key: &[u8; 32], profile: ProfileId, store: StoreId) -> Self {
        let name = [b"store".as_slice(), profile.as_uuid().as_bytes(), store.as_uuid().as_bytes()].concat();
        let mut key = [0; 32];
        let expanded = Hkdf::<Sha256>::new(None, profile_key).expand(&name, &mut key);
        expanded.expect("32 bytes are a length that HKDF gives");
        Self(Aes256Gcm::new(&key.into()))
    }
}

/// Seals what is written to it, and hands the sealed chunks on.
pub struct Sealer<'a> {
    stream: EncryptorBE32<Aes256Gcm>,
    /// What goes before the next chunk.
    header: Vec<u8>,
    /// What is not sealed yet. A full chunk waits in case that it is the last one.
    clear: Vec<u8>,
    take: Take<'a>,
}

/// Takes a sealed chunk.
type Take<'a> = &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>;

impl<'a> Sealer<'a> {
    /// Seals with a key that has sealed nothing before.
    pub fn new(key: StoreKey, take: Take<'a>) -> Self {
        let nonce = rand::random::<[u8; NONCE]>();
        let stream = EncryptorBE32::from_aead(key.0, &nonce.into());
        Self { stream, header: [MAGIC.as_slice(), &nonce].concat(), clear: Vec::new(), take }
    }

    /// Seals the rest: without this, nobody can open any of the last chunk.
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

/// Opens what a [`Sealer`] sealed. Nothing is handed out before it is known to be what was sealed.
pub struct Opener {
    from: Box<dyn Read + Send>,
    /// `None` at the end.
    stream: Option<DecryptorBE32<Aes256Gcm>>,
    /// The chunk after the one that is open: the last one is the one that none comes after.
    next: Vec<u8>,
    open: Vec<u8>,
    given: usize,
}

impl Opener {
    /// # Errors
    /// When it does not begin like something sealed, or cannot be read.
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

/// The next sealed chunk; nothing at the end.
fn chunk(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut chunk = Vec::new();
    from.take(CHUNK as u64).read_to_end(&mut chunk)?;
    Ok(chunk)
}

fn cannot_open() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not what was sealed with this key")
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
    fn what_was_sealed_opens_whatever_its_length() {
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
    fn what_was_sealed_opens_for_its_profile_and_store_only() {
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
    fn whatever_is_changed_is_noticed() {
        let (profile, store) = (ProfileId::generate(), StoreId::generate());
        let key = || StoreKey::derive(&[1; 32], profile, store);
        let chunks = sealed(key(), &vec![7; 3 * CHUNK]);
        let refused =
            |sealed: &[u8]| opened(key(), sealed).is_err_and(|error| error.kind() == io::ErrorKind::InvalidData);
        let whole = chunks.concat();
        assert!(!refused(&whole));
        // Cut anywhere: within the header, between chunks, within one.
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
