use std::fmt;

use kitfleet_types::tiers::Tier;

use super::KeyKind;
use crate::tokens;

/// A prefix, 32 random bytes in hexadecimal, and their CRC-32, with which a secret scanner recognizes a key without a
/// request to the service. Only its hash is stored.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    const LIVE: &str = "svc_live_";
    /// Prefix of device keys on the free tier (contract: devices 9).
    const TEST: &str = "svc_test_";
    /// Staff credentials belong to no account.
    const STAFF: &str = "svc_staff_";
    const LIVE_OR_TEST: [&str; 2] = [Self::LIVE, Self::TEST];

    pub(super) fn generate(kind: KeyKind, tier: Tier) -> Self {
        let prefix = match (kind, tier) {
            (KeyKind::Device, Tier::Free) => Self::TEST,
            _ => Self::LIVE,
        };
        Self::random(prefix)
    }

    pub(crate) fn generate_for_staff() -> Self {
        Self::random(Self::STAFF)
    }

    fn random(prefix: &str) -> Self {
        let body = hex::encode(rand::random::<[u8; 32]>());
        Self(format!("{prefix}{body}{}", checksum(&body)))
    }

    /// Checks prefix and checksum, so that a mistyped key does not reach the database.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::LIVE_OR_TEST.iter().find_map(|prefix| Self::after(prefix, text))
    }

    pub(crate) fn parse_of_staff(text: &str) -> Option<Self> {
        Self::after(Self::STAFF, text)
    }

    fn after(prefix: &str, text: &str) -> Option<Self> {
        let (body, sum) = text.strip_prefix(prefix)?.split_at_checked(64)?;
        (checksum(body) == sum).then(|| Self(text.to_owned()))
    }

    /// Shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// First characters of the secret, by which people distinguish keys.
    pub(crate) fn shown_prefix(&self) -> &str {
        &self.0[..12]
    }

    pub(crate) fn hash(&self) -> Vec<u8> {
        tokens::hash(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn checksum(body: &str) -> String {
    format!("{:08x}", crc32fast::hash(body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_a_checksum() {
        let secret = Secret::generate(KeyKind::Customer, Tier::Free);
        assert!(secret.reveal().starts_with("svc_live_") && Secret::parse(secret.reveal()).is_some());
        let device = Secret::generate(KeyKind::Device, Tier::Free);
        assert!(device.reveal().starts_with("svc_test_") && Secret::parse(device.reveal()).is_some());
        assert!(Secret::generate(KeyKind::Device, Tier::ApiStarter).reveal().starts_with("svc_live_"));
        let mistyped = secret.reveal().replacen(|c: char| c.is_ascii_digit(), "g", 1);
        assert!(Secret::parse(&mistyped).is_none());
        assert!(Secret::parse("svc_live_").is_none());
        assert!(Secret::parse("svc_live_ü").is_none());
    }
}
