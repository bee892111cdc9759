//! Sealing of secrets between the API and the worker that owns a session.
//!
//! A worker keeps an X25519 key pair in memory and publishes the public key, to which the API seals typed texts and
//! credentials of proxies. So the database, its backups and its replicas contain no readable secrets, and the
//! deployment has no key to manage. When the worker dies, the secrets are lost with it: no other worker may run the
//! operation.

use crypto_box::aead::OsRng;
use crypto_box::{PublicKey, SecretKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// Never leaves the process that generated it.
#[derive(Clone)]
pub struct Opener(SecretKey);

impl Opener {
    #[must_use]
    pub fn generate() -> Self {
        Self(SecretKey::generate(&mut OsRng))
    }

    #[must_use]
    pub fn public_key(&self) -> Vec<u8> {
        self.0.public_key().as_bytes().to_vec()
    }

    pub fn open<T: DeserializeOwned>(&self, sealed: &[u8]) -> Result<T, NotSealedForUs> {
        let plain = Zeroizing::new(self.0.unseal(sealed).map_err(|_| NotSealedForUs)?);
        serde_json::from_slice(&plain).map_err(|_| NotSealedForUs)
    }
}

#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the secrets were not encrypted for this worker")]
pub struct NotSealedForUs;

/// Seals `secrets` to the worker that published `public_key`.
pub fn seal(secrets: &impl Serialize, public_key: &[u8]) -> Result<Vec<u8>, NotSealedForUs> {
    let public_key = PublicKey::from_slice(public_key).map_err(|_| NotSealedForUs)?;
    let plain = Zeroizing::new(serde_json::to_vec(secrets).map_err(|_| NotSealedForUs)?);
    public_key.seal(&mut OsRng, &plain).map_err(|_| NotSealedForUs)
}
