//! WireGuard against wireguard-go.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kitfleet_tunnels::wireguard::Config;
use kitfleet_tunnels::{Closed, ConnectError, OpenError, Tunnel};
use nix::sys::signal::Signal;
use procfs::process::Process;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};
use url::Host;

use super::support::wireguard::{SERVER, Server};
use super::support::{FAR, FAR_6, PORT, Relay, in_network_namespace, run};
use super::traffic::{download, is_shared, site, survives_a_pause, upload};

const WITHIN: Duration = Duration::from_secs(5);

impl Server {
    fn config(&self) -> Config {
        Config::parse(&self.file()).expect("a configuration")
    }

    async fn tunnel(&self) -> Tunnel {
        self.config().open(SERVER, WITHIN).await.expect("a tunnel")
    }
}

#[test]
fn tunnel_reaches_the_far_side() {
    in_network_namespace("wireguard::tunnel_reaches_the_far_side", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        for host in [Host::Domain("site.test"), Host::Domain("long.test"), Host::Ipv4(FAR)] {
            download(tunnel.connect(host, PORT).await.expect("a connection"), 100_000).await.expect("all of it");
        }
        let ipv6 = tunnel.connect(Host::Ipv6(FAR_6.parse().expect("an address")), PORT).await;
        download(ipv6.expect("a connection"), 100_000).await.expect("all of it");
        upload(site(&tunnel).await, 3_000_000).await.expect("all of it");

        // Echoed data is identical, and the stream ends after it.
        let mut echo = site(&tunnel).await;
        let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_be_bytes).collect();
        echo.write_all(b"echo\n").await.expect("a word");
        let (mut reader, mut writer) = tokio::io::split(echo);
        let (received, ()) = tokio::join!(
            async {
                let mut received = Vec::new();
                reader.read_to_end(&mut received).await.expect("an end");
                received
            },
            async {
                writer.write_all(&sent).await.expect("words");
                writer.shutdown().await.expect("the last word");
            }
        );
        assert!(received == sent, "the same");
    });
}

#[test]
fn failures_of_connect_are_distinguished() {
    in_network_namespace("wireguard::failures_of_connect_are_distinguished", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        let failure = async |host: Host<&str>, port| tunnel.connect(host, port).await.expect_err("no connection");
        assert_eq!(failure(Host::Domain("site.test"), 9).await, ConnectError::Refused);
        assert_eq!(failure(Host::Domain("nothing.test"), PORT).await, ConnectError::NameNotFound);
        // The address exists on the far side, but is outside `AllowedIPs`. Loopback, own, broadcast and unspecified addresses
        // are unreachable, too.
        server.far.there(|| run("ip addr add 10.77.0.1/32 dev lo"));
        let began = Instant::now();
        for address in [[10, 77, 0, 1], [127, 0, 0, 1], [10, 66, 0, 2], [255, 255, 255, 255], [0, 0, 0, 0]] {
            assert_eq!(failure(Host::Ipv4(address.into()), PORT).await, ConnectError::Unreachable);
        }
        assert_eq!(failure(Host::Domain("localhost"), PORT).await, ConnectError::Unreachable);
        assert!(began.elapsed() < Duration::from_secs(1), "a packet was sent");
        // The caller can reject the addresses of a name.
        let refused = tunnel.connect_if(Host::Domain("site.test"), PORT, |address| address != IpAddr::from(FAR)).await;
        assert_eq!(refused.err(), None, "the other address");
        let refused = tunnel.connect_if(Host::Domain("site.test"), PORT, |_| false).await;
        assert_eq!(refused.err(), Some(ConnectError::NotAllowed));
        // A name server that does not answer does not make the tunnel dead.
        let asked = server.site.asked.load(Ordering::Relaxed);
        assert_eq!(failure(Host::Domain("silent.test"), PORT).await, ConnectError::NameNotFound);
        let asked = server.site.asked.load(Ordering::Relaxed) - asked;
        assert!((1..=24).contains(&asked), "{asked} queries");
        // Neither does an address that does not answer.
        assert_eq!(failure(Host::Ipv4([10, 66, 0, 99].into()), PORT).await, ConnectError::TimedOut);
        download(site(&tunnel).await, 1000).await.expect("all of it");
    });
}

#[test]
fn open_failures_are_distinguished() {
    in_network_namespace("wireguard::open_failures_are_distinguished", async {
        let server = Server::start().await;
        // A server does not answer unknown keys.
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
        // No server listens.
        let nobody = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9);
        assert_eq!(server.config().open(nobody, limit).await.err(), Some(OpenError::Unreachable));
        let elsewhere = "192.0.2.1:51820".parse().expect("an address");
        assert_eq!(server.config().open(elsewhere, limit).await.err(), Some(OpenError::Unreachable));
        // Invalid packets.
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
fn dead_server_is_detected_within_three_seconds() {
    in_network_namespace("wireguard::dead_server_is_detected_within_three_seconds", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        let mut open = site(&tunnel).await;
        open.write_all(b"echo\nbefore").await.expect("words");
        let mut received = [0; 6];
        open.read_exact(&mut received).await.expect("words");

        server.signal(Signal::SIGKILL);
        for host in [Host::Ipv4(FAR), Host::Domain("site.test"), Host::Domain("other.test")] {
            let began = Instant::now();
            assert_eq!(tunnel.connect(host, PORT).await.err(), Some(ConnectError::TunnelDead));
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        }
        // Open streams end, and the tunnel reports that it is dead.
        let closed = timeout(Duration::from_secs(12), tunnel.closed()).await;
        assert_eq!(closed, Ok(Closed::Silent));
        assert!(open.read_exact(&mut received).await.is_err());
        assert!(open.write_all(b"after").await.is_err());
        let began = Instant::now();
        assert_eq!(tunnel.connect(Host::Ipv4(FAR), PORT).await.err(), Some(ConnectError::TunnelDead));
        assert!(began.elapsed() < Duration::from_millis(100));
    });
}

#[test]
fn tunnel_survives_a_paused_server() {
    in_network_namespace("wireguard::tunnel_survives_a_paused_server", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        let stopping = async {
            server.signal(Signal::SIGSTOP);
            server.stopped().await;
        };
        survives_a_pause(&tunnel, stopping, || server.signal(Signal::SIGCONT)).await;
    });
}

#[test]
fn many_connections_share_a_tunnel() {
    in_network_namespace("wireguard::many_connections_share_a_tunnel", async {
        let server = Server::start().await;
        is_shared(&server.tunnel().await).await;
    });
}

#[test]
fn upload_is_fast_despite_losses() {
    in_network_namespace("wireguard::upload_is_fast_despite_losses", async {
        let server = Server::start().await;
        // A round trip of 50 ms, and a loss of one packet in 200 in each direction.
        let relay = Relay::to(SERVER, Duration::from_millis(25), 5).await;
        let tunnel = server.config().open(relay.address, WITHIN).await.expect("a tunnel");
        let began = Instant::now();
        upload(site(&tunnel).await, 6_000_000).await.expect("all of it");
        // 30 s with smoltcp alone, and 2 s with recovery on an idle machine.
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        download(site(&tunnel).await, 6_000_000).await.expect("all of it");
    });
}

#[test]
fn closed_tunnel_leaves_no_tasks_or_sockets() {
    in_network_namespace("wireguard::closed_tunnel_leaves_no_tasks_or_sockets", async {
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
        // An open stream keeps the tunnel open.
        download(stream, 1_000_000).await.expect("all of it");
        // Aborted attempts to open a tunnel or a connection leave nothing behind either.
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
        // The site's tasks end when their connections do.
        while (tasks(), sockets()) != before {
            assert!(Instant::now() < deadline, "{before:?} became {:?}", (tasks(), sockets()));
            sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
#[ignore = "takes 150 s, because keys last 120 s"]
fn keys_are_renewed_under_load() {
    in_network_namespace("wireguard::keys_are_renewed_under_load", async {
        let server = Server::start().await;
        let tunnel = server.tunnel().await;
        let mut echo = site(&tunnel).await;
        echo.write_all(b"echo\n").await.expect("a word");
        let began = Instant::now();
        let (mut slowest, mut words) = (Duration::ZERO, 0_u32);
        while began.elapsed() < Duration::from_secs(150) {
            let asked = Instant::now();
            let sent = vec![b'.'; 64 << 10];
            let mut received = vec![0; sent.len()];
            echo.write_all(&sent).await.expect("words");
            echo.read_exact(&mut received).await.expect("words");
            slowest = slowest.max(asked.elapsed());
            words += 1;
            sleep(Duration::from_millis(20)).await;
        }
        assert!(slowest < Duration::from_millis(1500), "{slowest:?} of {words}");
    });
}

#[test]
#[ignore = "a measurement, which is meaningful only in a release build"]
#[expect(clippy::print_stderr, clippy::cast_precision_loss, reason = "a measurement prints its results")]
fn measure_throughput() {
    in_network_namespace("wireguard::measure_throughput", async {
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
