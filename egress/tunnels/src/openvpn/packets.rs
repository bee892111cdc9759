//! Formats of OpenVPN packets.

/// The opcode with the key id, and the session id.
pub(super) const HEAD: usize = 9;
pub(super) type SessionId = [u8; 8];
/// Some servers drop packets with more.
pub(super) const CONFIRMED: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Opcode {
    SoftReset = 3,
    Control = 4,
    Confirm = 5,
    DataV1 = 6,
    HardResetClient = 7,
    HardResetServer = 8,
    DataV2 = 9,
    HardResetClientV3 = 10,
    ControlWithKey = 11,
}

impl Opcode {
    /// Reads the opcode and the key id from the first byte of a packet.
    pub(super) fn read(byte: u8) -> Option<(Self, u8)> {
        let opcode = match byte >> 3 {
            3 => Self::SoftReset,
            4 => Self::Control,
            5 => Self::Confirm,
            6 => Self::DataV1,
            7 => Self::HardResetClient,
            8 => Self::HardResetServer,
            9 => Self::DataV2,
            10 => Self::HardResetClientV3,
            11 => Self::ControlWithKey,
            _ => return None,
        };
        Some((opcode, byte & 7))
    }

    pub(super) fn with_key(self, key: u8) -> u8 {
        (self as u8) << 3 | key & 7
    }

    /// True for packets that end with the client's wrapped key, which only the server can read.
    pub(super) fn carries_key(self) -> bool {
        matches!(self, Self::HardResetClientV3 | Self::ControlWithKey)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PacketHeader {
    pub(super) opcode: Opcode,
    pub(super) key: u8,
    pub(super) session: SessionId,
}

impl PacketHeader {
    pub(super) fn bytes(&self) -> [u8; HEAD] {
        let mut bytes = [self.opcode.with_key(self.key); HEAD];
        bytes[1..].copy_from_slice(&self.session);
        bytes
    }

    pub(super) fn read(bytes: &[u8; HEAD]) -> Option<Self> {
        let (&first, session) = bytes.split_first_chunk::<1>().map(|([first], rest)| (first, rest))?;
        let (opcode, key) = Opcode::read(first)?;
        Some(Self { opcode, key, session: session.try_into().ok()? })
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    /// Numbers of packets that the other end has received.
    pub(super) confirmed: Vec<u32>,
    /// Present if there are confirmations.
    pub(super) confirmed_session: Option<SessionId>,
    /// Number and bytes; `None` if the packet only confirms.
    pub(super) message: Option<(u32, Vec<u8>)>,
}

impl Body {
    pub(super) fn read(opcode: Opcode, bytes: &[u8]) -> Option<Self> {
        let (&count, mut rest) = bytes.split_first()?;
        let mut body = Self::default();
        for _ in 0..count {
            let (number, after) = rest.split_first_chunk()?;
            body.confirmed.push(u32::from_be_bytes(*number));
            rest = after;
        }
        if count > 0 {
            let (session, after) = rest.split_first_chunk()?;
            body.confirmed_session = Some(*session);
            rest = after;
        }
        if opcode != Opcode::Confirm {
            let (number, message) = rest.split_first_chunk()?;
            body.message = Some((u32::from_be_bytes(*number), message.to_vec()));
        }
        Some(body)
    }

    pub(super) fn write(confirmed: &[u32], session: Option<SessionId>, message: Option<(u32, &[u8])>) -> Vec<u8> {
        let confirmed = if session.is_some() { confirmed } else { &[] };
        let mut bytes = vec![u8::try_from(confirmed.len()).unwrap_or(0)];
        for number in confirmed {
            bytes.extend(number.to_be_bytes());
        }
        if let (Some(session), [_, ..]) = (session, confirmed) {
            bytes.extend(session);
        }
        if let Some((number, message)) = message {
            bytes.extend(number.to_be_bytes());
            bytes.extend(message);
        }
        bytes
    }
}

/// Options after a server's reset.
pub(super) fn asks_for_key(mut options: &[u8]) -> bool {
    const FLAGS: u16 = 1;
    const RESEND: u16 = 1;
    while let Some(([a, b, c, d], rest)) = options.split_first_chunk() {
        let Some((value, after)) = rest.split_at_checked(usize::from(u16::from_be_bytes([*c, *d]))) else {
            return false;
        };
        if u16::from_be_bytes([*a, *b]) == FLAGS
            && let [high, low] = value
        {
            return u16::from_be_bytes([*high, *low]) & RESEND != 0;
        }
        options = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Body, Opcode, PacketHeader, asks_for_key};

    #[test]
    fn packet_bytes_match_openvpn() {
        let head = PacketHeader { opcode: Opcode::Control, key: 1, session: *b"abcdefgh" };
        assert_eq!(head.bytes(), *b"\x21abcdefgh");
        assert_eq!(PacketHeader::read(b"\x21abcdefgh"), Some(head));
        let bytes = Body::write(&[7, 8], Some(*b"hgfedcba"), Some((2, b"tls")));
        assert_eq!(bytes, b"\x02\0\0\0\x07\0\0\0\x08hgfedcba\0\0\0\x02tls");
        assert_eq!(
            Body::read(Opcode::Control, &bytes),
            Some(Body {
                confirmed: vec![7, 8],
                confirmed_session: Some(*b"hgfedcba"),
                message: Some((2, b"tls".to_vec()))
            })
        );
        assert_eq!(Body::write(&[1], None, Some((0, b""))), b"\0\0\0\0\0", "no session to confirm");
        for cut in 0..bytes.len() - 3 {
            assert_eq!(Body::read(Opcode::Control, &bytes[..cut]), None);
        }
    }

    #[test]
    fn reset_options_can_request_the_key_again() {
        assert!(asks_for_key(b"\0\x01\0\x02\0\x01"));
        assert!(asks_for_key(b"\0\x09\0\x01x\0\x01\0\x02\0\x01"));
        for not in [&b""[..], b"\0\x01\0\x02\0\0", b"\0\x01\0\x02\0", b"\0\x02\0\x02\0\x01", b"\0\x01\xff\xff\0\x01"] {
            assert!(!asks_for_key(not), "{not:?}");
        }
    }

    proptest! {
        #[test]
        fn readers_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for opcode in [Opcode::Control, Opcode::Confirm] { let _ = Body::read(opcode, &bytes); }
            let _ = asks_for_key(&bytes);
            if let Some((head, _)) = bytes.split_first_chunk() { let _ = PacketHeader::read(head); }
        }
    }
}
