//! Removal of secrets from addresses and headers that are recorded or shown in lists (contract: recordings 16).

use std::borrow::Cow;

/// Value shown instead of a secret.
pub const MASK: &str = "•••";

/// Parts of names of query parameters whose values are secrets.
const SECRET_NAMES: [&str; 18] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "accesskey",
    "authorization",
    "signature",
    "credential",
    "sessionid",
    "privatekey",
    "assertion",
    "samlresponse",
    "samlrequest",
    "jwt",
    "verifier",
];

/// Whole names of such parameters, which are too short to be found within other names.
const SHORT_NAMES: [&str; 14] =
    ["auth", "key", "sig", "sid", "code", "otp", "pin", "pass", "state", "nonce", "hmac", "hash", "ticket", "csrf"];

/// Headers whose values are secrets on every request.
const SECRET_HEADERS: [&str; 4] = ["authorization", "cookie", "set-cookie", "proxy-authorization"];

/// Masks user names, passwords and secret parameters of all addresses in a text. The text may be an address, or a message that
/// contains some.
#[must_use]
pub fn mask_addresses(text: &str) -> Cow<'_, str> {
    let with_parameters = mask_parameters(text);
    match mask_user_info(&with_parameters) {
        Some(masked) => Cow::Owned(masked),
        None => with_parameters,
    }
}

/// True if the header's value must not be recorded. `extra` are the names that the session's `extra_headers` set.
#[must_use]
pub fn is_secret_header(name: &str, extra: &[String]) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    SECRET_HEADERS.iter().any(|known| is(known)) || extra.iter().any(|known| is(known))
}

fn is_secret_name(name: &str) -> bool {
    let decoded = decode(name);
    let plain: String = decoded.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    SHORT_NAMES.contains(&plain.as_str()) || SECRET_NAMES.iter().any(|part| plain.contains(part))
}

/// Names may be percent-encoded.
fn decode(name: &str) -> String {
    let bytes = name.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|digit| char::from(*digit).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (byte, hex(1), hex(2)) {
            decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
            at += 3;
        } else {
            decoded.push(byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// A parameter follows `?`, `&`, `;` or `#` and ends at the next of them, a space or a quotation mark.
fn mask_parameters(text: &str) -> Cow<'_, str> {
    const BEFORE: [char; 4] = ['?', '&', ';', '#'];
    let ends = |c: char| BEFORE.contains(&c) || c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`');
    let (mut masked, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = text[at..].find(BEFORE) {
        let name_at = at + found + 1;
        at = name_at;
        let length = text[name_at..].find(|c| c == '=' || ends(c)).unwrap_or(text.len() - name_at);
        let value_at = name_at + length + 1;
        if !text[name_at + length..].starts_with('=') || !is_secret_name(&text[name_at..name_at + length]) {
            continue;
        }
        let value_end = value_at + text[value_at..].find(ends).unwrap_or(text.len() - value_at);
        if value_end > value_at {
            masked.push_str(&text[copied..value_at]);
            masked.push_str(MASK);
            copied = value_end;
        }
        at = value_end;
    }
    if masked.is_empty() {
        return Cow::Borrowed(text);
    }
    masked.push_str(&text[copied..]);
    Cow::Owned(masked)
}

/// `None` if no address in the text has user information.
fn mask_user_info(text: &str) -> Option<String> {
    let (mut masked, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = text[at..].find("://") {
        let authority = at + found + 3;
        let end = text[authority..]
            .find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>') || c.is_whitespace());
        let end = authority + end.unwrap_or(text.len() - authority);
        if let Some(user) = text[authority..end].rfind('@') {
            masked.push_str(&text[copied..authority]);
            masked.push_str(MASK);
            copied = authority + user;
        }
        at = end;
    }
    (copied > 0).then(|| masked + &text[copied..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_parameters_are_masked() {
        for (text, masked) in [
            ("https://a.example/?q=1&access_token=abc&x=2", "https://a.example/?q=1&access_token=•••&x=2"),
            ("https://a.example/#id_token=abc", "https://a.example/#id_token=•••"),
            ("https://a.example/cb?code=abc&state=xyz", "https://a.example/cb?code=•••&state=•••"),
            (
                "https://a.example/?X-Amz-Signature=1f&X-Amz-Date=2",
                "https://a.example/?X-Amz-Signature=•••&X-Amz-Date=2",
            ),
            ("https://a.example/?API%5FKEY=abc", "https://a.example/?API%5FKEY=•••"),
            ("GET \"https://a.example/?password=abc\" failed", "GET \"https://a.example/?password=•••\" failed"),
            ("https://ada:lovelace@a.example/?q=1", "https://•••@a.example/?q=1"),
            ("see https://ada@a.example?token=1 here", "see https://•••@a.example?token=••• here"),
            ("wss://a.example/?sid=é&b", "wss://a.example/?sid=•••&b"),
        ] {
            assert_eq!(mask_addresses(text), masked);
        }
    }

    #[test]
    fn other_text_is_not_changed() {
        for text in [
            "",
            "?",
            "a=b",
            "https://a.example/?q=token",
            "https://a.example/?keyboard=1&author=2&",
            "?token",
            "?token=&b=1",
            "a@b.example",
            "?=1",
        ] {
            assert_eq!(mask_addresses(text), text);
        }
    }

    #[test]
    fn masked_text_is_not_changed_again() {
        let masked = mask_addresses("https://a:b@a.example/?token=1").into_owned();
        assert_eq!(mask_addresses(&masked), masked);
    }

    #[test]
    fn secret_headers_are_known_in_any_case() {
        let extra = ["X-Shop".to_owned()];
        for name in ["Authorization", "cookie", "SET-COOKIE", "Proxy-Authorization", "x-shop"] {
            assert!(is_secret_header(name, &extra), "{name}");
        }
        assert!(!is_secret_header("accept", &extra));
    }
}
