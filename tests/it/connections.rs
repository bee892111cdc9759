//! Idle callers, and callers that do not read responses, do not block others.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{App, Role, eventually, plain_http};

const MAX_CALLERS: Ipv4Addr = Ipv4Addr::LOCALHOST;
const OTHER_CALLER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Longer than a test.
const LONG: &str = "5m";

/// The service of each test has its own port, so that connections of different tests are separate.
async fn connect_from(app: &App, address: Ipv4Addr) -> TcpStream {
    let service: SocketAddr = app.base_url.trim_start_matches("http://").parse().expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((address, 0).into()).expect("an address of loopback");
    socket.connect(service).await.expect("the service listens")
}

/// One from each address. Every second one has sent an incomplete request head.
async fn idle_from(app: &App, addresses: impl Iterator<Item = Ipv4Addr>) -> Vec<TcpStream> {
    let mut idle = Vec::new();
    for (nth, address) in addresses.enumerate() {
        let mut stream = connect_from(app, address).await;
        if nth % 2 == 1 {
            // The service may have closed the connection already.
            let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").await;
        }
        idle.push(stream);
    }
    idle
}

async fn health_from(app: &App, address: Ipv4Addr) -> Option<u16> {
    let http = plain_http().local_address(IpAddr::from(address)).timeout(Duration::from_secs(20));
    let answer = http.build().expect("a client").get(format!("{}/healthz", app.base_url)).send().await;
    answer.ok().map(|answer| answer.status().as_u16())
}

async fn until_ended(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await;
    let _ = ended.expect("the service closes the connection");
}

#[tokio::test]
async fn idle_callers_do_not_block_others() {
    let app = App::simulated()
        .roles(&[Role::Api])
        .set("server.max_connections", "64")
        .set("server.max_connections_per_address", "16")
        .set("server.header_timeout", LONG)
        .start()
        .await;

    // All from one address: the service closes connections of that address.
    let mut idle = idle_from(&app, std::iter::repeat_n(MAX_CALLERS, 100)).await;
    for address in [MAX_CALLERS, OTHER_CALLER] {
        assert_eq!(health_from(&app, address).await, Some(200), "{address}");
    }
    for stream in &mut idle[..80] {
        until_ended(stream).await;
    }

    // From many addresses: each has equally few connections, and a new caller can still connect.
    let crowd = (0..200).map(|nth| Ipv4Addr::new(127, 0, 1, nth));
    let crowd = idle_from(&app, crowd).await;
    for address in [MAX_CALLERS, OTHER_CALLER] {
        assert_eq!(health_from(&app, address).await, Some(200), "{address}");
    }
    drop((idle, crowd));
    app.stop().await;
}

#[tokio::test]
async fn running_request_survives_a_crowd_of_idle_connections() {
    let app = App::simulated()
        .set("server.max_connections", "16")
        .set("server.max_connections_per_address", "8")
        .set("server.header_timeout", LONG)
        .start()
        .await;
    let client = app.client().await;
    let session = client.session().await;
    let wait = json!({"condition": {"kind": "time", "ms": 4_000}, "timeout_ms": 30_000});
    let waiting = tokio::spawn({
        let (client, session) = (client.clone(), session.clone());
        async move { client.operate(&session, "wait", wait).await }
    });
    eventually(Duration::from_secs(20), "the wait has started", async || {
        let open = "select count(*) from sessions where status = 'busy'";
        (app.count(open).await == 1).then_some(())
    })
    .await;
    let idle = idle_from(&app, std::iter::repeat_n(MAX_CALLERS, 60)).await;
    let crowd = idle_from(&app, (0..60).map(|nth| Ipv4Addr::new(127, 0, 1, nth))).await;
    waiting.await.expect("a task").expect(200);
    drop((idle, crowd));
    app.stop().await;
}

#[tokio::test]
async fn client_that_reads_no_response_is_disconnected() {
    let app = App::simulated().roles(&[Role::Api]).set("server.write_timeout", "1s").start().await;
    let service: SocketAddr = app.base_url.trim_start_matches("http://").parse().expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a size");
    let mut stream = socket.connect(service).await.expect("the service listens");
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
    // More responses than the kernel buffers.
    stream.write_all(&request.repeat(200)).await.expect("the service reads");
    eventually(Duration::from_secs(30), "the service closes the connection", async || {
        let told = stream.take_error().expect("a socket").is_some();
        // A write to a closed connection causes a reset.
        let refused = stream.try_write(b"x").is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock);
        (told || refused).then_some(())
    })
    .await;
    app.stop().await;
}

/// The log has few messages about it.
#[tokio::test]
async fn process_without_file_descriptors_recovers() {
    let app = App::simulated()
        .roles(&[Role::Api])
        .files(100, 200)
        .set("server.max_connections", "5000")
        .set("server.max_connections_per_address", "5000")
        .set("server.header_timeout", LONG)
        .start()
        .await;
    assert!(app.log(0).contains(r#""before":100,"now":200"#), "the soft limit was not raised: {}", app.log(0));
    let idle = idle_from(&app, std::iter::repeat_n(MAX_CALLERS, 400)).await;
    for address in [MAX_CALLERS, OTHER_CALLER] {
        assert_eq!(health_from(&app, address).await, Some(200), "{address}");
    }
    drop(idle);
    eventually(Duration::from_secs(20), "the service accepts connections again", async || {
        health_from(&app, MAX_CALLERS).await
    })
    .await;
    let complaints = app.log(0).matches("cannot accept connections").count();
    assert!((1..=3).contains(&complaints), "{complaints} log messages");
    app.stop().await;
}
