//! A UDP socket, or a TCP connection with length-prefixed packets.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::set_tcp_quickack;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::profile::Transport;

const DATAGRAM: usize = 65_535;
/// Packets of a tunnel are about a tenth of this.
const PACKET: usize = 16 << 10;
const INPUT: usize = 64 << 10;
/// Size of the write buffer that forces a flush.
const OUTPUT: usize = 64 << 10;
/// Timeout for a server that reads nothing.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
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
                // As large as the machine allows: packets that do not fit are lost and sent again.
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

    /// The server can end it.
    pub(super) fn is_connection(&self) -> bool {
        matches!(self, Self::Tcp { .. })
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Udp { socket, .. } => socket.readable().await,
            Self::Tcp { stream, .. } => stream.readable().await,
        }
    }

    /// Position of the next received packet in [`bytes`](Self::bytes).
    ///
    /// # Errors
    /// Over UDP, returns an error when the machine receives an ICMP error. Over TCP, returns an error when the connection has
    /// ended.
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
                        // OpenVPN servers delay small packets until earlier ones are acknowledged, which the kernel delays by
                        // 40 ms. Quick acknowledgement is reset after each acknowledgement, so it is set again.
                        let _ = set_tcp_quickack(&*stream, true);
                    }
                }
            },
        }
    }

    /// Valid until the next packet is received.
    pub(super) fn bytes(&self, packet: Range<usize>) -> &[u8] {
        match self {
            Self::Udp { datagram, .. } => &datagram[packet],
            Self::Tcp { input, .. } => &input[packet],
        }
    }

    /// Sends a packet, or buffers it for [`flush`](Self::flush).
    pub(super) async fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp { socket, .. } => match socket.send(packet).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(error),
                // Other errors count as packet loss.
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

    /// Dropping the future loses nothing.
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
