//! Secrets that must be readable later, sealed at rest with AES-256-GCM.
//!
//! For each purpose a key is derived from the deployment's key. A sealed secret begins with the id of its key, so a new
//! key can seal while earlier keys still open. A secret is bound to its owner and cannot be opened for another.

use std::fmt;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Length of a key id in bytes.
const KEY_ID: usize = 4;
const NONCE: usize = 12;

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

/// None of the configured keys opens the secret, or it belongs to another owner or purpose.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("cannot decrypt a secret with the configured keys")]
pub struct UnsealError;

impl Vault {
    /// Seals with `current` and opens with `current` and `retired`.
    #[must_use]
    pub fn new(current: [u8; 32], retired: &[[u8; 32]]) -> Self {
        Self { current: Key::new(current), retired: retired.iter().copied().map(Key::new).collect() }
    }

    #[must_use]
    pub fn with_retired_key(mut self, key: [u8; 32]) -> Self {
        self.retired.push(Key::new(key));
        self
    }

    /// Returns fingerprints of `text` for `purpose`, by the current key and each retired key. They identify the text
    /// without revealing it.
    ///
    /// # Panics
    /// Never panics: HMAC accepts keys of any length.
    #[must_use]
    pub fn fingerprints(&self, purpose: &str, text: &[u8]) -> Vec<Vec<u8>> {
        let by = |key: &Key| {
            let mac = Hmac::<Sha256>::new_from_slice(&key.derived(purpose));
            mac.expect("a key of 32 bytes").chain_update(text).finalize().into_bytes().to_vec()
        };
        std::iter::once(&self.current).chain(&self.retired).map(by).collect()
    }

    /// Secrets sealed by the current key begin with it.
    pub(crate) fn present_key_id(&self) -> Vec<u8> {
        self.current.id.to_vec()
    }

    pub(crate) fn key_ids(&self) -> Vec<Vec<u8>> {
        std::iter::once(&self.current).chain(&self.retired).map(|key| key.id.to_vec()).collect()
    }

    /// # Panics
    /// Never panics: AES-GCM fails only on texts of 64 GiB.
    #[must_use]
    pub fn seal(&self, purpose: &str, owner: &str, secret: &[u8]) -> Vec<u8> {
        let nonce = rand::random::<[u8; NONCE]>();
        let payload = Payload { msg: secret, aad: owner.as_bytes() };
        let sealed = self.current.cipher(purpose).encrypt(&Nonce::from(nonce), payload);
        [self.current.id.as_slice(), &nonce, &sealed.expect("a secret is short")].concat()
    }

    pub fn open(&self, purpose: &str, owner: &str, sealed: &[u8]) -> Result<Vec<u8>, UnsealError> {
        let (id, rest) = sealed.split_at_checked(KEY_ID).ok_or(UnsealError)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE>().ok_or(UnsealError)?;
        let key = std::iter::once(&self.current).chain(&self.retired).find(|key| key.id == id).ok_or(UnsealError)?;
        let payload = Payload { msg: text, aad: owner.as_bytes() };
        key.cipher(purpose).decrypt(&Nonce::from(*nonce), payload).map_err(|_| UnsealError)
    }

    /// Reseals a secret with the current key, for the same purpose and owner.
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
    fn secret_opens_for_its_purpose_and_owner_only() {
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
    fn fingerprint_remains_after_a_key_rotation() {
        let (old, new) = (Vault::new([1; 32], &[]), Vault::new([2; 32], &[[1; 32]]));
        let made = old.fingerprints("receipts", b"text");
        assert_eq!(made.len(), 1);
        assert_eq!(new.fingerprints("receipts", b"text")[1], made[0]);
        for other in [new.fingerprints("receipts", b"test"), new.fingerprints("other", b"text")] {
            assert!(!other.contains(&made[0]));
        }
    }

    #[test]
    fn retired_key_opens_and_does_not_seal() {
        let (old, new) = (Vault::new([1; 32], &[]), Vault::new([2; 32], &[[1; 32]]));
        let sealed = old.seal("mfa", "acc_1", b"secret");
        assert!(new.open("mfa", "acc_1", &sealed).is_ok());
        assert!(old.open("mfa", "acc_1", &new.seal("mfa", "acc_1", b"secret")).is_err());
    }

    #[test]
    fn resealed_secret_opens_with_the_current_key_only() {
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
