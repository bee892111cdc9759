//! Protocol of a tunnel without its socket: it consumes received packets and produces packets to send.

use std::time::Duration;

use tokio::time::Instant;
use zeroize::Zeroizing;

use super::Failure;
use super::data::{DataChannel, Format};
use super::generation::{Generation, Peer};
use super::packets::{Body, Opcode};
use super::profile::Renewal;

const KEY_EXCHANGE_TIMEOUT: Duration = Duration::from_mins(1);
/// Before new keys are used: the server may not have derived them yet. Its first packet with the new keys ends the
/// delay earlier.
const USE_AFTER: Duration = Duration::from_secs(1);
/// Packets sealed with the previous keys are still opened.
const KEEP_FOR: Duration = Duration::from_mins(1);
/// Maximum number of parts of a push reply, and maximum size in bytes.
const REPLY_PARTS: usize = 64;
const REPLY_BYTES: usize = 64 << 10;

const PING: [u8; 16] = [0x2a, 0x18, 0x7b, 0xf3, 0x64, 0x1e, 0xb4, 0xcb, 0x07, 0xed, 0x2d, 0x0a, 0x98, 0x1f, 0xc7, 0x48];
/// Prefix of packets between the tunnel's ends, and the code of an exit notice after it.
const FOR_THE_END: [u8; 16] =
    [0x28, 0x7f, 0x34, 0x6b, 0xd4, 0xef, 0x7a, 0x81, 0x2d, 0x56, 0xb8, 0xd3, 0xaf, 0xc5, 0x45, 0x9c];
const EXIT: u8 = 6;

pub(super) struct Handshake {
    peer: Peer,
    generation: Generation,
    reply: Zeroizing<String>,
    parts: usize,
}

impl Handshake {
    pub(super) fn new(peer: Peer) -> Result<Self, Failure> {
        let generation = Generation::new(&peer, 0)?;
        Ok(Self { peer, generation, reply: Zeroizing::default(), parts: 0 })
    }

    pub(super) fn receive(&mut self, packet: &[u8]) -> Result<(), Failure> {
        let is_control = packet.first().and_then(|byte| Opcode::read(*byte));
        if !is_control.is_some_and(|(opcode, key)| is_conversation(opcode) && key == 0) {
            return Ok(());
        }
        let Some((head, bytes)) = self.peer.wrapper.unwrap(packet) else { return Ok(()) };
        let Some(body) = Body::read(head.opcode, &bytes) else { return Ok(()) };
        self.generation.receive(&mut self.peer, &head, body)
    }

    pub(super) fn drive(&mut self, out: &mut Vec<Vec<u8>>) -> Result<(), Failure> {
        self.generation.drive(&mut self.peer, Instant::now(), out)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.generation.next_due()
    }

    pub(super) fn is_agreed(&self) -> bool {
        self.generation.is_agreed()
    }

    pub(super) fn ask_for_options(&mut self) -> Result<(), Failure> {
        self.generation.send_control_message("PUSH_REQUEST")
    }

    /// Once all parts have arrived.
    pub(super) fn options(&mut self) -> Result<Option<Zeroizing<String>>, Failure> {
        for message in self.generation.take_messages() {
            let Some(part) = message.strip_prefix("PUSH_REPLY") else {
                end_of(&message)?;
                continue;
            };
            self.parts += 1;
            if self.parts > REPLY_PARTS || self.reply.len() + part.len() > REPLY_BYTES {
                return Err(Failure::Protocol("it sets more options than the client accepts"));
            }
            self.reply.push_str(part);
            if !part.ends_with(",push-continuation 2") {
                return Ok(Some(std::mem::take(&mut self.reply)));
            }
        }
        Ok(None)
    }

    pub(super) fn enter(self, terms: Terms) -> Result<Session, Failure> {
        let keys = self.generation.keys(&self.peer, terms.exports_keys)?;
        let data = DataChannel::new(0, &keys, terms.format);
        Ok(Session {
            peer: self.peer,
            generation: self.generation,
            data,
            agreed_at: Instant::now(),
            next: None,
            before: None,
            terms,
            answers: false,
        })
    }
}

pub(super) struct Terms {
    pub(super) format: Format,
    pub(super) exports_keys: bool,
    pub(super) exit_by_control: bool,
    pub(super) renewal: Renewal,
}

pub(super) struct Session {
    peer: Peer,
    /// Generation of the control channel: that of the keys in use, or of the next ones.
    generation: Generation,
    data: DataChannel,
    agreed_at: Instant,
    next: Option<DataChannel>,
    before: Option<DataChannel>,
    terms: Terms,
    /// The server has confirmed a repeated packet, as a live server always does.
    answers: bool,
}

impl Session {
    /// `false` for packets that are not authentic, which have no effect.
    pub(super) fn receive(&mut self, packet: &[u8], incoming: &mut Vec<Vec<u8>>) -> Result<bool, Failure> {
        let Some((opcode, key)) = packet.first().and_then(|byte| Opcode::read(*byte)) else { return Ok(false) };
        match opcode {
            Opcode::DataV1 | Opcode::DataV2 => self.receive_data(key, packet, incoming),
            _ if is_conversation(opcode) => self.receive_control(packet),
            _ => Ok(false),
        }
    }

    fn receive_data(&mut self, key: u8, packet: &[u8], incoming: &mut Vec<Vec<u8>>) -> Result<bool, Failure> {
        if self.next.as_ref().is_some_and(|next| next.key == key) {
            let opened = self.next.as_mut().and_then(|next| next.open(packet));
            return opened.map_or(Ok(false), |packet| {
                self.use_next();
                take(packet, incoming)
            });
        }
        let channel = if self.data.key == key {
            Some(&mut self.data)
        } else {
            self.before.as_mut().filter(|before| before.key == key)
        };
        channel.and_then(|channel| channel.open(packet)).map_or(Ok(false), |packet| take(packet, incoming))
    }

    fn receive_control(&mut self, packet: &[u8]) -> Result<bool, Failure> {
        let Some((head, bytes)) = self.peer.wrapper.unwrap(packet) else { return Ok(false) };
        if Some(head.session) != self.peer.theirs {
            return Ok(false);
        }
        let Some(body) = Body::read(head.opcode, &bytes) else { return Ok(false) };
        // If a server requests new keys before the latest ones are in use, the request is ignored; the server repeats it.
        let may_renew = self.is_settled() && self.agreed_at.elapsed() >= USE_AFTER;
        if head.opcode == Opcode::SoftReset && head.key == after(self.generation.key) && may_renew {
            self.generation = Generation::new(&self.peer, head.key)?;
        }
        if head.key == self.generation.key {
            self.answers |= body.confirmed.contains(&0);
            self.generation.receive(&mut self.peer, &head, body)?;
            for message in self.generation.take_messages() {
                // Servers that use tokens send a new token with new keys.
                match message.strip_prefix("PUSH_REPLY,") {
                    Some(options) => options
                        .split(',')
                        .filter_map(|option| option.strip_prefix("auth-token "))
                        .for_each(|token| self.take_token(token)),
                    None => end_of(&message)?,
                }
            }
        }
        Ok(true)
    }

    /// Replaces the password with a token in later key agreements.
    pub(super) fn take_token(&mut self, token: &str) {
        self.peer.offer.take_token(token);
    }

    /// True when the latest agreed keys are in use.
    fn is_settled(&self) -> bool {
        self.generation.key == self.data.key
    }

    pub(super) fn drive(&mut self, out: &mut Vec<Vec<u8>>) -> Result<(), Failure> {
        let now = Instant::now();
        if self.is_settled() && self.is_to_renew(now) {
            self.generation = Generation::new(&self.peer, after(self.generation.key))?;
        }
        self.generation.drive(&mut self.peer, now, out)?;
        if !self.is_settled() && self.next.is_none() {
            if self.generation.is_agreed() {
                let keys = self.generation.keys(&self.peer, self.terms.exports_keys)?;
                self.next = Some(DataChannel::new(self.generation.key, &keys, self.terms.format));
                self.agreed_at = now;
            } else if now - self.generation.began > KEY_EXCHANGE_TIMEOUT {
                return Err(Failure::Ended);
            }
        }
        if now - self.agreed_at >= USE_AFTER {
            self.use_next();
        }
        if now - self.agreed_at > KEEP_FOR {
            self.before = None;
        }
        Ok(())
    }

    fn is_to_renew(&self, now: Instant) -> bool {
        let renewal = &self.terms.renewal;
        let is_old = renewal.after.is_some_and(|after| now - self.agreed_at > after);
        is_old || self.data.bytes >= renewal.bytes || self.data.packets >= renewal.packets
    }

    fn use_next(&mut self) {
        if let Some(next) = self.next.take() {
            tracing::debug!(key_id = next.key, "OpenVPN tunnel switched to new keys");
            self.before = Some(std::mem::replace(&mut self.data, next));
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.generation.next_due()
    }

    pub(super) fn seal(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        self.data.seal(packet, out).ok_or(Failure::Protocol("no new keys were agreed in time"))
    }

    pub(super) fn ping(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        self.seal(&PING, out)
    }

    pub(super) fn answers(&self) -> bool {
        self.answers
    }

    pub(super) fn ask(&mut self) -> Vec<u8> {
        self.generation.ask(&mut self.peer)
    }

    pub(super) fn exit(&mut self, out: &mut Vec<Vec<u8>>) {
        if self.terms.exit_by_control && self.generation.send_control_message("EXIT").is_ok() {
            let _ = self.generation.drive(&mut self.peer, Instant::now(), out);
        } else {
            let mut sealed = Vec::new();
            if self.seal(&[&FOR_THE_END[..], &[EXIT]].concat(), &mut sealed).is_ok() {
                out.push(sealed);
            }
        }
    }
}

fn is_conversation(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::HardResetServer | Opcode::SoftReset | Opcode::Control | Opcode::Confirm)
}

/// Key ids start at 0, and continue at 1 after the last.
fn after(key: u8) -> u8 {
    if key >= 7 { 1 } else { key + 1 }
}

/// A packet of the tunnel, or a message between its ends.
fn take(packet: Vec<u8>, incoming: &mut Vec<Vec<u8>>) -> Result<bool, Failure> {
    if let Some(rest) = packet.strip_prefix(&FOR_THE_END) {
        return if rest.first() == Some(&EXIT) { Err(Failure::Ended) } else { Ok(true) };
    }
    if packet != PING {
        incoming.push(packet);
    }
    Ok(true)
}

/// Messages that do not end the tunnel are informational.
fn end_of(message: &str) -> Result<(), Failure> {
    if message.starts_with("AUTH_FAILED") {
        return Err(Failure::Refused);
    }
    if message.starts_with("AUTH_PENDING") {
        return Err(Failure::Protocol("it requires an interactive answer"));
    }
    if ["RESTART", "HALT", "EXIT"].iter().any(|end| message.starts_with(end)) { Err(Failure::Ended) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
