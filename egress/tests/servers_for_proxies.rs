//! Egress routes against independent proxies: microsocks, dante and tinyproxy, from Debian packages.

mod support;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use kitfleet_egress::{EgressRoute, Fault, Probes, ProxyReply, Refusal, Rules, Target, Upstream};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use url::Url;

use crate::support::{ask, converse, guard, proxy, rules, site};

const KNOWN: Option<(&str, &str)> = Some(("alice", "s3cret"));
const UNKNOWN: Option<(&str, &str)> = Some(("alice", "wrong"));

async fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Runs until it is dropped. Returns when it listens.
async fn run(command: &mut Command, port: u16) -> Child {
    let server = command.kill_on_drop(true).spawn().expect("it is installed");
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.is_err() {
        assert!(Instant::now() < deadline, "{command:?} does not listen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server
}

async fn microsocks() -> (Child, u16) {
    let port = free_port().await;
    let mut command = Command::new("microsocks");
    command.args(["-i", "127.0.0.1", "-p", &port.to_string(), "-u", "alice", "-P", "s3cret"]);
    command.stderr(std::process::Stdio::null());
    (run(&mut command, port).await, port)
}

async fn dante() -> (Child, u16, TempDir) {
    let (port, folder) = (free_port().await, TempDir::new().expect("a folder"));
    let file = folder.path().join("danted.conf");
    let log = folder.path().join("log").display().to_string();
    let config = format!(
        "logoutput: {log}\ninternal: 127.0.0.1 port = {port}\nexternal: 127.0.0.1\nsocksmethod: none\nclientmethod: none\n\
         client pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 }}\nsocks pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 protocol: tcp udp }}\n"
    );
    fs::write(&file, config).expect("a file");
    let pid = folder.path().join("pid");
    let mut command = Command::new("danted");
    command.arg("-f").arg(&file).arg("-p").arg(&pid);
    (run(&mut command, port).await, port, folder)
}

async fn tinyproxy(connect_port: u16) -> (Child, u16, TempDir) {
    let (port, folder) = (free_port().await, TempDir::new().expect("a folder"));
    let file = folder.path().join("tinyproxy.conf");
    let config = format!(
        "Port {port}\nListen 127.0.0.1\nTimeout 20\nAllow 127.0.0.1\nBasicAuth alice s3cret\nConnectPort {connect_port}\n\
         ConnectPort 443\n"
    );
    fs::write(&file, config).expect("a file");
    let mut command = Command::new("tinyproxy");
    command.arg("-d").arg("-c").arg(&file).stdout(std::process::Stdio::null());
    (run(&mut command, port).await, port, folder)
}

/// RFC 9000, 17.2.1.
async fn quic_server() -> (u16, JoinSet<()>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = socket.local_addr().expect("an address").port();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut packet = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut packet).await {
            assert!(length >= 1200, "a first packet is padded");
            let answer = [&[0x80, 0, 0, 0, 0, 8][..], &packet[15..23], &[8], &packet[6..14], &[0, 0, 0, 1]].concat();
            let _ = socket.send_to(&answer, from).await;
        }
    });
    (port, serving)
}

fn probes(site: u16, quic: u16) -> Probes {
    let target = |text: String| -> Target { text.parse().expect("a host and a port") };
    let exit_url = Url::parse("http://exit.invalid/").expect("a URL");
    Probes { site: target(format!("localhost:{site}")), quic_site: target(format!("127.0.0.1:{quic}")), exit_url }
}

async fn check_route(upstream: impl Fn(Option<(&str, &str)>) -> Upstream, rules: &Rules, mut server: Child, port: u16) {
    for unknown in [UNKNOWN, None] {
        assert_eq!(EgressRoute::open(upstream(unknown), rules).await.err(), Some(Fault::Credentials), "{unknown:?}");
    }
    let guard = guard(upstream(KNOWN), rules).await;
    for name in ["localhost", "127.0.0.1"] {
        let (stream, code) = ask(&guard, name.as_bytes(), port).await;
        assert_eq!(code, 0, "{name}: {:?}", guard.take_refusal());
        converse(stream).await;
    }
    let (_, code) = ask(&guard, b"no-such-name.invalid", port).await;
    assert_ne!(code, 0);
    assert!(matches!(guard.take_refusal(), Some(Refusal::Proxied(_))));
    let many = (0..64).map(|_| ask(&guard, b"127.0.0.1", port)).collect::<Vec<_>>();
    for asked in many {
        let (stream, code) = asked.await;
        assert_eq!(code, 0);
        converse(stream).await;
    }
    server.kill().await.expect("it is there");
    let (_, code) = ask(&guard, b"127.0.0.1", port).await;
    assert_eq!((code, guard.take_refusal()), (1, Some(Refusal::Upstream(Fault::Refused))));
}

#[tokio::test]
async fn microsocks_connects_until_it_is_killed() {
    let ((site, _serving), (server, port)) = (site().await, microsocks().await);
    let route = EgressRoute::open(Upstream::Socks5(proxy(port, KNOWN)), &rules(true)).await.expect("an egress route");
    let measured = route.measure(&probes(site, 9)).await.expect("an open route").expect("a SOCKS 5 proxy");
    let capabilities = measured.capabilities;
    assert!(capabilities.dns_remote_resolve && !capabilities.udp_associate, "{capabilities:?}");
    check_route(|who| Upstream::Socks5(proxy(port, who)), &rules(true), server, site).await;
}

#[tokio::test]
async fn dante_relays_datagrams() {
    let ((site, _serving), (quic, _answering)) = (site().await, quic_server().await);
    let (_server, port, _folder) = dante().await;
    let route = EgressRoute::open(Upstream::Socks5(proxy(port, None)), &rules(true)).await.expect("an egress route");
    let measured = route.measure(&probes(site, quic)).await.expect("an open route").expect("a SOCKS 5 proxy");
    assert!(measured.capabilities.udp_associate && measured.capabilities.dns_remote_resolve, "{measured:?}");
    assert!(measured.capabilities.warnings.is_empty(), "{measured:?}");
    // No server answers on this port.
    let silent = route.measure(&probes(site, 9)).await.expect("an open route").expect("a SOCKS 5 proxy");
    assert!(!silent.capabilities.udp_associate && silent.capabilities.dns_remote_resolve, "{silent:?}");
    assert_eq!(silent.report["datagram"]["outcome"], "silent");
}

#[tokio::test]
async fn tinyproxy_connects_until_it_is_killed() {
    let (site, _serving) = site().await;
    let (server, port, _folder) = tinyproxy(site).await;
    let forbidding = guard(Upstream::Http(proxy(port, KNOWN)), &rules(true)).await;
    let (_, code) = ask(&forbidding, b"127.0.0.1", 9).await;
    assert_ne!(code, 0);
    assert_eq!(forbidding.take_refusal(), Some(Refusal::Proxied(ProxyReply::NotAllowed)));
    check_route(|who| Upstream::Http(proxy(port, who)), &rules(true), server, site).await;
}
