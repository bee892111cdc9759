//! What carries packets to the server: a UDP socket, or a TCP connection with lengths between them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::set_tcp_quickack;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::profile::Transport;

/// The longest datagram there is.
const DATAGRAM: usize = 65_535;
/// The longest packet that is taken from a connection. A tunnel's have a tenth of it.
const PACKET: usize = 16 << 10;
/// What is read from a connection at once.
const INPUT: usize = 64 << 10;
/// What may wait to be written before somebody has to wait for it.
const OUTPUT: usize = 64 << 10;
/// How long a server may take nothing.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// What the kernel may keep in each direction, if it lets us.
const SOCKET_BUFFER: usize = 4 << 20;

pub(super) enum Carrier {
    Udp { socket: UdpSocket, datagram: Vec<u8> },
    Tcp { stream: TcpStream, input: Vec<u8>, begin: usize, end: usize, output: Vec<u8> },
}

impl Carrier {
    pub(super) async fn to(server: SocketAddr, transport: Transport) -> io::Result<Self> {
        match transport {
            Transport::Udp => {
                let any = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
                socket.connect(server).await?;
                // As much as the machine allows: what does not fit is lost, and sent again.
                let _ = setsockopt(&socket, sockopt::RcvBuf, &SOCKET_BUFFER);
                let _ = setsockopt(&socket, sockopt::SndBuf, &SOCKET_BUFFER);
                Ok(Self::Udp { socket, datagram: vec![0; DATAGRAM] })
            }
            Transport::Tcp => {
                let stream = TcpStream::connect(server).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp { stream, input: vec![0; INPUT], begin: 0, end: 0, output: Vec::new() })
            }
        }
    }

    /// Whether it ends when the server ends it.
    pub(super) fn is_connection(&self) -> bool {
        matches!(self, Self::Tcp { .. })
    }

    /// Waits until there may be something to read.
    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Udp { socket, .. } => socket.readable().await,
            Self::Tcp { stream, .. } => stream.readable().await,
        }
    }

    /// The next packet that has come, if there is one: it lies in [`bytes`](Self::bytes).
    ///
    /// # Errors
    /// Over UDP, when the machine hears that nobody is there; over TCP, when the connection has ended.
    pub(super) fn receive(&mut self) -> io::Result<Option<Range<usize>>> {
        match self {
            Self::Udp { socket, datagram } => {
                Ok(none_if_it_would_block(socket.try_recv(datagram))?.map(|length| 0..length))
            }
            Self::Tcp { stream, input, begin, end, .. } => loop {
                if let Some(length) = input[*begin..*end].first_chunk::<2>() {
                    let length = usize::from(u16::from_be_bytes(*length));
                    if length == 0 || length > PACKET {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    if *end - *begin >= 2 + length {
                        let packet = *begin + 2..*begin + 2 + length;
                        *begin = packet.end;
                        return Ok(Some(packet));
                    }
                }
                input.copy_within(*begin..*end, 0);
                (*begin, *end) = (0, *end - *begin);
                match none_if_it_would_block(stream.try_read(&mut input[*end..]))? {
                    None => return Ok(None),
                    Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Some(length) => {
                        *end += length;
                        // A server of OpenVPN's holds back small packets until the ones before are confirmed, for which a
                        // kernel takes 40 ms. What is said to it holds until the next confirmation.
                        let _ = set_tcp_quickack(&*stream, true);
                    }
                }
            },
        }
    }

    /// The bytes of a packet, until the next one is received.
    pub(super) fn bytes(&self, packet: Range<usize>) -> &[u8] {
        match self {
            Self::Udp { datagram, .. } => &datagram[packet],
            Self::Tcp { input, .. } => &input[packet],
        }
    }

    /// Sends a packet, or has it wait for [`flush`](Self::flush).
    ///
    /// # Errors
    /// When a connection has ended, or its server takes nothing; over UDP, when the machine has heard that nobody is there.
    pub(super) async fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp { socket, .. } => match socket.send(packet).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(error),
                // What a network does not take is lost, as packets are.
                _ => Ok(()),
            },
            Self::Tcp { output, .. } => {
                let length = u16::try_from(packet.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
                output.extend_from_slice(&length.to_be_bytes());
                output.extend_from_slice(packet);
                if output.len() > OUTPUT { self.flush().await } else { Ok(()) }
            }
        }
    }

    /// Has written what waits. It can be given up at any time.
    ///
    /// # Errors
    /// As above.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let Self::Tcp { stream, output, .. } = self else { return Ok(()) };
        while !output.is_empty() {
            match none_if_it_would_block(stream.try_write(output))? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(length) => drop(output.drain(..length)),
                None => timeout(WRITE_WITHIN, stream.writable()).await.map_err(|_| io::ErrorKind::TimedOut)??,
            }
        }
        Ok(())
    }
}

fn none_if_it_would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
