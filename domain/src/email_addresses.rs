//! An address is kept as it was written, in Unicode's composed form and with the host in its DNS form. Two addresses
//! are the same mailbox when their keys (compatibility form, lower case) are equal: the standard allows a mail server
//! to distinguish `Ada@` from `ada@`, but no server does, and many people type their own address in a different case.

use std::fmt;

use email_address::{EmailAddress as Syntax, Options};
use kitfleet_types::validation::Invalid;
use unicode_normalization::UnicodeNormalization;
use url::Host;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailAddress {
    text: String,
    key: String,
}

impl EmailAddress {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text).ok_or_else(|| Invalid::field("email", "must be an e-mail address"))
    }

    fn read(text: &str) -> Option<Self> {
        let (local, host) = text.trim().rsplit_once('@').filter(|_| text.len() <= 1_024)?;
        let local: String = local.nfc().collect();
        let host = match Host::parse(host).ok()? {
            Host::Domain(name) => name,
            // Customers have no mailboxes on hosts without a name.
            Host::Ipv4(_) | Host::Ipv6(_) => return None,
        };
        let text = format!("{local}@{host}");
        let options = Options::default().without_display_text().without_domain_literal();
        // Characters that could end a mail header are refused. Quoted local parts are standard but not used in
        // practice.
        let is_safe = text.len() <= 254 && !text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '"');
        let key = text.nfkc().collect::<String>().to_lowercase();
        (is_safe && Syntax::parse_with_options(&text, options).is_ok()).then_some(Self { text, key })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Equal for all spellings of a mailbox.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_mailbox_have_the_same_key() {
        let key = |text: &str| EmailAddress::parse(text).expect("an address").key;
        assert_eq!(key(" Ada@Example.COM "), "ada@example.com");
        // A composed and a decomposed letter, and a fullwidth one.
        assert_eq!(key("\u{e9}va@example.com"), key("E\u{301}VA@example.com"));
        assert_eq!(key("\u{ff41}da@example.com"), "ada@example.com");
        assert_eq!(key("ada@b\u{fc}cher.example"), "ada@xn--bcher-kva.example");
        assert_ne!(key("ada+x@example.com"), key("ada@example.com"));
    }

    #[test]
    fn invalid_address_is_refused() {
        for bad in [
            "",
            "a",
            "@",
            "a@",
            "@b.c",
            "a b@c.d",
            "a@b c",
            "a@b.c\r\nBcc: x@y.z",
            "a\r\nb@c.d",
            "a@b@c.d",
            "a@[127.0.0.1]",
            "a@127.0.0.1",
            "\"a b\"@c.d",
            "Ada <ada@example.com>",
            "a@-b.c",
            "a..b@c.d",
            "a\0@b.c",
            "a,b@c.d",
        ] {
            assert!(EmailAddress::parse(bad).is_err(), "{bad:?}");
        }
        assert!(EmailAddress::parse(&format!("{}@example.com", "x".repeat(65))).is_err());
        assert!(EmailAddress::parse(&format!("a@{}.com", "x".repeat(64))).is_err());
    }
}
