//! WireGuard: boringtun's protocol over a UDP socket to the one address that a caller has vetted.
//!
//! One task has the socket and the protocol's state, and carries packets between them and the tunnel's stack. The socket is
//! connected, so that what comes from elsewhere is not even read; a server that moves is not followed.
//!
//! WireGuard's own timers take a dead server for dead after a minute and a half. A page would hang for as long, so this looks
//! more closely: what was sent and not answered for a second is followed by a handshake, which a live server answers at once
//! whatever the sites behind it do.

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

/// How long a handshake may go unanswered before another one begins.
const SHAKE_AGAIN: Duration = Duration::from_secs(1);

/// How long what was sent may go unanswered before the server is asked for a sign of life, and how often it then is.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);
const ASK_EVERY: Duration = Duration::from_millis(750);

/// When a server counts as silent: connections fail. It is asked on, and may come back.
const SILENT_AFTER: Duration = Duration::from_millis(2500);

/// When nobody waits for it any longer.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// How often timers are looked at: WireGuard's own, and, while something is unanswered, those above.
const IDLE_TICK: Duration = Duration::from_secs(1);
const ANXIOUS_TICK: Duration = Duration::from_millis(250);

/// Datagrams that are read before it is the stack's turn.
const BATCH: usize = 128;

/// The longest datagram there is.
const DATAGRAM: usize = 65_535;

/// What the kernel may keep in each direction, if it lets us.
const SOCKET_BUFFER: usize = 4 << 20;

impl Config {
    /// Opens the tunnel to a server, whose address the caller has vetted, and returns when they have shaken hands.
    ///
    /// One private key has one tunnel: a server sends everything to who was heard of last.
    ///
    /// # Errors
    /// When the server cannot be reached, or does not answer within this time.
    pub async fn open(&self, server: SocketAddr, within: Duration) -> Result<Tunnel, OpenError> {
        let mut wire = Wire::to(server, self).await.map_err(|_| OpenError::Unreachable)?;
        timeout(within, wire.shake_hands()).await.map_err(|_| OpenError::TimedOut)??;
        let (stack, link) = stack::new(&self.addresses, self.allowed.clone(), self.mtu);
        let tunnel = Tunnel::new(stack, &self.name_servers)?;
        tokio::spawn(wire.carry(link));
        Ok(tunnel)
    }
}

/// The socket and the protocol's state.
struct Wire {
    socket: UdpSocket,
    server: SocketAddr,
    tunnel: Tunn,
    datagram: Vec<u8>,
    scratch: Vec<u8>,
    /// Since when nothing that was sent has been answered.
    unanswered: Option<Instant>,
    /// When the server was asked for a sign of life.
    asked: Instant,
}

impl Wire {
    async fn to(server: SocketAddr, config: &Config) -> io::Result<Self> {
        let any = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
        socket.connect(server).await?;
        // As much as the machine allows: what does not fit is lost, and sent again.
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

    /// Asks for a handshake until it is answered.
    async fn shake_hands(&mut self) -> Result<(), OpenError> {
        let mut nothing = Vec::new();
        loop {
            self.ask().await;
            let again = Instant::now() + SHAKE_AGAIN;
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

    /// Carries packets until nobody wants any more, or the server is dead.
    async fn carry(mut self, link: Link) {
        let why = tokio::select! {
            why = self.run(&link) => why,
            () = link.abandoned() => {
                // Servers hear that their connections have ended.
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
        tracing::debug!(%why, "WireGuard tunnel ended");
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
                tick = tick.min(Instant::now() + ANXIOUS_TICK);
            }
            tokio::select! {
                _ = self.socket.readable() => {
                    // An error says that the server is not there: its silence will, unless it comes back.
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
                            link.fell_silent();
                        }
                        if silence >= SUSPECT_AFTER && self.asked.elapsed() >= ASK_EVERY {
                            self.ask().await;
                        }
                    }
                    None => {}
                }
            }
        }
    }

    /// Asks for a handshake, which the server answers if it lives.
    async fn ask(&mut self) {
        self.asked = Instant::now();
        if let TunnResult::WriteToNetwork(packet) = self.tunnel.format_handshake_initiation(&mut self.scratch, true) {
            let _ = self.socket.send(packet).await;
        }
    }

    /// Sends a packet. What the network does not take is lost, as packets are.
    async fn send(&mut self, packet: &[u8]) {
        self.unanswered.get_or_insert_with(Instant::now);
        if let TunnResult::WriteToNetwork(sealed) = self.tunnel.encapsulate(packet, &mut self.scratch) {
            let _ = self.socket.send(sealed).await;
        }
    }

    /// Reads what has come, up to a batch.
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
                        // What waited for the handshake.
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
