//! Removal of secrets from addresses and headers that are recorded or shown in lists (contract: recordings 16).

use std::borrow::Cow;

/// Value shown instead of a secret.
pub const MASK: &str = "•••";

/// Parts of names of query parameters whose values are secrets.
const SECRET_NAMES: [&str; 20] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "accesskey",
    "subscriptionkey",
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
    "cardnumber",
];

/// Whole names of such parameters, which are too short to be found within other names.
const SHORT_NAMES: [&str; 17] = [
    "auth", "key", "sig", "sid", "session", "code", "otp", "pin", "pass", "state", "nonce", "hmac", "hash", "ticket",
    "csrf", "cvc", "cvv",
];

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

/// True if the header's value must not be recorded. `extra` are the names that the session's `extra_headers` set. A header with a
/// name that would make a parameter secret is one too, such as `X-Api-Key`.
#[must_use]
pub fn is_secret_header(name: &str, extra: &[String]) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    // `Access-Control-Allow-Credentials` is a flag.
    let is_of_cors = name.get(..15).is_some_and(|start| start.eq_ignore_ascii_case("access-control-"));
    SECRET_HEADERS.iter().any(|known| is(known))
        || extra.iter().any(|known| is(known))
        || (!is_of_cors && is_secret_name(name))
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

/// Addresses in more addresses are not searched, so that a page cannot make the search long.
const MAX_DEPTH: usize = 3;

/// Delimiter of parameters. In an address that is the value of a parameter of another address it is percent-encoded, such as
/// `%3F`, and once more in each further address, such as `%253F`.
struct Delimiter {
    kind: u8,
    /// How often it is encoded.
    depth: usize,
    length: usize,
}

impl Delimiter {
    /// The delimiter that a text begins with.
    fn at_start(text: &str) -> Option<Self> {
        let (first, rest) = text.as_bytes().split_first()?;
        if *first != b'%' {
            return Some(Self { kind: *first, depth: 0, length: 1 });
        }
        let percents = rest.chunks(2).take(MAX_DEPTH).take_while(|digits| *digits == b"25").count();
        let hex = rest.get(2 * percents..2 * percents + 2).and_then(|digits| std::str::from_utf8(digits).ok())?;
        let kind = u8::from_str_radix(hex, 16).ok()?;
        Some(Self { kind, depth: percents + 1, length: 2 * percents + 3 })
    }

    fn begins_parameter(&self) -> bool {
        matches!(self.kind, b'?' | b'&' | b';' | b'#')
    }
}

/// A parameter follows `?`, `&`, `;` or `#` and ends at the next of them, a space or a quotation mark. A parameter of an address
/// within another also ends at the delimiters of the outer address.
fn mask_parameters(text: &str) -> Cow<'_, str> {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`');
    let ends = |at: usize, depth: usize| {
        text[at..].starts_with(is_end)
            || Delimiter::at_start(&text[at..]).is_some_and(|found| found.begins_parameter() && found.depth <= depth)
    };
    let next = |at: usize, is_found: &dyn Fn(usize) -> bool| {
        text[at..].char_indices().map(|(offset, _)| at + offset).find(|at| is_found(*at)).unwrap_or(text.len())
    };
    let (mut masked, mut copied, mut at) = (String::new(), 0, 0);
    while at < text.len() {
        let Some(before) = Delimiter::at_start(&text[at..]).filter(Delimiter::begins_parameter) else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        at += before.length;
        let equals = |at: usize| {
            Delimiter::at_start(&text[at..]).filter(|found| found.kind == b'=' && found.depth <= before.depth)
        };
        let name_end = next(at, &|at| equals(at).is_some() || ends(at, before.depth));
        let Some(found) = equals(name_end).filter(|_| is_secret_name(&text[at..name_end])) else { continue };
        let value_at = name_end + found.length;
        let value_end = next(value_at, &|at| ends(at, before.depth));
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
            (
                "https://a.example/?to=https%3A%2F%2Fb.example%2F%3Ftoken%3Dabc%26q%3D1&x=2",
                "https://a.example/?to=https%3A%2F%2Fb.example%2F%3Ftoken%3D•••%26q%3D1&x=2",
            ),
            ("/?a=%2F%3fb%3d%252F%253Ftoken%253Dabc%26c", "/?a=%2F%3fb%3d%252F%253Ftoken%253D•••%26c"),
            ("/?token=abc%26def%3Dghi&b=1", "/?token=•••&b=1"),
            ("/?to=%3Ftoken=1&b=1", "/?to=%3Ftoken=•••&b=1"),
            ("/?cvc=123&Subscription-Key=1", "/?cvc=•••&Subscription-Key=•••"),
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
            "100%",
            "?a%",
            "?a=%2",
            "?a=%é3Ftoken",
            "https://a.example/?q=a%3Fkeyboard%3D1",
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
        for name in
            ["Authorization", "cookie", "SET-COOKIE", "Proxy-Authorization", "x-shop", "X-Api-Key", "x-csrf-token"]
        {
            assert!(is_secret_header(name, &extra), "{name}");
        }
        for name in ["accept", "content-type", "etag", "Access-Control-Allow-Credentials", "sec-websocket-key", "é"] {
            assert!(!is_secret_header(name, &extra), "{name}");
        }
    }
}
