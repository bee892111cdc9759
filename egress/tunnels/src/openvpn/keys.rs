//! Keys of a data channel, from the material that both ends agreed on in TLS.

use hmac::Hmac;
use md5::Md5;
use ring::digest;
use rustls::ClientConnection;
use sha1::Sha1;
use zeroize::Zeroizing;

use super::packets::SessionId;
use super::wrapping::tag;

/// For each direction, 64 bytes for a cipher and 64 bytes for a tag. The client's direction comes first.
pub(super) type DataKeys = Zeroizing<[u8; 256]>;

const EXPORTED: &[u8] = b"EXPORTER-OpenVPN-datakeys";

/// Key material of one end, for servers without key export from TLS.
pub(super) struct Source {
    /// Only the client has this secret.
    pub(super) secret: Zeroizing<[u8; 48]>,
    pub(super) randoms: Zeroizing<[[u8; 32]; 2]>,
}

impl Source {
    pub(super) fn new() -> Self {
        let mut source = Self { secret: Zeroizing::new([0; 48]), randoms: Zeroizing::new([[0; 32]; 2]) };
        rand::fill(&mut source.secret[..]);
        source.randoms.iter_mut().for_each(|random| rand::fill(&mut random[..]));
        source
    }
}

pub(super) fn exported(tls: &ClientConnection) -> Result<DataKeys, rustls::Error> {
    let mut keys = Zeroizing::new([0; 256]);
    tls.export_keying_material(&mut keys[..], EXPORTED, None)?;
    Ok(keys)
}

/// Derives keys as servers before 2.6 do.
pub(super) fn derived(ours: &Source, theirs: &[[u8; 32]; 2], sessions: [&SessionId; 2]) -> DataKeys {
    let mut master = Zeroizing::new([0; 48]);
    expand(&ours.secret[..], &[b"OpenVPN master secret", &ours.randoms[0], &theirs[0]], &mut master[..]);
    let mut keys = Zeroizing::new([0; 256]);
    let seeds: [&[u8]; 5] = [b"OpenVPN key expansion", &ours.randoms[1], &theirs[1], sessions[0], sessions[1]];
    expand(&master[..], &seeds, &mut keys[..]);
    keys
}

/// TLS 1.0 (RFC 2246, section 5).
fn expand(secret: &[u8], seeds: &[&[u8]], out: &mut [u8]) {
    let half = secret.len().div_ceil(2);
    let (first, second) = (&secret[..half], &secret[secret.len() - half..]);
    let seed = Zeroizing::new(seeds.concat());
    out.fill(0);
    mix(&seed, out, |parts| tag::<Hmac<Md5>>(first, parts));
    mix(&seed, out, |parts| tag::<Hmac<Sha1>>(second, parts));
}

fn mix(seed: &[u8], out: &mut [u8], tag: impl Fn(&[&[u8]]) -> Vec<u8>) {
    let mut step = Zeroizing::new(tag(&[seed]));
    let mut left = out;
    while !left.is_empty() {
        let block = Zeroizing::new(tag(&[&step, seed]));
        let (now, later) = left.split_at_mut(block.len().min(left.len()));
        now.iter_mut().zip(block.iter()).for_each(|(byte, other)| *byte ^= other);
        left = later;
        step = Zeroizing::new(tag(&[&step]));
    }
}

/// SHA-256. A profile may use it to identify its server.
pub(super) fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    fingerprint
}

#[cfg(test)]
mod tests {
    use super::expand;

    /// Test vector published on the IETF TLS mailing list for TLS 1.0, which libraries commonly use.
    #[test]
    fn expand_matches_the_tls_1_0_test_vector() {
        let seed = [0xcd; 64];
        let mut out = [0; 104];
        expand(&[0xab; 48], &[b"PRF Testvector", &seed], &mut out);
        let expected = "d3d4d1e349b5d515044666d51de32bab258cb521b6b053463e354832fd976754443bcf9a296519bc289abcbc1187e4ebd31e602353776c408aafb74cbc85eff69255f9788faa184cbb957a9819d84a5d7eb006eb459d3ae8de9810454b8b2d8f1afbc655a8c9a013";
        assert_eq!(hex::encode(out), expected);
    }
}
