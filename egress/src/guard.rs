//! The egress guard: the only network path of a browser. It is a SOCKS 5 proxy on a socket in the browser's folder, or
//! on a loopback port where browsers are not confined.
//!
//! The guard connects to each target through the browser's [`EgressRoute`] and relays data. It rejects addresses
//! outside the public internet, and public addresses of this machine and its networks, unless the deployment allows
//! them. The guard and all its connections end with the browser.
//!
//! Concurrent connections and name lookups of a browser are limited. Further ones wait in the browser's own guard, so a
//! page that opens thousands does not affect other sessions.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fast_socks5::Socks5Command;
use fast_socks5::server::{Socks5ServerProtocol, SocksServerError, states};
use fast_socks5::util::target_addr::TargetAddr;
use kitfleet_types::log_throttle::LogThrottle;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::either::Either;
use tokio_util::io::InspectReader;
use tokio_util::task::AbortOnDropHandle;

use crate::connection::Connection;
use crate::refusal::Refusal;
use crate::route::EgressRoute;
use crate::rules::Rules;
use crate::target::Target;
use crate::welcome;

const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Time a server may continue to send after the browser has closed its side.
const LINGER: Duration = Duration::from_secs(30);

/// Dropping it stops the guard and its egress route.
pub struct Guard {
    port: Option<u16>,
    rules: Rules,
    record: Arc<Record>,
    offline: watch::Sender<bool>,
    _serving: AbortOnDropHandle<()>,
}

struct GuardContext {
    route: Arc<EgressRoute>,
    record: Arc<Record>,
    offline: watch::Receiver<bool>,
}

impl GuardContext {
    async fn until_offline(&self) {
        let mut offline = self.offline.clone();
        // The wait fails without the guard, whose connections end with it.
        let _ = offline.wait_for(|offline| *offline).await;
    }

    async fn connect(&self, command: Socks5Command, target: TargetAddr) -> Result<Connection, Refusal> {
        if !matches!(command, Socks5Command::TCPConnect) {
            return Err(Refusal::Unsupported);
        }
        self.route.connect(&Target::read(target)?).await
    }
}

enum GuardListener {
    Port(TcpListener),
    Socket(UnixListener),
}

impl GuardListener {
    async fn accept(&self) -> io::Result<Browser> {
        match self {
            Self::Port(listener) => {
                let (browser, _) = listener.accept().await?;
                // Sends small writes, such as those of a WebSocket, without delay.
                browser.set_nodelay(true)?;
                Ok(Either::Left(browser))
            }
            Self::Socket(listener) => Ok(Either::Right(listener.accept().await?.0)),
        }
    }
}

type Browser = Either<TcpStream, UnixStream>;

#[derive(Default)]
struct Record {
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    refusal: Mutex<Option<Refusal>>,
}

impl Guard {
    pub async fn open(route: Arc<EgressRoute>, rules: &Rules) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        rules.with_guards(|ports| ports.insert(port));
        Ok(Self::serve(GuardListener::Port(listener), Some(port), route, rules))
    }

    /// Starts listening on a socket in the folder of a browser that has its own network namespace, in which a port leads to the
    /// socket.
    pub fn open_in(folder: &Path, socket: &str, route: Arc<EgressRoute>, rules: &Rules) -> io::Result<Self> {
        // A socket's path has at most 107 bytes and the folder's path may be longer, so the path goes through the folder's file
        // descriptor.
        let opened = File::open(folder)?;
        let path = format!("/proc/self/fd/{}/{socket}", opened.as_raw_fd());
        let listener = UnixListener::bind(&path)?;
        // The browser runs as another user, and no other user can access the folder.
        fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        Ok(Self::serve(GuardListener::Socket(listener), None, route, rules))
    }

    fn serve(door: GuardListener, port: Option<u16>, route: Arc<EgressRoute>, rules: &Rules) -> Self {
        let record = Arc::<Record>::default();
        let (offline, is_offline) = watch::channel(false);
        let context = Arc::new(GuardContext { route, record: Arc::clone(&record), offline: is_offline });
        let serving = tokio::spawn(serve(door, rules.connections, context));
        Self { port, rules: rules.clone(), record, offline, _serving: AbortOnDropHandle::new(serving) }
    }

    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Cuts all connections of the browser and refuses new ones, or accepts connections again.
    pub fn set_offline(&self, offline: bool) {
        self.offline.send_replace(offline);
    }

    /// Since the previous call.
    pub fn take_refusal(&self) -> Option<Refusal> {
        self.record.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(port) = self.port {
            self.rules.with_guards(|ports| ports.remove(&port));
        }
        let up = self.record.bytes_up.load(Ordering::Relaxed);
        let down = self.record.bytes_down.load(Ordering::Relaxed);
        tracing::info!(bytes_up = up, bytes_down = down, "egress guard of a browser closed");
    }
}

async fn serve(door: GuardListener, connections: usize, context: Arc<GuardContext>) {
    static FAILED: LogThrottle = LogThrottle::new();
    let places = Arc::new(Semaphore::new(connections));
    // The connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match door.accept().await {
            Ok(browser) => {
                let context = Arc::clone(&context);
                connections.spawn(async move {
                    let _place = place;
                    if let Err(error) = handle(browser, &context).await {
                        tracing::debug!(%error, "browser connection ended with an error");
                    }
                });
            }
            Err(error) => {
                // The most likely cause is too many open files; others may close.
                FAILED.log(|held_back| tracing::warn!(%error, held_back, "egress guard cannot accept connections"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn handle(browser: Browser, context: &GuardContext) -> Result<(), SocksServerError> {
    let Ok(socks_request) = timeout(HANDSHAKE_WITHIN, read_request(browser)).await else { return Ok(()) };
    let SocksRequest { browser, command, target } = socks_request?;
    let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let is_offline = *context.offline.borrow();
    if matches!(command, Socks5Command::TCPConnect) && welcome::is_at(&target) && !is_offline {
        let browser = browser.reply_success(unspecified).await?;
        if let Err(error) = welcome::serve(browser).await {
            tracing::debug!(%error, "browser closed the connection before it received the welcome page");
        }
        return Ok(());
    }
    let connected = tokio::select! {
        biased;
        () = context.until_offline() => Err(Refusal::Offline),
        connected = context.connect(command, target) => connected,
    };
    match connected {
        Ok(server) => {
            let browser = browser.reply_success(unspecified).await?;
            tokio::select! {
                () = relay(browser, server, &context.record) => {}
                () = context.until_offline() => {}
            }
            Ok(())
        }
        Err(refusal) => {
            tracing::debug!(%refusal, "egress guard refused a connection");
            context.record.refusal.lock().unwrap_or_else(PoisonError::into_inner).replace(refusal);
            browser.reply_error(&refusal.reply()).await
        }
    }
}

struct SocksRequest {
    browser: Socks5ServerProtocol<Browser, states::CommandRead>,
    command: Socks5Command,
    target: TargetAddr,
}

async fn read_request(browser: Browser) -> Result<SocksRequest, SocksServerError> {
    let (browser, command, target) = Socks5ServerProtocol::accept_no_auth(browser).await?.read_command().await?;
    Ok(SocksRequest { browser, command, target })
}

/// Ends when both sides have closed. There is no limit while the browser keeps its side open: WebKit closes connections
/// that it no longer needs.
async fn relay(browser: Browser, server: Connection, record: &Record) {
    let (from_browser, to_browser) = split(browser);
    let (from_server, to_server) = split(server);
    let mut up = pin!(copy(from_browser, to_server, &record.bytes_up));
    let mut down = pin!(copy(from_server, to_browser, &record.bytes_down));
    // An error on either side ends both directions. The linger timeout limits a server that does not close its side.
    tokio::select! {
        ended = &mut up => if ended.is_ok() {
            let _ = timeout(LINGER, down).await;
        },
        ended = &mut down => if ended.is_ok() {
            let _ = up.await;
        },
    }
}

async fn copy(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, count: &AtomicU64) -> io::Result<()> {
    let mut counted = InspectReader::new(from, |bytes| {
        count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    });
    tokio::io::copy(&mut counted, &mut to).await?;
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use kitfleet_types::addresses::Destinations;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::names::Names;

    const CONNECT: u8 = 1;
    const BIND: u8 = 2;

    fn rules(allow_private: bool) -> Rules {
        rules_of(Destinations { allow_private, ..Destinations::default() }, 256)
    }

    fn rules_of(destinations: Destinations, connections: usize) -> Rules {
        Rules::new(destinations.clone(), destinations, connections).expect("a resolver")
    }

    async fn open(rules: &Rules) -> Guard {
        Guard::open(Arc::new(EgressRoute::direct(rules)), rules).await.expect("a guard")
    }

    fn port_of(guard: &Guard) -> u16 {
        guard.port().expect("it listens on one")
    }

    async fn ask(guard: &Guard, command: u8, host: &str, port: u16) -> (TcpStream, u8) {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port_of(guard))).await.expect("the guard listens");
        request(stream, command, host, port).await
    }

    async fn request<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, command: u8, host: &str, port: u16) -> (S, u8) {
        stream.write_all(&[5, 1, 0]).await.expect("it reads");
        let mut greeting = [0; 2];
        stream.read_exact(&mut greeting).await.expect("it answers");
        assert_eq!(greeting, [5, 0]);

        let length = u8::try_from(host.len()).expect("a short name");
        let request = [&[5, command, 0, 3, length], host.as_bytes(), &port.to_be_bytes()].concat();
        stream.write_all(&request).await.expect("it reads");
        let mut reply = [0; 10];
        stream.read_exact(&mut reply).await.expect("it answers");
        (stream, reply[1])
    }

    #[tokio::test]
    async fn private_addresses_are_refused_in_every_notation() {
        let site = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = site.local_addr().expect("an address").port();
        let guard = open(&rules(false)).await;
        for host in
            ["127.0.0.1", "localhost", "2130706433", "127.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254"]
        {
            let (_, reply) = ask(&guard, CONNECT, host, port).await;
            assert_eq!(reply, 2, "{host}");
            assert_eq!(guard.take_refusal(), Some(Refusal::NotAllowed), "{host}");
        }
    }

    #[tokio::test]
    async fn allowed_connection_is_relayed_and_counted() {
        let site = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = site.local_addr().expect("an address").port();
        let echo = tokio::spawn(async move {
            let (mut stream, _) = site.accept().await.expect("a connection");
            let mut words = Vec::new();
            stream.read_to_end(&mut words).await.expect("words");
            stream.write_all(&words.repeat(2)).await.expect("it reads");
        });
        let guard = open(&rules(true)).await;
        let (mut stream, reply) = ask(&guard, CONNECT, "localhost", port).await;
        assert_eq!(reply, 0);
        stream.write_all(b"echo").await.expect("it reads");
        stream.shutdown().await.expect("it is open");
        let mut words = String::new();
        stream.read_to_string(&mut words).await.expect("words");
        echo.await.expect("no panic");

        assert_eq!(words, "echoecho");
        assert_eq!(guard.record.bytes_up.load(Ordering::Relaxed), 4);
        assert_eq!(guard.record.bytes_down.load(Ordering::Relaxed), 8);
    }

    #[tokio::test]
    async fn guard_listens_in_a_folder_with_a_long_path() {
        let site = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = site.local_addr().expect("an address").port();
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join("long".repeat(30));
        fs::create_dir_all(&folder).expect("a folder");
        let guard = {
            let rules = rules(true);
            Guard::open_in(&folder, "way-out", Arc::new(EgressRoute::direct(&rules)), &rules).expect("a guard")
        };
        let inside = File::open(&folder).expect("the folder");
        let socket = UnixStream::connect(format!("/proc/self/fd/{}/way-out", inside.as_raw_fd()));
        let (_, reply) = request(socket.await.expect("the guard listens"), CONNECT, "127.0.0.1", port).await;
        assert_eq!(reply, 0);
        drop(guard);
    }

    #[tokio::test]
    async fn guards_are_not_reachable_through_a_guard() {
        let rules = rules(true);
        let (guard, other) = (open(&rules).await, open(&rules).await);
        for port in [port_of(&guard), port_of(&other)] {
            for host in ["127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"] {
                let (_, reply) = ask(&guard, CONNECT, host, port).await;
                assert_eq!(reply, 2, "{host}:{port}");
            }
        }
    }

    #[tokio::test]
    async fn reply_code_names_the_failure() {
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = closed.local_addr().expect("an address").port();
        drop(closed);
        let guard = open(&rules(true)).await;
        assert_eq!(ask(&guard, CONNECT, "127.0.0.1", port).await.1, 5, "refused");
        assert_eq!(ask(&guard, CONNECT, "no-such-name.invalid", port).await.1, 4, "name not found");
        assert_eq!(ask(&guard, BIND, "127.0.0.1", port).await.1, 7, "unsupported");
    }

    #[tokio::test]
    async fn dropping_a_guard_ends_its_connections() {
        let site = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = site.local_addr().expect("an address").port();
        let guard = open(&rules(true)).await;
        let (mut stream, reply) = ask(&guard, CONNECT, "127.0.0.1", port).await;
        assert_eq!(reply, 0);
        let address = (Ipv4Addr::LOCALHOST, port_of(&guard));
        drop(guard);
        let mut nothing = [0; 1];
        assert!(matches!(stream.read(&mut nothing).await, Ok(0) | Err(_)));
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn offline_cuts_connections_and_refuses_new_ones() {
        let site = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = site.local_addr().expect("an address").port();
        let guard = open(&rules(true)).await;
        let (mut stream, reply) = ask(&guard, CONNECT, "127.0.0.1", port).await;
        assert_eq!(reply, 0);
        guard.set_offline(true);
        let cut = timeout(Duration::from_secs(20), stream.read(&mut [0; 1])).await.expect("in time");
        assert!(matches!(cut, Ok(0) | Err(_)));
        for (host, port) in [("127.0.0.1", port), ("welcome.kitfleet.internal", 80)] {
            assert_eq!(ask(&guard, CONNECT, host, port).await.1, 3, "{host}");
            assert_eq!(guard.take_refusal(), Some(Refusal::Offline), "{host}");
        }
        guard.set_offline(false);
        assert_eq!(ask(&guard, CONNECT, "127.0.0.1", port).await.1, 0);
    }

    /// Private addresses that no list names stay denied.
    #[tokio::test]
    async fn deployment_lists_allow_and_deny_networks() {
        let site = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
        let port = site.local_addr().expect("an address").port();
        let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().expect("a prefix")).collect::<Vec<_>>();
        let destinations =
            Destinations { allow: nets(&["127.0.0.3/32", "127.0.0.4/32", "127.1.0.0/16"]), ..Destinations::default() };
        let destinations = Destinations { deny: nets(&["127.0.0.4/32"]), ..destinations };
        let rules = rules_of(destinations, 256);
        let (guard, other) = (open(&rules).await, open(&rules).await);
        for (host, reply) in [("127.0.0.3", 0), ("127.0.0.4", 2), ("127.0.0.1", 2), ("127.1.0.1", 2)] {
            assert_eq!(ask(&guard, CONNECT, host, port).await.1, reply, "{host}");
        }
        assert_eq!(ask(&guard, CONNECT, "127.0.0.3", port_of(&other)).await.1, 2, "a guard");
    }

    #[tokio::test]
    async fn connection_limit_is_per_browser() {
        let site = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = site.local_addr().expect("an address").port();
        let _site = AbortOnDropHandle::new(tokio::spawn(async move {
            while let Ok((mut stream, _)) = site.accept().await {
                tokio::spawn(async move { stream.read_to_end(&mut Vec::new()).await });
            }
        }));
        let rules = rules_of(Destinations { allow_private: true, ..Destinations::default() }, 4);
        let (guard, other) = (open(&rules).await, open(&rules).await);
        let mut open = Vec::new();
        for _ in 0..4 {
            let (stream, reply) = ask(&guard, CONNECT, "127.0.0.1", port).await;
            assert_eq!(reply, 0);
            open.push(stream);
        }
        let mut more = Vec::new();
        for _ in 0..100 {
            let mut stream =
                TcpStream::connect((Ipv4Addr::LOCALHOST, port_of(&guard))).await.expect("the guard listens");
            stream.write_all(&[5, 1, 0]).await.expect("it is sent");
            more.push(stream);
        }
        assert_eq!(ask(&other, CONNECT, "127.0.0.1", port).await.1, 0, "another browser");
        let mut greeting = [0; 2];
        for stream in &more {
            assert!(stream.try_read(&mut greeting).is_err(), "it waits");
        }
        // When a connection ends, the next waiting one is served.
        open.pop();
        let greeted = timeout(Duration::from_secs(20), more[0].read_exact(&mut greeting)).await;
        greeted.expect("in time").expect("a greeting");
        assert_eq!(greeting, [5, 0]);
    }

    /// Arbitrary bytes that a compromised browser might send, whole or in pieces.
    mod anything {
        use std::net::TcpListener as Witness;
        use std::sync::LazyLock;

        use proptest::collection::vec;
        use proptest::prelude::*;
        use proptest::test_runner::FileFailurePersistence;

        use super::*;

        /// Listener on forbidden addresses. No connection may arrive.
        static WITNESS: LazyLock<Witness> = LazyLock::new(|| {
            let witness = Witness::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
            witness.set_nonblocking(true).expect("a socket");
            witness
        });

        fn host() -> impl Strategy<Value = Vec<u8>> {
            let named = |name: &str| [&[3, u8::try_from(name.len()).unwrap_or(0)], name.as_bytes()].concat();
            prop_oneof![
                (127_u8..128, any::<[u8; 3]>()).prop_map(|(first, rest)| [&[1, first][..], &rest[..]].concat()),
                prop_oneof![Just([10, 0, 0, 1]), Just([0, 0, 0, 0]), Just([169, 254, 169, 254])].prop_map(|v4| [
                    &[1][..],
                    &v4[..]
                ]
                .concat()),
                prop_oneof![Just("::1"), Just("::ffff:127.0.0.1"), Just("64:ff9b::7f00:1"), Just("fe80::1")].prop_map(
                    |v6| {
                        let address: std::net::Ipv6Addr = v6.parse().unwrap_or(std::net::Ipv6Addr::LOCALHOST);
                        [&[4][..], &address.octets()[..]].concat()
                    }
                ),
                prop_oneof![
                    Just("localhost"),
                    Just("127.1"),
                    Just("0x7f000001"),
                    Just("2130706433."),
                    Just("[::1]"),
                    Just("a.invalid"),
                    Just("")
                ]
                .prop_map(named),
                (3_u8..5, vec(any::<u8>(), 0..300)).prop_map(|(kind, bytes)| [&[kind][..], &bytes[..]].concat()),
            ]
        }

        fn request() -> impl Strategy<Value = Vec<u8>> {
            let port = WITNESS.local_addr().map_or(1, |address| address.port());
            let command = prop_oneof![4 => Just(CONNECT), 1 => any::<u8>()];
            (command, host()).prop_map(move |(command, host)| {
                [&[5, 1, 0, 5, command, 0][..], &host[..], &port.to_be_bytes()[..]].concat()
            })
        }

        fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
            let bytes = prop_oneof![3 => request(), 1 => vec(any::<u8>(), 0..400)];
            (bytes, vec(1_usize..40, 0..6)).prop_map(|(bytes, lengths)| {
                let mut rest = &bytes[..];
                let mut pieces = Vec::new();
                for length in lengths {
                    let (piece, others) = rest.split_at(length.min(rest.len()));
                    pieces.push(piece.to_vec());
                    rest = others;
                }
                pieces.push(rest.to_vec());
                pieces
            })
        }

        async fn replies_to(guard: &Guard, pieces: &[Vec<u8>]) -> Vec<u8> {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port_of(guard))).await.expect("the guard listens");
            stream.set_nodelay(true).expect("a socket");
            let (mut reader, mut writer) = stream.into_split();
            let writing = async {
                for piece in pieces {
                    // The guard may have closed its side already.
                    if writer.write_all(piece).await.is_err() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                let _ = writer.shutdown().await;
            };
            let mut replies = Vec::new();
            let reading = async {
                // A reset counts as an end.
                let _ = reader.read_to_end(&mut replies).await;
            };
            let ended = timeout(Duration::from_secs(30), async { tokio::join!(writing, reading) }).await;
            ended.expect("the guard answers or hangs up");
            replies
        }

        proptest! {
            #![proptest_config(ProptestConfig {
                failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
                ..ProptestConfig::default()
            })]

            #[test]
            fn arbitrary_bytes_connect_nowhere_and_the_connection_ends(pieces in pieces()) {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                let replies = runtime.block_on(async {
                    let rules = Rules::asking(Names::unknown(), Destinations::default(), Destinations::default(), 256);
                    let guard = open(&rules).await;
                    replies_to(&guard, &pieces).await
                });
                // A greeting with the accepted method, and a reply that is not a success.
                prop_assert!(replies.len() <= 2 || (replies[2] == 5 && replies[3] != 0), "{replies:?}");
                prop_assert!(WITNESS.accept().is_err(), "a forbidden address was dialled");
            }
        }
    }
}
