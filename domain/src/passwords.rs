//! Passwords (contract: sign-ins 2).
//!
//! A password is compared in Unicode's compatibility form (NIST SP 800-63B, section 5.1.1.2), so that it does not matter
//! by which keyboard a letter was composed. Spaces and case count. Hashing takes tens of milliseconds of a core: call it
//! where that hurts nobody.

use std::cell::RefCell;

use argon2::password_hash::{Salt, SaltString};
use argon2::{Algorithm, Argon2, Block, Params, PasswordHash, PasswordHasher, Version};
use subtle::ConstantTimeEq;
use unicode_normalization::UnicodeNormalization;

use crate::limits::Limits;
use crate::validation::{Invalid, Rules};

/// The hash of a password that nobody has, as costly to check as anybody's.
const NOBODYS: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$8Fq2ZrXyqT0m3gJm5oY2Uw$0mFv3n4b3Hq1mTt0yS9cPzK0o8h2pZb5x7Vd6uJwQe8";

/// Bytes that nobody's password has, whatever the limits are.
const LONGEST: usize = 256 * 1024;

/// A password that somebody wants to have.
pub struct NewPassword(String);

impl NewPassword {
    /// # Errors
    /// On `field`, when it has too few characters, or more than anybody types.
    pub fn parse(text: &str, field: &str, limits: &Limits) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        // What is this long has too many characters in any form; some grow a lot when they are normalized.
        let normalized = if text.len() > 16 * limits.password_max_chars { text.to_owned() } else { normalize(text) };
        rules.length(&normalized, limits.password_min_chars, limits.password_max_chars, field);
        rules.check()?;
        Ok(Self(normalized))
    }

    /// argon2id as a PHC string.
    ///
    /// # Panics
    /// Never: the salt is one that argon2 accepts.
    #[must_use]
    pub fn hash(&self) -> String {
        let salt =
            SaltString::encode_b64(&rand::random::<[u8; 16]>()).expect("16 bytes are a salt's recommended length");
        let hash = argon2id(params()).hash_password(self.0.as_bytes(), &salt);
        hash.expect("argon2 fails on bad parameters only").to_string()
    }
}

/// Whether `password` is the one that was hashed. Without a hash it is not, after just as long.
#[must_use]
pub fn verify(password: &str, hash: Option<&str>) -> bool {
    let (password, hash) = if password.len() > LONGEST { ("", None) } else { (password, hash) };
    let Ok(parsed) = PasswordHash::new(hash.unwrap_or(NOBODYS)) else { return false };
    matches(&normalize(password), &parsed).unwrap_or(false) && hash.is_some()
}

/// Whether `password` is what was hashed, at the cost that the hash names. `None` when it is no hash of ours.
fn matches(password: &str, hash: &PasswordHash<'_>) -> Option<bool> {
    let params = Params::try_from(hash).ok().filter(|_| hash.algorithm == Algorithm::Argon2id.ident())?;
    let (salt, stored) = (hash.salt?, hash.hash?);
    let mut buffer = [0; Salt::MAX_LENGTH];
    let salt = salt.decode_b64(&mut buffer).ok()?;
    let derived = derive(params, password.as_bytes(), salt, stored.len()).ok()?;
    Some(derived.ct_eq(stored.as_bytes()).into())
}

/// 19 MiB, two passes, one lane (OWASP's recommendation).
fn params() -> Params {
    Params::new(19 * 1024, 2, 1, None).expect("the parameters are within argon2's bounds")
}

/// What recovery codes are stored as: 32 bytes, as costly to come by as a password's hash.
///
/// # Panics
/// Never, with a salt of 8 bytes or more: the rest is within argon2's bounds.
pub(crate) fn derive_code(code: &str, salt: &[u8]) -> Vec<u8> {
    derive(params(), code.as_bytes(), salt, 32).expect("16 bytes of salt and 32 of hash are within argon2's bounds")
}

fn derive(params: Params, password: &[u8], salt: &[u8], length: usize) -> argon2::Result<Vec<u8>> {
    thread_local! {
        // To be given this much memory anew takes as long as a good part of the hash. Threads that hash keep it.
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
    fn a_password_has_twelve_characters_at_least() {
        for (text, sound) in [
            ("x".repeat(11), false),
            ("x".repeat(12), true),
            ("\u{1f600}".repeat(11), false),
            ("\u{1f600}".repeat(12), true),
            // Eleven letters, the last with an accent of its own.
            (format!("{}e\u{301}", "x".repeat(10)), false),
            ("x".repeat(1_000), true),
            ("x".repeat(1_000_000), false),
        ] {
            assert_eq!(new(&text).is_ok(), sound, "{} bytes", text.len());
        }
    }

    #[test]
    fn a_password_matches_however_its_letters_were_composed() {
        let hash = new("caf\u{e9} au lait, s'il").ok().map(|password| password.hash()).expect("a sound password");
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(verify("cafe\u{301} au lait, s'il", Some(&hash)));
        assert!(!verify("Caf\u{e9} au lait, s'il", Some(&hash)));
        assert!(!verify("caf\u{e9} au lait, s'il ", Some(&hash)));
    }

    #[test]
    fn nobodys_password_is_a_real_hash_and_matches_nothing() {
        assert!(PasswordHash::new(NOBODYS).is_ok());
        assert!(!verify("", None));
    }
}
