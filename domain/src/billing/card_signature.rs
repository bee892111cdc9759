//! Verifies the signature of the card provider's events: `t=<seconds>,v1=<hex>` over `<seconds>.<body>`.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Maximum difference between the signing time and now, in seconds.
pub const TOLERANCE_SECONDS: i64 = 300;

/// At most [`TOLERANCE_SECONDS`] from `now` (Unix seconds). One valid `v1` is enough: the provider sends two while a
/// secret is rotated.
///
/// # Panics
/// Never panics: HMAC accepts keys of any length.
#[must_use]
pub fn is_valid(header: &str, body: &[u8], secret: &str, now: i64) -> bool {
    let members = || header.split(',').filter_map(|member| member.trim().split_once('='));
    let Some((_, time)) = members().find(|(name, _)| *name == "t") else { return false };
    let Ok(signed_at) = time.parse::<i64>() else { return false };
    if now.abs_diff(signed_at) > TOLERANCE_SECONDS.unsigned_abs() {
        return false;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    // The signature covers the time as text, not as a parsed number.
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body);
    members()
        .filter(|(name, _)| *name == "v1")
        .filter_map(|(_, signature)| hex::decode(signature).ok())
        .any(|signature| mac.clone().verify_slice(&signature).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;
    const BODY: &[u8] = br#"{"id":"evt_1"}"#;
    // printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test
    const GOOD: &str = "c89214b5b5da833daed6f0b8c5bb6bd58cea9022bd80ccc78230f3942d632925";

    fn is_signed(header: &str) -> bool {
        is_valid(header, BODY, "whsec_test", NOW)
    }

    #[test]
    fn one_good_signature_among_several_is_enough() {
        assert!(is_signed(&format!("t={NOW},v1={GOOD}")));
        assert!(is_signed(&format!("t={NOW},v1={},v0=x,v1={GOOD}", "0".repeat(64))));
    }

    #[test]
    fn another_body_secret_or_time_is_not_signed() {
        let header = format!("t={NOW},v1={GOOD}");
        assert!(!is_valid(&header, br#"{"id":"evt_2"}"#, "whsec_test", NOW));
        assert!(!is_valid(&header, BODY, "whsec_other", NOW));
        assert!(!is_signed(&format!("t={},v1={GOOD}", NOW + 1)));
    }

    #[test]
    fn event_is_accepted_for_300_seconds() {
        let header = format!("t={NOW},v1={GOOD}");
        assert!(is_valid(&header, BODY, "whsec_test", NOW + TOLERANCE_SECONDS));
        assert!(!is_valid(&header, BODY, "whsec_test", NOW + TOLERANCE_SECONDS + 1));
        assert!(!is_valid(&header, BODY, "whsec_test", NOW - TOLERANCE_SECONDS - 1));
    }

    #[test]
    fn malformed_header_is_rejected() {
        for header in [
            "",
            "t=",
            "t=x,v1=00",
            "v1=00",
            &format!("t={NOW}"),
            &format!("t={NOW},v0={GOOD}"),
            &format!("t={NOW},v1=zz"),
        ] {
            assert!(!is_signed(header), "{header:?}");
        }
        assert!(!is_signed(&format!("t={},v1={GOOD}", i64::MIN)));
    }
}
