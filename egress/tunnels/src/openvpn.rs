//! OpenVPN as a client, in process: its control channel, TLS in it, and its data channel over a UDP socket or a TCP connection
//! to the one address that a caller has vetted.
//!
//! From the outside in: `carrier` has the socket; `wrapping` has what stands around control packets (`tls-auth`, `tls-crypt`,
//! `tls-crypt-v2`); `reliable` puts them in order; `generation` speaks TLS in them and agrees on keys; `data` seals packets with
//! these; `session` is all of that without the socket, and has new keys agreed while the old ones are used. `profile` reads
//! what a customer has written, and `pushed` what a server sets.
//!
//! What is spoken is what OpenVPN speaks today: TLS 1.2 or 1.3 with the profile's own authority, and AEAD ciphers. There is no
//! compression, no cipher that only encrypts, no key that never changes, and nothing that would fall back to them. A profile
//! that asks for one is refused, and so is a server that sets one.
//!
//! OpenVPN takes a dead server for dead after minutes, because nothing it sends has to be answered. Control packets have: one
//! that the server has had before is confirmed at once by a server that lives, and so it is asked for a sign of life.

mod carrier;
mod data;
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

/// How often a server is asked for what it sets. Most set it unasked.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// How long what was sent may go unanswered before the server is asked for a sign of life, and how often it then is.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);
const ASK_EVERY: Duration = Duration::from_millis(500);

/// When a server counts as silent: connections fail. It is asked on, and may come back.
const SILENT_AFTER: Duration = Duration::from_millis(2500);

/// When nobody waits for it any longer.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// How often OpenVPN says that it is there, and how long it hears nothing, when nobody sets it.
const PING: Duration = Duration::from_secs(10);
const PING_RESTART: Duration = Duration::from_mins(2);

/// How often timers are looked at, and how often while something is unanswered.
const IDLE_TICK: Duration = Duration::from_secs(1);
const ANXIOUS_TICK: Duration = Duration::from_millis(250);

/// How long the last words of a tunnel may take.
const PART_WITHIN: Duration = Duration::from_secs(1);

/// Packets that are read before it is the stack's turn.
const BATCH: usize = 128;

/// Why a tunnel does not come about, or ends.
#[derive(Debug, Clone, Copy)]
enum Failure {
    /// Credentials or keys are not taken.
    Refused,
    /// The server has ended it.
    Ended,
    Protocol(&'static str),
    /// What carries it has ended.
    Broken,
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused => Self::Refused,
            Failure::Ended => Self::Protocol("it ends the tunnel at once"),
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

/// What a client tells a server of itself, whenever keys are agreed.
struct Offer {
    tls: Arc<ClientConfig>,
    credentials: Option<Credentials>,
    /// How it is set up, which servers compare with themselves and write to their logs.
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
        // 2: packets with a peer's number; 4: what is set needs no asking; 8: keys exported from TLS; 128: ends are told on the
        // control channel. Servers know what a client can do by the version, too: this is what 2.6 can.
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

    /// From now on this is said instead of the password.
    fn take_token(&mut self, token: &str) {
        if let Some(credentials) = &mut self.credentials {
            credentials.password = Zeroizing::new(token.to_owned());
        }
    }
}

impl Profile {
    /// Opens the tunnel to a server, whose address the caller has vetted, and returns when it has set what is to be set.
    ///
    /// # Errors
    /// When the server cannot be reached, does not take the keys or credentials, does not answer within this time, or sets what
    /// cannot be kept to. A tunnel without a name server is none.
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
        // Everything of a family that the tunnel has an address of goes into it: there is no other way.
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
        let mut entering = Handshake::new(peer)?;
        let options = match come_in(&mut carrier, &mut entering).await {
            Ok(options) => options,
            Err(failure) => {
                // TLS may have a word on it for the server.
                let mut last = Vec::new();
                let _ = entering.drive(&mut last);
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
        let mut session = entering.enter(terms)?;
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
            heard: now,
            unanswered: None,
            asked: now,
        };
        Ok((wire, pushed))
    }
}

/// Comes in, and returns what the server sets.
async fn come_in(carrier: &mut Carrier, entering: &mut Handshake) -> Result<Zeroizing<String>, Failure> {
    let mut out = Vec::new();
    let mut ask_at = None;
    loop {
        if entering.is_agreed() && ask_at.is_none_or(|at| at <= Instant::now()) {
            entering.ask_for_options()?;
            ask_at = Some(Instant::now() + ASK_AGAIN);
        }
        entering.drive(&mut out)?;
        send_all(carrier, &out).await?;
        out.clear();
        let due = entering.next_due().into_iter().chain(ask_at).min().unwrap_or_else(|| Instant::now() + IDLE_TICK);
        tokio::select! {
            readable = carrier.readable() => readable.map_err(|_| Failure::Broken)?,
            () = sleep_until(due) => {}
        }
        for _ in 0..BATCH {
            let Some(packet) = carrier.receive().map_err(|_| Failure::Broken)? else { break };
            entering.receive(carrier.bytes(packet))?;
        }
        // Whatever comes, others have their turn.
        yield_now().await;
        if let Some(options) = entering.options()? {
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

/// Why a connection is no more: its server has ended it, or the way to it is gone.
fn end_of(error: &io::Error) -> Closed {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Closed::Ended,
        _ => Closed::Broken,
    }
}

/// An open tunnel's socket and protocol.
struct Wire {
    carrier: Carrier,
    session: Session,
    ping: Duration,
    ping_restart: Duration,
    /// When anything was sent that the server takes for a sign of life.
    sent: Instant,
    /// When anything genuine came.
    heard: Instant,
    /// Since when nothing that was sent has been answered.
    unanswered: Option<Instant>,
    /// When the server was asked for a sign of life.
    asked: Instant,
}

impl Wire {
    /// Carries packets until nobody wants any more, or the server is dead.
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
        tracing::debug!(%why, "OpenVPN tunnel ended");
        link.close(why);
    }

    async fn run(&mut self, link: &Link) -> Result<Infallible, Closed> {
        let (mut outgoing, mut incoming, mut control, mut sealed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // Whether this is a server that answers is known before it matters.
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
                tick = tick.min(Instant::now() + ANXIOUS_TICK);
            }
            let due = self.session.next_due().into_iter().chain([Instant::now() + delay, tick]).min().unwrap_or(tick);
            tokio::select! {
                _ = self.carrier.readable() => {
                    if self.receive(&mut incoming)? == BATCH {
                        // Whatever comes, others have their turn.
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
                self.look_at_the_clock(link, &mut sealed).await?;
            }
        }
    }

    /// Reads what has come, up to a batch, and counts it.
    fn receive(&mut self, incoming: &mut Vec<Vec<u8>>) -> Result<usize, Closed> {
        for count in 0..BATCH {
            let packet = match self.carrier.receive() {
                Ok(Some(packet)) => packet,
                Ok(None) => return Ok(count),
                Err(error) if self.carrier.is_connection() => return Err(end_of(&error)),
                // Somebody says that nobody is there. The server's silence will, unless it is there.
                Err(_) => {
                    self.unanswered.get_or_insert_with(Instant::now);
                    return Ok(count);
                }
            };
            if self.session.receive(self.carrier.bytes(packet), incoming)? {
                self.heard = Instant::now();
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

    /// Says that we are there, asks whether the server is, and gives it up.
    async fn look_at_the_clock(&mut self, link: &Link, sealed: &mut Vec<u8>) -> Result<(), Closed> {
        if self.sent.elapsed() >= self.ping {
            self.session.ping(sealed)?;
            self.send(sealed).await?;
        }
        if self.heard.elapsed() >= self.ping_restart {
            return Err(Closed::Silent);
        }
        let Some(silence) = self.unanswered.map(|since| since.elapsed()).filter(|_| self.session.answers()) else {
            return Ok(());
        };
        if silence >= DEAD_AFTER {
            return Err(Closed::Silent);
        }
        if silence >= SILENT_AFTER {
            link.fell_silent();
        }
        if silence >= SUSPECT_AFTER && self.asked.elapsed() >= ASK_EVERY {
            self.asked = Instant::now();
            let ask = self.session.ask();
            self.send(&ask).await?;
            self.carrier.flush().await.map_err(|error| end_of(&error))?;
        }
        Ok(())
    }

    /// Servers behind the tunnel hear that their connections have ended, and the tunnel's own that nobody is there any more.
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
