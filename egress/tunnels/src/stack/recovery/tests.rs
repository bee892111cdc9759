//! Tests on a simulated path with its own clock.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

const SEGMENT: u32 = 1380;
const BUFFER: u32 = 512 << 10;
const STEP: Duration = Duration::from_millis(1);

fn packet(number: u32, acknowledged: u32, flags: u8, window: u16, options: &[u8], payload: usize) -> Vec<u8> {
    let length = 40 + options.len() + payload;
    let mut packet = vec![0; length];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&u16::try_from(length).expect("a length").to_be_bytes());
    packet[9] = 6;
    packet[24..28].copy_from_slice(&number.to_be_bytes());
    packet[28..32].copy_from_slice(&acknowledged.to_be_bytes());
    packet[32] = u8::try_from((20 + options.len()) / 4).expect("a length") << 4;
    packet[33] = flags;
    packet[34..36].copy_from_slice(&window.to_be_bytes());
    packet[40..40 + options.len()].copy_from_slice(options);
    packet
}

#[derive(Clone, Copy)]
struct Line {
    round_trip: Duration,
    /// Rate in bytes per second, and queue size in bytes.
    rate: f64,
    queue: f64,
    /// Losses per thousand packets.
    lost: u32,
    dead: (Duration, Duration),
    /// The sender has only one segment every 500 ms until this time.
    quiet: Duration,
}

const LINE: Line = Line {
    round_trip: Duration::from_millis(50),
    rate: 10e6,
    queue: 200e3,
    lost: 0,
    dead: (Duration::ZERO, Duration::ZERO),
    quiet: Duration::ZERO,
};

#[derive(Debug)]
struct Outcome {
    /// Bytes per second that arrived in order.
    rate: f64,
    /// Bytes sent per byte that arrived.
    effort: f64,
    /// Average bytes in the queue.
    waited: f64,
}

fn play(line: Line, lasts: Duration) -> Outcome {
    let mut chance = StdRng::seed_from_u64(7);
    let mut recovery = Recovery::default();
    let zero = Instant::now();
    let first = u32::MAX - 100_000;
    recovery.leaving(packet(first.wrapping_sub(1), 0, SYN, 0, &[2, 4, 5, 100], 0), zero);
    let mut now = zero + line.round_trip;
    let mut greeting = packet(0, first, SYN | ACK, u16::MAX, &[2, 4, 5, 100, 4, 2, 3, 3, 7, 0, 0, 0], 0);
    recovery.on_packet(&mut greeting, now);
    assert_eq!(greeting[48], SCALE);

    let (mut next, mut acknowledged, mut window) = (first, first, FIRST * SEGMENT as usize);
    let mut received = BTreeSet::new();
    let (mut expected, mut queue, mut queued) = (first, 0.0, 0.0);
    let mut there: VecDeque<(Instant, Segment)> = VecDeque::new();
    let mut back: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let (mut sent, mut steps) = (0_u64, 0_u64);
    while now < zero + lasts {
        now += STEP;
        steps += 1;
        queue = (queue - line.rate * STEP.as_secs_f64()).max(0.0);
        queued += queue;
        // Receiver.
        while there.front().is_some_and(|(when, _)| *when <= now) {
            let (_, segment) = there.pop_front().expect("a segment");
            if !after(expected, segment.number) {
                received.insert(segment.number.wrapping_sub(first));
            }
            while received.remove(&expected.wrapping_sub(first)) {
                expected = expected.wrapping_add(SEGMENT);
            }
            let mut ranges: Vec<(u32, u32)> = Vec::new();
            for begin in &received {
                match ranges.last_mut() {
                    Some((_, end)) if *end == *begin => *end += SEGMENT,
                    _ => ranges.push((*begin, begin + SEGMENT)),
                }
            }
            let mut options = vec![1, 1, SACK, u8::try_from(2 + 8 * ranges.len().min(3)).expect("a length")];
            for (begin, end) in ranges.iter().rev().take(3) {
                options.extend(first.wrapping_add(*begin).to_be_bytes());
                options.extend(first.wrapping_add(*end).to_be_bytes());
            }
            if ranges.is_empty() {
                options.clear();
            }
            back.push_back((now + line.round_trip / 2, packet(0, expected, ACK, 60_000, &options, 0)));
        }
        while back.front().is_some_and(|(when, _)| *when <= now) {
            let (_, mut packet) = back.pop_front().expect("a packet");
            recovery.on_packet(&mut packet, now);
            let segment = Segment::read(&packet).expect("a segment");
            if after(segment.acknowledged, acknowledged) {
                acknowledged = segment.acknowledged;
            }
            window = usize::from(segment.window) << SCALE;
        }
        // Sender: new segments and retransmissions.
        let mut outgoing = Vec::new();
        let quiet = |next: u32| f64::from(next.wrapping_sub(first) / SEGMENT) * 0.5 > (now - zero).as_secs_f64();
        while next.wrapping_sub(acknowledged) as usize + SEGMENT as usize <= window.min(BUFFER as usize)
            && (now - zero >= line.quiet || !quiet(next))
        {
            let packet = packet(next, 1, ACK, 1000, &[], SEGMENT as usize);
            assert_eq!(recovery.leaving(packet, now), None, "it is queued");
            next = next.wrapping_add(SEGMENT);
        }
        recovery.send(now, &mut outgoing);
        for packet in outgoing {
            sent += packet.len() as u64;
            let dead = (line.dead.0..line.dead.1).contains(&(now - zero));
            if dead || queue > line.queue || chance.random_range(0..1000) < line.lost {
                continue;
            }
            queue += f64::from(SEGMENT);
            let waits = Duration::from_secs_f64(queue / line.rate);
            there.push_back((now + waits + line.round_trip / 2, Segment::read(&packet).expect("a segment")));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "these are figures")]
    let (sent, steps) = (sent as f64, steps as f64);
    let arrived = f64::from(expected.wrapping_sub(first));
    Outcome { rate: arrived / lasts.as_secs_f64(), effort: sent / arrived, waited: queued / steps }
}

#[test]
fn random_losses_reduce_the_rate_only_slightly() {
    let clean = play(LINE, Duration::from_secs(4));
    // Limited by the buffer of 512 KiB at a round trip of 50 ms, and by the slow start.
    assert!(clean.rate > 8e6, "{clean:?}");
    for (lost, least) in [(5, 4e6), (20, 2.5e6), (50, 500e3)] {
        let lossy = play(Line { lost, ..LINE }, Duration::from_secs(4));
        assert!(lossy.rate > least, "{lost} of a thousand: {lossy:?}");
        assert!(lossy.effort < 1.15, "{lost} of a thousand: {lossy:?}");
    }
}

#[test]
fn narrow_path_is_filled_without_overload() {
    for (rate, queue) in [(1e6, 100e3), (1e6, 20e3), (200e3, 50e3), (3e6, 500e3)] {
        let narrow = play(Line { rate, queue, ..LINE }, Duration::from_secs(5));
        assert!(narrow.rate > rate * 0.8, "{rate}, {queue}: {narrow:?}");
        assert!(narrow.effort < 1.15, "{rate}, {queue}: {narrow:?}");
    }
    // An unlimited queue is not filled: about twice the bandwidth-delay product is in flight.
    let deep = play(Line { rate: 1e6, queue: 1e9, ..LINE }, Duration::from_secs(25));
    assert!(deep.waited < 80e3, "{deep:?}");
}

#[test]
fn sending_resumes_after_an_outage() {
    let outage = (Duration::from_secs(2), Duration::from_secs(5));
    let outcome = play(Line { dead: outage, ..LINE }, Duration::from_secs(10));
    assert!(outcome.rate > 3e6, "{outcome:?}");
    assert!(outcome.effort < 1.15, "{outcome:?}");
}

#[test]
fn idle_sender_reaches_full_rate_later() {
    let outcome = play(Line { quiet: Duration::from_secs(3), ..LINE }, Duration::from_secs(6));
    assert!(outcome.rate > 3.5e6, "{outcome:?}");
    // Also with losses, which are a large share of the little data.
    let outcome = play(Line { quiet: Duration::from_secs(20), lost: 50, ..LINE }, Duration::from_secs(26));
    assert!(outcome.rate > 150e3, "{outcome:?}");
}

#[test]
fn retransmissions_of_smoltcp_are_dropped() {
    let mut recovery = Recovery::default();
    let now = Instant::now();
    let data = |number| packet(number, 1, ACK, 1000, &[], 100);
    let sent = |recovery: &mut Recovery, packet: Vec<u8>| {
        let mut outgoing: Vec<_> = recovery.leaving(packet, now).into_iter().collect();
        recovery.send(now, &mut outgoing);
        outgoing.len()
    };
    assert_eq!(sent(&mut recovery, packet(9, 0, SYN, 0, &[], 0)), 1);
    recovery.on_packet(&mut packet(0, 10, SYN | ACK, 1000, &[4, 2, 0, 0], 0), now);
    assert_eq!(sent(&mut recovery, data(10)), 1);
    assert_eq!(sent(&mut recovery, data(110)), 1);
    assert_eq!(sent(&mut recovery, data(10)), 0, "it is in flight");
    assert_eq!(sent(&mut recovery, data(60)), 0, "it is in flight");
    assert_eq!(sent(&mut recovery, data(160)), 1, "half of it is new");
    assert_eq!(sent(&mut recovery, packet(9, 1, ACK, 1000, &[], 1)), 1, "a keepalive");
    assert_eq!(sent(&mut recovery, packet(260, 1, ACK, 1000, &[], 0)), 1, "an acknowledgement");
    // Without window scaling, the window is unscaled.
    let mut reply = packet(1, 10, ACK, 700, &[], 0);
    recovery.on_packet(&mut reply, now);
    assert_eq!(Segment::read(&reply).expect("a segment").window, 700);
    // For a peer without selective acknowledgements, smoltcp retransmits.
    assert_eq!(sent(&mut recovery, packet(9, 0, SYN, 0, &[], 0)), 1);
    recovery.on_packet(&mut packet(0, 10, SYN | ACK, 1000, &[], 0), now);
    assert_eq!(sent(&mut recovery, data(10)), 1);
    assert_eq!(sent(&mut recovery, data(10)), 1);
    let mut outgoing = Vec::new();
    assert_eq!(recovery.send(now + Duration::from_mins(1), &mut outgoing), None);
    assert!(outgoing.is_empty());
}

proptest! {
    #[test]
    fn arbitrary_acknowledgements_are_harmless(
        replies in prop::collection::vec((0..4000_u32, any::<u16>(), prop::collection::vec(any::<u8>(), 0..10), 0..5000_u64), 1..50),
    ) {
        let mut recovery = Recovery::default();
        let mut now = Instant::now();
        recovery.leaving(packet(u32::MAX - 500, 0, SYN, 0, &[2, 4, 5, 100], 0), now);
        recovery.on_packet(&mut packet(0, u32::MAX - 499, SYN | ACK, 1000, &[4, 2, 3, 3, 255, 0, 0, 0], 0), now);
        let mut outgoing = Vec::new();
        let mut number = u32::MAX - 499;
        for (acknowledged, window, mut options, later) in replies {
            recovery.leaving(packet(number, 1, ACK, 1000, &[], 100), now);
            number = number.wrapping_add(100);
            now += Duration::from_millis(later);
            options.resize(options.len().next_multiple_of(4), 1);
            let message = acknowledged.wrapping_add(u32::MAX - 1000);
            recovery.on_packet(&mut packet(1, message, ACK, window, &options, 0), now);
            let due = recovery.send(now, &mut outgoing);
            prop_assert!(due.is_none_or(|due| due <= now + Duration::from_secs(11)));
            prop_assert!(outgoing.len() <= 50);
            outgoing.clear();
        }
    }
}
