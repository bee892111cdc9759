//! Isolated networks, and the sites behind a tunnel in them.
//!
//! Each test has its own network, in which a tunnel's server listens. The destinations are on the far side, a second
//! network that is connected only through the tunnel.

pub mod openvpn;
pub mod wireguard;

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use nix::sched::{CloneFlags, setns, unshare};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_util::task::AbortOnDropHandle;

pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
pub const FAR_6: &str = "fd66::1";

const INSIDE: &str = "KITFLEET_TEST_INSIDE";

/// Set by a developer whose machine forbids namespaces, to skip these tests.
const WITHOUT_NAMESPACES: &str = "KITFLEET_TEST_WITHOUT_NAMESPACES";

/// Executes this program again for that test alone.
///
/// # Panics
///
/// Panics when the test fails, or when this machine forbids namespaces and [`WITHOUT_NAMESPACES`] is not set.
#[expect(clippy::disallowed_methods, reason = "tests are configured through the environment")]
pub fn in_network_namespace(test: &str, body: impl Future<Output = ()>) {
    if std::env::var_os(INSIDE).is_some() {
        run("ip link set lo up; mount -t tmpfs tmpfs /run; mkdir /run/wireguard");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.expect("a runtime").block_on(body);
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount"]);
        if !nix::unistd::geteuid().is_root() {
            command.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        let skip = std::env::var_os(WITHOUT_NAMESPACES).is_some();
        assert!(skip, "this machine forbids namespaces; set {WITHOUT_NAMESPACES}=1 to go without tests that need them");
        return;
    }
    let status = unshare()
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status();
    assert!(status.expect("unshare runs").success(), "{test} fails in a network of its own");
}

pub fn run(script: &str) {
    let output = Command::new("sh").args(["-ec", script]).output().expect("sh runs");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

pub struct Far(File);

impl Far {
    pub fn new() -> Self {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network");
            run("ip link set lo up");
            File::open("/proc/thread-self/ns/net").expect("a network's file")
        });
        Self(made.join().expect("a network"))
    }

    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Sockets that the action opens and programs that it starts stay there.
    pub fn there<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let done = scope.spawn(|| {
                setns(&self.0, CloneFlags::CLONE_NEWNET).expect("the other network");
                action()
            });
            done.join().expect("what is done there succeeds")
        })
    }

    pub fn listen(&self, address: SocketAddr) -> TcpListener {
        let listener = self.there(|| std::net::TcpListener::bind(address)).expect("a port there");
        listener.set_nonblocking(true).expect("a socket");
        TcpListener::from_std(listener).expect("a socket")
    }

    fn bind(&self, address: SocketAddr) -> UdpSocket {
        let socket = self.there(|| std::net::UdpSocket::bind(address)).expect("a port there");
        socket.set_nonblocking(true).expect("a socket");
        UdpSocket::from_std(socket).expect("a socket")
    }
}

/// They end when this is dropped.
pub struct Site {
    pub asked: Arc<AtomicUsize>,
    _serving: Vec<AbortOnDropHandle<()>>,
}

pub const PORT: u16 = 9000;

impl Site {
    pub fn at(far: &Far) -> Self {
        let asked = Arc::<AtomicUsize>::default();
        let names = SocketAddr::new(FAR.into(), 53);
        let mut serving: Vec<_> = [IpAddr::from(FAR), FAR_6.parse().expect("an address")]
            .into_iter()
            .map(|address| spawn(serve(far.listen(SocketAddr::new(address, PORT)))))
            .collect();
        serving.push(spawn(answer(far.bind(names), Arc::clone(&asked))));
        serving.push(spawn(answer_at_length(far.listen(names))));
        Self { asked, _serving: serving }
    }
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(task))
}

async fn serve(listener: TcpListener) {
    while let Ok((connection, _)) = listener.accept().await {
        tokio::spawn(converse(connection));
    }
}

static CHUNK: [u8; 256 << 10] = [b'.'; 256 << 10];

/// Serves one command: `down BYTES` sends so many bytes, `up` returns the number of received bytes, `echo` returns the data.
async fn converse(connection: TcpStream) -> std::io::Result<()> {
    let (reader, mut writer) = connection.into_split();
    let mut reader = BufReader::with_capacity(16 << 10, reader);
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    match line.trim().split_once(' ') {
        Some(("down", bytes)) => {
            let mut left: usize = bytes.parse().expect("a number");
            while left > 0 {
                let length = left.min(CHUNK.len());
                writer.write_all(&CHUNK[..length]).await?;
                left -= length;
            }
        }
        _ if line.trim() == "echo" => {
            tokio::io::copy(&mut reader, &mut writer).await?;
        }
        _ => {
            let count = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await?;
            writer.write_all(count.to_string().as_bytes()).await?;
        }
    }
    writer.shutdown().await
}

async fn answer(socket: UdpSocket, asked: Arc<AtomicUsize>) {
    let mut datagram = vec![0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut datagram).await {
        asked.fetch_add(1, Ordering::Relaxed);
        if let Some(reply) = reply(&datagram[..length], false) {
            let _ = socket.send_to(&reply, from).await;
        }
    }
}

async fn answer_at_length(listener: TcpListener) {
    while let Ok((mut connection, _)) = listener.accept().await {
        tokio::spawn(async move {
            while let Ok(length) = connection.read_u16().await {
                let mut question = vec![0; length.into()];
                connection.read_exact(&mut question).await?;
                let Some(reply) = reply(&question, true) else { break };
                connection.write_u16(u16::try_from(reply.len()).expect("a short reply")).await?;
                connection.write_all(&reply).await?;
            }
            std::io::Result::Ok(())
        });
    }
}

/// Answers DNS queries: `site.test` is the far side; `long.test` is too, but needs TCP; `silent.test` gets no answer; other
/// names do not exist.
fn reply(question: &[u8], at_length: bool) -> Option<Vec<u8>> {
    let mut message = Message::from_vec(question).ok()?;
    let query = message.queries.first()?.clone();
    let name = query.name().to_ascii().to_lowercase();
    message.metadata.message_type = MessageType::Response;
    match name.as_str() {
        "silent.test." => return None,
        "long.test." if !at_length => message.metadata.truncation = true,
        "site.test." | "long.test." => {
            let data = match query.query_type() {
                RecordType::A => RData::A(FAR.into()),
                _ => RData::AAAA(FAR_6.parse().expect("an address")),
            };
            message.answers.push(Record::from_rdata(query.name().clone(), 60, data));
        }
        _ => message.metadata.response_code = ResponseCode::NXDomain,
    }
    message.to_vec().ok()
}

pub struct Relay {
    pub address: SocketAddr,
    _running: AbortOnDropHandle<()>,
}

impl Relay {
    /// Losses per thousand packets in each direction.
    pub async fn to(server: SocketAddr, delay: Duration, lost: u32) -> Self {
        let inner = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port"));
        let address = inner.local_addr().expect("an address");
        let outer = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port"));
        outer.connect(server).await.expect("a server");
        let client = Arc::new(std::sync::Mutex::new(None));
        let there = carry(Arc::clone(&inner), Arc::clone(&outer), Arc::clone(&client), true, delay, lost);
        let back = carry(outer, inner, client, false, delay, lost);
        let running = spawn(async move {
            tokio::join!(there, back);
        });
        Self { address, _running: running }
    }
}

type Client = Arc<std::sync::Mutex<Option<SocketAddr>>>;

async fn carry(from: Arc<UdpSocket>, to: Arc<UdpSocket>, client: Client, there: bool, delay: Duration, lost: u32) {
    let (queue, mut waiting) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>, Option<SocketAddr>)>();
    let sender = spawn(async move {
        while let Some((when, datagram, address)) = waiting.recv().await {
            tokio::time::sleep_until(when.into()).await;
            let _ = match address {
                Some(address) => to.send_to(&datagram, address).await,
                None => to.send(&datagram).await,
            };
        }
    });
    let mut datagram = vec![0; 65_535];
    loop {
        let Ok((length, source)) = from.recv_from(&mut datagram).await else { continue };
        let address = if there {
            client.lock().expect("no panic").replace(source);
            None
        } else {
            *client.lock().expect("no panic")
        };
        if rand::random_range(0..1000) >= lost
            && queue.send((Instant::now() + delay, datagram[..length].to_vec(), address)).is_err()
        {
            drop(sender);
            return;
        }
    }
}
