//! Secrets that have to be read again, sealed at rest with AES-256-GCM.
//!
//! The deployment's key is never used itself: one is derived from it for each purpose. A sealed secret names the key it
//! was sealed with, so that a new key can seal while those before it still open, and is bound to what it belongs to, so
//! that it opens nowhere else.

use std::fmt;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Bytes of a key's name, which a sealed secret begins with.
const KEY_ID: usize = 4;
const NONCE: usize = 12;

/// Seals and opens with the deployment's keys.
#[derive(Clone)]
pub struct Vault {
    current: Key,
    retired: Vec<Key>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(…)")
    }
}

#[derive(Clone)]
struct Key {
    id: [u8; KEY_ID],
    bytes: [u8; 32],
}

/// A sealed secret that none of our keys opens, or that belongs elsewhere.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("cannot decrypt a secret with the configured keys")]
pub struct UnsealError;

impl Vault {
    /// Seals with `current`; opens what that and `retired` sealed.
    #[must_use]
    pub fn new(current: [u8; 32], retired: &[[u8; 32]]) -> Self {
        Self { current: Key::new(current), retired: retired.iter().copied().map(Key::new).collect() }
    }

    /// Opens what `key` sealed, too.
    #[must_use]
    pub fn opening_also(mut self, key: [u8; 32]) -> Self {
        self.retired.push(Key::new(key));
        self
    }

    /// Tells `text` from others for `purpose`, and says nothing else of it: by the present key, and by those before it.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    #[must_use]
    pub fn fingerprints(&self, purpose: &str, text: &[u8]) -> Vec<Vec<u8>> {
        let by = |key: &Key| {
            let mac = Hmac::<Sha256>::new_from_slice(&key.derived(purpose));
            mac.expect("a key of 32 bytes").chain_update(text).finalize().into_bytes().to_vec()
        };
        std::iter::once(&self.current).chain(&self.retired).map(by).collect()
    }

    /// First bytes of everything that the present key sealed.
    pub(crate) fn present_key_id(&self) -> Vec<u8> {
        self.current.id.to_vec()
    }

    /// First bytes of everything that one of the keys sealed.
    pub(crate) fn key_ids(&self) -> Vec<Vec<u8>> {
        std::iter::once(&self.current).chain(&self.retired).map(|key| key.id.to_vec()).collect()
    }

    /// Seals `secret`, which is of `purpose` and belongs to `owner`.
    ///
    /// # Panics
    /// Never: AES-GCM fails on texts of 64 GiB only.
    #[must_use]
    pub fn seal(&self, purpose: &str, owner: &str, secret: &[u8]) -> Vec<u8> {
        let nonce = rand::random::<[u8; NONCE]>();
        let payload = Payload { msg: secret, aad: owner.as_bytes() };
        let sealed = self.current.cipher(purpose).encrypt(&Nonce::from(nonce), payload);
        [self.current.id.as_slice(), &nonce, &sealed.expect("a secret is short")].concat()
    }

    /// # Errors
    /// When it was sealed with an unknown key, for another purpose or owner, or was tampered with.
    pub fn open(&self, purpose: &str, owner: &str, sealed: &[u8]) -> Result<Vec<u8>, UnsealError> {
        let (id, rest) = sealed.split_at_checked(KEY_ID).ok_or(UnsealError)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE>().ok_or(UnsealError)?;
        let key = std::iter::once(&self.current).chain(&self.retired).find(|key| key.id == id).ok_or(UnsealError)?;
        let payload = Payload { msg: text, aad: owner.as_bytes() };
        key.cipher(purpose).decrypt(&Nonce::from(*nonce), payload).map_err(|_| UnsealError)
    }

    /// Seals a sealed secret with the present key, for the same purpose and owner.
    ///
    /// # Errors
    /// As [`Vault::open`].
    pub fn reseal(&self, purpose: &str, owner: &str, sealed: &[u8]) -> Result<Vec<u8>, UnsealError> {
        let secret = Zeroizing::new(self.open(purpose, owner, sealed)?);
        Ok(self.seal(purpose, owner, &secret))
    }
}

impl Key {
    fn new(bytes: [u8; 32]) -> Self {
        let mut id = [0; KEY_ID];
        id.copy_from_slice(&Sha256::digest([b"kitfleet key id".as_slice(), &bytes].concat())[..KEY_ID]);
        Self { id, bytes }
    }

    fn cipher(&self, purpose: &str) -> Aes256Gcm {
        Aes256Gcm::new(&self.derived(purpose).into())
    }

    fn derived(&self, purpose: &str) -> [u8; 32] {
        let mut derived = [0; 32];
        let expanded = Hkdf::<Sha256>::new(None, &self.bytes).expand(purpose.as_bytes(), &mut derived);
        expanded.expect("32 bytes are a length that HKDF gives");
        derived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_for_its_purpose_and_owner_only() {
        let vault = Vault::new([1; 32], &[]);
        let sealed = vault.seal("mfa", "acc_1", b"secret");
        assert_eq!(vault.open("mfa", "acc_1", &sealed).ok().as_deref(), Some(&b"secret"[..]));
        assert!(vault.open("mfa", "acc_2", &sealed).is_err());
        assert!(vault.open("other", "acc_1", &sealed).is_err());
        assert!(vault.open("mfa", "acc_1", &[]).is_err());
        assert!(vault.open("mfa", "acc_1", &sealed[..sealed.len() - 1]).is_err());
        assert_ne!(vault.seal("mfa", "acc_1", b"secret"), sealed);
    }

    #[test]
    fn a_fingerprint_outlives_the_key_that_made_it() {
        let (old, new) = (Vault::new([1; 32], &[]), Vault::new([2; 32], &[[1; 32]]));
        let made = old.fingerprints("receipts", b"text");
        assert_eq!(made.len(), 1);
        assert_eq!(new.fingerprints("receipts", b"text")[1], made[0]);
        for other in [new.fingerprints("receipts", b"test"), new.fingerprints("other", b"text")] {
            assert!(!other.contains(&made[0]));
        }
    }

    #[test]
    fn a_retired_key_opens_and_does_not_seal() {
        let (old, new) = (Vault::new([1; 32], &[]), Vault::new([2; 32], &[[1; 32]]));
        let sealed = old.seal("mfa", "acc_1", b"secret");
        assert!(new.open("mfa", "acc_1", &sealed).is_ok());
        assert!(old.open("mfa", "acc_1", &new.seal("mfa", "acc_1", b"secret")).is_err());
    }

    #[test]
    fn a_resealed_secret_opens_with_the_present_key_alone() {
        let (old, both) = (Vault::new([1; 32], &[]), Vault::new([2; 32], &[[1; 32]]));
        let sealed = old.seal("mfa", "acc_1", b"secret");
        let resealed = both.reseal("mfa", "acc_1", &sealed).expect("the retired key opens it");
        let new = Vault::new([2; 32], &[]);
        assert_eq!(new.open("mfa", "acc_1", &resealed).ok().as_deref(), Some(&b"secret"[..]));
        assert!(resealed.starts_with(&new.present_key_id()));
        assert!(new.reseal("mfa", "acc_1", &sealed).is_err());
        assert!(both.reseal("mfa", "acc_2", &sealed).is_err());
    }
}
