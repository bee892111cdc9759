//! Codes that people read and type: Crockford's base32, shown in two groups.

use rand::Rng;

/// Digits and letters without I, L, O and U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Each character has five bits.
#[must_use]
pub fn random(length: usize) -> String {
    let mut rng = rand::rng();
    (0..length).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
}

/// Two halves joined by a hyphen.
#[must_use]
pub fn shown(code: &str) -> String {
    let (first, second) = code.split_at(code.len() / 2);
    format!("{first}-{second}")
}

/// Upper case, without separators, and with O, I and L replaced by the digits they resemble.
#[must_use]
pub fn normalized(typed: &str) -> String {
    let characters = typed.chars().filter(|c| !c.is_whitespace() && *c != '-');
    characters
        .map(|c| match c.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_code_is_normalized() {
        let code = random(10);
        assert_eq!(normalized(&shown(&code)), code);
        assert_eq!(normalized(&format!(" {} ", shown(&code).to_lowercase())), code);
        assert_eq!(normalized("olI0-1"), "01101");
    }
}
