//! What smoltcp's sender lacks: it neither reads selective acknowledgements nor paces itself by more than losses, so that one
//! packet lost in two hundred leaves a hundredth of a line's rate.
//!
//! This sits between smoltcp and the tunnel and sends again what is lost. It keeps a copy of each segment until the other
//! side has it, reads from selective acknowledgements what arrived, takes for lost what was sent well before something that
//! arrived (RFC 8985, and RFC 6675's three segments), and swallows what smoltcp sends again by itself. Where nothing is
//! heard at all it asks with the first segment that is missing (RFC 6298's timer, without its whole second at the least).
//!
//! How much may be under way is judged as BBR does: twice what the path holds, which is the rate at which segments lately
//! arrived times the shortest round trip. A random loss says nothing of that; many losses in a round say that there are
//! others, or that there is little room for what waits, and take from the reserve. What may be sent is spread over time: when
//! a gap is filled, all that waited behind it would come at once. smoltcp is told by the other side's window, which is made
//! smaller on its way in. A sender that has little to say measures nothing, and is not held to it.
//!
//! A side that knows no selective acknowledgements leaves all but the window to smoltcp.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Segments that may be under way before anything is known (RFC 6928), and at the least.
const FIRST: usize = 10;
const LEAST: usize = 4;

/// Segments above a missing one that say that it is lost (RFC 6675).
const ABOVE: usize = 3;

/// Before anything is known, and at the least and most afterwards.
const TIMEOUT: Duration = Duration::from_secs(1);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(200);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The best rate is that of so many rounds, or of as many before.
const ROUNDS: u32 = 5;

/// A path that has not grown by a quarter in so many rounds is full.
const ROUNDS_TO_FULL: u32 = 3;

/// How long the shortest round trip is believed, and how long less is sent to measure it again.
const BELIEVED: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_millis(200);

/// As much is sent at once as is to be sent in this time: clocks are no finer.
const AT_ONCE: Duration = Duration::from_millis(2);

/// What of a round may be lost by chance: a fiftieth.
const BY_CHANCE: u64 = 50;

/// What may be under way, in what the path holds: at the most and the least, what a round that loses more takes of it, and
/// what one that does not gives back.
const RESERVE: (f64, f64) = (2.0, 1.0);
const TAKES: f64 = 0.85;
const GIVES: f64 = 0.02;

/// The scale of windows that smoltcp is told, whatever the other side's is: fine enough to count segments, and enough for a
/// megabyte.
const SCALE: u8 = 4;

/// The connections of a stack, by their local port.
#[derive(Default)]
pub struct Recovery {
    flows: HashMap<u16, Flow>,
}

impl Recovery {
    /// A packet is about to leave. What is given back does at once; what is not has its turn when there is room, or is under
    /// way.
    pub fn leaving(&mut self, packet: Vec<u8>, now: Instant) -> Option<Vec<u8>> {
        let Some(segment) = Segment::read(&packet) else { return Some(packet) };
        if segment.flags & SYN != 0 {
            let next = segment.number.wrapping_add(1);
            // Of a greeting that is said again nobody knows which one is answered.
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

    /// A packet has come. Its window is made smaller, if need be.
    pub fn came(&mut self, packet: &mut [u8], now: Instant) {
        let Some(segment) = Segment::read(packet) else { return };
        if segment.flags & (ACK | RST) != ACK {
            return;
        }
        let Some(flow) = self.flows.get_mut(&segment.to.1).filter(|flow| flow.remote == segment.from) else { return };
        if segment.flags & SYN != 0 {
            flow.greeted(packet, &segment, now);
        } else {
            flow.acknowledged(packet, &segment, now);
        }
    }

    /// What is to be sent now, for the first time or again, is put behind what `outgoing` holds. Gives when to come back.
    pub fn send(&mut self, now: Instant, outgoing: &mut Vec<Vec<u8>>) -> Option<Instant> {
        self.flows.values_mut().filter_map(|flow| flow.send(now, outgoing)).min()
    }

    /// A connection is no more.
    pub fn forget(&mut self, port: u16) {
        self.flows.remove(&port);
    }
}

/// A connection's outgoing half.
struct Flow {
    remote: (IpAddr, u16),
    /// When the other side was greeted, until it answers.
    greeted: Option<Instant>,
    /// Whether the other side tells what arrived out of order.
    selective: bool,
    /// The scale of the other side's windows, if it knows of scales.
    scale: Option<u8>,
    /// The longest segment that both sides take.
    longest: usize,
    /// The next number that was never sent.
    next: u32,
    /// What is under way, or will be, in order.
    sent: VecDeque<SentSegment>,
    /// When the line is free for another segment, if they are to be evenly spread.
    free_at: Instant,
    rounds: RoundCounter,
    path: Path,
    /// When a segment was last sent that then arrived, and its number.
    newest: Option<(Instant, u32)>,
    /// When something was last sent or heard, and how often nothing came of that.
    stirred: Instant,
    timeouts: u32,
}

/// A segment that is under way.
struct SentSegment {
    number: u32,
    length: u32,
    packet: Vec<u8>,
    at: Instant,
    again: bool,
    state: State,
    /// What had arrived when it was sent, and when that had.
    arrived: u64,
    arrived_at: Instant,
}

impl SentSegment {
    /// Whether it was sent before another one, of which this is the time and the number.
    fn was_before(&self, (at, number): (Instant, u32)) -> bool {
        self.at < at || (self.at == at && after(number, self.number))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// For its first time.
    Waiting,
    UnderWay,
    /// And waits for its next time.
    Lost,
    Arrived,
}

/// What has arrived, in rounds: one lasts until something arrives that was sent after it began.
struct RoundCounter {
    arrived: u64,
    arrived_at: Instant,
    began_at: u64,
    /// What was under way at the most, in bytes.
    most: usize,
    lost: u64,
    count: u32,
}

/// What is known of the path.
struct Path {
    smooth: Option<Duration>,
    variation: Duration,
    shortest: Duration,
    shortest_at: Instant,
    /// While less is sent to find the shortest round trip.
    measuring: Option<Instant>,
    /// In bytes a second: the best of these rounds, and of those before.
    rate: f64,
    rate_before: f64,
    /// At which the path grew last, and how many rounds ago; or it is full.
    grew_to: f64,
    rounds_since: u32,
    full: bool,
    reserve: f64,
    /// Bytes that may be under way.
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
            rounds: RoundCounter { arrived: 0, arrived_at: now, began_at: 0, most: 0, lost: 0, count: 0 },
            path: Path::new(longest, now),
            newest: None,
            stirred: now,
            timeouts: 0,
        }
    }

    fn leaving(&mut self, packet: Vec<u8>, segment: &Segment, now: Instant) -> Option<Vec<u8>> {
        let end = segment.number.wrapping_add(segment.length);
        // An acknowledgement, or a question whether anybody is there.
        if segment.length == 0 || !self.is_known(segment.number) {
            return Some(packet);
        }
        if !after(end, self.next) {
            return (!self.selective).then_some(packet);
        }
        if self.sent.is_empty() {
            // What was quiet has no rate.
            (self.stirred, self.rounds.arrived_at) = (now, now);
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
        self.rounds.most = self.rounds.most.max(end.wrapping_sub(first) as usize);
        None
    }

    /// Whether a number is of what is under way, or the next one.
    fn is_known(&self, number: u32) -> bool {
        let first = self.sent.front().map_or(self.next, |first| first.number);
        !after(first, number) && !after(number, self.next)
    }

    /// The other side takes the connection. Its window's scale becomes ours.
    fn greeted(&mut self, packet: &mut [u8], segment: &Segment, now: Instant) {
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

    /// Something arrived that was sent last of what did.
    fn learn(&mut self, latest: &Latest, now: Instant) {
        self.stirred = now;
        self.timeouts = 0;
        if !latest.again {
            self.path.round_trip(now.saturating_duration_since(latest.at), now);
        }
        // What was sent twice may have arrived the first time.
        if !latest.again || now.saturating_duration_since(latest.at) >= self.path.shortest {
            let sent = (latest.at, latest.number);
            if self.newest.is_none_or(|newest| sent.0 > newest.0 || (sent.0 == newest.0 && after(sent.1, newest.1))) {
                self.newest = Some(sent);
            }
        }
        let took = now.saturating_duration_since(latest.arrived_at).max(self.path.shortest);
        #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
        let rate = (self.rounds.arrived - latest.arrived) as f64 / took.as_secs_f64().max(1e-6);
        self.path.rate = self.path.rate.max(rate);
        let mut telling = false;
        if latest.arrived >= self.rounds.began_at {
            let through = self.rounds.arrived - self.rounds.began_at;
            self.path.lost(self.rounds.lost * BY_CHANCE > through);
            self.rounds.began_at = self.rounds.arrived;
            self.rounds.lost = 0;
            // A sender that has little to say measures nothing.
            telling = std::mem::take(&mut self.rounds.most) * 2 >= self.path.window;
            self.rounds.count += u32::from(telling);
        }
        self.path.judge(&self.rounds, telling, self.longest, now);
    }

    /// What was sent well before something that has arrived is lost.
    fn find_lost(&mut self, now: Instant) {
        let Some(newest) = self.newest else { return };
        let late = self.path.late();
        let mut above = 0;
        for sent in self.sent.iter_mut().rev() {
            match sent.state {
                State::Arrived => above += 1,
                State::UnderWay => {
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

    /// Bytes that are under way, and that wait.
    fn under_way(&self) -> (usize, usize) {
        self.sent.iter().fold((0, 0), |(way, waiting), sent| match sent.state {
            State::UnderWay => (way + sent.length as usize, waiting),
            State::Waiting | State::Lost => (way, waiting + sent.length as usize),
            State::Arrived => (way, waiting),
        })
    }

    /// Tells smoltcp of a window that ends where no more should be under way. What is missing comes first.
    fn narrow(&self, packet: &mut [u8], segment: &Segment) {
        let (way, waiting) = self.under_way();
        let more = self.path.window.saturating_sub(way + waiting);
        let outstanding = self.next.wrapping_sub(segment.acknowledged) as usize;
        let ours = outstanding + more / self.longest * self.longest;
        let theirs = usize::from(segment.window) << self.scale.unwrap_or(0);
        let scale = self.scale.map_or(0, |_| SCALE);
        let window = u16::try_from(ours.min(theirs) >> scale).unwrap_or(u16::MAX);
        packet[segment.at + 14..segment.at + 16].copy_from_slice(&window.to_be_bytes());
    }

    /// Sends what there is room for, and gives when to come back.
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
            self.stirred = now;
            self.timeouts += 1;
            if self.timeouts == 1 {
                // It asks what has arrived.
                if let Some(first) = self.sent.iter_mut().find(|sent| sent.state == State::UnderWay) {
                    first.state = State::Lost;
                }
            } else {
                // Nobody says, so nothing has. What was said to have arrived out of order may be forgotten, too (RFC 2018).
                for sent in self.sent.iter_mut().filter(|sent| sent.state != State::Waiting) {
                    sent.state = State::Lost;
                }
                self.path.begin_again(self.longest);
            }
        }
        let (mut way, _) = self.under_way();
        let rate = self.path.spread(self.longest);
        let mut due = None;
        for sent in self.sent.iter_mut().filter(|sent| matches!(sent.state, State::Waiting | State::Lost)) {
            let length = sent.length as usize;
            if way > 0 && way + length > self.path.window && !asking {
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
            way += length;
            outgoing.push(sent.packet.clone());
            sent.again = sent.state == State::Lost;
            sent.state = State::UnderWay;
            sent.at = now;
            sent.arrived = self.rounds.arrived;
            sent.arrived_at = self.rounds.arrived_at;
        }
        if self.selective {
            let late = self.path.late();
            let passed_by = |sent: &&SentSegment| {
                sent.state == State::UnderWay && self.newest.is_some_and(|newest| sent.was_before(newest))
            };
            let lost_at = self.sent.iter().filter(passed_by).map(|sent| sent.at + late).min();
            due = [due, lost_at, Some(self.timeout_at())].into_iter().flatten().min();
        }
        due
    }

    fn timeout_at(&self) -> Instant {
        self.stirred + (self.path.timeout() * 2_u32.pow(self.timeouts.min(6))).min(LONGEST_TIMEOUT)
    }
}

/// What was sent last of what an acknowledgement says has arrived.
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
    fn round_trip(&mut self, took: Duration, now: Instant) {
        match self.smooth {
            None => (self.smooth, self.variation) = (Some(took), took / 2),
            Some(smooth) => {
                self.variation = (self.variation * 3 + smooth.abs_diff(took)) / 4;
                self.smooth = Some((smooth * 7 + took) / 8);
            }
        }
        if took <= self.shortest {
            (self.shortest, self.shortest_at) = (took, now);
        }
    }

    /// After which a segment is late when later ones have arrived: a round trip, and a quarter for those that overtake.
    fn late(&self) -> Duration {
        self.smooth
            .map_or(TIMEOUT, |smooth| smooth + (self.shortest / 4).max(self.variation).max(Duration::from_millis(1)))
    }

    fn timeout(&self) -> Duration {
        self.smooth.map_or(TIMEOUT, |smooth| (smooth * 2 + self.variation * 4).max(SHORTEST_TIMEOUT))
    }

    /// In bytes a second, how what may be sent is spread, so that no queue on the way need take it all at once. Whoever has said
    /// little so far may still say as much as in the beginning.
    fn spread(&self, longest: usize) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a rate is an estimate")]
        let first = (FIRST * longest) as f64 / self.smooth?.as_secs_f64().max(1e-6);
        let reserve = if self.full { 1.25 } else { 3.0 };
        Some((self.rate.max(self.rate_before) * reserve).max(first))
    }

    /// How much may be under way from now on. A round tells something when it ends and had its window filled.
    fn judge(&mut self, rounds: &RoundCounter, telling: bool, longest: usize, now: Instant) {
        if telling {
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
            // As long as it grows: what it holds doubles with each round.
            (_, false) => 3.0,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a window is an estimate, and positive"
        )]
        let window = (holds * reserve) as usize + (LEAST - 1) * longest;
        self.window = if self.full { window } else { self.window.max(window) };
    }

    /// A round has ended, and lost more than happens by chance, or not. A path that loses so much is full.
    fn lost(&mut self, much: bool) {
        let reserve = if much { self.reserve * TAKES } else { self.reserve + GIVES };
        self.reserve = reserve.clamp(RESERVE.1, RESERVE.0);
        self.full |= much;
    }

    /// Whether the round trip is being measured, which takes that nothing waits in queues on the way.
    fn measuring(&mut self, now: Instant) -> bool {
        match self.measuring {
            None if now.saturating_duration_since(self.shortest_at) >= BELIEVED => {
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

    /// Nothing has been heard for long: what was known of the path may not hold any more.
    fn begin_again(&mut self, longest: usize) {
        self.window = LEAST * longest;
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

/// What a packet's TCP header says.
struct Segment {
    /// Where it begins in the packet, and what it carries.
    at: usize,
    payload_at: usize,
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    number: u32,
    acknowledged: u32,
    flags: u8,
    /// As it is written.
    window: u16,
    /// Of what has numbers: bytes, and the end.
    length: u32,
}

impl Segment {
    /// Nothing of what is no TCP, or is in pieces.
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

/// Whether a number comes after another, in numbers that begin anew at their end.
fn after(number: u32, other: u32) -> bool {
    other.wrapping_sub(number) > u32::MAX / 2
}

/// The longest segment that whoever greets takes; RFC 9293 has a number for those who do not say.
fn longest(packet: &[u8], segment: &Segment) -> usize {
    let said = options(packet, segment).into_iter().find(|(kind, place)| *kind == LONGEST && place.len() == 2);
    said.map_or(536, |(_, place)| number(&packet[place]) as usize).max(64)
}

/// The options of a header: their kinds, and where their values are in the packet.
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
