//! Passwords (contract: sign-ins 2).
//!
//! Passwords are compared in Unicode's compatibility form (NIST SP 800-63B, section 5.1.1.2), so that the way a
//! keyboard composes a letter does not matter. Hashing takes tens of milliseconds of CPU time, so call it on a thread
//! where that delays no other task.

use std::cell::RefCell;

use argon2::password_hash::{Salt, SaltString};
use argon2::{Algorithm, Argon2, Block, Params, PasswordHash, PasswordHasher, Version};
use kitfleet_types::limits::Limits;
use kitfleet_types::validation::{Invalid, Rules};
use subtle::ConstantTimeEq;
use unicode_normalization::UnicodeNormalization;

/// Checking it costs as much as checking a real one.
const UNMATCHED_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$8Fq2ZrXyqT0m3gJm5oY2Uw$0mFv3n4b3Hq1mTt0yS9cPzK0o8h2pZb5x7Vd6uJwQe8";

/// Bytes, whatever the limits are.
const LONGEST: usize = 256 * 1024;

pub struct NewPassword(String);

impl NewPassword {
    pub fn parse(text: &str, field: &str, limits: &Limits) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        // A text of this length has too many characters in any form. Normalizing it could enlarge it a lot.
        let normalized = if text.len() > 16 * limits.password_max_chars { text.to_owned() } else { normalize(text) };
        rules.length(&normalized, limits.password_min_chars, limits.password_max_chars, field);
        rules.check()?;
        Ok(Self(normalized))
    }

    /// Hashes the password with argon2id and returns a PHC string.
    ///
    /// # Panics
    /// Never panics: argon2 accepts the salt.
    #[must_use]
    pub fn hash(&self) -> String {
        let salt =
            SaltString::encode_b64(&rand::random::<[u8; 16]>()).expect("16 bytes are a salt's recommended length");
        let hash = argon2id(params()).hash_password(self.0.as_bytes(), &salt);
        hash.expect("argon2 fails on bad parameters only").to_string()
    }
}

/// Returns true when `password` matches the hash. Without a hash it returns false after the same time.
#[must_use]
pub fn verify(password: &str, hash: Option<&str>) -> bool {
    let (password, hash) = if password.len() > LONGEST { ("", None) } else { (password, hash) };
    let Ok(parsed) = PasswordHash::new(hash.unwrap_or(UNMATCHED_HASH)) else { return false };
    matches(&normalize(password), &parsed).unwrap_or(false) && hash.is_some()
}

/// Returns whether `password` matches the hash, computed with the parameters in the hash. Returns `None` when it is not
/// an argon2id hash.
fn matches(password: &str, hash: &PasswordHash<'_>) -> Option<bool> {
    let params = Params::try_from(hash).ok().filter(|_| hash.algorithm == Algorithm::Argon2id.ident())?;
    let (salt, stored) = (hash.salt?, hash.hash?);
    let mut buffer = [0; Salt::MAX_LENGTH];
    let salt = salt.decode_b64(&mut buffer).ok()?;
    let derived = derive(params, password.as_bytes(), salt, stored.len()).ok()?;
    Some(derived.ct_eq(stored.as_bytes()).into())
}

/// OWASP's recommendation: 19 MiB, two passes, one lane.
fn params() -> Params {
    Params::new(19 * 1024, 2, 1, None).expect("the parameters are within argon2's bounds")
}

/// 32 bytes, at the cost of a password hash.
///
/// # Panics
/// Never panics with a salt of at least 8 bytes: the other values are within argon2's bounds.
pub(crate) fn derive_code(code: &str, salt: &[u8]) -> Vec<u8> {
    derive(params(), code.as_bytes(), salt, 32).expect("16 bytes of salt and 32 of hash are within argon2's bounds")
}

fn derive(params: Params, password: &[u8], salt: &[u8], length: usize) -> argon2::Result<Vec<u8>> {
    thread_local! {
        // Allocating this memory takes a large part of the time of a hash, so each hashing thread keeps it.
        static MEMORY: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
    }
    MEMORY.with_borrow_mut(|memory| {
        memory.resize(params.block_count().max(memory.len()), Block::default());
        let mut derived = vec![0; length];
        argon2id(params).hash_password_into_with_memory(password, salt, &mut derived, memory.as_mut_slice())?;
        Ok(derived)
    })
}

fn argon2id(params: Params) -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn normalize(text: &str) -> String {
    text.nfkc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(text: &str) -> Result<NewPassword, Invalid> {
        NewPassword::parse(text, "password", &Limits::default())
    }

    #[test]
    fn password_has_at_least_twelve_characters() {
        for (text, is_valid) in [
            ("x".repeat(11), false),
            ("x".repeat(12), true),
            ("\u{1f600}".repeat(11), false),
            ("\u{1f600}".repeat(12), true),
            // Eleven characters, of which the last is a letter with a combining accent.
            (format!("{}e\u{301}", "x".repeat(10)), false),
            ("x".repeat(1_000), true),
            ("x".repeat(1_000_000), false),
        ] {
            assert_eq!(new(&text).is_ok(), is_valid, "{} bytes", text.len());
        }
    }

    #[test]
    fn password_matches_in_any_unicode_composition() {
        let hash = new("caf\u{e9} au lait, s'il").ok().map(|password| password.hash()).expect("a valid password");
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(verify("cafe\u{301} au lait, s'il", Some(&hash)));
        assert!(!verify("Caf\u{e9} au lait, s'il", Some(&hash)));
        assert!(!verify("caf\u{e9} au lait, s'il ", Some(&hash)));
    }

    #[test]
    fn unmatched_hash_is_valid_and_matches_no_password() {
        assert!(PasswordHash::new(UNMATCHED_HASH).is_ok());
        assert!(!verify("", None));
    }
}
