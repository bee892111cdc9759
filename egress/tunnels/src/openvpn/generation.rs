//! One generation of keys: a TLS session over control packets. Each renewal replaces the generation, by default after
//! an hour.

use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::keys::{self, DataKeys, Source};
use super::packets::{Body, Opcode, PacketHeader, SessionId, asks_for_key};
use super::reliable::{DuePacket, Reliable};
use super::wrapping::Wrapper;
use super::{Failure, Offer};

/// TLS bytes in one packet.
const CHUNK: usize = 1100;
/// TLS bytes in a packet that also carries a long key.
const MIN_CHUNK: usize = 16;
/// Buffered bytes from the server.
const MAX_BUFFERED: usize = 128 << 10;
/// Four zeros, and 2 for the key method.
const METHOD: [u8; 5] = [0, 0, 0, 0, 2];

pub(super) struct Peer {
    pub(super) wrapper: Wrapper,
    pub(super) ours: SessionId,
    /// `None` before the server has answered.
    pub(super) theirs: Option<SessionId>,
    pub(super) offer: Offer,
    /// The server requests the client key again, in the packet after the reset.
    resends_key: bool,
}

impl Peer {
    pub(super) fn new(wrapper: Wrapper, offer: Offer) -> Self {
        Self { wrapper, ours: rand::random(), theirs: None, offer, resends_key: false }
    }

    fn pack(&mut self, opcode: Opcode, key: u8, reliable: &mut Reliable, message: Option<(u32, &[u8])>) -> Vec<u8> {
        let confirmed = if self.theirs.is_some() { reliable.confirmations() } else { Vec::new() };
        let body = Body::write(&confirmed, self.theirs, message);
        self.wrapper.wrap(&PacketHeader { opcode, key, session: self.ours }, &body)
    }
}

pub(super) struct Generation {
    pub(super) key: u8,
    pub(super) began: Instant,
    reliable: Reliable,
    tls: ClientConnection,
    ours: Source,
    has_said: bool,
    theirs: Option<Zeroizing<[[u8; 32]; 2]>>,
    received_text: Zeroizing<Vec<u8>>,
}

impl Generation {
    pub(super) fn new(peer: &Peer, key: u8) -> Result<Self, Failure> {
        let name = ServerName::try_from("openvpn").map_err(|_| Failure::Protocol("TLS cannot begin"))?;
        let tls = ClientConnection::new(Arc::clone(&peer.offer.tls), name)
            .map_err(|_| Failure::Protocol("TLS cannot begin"))?;
        let opcode = if key == 0 { peer.wrapper.reset() } else { Opcode::SoftReset };
        Ok(Self {
            key,
            began: Instant::now(),
            reliable: Reliable::beginning_with(opcode),
            tls,
            ours: Source::new(),
            has_said: false,
            theirs: None,
            received_text: Zeroizing::default(),
        })
    }

    pub(super) fn is_agreed(&self) -> bool {
        self.theirs.is_some()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.reliable.next_due()
    }

    pub(super) fn keys(&self, peer: &Peer, exports: bool) -> Result<DataKeys, Failure> {
        if exports {
            return keys::exported(&self.tls).map_err(|_| Failure::Protocol("TLS exports no keys"));
        }
        match (&self.theirs, &peer.theirs) {
            (Some(theirs), Some(session)) => Ok(keys::derived(&self.ours, theirs, [&peer.ours, session])),
            _ => Err(Failure::Protocol("keys are not agreed")),
        }
    }

    pub(super) fn send_control_message(&mut self, words: &str) -> Result<(), Failure> {
        self.write(&[words.as_bytes(), b"\0"].concat())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.tls.writer().write_all(bytes).map_err(|_| Failure::Protocol("TLS accepts no data"))
    }

    pub(super) fn drive(&mut self, peer: &mut Peer, now: Instant, out: &mut Vec<Vec<u8>>) -> Result<(), Failure> {
        if self.reliable.has_begun() {
            if !self.tls.is_handshaking() && !self.has_said {
                self.has_said = true;
                let hello = self.hello(&peer.offer);
                self.write(&hello)?;
            }
            self.queue_tls(peer)?;
        }
        while let Some(DuePacket { opcode, number, bytes }) = self.reliable.due(now) {
            out.push(peer.pack(opcode, self.key, &mut self.reliable, Some((number, &bytes))));
        }
        while peer.theirs.is_some() && !self.reliable.to_confirm.is_empty() {
            out.push(peer.pack(Opcode::Confirm, self.key, &mut self.reliable, None));
        }
        Ok(())
    }

    fn queue_tls(&mut self, peer: &Peer) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut bytes).map_err(|_| Failure::Protocol("TLS produces no data"))?;
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let with_key = peer.resends_key && self.key == 0 && self.reliable.next_number() == 1;
            let opcode = if with_key { Opcode::ControlWithKey } else { Opcode::Control };
            let max = CHUNK.saturating_sub(peer.wrapper.trailer(opcode)).max(MIN_CHUNK);
            let (now, later) = rest.split_at(max.min(rest.len()));
            self.reliable.queue(opcode, now.to_vec());
            rest = later;
        }
        Ok(())
    }

    fn hello(&self, offer: &Offer) -> Zeroizing<Vec<u8>> {
        let mut hello = Zeroizing::new(Vec::with_capacity(2048));
        hello.extend(METHOD);
        hello.extend(*self.ours.secret);
        hello.extend(self.ours.randoms.as_flattened());
        let (username, password) = match &offer.credentials {
            Some(credentials) => (Some(credentials.username.as_str()), Some(credentials.password.as_str())),
            None => (None, None),
        };
        for text in [Some(offer.options.as_str()), username, password, Some(offer.abilities.as_str())] {
            match text {
                Some(text) => {
                    let length = u16::try_from(text.len() + 1).unwrap_or(u16::MAX);
                    hello.extend(length.to_be_bytes());
                    hello.extend(text.as_bytes());
                    hello.push(0);
                }
                None => hello.extend([0, 0]),
            }
        }
        hello
    }

    /// The packet's wrapping is authentic.
    pub(super) fn receive(&mut self, peer: &mut Peer, head: &PacketHeader, body: Body) -> Result<(), Failure> {
        // Ignores packets that confirm another client's packets, and a server's reset that does not confirm this client's
        // request.
        if body.confirmed_session.is_some_and(|session| session != peer.ours) {
            return Ok(());
        }
        match peer.theirs {
            Some(known) if known == head.session => {}
            None if head.opcode == Opcode::HardResetServer && body.confirmed.contains(&0) => {
                peer.theirs = Some(head.session);
            }
            _ => return Ok(()),
        }
        body.confirmed.iter().for_each(|number| self.reliable.confirmed(*number));
        if let Some((number, bytes)) = body.message {
            // A reset is the first packet of a conversation, or a repetition of it.
            let is_reset = matches!(head.opcode, Opcode::HardResetServer | Opcode::SoftReset);
            if !is_reset || number == 0 {
                self.reliable.on_packet(number, bytes);
            }
        }
        while let Some((number, bytes)) = self.reliable.take() {
            if number == 0 {
                peer.resends_key |= asks_for_key(&bytes);
            } else {
                self.take_tls(&bytes)?;
            }
        }
        self.take_hello();
        Ok(())
    }

    fn take_tls(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            self.tls.read_tls(&mut bytes).map_err(|_| Failure::Protocol("TLS sends too much data"))?;
            self.tls.process_new_packets().map_err(|error| {
                tracing::debug!(%error, "TLS error in an OpenVPN tunnel");
                match error {
                    rustls::Error::AlertReceived(_) => Failure::Refused,
                    rustls::Error::InvalidCertificate(_) => {
                        Failure::Protocol("the profile does not trust its certificate")
                    }
                    _ => Failure::Protocol("it does not use TLS as the profile requires"),
                }
            })?;
            self.take_plain()?;
        }
        Ok(())
    }

    fn take_plain(&mut self) -> Result<(), Failure> {
        let mut buffer = Zeroizing::new([0; 4096]);
        loop {
            match self.tls.reader().read(&mut buffer[..]) {
                Ok(0) => return Err(Failure::Ended),
                Ok(length) => self.received_text.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Failure::Protocol("TLS ends without a close notification")),
            }
            if self.received_text.len() > MAX_BUFFERED {
                return Err(Failure::Protocol("it sends more than the client accepts"));
            }
        }
    }

    /// The server's options are ignored.
    fn take_hello(&mut self) {
        const RANDOMS: usize = METHOD.len();
        const OPTIONS: usize = RANDOMS + 64;
        if self.theirs.is_some() {
            return;
        }
        let Some(length) = self.received_text.get(OPTIONS..OPTIONS + 2) else { return };
        let end = OPTIONS + 2 + usize::from(u16::from_be_bytes([length[0], length[1]]));
        if self.received_text.len() < end {
            return;
        }
        let mut theirs = Zeroizing::new([[0; 32]; 2]);
        theirs.as_flattened_mut().copy_from_slice(&self.received_text[RANDOMS..OPTIONS]);
        self.theirs = Some(theirs);
        self.received_text.drain(..end);
    }

    /// Since the keys were agreed.
    pub(super) fn take_messages(&mut self) -> Vec<Zeroizing<String>> {
        let end = self.received_text.iter().rposition(|byte| *byte == 0).filter(|_| self.is_agreed());
        let Some(end) = end else { return Vec::new() };
        let whole = Zeroizing::new(self.received_text.drain(..=end).collect::<Vec<u8>>());
        // Depending on their version, servers end their key material with more or fewer empty strings.
        let messages = whole.split(|byte| *byte == 0).filter(|message| !message.is_empty());
        messages.map(|message| Zeroizing::new(String::from_utf8_lossy(message).trim().to_owned())).collect()
    }

    /// A live server confirms every packet, even a repeated one.
    pub(super) fn ask(&mut self, peer: &mut Peer) -> Vec<u8> {
        peer.pack(Opcode::Control, self.key, &mut self.reliable, Some((0, &[])))
    }
}
