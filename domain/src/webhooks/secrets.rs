//! Signing secrets of deliveries (contract: webhooks 10, 11).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use kitfleet_types::ids::WebhookId;
use sha2::Sha256;
use sqlx::PgConnection;

use crate::database;
use crate::vault::{UnsealError, Vault};

pub(super) const PURPOSE: &str = "webhooks";

pub async fn vault(conn: &mut PgConnection, configured: Option<&Vault>) -> sqlx::Result<Vault> {
    database::vault(conn, PURPOSE, configured).await
}

/// 32 random bytes in URL-safe base64 after a prefix. The key of the HMAC is the complete text.
#[derive(Clone)]
pub struct SigningSecret(String);

impl SigningSecret {
    #[must_use]
    pub fn generate() -> Self {
        Self(format!("whsec_{}", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())))
    }

    /// Returns the secret in clear text, which is shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// First characters of the secret, by which people distinguish secrets.
    #[must_use]
    pub fn shown_prefix(&self) -> &str {
        &self.0[..12]
    }

    #[must_use]
    pub fn seal(&self, vault: &Vault, endpoint: WebhookId) -> Vec<u8> {
        vault.seal(PURPOSE, &endpoint.to_string(), self.0.as_bytes())
    }

    pub fn open(vault: &Vault, endpoint: WebhookId, sealed: &[u8]) -> Result<Self, UnsealError> {
        let opened = vault.open(PURPOSE, &endpoint.to_string(), sealed)?;
        String::from_utf8(opened).map(Self).map_err(|_| UnsealError)
    }

    /// One `v1=` value: the HMAC-SHA256 of the time and the body in hexadecimal.
    fn sign(&self, unix_seconds: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("HMAC takes keys of any length");
        mac.update(format!("{unix_seconds}.").as_bytes());
        mac.update(body);
        hex::encode(mac.finalize().into_bytes())
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

/// Value of `X-Service-Signature`. The previous secret signs second, during its grace period.
#[must_use]
pub fn signature(unix_seconds: i64, body: &[u8], secrets: &[SigningSecret]) -> String {
    let signed = secrets.iter().map(|secret| format!(",v1={}", secret.sign(unix_seconds, body)));
    std::iter::once(format!("t={unix_seconds}")).chain(signed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_the_hmac_of_time_and_body() {
        let secret = SigningSecret("whsec_test".to_owned());
        // Computed with `printf '1700000000.{}' | openssl dgst -sha256 -hmac whsec_test`.
        let expected = "t=1700000000,v1=35495024f4ef3f94e5a93e22221544c4b75e9a42300cd965ab81cb85cd994e91";
        let signed = signature(1_700_000_000, b"{}", std::slice::from_ref(&secret));
        assert_eq!(signed, expected);
        let both = signature(1_700_000_000, b"{}", &[SigningSecret::generate(), secret]);
        assert!(both.ends_with(&signed["t=1700000000".len()..]) && both.matches(",v1=").count() == 2);
    }

    #[test]
    fn secret_opens_for_its_endpoint_only() {
        let (vault, endpoint) = (Vault::new([1; 32], &[]), WebhookId::generate());
        let secret = SigningSecret::generate();
        assert!(secret.shown_prefix().starts_with("whsec_") && secret.shown_prefix().len() == 12);
        let sealed = secret.seal(&vault, endpoint);
        let opened = SigningSecret::open(&vault, endpoint, &sealed).map(|opened| opened.0);
        assert_eq!(opened.ok(), Some(secret.0));
        assert!(SigningSecret::open(&vault, WebhookId::generate(), &sealed).is_err());
    }
}
