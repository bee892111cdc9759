//! Protection of control packets: none, a tag (`tls-auth`), or a tag and encryption (`tls-crypt`, `tls-crypt-v2`). Protected
//! packets have numbers against replay.

use std::time::{SystemTime, UNIX_EPOCH};

use aes::Aes256;
use aes::cipher::{KeyIvInit as _, StreamCipher as _};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::packets::{HEAD, Opcode, PacketHeader};
use super::replay::Window;

/// For each direction, 64 bytes for a cipher and 64 bytes for a tag.
pub(super) type StaticKey = [u8; 256];

/// A packet number and a time.
const STAMP: usize = 8;
const CRYPT_TAG: usize = 32;
/// Initial packet number of a client that can resend its wrapped key in the packet after the reset.
const EARLY_NEGOTIATION: u32 = 0x0f00_0000;

#[derive(Clone)]
pub(super) enum Guard {
    None,
    Auth { digest: Digest, key: Zeroizing<StaticKey>, direction: Direction },
    Crypt { key: Zeroizing<StaticKey> },
    CryptV2 { key: Zeroizing<StaticKey>, wrapped: Vec<u8> },
}

/// Assignment of the halves of a static key to the directions. `Normal` is the server's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Both,
    Normal,
    Inverse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Digest {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Digest {
    pub(super) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        match name.strip_prefix("RSA-").unwrap_or(&name) {
            "SHA1" => Some(Self::Sha1),
            "SHA256" => Some(Self::Sha256),
            "SHA384" => Some(Self::Sha384),
            "SHA512" => Some(Self::Sha512),
            _ => None,
        }
    }

    fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    fn tag(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Sha1 => tag::<Hmac<Sha1>>(key, parts),
            Self::Sha256 => tag::<Hmac<Sha256>>(key, parts),
            Self::Sha384 => tag::<Hmac<Sha384>>(key, parts),
            Self::Sha512 => tag::<Hmac<Sha512>>(key, parts),
        }
    }
}

pub(super) fn tag<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("a key of any length makes a tag");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

pub(super) struct Wrapper {
    guard: Guard,
    number: u32,
    time: u32,
    seen: (u32, Window),
}

impl Wrapper {
    pub(super) fn new(guard: Guard) -> Self {
        let number = if matches!(guard, Guard::CryptV2 { .. }) { EARLY_NEGOTIATION } else { 0 };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        // OpenVPN uses a 32-bit time, which lasts until 2106.
        Self { guard, number, time: u32::try_from(now).unwrap_or(u32::MAX), seen: (0, Window::default()) }
    }

    /// Appended to packets with this opcode, which reduces the space for their content.
    pub(super) fn trailer(&self, opcode: Opcode) -> usize {
        match &self.guard {
            Guard::CryptV2 { wrapped, .. } if opcode.carries_key() => wrapped.len(),
            _ => 0,
        }
    }

    /// Depends on the protection.
    pub(super) fn reset(&self) -> Opcode {
        if matches!(self.guard, Guard::CryptV2 { .. }) { Opcode::HardResetClientV3 } else { Opcode::HardResetClient }
    }

    pub(super) fn wrap(&mut self, head: &PacketHeader, body: &[u8]) -> Vec<u8> {
        self.number = self.number.wrapping_add(1);
        let head_bytes = head.bytes();
        let stamp = [self.number.to_be_bytes(), self.time.to_be_bytes()].concat();
        match &self.guard {
            Guard::None => [&head_bytes[..], body].concat(),
            Guard::Auth { digest, key, direction } => {
                let tag = digest.tag(auth_key(key, *direction, true, *digest), &[&stamp, &head_bytes, body]);
                [&head_bytes[..], &tag, &stamp, body].concat()
            }
            Guard::Crypt { key } => crypt(key, &head_bytes, &stamp, body),
            Guard::CryptV2 { key, wrapped } => {
                let mut packet = crypt(key, &head_bytes, &stamp, body);
                if head.opcode.carries_key() {
                    packet.extend_from_slice(wrapped);
                }
                packet
            }
        }
    }

    /// `None` if the packet is not authentic or not new.
    pub(super) fn unwrap(&mut self, packet: &[u8]) -> Option<(PacketHeader, Vec<u8>)> {
        let (head_bytes, rest) = packet.split_first_chunk::<HEAD>()?;
        let head = PacketHeader::read(head_bytes)?;
        let (stamp, body) = match &self.guard {
            Guard::None => return Some((head, rest.to_vec())),
            Guard::Auth { digest, key, direction } => {
                let (tag, rest) = rest.split_at_checked(digest.length())?;
                let (stamp, body) = rest.split_first_chunk::<STAMP>()?;
                let expected = digest.tag(auth_key(key, *direction, false, *digest), &[stamp, head_bytes, body]);
                if !bool::from(expected.ct_eq(tag)) {
                    return None;
                }
                (stamp, body.to_vec())
            }
            Guard::Crypt { key } | Guard::CryptV2 { key, .. } => {
                let (stamp, rest) = rest.split_first_chunk::<STAMP>()?;
                let (tag, sealed) = rest.split_first_chunk::<CRYPT_TAG>()?;
                let mut body = sealed.to_vec();
                apply(&key[..32], tag, &mut body);
                if !bool::from(Digest::Sha256.tag(&key[64..96], &[head_bytes, stamp, &body]).ct_eq(tag)) {
                    return None;
                }
                (stamp, body)
            }
        };
        self.is_new(*stamp).then_some((head, body))
    }

    /// Packet numbers restart when the time increases, and the time never decreases.
    fn is_new(&mut self, stamp: [u8; STAMP]) -> bool {
        let both = u64::from_be_bytes(stamp);
        let [number, time] = [both >> 32, both & 0xffff_ffff].map(|half| u32::try_from(half).unwrap_or(u32::MAX));
        if time < self.seen.0 {
            return false;
        }
        if time > self.seen.0 {
            self.seen = (time, Window::default());
        }
        self.seen.1.take(number)
    }
}

/// Part of a static key that computes tags in one direction.
fn auth_key(key: &StaticKey, direction: Direction, ours: bool, digest: Digest) -> &[u8] {
    let at = match (direction, ours) {
        (Direction::Both, _) | (Direction::Normal, true) | (Direction::Inverse, false) => 64,
        (Direction::Normal, false) | (Direction::Inverse, true) => 192,
    };
    &key[at..at + digest.length()]
}

fn crypt(key: &StaticKey, head: &[u8], stamp: &[u8], body: &[u8]) -> Vec<u8> {
    let tag = Digest::Sha256.tag(&key[192..224], &[head, stamp, body]);
    let mut sealed = body.to_vec();
    apply(&key[128..160], &tag, &mut sealed);
    [head, stamp, &tag, &sealed].concat()
}

/// The first half of the tag is the initial counter of the cipher.
fn apply(key: &[u8], tag: &[u8], body: &mut [u8]) {
    let mut cipher = ctr::Ctr128BE::<Aes256>::new_from_slices(key, &tag[..16]).expect("32 and 16 bytes");
    cipher.apply_keystream(body);
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::super::packets::{Opcode, PacketHeader};
    use super::{Digest, Direction, Guard, Wrapper};

    fn key() -> Zeroizing<[u8; 256]> {
        Zeroizing::new(std::array::from_fn(|at| u8::try_from(at).expect("below 256")))
    }

    /// Returns the protection of a server with the same key.
    fn mirrored(guard: &Guard) -> Guard {
        let swapped = |key: &[u8; 256]| {
            let mut swapped = Zeroizing::new([0; 256]);
            swapped[..128].copy_from_slice(&key[128..]);
            swapped[128..].copy_from_slice(&key[..128]);
            swapped
        };
        match guard {
            Guard::None => Guard::None,
            Guard::Auth { digest, key, direction } => Guard::Auth {
                digest: *digest,
                key: key.clone(),
                direction: match direction {
                    Direction::Both => Direction::Both,
                    Direction::Normal => Direction::Inverse,
                    Direction::Inverse => Direction::Normal,
                },
            },
            Guard::Crypt { key } | Guard::CryptV2 { key, .. } => Guard::Crypt { key: swapped(key) },
        }
    }

    fn guards() -> Vec<Guard> {
        let mut guards = vec![Guard::Crypt { key: key() }];
        for digest in [Digest::Sha1, Digest::Sha256, Digest::Sha384, Digest::Sha512] {
            for direction in [Direction::Both, Direction::Normal, Direction::Inverse] {
                guards.push(Guard::Auth { digest, key: key(), direction });
            }
        }
        guards
    }

    const HEAD: PacketHeader = PacketHeader { opcode: Opcode::Control, key: 3, session: *b"session!" };

    #[test]
    fn wrapped_packet_unwraps_exactly_once_at_the_other_end() {
        for guard in guards() {
            let (mut ours, mut theirs) = (Wrapper::new(guard.clone()), Wrapper::new(mirrored(&guard)));
            let packet = ours.wrap(&HEAD, b"hello");
            assert_eq!(theirs.unwrap(&packet), Some((HEAD, b"hello".to_vec())));
            assert_eq!(theirs.unwrap(&packet), None, "a second time");
            let (first, second) = (ours.wrap(&HEAD, b"one"), ours.wrap(&HEAD, b"two"));
            assert!(theirs.unwrap(&second).is_some() && theirs.unwrap(&first).is_some(), "in another order");
            ours.time -= 1;
            let packet = ours.wrap(&HEAD, b"old");
            assert_eq!(theirs.unwrap(&packet), None, "an earlier time");
        }
    }

    #[test]
    fn modified_packets_are_rejected() {
        for guard in guards() {
            let packet = Wrapper::new(guard.clone()).wrap(&HEAD, b"hello");
            for at in 0..packet.len() {
                let mut changed = packet.clone();
                changed[at] ^= 1;
                assert_eq!(Wrapper::new(mirrored(&guard)).unwrap(&changed), None, "byte {at}");
                assert_eq!(Wrapper::new(mirrored(&guard)).unwrap(&packet[..at]), None, "cut at {at}");
            }
        }
    }

    #[test]
    fn wrapped_key_is_appended_to_packets_that_carry_it() {
        let mut wrapper = Wrapper::new(Guard::CryptV2 { key: key(), wrapped: b"wrapped".to_vec() });
        for (opcode, carries) in
            [(Opcode::HardResetClientV3, true), (Opcode::ControlWithKey, true), (Opcode::Control, false)]
        {
            let packet = wrapper.wrap(&PacketHeader { opcode, ..HEAD }, b"hello");
            assert_eq!(packet.ends_with(b"wrapped"), carries, "{opcode:?}");
            assert_eq!(packet[9], 0x0f, "early negotiation");
        }
    }

    /// Test vectors: RFC 4231, case 2, and NIST SP 800-38A, F.5.5.
    #[test]
    fn tag_and_cipher_match_the_test_vectors() {
        let tag = Digest::Sha256.tag(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        assert_eq!(hex::encode(tag), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let key = hex::decode("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4").expect("hex");
        let counter = hex::decode("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff").expect("hex");
        let mut text = hex::decode("6bc1bee22e409f96e93d7e117393172a").expect("hex");
        super::apply(&key, &counter, &mut text);
        assert_eq!(hex::encode(text), "601ec313775789a5b7a7f504bbf3d228");
    }
}
