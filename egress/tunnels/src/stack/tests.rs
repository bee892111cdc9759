//! Tests of a stack with arbitrary packets from the tunnel.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use tokio::task::JoinHandle;

use super::*;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn stack() -> (Stack, Link) {
    new(&["10.0.0.2/24".parse().expect("a network")], vec!["10.0.0.0/24".parse().expect("a network")], 1420)
}

fn connecting(stack: &Stack) -> JoinHandle<Result<TcpStream, ConnectError>> {
    let stack = stack.clone();
    tokio::spawn(async move { stack.connect(SocketAddr::new(OTHER.into(), 80), Duration::from_secs(5)).await })
}

async fn first(link: &Link) -> Vec<u8> {
    let mut outgoing = Vec::new();
    while outgoing.is_empty() {
        link.woken().await;
        link.turn(&mut outgoing);
    }
    outgoing.remove(0)
}

/// Acknowledges the number of the stack's packet.
fn reply(to: &[u8], from: Ipv4Addr, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = 40 + options.len() + payload.len();
    let mut packet = vec![0; 40];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&u16::try_from(length).expect("a length").to_be_bytes());
    packet[8] = 64;
    packet[9] = 6;
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&OWN.octets());
    packet[20..22].copy_from_slice(&to[22..24]);
    packet[22..24].copy_from_slice(&to[20..22]);
    let number = u32::from_be_bytes(to[24..28].try_into().expect("a number")).wrapping_add(1);
    packet[28..32].copy_from_slice(&number.to_be_bytes());
    packet[32] = u8::try_from((20 + options.len()) / 4).expect("a length") << 4;
    packet[33] = flags;
    packet[34..36].copy_from_slice(&u16::MAX.to_be_bytes());
    packet.extend(options);
    packet.extend(payload);
    packet
}

#[tokio::test]
async fn destinations_and_sources_outside_the_routes_are_rejected() {
    let (stack, link) = stack();
    for address in ["10.0.1.1:80", "8.8.8.8:53", "127.0.0.1:80", "[2001:db8::1]:80", "10.0.0.2:80", "224.0.0.1:80"] {
        let refused = stack.connect(address.parse().expect("an address"), Duration::from_secs(5)).await;
        assert_eq!(refused.err(), Some(ConnectError::Unreachable), "{address}");
    }
    let mut outgoing = Vec::new();
    link.turn(&mut outgoing);
    assert!(outgoing.is_empty(), "no packet is sent");
    // A packet from outside the routes is ignored.
    let connecting = connecting(&stack);
    let greeting = first(&link).await;
    link.deliver(&mut vec![reply(&greeting, Ipv4Addr::new(8, 8, 8, 8), 0x14, &[], &[])]);
    link.turn(&mut outgoing);
    assert!(!connecting.is_finished());
    link.deliver(&mut vec![reply(&greeting, OTHER, 0x14, &[], &[])]);
    link.turn(&mut outgoing);
    assert_eq!(connecting.await.expect("no panic").err(), Some(ConnectError::Refused));
}

#[tokio::test]
async fn link_reports_silence_recovery_and_end() {
    let (stack, link) = stack();
    let waiting = connecting(&stack);
    first(&link).await;
    link.mark_unresponsive();
    stack.wait_until_unresponsive().await;
    assert_eq!(connecting(&stack).await.expect("no panic").err(), Some(ConnectError::TunnelDead));
    link.answered();
    assert!(!waiting.is_finished(), "it answers again");
    // Dropping the link ends the tunnel, too.
    drop(link);
    assert_eq!(stack.closed().await, Closed::Broken);
    assert!(waiting.await.expect("no panic").is_err());
    assert_eq!(connecting(&stack).await.expect("no panic").err(), Some(ConnectError::TunnelDead));
}

#[tokio::test]
async fn dropping_the_last_stack_notifies_the_link() {
    let (stack, link) = stack();
    let sockets = stack.sockets();
    let other = stack.clone();
    drop(stack);
    assert!(tokio::time::timeout(Duration::from_millis(20), link.abandoned()).await.is_err());
    drop(other);
    link.abandoned().await;
    drop(sockets);
}

#[tokio::test]
async fn number_of_connections_is_limited() {
    let (stack, link) = stack();
    let mut outgoing = Vec::new();
    let many: Vec<_> = (0..CONNECTIONS + 10).map(|_| connecting(&stack)).collect();
    while link.shared.places.available_permits() > 0 {
        link.woken().await;
        link.turn(&mut outgoing);
        assert!(outgoing.len() <= 2 * BURST);
    }
    assert_eq!(link.shared.state().connections, CONNECTIONS);
    for connecting in many {
        connecting.abort();
        let _ = connecting.await;
    }
    // They are reset, and their slots are released.
    for _ in 0..10 {
        link.turn(&mut outgoing);
    }
    assert_eq!(link.shared.places.available_permits(), CONNECTIONS);
    assert!(link.shared.state().ports.is_empty());
}

#[tokio::test]
async fn flood_of_packets_is_dropped() {
    let (stack, link) = stack();
    let connecting = connecting(&stack);
    let greeting = first(&link).await;
    let mut outgoing = Vec::new();
    for _ in 0..5 {
        // Unsolicited packets: each is answered by at most one short reset.
        let mut flood = vec![reply(&[0; 40], OTHER, 0x10, &[], &[0; 1300]); 2000];
        link.deliver(&mut flood);
        assert!(link.shared.state().device.inbound.len() <= BACKLOG);
        link.turn(&mut outgoing);
        assert!(outgoing.len() <= BACKLOG + BURST);
        // The SYN may be repeated meanwhile.
        let is_short = |packet: &Vec<u8>| packet.len() <= 40 || packet[33] == 2;
        assert!(outgoing.iter().all(is_short), "answers are not longer than the packets");
        assert!(link.shared.state().device.spare.len() <= BURST);
    }
    link.deliver(&mut vec![reply(&greeting, OTHER, 0x12, &[], &[])]);
    link.turn(&mut outgoing);
    connecting.await.expect("no panic").expect("a connection despite the flood");
}

proptest! {
    #[test]
    fn arbitrary_packets_are_harmless(
        packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..120), any::<bool>(), any::<[u8; 3]>()), 1..60),
        options in prop::collection::vec(any::<u8>(), 0..10),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (stack, link) = stack();
            let connecting = connecting(&stack);
            let greeting = first(&link).await;
            let mut outgoing = Vec::new();
            let mut padded = [options, vec![3, 3, 7, 4, 2, 0]].concat();
            padded.resize(padded.len().next_multiple_of(4), 0);
            link.deliver(&mut vec![reply(&greeting, OTHER, 0x12, &padded, &[])]);
            link.turn(&mut outgoing);
            for (bytes, near, [flags, words, number]) in packets {
                let mut packet = bytes;
                if near {
                    // A packet of the connection with random header fields and payload.
                    let options: Vec<u8> = packet.iter().copied().cycle().take(usize::from(words % 11) * 4).collect();
                    let payload = if packet.is_empty() { Vec::new() } else { packet.clone() };
                    packet = reply(&greeting, OTHER, flags, if packet.is_empty() { &[] } else { &options }, &payload);
                    packet[27] = number;
                    packet[31] = packet[31].wrapping_add(words);
                }
                link.deliver(&mut vec![packet]);
                link.turn(&mut outgoing);
            }
            connecting.abort();
        });
    }
}
