//! OpenVPN against Debian's server.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use kitfleet_tunnels::openvpn::Profile;
use kitfleet_tunnels::{Closed, ConnectError, Credentials, OpenError, Tunnel};
use nix::sys::signal::Signal;
use rcgen::ExtendedKeyUsagePurpose;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::time::{sleep, timeout};
use url::Host;
use zeroize::Zeroizing;

use super::support::openvpn::{Authority, Guard, SERVER, Server, WITHOUT_NAMES, block, guarded};
use super::support::{FAR, FAR_6, PORT, Relay, in_network_namespace};
use super::traffic::{download, is_shared, site, survives_a_pause, upload};

const WITHIN: Duration = Duration::from_secs(10);

fn alice(password: &str) -> Credentials {
    Credentials { username: "alice".into(), password: Zeroizing::new(password.into()) }
}

impl Server {
    fn profile(&self) -> Profile {
        profile(&self.profile)
    }

    async fn tunnel(&self) -> Tunnel {
        self.tunnel_with("").await
    }

    async fn tunnel_with(&self, lines: &str) -> Tunnel {
        let opened = profile(&(lines.to_owned() + &self.profile)).open(SERVER, Some(alice("s3cret")), WITHIN).await;
        opened.unwrap_or_else(|error| panic!("{error}: {}", self.log()))
    }

    async fn refusal(&self, profile: &str, credentials: Option<Credentials>) -> OpenError {
        let opened = super::openvpn::profile(profile).open(SERVER, credentials, Duration::from_secs(4)).await;
        opened.map(drop).expect_err("no tunnel")
    }
}

fn profile(text: &str) -> Profile {
    Profile::parse(text).expect("a profile")
}

#[test]
fn tunnel_reaches_the_far_side() {
    in_network_namespace("openvpn::tunnel_reaches_the_far_side", async {
        // These routes exceed one push message.
        let routes: String =
            (0..120).fold(String::new(), |text, net| text + &format!("push \"route 10.99.{net}.0 255.255.255.0\"\n"));
        for (proto, guard, server, client, cipher, tls) in [
            ("udp", Guard::Crypt, routes.as_str(), "", "AES-256-GCM", "TLSv1.3"),
            ("udp", Guard::Auth, "data-ciphers CHACHA20-POLY1305", "", "CHACHA20-POLY1305", "TLSv1.3"),
            ("udp", Guard::None, "tls-version-max 1.2", "data-ciphers AES-128-GCM\n", "AES-128-GCM", "TLSv1.2"),
            ("udp", Guard::CryptV2, "", "cipher AES-256-CBC\n", "AES-256-GCM", "TLSv1.3"),
            ("tcp-server", Guard::CryptV2, "tls-version-max 1.2", "", "AES-256-GCM", "TLSv1.2"),
            ("tcp-server", Guard::Auth, "", "tls-version-min 1.3\n", "AES-256-GCM", "TLSv1.3"),
            ("tcp-server", Guard::None, "", "", "AES-256-GCM", "TLSv1.3"),
        ] {
            let server = Server::start(proto, guard, server).await;
            let tunnel = server.tunnel_with(client).await;
            for host in [
                Host::Domain("site.test"),
                Host::Domain("long.test"),
                Host::Ipv4(FAR),
                Host::Ipv6(FAR_6.parse().expect("an address")),
            ] {
                download(tunnel.connect(host, PORT).await.expect("a connection"), 100_000).await.expect("all of it");
            }
            upload(site(&tunnel).await, 1_000_000).await.expect("all of it");
            let log = server.log();
            assert!(
                log.contains(&format!("cipher {cipher},protocol-flags cc-exit tls-ekm"))
                    && log.contains(&format!("Control Channel: {tls}")),
                "{log}"
            );
            assert!(!log.contains("replay") && !log.contains("Error"), "{log}");
            assert_eq!(
                tunnel.connect(Host::Domain("nothing.test"), PORT).await.err(),
                Some(ConnectError::NameNotFound)
            );
            assert_eq!(tunnel.connect(Host::Ipv4(FAR), 9).await.err(), Some(ConnectError::Refused));
        }
    });
}

#[test]
fn rejected_credentials_and_certificates_are_reported() {
    in_network_namespace("openvpn::rejected_credentials_and_certificates_are_reported", async {
        let server = Server::start("udp", Guard::Crypt, "data-ciphers AES-256-GCM").await;
        assert_eq!(server.refusal(&server.profile, Some(alice("wrong"))).await, OpenError::Refused);
        assert_eq!(server.refusal(&server.profile, None).await, OpenError::Refused);
        let strangers = Authority::new();
        let (certificate, key) = strangers.issue("customer", ExtendedKeyUsagePurpose::ClientAuth);
        let without = |name: &str| {
            let (before, rest) = server.profile.split_once(&format!("<{name}>\n")).expect("a block");
            before.to_owned() + rest.split_once(&format!("</{name}>\n")).expect("its end").1
        };
        // Another authority, another name, and a client certificate.
        let distrusted = OpenError::Protocol("the profile does not trust its certificate");
        assert_eq!(
            server.refusal(&(without("ca") + &block("ca", &strangers.pem)), Some(alice("s3cret"))).await,
            distrusted
        );
        assert_eq!(
            server.refusal(&server.profile.replace("CN=vpn-1", "CN=vpn-2"), Some(alice("s3cret"))).await,
            distrusted
        );
        // No cipher in common.
        assert_eq!(
            server.refusal(&("data-ciphers AES-128-GCM\n".to_owned() + &server.profile), Some(alice("s3cret"))).await,
            OpenError::Refused
        );
        // A client certificate of another authority: the server logs it and does not answer.
        let own = without("cert");
        let (before, rest) = own.split_once("<key>\n").expect("a key");
        let own = before.to_owned() + rest.split_once("</key>\n").expect("its end").1;
        let stranger = own + &block("cert", &certificate) + &block("key", &key);
        assert_eq!(server.refusal(&stranger, Some(alice("s3cret"))).await, OpenError::TimedOut);
        server.wait_for_log("VERIFY ERROR").await;
        // Another `tls-crypt` key: the server does not answer either.
        let folder = TempDir::new().expect("a folder");
        let (other, _) = guarded(folder.path(), Guard::Crypt);
        assert_eq!(server.refusal(&(without("tls-crypt") + &other), Some(alice("s3cret"))).await, OpenError::TimedOut);
        // The refusals do not keep other clients out.
        download(site(&server.tunnel().await).await, 1000).await.expect("all of it");
    });
}

#[test]
fn client_certificate_of_the_same_authority_is_no_server() {
    in_network_namespace("openvpn::client_certificate_of_the_same_authority_is_no_server", async {
        let server = Server::start("udp", Guard::None, "").await;
        let (certificate, key) = server.authority.issue("vpn-1", ExtendedKeyUsagePurpose::ClientAuth);
        let folder = server.folder.path();
        fs::write(folder.join("cert"), certificate).expect("a file");
        fs::write(folder.join("key"), key).expect("a file");
        let text = fs::read_to_string(folder.join("config"))
            .expect("a file")
            .replace("port 1194", "port 1195")
            .replace("tun9", "tun8");
        fs::write(folder.join("config"), text).expect("a file");
        let log = File::create(folder.join("log")).expect("a file");
        let mut imposter =
            Command::new("openvpn").args(["--config"]).arg(folder.join("config")).stdout(log).spawn().expect("openvpn");
        server.wait_for_log("Initialization Sequence Completed").await;
        // This profile requires only the authority's signature.
        let lax = server
            .profile
            .replace("remote-cert-tls server\n", "")
            .replace("verify-x509-name 'O=Example, CN=vpn-1'\n", "");
        let at = SocketAddr::new(SERVER.ip(), 1195);
        let refused = profile(&lax).open(at, Some(alice("s3cret")), WITHIN).await.map(drop);
        assert_eq!(refused, Err(OpenError::Protocol("the profile does not trust its certificate")));
        let _ = (imposter.kill(), imposter.wait());
    });
}

#[test]
fn unsupported_options_of_the_server_end_the_tunnel() {
    in_network_namespace("openvpn::unsupported_options_of_the_server_end_the_tunnel", async {
        for (lines, client, expected) in [
            (WITHOUT_NAMES, "", "it sets no name server, and the profile has none"),
            ("push \"comp-lzo yes\"", "", "it sets compression"),
            ("push \"fragment 1200\"", "", "it sets fragmentation"),
            ("", "pull-filter reject \"dhcp-option DNS\"\n", "it sets what the profile rejects"),
            ("", "pull-filter ignore \"ifconfig\"\n", "it sets no address"),
        ] {
            let server = Server::start("udp", Guard::Crypt, lines).await;
            assert_eq!(
                server.refusal(&(client.to_owned() + &server.profile), Some(alice("s3cret"))).await,
                OpenError::Protocol(expected)
            );
            if lines == WITHOUT_NAMES {
                let tunnel = server.tunnel_with(&format!("dhcp-option DNS {FAR}\n")).await;
                download(tunnel.connect(Host::Domain("site.test"), PORT).await.expect("a connection"), 1000)
                    .await
                    .expect("all of it");
            }
        }
    });
}

/// Whatever listens at the address.
#[tokio::test]
async fn open_fails_in_time_without_a_real_server() {
    let authority = Authority::new();
    let text = format!("client\ndev tun\nremote 127.0.0.1\nauth-user-pass\n{}", block("ca", &authority.pem));
    let (udp, tcp) = (profile(&text), profile(&format!("proto tcp\n{text}")));
    let limit = Duration::from_millis(1500);
    let nobody = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9);
    for profile in [&udp, &tcp] {
        let refused = profile.open(nobody, Some(alice("x")), limit).await.map(drop);
        assert_eq!(refused, Err(OpenError::Unreachable));
    }
    // Invalid packets, echoes, and resets without a handshake.
    let nonsense = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = nonsense.local_addr().expect("an address");
    let talking = tokio::spawn(async move {
        let mut datagram = [0; 2048];
        while let Ok((length, from)) = nonsense.recv_from(&mut datagram).await {
            let mut reset = vec![8 << 3, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 0];
            reset.extend(&datagram[1..9]);
            reset.extend([0, 0, 0, 0]);
            let mut garbage = reset.clone();
            garbage[0] = 4 << 3;
            garbage.splice(22.., [0, 0, 0, 1, 22, 3, 3, 0xff, 0xff]);
            for reply in [
                &b"nonsense"[..],
                &[],
                &vec![0x40; 60_000],
                &[0x48; 30],
                &datagram[..length],
                &reset[..20],
                &reset,
                &[0x20; 2000],
            ] {
                let _ = nonsense.send_to(reply, from).await;
            }
            if datagram[0] == 4 << 3 {
                let _ = nonsense.send_to(&garbage, from).await;
            }
        }
    });
    let began = Instant::now();
    let refused = udp.open(address, Some(alice("x")), limit).await.map(drop).expect_err("no tunnel");
    assert!(matches!(refused, OpenError::Protocol(_)), "{refused}");
    assert!(began.elapsed() < limit + Duration::from_secs(1));
    talking.abort();
    for (reply, hangs_up, expected) in [
        (&b""[..], true, OpenError::Unreachable),
        (b"", false, OpenError::TimedOut),
        (b"\0\0", false, OpenError::Unreachable),
        (b"\xff\xffHTTP/1.1 400 Bad Request\r\n\r\n", false, OpenError::Unreachable),
        (b"\0\x05hello\0\x01\x40", false, OpenError::TimedOut),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.expect("a connection");
            let _ = connection.read(&mut [0; 1024]).await;
            let _ = connection.write_all(reply).await;
            if !hangs_up {
                std::future::pending::<()>().await;
            }
        });
        let began = Instant::now();
        assert_eq!(tcp.open(address, Some(alice("x")), limit).await.map(drop), Err(expected), "{reply:?}");
        assert!(began.elapsed() < limit + Duration::from_secs(1));
        serving.abort();
    }
}

#[test]
fn dead_server_is_detected_within_three_seconds() {
    in_network_namespace("openvpn::dead_server_is_detected_within_three_seconds", async {
        for (proto, signal, why) in [
            ("udp", Signal::SIGKILL, Closed::Silent),
            ("udp", Signal::SIGSTOP, Closed::Silent),
            ("tcp-server", Signal::SIGKILL, Closed::Ended),
        ] {
            let server = Server::start(proto, Guard::Crypt, "").await;
            let tunnel = server.tunnel().await;
            let mut open = site(&tunnel).await;
            open.write_all(b"echo\nbefore").await.expect("words");
            let mut received = [0; 6];
            open.read_exact(&mut received).await.expect("words");
            server.signal(signal);
            for host in [Host::Ipv4(FAR), Host::Domain("site.test"), Host::Domain("other.test")] {
                let began = Instant::now();
                assert_eq!(tunnel.connect(host, PORT).await.err(), Some(ConnectError::TunnelDead));
                assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
            }
            assert_eq!(timeout(Duration::from_secs(12), tunnel.closed()).await, Ok(why));
            assert!(open.read_exact(&mut received).await.is_err());
            assert!(open.write_all(b"after").await.is_err());
            let began = Instant::now();
            assert_eq!(tunnel.connect(Host::Ipv4(FAR), PORT).await.err(), Some(ConnectError::TunnelDead));
            assert!(began.elapsed() < Duration::from_millis(100));
        }
    });
}

#[test]
fn tunnel_survives_a_paused_server() {
    in_network_namespace("openvpn::tunnel_survives_a_paused_server", async {
        let server = Server::start("udp", Guard::None, "").await;
        let tunnel = server.tunnel().await;
        let stopping = async { server.signal(Signal::SIGSTOP) };
        survives_a_pause(&tunnel, stopping, || server.signal(Signal::SIGCONT)).await;
    });
}

#[test]
fn many_connections_share_a_tunnel() {
    in_network_namespace("openvpn::many_connections_share_a_tunnel", async {
        for proto in ["udp", "tcp-server"] {
            let server = Server::start(proto, Guard::Crypt, "").await;
            is_shared(&server.tunnel().await).await;
        }
    });
}

#[test]
fn exit_notice_of_the_server_ends_the_tunnel() {
    in_network_namespace("openvpn::exit_notice_of_the_server_ends_the_tunnel", async {
        let server = Server::start("udp", Guard::Crypt, "explicit-exit-notify 1").await;
        let tunnel = server.tunnel().await;
        server.signal(Signal::SIGTERM);
        assert_eq!(timeout(Duration::from_secs(3), tunnel.closed()).await, Ok(Closed::Ended));
        assert_eq!(tunnel.connect(Host::Ipv4(FAR), PORT).await.err(), Some(ConnectError::TunnelDead));
    });
}

/// Checks that each round trip is fast. Returns the number of key agreements.
async fn renewed_under_load(server: &Server, lines: &str, lasting: Duration) -> usize {
    let tunnel = server.tunnel_with(lines).await;
    let mut echo = site(&tunnel).await;
    echo.write_all(b"echo\n").await.expect("a word");
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    while began.elapsed() < lasting {
        let asked = Instant::now();
        let sent = vec![b'.'; 64 << 10];
        let mut received = vec![0; sent.len()];
        echo.write_all(&sent).await.expect("words");
        echo.read_exact(&mut received).await.expect("words");
        slowest = slowest.max(asked.elapsed());
    }
    assert!(slowest < Duration::from_millis(1500), "{slowest:?}: {}", server.log());
    server.log().matches("Control Channel: TLS").count()
}

#[test]
fn server_renews_keys_under_load() {
    in_network_namespace("openvpn::server_renews_keys_under_load", async {
        // With each renewal the server sends a new token, which then replaces the password.
        let server = Server::start("udp", Guard::Crypt, "reneg-sec 5 5\nauth-gen-token 3600 200").await;
        let agreed = renewed_under_load(&server, "", Duration::from_secs(12)).await;
        assert!(agreed >= 3, "{agreed}: {}", server.log());
        assert!(server.log().contains("auth-token authentication succeeded"), "{}", server.log());
    });
}

#[test]
fn client_renews_keys_under_load() {
    in_network_namespace("openvpn::client_renews_keys_under_load", async {
        for (proto, lines) in [("udp", "reneg-bytes 300000\n"), ("tcp-server", "reneg-pkts 300\n")] {
            let server = Server::start(proto, Guard::Auth, "reneg-sec 0").await;
            let agreed = renewed_under_load(&server, lines, Duration::from_secs(5)).await;
            // Key ids run from 0 to 7 and then start again at 1.
            assert!(agreed >= 10, "{agreed}: {}", server.log());
        }
    });
}

#[test]
fn both_ends_renew_keys_at_once() {
    in_network_namespace("openvpn::both_ends_renew_keys_at_once", async {
        let server = Server::start("udp", Guard::None, "reneg-sec 5 5").await;
        let agreed = renewed_under_load(&server, "reneg-sec 5\n", Duration::from_secs(12)).await;
        assert!(agreed >= 3, "{agreed}: {}", server.log());
    });
}

#[test]
fn tunnel_opens_and_works_with_packet_loss() {
    in_network_namespace("openvpn::tunnel_opens_and_works_with_packet_loss", async {
        let server = Server::start("udp", Guard::CryptV2, "").await;
        let relay = Relay::to(SERVER, Duration::from_millis(5), 100).await;
        for _ in 0..3 {
            let tunnel = server
                .profile()
                .open(relay.address, Some(alice("s3cret")), Duration::from_secs(30))
                .await
                .expect("a tunnel");
            download(site(&tunnel).await, 200_000).await.expect("all of it");
        }
    });
}

#[test]
fn closed_tunnel_leaves_no_tasks_or_sockets() {
    in_network_namespace("openvpn::closed_tunnel_leaves_no_tasks_or_sockets", async {
        for proto in ["udp", "tcp-server"] {
            let server = Server::start(proto, Guard::CryptV2, "").await;
            let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
            let sockets = || {
                let process = procfs::process::Process::myself().expect("this process");
                process.fd_count().expect("its files")
            };
            let before = (tasks(), sockets());
            let tunnel = server.tunnel().await;
            let stream = tunnel.connect(Host::Domain("site.test"), PORT).await.expect("a connection");
            let unused = tunnel.clone();
            drop((tunnel, unused));
            // An open stream keeps the tunnel open.
            download(stream, 1_000_000).await.expect("all of it");
            // The server receives an exit notice and does not wait for a timeout.
            server.wait_for_log("exit message received").await;
            // An aborted attempt to open a tunnel leaves nothing behind either.
            let profile = server.profile();
            server.signal(Signal::SIGSTOP);
            assert!(
                timeout(Duration::from_millis(300), profile.open(SERVER, Some(alice("s3cret")), WITHIN)).await.is_err()
            );
            assert!(profile.open(SERVER, Some(alice("s3cret")), Duration::from_millis(300)).await.is_err());
            server.signal(Signal::SIGCONT);
            let deadline = Instant::now() + Duration::from_secs(10);
            // The site's tasks end when their connections do.
            while (tasks(), sockets()) != before {
                assert!(Instant::now() < deadline, "{before:?} became {:?}", (tasks(), sockets()));
                sleep(Duration::from_millis(20)).await;
            }
        }
    });
}

#[test]
#[ignore = "a measurement, which is meaningful only in a release build"]
#[expect(clippy::print_stderr, clippy::cast_precision_loss, reason = "a measurement prints its results")]
fn measure_throughput() {
    in_network_namespace("openvpn::measure_throughput", async {
        let memory = || {
            let status = procfs::process::Process::myself().and_then(|process| process.status()).expect("this process");
            status.vmrss.expect("memory")
        };
        let rate = |bytes: usize, began: Instant| bytes as f64 / 1e6 / began.elapsed().as_secs_f64();
        for (proto, cipher) in [("udp", "AES-256-GCM"), ("udp", "CHACHA20-POLY1305"), ("tcp-server", "AES-256-GCM")] {
            let server =
                Server::start(proto, Guard::Crypt, &format!("data-ciphers {cipher}\nsndbuf 4000000\nrcvbuf 4000000"))
                    .await;
            let before = memory();
            let began = Instant::now();
            let tunnel = server.tunnel().await;
            eprintln!("{proto} {cipher}: open: {:?}", began.elapsed());
            let began = Instant::now();
            download(tunnel.connect(Host::Domain("site.test"), PORT).await.expect("a connection"), 1000)
                .await
                .expect("all");
            eprintln!("{proto} {cipher}: first page: {:?}", began.elapsed());
            eprintln!("{proto} {cipher}: idle: {} KiB", memory().saturating_sub(before));
            let (began, bytes) = (Instant::now(), 500_000_000);
            download(site(&tunnel).await, bytes).await.expect("all of it");
            eprintln!("{proto} {cipher}: down: {:.1} MB/s", rate(bytes, began));
            let (began, bytes) = (Instant::now(), 200_000_000);
            upload(site(&tunnel).await, bytes).await.expect("all of it");
            eprintln!("{proto} {cipher}: up: {:.1} MB/s", rate(bytes, began));
        }
    });
}
