//! The data channel: numbered packets of the tunnel, sealed with an AEAD cipher.

use ring::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::keys::DataKeys;
use super::packets::Opcode;
use super::replay::Window;

/// Well below the limits of AES-GCM.
pub(super) const MAX_BYTES: u64 = 1 << 38;
/// Well before the packet numbers run out.
pub(super) const MAX_PACKETS: u64 = 1 << 31;

const TAG: usize = 16;
const NUMBER: usize = 4;
/// Packets do not contain it.
const IMPLICIT: usize = NONCE_LEN - NUMBER;

/// All are AEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cipher {
    Aes256Gcm,
    Aes128Gcm,
    Chacha20Poly1305,
}

impl Cipher {
    /// All ciphers, in order of preference.
    pub(super) const ALL: [Self; 3] = [Self::Aes256Gcm, Self::Aes128Gcm, Self::Chacha20Poly1305];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.name().eq_ignore_ascii_case(name))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "AES-256-GCM",
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Chacha20Poly1305 => "CHACHA20-POLY1305",
        }
    }

    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::Chacha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

/// All key generations of a tunnel share it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    pub(super) cipher: Cipher,
    /// Old servers assign none.
    pub(super) peer: Option<u32>,
}

pub(super) struct DataChannel {
    pub(super) key: u8,
    peer: Option<u32>,
    sealing: (LessSafeKey, [u8; IMPLICIT]),
    opening: (LessSafeKey, [u8; IMPLICIT]),
    sent: u32,
    came: Window,
    /// Counts packets of both directions.
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl DataChannel {
    pub(super) fn new(key: u8, keys: &DataKeys, format: Format) -> Self {
        let (ours, theirs) = keys.split_at(128);
        Self {
            key,
            peer: format.peer,
            sealing: half(ours, format.cipher),
            opening: half(theirs, format.cipher),
            sent: 0,
            came: Window::default(),
            packets: 0,
            bytes: 0,
        }
    }

    /// `None` when the packet numbers have run out; the key must not be used after that.
    pub(super) fn seal(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Option<()> {
        self.sent = self.sent.checked_add(1)?;
        let number = self.sent.to_be_bytes();
        out.clear();
        match self.peer {
            Some(peer) => {
                out.push(Opcode::DataV2.with_key(self.key));
                out.extend_from_slice(&peer.to_be_bytes()[1..]);
            }
            None => out.push(Opcode::DataV1.with_key(self.key)),
        }
        // The tag covers the number, and in packets with a peer id also the bytes before it.
        let authenticated = if self.peer.is_some() { 0 } else { out.len() };
        out.extend_from_slice(&number);
        let begin = out.len();
        out.extend_from_slice(&[0; TAG]);
        out.extend_from_slice(packet);
        let (head, body) = out.split_at_mut(begin + TAG);
        let (key, implicit) = &self.sealing;
        let tag = key
            .seal_in_place_separate_tag(nonce(number, *implicit), Aad::from(&head[authenticated..begin]), body)
            .ok()?;
        head[begin..].copy_from_slice(tag.as_ref());
        self.count(packet.len());
        Some(())
    }

    /// `None` if the packet is not authentic or not new.
    pub(super) fn open(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (opcode, _) = Opcode::read(*packet.first()?)?;
        let begin = match opcode {
            Opcode::DataV2 => 4,
            Opcode::DataV1 => 1,
            _ => return None,
        };
        let number = *packet.get(begin..)?.first_chunk::<NUMBER>()?;
        let (head, sealed) = packet.split_at_checked(begin + NUMBER)?;
        let (tag, sealed) = sealed.split_at_checked(TAG)?;
        let authenticated = if opcode == Opcode::DataV2 { head } else { &number };
        let mut body = Vec::with_capacity(sealed.len() + TAG);
        body.extend_from_slice(sealed);
        body.extend_from_slice(tag);
        let (key, implicit) = &self.opening;
        let length = key.open_in_place(nonce(number, *implicit), Aad::from(authenticated), &mut body).ok()?.len();
        if !self.came.take(u32::from_be_bytes(number)) {
            return None;
        }
        body.truncate(length);
        self.count(length);
        Some(body)
    }

    fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

fn half(keys: &[u8], cipher: Cipher) -> (LessSafeKey, [u8; IMPLICIT]) {
    let algorithm = cipher.algorithm();
    let key = UnboundKey::new(algorithm, &keys[..algorithm.key_len()]).expect("a key as long as its cipher asks");
    (LessSafeKey::new(key), keys[64..64 + IMPLICIT].try_into().expect("eight bytes"))
}

fn nonce(number: [u8; NUMBER], implicit: [u8; IMPLICIT]) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..NUMBER].copy_from_slice(&number);
    bytes[NUMBER..].copy_from_slice(&implicit);
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use ring::aead::Aad;
    use zeroize::Zeroizing;

    use super::{Cipher, DataChannel, Format, nonce};

    fn ends(cipher: Cipher, peer: Option<u32>) -> (DataChannel, DataChannel) {
        let ours = Zeroizing::new(std::array::from_fn(|at| u8::try_from(at).expect("below 256")));
        let mut theirs = ours.clone();
        theirs.rotate_left(128);
        let format = Format { cipher, peer };
        (DataChannel::new(2, &ours, format), DataChannel::new(2, &theirs, format))
    }

    #[test]
    fn sealed_packet_opens_exactly_once_at_the_other_end() {
        for cipher in Cipher::ALL {
            for peer in [None, Some(0x0001_0203)] {
                let (mut ours, mut theirs) = ends(cipher, peer);
                let mut sealed = Vec::new();
                ours.seal(b"a packet", &mut sealed).expect("numbers are left");
                assert_eq!(sealed[0], if peer.is_some() { 9 << 3 | 2 } else { 6 << 3 | 2 });
                assert_eq!(theirs.open(&sealed).as_deref(), Some(&b"a packet"[..]));
                assert_eq!(theirs.open(&sealed), None, "a second time");
                for at in 0..sealed.len() {
                    let (mut ours, mut theirs) = ends(cipher, peer);
                    ours.seal(b"a packet", &mut sealed).expect("numbers are left");
                    assert_eq!(theirs.open(&sealed[..at]), None, "cut at {at}");
                    // The first byte holds the opcode and the key id, which selects the keys.
                    sealed[at] ^= if at == 0 { 0b1111_1000 } else { 1 };
                    assert_eq!(theirs.open(&sealed), None, "byte {at}");
                }
            }
        }
    }

    #[test]
    fn seal_fails_when_packet_numbers_run_out() {
        let (mut ours, _) = ends(Cipher::Aes128Gcm, None);
        ours.sent = u32::MAX - 1;
        let mut sealed = Vec::new();
        assert!(ours.seal(b"last", &mut sealed).is_some());
        assert!(ours.seal(b"too many", &mut sealed).is_none());
    }

    /// Checks the layout of one packet with a direct call of the cipher.
    #[test]
    fn packet_layout_and_authenticated_header_match_openvpn() {
        let (mut ours, _) = ends(Cipher::Aes256Gcm, Some(7));
        let mut sealed = Vec::new();
        ours.seal(b"text", &mut sealed).expect("numbers are left");
        assert_eq!(sealed[..8], [9 << 3 | 2, 0, 0, 7, 0, 0, 0, 1]);
        let mut body = b"text".to_vec();
        let implicit = [64, 65, 66, 67, 68, 69, 70, 71];
        let (key, _) =
            super::half(&std::array::from_fn::<u8, 128, _>(|at| u8::try_from(at).expect("small")), Cipher::Aes256Gcm);
        let tag = key
            .seal_in_place_separate_tag(nonce([0, 0, 0, 1], implicit), Aad::from(&sealed[..8]), &mut body)
            .expect("sealed");
        assert_eq!(&sealed[8..24], tag.as_ref());
        assert_eq!(&sealed[24..], body);
    }
}
