//! Each test chooses the server's messages.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use zeroize::Zeroizing;

use super::super::data::{Cipher, DataChannel, Format};
use super::super::generation::Peer;
use super::super::keys::{Source, derived, fingerprint};
use super::super::packets::{Body, Opcode, PacketHeader, SessionId};
use super::super::profile::{Profile, Renewal};
use super::super::reliable::Reliable;
use super::super::wrapping::{Guard, Wrapper};
use super::super::{Failure, Offer};
use super::{Handshake, Session, Terms};
use crate::Credentials;

const FORMAT: Format = Format { cipher: Cipher::Chacha20Poly1305, peer: Some(5) };

/// Confirms everything and checks nothing.
struct Far {
    wrapper: Wrapper,
    session: SessionId,
    client: Option<SessionId>,
    settings: Arc<ServerConfig>,
    key: u8,
    reliable: Reliable,
    tls: ServerConnection,
    received: Vec<u8>,
    randoms: [[u8; 32]; 2],
}

impl Far {
    fn new() -> (Self, Handshake) {
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(Vec::new()).expect("names").self_signed(&key).expect("a certificate");
        let known = hex::encode(fingerprint(certificate.der()));
        let text =
            format!("client\ndev tun\nremote x\nauth-user-pass\n<peer-fingerprint>\n{known}\n</peer-fingerprint>\n");
        let credentials = Credentials { username: "alice".into(), password: Zeroizing::new("s3cret".into()) };
        let offer = Offer::new(&Profile::parse(&text).expect("a profile"), Some(credentials));
        let entering = Handshake::new(Peer::new(Wrapper::new(Guard::None), offer)).expect("a client");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a certificate");
        let settings = Arc::new(settings);
        let far = Self {
            wrapper: Wrapper::new(Guard::None),
            session: *b"far away",
            client: None,
            tls: ServerConnection::new(Arc::clone(&settings)).expect("TLS"),
            settings,
            key: 0,
            reliable: Reliable::beginning_with(Opcode::HardResetServer),
            received: Vec::new(),
            randoms: [[7; 32], [9; 32]],
        };
        (far, entering)
    }

    fn renew(&mut self, key: u8) {
        self.key = key;
        self.reliable = Reliable::beginning_with(Opcode::SoftReset);
        self.tls = ServerConnection::new(Arc::clone(&self.settings)).expect("TLS");
        self.received.clear();
    }

    fn receive(&mut self, packet: &[u8]) {
        let (head, bytes) = self.wrapper.unwrap(packet).expect("a packet");
        if head.key != self.key || head.opcode == Opcode::DataV2 {
            return;
        }
        self.client = Some(head.session);
        let body = Body::read(head.opcode, &bytes).expect("a body");
        body.confirmed.iter().for_each(|number| self.reliable.confirmed(*number));
        if let Some((number, bytes)) = body.message {
            self.reliable.on_packet(number, bytes);
        }
        while let Some((number, bytes)) = self.reliable.take() {
            let mut bytes = if number == 0 { &[][..] } else { &bytes };
            while !bytes.is_empty() {
                self.tls.read_tls(&mut bytes).expect("TLS");
                self.tls.process_new_packets().expect("TLS");
            }
            let mut buffer = [0; 8192];
            while let Ok(length) = self.tls.reader().read(&mut buffer) {
                self.received.extend_from_slice(&buffer[..length]);
            }
        }
    }

    fn send_control_message(&mut self, bytes: &[u8]) {
        self.tls.writer().write_all(bytes).expect("TLS");
    }

    fn agree(&mut self) {
        let hello = [&[0, 0, 0, 0, 2][..], self.randoms.as_flattened(), &[0, 3, b'V', b'4', 0, 0, 0, 0, 0]].concat();
        self.send_control_message(&hello);
    }

    fn data(&self, key: u8) -> DataChannel {
        let mut ours = Source::new();
        ours.secret.copy_from_slice(&self.received[5..53]);
        ours.randoms.as_flattened_mut().copy_from_slice(&self.received[53..117]);
        let client = self.client.expect("a client");
        let mut keys = derived(&ours, &self.randoms, [&client, &self.session]);
        keys.rotate_left(128);
        DataChannel::new(key, &keys, FORMAT)
    }

    fn drive(&mut self) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut bytes).expect("TLS");
        }
        bytes.chunks(1100).for_each(|chunk| self.reliable.queue(Opcode::Control, chunk.to_vec()));
        let mut packets = Vec::new();
        while let Some(due) = self.reliable.due(tokio::time::Instant::now()) {
            packets.push(self.pack(due.opcode, Some((due.number, &due.bytes))));
        }
        while !self.reliable.to_confirm.is_empty() {
            packets.push(self.pack(Opcode::Confirm, None));
        }
        packets
    }

    fn pack(&mut self, opcode: Opcode, message: Option<(u32, &[u8])>) -> Vec<u8> {
        let body = Body::write(&self.reliable.confirmations(), self.client, message);
        self.wrapper.wrap(&PacketHeader { opcode, key: self.key, session: self.session }, &body)
    }
}

/// Carries packets between both until neither has any.
fn talk(far: &mut Far, entering: &mut Handshake) -> Result<(), Failure> {
    loop {
        let mut out = Vec::new();
        entering.drive(&mut out)?;
        for packet in &out {
            far.receive(packet);
        }
        let back = if far.client.is_some() { far.drive() } else { Vec::new() };
        back.iter().try_for_each(|packet| entering.receive(packet))?;
        if out.is_empty() && back.is_empty() {
            return Ok(());
        }
    }
}

/// Has received the server's key material and these messages.
fn after_messages(words: &[u8]) -> Result<(Far, Handshake), Failure> {
    let (mut far, mut entering) = Far::new();
    talk(&mut far, &mut entering)?;
    far.agree();
    for part in words.chunks(8 << 10) {
        far.send_control_message(part);
        talk(&mut far, &mut entering)?;
    }
    talk(&mut far, &mut entering)?;
    Ok((far, entering))
}

fn entered() -> (Far, Session) {
    let (far, mut entering) = after_messages(b"PUSH_REPLY,ifconfig 10.0.0.2 255.0.0.0\0").expect("a client");
    assert_eq!(
        entering.options().expect("options").as_deref().map(String::as_str),
        Some(",ifconfig 10.0.0.2 255.0.0.0")
    );
    let renewal = Renewal { after: None, bytes: u64::MAX, packets: u64::MAX };
    let terms = Terms { format: FORMAT, exports_keys: false, exit_by_control: true, renewal };
    (far, entering.enter(terms).expect("a session"))
}

fn carry(far: &mut Far, session: &mut Session) -> Result<(), Failure> {
    loop {
        let (mut out, mut incoming) = (Vec::new(), Vec::new());
        session.drive(&mut out)?;
        for packet in &out {
            far.receive(packet);
        }
        let back = far.drive();
        for packet in &back {
            session.receive(packet, &mut incoming)?;
        }
        if out.is_empty() && back.is_empty() {
            return Ok(());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_sends_credentials_and_capabilities() {
    let (far, _) = after_messages(b"").expect("a client");
    let text = String::from_utf8_lossy(&far.received[117..]).into_owned();
    assert!(text.contains("\0\u{6}alice\0\0\u{7}s3cret\0"), "{text:?}");
    assert!(
        text.contains("IV_CIPHERS=AES-256-GCM:AES-128-GCM:CHACHA20-POLY1305\n") && text.ends_with("IV_PROTO=142\n\0"),
        "{text:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn data_passes_both_ways_and_control_payloads_are_not_packets() {
    let (mut far, mut session) = entered();
    let mut data = far.data(0);
    let (mut sealed, mut incoming) = (Vec::new(), Vec::new());
    session.seal(b"to the server", &mut sealed).expect("sealed");
    assert_eq!(data.open(&sealed).as_deref(), Some(&b"to the server"[..]));
    for (packet, comes) in
        [(&b"to the client"[..], true), (&super::PING, false), (&[super::FOR_THE_END, [0; 16]].concat(), false)]
    {
        data.seal(packet, &mut sealed).expect("sealed");
        assert!(session.receive(&sealed, &mut incoming).expect("genuine"));
        assert_eq!(std::mem::take(&mut incoming), if comes { vec![packet.to_vec()] } else { Vec::new() });
        assert!(!session.receive(&sealed, &mut incoming).expect("nothing"), "a second time");
    }
    data.seal(&[&super::FOR_THE_END[..], &[super::EXIT]].concat(), &mut sealed).expect("sealed");
    assert!(matches!(session.receive(&sealed, &mut incoming), Err(Failure::Ended)));
    // The server answers a liveness check by confirming the repeated packet.
    assert!(!session.answers());
    let ask = session.ask();
    far.receive(&ask);
    carry(&mut far, &mut session).expect("a session");
    assert!(session.answers());
}

#[tokio::test(start_paused = true)]
async fn server_messages_are_limited_and_errors_end_the_tunnel() {
    let ends = |words: &[u8]| after_messages(words).and_then(|(_, mut entering)| entering.options().map(|_| ()));
    assert!(matches!(ends(&b"x".repeat(200 << 10)), Err(Failure::Protocol(_))), "one endless message");
    let endless = b"PUSH_REPLY,route 10.0.0.0,push-continuation 2\0".repeat(100);
    assert!(matches!(ends(&endless), Err(Failure::Protocol(_))), "one endless reply");
    let long = [&b"PUSH_REPLY,"[..], &b"x".repeat(60 << 10), b",push-continuation 2\0"].concat().repeat(2);
    assert!(matches!(ends(&long), Err(Failure::Protocol(_))), "a reply that is too long");
    assert!(matches!(ends(b"AUTH_PENDING,timeout 300\0"), Err(Failure::Protocol(_))));
    assert!(matches!(ends(b"AUTH_FAILED,CRV1:R:x\0"), Err(Failure::Refused)));
    for end in ["RESTART,[N]", "HALT", "EXIT"] {
        assert!(matches!(ends(format!("{end}\0").as_bytes()), Err(Failure::Ended)), "{end}");
    }
    // Empty and informational messages are ignored.
    for nothing in [&vec![0; 100 << 10][..], b"INFO,hello\0", b"\xff\xfe\0", b"PUSH_REPL\0"] {
        ends(nothing).expect("nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn server_can_renew_keys_once_the_latest_are_in_use() {
    let (mut far, mut session) = entered();
    let mut sealed = Vec::new();
    // Too early: the request is ignored.
    far.renew(1);
    let reset = far.drive();
    assert_eq!(session.generation.key, 0);
    session.receive(&reset[0], &mut Vec::new()).expect("a session");
    assert_eq!(session.generation.key, 0);
    for key in [1, 2, 3, 4, 5, 6, 7, 1, 2] {
        tokio::time::advance(Duration::from_secs(3)).await;
        far.renew(key);
        carry(&mut far, &mut session).expect("a session");
        far.agree();
        carry(&mut far, &mut session).expect("a session");
        // The old keys stay in use until the server uses the new ones, or until the delay has passed.
        let old = session.data.key;
        assert_ne!(old, key);
        let mut data = far.data(key);
        if key % 2 == 0 {
            data.seal(b"new", &mut sealed).expect("sealed");
            assert!(session.receive(&sealed, &mut Vec::new()).expect("genuine"));
        } else {
            tokio::time::advance(Duration::from_millis(1100)).await;
            session.drive(&mut Vec::new()).expect("a session");
        }
        session.seal(b"new", &mut sealed).expect("sealed");
        assert_eq!(data.open(&sealed).as_deref(), Some(&b"new"[..]));
    }
    // Key ids other than the next one are ignored.
    tokio::time::advance(Duration::from_secs(3)).await;
    far.renew(5);
    carry(&mut far, &mut session).expect("a session");
    assert_eq!(session.generation.key, 2);
}

#[tokio::test(start_paused = true)]
async fn key_renewal_timeout_ends_the_tunnel() {
    let (mut far, mut session) = entered();
    tokio::time::advance(Duration::from_secs(2)).await;
    far.renew(1);
    carry(&mut far, &mut session).expect("a session");
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(matches!(session.drive(&mut Vec::new()), Err(Failure::Ended)));
}

#[tokio::test(start_paused = true)]
async fn packets_of_another_conversation_are_ignored() {
    let (mut far, mut entering) = Far::new();
    let mut out = Vec::new();
    entering.drive(&mut out).expect("a reset");
    far.receive(&out[0]);
    let reset = far.drive().remove(0);
    // This reset confirms another client's request.
    let mut other = reset.clone();
    let at = other
        .windows(8)
        .position(|window| Some(window) == far.client.as_ref().map(|client| &client[..]))
        .expect("our id");
    other[at] ^= 1;
    for packet in [&other[..], &reset[..reset.len() - 5], b"", &[0x40], &[0xff; 2000], &[0x20; 9]] {
        entering.receive(packet).expect("nothing");
        assert!(entering.peer.theirs.is_none());
    }
    entering.receive(&reset).expect("a reset");
    assert_eq!(entering.peer.theirs, Some(far.session));
    // A reset from another server is ignored after the first.
    far.session = *b"somebody";
    let late = far.pack(Opcode::HardResetServer, Some((0, &[])));
    entering.receive(&late).expect("nothing");
    assert_eq!(entering.peer.theirs, Some(*b"far away"));
}
