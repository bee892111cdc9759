//! A TLS server on loopback whose responses depend on the path.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::app::Builder;
use super::eventually;

/// Dropping it ends it. The path selects the response:
///
/// `/ok`, `/status/<code>`, `/hang` (no response), `/stall/<code>` (a body that stops; 200 without a code),
/// `/silent/<code>` (a body that does not begin), `/cut/<code>` (a body that breaks off), `/endless` (an endless body at full speed),
/// `/continue/<code>` (after two informational responses), `/headers` (endless headers at full speed), `/drip` (endless headers, one
/// every 50 ms), `/bomb` (a gzip bomb), `/reset` (closes the connection without a response), `/unsized/<code>` (a
/// body without a length, ended by closing the connection), `/early` (endless informational responses), `/redirect/<url>`,
/// `/slow/<code>/<ms>` (after a delay), `/turns/<code>-<code>-…/<ms>/…` (the same with the next status at each request).
/// `/first/<code>/<n>/…` returns this status to the first `n` requests of an event, or no response for `hang`, and 200 to the
/// others.
pub struct Sink {
    address: SocketAddr,
    folder: TempDir,
    log: Arc<Mutex<Log>>,
    _server: JoinSet<()>,
}

/// Also the number of requests per path and event, and per path.
#[derive(Default)]
struct Log {
    received: Vec<Received>,
    times: HashMap<(String, String), usize>,
}

#[derive(Debug, Clone)]
pub struct Received {
    pub at: Instant,
    /// Address of the client, which is the same for requests over one connection.
    pub from: SocketAddr,
    pub path: String,
    /// In the received order, with names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// The reference verifier of the contract.
    pub fn signature_with(&self, secret: &str) -> String {
        let signed = self.header("x-service-signature");
        let time = signed.split(',').next().and_then(|part| part.strip_prefix("t=")).expect("a time");
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
        mac.update(format!("{time}.").as_bytes());
        mac.update(&self.body);
        mac.finalize().into_bytes().iter().fold("v1=".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
    }
}

impl Sink {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1", &["localhost", "127.0.0.1"]).await
    }

    /// On a free port, with a certificate for these names.
    pub async fn start_at(address: &str, names: &[&str]) -> Self {
        let own = rcgen::generate_simple_self_signed(names.iter().copied().map(ToOwned::to_owned).collect::<Vec<_>>());
        let own = own.expect("a certificate");
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("ca.pem"), own.cert.pem()).expect("a file");
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.expect("a key that fits")));
        let listener = TcpListener::bind((address, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let log = Arc::<Mutex<Log>>::default();
        let mut server = JoinSet::new();
        server.spawn(serve(listener, acceptor, Arc::clone(&log)));
        Self { address, folder, log, _server: server }
    }

    pub fn url(&self, path: &str) -> String {
        self.url_under("localhost", path)
    }

    pub fn url_under(&self, name: &str, path: &str) -> String {
        format!("https://{name}:{}{path}", self.address.port())
    }

    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub fn received(&self, path: &str) -> Vec<Received> {
        let log = self.log.lock().expect("no panic");
        log.received.iter().filter(|one| one.path == path).cloned().collect()
    }

    pub fn all(&self) -> Vec<Received> {
        self.log.lock().expect("no panic").received.clone()
    }

    pub async fn receives(&self, path: &str, count: usize) -> Vec<Received> {
        eventually(Duration::from_secs(20), "the deliveries come", async || {
            let received = self.received(path);
            (received.len() >= count).then_some(received)
        })
        .await
    }
}

/// Accepts no connections: they wait in the backlog.
pub struct Silence(std::net::TcpListener);

impl Silence {
    pub fn start() -> Self {
        Self(std::net::TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    pub fn url(&self) -> String {
        format!("https://{}/", self.0.local_addr().expect("an address"))
    }
}

impl Builder {
    pub fn delivering_to(self, sink: &Sink) -> Self {
        self.set("webhooks.allow_private_targets", "true")
            .set("webhooks.extra_ca_file", &sink.ca_file().display().to_string())
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, log: Arc<Mutex<Log>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
        connections.spawn(async move {
            // A disconnected client is not an error.
            let _ = converse(stream, acceptor, log).await;
        });
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, log: Arc<Mutex<Log>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let from = stream.peer_addr()?;
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let mut body = vec![0; length.and_then(|(_, value)| value.parse().ok()).unwrap_or_default()];
        stream.read_exact(&mut body).await?;
        let request = Received { at: Instant::now(), from, path: path.clone(), headers, body };
        let event = request.header("x-service-event-id").to_owned();
        let before = {
            let mut log = log.lock().expect("no panic");
            log.received.push(request);
            let mut before = |event| {
                let times = log.times.entry((path.clone(), event)).or_default();
                *times += 1;
                *times - 1
            };
            (before(event), before(String::new()))
        };
        if !answer(&mut stream, &path, before).await? {
            return Ok(());
        }
    }
}

/// In about 10 KiB.
static GZIP_BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&vec![0; 10 << 20]).expect("memory");
    encoder.finish().expect("memory")
});

/// `before` is the number of earlier requests of this event to the path, and `turn` that of all events. Returns `false` when the
/// connection must not be reused.
async fn answer(
    stream: &mut (impl AsyncWriteExt + Unpin),
    path: &str,
    (before, turn): (usize, usize),
) -> std::io::Result<bool> {
    let mut parts = path.trim_start_matches('/').splitn(4, '/');
    let (kind, first, second) = (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let status = match kind {
        Some("hang") => std::future::pending().await,
        Some("reset") => return Ok(false),
        Some("stall" | "endless") => {
            let status = if first.is_empty() { "200" } else { first };
            let head = format!("HTTP/1.1 {status} Status\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.flush().await?;
            if kind == Some("stall") {
                std::future::pending::<()>().await;
            }
            let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x10000], b"\r\n"].concat();
            loop {
                stream.write_all(&chunk).await?;
            }
        }
        Some("silent" | "cut") => {
            stream.write_all(format!("HTTP/1.1 {first} Status\r\ncontent-length: 100\r\n\r\n").as_bytes()).await?;
            if kind == Some("cut") {
                stream.write_all(b"hello").await?;
            }
            stream.flush().await?;
            if kind == Some("silent") {
                std::future::pending::<()>().await;
            }
            return Ok(false);
        }
        Some("drip") => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            for number in 0.. {
                stream.write_all(format!("x-{number}: more\r\n").as_bytes()).await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            return Ok(false);
        }
        Some("continue") => {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n").await?;
            first.to_owned()
        }
        Some("bomb") => {
            let length = GZIP_BOMB.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&GZIP_BOMB).await?;
            stream.flush().await?;
            return Ok(true);
        }
        Some("unsized") => {
            stream.write_all(format!("HTTP/1.0 {first} Status\r\n\r\nthank you").as_bytes()).await?;
            stream.flush().await?;
            // The connection is closed without the closure alert of TLS.
            return Ok(false);
        }
        Some("early") => loop {
            stream.write_all(b"HTTP/1.1 199 Soon\r\n\r\n").await?;
            stream.flush().await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        },
        Some("redirect") => {
            let to = path.trim_start_matches("/redirect/");
            let head = format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.flush().await?;
            return Ok(true);
        }
        Some("headers") => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            let header = format!("x-more: {}\r\n", "x".repeat(1_000));
            loop {
                stream.write_all(header.as_bytes()).await?;
            }
        }
        Some("slow") => {
            tokio::time::sleep(Duration::from_millis(second.parse().expect("milliseconds"))).await;
            first.to_owned()
        }
        Some("turns") => {
            tokio::time::sleep(Duration::from_millis(second.parse().expect("milliseconds"))).await;
            let codes: Vec<_> = first.split('-').collect();
            codes[turn.min(codes.len() - 1)].to_owned()
        }
        Some("status") => first.to_owned(),
        Some("first") if before < second.parse().unwrap_or(0) && first == "hang" => std::future::pending().await,
        Some("first") if before < second.parse().unwrap_or(0) => first.to_owned(),
        _ => "200".to_owned(),
    };
    let body = if status == "204" { "" } else { "thank you" };
    let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    Ok(true)
}
