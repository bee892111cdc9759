//! Hostile proxies and hostile browsers (contract: egress 11 to 15).

mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kitfleet_egress::{EgressRoute, Fault, Probes, ProxyReply, Refusal, Rules, Target, Upstream, check};
use kitfleet_types::addresses::Destinations;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use url::Url;

use crate::support::{ask, converse, guard, proxy, rules, site};

const GREETED: &[u8] = &[5, 0];

/// Sends one answer after each read, and records the received bytes. After the last answer it waits or closes the
/// connection.
async fn scripted(answers: Vec<Vec<u8>>, hangs_up: bool) -> (u16, Arc<Mutex<Vec<u8>>>, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let (port, heard) = (listener.local_addr().expect("an address").port(), Arc::<Mutex<Vec<u8>>>::default());
    let (mut running, hearing) = (JoinSet::new(), Arc::clone(&heard));
    running.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (answers, heard) = (answers.clone(), Arc::clone(&hearing));
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                for answer in &answers {
                    let Ok(length) = stream.read(&mut buffer).await else { return };
                    heard.lock().expect("no panic").extend(&buffer[..length]);
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
                while !hangs_up && stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
            });
        }
    });
    (port, heard, running)
}

fn probes() -> Probes {
    let target = |text: &str| -> Target { text.parse().expect("a host and a port") };
    let exit_url = Url::parse("http://exit.example/").expect("a URL");
    Probes { site: target("site.example:443"), quic_site: target("203.0.113.9:443"), exit_url }
}

#[tokio::test]
async fn invalid_socks5_replies_are_refused() {
    for (reply, refusal) in [
        (vec![5, 0x42, 0, 1, 0, 0, 0, 0, 0, 0], Refusal::Proxied(ProxyReply::Failed)),
        (vec![5, 2, 0, 1, 0, 0, 0, 0, 0, 0], Refusal::Proxied(ProxyReply::NotAllowed)),
        (vec![5, 4, 0, 1, 0, 0, 0, 0, 0, 0], Refusal::Proxied(ProxyReply::Unreachable)),
        (vec![5, 5, 0, 1, 0, 0, 0, 0, 0, 0], Refusal::Proxied(ProxyReply::Refused)),
        (vec![5, 8, 0, 1, 0, 0, 0, 0, 0, 0], Refusal::Proxied(ProxyReply::Unsupported)),
        (vec![4, 0, 0, 1, 0, 0, 0, 0, 0, 0], Refusal::Upstream(Fault::Protocol)),
        (vec![5, 0, 0, 9, 0, 0, 0, 0, 0, 0], Refusal::Upstream(Fault::Protocol)),
        (vec![5, 0, 0, 3, 4, 0xff, 0xfe, 0xff, 0xfe, 0, 1], Refusal::Upstream(Fault::Protocol)),
    ] {
        let (port, _, _running) = scripted(vec![GREETED.to_vec(), reply.clone()], true).await;
        let guard = guard(Upstream::Socks5(proxy(port, None)), &rules(false)).await;
        let (_, code) = ask(&guard, b"site.example", 80).await;
        assert_ne!(code, 0, "{reply:?}");
        assert_eq!(guard.take_refusal(), Some(refusal), "{reply:?}");
    }
    for (greeting, fault) in [
        (vec![5, 1], Fault::Credentials),
        (vec![5, 2], Fault::Credentials),
        (vec![5, 0xff], Fault::Credentials),
        (vec![0, 0x5a], Fault::Protocol),
        (vec![5], Fault::HungUp),
    ] {
        let (port, _, _running) = scripted(vec![greeting.clone()], true).await;
        let opened = EgressRoute::open(Upstream::Socks5(proxy(port, None)), &rules(false)).await;
        assert_eq!(opened.err(), Some(fault), "{greeting:?}");
    }
    // A proxy that rejects the credentials by closing the connection.
    let (port, heard, _running) = scripted(vec![vec![5, 2], Vec::new()], true).await;
    let opened = EgressRoute::open(Upstream::Socks5(proxy(port, Some(("kit", "sesame")))), &rules(false)).await;
    assert_eq!(opened.err(), Some(Fault::Credentials));
    assert_eq!(*heard.lock().expect("no panic"), b"\x05\x02\x00\x02\x01\x03kit\x06sesame");
}

/// Bytes after the head come from the site.
#[tokio::test]
async fn invalid_http_responses_are_refused() {
    let head = |line: &str| format!("HTTP/1.1 {line}\r\nX: y\r\n\r\n").into_bytes();
    let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"X: yyyyyyyyyyyyyy\r\n".repeat(1000)].concat();
    for (answer, refusal) in [
        (head("403 No"), Refusal::Proxied(ProxyReply::NotAllowed)),
        (head("502 No"), Refusal::Proxied(ProxyReply::Unreachable)),
        (head("504 No"), Refusal::Proxied(ProxyReply::TimedOut)),
        (head("500 No"), Refusal::Proxied(ProxyReply::Failed)),
        (head("302 Elsewhere"), Refusal::Proxied(ProxyReply::Failed)),
        (head("407 Who"), Refusal::Upstream(Fault::Credentials)),
        (head("101 Switching"), Refusal::Upstream(Fault::Protocol)),
        (endless, Refusal::Upstream(Fault::Protocol)),
        (b"\0\x01\x02\x03".to_vec(), Refusal::Upstream(Fault::Protocol)),
        (b"HTTP/1.1 200 O".to_vec(), Refusal::Upstream(Fault::HungUp)),
    ] {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(40)]).into_owned();
        // The proxy receives two requests: when the route is opened, and for the site.
        let (port, asked, _running) = scripted(vec![head("502 No")], true).await;
        let (other, _, _other) = scripted(vec![answer], true).await;
        let opened = EgressRoute::open(Upstream::Http(proxy(port, None)), &rules(false)).await;
        assert!(opened.is_ok(), "{shown}");
        assert!(asked.lock().expect("no panic").starts_with(b"CONNECT nowhere.invalid:443 HTTP/1.1\r\n"));
        let strange = EgressRoute::open(Upstream::Http(proxy(other, None)), &rules(false)).await;
        match refusal {
            Refusal::Upstream(fault) => assert_eq!(strange.err(), Some(fault), "{shown}"),
            refusal => {
                let guard = guard(Upstream::Http(proxy(other, None)), &rules(false)).await;
                let (_, code) = ask(&guard, b"site.example", 443).await;
                assert_ne!(code, 0, "{shown}");
                assert_eq!(guard.take_refusal(), Some(refusal), "{shown}");
            }
        }
    }
    for line in ["200 OK", "201 Fine"] {
        let answer = [head(line), b"hello there".to_vec()].concat();
        let (port, _, _running) = scripted(vec![answer], false).await;
        let guard = guard(Upstream::Http(proxy(port, None)), &rules(false)).await;
        let (stream, code) = ask(&guard, b"site.example", 443).await;
        assert_eq!(code, 0, "{line}");
        converse(stream).await;
    }
}

#[tokio::test]
async fn browser_cannot_inject_into_a_proxy_request() {
    let (port, heard, _running) = scripted(vec![b"HTTP/1.1 502 No\r\n\r\n".to_vec()], true).await;
    let guard = guard(Upstream::Http(proxy(port, Some(("kit", "sesame")))), &rules(false)).await;
    let opened = heard.lock().expect("no panic").len();
    let long = [b"a.".repeat(126), b"aa".to_vec()].concat();
    for name in [
        b"a\r\nX-Evil: 1\r\n".as_slice(),
        b"a b",
        b"a:443",
        b"a/b",
        b"a@b",
        b"a\0b",
        b"",
        &long,
        b"1.2.3.4.5",
        b"127.1",
        b"2130706433",
        b"0x7f.1.",
        b"::1",
        b"[::1]",
        b"::ffff:10.0.0.1",
        b"169.254.169.254",
        b"localhost",
        b"a.localhost.",
        b"%6c%6f%63alhost",
    ] {
        let (_, code) = ask(&guard, name, 443).await;
        assert_ne!(code, 0, "{name:?}");
        let refusal = guard.take_refusal();
        assert!(matches!(refusal, Some(Refusal::NameNotFound | Refusal::NotAllowed)), "{name:?} {refusal:?}");
    }
    assert_eq!(heard.lock().expect("no panic").len(), opened, "a request reached the proxy");
    let (_, code) = ask(&guard, b"xn--bcher-kva.example", 443).await;
    assert_ne!(code, 0);
    let heard = String::from_utf8(heard.lock().expect("no panic")[opened..].to_vec()).expect("text");
    let expected = "CONNECT xn--bcher-kva.example:443 HTTP/1.1\r\nHost: xn--bcher-kva.example:443\r\n\
                    Proxy-Authorization: Basic a2l0OnNlc2FtZQ==\r\n\r\n";
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn relay_on_another_host_receives_no_datagram() {
    let trap = UdpSocket::bind(("127.0.0.9", 0)).await.expect("a port");
    let port = trap.local_addr().expect("an address").port().to_be_bytes();
    for (relay, warning) in [([127, 0, 0, 9], "none came back"), ([93, 184, 216, 34], "another host")] {
        let answer = [&[5, 0, 0, 1][..], &relay, &port].concat();
        let (proxy_port, _, _running) = scripted(vec![GREETED.to_vec(), answer], false).await;
        let route =
            EgressRoute::open(Upstream::Socks5(proxy(proxy_port, None)), &rules(false)).await.expect("an egress route");
        let began = Instant::now();
        let measured = route.measure(&probes()).await.expect("an open route").expect("a SOCKS 5 proxy");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(!measured.capabilities.udp_associate && measured.capabilities.dns_remote_resolve);
        assert!(measured.capabilities.warnings.iter().any(|text| text.contains(warning)), "{measured:?}");
    }
    let nothing = trap.try_recv(&mut [0; 16]);
    assert!(nothing.is_err(), "a datagram went where the proxy pointed");
}

/// A proxy at a forbidden address is not dialled.
#[tokio::test]
async fn slow_proxy_fails_within_its_limit() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut trickling = JoinSet::new();
    trickling.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await?;
                while stream.write_all(b"y").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                std::io::Result::Ok(())
            });
        }
    });
    let began = Instant::now();
    let opened = EgressRoute::open(Upstream::Http(proxy(address.port(), None)), &rules(false)).await;
    assert_eq!(opened.err(), Some(Fault::TimedOut));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());

    let closed = Rules::new(Destinations::default(), Destinations::default(), 8).expect("a resolver");
    let (port, heard, _running) = scripted(vec![GREETED.to_vec()], true).await;
    for host in ["127.0.0.1", "localhost", "10.0.0.1", "0.0.0.0", "::1"] {
        let mut near = proxy(port, None);
        near.host = url::Host::parse(host).or_else(|_| url::Host::parse(&format!("[{host}]"))).expect("a host");
        let refused = check(Upstream::Socks5(near), &closed, None).await;
        assert_eq!(refused.err(), Some(Fault::NotAllowed), "{host}");
    }
    assert!(heard.lock().expect("no panic").is_empty(), "a forbidden address was dialled");
}

#[tokio::test]
async fn dead_proxy_does_not_fall_back_to_direct() {
    let (port, _serving) = site().await;
    let (proxy_port, _, running) =
        scripted(vec![GREETED.to_vec(), [&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"hello there"].concat()], false).await;
    let guard = guard(Upstream::Socks5(proxy(proxy_port, None)), &rules(true)).await;
    let (stream, code) = ask(&guard, b"localhost", port).await;
    assert_eq!(code, 0);
    converse(stream).await;
    drop(running);
    let began = Instant::now();
    let (_, code) = ask(&guard, b"localhost", port).await;
    assert_eq!((code, guard.take_refusal()), (1, Some(Refusal::Upstream(Fault::Refused))));
    assert!(began.elapsed() < Duration::from_secs(3));
    TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.expect("the site is there");
}
