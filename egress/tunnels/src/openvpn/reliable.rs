//! Reliable, ordered delivery of control packets: each is sent until it is confirmed, and received packets are put in order.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::packets::{CONFIRMED, Opcode};

/// A server keeps at most 12 packets that arrive early.
const MAX_IN_FLIGHT: u32 = 8;
const EARLY: u32 = 16;
/// The other end resends packets that are not confirmed.
const CONFIRMATIONS: usize = 64;
const SEND_AGAIN: Duration = Duration::from_secs(1);
const SEND_AGAIN_AT_LEAST: Duration = Duration::from_secs(8);

pub(super) struct Reliable {
    waiting: VecDeque<(Opcode, Vec<u8>)>,
    sent: BTreeMap<u32, SentPacket>,
    next_to_send: u32,
    early: BTreeMap<u32, Vec<u8>>,
    next_to_take: u32,
    pub(super) to_confirm: Vec<u32>,
    /// Later packets repeat them: the packet with them may be lost. A server without state for unknown clients also
    /// uses them to recognize a client that it has answered.
    repeated: Vec<u32>,
}

struct SentPacket {
    opcode: Opcode,
    bytes: Vec<u8>,
    again: Instant,
    wait: Duration,
}

pub(super) struct DuePacket {
    pub(super) opcode: Opcode,
    pub(super) number: u32,
    pub(super) bytes: Vec<u8>,
}

impl Reliable {
    pub(super) fn beginning_with(opcode: Opcode) -> Self {
        Self {
            waiting: VecDeque::from([(opcode, Vec::new())]),
            sent: BTreeMap::new(),
            next_to_send: 0,
            early: BTreeMap::new(),
            next_to_take: 0,
            to_confirm: Vec::new(),
            repeated: Vec::new(),
        }
    }

    pub(super) fn queue(&mut self, opcode: Opcode, bytes: Vec<u8>) {
        self.waiting.push_back((opcode, bytes));
    }

    pub(super) fn next_number(&self) -> usize {
        self.next_to_send as usize + self.waiting.len()
    }

    /// The other end has sent a packet and has confirmed the first packet of this end.
    pub(super) fn has_begun(&self) -> bool {
        self.next_to_take > 0 && !self.sent.contains_key(&0) && self.next_to_send > 0
    }

    pub(super) fn due(&mut self, now: Instant) -> Option<DuePacket> {
        if let Some((number, sent)) = self.sent.iter_mut().find(|(_, sent)| sent.again <= now) {
            sent.wait = (sent.wait * 2).min(SEND_AGAIN_AT_LEAST);
            sent.again = now + sent.wait;
            return Some(DuePacket { opcode: sent.opcode, number: *number, bytes: sent.bytes.clone() });
        }
        let oldest = self.sent.keys().next().copied().unwrap_or(self.next_to_send);
        if self.next_to_send - oldest >= MAX_IN_FLIGHT {
            return None;
        }
        let (opcode, bytes) = self.waiting.pop_front()?;
        let number = self.next_to_send;
        self.next_to_send += 1;
        self.sent
            .insert(number, SentPacket { opcode, bytes: bytes.clone(), again: now + SEND_AGAIN, wait: SEND_AGAIN });
        Some(DuePacket { opcode, number, bytes })
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.sent.values().map(|sent| sent.again).min()
    }

    pub(super) fn confirmed(&mut self, number: u32) {
        self.sent.remove(&number);
    }

    /// The packet is kept if it is new and within the window, and confirmed unless it is too far ahead.
    pub(super) fn on_packet(&mut self, number: u32, bytes: Vec<u8>) {
        if number >= self.next_to_take.saturating_add(EARLY) {
            return;
        }
        if number >= self.next_to_take {
            self.early.entry(number).or_insert(bytes);
        }
        if self.to_confirm.len() < CONFIRMATIONS && !self.to_confirm.contains(&number) {
            self.to_confirm.push(number);
        }
    }

    /// New ones, then the latest ones again.
    pub(super) fn confirmations(&mut self) -> Vec<u32> {
        let now = self.to_confirm.len().min(CONFIRMED);
        let mut confirmed: Vec<u32> = self.to_confirm.drain(..now).collect();
        self.repeated.retain(|number| !confirmed.contains(number));
        confirmed.append(&mut self.repeated);
        confirmed.truncate(CONFIRMED);
        self.repeated.clone_from(&confirmed);
        confirmed
    }

    /// Returns the next packet in order, with its number.
    pub(super) fn take(&mut self) -> Option<(u32, Vec<u8>)> {
        let bytes = self.early.remove(&self.next_to_take)?;
        self.next_to_take += 1;
        Some((self.next_to_take - 1, bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{EARLY, MAX_IN_FLIGHT, Opcode, Reliable};

    #[test]
    fn unconfirmed_packet_is_resent_with_backoff() {
        let mut reliable = Reliable::beginning_with(Opcode::HardResetClient);
        let mut now = Instant::now();
        assert_eq!(reliable.due(now).map(|due| due.number), Some(0));
        assert!(reliable.due(now).is_none());
        for wait in [1, 2, 4, 8, 8] {
            now += Duration::from_millis(wait * 1000 - 1);
            assert!(reliable.due(now).is_none(), "{wait}");
            now += Duration::from_millis(1);
            assert_eq!(reliable.due(now).map(|due| due.number), Some(0), "{wait}");
        }
        reliable.confirmed(0);
        assert!(reliable.due(now + Duration::from_secs(99)).is_none() && reliable.next_due().is_none());
    }

    #[test]
    fn unconfirmed_packets_stay_within_the_window() {
        let mut reliable = Reliable::beginning_with(Opcode::SoftReset);
        (0..20).for_each(|_| reliable.queue(Opcode::Control, Vec::new()));
        let now = Instant::now();
        let sent: Vec<u32> = std::iter::from_fn(|| reliable.due(now)).map(|due| due.number).collect();
        assert_eq!(sent, (0..MAX_IN_FLIGHT).collect::<Vec<_>>());
        reliable.confirmed(1);
        assert!(reliable.due(now).is_none(), "the oldest is still under way");
        reliable.confirmed(0);
        assert_eq!(std::iter::from_fn(|| reliable.due(now)).count(), 2);
    }

    #[test]
    fn latest_confirmations_are_repeated() {
        let mut reliable = Reliable::beginning_with(Opcode::SoftReset);
        assert!(reliable.confirmations().is_empty());
        reliable.on_packet(0, Vec::new());
        assert_eq!([reliable.confirmations(), reliable.confirmations()], [[0], [0]]);
        (1..7).for_each(|number| reliable.on_packet(number, Vec::new()));
        assert_eq!([reliable.confirmations(), reliable.confirmations()], [[1, 2, 3, 4], [5, 6, 1, 2]]);
        assert_eq!(reliable.confirmations(), [5, 6, 1, 2]);
        assert!(reliable.to_confirm.is_empty());
    }

    #[test]
    fn packets_are_delivered_in_order_once() {
        let mut reliable = Reliable::beginning_with(Opcode::SoftReset);
        for number in [2, 0, 0, 1, EARLY + 9, u32::MAX, 1] {
            reliable.on_packet(number, vec![u8::try_from(number & 0xff).expect("small")]);
        }
        assert_eq!(
            std::iter::from_fn(|| reliable.take()).collect::<Vec<_>>(),
            [(0, vec![0]), (1, vec![1]), (2, vec![2])]
        );
        assert_eq!(reliable.to_confirm, [2, 0, 1]);
        reliable.to_confirm.clear();
        reliable.on_packet(1, Vec::new());
        assert_eq!(reliable.take(), None, "it is not taken once more");
        assert_eq!(reliable.to_confirm, [1], "but confirmed");
    }
}
