//! Loss recovery and congestion control for smoltcp's sender, which ignores selective acknowledgements and reduces its
//! rate only by its loss timer: with one packet in 200 lost, a hundredth of a path's rate remains.
//!
//! Keeps a copy of each segment until it is acknowledged. A segment counts as lost when one sent well after it has
//! arrived (RFC 8985), or three above it have (RFC 6675). Lost segments are sent again, and smoltcp's own
//! retransmissions are dropped. Without any answer, the first missing segment is sent as a probe (the timer of RFC
//! 6298, without its minimum of 1 s).
//!
//! The amount in flight is limited as in BBR, to twice the recent delivery rate times the shortest round trip. Random
//! losses do not change this limit. Many losses in one round indicate competing traffic or a short queue, and reduce
//! the gain. Sending is paced, so that the data behind a filled gap is not one burst. smoltcp is limited through the
//! other side's window, which is reduced in received packets. A sender with little data does not measure the path.
//!
//! For a peer without selective acknowledgements, only the window is limited; smoltcp does the rest.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Segments in flight before the path is measured (RFC 6928), and the minimum.
const FIRST: usize = 10;
const MIN_SEGMENTS: usize = 4;

/// Segments above a missing one after which it is lost (RFC 6675).
const ABOVE: usize = 3;

/// Initial retransmission timeout, and its minimum and maximum after measurements.
const TIMEOUT: Duration = Duration::from_secs(1);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(200);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The best rate covers this many rounds and the same number before them.
const ROUNDS: u32 = 5;

/// A path whose rate has not grown by a quarter in this many rounds is full.
const ROUNDS_TO_FULL: u32 = 3;

/// Lifetime of the shortest round trip, and the time of reduced sending that measures it again.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_millis(200);

/// Granularity of pacing, because timers are not more precise.
const AT_ONCE: Duration = Duration::from_millis(2);

/// Random losses may be up to one in this many of a round's bytes.
const RANDOM_LOSS_DIVISOR: u64 = 50;

/// Gain: data in flight relative to the bandwidth-delay product. Maximum and minimum, the factor after a round with many
/// losses, and the increment after any other round.
const RESERVE: (f64, f64) = (2.0, 1.0);
const BACKOFF_FACTOR: f64 = 0.85;
const GIVES: f64 = 0.02;

/// Window scale presented to smoltcp: fine enough for single segments and large enough for 1 MiB.
const SCALE: u8 = 4;

#[derive(Default)]
pub struct Recovery {
    flows: HashMap<u16, Flow>,
}

impl Recovery {
    /// Returns the packet if it can be sent immediately. Otherwise it is queued, or dropped because a copy is in
    /// flight.
    pub fn leaving(&mut self, packet: Vec<u8>, now: Instant) -> Option<Vec<u8>> {
        let Some(segment) = Segment::read(&packet) else { return Some(packet) };
        if segment.flags & SYN != 0 {
            let next = segment.number.wrapping_add(1);
            // The round trip of a repeated SYN is ambiguous and is not measured.
            let again = self.flows.get(&segment.from.1).is_some_and(|flow| flow.next == next);
            let flow = Flow::new(segment.to, next, longest(&packet, &segment), (!again).then_some(now), now);
            self.flows.insert(segment.from.1, flow);
            return Some(packet);
        }
        match self.flows.get_mut(&segment.from.1) {
            Some(flow) => flow.leaving(packet, &segment, now),
            None => Some(packet),
        }
    }

    /// Reduces the window of a received packet if necessary.
    pub fn on_packet(&mut self, packet: &mut [u8], now: Instant) {
        let Some(segment) = Segment::read(packet) else { return };
        if segment.flags & (ACK | RST) != ACK {
            return;
        }
        let Some(flow) = self.flows.get_mut(&segment.to.1).filter(|flow| flow.remote == segment.from) else { return };
        if segment.flags & SYN != 0 {
            flow.read_syn_options(packet, &segment, now);
        } else {
            flow.acknowledged(packet, &segment, now);
        }
    }

    /// Appends the segments to send now to `outgoing`. Returns the time of the next call.
    pub fn send(&mut self, now: Instant, outgoing: &mut Vec<Vec<u8>>) -> Option<Instant> {
        self.flows.values_mut().filter_map(|flow| flow.send(now, outgoing)).min()
    }

    pub fn forget(&mut self, port: u16) {
        self.flows.remove(&port);
    }
}

struct Flow {
    remote: (IpAddr, u16),
    /// Time of the SYN, until the other side answers.
    greeted: Option<Instant>,
    selective: bool,
    /// Window scale of the other side, if it supports scaling.
    scale: Option<u8>,
    /// Maximum segment size that both sides accept.
    longest: usize,
    next: u32,
    sent: VecDeque<SentSegment>,
    /// Time at which pacing allows the next segment.
    free_at: Instant,
    rounds: RoundCounter,
    path: Path,
    newest: Option<(Instant, u32)>,
    /// Time of the last progress, and the number of timeouts since.
    timer_started_at: Instant,
    timeouts: u32,
}

struct SentSegment {
    number: u32,
    length: u32,
    packet: Vec<u8>,
    at: Instant,
    again: bool,
    state: State,
    /// Delivered bytes, and the time of the last delivery, when this segment was sent.
    arrived: u64,
    arrived_at: Instant,
}

impl SentSegment {
    fn was_before(&self, (at, number): (Instant, u32)) -> bool {
        self.at < at || (self.at == at && after(number, self.number))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    InFlight,
    Lost,
    Arrived,
}

/// Delivery counts by round. A round lasts until data arrives that was sent after the round began.
struct RoundCounter {
    arrived: u64,
    arrived_at: Instant,
    began_at: u64,
    /// Maximum bytes in flight during the round.
    max: usize,
    lost: u64,
    count: u32,
}

struct Path {
    smooth: Option<Duration>,
    variation: Duration,
    shortest: Duration,
    shortest_at: Instant,
    /// End of the phase of reduced sending that measures the shortest round trip.
    measuring: Option<Instant>,
    /// Best rate in bytes per second: of the current rounds, and of the ones before.
    rate: f64,
    rate_before: f64,
    /// Rate at the last growth, the number of rounds since, and whether the path is full.
    grew_to: f64,
    rounds_since: u32,
    full: bool,
    reserve: f64,
    window: usize,
}

impl Flow {
    fn new(remote: (IpAddr, u16), next: u32, longest: usize, greeted: Option<Instant>, now: Instant) -> Self {
        Self {
            remote,
            greeted,
            selective: false,
            scale: None,
            longest,
            next,
            sent: VecDeque::new(),
            free_at: now,
            rounds: RoundCounter { arrived: 0, arrived_at: now, began_at: 0, max: 0, lost: 0, count: 0 },
            path: Path::new(longest, now),
            newest: None,
            timer_started_at: now,
            timeouts: 0,
        }
    }

    fn leaving(&mut self, packet: Vec<u8>, segment: &Segment, now: Instant) -> Option<Vec<u8>> {
        let end = segment.number.wrapping_add(segment.length);
        // An acknowledgement or a keepalive.
        if segment.length == 0 || !self.is_known(segment.number) {
            return Some(packet);
        }
        if !after(end, self.next) {
            return (!self.selective).then_some(packet);
        }
        if self.sent.is_empty() {
            // An idle connection has no rate.
            (self.timer_started_at, self.rounds.arrived_at) = (now, now);
        }
        self.sent.push_back(SentSegment {
            number: self.next,
            length: end.wrapping_sub(self.next),
            packet,
            at: now,
            again: false,
            state: State::Waiting,
            arrived: 0,
            arrived_at: now,
        });
        self.next = end;
        let first = self.sent.front().map_or(end, |first| first.number);
        self.rounds.max = self.rounds.max.max(end.wrapping_sub(first) as usize);
        None
    }

    fn is_known(&self, number: u32) -> bool {
        let first = self.sent.front().map_or(self.next, |first| first.number);
        !after(first, number) && !after(number, self.next)
    }

    fn read_syn_options(&mut self, packet: &mut [u8], segment: &Segment, now: Instant) {
        for (kind, place) in options(packet, segment) {
            match kind {
                WINDOW_SCALE if place.len() == 1 => {
                    self.scale = Some(packet[place.start].min(14));
                    packet[place.start] = SCALE;
                }
                SACK_PERMITTED => self.selective = true,
                _ => {}
            }
        }
        self.longest = self.longest.min(longest(packet, segment));
        self.path.window = FIRST * self.longest;
        if let Some(greeted) = self.greeted.take() {
            self.path.round_trip(now.saturating_duration_since(greeted), now);
        }
    }

    fn acknowledged(&mut self, packet: &mut [u8], segment: &Segment, now: Instant) {
        if self.is_known(segment.acknowledged) {
            let mut latest = None;
            for sent in &mut self.sent {
                if after(sent.number.wrapping_add(sent.length), segment.acknowledged) {
                    break;
                }
                arrive(sent, &mut latest, &mut self.rounds, now);
            }
            let has = |sent: &SentSegment| !after(sent.number.wrapping_add(sent.length), segment.acknowledged);
            while self.sent.front().is_some_and(has) {
                self.sent.pop_front();
            }
            for (kind, place) in options(packet, segment) {
                if kind == SACK {
                    for range in packet[place].chunks_exact(8) {
                        let (from, to) = (number(&range[..4]), number(&range[4..]));
                        for sent in &mut self.sent {
                            if !after(from, sent.number) && !after(sent.number.wrapping_add(sent.length), to) {
                                arrive(sent, &mut latest, &mut self.rounds, now);
                            }
                        }
                    }
                }
            }
            if let Some(latest) = latest {
                self.learn(&latest, now);
            }
            self.find_lost(now);
        }
        self.narrow(packet, segment);
    }

    /// `latest` is the latest-sent segment that the acknowledgement covers.
    fn learn(&mut self, latest: &Latest, now: Instant) {
        self.timer_started_at = now;
        self.timeouts = 0;
        if !latest.again {
            self.path.round_trip(now.saturating_duration_since(latest.at), now);
        }
        // For a retransmitted segment, the acknowledgement may be of the first transmission.
        if !latest.again || now.saturating_duration_since(latest.at) >= self.path.shortest {
            let sent = (latest.at, latest.number);
            if self.newest.is_none_or(|newest| sent.0 > newest.0 || (sent.0 == newest.0 && after(sent.1, newest.1))) {
                self.newest = Some(sent);
            }
        }
        let elapsed = now.saturating_duration_since(latest.arrived_at).max(self.path.shortest);
        #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
        let rate = (self.rounds.arrived - latest.arrived) as f64 / elapsed.as_secs_f64().max(1e-6);
        self.path.rate = self.path.rate.max(rate);
        let mut is_window_limited = false;
        if latest.arrived >= self.rounds.began_at {
            let through = self.rounds.arrived - self.rounds.began_at;
            self.path.lost(self.rounds.lost * RANDOM_LOSS_DIVISOR > through);
            self.rounds.began_at = self.rounds.arrived;
            self.rounds.lost = 0;
            // A sender with little data does not measure the path.
            is_window_limited = std::mem::take(&mut self.rounds.max) * 2 >= self.path.window;
            self.rounds.count += u32::from(is_window_limited);
        }
        self.path.judge(&self.rounds, is_window_limited, self.longest, now);
    }

    fn find_lost(&mut self, now: Instant) {
        let Some(newest) = self.newest else { return };
        let late = self.path.reordering_timeout();
        let mut above = 0;
        for sent in self.sent.iter_mut().rev() {
            match sent.state {
                State::Arrived => above += 1,
                State::InFlight => {
                    let passed_by = above >= ABOVE && !sent.again;
                    if passed_by || (sent.was_before(newest) && now.saturating_duration_since(sent.at) >= late) {
                        sent.state = State::Lost;
                        self.rounds.lost += u64::from(sent.length);
                    }
                }
                State::Waiting | State::Lost => {}
            }
        }
    }

    fn in_flight_and_waiting(&self) -> (usize, usize) {
        self.sent.iter().fold((0, 0), |(in_flight, waiting), sent| match sent.state {
            State::InFlight => (in_flight + sent.length as usize, waiting),
            State::Waiting | State::Lost => (in_flight, waiting + sent.length as usize),
            State::Arrived => (in_flight, waiting),
        })
    }

    /// Waiting data counts first.
    fn narrow(&self, packet: &mut [u8], segment: &Segment) {
        let (in_flight, waiting) = self.in_flight_and_waiting();
        let more = self.path.window.saturating_sub(in_flight + waiting);
        let outstanding = self.next.wrapping_sub(segment.acknowledged) as usize;
        let ours = outstanding + more / self.longest * self.longest;
        let theirs = usize::from(segment.window) << self.scale.unwrap_or(0);
        let scale = self.scale.map_or(0, |_| SCALE);
        let window = u16::try_from(ours.min(theirs) >> scale).unwrap_or(u16::MAX);
        packet[segment.at + 14..segment.at + 16].copy_from_slice(&window.to_be_bytes());
    }

    /// Returns the time of the next call.
    fn send(&mut self, now: Instant, outgoing: &mut Vec<Vec<u8>>) -> Option<Instant> {
        if self.sent.is_empty() {
            return None;
        }
        let mut asking = false;
        if self.selective {
            self.find_lost(now);
            asking = self.timeout_at() <= now;
        }
        if asking {
            self.timer_started_at = now;
            self.timeouts += 1;
            if self.timeouts == 1 {
                // The first timeout probes with one segment.
                if let Some(first) = self.sent.iter_mut().find(|sent| sent.state == State::InFlight) {
                    first.state = State::Lost;
                }
            } else {
                // Without an answer, everything counts as lost, including data that was selectively acknowledged, which the
                // receiver may discard (RFC 2018).
                for sent in self.sent.iter_mut().filter(|sent| sent.state != State::Waiting) {
                    sent.state = State::Lost;
                }
                self.path.reset_measurements(self.longest);
            }
        }
        let (mut in_flight, _) = self.in_flight_and_waiting();
        let rate = self.path.spread(self.longest);
        let mut due = None;
        for sent in self.sent.iter_mut().filter(|sent| matches!(sent.state, State::Waiting | State::Lost)) {
            let length = sent.length as usize;
            if in_flight > 0 && in_flight + length > self.path.window && !asking {
                break;
            }
            if let Some(rate) = rate.filter(|_| !asking) {
                if self.free_at > now + AT_ONCE {
                    due = Some(self.free_at);
                    break;
                }
                self.free_at = self.free_at.max(now) + Duration::from_secs_f64(f64::from(sent.length) / rate);
            }
            asking = false;
            in_flight += length;
            outgoing.push(sent.packet.clone());
            sent.again = sent.state == State::Lost;
            sent.state = State::InFlight;
            sent.at = now;
            sent.arrived = self.rounds.arrived;
            sent.arrived_at = self.rounds.arrived_at;
        }
        if self.selective {
            let late = self.path.reordering_timeout();
            let passed_by = |sent: &&SentSegment| {
                sent.state == State::InFlight && self.newest.is_some_and(|newest| sent.was_before(newest))
            };
            let lost_at = self.sent.iter().filter(passed_by).map(|sent| sent.at + late).min();
            due = [due, lost_at, Some(self.timeout_at())].into_iter().flatten().min();
        }
        due
    }

    fn timeout_at(&self) -> Instant {
        self.timer_started_at + (self.path.timeout() * 2_u32.pow(self.timeouts.min(6))).min(LONGEST_TIMEOUT)
    }
}

struct Latest {
    at: Instant,
    number: u32,
    again: bool,
    arrived: u64,
    arrived_at: Instant,
}

fn arrive(sent: &mut SentSegment, latest: &mut Option<Latest>, rounds: &mut RoundCounter, now: Instant) {
    if sent.state == State::Arrived {
        return;
    }
    sent.state = State::Arrived;
    rounds.arrived += u64::from(sent.length);
    rounds.arrived_at = now;
    if latest.as_ref().is_none_or(|latest| !sent.was_before((latest.at, latest.number))) {
        *latest = Some(Latest {
            at: sent.at,
            number: sent.number,
            again: sent.again,
            arrived: sent.arrived,
            arrived_at: sent.arrived_at,
        });
    }
}

impl Path {
    fn new(longest: usize, now: Instant) -> Self {
        Self {
            smooth: None,
            variation: Duration::ZERO,
            shortest: Duration::MAX,
            shortest_at: now,
            measuring: None,
            rate: 0.0,
            rate_before: 0.0,
            grew_to: 0.0,
            rounds_since: 0,
            full: false,
            reserve: RESERVE.0,
            window: FIRST * longest,
        }
    }

    /// RFC 6298.
    fn round_trip(&mut self, elapsed: Duration, now: Instant) {
        match self.smooth {
            None => (self.smooth, self.variation) = (Some(elapsed), elapsed / 2),
            Some(smooth) => {
                self.variation = (self.variation * 3 + smooth.abs_diff(elapsed)) / 4;
                self.smooth = Some((smooth * 7 + elapsed) / 8);
            }
        }
        if elapsed <= self.shortest {
            (self.shortest, self.shortest_at) = (elapsed, now);
        }
    }

    /// A round trip plus a quarter for reordering.
    fn reordering_timeout(&self) -> Duration {
        self.smooth
            .map_or(TIMEOUT, |smooth| smooth + (self.shortest / 4).max(self.variation).max(Duration::from_millis(1)))
    }

    fn timeout(&self) -> Duration {
        self.smooth.map_or(TIMEOUT, |smooth| (smooth * 2 + self.variation * 4).max(SHORTEST_TIMEOUT))
    }

    /// Bytes per second; at least the initial window per round trip, even for a sender with little data.
    fn spread(&self, longest: usize) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
        let first = (FIRST * longest) as f64 / self.smooth?.as_secs_f64().max(1e-6);
        let reserve = if self.full { 1.25 } else { 3.0 };
        Some((self.rate.max(self.rate_before) * reserve).max(first))
    }

    /// `is_window_limited` marks the end of a round whose window was filled.
    fn judge(&mut self, rounds: &RoundCounter, is_window_limited: bool, longest: usize, now: Instant) {
        if is_window_limited {
            if !self.full {
                if self.rate >= self.grew_to * 1.25 {
                    (self.grew_to, self.rounds_since) = (self.rate, 0);
                } else {
                    self.rounds_since += 1;
                }
                self.full = self.rounds_since >= ROUNDS_TO_FULL;
            }
            if rounds.count.is_multiple_of(ROUNDS) {
                self.rate_before = self.rate;
                self.rate = 0.0;
            }
        }
        let holds = self.rate.max(self.rate_before) * self.shortest.as_secs_f64();
        let reserve = match (self.measuring(now), self.full) {
            (true, _) => 0.5,
            (_, true) => self.reserve,
            // While the rate grows, the limit doubles each round.
            (_, false) => 3.0,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a window is an estimate, and positive"
        )]
        let window = (holds * reserve) as usize + (MIN_SEGMENTS - 1) * longest;
        self.window = if self.full { window } else { self.window.max(window) };
    }

    /// A path with many losses is full.
    fn lost(&mut self, much: bool) {
        let reserve = if much { self.reserve * BACKOFF_FACTOR } else { self.reserve + GIVES };
        self.reserve = reserve.clamp(RESERVE.1, RESERVE.0);
        self.full |= much;
    }

    /// The measurement requires empty queues on the path.
    fn measuring(&mut self, now: Instant) -> bool {
        match self.measuring {
            None if now.saturating_duration_since(self.shortest_at) >= MIN_RTT_WINDOW => {
                self.measuring = Some(now + MEASURED.max(self.smooth.unwrap_or_default()));
                (self.shortest, self.shortest_at) = (self.smooth.unwrap_or(self.shortest), now);
                true
            }
            Some(until) if until <= now => {
                self.measuring = None;
                false
            }
            measuring => measuring.is_some(),
        }
    }

    /// Resets the measurements after a long silence, because the path may have changed.
    fn reset_measurements(&mut self, longest: usize) {
        self.window = MIN_SEGMENTS * longest;
        (self.rate, self.rate_before, self.grew_to) = (0.0, 0.0, 0.0);
        (self.rounds_since, self.full) = (0, false);
    }
}

const TCP: u8 = 6;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

const LONGEST: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;

struct Segment {
    /// Offsets of the TCP header and of the payload.
    at: usize,
    payload_at: usize,
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    number: u32,
    acknowledged: u32,
    flags: u8,
    /// Window as in the header, unscaled.
    window: u16,
    /// Length in sequence numbers: payload bytes, and one for FIN.
    length: u32,
}

impl Segment {
    /// `None` for fragments and for protocols other than TCP.
    fn read(packet: &[u8]) -> Option<Self> {
        let (protocol, at, end, from, to): (_, _, _, IpAddr, IpAddr) = match packet.first()? >> 4 {
            4 => {
                let header = packet.get(..20)?;
                let address = |bytes: [u8; 4]| Ipv4Addr::from(bytes).into();
                let is_piece = number(&header[6..8]) & 0x3fff > 0;
                let protocol = if is_piece { 0 } else { header[9] };
                let (from, to) = (header[12..16].try_into().ok()?, header[16..20].try_into().ok()?);
                let at = usize::from(header[0] & 15) * 4;
                (protocol, at, number(&header[2..4]) as usize, address(from), address(to))
            }
            6 => {
                let header = packet.get(..40)?;
                let address = |bytes: [u8; 16]| Ipv6Addr::from(bytes).into();
                let (from, to) = (header[8..24].try_into().ok()?, header[24..40].try_into().ok()?);
                (header[6], 40, 40 + number(&header[4..6]) as usize, address(from), address(to))
            }
            _ => return None,
        };
        if protocol != TCP {
            return None;
        }
        let header = packet.get(at..at + 20)?;
        let payload_at = at + usize::from(header[12] >> 4) * 4;
        if payload_at < at + 20 || payload_at > end || end > packet.len() {
            return None;
        }
        let flags = header[13];
        let payload = u32::try_from(end - payload_at).ok()?;
        Some(Self {
            at,
            payload_at,
            from: (from, u16::from_be_bytes([header[0], header[1]])),
            to: (to, u16::from_be_bytes([header[2], header[3]])),
            number: number(&header[4..8]),
            acknowledged: number(&header[8..12]),
            flags,
            window: u16::from_be_bytes([header[14], header[15]]),
            length: payload + u32::from(flags & FIN),
        })
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Compares modulo 2^32.
fn after(number: u32, other: u32) -> bool {
    other.wrapping_sub(number) > u32::MAX / 2
}

/// 536 if the option is missing (RFC 9293).
fn longest(packet: &[u8], segment: &Segment) -> usize {
    let option = options(packet, segment).into_iter().find(|(kind, place)| *kind == LONGEST && place.len() == 2);
    option.map_or(536, |(_, place)| number(&packet[place]) as usize).max(64)
}

/// Options of a TCP header: kinds, and the positions of their values in the packet.
fn options(packet: &[u8], segment: &Segment) -> Vec<(u8, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let mut at = segment.at + 20;
    while at < segment.payload_at {
        match packet[at] {
            0 => break,
            1 => at += 1,
            kind => {
                let length = packet.get(at + 1).map_or(0, |length| usize::from(*length));
                if length < 2 || at + length > segment.payload_at {
                    break;
                }
                found.push((kind, at + 2..at + length));
                at += length;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
