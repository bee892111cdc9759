//! WireGuard, against wireguard-go.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use boringtun::x25519::{PublicKey, StaticSecret};
use kitfleet_tunnels::wireguard::Config;
use kitfleet_tunnels::{Closed, ConnectError, OpenError, Stream, Tunnel};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::ProcError;
use procfs::process::{Process, Task};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};
use url::Host;

use super::support::{FAR, FAR_6, Far, PORT, Relay, Site, in_a_network_of_its_own, run};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 51820);
const WITHIN: Duration = Duration::from_secs(5);

/// A server, and what is behind it.
struct Server {
    program: Child,
    site: Site,
    _far: Far,
    private_key: [u8; 32],
    public_key: PublicKey,
    preshared_key: [u8; 32],
}

impl Server {
    async fn start() -> Self {
        let far = Far::new();
        let program = Command::new("wireguard-go")
            .args(["-f", "wg0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("wireguard-go, which egress/tests/servers installs");
        let socket = Path::new("/var/run/wireguard/wg0.sock");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !socket.exists() {
            assert!(Instant::now() < deadline, "wireguard-go listens");
            sleep(Duration::from_millis(10)).await;
        }
        let [server, private_key, preshared_key] = rand::random::<[[u8; 32]; 3]>();
        let mut settings = format!("set=1\nprivate_key={}\nlisten_port={}\n", hex(&server), SERVER.port());
        let own = PublicKey::from(&StaticSecret::from(private_key));
        write!(settings, "public_key={}\npreshared_key={}\n", hex(own.as_bytes()), hex(&preshared_key)).expect("text");
        settings.push_str("allowed_ip=10.66.0.2/32\nallowed_ip=fd66::2/128\n\n");
        let mut uapi = UnixStream::connect(socket).expect("wireguard-go's socket");
        uapi.write_all(settings.as_bytes()).expect("settings");
        let mut reply = [0; 8];
        uapi.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"errno=0\n");
        run(&format!("ip link set wg0 netns {}", far.path()));
        far.there(|| {
            run(&format!(
                "ip addr add {FAR}/24 dev wg0; ip addr add {FAR_6}/64 dev wg0 nodad; ip link set wg0 mtu 1420 up
                 ip addr add 10.77.0.1/32 dev lo"
            ));
        });
        let site = Site::at(&far);
        let public_key = PublicKey::from(&StaticSecret::from(server));
        Self { program, site, _far: far, private_key, public_key, preshared_key }
    }

    /// What a customer has.
    fn file(&self) -> String {
        format!(
            "[Interface]\nPrivateKey = {}\nAddress = 10.66.0.2/32, fd66::2/128\nDNS = {FAR}\n\
             [Peer]\nPublicKey = {}\nPresharedKey = {}\nAllowedIPs = 10.66.0.0/24, fd66::/64\nEndpoint = {SERVER}\n",
            STANDARD.encode(self.private_key),
            STANDARD.encode(self.public_key.as_bytes()),
            STANDARD.encode(self.preshared_key),
        )
    }

    fn config(&self) -> Config {
        Config::parse(&self.file()).expect("a configuration")
    }

    async fn tunnel(&self) -> Tunnel {
        self.config().open(SERVER, WITHIN).await.expect("a tunnel")
    }

    fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("a signal");
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.program.id().try_into().expect("a pid"))
    }

    /// Waits until none of its threads goes on.
    async fn stopped(&self) {
        let process = Process::new(self.pid().as_raw()).expect("the server");
        let deadline = Instant::now() + Duration::from_secs(10);
        let goes_on =
            |task: Result<Task, ProcError>| task.and_then(|task| task.stat()).is_ok_and(|stat| stat.state != 'T');
        while process.tasks().expect("its threads").any(goes_on) {
            assert!(Instant::now() < deadline, "it stops");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text");
        text
    })
}

pub async fn site(tunnel: &Tunnel) -> Stream {
    tunnel.connect(Host::Ipv4(FAR), PORT).await.expect("a connection")
}

/// Fetches so many bytes.
pub async fn download(mut stream: Stream, bytes: usize) -> std::io::Result<()> {
    stream.write_all(format!("down {bytes}\n").as_bytes()).await?;
    let count = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    assert_eq!(count, bytes as u64);
    Ok(())
}

/// Sends so many, and hears that they came.
pub async fn upload(mut stream: Stream, bytes: usize) -> std::io::Result<()> {
    stream.write_all(b"up\n").await?;
    let chunk = vec![b'.'; 256 << 10];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(chunk.len());
        stream.write_all(&chunk[..length]).await?;
        left -= length;
    }
    stream.shutdown().await?;
    let mut count = String::new();
    stream.read_to_string(&mut count).await?;
    assert_eq!(count, bytes.to_string());
    Ok(())
}

#[test]
fn a_tunnel_leads_to_what_is_behind_it() {
    in_a_network_of_its_own("wireguard::a_tunnel_leads_to_what_is_behind_it", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        for host in [Host::Domain("site.test"), Host::Domain("long.test"), Host::Ipv4(FAR)] {
            download(tunnel.connect(host, PORT).await.expect("a connection"), 100_000).await.expect("all of it");
        }
        let ipv6 = tunnel.connect(Host::Ipv6(FAR_6.parse().expect("an address")), PORT).await;
        download(ipv6.expect("a connection"), 100_000).await.expect("all of it");
        upload(site(&tunnel).await, 3_000_000).await.expect("all of it");

        // What was said comes back as it was said, and after the last word comes an end.
        let mut echo = site(&tunnel).await;
        let said: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
        echo.write_all(b"echo\n").await.expect("a word");
        let (mut reader, mut writer) = tokio::io::split(echo);
        let (heard, ()) = tokio::join!(
            async {
                let mut heard = Vec::new();
                reader.read_to_end(&mut heard).await.expect("an end");
                heard
            },
            async {
                writer.write_all(&said).await.expect("words");
                writer.shutdown().await.expect("the last word");
            }
        );
        assert!(heard == said, "the same");
    });
}

#[test]
fn each_failure_has_its_name() {
    in_a_network_of_its_own("wireguard::each_failure_has_its_name", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        let failure = async |host: Host<&str>, port| tunnel.connect(host, port).await.expect_err("no connection");
        assert_eq!(failure(Host::Domain("site.test"), 9).await, ConnectError::Refused);
        assert_eq!(failure(Host::Domain("nothing.test"), PORT).await, ConnectError::NameNotFound);
        // It exists there, but AllowedIPs do not name it; nor do they this machine or everybody.
        let began = Instant::now();
        for address in [[10, 77, 0, 1], [127, 0, 0, 1], [10, 66, 0, 2], [255, 255, 255, 255], [0, 0, 0, 0]] {
            assert_eq!(failure(Host::Ipv4(address.into()), PORT).await, ConnectError::Unreachable);
        }
        assert_eq!(failure(Host::Domain("localhost"), PORT).await, ConnectError::Unreachable);
        assert!(began.elapsed() < Duration::from_secs(1), "nobody is asked");
        // What a name leads to may not be what is wanted.
        let refused = tunnel.connect_if(Host::Domain("site.test"), PORT, |address| address != IpAddr::from(FAR)).await;
        assert_eq!(refused.err(), None, "the other address");
        let refused = tunnel.connect_if(Host::Domain("site.test"), PORT, |_| false).await;
        assert_eq!(refused.err(), Some(ConnectError::NotAllowed));
        // A server of names that says nothing is alive all the same.
        let asked = server.site.asked.load(Ordering::Relaxed);
        assert_eq!(failure(Host::Domain("silent.test"), PORT).await, ConnectError::NameNotFound);
        let asked = server.site.asked.load(Ordering::Relaxed) - asked;
        assert!((1..=24).contains(&asked), "and is not asked for ever, but {asked} times");
        // So is one whose addresses do not answer.
        assert_eq!(failure(Host::Ipv4([10, 66, 0, 99].into()), PORT).await, ConnectError::TimedOut);
        download(site(&tunnel).await, 1000).await.expect("all of it");
    });
}

#[test]
fn what_does_not_open_says_why() {
    in_a_network_of_its_own("wireguard::what_does_not_open_says_why", async {
        let server = Server::start().await;
        // To keys that it does not know a server says nothing.
        let stranger = Config::parse(
            &server.file().replace(&STANDARD.encode(server.private_key), &STANDARD.encode(rand::random::<[u8; 32]>())),
        );
        let limit = Duration::from_millis(1500);
        let began = Instant::now();
        let refused = stranger.expect("a configuration").open(SERVER, limit).await;
        assert_eq!(refused.err(), Some(OpenError::TimedOut));
        let other = Config::parse(
            &server
                .file()
                .replace(&STANDARD.encode(server.preshared_key), &STANDARD.encode(rand::random::<[u8; 32]>())),
        );
        let refused = other.expect("a configuration").open(SERVER, limit).await;
        assert_eq!(refused.err(), Some(OpenError::TimedOut));
        // Nobody listens.
        let nobody = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9);
        assert_eq!(server.config().open(nobody, limit).await.err(), Some(OpenError::Unreachable));
        let elsewhere = "192.0.2.1:51820".parse().expect("an address");
        assert_eq!(server.config().open(elsewhere, limit).await.err(), Some(OpenError::Unreachable));
        // Somebody talks nonsense.
        let nonsense = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let address = nonsense.local_addr().expect("an address");
        let talking = tokio::spawn(async move {
            let mut datagram = [0; 2048];
            while let Ok((length, from)) = nonsense.recv_from(&mut datagram).await {
                for reply in [&b"nonsense"[..], &[], &[2; 92], &[4; 2000], &[3; 64], &datagram[..length]] {
                    let _ = nonsense.send_to(reply, from).await;
                }
            }
        });
        assert_eq!(server.config().open(address, limit).await.err(), Some(OpenError::TimedOut));
        assert!(began.elapsed() < limit * 3 + Duration::from_secs(2), "within the limit each");
        talking.abort();
        download(site(&server.tunnel().await).await, 1000).await.expect("all of it");
    });
}

#[test]
fn a_dead_server_is_noticed_in_three_seconds() {
    in_a_network_of_its_own("wireguard::a_dead_server_is_noticed_in_three_seconds", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        let mut open = site(&tunnel).await;
        open.write_all(b"echo\nbefore").await.expect("words");
        let mut heard = [0; 6];
        open.read_exact(&mut heard).await.expect("words");

        server.signal(Signal::SIGKILL);
        for host in [Host::Ipv4(FAR), Host::Domain("site.test"), Host::Domain("other.test")] {
            let began = Instant::now();
            assert_eq!(tunnel.connect(host, PORT).await.err(), Some(ConnectError::TunnelDead));
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        }
        // What is open ends, and the tunnel says that it is dead.
        let closed = timeout(Duration::from_secs(12), tunnel.closed()).await;
        assert_eq!(closed, Ok(Closed::Silent));
        assert!(open.read_exact(&mut heard).await.is_err());
        assert!(open.write_all(b"after").await.is_err());
        let began = Instant::now();
        assert_eq!(tunnel.connect(Host::Ipv4(FAR), PORT).await.err(), Some(ConnectError::TunnelDead));
        assert!(began.elapsed() < Duration::from_millis(100));
    });
}

#[test]
fn a_server_that_comes_back_goes_on() {
    in_a_network_of_its_own("wireguard::a_server_that_comes_back_goes_on", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        let going_on = tokio::spawn(download(site(&tunnel).await, 40_000_000));
        server.signal(Signal::SIGSTOP);
        server.stopped().await;
        assert_eq!(tunnel.connect(Host::Ipv4(FAR), PORT).await.err(), Some(ConnectError::TunnelDead));
        server.signal(Signal::SIGCONT);
        let deadline = Instant::now() + Duration::from_secs(10);
        while tunnel.connect(Host::Ipv4(FAR), PORT).await.is_err() {
            assert!(Instant::now() < deadline, "it answers again");
            sleep(Duration::from_millis(50)).await;
        }
        timeout(Duration::from_secs(30), going_on).await.expect("in time").expect("no panic").expect("all of it");
    });
}

#[test]
fn many_connections_share_a_tunnel() {
    in_a_network_of_its_own("wireguard::many_connections_share_a_tunnel", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        let mut held = Vec::new();
        for _ in 0..256 {
            let tunnel = tunnel.clone();
            held.push(tokio::spawn(async move { site(&tunnel).await }));
        }
        let mut open = Vec::new();
        for connecting in held {
            open.push(connecting.await.expect("a connection"));
        }
        // They are all there at once, and all of them work.
        let working: Vec<_> = open.into_iter().map(|stream| tokio::spawn(download(stream, 200_000))).collect();
        for work in working {
            work.await.expect("no panic").expect("all of it");
        }
    });
}

#[test]
fn an_upload_survives_losses() {
    in_a_network_of_its_own("wireguard::an_upload_survives_losses", async {
        let server = Server::start().await;
        // A round trip of 50 ms, and one packet in two hundred lost, each way.
        let relay = Relay::to(SERVER, Duration::from_millis(25), 5).await;
        let tunnel = server.config().open(relay.address, WITHIN).await.expect("a tunnel");
        let began = Instant::now();
        upload(site(&tunnel).await, 6_000_000).await.expect("all of it");
        // Half a minute by smoltcp alone; two seconds, on a machine that has nothing else to do.
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        download(site(&tunnel).await, 6_000_000).await.expect("all of it");
    });
}

#[test]
fn nothing_is_left_of_a_tunnel() {
    in_a_network_of_its_own("wireguard::nothing_is_left_of_a_tunnel", async {
        let server = Server::start().await;
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let sockets = || {
            let process = Process::myself().expect("this process");
            process.fd_count().expect("its files")
        };
        let before = (tasks(), sockets());
        let tunnel = server.tunnel().await;
        let stream = tunnel.connect(Host::Domain("long.test"), PORT).await.expect("a connection");
        let unused = tunnel.clone();
        drop((tunnel, unused));
        // A stream keeps the tunnel.
        download(stream, 1_000_000).await.expect("all of it");
        // Whoever does not wait for a tunnel leaves nothing either.
        let silent = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let address = silent.local_addr().expect("an address");
        let config = server.config();
        assert!(timeout(Duration::from_millis(300), config.open(address, WITHIN)).await.is_err());
        drop(silent);
        let tunnel = server.tunnel().await;
        let connecting = tunnel.connect(Host::Ipv4([10, 66, 0, 99].into()), PORT);
        assert!(timeout(Duration::from_millis(300), connecting).await.is_err());
        let looking_up = tunnel.connect(Host::Domain("silent.test"), PORT);
        assert!(timeout(Duration::from_millis(300), looking_up).await.is_err());
        drop(tunnel);
        let deadline = Instant::now() + Duration::from_secs(10);
        // The site's own tasks end when their connections do.
        while (tasks(), sockets()) != before {
            assert!(Instant::now() < deadline, "{before:?} became {:?}", (tasks(), sockets()));
            sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
#[ignore = "it takes two minutes and a half, because keys last two"]
fn keys_are_renewed_under_load() {
    in_a_network_of_its_own("wireguard::keys_are_renewed_under_load", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        let mut echo = site(&tunnel).await;
        echo.write_all(b"echo\n").await.expect("a word");
        let began = Instant::now();
        let (mut slowest, mut words) = (Duration::ZERO, 0_u32);
        while began.elapsed() < Duration::from_secs(150) {
            let asked = Instant::now();
            let said = vec![b'.'; 64 << 10];
            let mut heard = vec![0; said.len()];
            echo.write_all(&said).await.expect("words");
            echo.read_exact(&mut heard).await.expect("words");
            slowest = slowest.max(asked.elapsed());
            words += 1;
            sleep(Duration::from_millis(20)).await;
        }
        assert!(slowest < Duration::from_millis(1500), "{slowest:?} of {words}");
    });
}

/// What this machine gets through a tunnel; the command is in the documentation of the crate.
#[test]
#[ignore = "it measures, and means something in a release build only"]
#[expect(clippy::print_stderr, clippy::cast_precision_loss, reason = "whoever runs it reads the figures")]
fn figures() {
    in_a_network_of_its_own("wireguard::figures", async {
        let server = Server::start().await;
        let memory = || {
            let status = Process::myself().and_then(|process| process.status()).expect("this process");
            status.vmrss.expect("memory")
        };
        let rate = |bytes: usize, began: Instant| bytes as f64 / 1e6 / began.elapsed().as_secs_f64();
        let before = memory();
        let began = Instant::now();
        let tunnel = server.tunnel().await;
        eprintln!("open: {:?}", began.elapsed());
        let began = Instant::now();
        download(tunnel.connect(Host::Domain("site.test"), PORT).await.expect("a connection"), 1000)
            .await
            .expect("all");
        eprintln!("first page: {:?}", began.elapsed());
        eprintln!("idle: {} KiB", memory() - before);
        let (began, bytes) = (Instant::now(), 500_000_000);
        download(site(&tunnel).await, bytes).await.expect("all of it");
        eprintln!("down: {:.1} MB/s", rate(bytes, began));
        let (began, bytes) = (Instant::now(), 300_000_000);
        upload(site(&tunnel).await, bytes).await.expect("all of it");
        eprintln!("up: {:.1} MB/s", rate(bytes, began));
        eprintln!("after: {} KiB", memory() - before);
        for round in 1..=3 {
            let mut held = Vec::new();
            for _ in 0..256 {
                held.push(site(&tunnel).await);
            }
            eprintln!("{round}: 256 connections: {} KiB", memory() - before);
            let began = Instant::now();
            let working: Vec<_> = held.into_iter().map(|stream| tokio::spawn(download(stream, 1_000_000))).collect();
            for work in working {
                work.await.expect("no panic").expect("all of it");
            }
            eprintln!("{round}: down, all at once: {:.1} MB/s, {} KiB", rate(256_000_000, began), memory() - before);
        }
        drop(tunnel);
        for (delay, lost, bytes) in [(25, 0, 20_000_000), (25, 5, 10_000_000), (25, 20, 5_000_000), (5, 5, 10_000_000)]
        {
            let relay = Relay::to(SERVER, Duration::from_millis(delay), lost).await;
            let tunnel = server.config().open(relay.address, WITHIN).await.expect("a tunnel");
            let began = Instant::now();
            download(site(&tunnel).await, bytes).await.expect("all of it");
            let down = rate(bytes, began);
            let began = Instant::now();
            let up = timeout(Duration::from_mins(1), upload(site(&tunnel).await, bytes)).await;
            let up = up.map_or(f64::NAN, |_| rate(bytes, began));
            eprintln!("{} ms, {} of 1000 lost: down {down:.2} MB/s, up {up:.2} MB/s", delay * 2, lost);
        }
    });
}
