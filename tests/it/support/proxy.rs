//! A customer's proxy, which works or misbehaves.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{future, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::task::JoinSet;

pub const USER: &str = "kit";
pub const PASSWORD: &str = "sesame-never-seen";
/// Distinguishes the proxy's connections from others of this machine.
pub const LEAVES_FROM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Good,
    Mute,
    Garbage,
    /// At once.
    HangsUp,
    /// After the authentication.
    HangsUpLater,
}

/// Dropping it ends it, with all its connections.
pub struct Proxy {
    scheme: &'static str,
    pub port: u16,
    shared: Arc<Shared>,
    _running: JoinSet<()>,
}

struct Shared {
    manner: Manner,
    /// Whatever the client requests.
    site: SocketAddr,
    /// Relays datagrams.
    relays: AtomicBool,
    visits: AtomicUsize,
    connects: AtomicUsize,
}

impl Proxy {
    pub async fn start(scheme: &'static str, manner: Manner, site: SocketAddr) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, scheme, manner, site).await
    }

    /// Starts a proxy at another address of this machine.
    pub async fn start_at(at: Ipv4Addr, scheme: &'static str, manner: Manner, site: SocketAddr) -> Self {
        let listener = TcpListener::bind((at, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            manner,
            site,
            relays: AtomicBool::new(false),
            visits: AtomicUsize::new(0),
            connects: AtomicUsize::new(0),
        });
        let mut running = JoinSet::new();
        let serving = Arc::clone(&shared);
        running.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                shared.visits.fetch_add(1, Ordering::SeqCst);
                connections.spawn(async move { shared.serve(scheme, stream).await });
            }
        });
        Self { scheme, port, shared, _running: running }
    }

    pub fn body(&self) -> Value {
        json!({
            "label": "Office", "scheme": self.scheme, "host": "127.0.0.1", "port": self.port, "username": USER,
            "password": PASSWORD,
        })
    }

    /// Number of connections to the proxy.
    pub fn visits(&self) -> usize {
        self.shared.visits.load(Ordering::SeqCst)
    }

    /// Number of connections from the proxy to its site.
    pub fn connects(&self) -> usize {
        self.shared.connects.load(Ordering::SeqCst)
    }

    /// The relay responds to each datagram like a QUIC server that does not support its version.
    pub fn relay(&self, relays: bool) {
        self.shared.relays.store(relays, Ordering::SeqCst);
    }
}

impl Shared {
    async fn serve(&self, scheme: &str, mut stream: TcpStream) -> io::Result<()> {
        match self.manner {
            Manner::Good | Manner::HangsUpLater if scheme == "http" => self.serve_http(stream).await,
            Manner::Good | Manner::HangsUpLater => self.serve_socks5(stream).await,
            Manner::Mute => future::pending().await,
            Manner::Garbage => {
                stream.write_all(b"220 mail.example ESMTP\r\n").await?;
                stream.read(&mut [0; 64]).await.map(drop)
            }
            Manner::HangsUp => Ok(()),
        }
    }

    async fn serve_http(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(head).expect("text");
        let known = format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(format!("{USER}:{PASSWORD}")));
        if !head.contains(&known) {
            return stream.write_all(b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\n\r\n").await;
        }
        if self.manner == Manner::HangsUpLater {
            return Ok(());
        }
        if head.starts_with("CONNECT nowhere.invalid:") {
            return stream.write_all(b"HTTP/1.1 502 No such host\r\n\r\n").await;
        }
        let mut site = self.dial().await?;
        stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
        copy_bidirectional(&mut stream, &mut site).await.map(drop)
    }

    async fn serve_socks5(&self, mut stream: TcpStream) -> io::Result<()> {
        let methods = stream.read_u16().await? & 0xff;
        stream.read_exact(&mut vec![0; methods.into()]).await?;
        stream.write_all(&[5, 2]).await?;
        stream.read_u8().await?;
        let (user, password) = (text(&mut stream).await?, text(&mut stream).await?);
        let known = user == USER.as_bytes() && password == PASSWORD.as_bytes();
        stream.write_all(&[1, u8::from(!known)]).await?;
        let mut request = [0; 4];
        stream.read_exact(&mut request).await?;
        match request[3] {
            1 => stream.read_exact(&mut [0; 4]).await.map(drop)?,
            3 => text(&mut stream).await.map(drop)?,
            _ => stream.read_exact(&mut [0; 16]).await.map(drop)?,
        }
        stream.read_u16().await?;
        if self.manner == Manner::HangsUpLater {
            return Ok(());
        }
        match request[1] {
            1 => {
                let mut site = self.dial().await?;
                stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
                copy_bidirectional(&mut stream, &mut site).await.map(drop)
            }
            3 if self.relays.load(Ordering::SeqCst) => {
                let relay = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                let port = relay.local_addr()?.port().to_be_bytes();
                // A private address that is not the proxy's own, as a proxy behind a router returns it.
                stream.write_all(&[5, 0, 0, 1, 10, 0, 0, 1, port[0], port[1]]).await?;
                let mut nothing = [0];
                tokio::select! {
                    answered = answer(&relay) => answered,
                    ended = stream.read(&mut nothing) => ended.map(drop),
                }
            }
            _ => stream.write_all(&[5, 7, 0, 1, 0, 0, 0, 0, 0, 0]).await,
        }
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((LEAVES_FROM, 0)))?;
        let site = socket.connect(self.site).await?;
        self.connects.fetch_add(1, Ordering::SeqCst);
        Ok(site)
    }
}

async fn text(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut text = vec![0; stream.read_u8().await?.into()];
    stream.read_exact(&mut text).await?;
    Ok(text)
}

/// RFC 9000, 17.2.1.
async fn answer(relay: &UdpSocket) -> io::Result<()> {
    let mut datagram = [0; 2048];
    loop {
        let (length, from) = relay.recv_from(&mut datagram).await?;
        // The header of a datagram with a host name: three bytes, the address type, the name and the port. The packet follows.
        let head = 7 + usize::from(datagram[4]);
        let packet = &datagram[head..length];
        assert!(packet.len() >= 1200 && packet[0] & 0x80 != 0, "a first packet of QUIC");
        let (server, asker) = (&packet[6..14], &packet[15..23]);
        let answer = [&datagram[..head], &[0x80, 0, 0, 0, 0, 8], asker, &[8], server, &[0, 0, 0, 1]].concat();
        relay.send_to(&answer, from).await?;
    }
}
