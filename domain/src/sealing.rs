//! Secrets on their way from the API to the worker that owns a session.
//!
//! A worker keeps an X25519 key pair in memory and publishes the public half. The API seals a typed text to it, or what a
//! proxy is told, so that the database, its backups and its replicas hold nothing they could read, and no deployment has a key to manage. When
//! the worker dies the text is lost with it, as it should be: nobody else may run the operation.

use crypto_box::aead::OsRng;
use crypto_box::{PublicKey, SecretKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// The half that opens. It never leaves the process that generated it.
#[derive(Clone)]
pub struct Opener(SecretKey);

impl Opener {
    /// A fresh pair.
    #[must_use]
    pub fn generate() -> Self {
        Self(SecretKey::generate(&mut OsRng))
    }

    /// The half to publish.
    #[must_use]
    pub fn public_key(&self) -> Vec<u8> {
        self.0.public_key().as_bytes().to_vec()
    }

    /// # Errors
    /// When it was not sealed to this pair.
    pub fn open<T: DeserializeOwned>(&self, sealed: &[u8]) -> Result<T, NotSealedForUs> {
        let plain = Zeroizing::new(self.0.unseal(sealed).map_err(|_| NotSealedForUs)?);
        serde_json::from_slice(&plain).map_err(|_| NotSealedForUs)
    }
}

/// A sealed text that another worker's key would open.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the secrets were not encrypted for this worker")]
pub struct NotSealedForUs;

/// Seals `secrets` to the worker that published `public_key`.
///
/// # Errors
/// When that is no public key.
pub fn seal(secrets: &impl Serialize, public_key: &[u8]) -> Result<Vec<u8>, NotSealedForUs> {
    let public_key = PublicKey::from_slice(public_key).map_err(|_| NotSealedForUs)?;
    let plain = Zeroizing::new(serde_json::to_vec(secrets).map_err(|_| NotSealedForUs)?);
    public_key.seal(&mut OsRng, &plain).map_err(|_| NotSealedForUs)
}
