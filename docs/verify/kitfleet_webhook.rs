//! Verifies that a webhook comes from Kitfleet. Needs the crates `hmac` 0.13, `sha2` 0.11 and `subtle` 2.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// By how much the time of a delivery may differ from ours.
pub const TOLERANCE: Duration = Duration::from_secs(300);

/// Why a delivery is not to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotVerified {
    /// The secret is empty: anybody can sign with that.
    NoSecret,
    /// The header does not hold one `t=` and at least one `v1=`.
    Malformed,
    /// The delivery is too old, or one of the clocks is wrong.
    Time,
    /// No signature is by this secret, of this body.
    Signature,
}

impl std::fmt::Display for NotVerified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoSecret => "the signing secret is empty",
            Self::Malformed => "the signature header needs one t= and at least one v1=",
            Self::Time => "the delivery is too old, or one of the clocks is wrong",
            Self::Signature => "no signature is by this secret, of this body",
        })
    }
}

impl std::error::Error for NotVerified {}

/// Whether `header`, the value of `X-Service-Signature`, signs `body` with `secret`.
///
/// `body` is the request's body as it came, before anything has parsed it: JSON that was parsed and written again is other
/// bytes.
///
/// # Errors
/// When it does not.
pub fn verify(secret: &str, header: &str, body: &[u8]) -> Result<(), NotVerified> {
    verify_at(secret, header, body, TOLERANCE, SystemTime::now())
}

/// [`verify`] with another tolerance, at another time.
///
/// # Errors
/// When it does not.
pub fn verify_at(
    secret: &str,
    header: &str,
    body: &[u8],
    tolerance: Duration,
    now: SystemTime,
) -> Result<(), NotVerified> {
    if secret.is_empty() {
        return Err(NotVerified::NoSecret);
    }
    let named = |name| header.split(',').filter_map(move |part| part.strip_prefix(name));
    let mut times = named("t=");
    let (Some(time), None) = (times.next(), times.next()) else { return Err(NotVerified::Malformed) };
    let is_time = (1..=12).contains(&time.len()) && time.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: u64 = time.parse().ok().filter(|_| is_time).ok_or(NotVerified::Malformed)?;
    if named("v1=").next().is_none() {
        return Err(NotVerified::Malformed);
    }
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if now.abs_diff(seconds) > tolerance.as_secs() {
        return Err(NotVerified::Time);
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{time}.").as_bytes());
    mac.update(body);
    let expected: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    // There are two while a secret is being rotated.
    let is_right = |signature: &str| bool::from(signature.as_bytes().ct_eq(expected.as_bytes()));
    if named("v1=").any(is_right) { Ok(()) } else { Err(NotVerified::Signature) }
}
