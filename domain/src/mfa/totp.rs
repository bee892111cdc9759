//! Time-based codes (RFC 6238) with SHA-1, six digits and a period of 30 s.

use std::fmt;

use totp_rs::{Builder, Totp};

/// Authenticator apps show it beside the account.
const ISSUER: &str = "Kitfleet";

/// Secret for an authenticator app in clear text, which is shown once.
pub struct Enrollment {
    secret: [u8; 20],
    account_name: String,
}

impl fmt::Debug for Enrollment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Enrollment(…)")
    }
}

impl Enrollment {
    pub(super) fn generate() -> Self {
        Self { secret: rand::random(), account_name: String::new() }
    }

    pub(super) fn labelled(self, account_name: String) -> Self {
        Self { account_name, ..self }
    }

    pub(super) fn secret(&self) -> &[u8] {
        &self.secret
    }

    #[must_use]
    pub fn secret_base32(&self) -> String {
        self.totp().secret().to_base32()
    }

    /// Returns the secret as a URI for a QR code.
    ///
    /// # Panics
    /// Never panics: an account has an address, and an address contains no colon.
    #[must_use]
    pub fn otpauth_uri(&self) -> String {
        let uri = self.totp().to_url().expect("the account has a name");
        // Some apps have other defaults and would show wrong codes, so the URI also names the standard ones.
        format!("{uri}&algorithm=SHA1&digits=6&period=30")
    }

    fn totp(&self) -> Totp {
        builder(&self.secret)
            .with_account_name(self.account_name.replace(':', ""))
            .with_issuer(Some(ISSUER))
            .build_noncompliant()
    }
}

/// `now` in seconds since 1970.
pub(super) fn accepted_step(secret: &[u8], code: &str, now: u64, drift: u16) -> Option<i64> {
    let totp = builder(secret).with_skew(drift).build_noncompliant();
    totp.check(code, now).and_then(|step| i64::try_from(step).ok())
}

fn builder(secret: &[u8]) -> Builder {
    Builder::new().with_secret(secret.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6238, appendix B, the rows for SHA-1, with the last six of the eight digits.
    #[test]
    fn codes_match_the_vectors_of_the_standard() {
        const SECRET: &[u8] = b"12345678901234567890";
        for (time, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(accepted_step(SECRET, code, time, 0), i64::try_from(time / 30).ok(), "{time}");
            // Contract: mfa 7. Codes of one period before and after are accepted.
            for (at, accepted) in [(time - 30, true), (time + 30, true), (time + 60, false)] {
                assert_eq!(accepted_step(SECRET, code, at, 1).is_some(), accepted, "{time} at {at}");
            }
        }
    }

    #[test]
    fn only_six_digits_are_a_code() {
        for bad in [
            "",
            "28708",
            "2870820",
            "+28708",
            "28708a",
            " 287082",
            "287 82",
            "\u{0662}\u{0668}\u{0667}\u{0660}\u{0668}\u{0662}",
        ] {
            assert_eq!(accepted_step(b"12345678901234567890", bad, 59, 1), None, "{bad:?}");
        }
    }

    #[test]
    fn enrolment_uri_is_read_by_authenticator_apps() {
        let enrollment = Enrollment { secret: *b"12345678901234567890", account_name: "ada@example.com".to_owned() };
        assert_eq!(
            enrollment.otpauth_uri(),
            "otpauth://totp/Kitfleet:ada%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Kitfleet\
             &algorithm=SHA1&digits=6&period=30"
        );
        let read = Totp::from_url(enrollment.otpauth_uri()).expect("a library reads it");
        assert_eq!((read.issuer(), read.account_name()), (Some("Kitfleet"), "ada@example.com"));
        assert_eq!(read.generate(59).to_string(), "287082");
    }
}
