//! In-process OpenVPN client: the control channel with TLS, and the data channel, over a UDP socket or a TCP connection. It
//! connects only to the one address that the caller has checked.
//!
//! Modules, from the socket inward:
//!
//! - `carrier` owns the socket.
//! - `wrapping` protects control packets (`tls-auth`, `tls-crypt`, `tls-crypt-v2`).
//! - `reliable` orders control packets.
//! - `generation` runs TLS in them and agrees on keys.
//! - `data` seals data packets with these keys.
//! - `session` combines these without the socket, and renews keys while the old ones stay in use.
//! - `profile` parses a customer's profile, and `pushed` the options that a server sets.
//!
//! Only the current protocol: TLS 1.2 or 1.3 with the profile's own certificate authority, and AEAD ciphers. A profile
//! or a server that requires compression, unauthenticated ciphers or static keys is rejected.
//!
//! Stock OpenVPN detects a dead server only after minutes, because its data packets need no answer. A live server
//! confirms each control packet immediately, even a repeated one, and this client uses that to check it.

mod carrier;
mod data;
mod dns;
mod filters;
mod generation;
mod keys;
mod packets;
mod profile;
mod pushed;
mod reliable;
mod replay;
mod session;
mod tls;
mod wrapping;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rustls::ClientConfig;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};
use zeroize::Zeroizing;

pub use profile::Profile;

use self::carrier::Carrier;
use self::generation::Peer;
use self::profile::Transport;
use self::pushed::PushedOptions;
use self::session::{Handshake, Session, Terms};
use self::wrapping::Wrapper;
use crate::stack::{self, Link};
use crate::{Closed, Credentials, OpenError, Tunnel};

/// Most servers send their options unrequested.
const REQUEST_RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Silence after which the server is checked, and the interval of the checks.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Silence after which connections fail. Checks continue, and the tunnel recovers if the server answers.
const SILENT_AFTER: Duration = Duration::from_millis(2500);

/// Silence after which the tunnel ends.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// Default of `ping` and of `ping-restart`.
const PING: Duration = Duration::from_secs(10);
const PING_RESTART: Duration = Duration::from_mins(2);

/// Interval of timer checks, and the interval while an answer is outstanding.
const IDLE_TICK: Duration = Duration::from_secs(1);
const FAST_TICK: Duration = Duration::from_millis(250);

const PART_WITHIN: Duration = Duration::from_secs(1);

const BATCH: usize = 128;

#[derive(Debug, Clone, Copy)]
enum Failure {
    Refused,
    Ended,
    Protocol(&'static str),
    Broken,
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused => Self::Refused,
            Failure::Ended => Self::Protocol("it ended the tunnel immediately"),
            Failure::Protocol(what) => Self::Protocol(what),
            Failure::Broken => Self::Unreachable,
        }
    }
}

impl From<Failure> for Closed {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused | Failure::Ended | Failure::Protocol(_) => Self::Ended,
            Failure::Broken => Self::Broken,
        }
    }
}

struct Offer {
    tls: Arc<ClientConfig>,
    credentials: Option<Credentials>,
    /// Option string, which servers compare with their own and log.
    options: String,
    abilities: String,
}

impl Offer {
    fn new(profile: &Profile, credentials: Option<Credentials>) -> Self {
        let names: Vec<&str> = profile.ciphers.iter().map(|cipher| cipher.name()).collect();
        let (first, names) = (names[0], names.join(":"));
        let carried = match profile.transport {
            Transport::Udp => "UDPv4",
            Transport::Tcp => "TCPv4_CLIENT",
        };
        // IV_PROTO bits: 2 data packets with a peer id; 4 the options need no request; 8 keys exported from TLS; 128 exit
        // notices on the control channel. Servers also infer features from the version: these are the features of 2.6.
        let abilities = format!(
            "IV_VER=2.6.0\nIV_PLAT=linux\nIV_TCPNL=1\nIV_MTU=1500\nIV_NCP=2\nIV_CIPHERS={names}\nIV_PROTO=142\n"
        );
        let options = format!(
            "V4,dev-type tun,link-mtu 1549,tun-mtu 1500,proto {carried},cipher {first},auth [null-digest],keysize 256,key-method 2,tls-client"
        );
        Self {
            tls: Arc::clone(&profile.tls),
            credentials: credentials.filter(|_| profile.wants_credentials),
            options,
            abilities,
        }
    }

    fn take_token(&mut self, token: &str) {
        if let Some(credentials) = &mut self.credentials {
            credentials.password = Zeroizing::new(token.to_owned());
        }
    }
}

impl Profile {
    /// The caller has checked the address. Returns when the server has set its options.
    ///
    /// A tunnel without a name server is an error.
    pub async fn open(
        &self,
        server: SocketAddr,
        credentials: Option<Credentials>,
        within: Duration,
    ) -> Result<Tunnel, OpenError> {
        if self.wants_credentials && credentials.is_none() {
            return Err(OpenError::Refused);
        }
        let opened = timeout(within, Box::pin(self.enter(server, credentials))).await;
        let (wire, pushed) = opened.map_err(|_| OpenError::TimedOut)??;
        let v4 = pushed.v4.map(|own| IpNet::V4(own.into()));
        let v6 = pushed.v6.map(|own| IpNet::V6(own.into()));
        let addresses: Vec<IpNet> = v4.into_iter().chain(v6).collect();
        // All traffic of an address family goes through the tunnel if the tunnel has an address of that family; otherwise it is
        // unreachable.
        let everything = addresses.iter().map(|own| match own {
            IpNet::V4(_) => IpNet::V4(Ipv4Net::default()),
            IpNet::V6(_) => IpNet::V6(Ipv6Net::default()),
        });
        let mtu = pushed.mtu.map_or(self.mtu, |mtu| mtu.clamp(576, self.mtu));
        let (stack, link) = stack::new(&addresses, everything.collect(), mtu);
        let tunnel = Tunnel::new(stack, &pushed.dns)?;
        tokio::spawn(wire.carry(link));
        Ok(tunnel)
    }

    async fn enter(
        &self,
        server: SocketAddr,
        credentials: Option<Credentials>,
    ) -> Result<(Wire, PushedOptions), OpenError> {
        let mut carrier = Carrier::to(server, self.transport).await.map_err(|_| OpenError::Unreachable)?;
        let peer = Peer::new(Wrapper::new(self.guard.clone()), Offer::new(self, credentials));
        let mut handshake = Handshake::new(peer)?;
        let options = match negotiate(&mut carrier, &mut handshake).await {
            Ok(options) => options,
            Err(failure) => {
                // TLS may have an alert for the server.
                let mut last = Vec::new();
                let _ = handshake.drive(&mut last);
                let _ = send_all(&mut carrier, &last).await;
                return Err(failure.into());
            }
        };
        let mut pushed = PushedOptions::read(&options, self)?;
        if pushed.v4.is_none() && pushed.v6.is_none() {
            return Err(OpenError::Protocol("it sets no address"));
        }
        if pushed.dns.is_empty() {
            return Err(OpenError::Protocol("it sets no name server, and the profile has none"));
        }
        let terms = Terms {
            format: pushed.format,
            exports_keys: pushed.exports_keys,
            exit_by_control: pushed.exit_by_control,
            renewal: self.renewal,
        };
        let mut session = handshake.enter(terms)?;
        if let Some(token) = pushed.token.take() {
            session.take_token(&token);
        }
        let now = Instant::now();
        let positive = |duration: Option<Duration>, otherwise| {
            duration.filter(|duration| !duration.is_zero()).unwrap_or(otherwise)
        };
        let wire = Wire {
            carrier,
            session,
            ping: positive(pushed.ping, PING),
            ping_restart: positive(pushed.ping_restart, PING_RESTART),
            sent: now,
            last_received: now,
            unanswered: None,
            asked: now,
        };
        Ok((wire, pushed))
    }
}

async fn negotiate(carrier: &mut Carrier, handshake: &mut Handshake) -> Result<Zeroizing<String>, Failure> {
    let mut out = Vec::new();
    let mut ask_at = None;
    loop {
        if handshake.is_agreed() && ask_at.is_none_or(|at| at <= Instant::now()) {
            handshake.ask_for_options()?;
            ask_at = Some(Instant::now() + REQUEST_RETRY_PAUSE);
        }
        handshake.drive(&mut out)?;
        send_all(carrier, &out).await?;
        out.clear();
        let due = handshake.next_due().into_iter().chain(ask_at).min().unwrap_or_else(|| Instant::now() + IDLE_TICK);
        tokio::select! {
            readable = carrier.readable() => readable.map_err(|_| Failure::Broken)?,
            () = sleep_until(due) => {}
        }
        for _ in 0..BATCH {
            let Some(packet) = carrier.receive().map_err(|_| Failure::Broken)? else { break };
            handshake.receive(carrier.bytes(packet))?;
        }
        // Lets other tasks run even if packets keep arriving.
        yield_now().await;
        if let Some(options) = handshake.options()? {
            return Ok(options);
        }
    }
}

async fn send_all(carrier: &mut Carrier, packets: &[Vec<u8>]) -> Result<(), Failure> {
    for packet in packets {
        carrier.send(packet).await.map_err(|_| Failure::Broken)?;
    }
    carrier.flush().await.map_err(|_| Failure::Broken)
}

/// Reason for the end of a connection: the server ended it, or the route to the server was lost.
fn end_of(error: &io::Error) -> Closed {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Closed::Ended,
        _ => Closed::Broken,
    }
}

struct Wire {
    carrier: Carrier,
    session: Session,
    ping: Duration,
    ping_restart: Duration,
    sent: Instant,
    /// Time of the last authentic packet from the server.
    last_received: Instant,
    /// Time of the oldest packet that is still unanswered.
    unanswered: Option<Instant>,
    asked: Instant,
}

impl Wire {
    /// Carries packets until the tunnel is dropped or the server is dead.
    async fn carry(mut self, link: Link) {
        let why = tokio::select! {
            ended = self.run(&link) => {
                let Err(why) = ended;
                why
            }
            () = link.abandoned() => {
                let _ = timeout(PART_WITHIN, self.part(&link)).await;
                Closed::Ended
            }
        };
        tracing::debug!(reason = %why, "OpenVPN tunnel ended");
        link.close(why);
    }

    async fn run(&mut self, link: &Link) -> Result<Infallible, Closed> {
        let (mut outgoing, mut incoming, mut control, mut sealed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // A first check shows whether this server answers checks, before that matters.
        control.push(self.session.ask());
        let mut tick = Instant::now() + IDLE_TICK;
        loop {
            let delay = link.turn(&mut outgoing);
            for packet in &outgoing {
                self.session.seal(packet, &mut sealed)?;
                self.send(&sealed).await?;
                self.unanswered.get_or_insert_with(Instant::now);
            }
            self.session.drive(&mut control)?;
            for packet in control.drain(..) {
                self.send(&packet).await?;
            }
            self.carrier.flush().await.map_err(|error| end_of(&error))?;
            if self.unanswered.is_some() {
                tick = tick.min(Instant::now() + FAST_TICK);
            }
            let due = self.session.next_due().into_iter().chain([Instant::now() + delay, tick]).min().unwrap_or(tick);
            tokio::select! {
                _ = self.carrier.readable() => {
                    if self.receive(&mut incoming)? == BATCH {
                        // Lets other tasks run even if packets keep arriving.
                        yield_now().await;
                    }
                    link.deliver(&mut incoming);
                    if self.unanswered.is_none() {
                        link.answered();
                    }
                }
                () = link.woken() => {}
                () = sleep_until(due) => {}
            }
            if tick <= Instant::now() {
                tick = Instant::now() + IDLE_TICK;
                self.check_timers(link, &mut sealed).await?;
            }
        }
    }

    /// Reads and counts the packets that have arrived, up to one batch.
    fn receive(&mut self, incoming: &mut Vec<Vec<u8>>) -> Result<usize, Closed> {
        for count in 0..BATCH {
            let packet = match self.carrier.receive() {
                Ok(Some(packet)) => packet,
                Ok(None) => return Ok(count),
                Err(error) if self.carrier.is_connection() => return Err(end_of(&error)),
                // An ICMP error, which may be forged. The server is checked instead and ends the tunnel only if it does not
                // answer.
                Err(_) => {
                    self.unanswered.get_or_insert_with(Instant::now);
                    return Ok(count);
                }
            };
            if self.session.receive(self.carrier.bytes(packet), incoming)? {
                self.last_received = Instant::now();
                self.unanswered = None;
            }
        }
        Ok(BATCH)
    }

    async fn send(&mut self, packet: &[u8]) -> Result<(), Closed> {
        self.sent = Instant::now();
        match self.carrier.send(packet).await {
            Err(error) if self.carrier.is_connection() => Err(end_of(&error)),
            Err(_) => {
                self.unanswered.get_or_insert_with(Instant::now);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Sends keepalives, checks whether the server is alive, and ends the tunnel if it is not.
    async fn check_timers(&mut self, link: &Link, sealed: &mut Vec<u8>) -> Result<(), Closed> {
        if self.sent.elapsed() >= self.ping {
            self.session.ping(sealed)?;
            self.send(sealed).await?;
        }
        if self.last_received.elapsed() >= self.ping_restart {
            return Err(Closed::Silent);
        }
        let Some(silence) = self.unanswered.map(|since| since.elapsed()).filter(|_| self.session.answers()) else {
            return Ok(());
        };
        if silence >= DEAD_AFTER {
            return Err(Closed::Silent);
        }
        if silence >= SILENT_AFTER {
            link.mark_unresponsive();
        }
        if silence >= SUSPECT_AFTER && self.asked.elapsed() >= PROBE_INTERVAL {
            self.asked = Instant::now();
            let ask = self.session.ask();
            self.send(&ask).await?;
            self.carrier.flush().await.map_err(|error| end_of(&error))?;
        }
        Ok(())
    }

    /// Closes the connections to servers behind the tunnel, and sends an exit notice to the tunnel's server.
    async fn part(&mut self, link: &Link) -> Result<(), Failure> {
        let (mut last, mut out) = (Vec::new(), Vec::new());
        link.turn(&mut last);
        for packet in &last {
            let mut sealed = Vec::new();
            self.session.seal(packet, &mut sealed)?;
            out.push(sealed);
        }
        self.session.exit(&mut out);
        send_all(&mut self.carrier, &out).await
    }
}
