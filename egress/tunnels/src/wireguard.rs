//! WireGuard: boringtun's protocol over a UDP socket, to the one address that the caller has checked.
//!
//! One task carries packets between the socket and the tunnel's stack. The socket is connected, so packets from other
//! addresses are not received; a server that changes its address is not followed.
//!
//! WireGuard's own timers detect a dead server after 90 s, during which a page would hang. So a handshake starts when a
//! packet is unanswered for 1 s: a live server answers it immediately, whatever the sites behind it do.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

pub use config::Config;

use crate::stack::{self, Link};
use crate::{Closed, OpenError, Tunnel};

mod config;

/// Interval of handshake attempts while opening.
const HANDSHAKE_RETRY: Duration = Duration::from_secs(1);

/// Silence after which the server is checked, and the interval of the checks.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_millis(750);

/// Silence after which connections fail. Checks continue, and the tunnel recovers if the server answers.
const SILENT_AFTER: Duration = Duration::from_millis(2500);

/// Silence after which the tunnel ends.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// Interval of timer checks, and the interval while an answer is outstanding.
const IDLE_TICK: Duration = Duration::from_secs(1);
const FAST_TICK: Duration = Duration::from_millis(250);

const BATCH: usize = 128;

const DATAGRAM: usize = 65_535;

const SOCKET_BUFFER: usize = 4 << 20;

impl Config {
    /// The caller has checked the address. Returns after the handshake.
    ///
    /// Each private key supports only one open tunnel: a server sends all packets to the address it last heard from.
    pub async fn open(&self, server: SocketAddr, within: Duration) -> Result<Tunnel, OpenError> {
        let mut wire = Wire::to(server, self).await.map_err(|_| OpenError::Unreachable)?;
        timeout(within, wire.handshake()).await.map_err(|_| OpenError::TimedOut)??;
        let (stack, link) = stack::new(&self.addresses, self.allowed.clone(), self.mtu);
        let tunnel = Tunnel::new(stack, &self.name_servers)?;
        tokio::spawn(wire.carry(link));
        Ok(tunnel)
    }
}

struct Wire {
    socket: UdpSocket,
    server: SocketAddr,
    tunnel: Tunn,
    datagram: Vec<u8>,
    scratch: Vec<u8>,
    /// Time of the oldest packet that is still unanswered.
    unanswered: Option<Instant>,
    asked: Instant,
}

impl Wire {
    async fn to(server: SocketAddr, config: &Config) -> io::Result<Self> {
        let any = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
        socket.connect(server).await?;
        // As large as the machine allows: packets that do not fit are lost and sent again.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BUFFER);
        let _ = setsockopt(&socket, sockopt::SndBuf, &SOCKET_BUFFER);
        let tunnel = Tunn::new(
            StaticSecret::from(*config.private_key),
            PublicKey::from(config.public_key),
            config.preshared_key.as_deref().copied(),
            config.keepalive,
            rand::random::<u32>() >> 8,
            None,
        );
        Ok(Self {
            socket,
            server,
            tunnel,
            datagram: vec![0; DATAGRAM],
            scratch: vec![0; DATAGRAM],
            unanswered: None,
            asked: Instant::now(),
        })
    }

    async fn handshake(&mut self) -> Result<(), OpenError> {
        let mut nothing = Vec::new();
        loop {
            self.ask().await;
            let again = Instant::now() + HANDSHAKE_RETRY;
            while self.tunnel.time_since_last_handshake().is_none() {
                let Ok(_) = timeout_at(again, self.socket.ready(Interest::READABLE | Interest::ERROR)).await else {
                    break;
                };
                let heard = self.receive(&mut nothing);
                if heard.is_err() || !matches!(self.socket.take_error(), Ok(None)) {
                    return Err(OpenError::Unreachable);
                }
            }
            if self.tunnel.time_since_last_handshake().is_some() {
                return Ok(());
            }
        }
    }

    async fn carry(mut self, link: Link) {
        let why = tokio::select! {
            why = self.run(&link) => why,
            () = link.abandoned() => {
                // Closes the connections to servers behind the tunnel.
                let mut last = Vec::new();
                link.turn(&mut last);
                for packet in &last {
                    if let TunnResult::WriteToNetwork(sealed) = self.tunnel.encapsulate(packet, &mut self.scratch) {
                        let _ = self.socket.try_send(sealed);
                    }
                }
                Closed::Ended
            }
        };
        tracing::debug!(reason = %why, "WireGuard tunnel ended");
        link.close(why);
    }

    async fn run(&mut self, link: &Link) -> Closed {
        let (mut outgoing, mut incoming) = (Vec::new(), Vec::new());
        let mut tick = Instant::now() + IDLE_TICK;
        loop {
            let delay = link.turn(&mut outgoing);
            for packet in &outgoing {
                self.send(packet).await;
            }
            if self.unanswered.is_some() {
                tick = tick.min(Instant::now() + FAST_TICK);
            }
            tokio::select! {
                _ = self.socket.readable() => {
                    // An ICMP error is ignored: if the server is gone, the liveness checks detect it.
                    let _ = self.receive(&mut incoming);
                    if !incoming.is_empty() {
                        link.deliver(&mut incoming);
                    }
                    if self.unanswered.is_none() {
                        link.answered();
                    }
                }
                () = link.woken() => {}
                () = sleep_until((Instant::now() + delay).min(tick)) => {}
            }
            if tick <= Instant::now() {
                tick = Instant::now() + IDLE_TICK;
                if let TunnResult::WriteToNetwork(packet) = self.tunnel.update_timers(&mut self.scratch) {
                    let _ = self.socket.send(packet).await;
                }
                match self.unanswered.map(|since| since.elapsed()) {
                    Some(silence) if silence >= DEAD_AFTER => return Closed::Silent,
                    Some(silence) => {
                        if silence >= SILENT_AFTER {
                            link.mark_unresponsive();
                        }
                        if silence >= SUSPECT_AFTER && self.asked.elapsed() >= PROBE_INTERVAL {
                            self.ask().await;
                        }
                    }
                    None => {}
                }
            }
        }
    }

    async fn ask(&mut self) {
        self.asked = Instant::now();
        if let TunnResult::WriteToNetwork(packet) = self.tunnel.format_handshake_initiation(&mut self.scratch, true) {
            let _ = self.socket.send(packet).await;
        }
    }

    async fn send(&mut self, packet: &[u8]) {
        self.unanswered.get_or_insert_with(Instant::now);
        if let TunnResult::WriteToNetwork(sealed) = self.tunnel.encapsulate(packet, &mut self.scratch) {
            let _ = self.socket.send(sealed).await;
        }
    }

    fn receive(&mut self, incoming: &mut Vec<Vec<u8>>) -> io::Result<()> {
        for _ in 0..BATCH {
            let length = match self.socket.try_recv(&mut self.datagram) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let Self { tunnel, socket, datagram, scratch, .. } = self;
            let mut answered = false;
            let mut result = tunnel.decapsulate(Some(self.server.ip()), &datagram[..length], scratch);
            loop {
                match result {
                    TunnResult::WriteToNetwork(packet) => {
                        answered = true;
                        let _ = socket.try_send(packet);
                        // Packets that were queued during the handshake.
                        result = tunnel.decapsulate(None, &[], scratch);
                        continue;
                    }
                    TunnResult::WriteToTunnelV4(packet, _) | TunnResult::WriteToTunnelV6(packet, _) => {
                        answered = true;
                        incoming.push(packet.to_vec());
                    }
                    TunnResult::Done => answered = true,
                    TunnResult::Err(_) => {}
                }
                break;
            }
            if answered {
                self.unanswered = None;
            }
        }
        Ok(())
    }
}
