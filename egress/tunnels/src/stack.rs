//! A TCP/IP stack over a packet tunnel: smoltcp, with sockets that implement tokio's traits.
//!
//! [`Stack`] opens connections. [`Link`] belongs to the one task that carries packets: it delivers received packets,
//! runs a [`turn`](Link::turn), sends the resulting packets, and sleeps until the next event. All state is behind one
//! lock, which is never held across an await.
//!
//! `recovery` adds loss recovery that smoltcp lacks.
//!
//! The stack dials no destination outside the tunnel's routes, and drops packets with a source address outside them.
//! All resources are bounded: connections, their buffers (smaller with more connections), and the packet queues.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use ipnet::IpNet;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{Socket, tcp, udp};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Closed, ConnectError};
use recovery::Recovery;

mod recovery;

/// Includes closing connections. Further connects wait.
const CONNECTIONS: usize = 512;

/// `names` limits the number of lookups, each of which uses several.
const DATAGRAM_SOCKETS: usize = 256;

/// Limits the bytes per round trip: 512 KiB in 100 ms are 40 Mbit/s. Pages that were never written use no memory.
const RECEIVE: usize = 512 << 10;

/// Bytes that the other side has not acknowledged.
const SEND: usize = 512 << 10;

/// The first 16 connections have full-size buffers, the next 16 half of that, and so on down to a sixteenth. 256 connections
/// with full buffers use 42 MiB, and 512 use 58 MiB. Copies of unacknowledged segments add at most half as much again.
const FULL_SIZE_CONNECTIONS: usize = 16;
const SMALLEST: usize = 4;

const BURST: usize = 256;

/// Further received packets are dropped.
const BACKLOG: usize = 1024;

/// Time a closed connection may take to complete its close with the other side.
const LINGER: Duration = Duration::from_secs(10);

/// A connection is dead if it is silent for this time despite keepalives.
const SILENCE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(120);
const KEEPALIVE_AFTER: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(45);

const DATAGRAMS: usize = 8;
const DATAGRAM_BYTES: usize = 16 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// The server does not answer, but may recover.
    Silent,
    Closed(Closed),
}

/// When the last clone is dropped, the [`Link`] is notified.
#[derive(Clone)]
pub struct Stack {
    shared: Arc<Shared>,
    _guard: Arc<DropGuard>,
}

pub struct Link {
    shared: Arc<Shared>,
    abandoned: CancellationToken,
}

/// Opens sockets without keeping the stack alive.
#[derive(Clone)]
pub struct Sockets(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Signals that there may be packets to send.
    wake: Notify,
    health: watch::Sender<Health>,
    places: Arc<Semaphore>,
    addresses: Vec<IpAddr>,
    routes: Vec<IpNet>,
    began: std::time::Instant,
}

struct State {
    interface: Interface,
    sockets: SocketSet<'static>,
    device: Queues,
    recovery: Recovery,
    closing: Vec<Closing>,
    ports: HashSet<u16>,
    connections: usize,
}

struct Closing {
    handle: SocketHandle,
    port: u16,
    until: std::time::Instant,
    _place: OwnedSemaphorePermit,
}

pub fn new(addresses: &[IpNet], routes: Vec<IpNet>, mtu: usize) -> (Stack, Link) {
    let mut device = Queues { inbound: VecDeque::new(), outbound: VecDeque::new(), spare: Vec::new(), mtu };
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = rand::random();
    let mut interface = Interface::new(config, &mut device, smoltcp::time::Instant::ZERO);
    interface.update_ip_addrs(|list| {
        for address in addresses {
            // A host prefix: there is no local network at the tunnel's end, whatever the configured prefix is.
            let _ = list.push(IpCidr::new(address.addr().into(), address.max_prefix_len()));
        }
    });
    // There are no neighbours, so the gateway address has no meaning. `routes` restricts the destinations.
    let _ = interface.routes_mut().add_default_ipv4_route(std::net::Ipv4Addr::new(0, 0, 0, 1));
    let _ = interface.routes_mut().add_default_ipv6_route(std::net::Ipv6Addr::LOCALHOST);
    let state = State {
        interface,
        sockets: SocketSet::new(Vec::new()),
        device,
        recovery: Recovery::default(),
        closing: Vec::new(),
        ports: HashSet::new(),
        connections: 0,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        wake: Notify::new(),
        health: watch::Sender::new(Health::Good),
        places: Arc::new(Semaphore::new(CONNECTIONS)),
        addresses: addresses.iter().map(IpNet::addr).collect(),
        routes,
        began: std::time::Instant::now(),
    });
    let abandoned = CancellationToken::new();
    let guard = Arc::new(abandoned.clone().drop_guard());
    (Stack { shared: Arc::clone(&shared), _guard: guard }, Link { shared, abandoned })
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> smoltcp::time::Instant {
        smoltcp::time::Instant::from_micros(i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    fn leads_to(&self, address: IpAddr) -> bool {
        self.routes.iter().any(|route| route.contains(&address))
    }

    /// Loopback, unspecified, multicast, broadcast and own addresses are unreachable through any tunnel.
    fn own_address(&self, remote: IpAddr) -> Result<IpAddress, ConnectError> {
        let nobody = match remote {
            IpAddr::V4(address) => {
                address.is_loopback() || address.is_unspecified() || address.is_multicast() || address.is_broadcast()
            }
            IpAddr::V6(address) => address.is_loopback() || address.is_unspecified() || address.is_multicast(),
        };
        if nobody || !self.leads_to(remote) || self.addresses.contains(&remote) {
            return Err(ConnectError::Unreachable);
        }
        let own = self.addresses.iter().find(|own| own.is_ipv4() == remote.is_ipv4());
        own.map(|own| (*own).into()).ok_or(ConnectError::Unreachable)
    }

    fn refuse_when_dead(&self) -> Result<(), ConnectError> {
        if *self.health.borrow() == Health::Good { Ok(()) } else { Err(ConnectError::TunnelDead) }
    }
}

impl State {
    /// Reserves a random port, so that an attacker who cannot see the packets cannot forge an answer.
    fn take_port(&mut self) -> u16 {
        loop {
            let port = rand::random_range(16_384..=u16::MAX);
            if self.ports.insert(port) {
                return port;
            }
        }
    }
}

impl Stack {
    pub async fn connect(&self, remote: SocketAddr, within: Duration) -> Result<TcpStream, ConnectError> {
        Sockets(Arc::clone(&self.shared)).connect(remote, within).await
    }

    pub fn refuse_when_dead(&self) -> Result<(), ConnectError> {
        self.shared.refuse_when_dead()
    }

    /// Waits until the tunnel's server stops answering or the tunnel is closed.
    pub async fn wait_until_unresponsive(&self) {
        // `self` holds the sender, so this cannot fail.
        let _ = self.shared.health.subscribe().wait_for(|health| *health != Health::Good).await;
    }

    pub async fn closed(&self) -> Closed {
        let mut health = self.shared.health.subscribe();
        loop {
            if let Health::Closed(why) = *health.borrow_and_update() {
                return why;
            }
            if health.changed().await.is_err() {
                return Closed::Broken;
            }
        }
    }

    pub fn sockets(&self) -> Sockets {
        Sockets(Arc::clone(&self.shared))
    }

    pub fn has_ipv4(&self) -> bool {
        self.shared.addresses.iter().any(IpAddr::is_ipv4)
    }

    pub fn has_ipv6(&self) -> bool {
        self.shared.addresses.iter().any(IpAddr::is_ipv6)
    }
}

impl Link {
    /// Drops packets with a source outside the routes, and packets that exceed the queue.
    pub fn deliver(&self, packets: &mut Vec<Vec<u8>>) {
        let now = std::time::Instant::now();
        let mut state = self.shared.state();
        for mut packet in packets.drain(..) {
            let believed = source(&packet).is_some_and(|source| self.shared.leads_to(source));
            if believed && state.device.inbound.len() < BACKLOG {
                state.recovery.on_packet(&mut packet, now);
                state.device.inbound.push_back(packet);
            }
        }
    }

    /// Reuses the memory of the packets that are in `outgoing`. Returns the maximum time until the next turn.
    pub fn turn(&self, outgoing: &mut Vec<Vec<u8>>) -> Duration {
        let (clock, now) = (std::time::Instant::now(), self.shared.now());
        let mut state = self.shared.state();
        let State { interface, sockets, device, recovery, closing, ports, connections } = &mut *state;
        device.spare.append(outgoing);
        device.spare.truncate(BURST);
        loop {
            interface.poll(now, device, sockets);
            if device.inbound.is_empty() {
                break;
            }
        }
        for packet in device.outbound.drain(..) {
            outgoing.extend(recovery.leaving(packet, clock));
        }
        closing.retain(|leaving| {
            let socket = sockets.get_mut::<tcp::Socket>(leaving.handle);
            if matches!(socket.state(), tcp::State::Closed | tcp::State::TimeWait) {
                sockets.remove(leaving.handle);
                ports.remove(&leaving.port);
                recovery.forget(leaving.port);
                *connections -= 1;
                return false;
            }
            if leaving.until <= clock {
                // The next turn sends the reset, and after it the socket is closed.
                socket.abort();
            }
            true
        });
        let mut delay = if closing.is_empty() { Duration::from_mins(1) } else { Duration::from_secs(1) };
        if let Some(due) = recovery.send(clock, outgoing) {
            delay = delay.min(due.saturating_duration_since(clock));
        }
        interface.poll_delay(now, sockets).map_or(delay, |other| Duration::from(other).min(delay))
    }

    pub async fn woken(&self) {
        self.shared.wake.notified().await;
    }

    /// Waits until all clones of the stack are dropped.
    pub async fn abandoned(&self) {
        self.abandoned.cancelled().await;
    }

    /// Connects in progress and new ones fail until the server answers.
    pub fn mark_unresponsive(&self) {
        self.shared.health.send_if_modified(|health| std::mem::replace(health, Health::Silent) != Health::Silent);
    }

    pub fn answered(&self) {
        self.shared.health.send_if_modified(|health| std::mem::replace(health, Health::Good) != Health::Good);
    }

    pub fn close(self, why: Closed) {
        self.end(why);
    }

    fn end(&self, why: Closed) {
        let first = self.shared.health.send_if_modified(|health| {
            let open = !matches!(health, Health::Closed(_));
            if open {
                *health = Health::Closed(why);
            }
            open
        });
        if first {
            for (_, socket) in self.shared.state().sockets.iter_mut() {
                match socket {
                    Socket::Tcp(tcp) => tcp.abort(),
                    Socket::Udp(udp) => udp.close(),
                }
            }
        }
    }
}

/// A dropped link carries no more packets, so the tunnel ends.
impl Drop for Link {
    fn drop(&mut self) {
        self.end(Closed::Broken);
    }
}

fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(12..16)?).ok()?)),
        6 => Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(8..24)?).ok()?)),
        _ => None,
    }
}

impl Sockets {
    pub async fn connect(&self, remote: SocketAddr, within: Duration) -> Result<TcpStream, ConnectError> {
        let deadline = Instant::now() + within;
        let shared = &self.0;
        let own = shared.own_address(remote.ip())?;
        shared.refuse_when_dead()?;
        let place = timeout_at(deadline, Arc::clone(&shared.places).acquire_owned()).await;
        let place = place.map_err(|_| ConnectError::TimedOut)?.map_err(|_| ConnectError::TunnelDead)?;
        let stream = self.dial(own, remote, place)?;
        shared.wake.notify_one();
        let connected = std::future::poll_fn(|cx| {
            let mut state = shared.state();
            let socket = state.sockets.get_mut::<tcp::Socket>(stream.handle);
            match socket.state() {
                tcp::State::SynSent | tcp::State::SynReceived => {
                    socket.register_send_waker(cx.waker());
                    Poll::Pending
                }
                tcp::State::Closed => Poll::Ready(Err(ConnectError::Refused)),
                _ => Poll::Ready(Ok(())),
            }
        });
        timeout_at(deadline, connected).await.map_err(|_| ConnectError::TimedOut)??;
        Ok(stream)
    }

    fn dial(&self, own: IpAddress, remote: SocketAddr, place: OwnedSemaphorePermit) -> Result<TcpStream, ConnectError> {
        let mut state = self.0.state();
        let smaller = (state.connections / FULL_SIZE_CONNECTIONS).min(SMALLEST);
        let buffer = |bytes: usize| tcp::SocketBuffer::new(vec![0; bytes >> smaller]);
        let mut socket = tcp::Socket::new(buffer(RECEIVE), buffer(SEND));
        socket.set_nagle_enabled(false);
        socket.set_timeout(Some(SILENCE));
        socket.set_keep_alive(Some(KEEPALIVE_AFTER));
        let port = state.take_port();
        let connecting =
            socket.connect(state.interface.context(), IpEndpoint::from(remote), IpEndpoint::new(own, port));
        if connecting.is_err() {
            state.ports.remove(&port);
            return Err(ConnectError::Unreachable);
        }
        state.connections += 1;
        let handle = state.sockets.add(socket);
        drop(state);
        Ok(TcpStream { shared: Arc::clone(&self.0), handle, port, place: Some(place) })
    }

    pub fn bind(&self, remote: SocketAddr) -> io::Result<UdpSocket> {
        let unreachable = |_| io::Error::from(io::ErrorKind::HostUnreachable);
        let own = self.0.own_address(remote.ip()).map_err(unreachable)?;
        self.0.refuse_when_dead().map_err(unreachable)?;
        let mut state = self.0.state();
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; DATAGRAMS], vec![0; DATAGRAM_BYTES]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        if state.ports.len() - state.connections >= DATAGRAM_SOCKETS {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let port = state.take_port();
        if socket.bind(IpEndpoint::new(own, port)).is_err() {
            state.ports.remove(&port);
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let handle = state.sockets.add(socket);
        drop(state);
        Ok(UdpSocket { shared: Arc::clone(&self.0), handle, port, remote })
    }
}

pub struct TcpStream {
    shared: Arc<Shared>,
    handle: SocketHandle,
    port: u16,
    /// Slot among the connections, until it moves to the closing ones.
    place: Option<OwnedSemaphorePermit>,
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut state = self.shared.state();
        let socket = state.sockets.get_mut::<tcp::Socket>(self.handle);
        // With unread data the connection is reset, as kernels do. Otherwise the remaining data is still sent.
        if socket.recv_queue() > 0 || socket.state() == tcp::State::SynSent {
            socket.abort();
        } else {
            socket.close();
        }
        let until = std::time::Instant::now() + LINGER;
        state.closing.push(Closing { handle: self.handle, port: self.port, until, _place: place });
        drop(state);
        self.shared.wake.notify_one();
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.shared.state();
        let socket = state.sockets.get_mut::<tcp::Socket>(self.handle);
        if socket.can_recv() {
            let length = socket.recv_slice(buffer.initialize_unfilled()).map_err(io::Error::other)?;
            let roomy = socket.recv_queue() < socket.recv_capacity() / 2;
            drop(state);
            buffer.advance(length);
            if roomy {
                // The other side may need a window update.
                self.shared.wake.notify_one();
            }
            return Poll::Ready(Ok(()));
        }
        if socket.may_recv() {
            socket.register_recv_waker(cx.waker());
            return Poll::Pending;
        }
        // The other side has closed regularly, unless it or the tunnel has failed.
        let ended =
            if socket.state() == tcp::State::Closed { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) };
        Poll::Ready(ended)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.shared.state();
        let socket = state.sockets.get_mut::<tcp::Socket>(self.handle);
        if !socket.may_send() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if !socket.can_send() {
            socket.register_send_waker(cx.waker());
            return Poll::Pending;
        }
        let length = socket.send_slice(bytes).map_err(io::Error::other)?;
        drop(state);
        self.shared.wake.notify_one();
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.state().sockets.get_mut::<tcp::Socket>(self.handle).close();
        self.shared.wake.notify_one();
        Poll::Ready(Ok(()))
    }
}

pub struct UdpSocket {
    shared: Arc<Shared>,
    handle: SocketHandle,
    port: u16,
    remote: SocketAddr,
}

impl UdpSocket {
    pub fn poll_send(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.shared.state();
        let socket = state.sockets.get_mut::<udp::Socket>(self.handle);
        if !socket.is_open() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        match socket.send_slice(bytes, IpEndpoint::from(self.remote)) {
            Ok(()) => {
                drop(state);
                self.shared.wake.notify_one();
                Poll::Ready(Ok(bytes.len()))
            }
            Err(udp::SendError::BufferFull) => {
                socket.register_send_waker(cx.waker());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(io::Error::other(error))),
        }
    }

    /// Receives a datagram, truncated to the buffer. Datagrams from other addresses are dropped.
    pub fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.shared.state();
        let socket = state.sockets.get_mut::<udp::Socket>(self.handle);
        if !socket.is_open() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        while let Ok((datagram, from)) = socket.recv() {
            if from.endpoint == IpEndpoint::from(self.remote) {
                let length = datagram.len().min(buffer.len());
                buffer[..length].copy_from_slice(&datagram[..length]);
                return Poll::Ready(Ok(length));
            }
        }
        socket.register_recv_waker(cx.waker());
        Poll::Pending
    }

    pub fn remote(&self) -> SocketAddr {
        self.remote
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.sockets.remove(self.handle);
        state.ports.remove(&self.port);
    }
}

struct Queues {
    inbound: VecDeque<Vec<u8>>,
    outbound: VecDeque<Vec<u8>>,
    /// Packets of the previous turn, whose memory is reused.
    spare: Vec<Vec<u8>>,
    mtu: usize,
}

struct ReceivedPacket(Vec<u8>);

struct Sending<'a> {
    outbound: &'a mut VecDeque<Vec<u8>>,
    spare: &'a mut Vec<Vec<u8>>,
}

impl RxToken for ReceivedPacket {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = self.spare.pop().unwrap_or_default();
        packet.clear();
        packet.resize(length, 0);
        let result = write(&mut packet);
        self.outbound.push_back(packet);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = ReceivedPacket;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(ReceivedPacket, Sending<'_>)> {
        let packet = self.inbound.pop_front()?;
        Some((ReceivedPacket(packet), Sending { outbound: &mut self.outbound, spare: &mut self.spare }))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Sending<'_>> {
        let room = self.outbound.len() < BURST;
        room.then_some(Sending { outbound: &mut self.outbound, spare: &mut self.spare })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.max_burst_size = Some(BURST);
        // The tunnel authenticates packets, so checksums of received packets add nothing. The kernel's WireGuard skips them,
        // too.
        let mut checksums = ChecksumCapabilities::default();
        checksums.tcp = Checksum::Tx;
        checksums.udp = Checksum::Tx;
        checksums.ipv4 = Checksum::Tx;
        capabilities.checksum = checksums;
        capabilities
    }
}

#[cfg(test)]
mod tests;
