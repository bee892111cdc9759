//! Who may be connected: callers who do nothing, or read nothing, keep nobody out.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{App, Role, eventually, plain_http};

/// Where most callers are.
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Where somebody else is.
const THERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Long enough that no time limit ends what a test wants to see ended for another reason.
const LONG: &str = "5m";

/// A connection from this address. Each test has a port of its own, so that these are told apart by it.
async fn connect_from(app: &App, address: Ipv4Addr) -> TcpStream {
    let service: SocketAddr = app.base_url.trim_start_matches("http://").parse().expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((address, 0).into()).expect("an address of loopback");
    socket.connect(service).await.expect("the service listens")
}

/// Connections from these addresses, every other of which has begun a head and not ended it.
async fn idle_from(app: &App, addresses: impl Iterator<Item = Ipv4Addr>) -> Vec<TcpStream> {
    let mut idle = Vec::new();
    for (nth, address) in addresses.enumerate() {
        let mut stream = connect_from(app, address).await;
        if nth % 2 == 1 {
            // It may have been ended already.
            let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n").await;
        }
        idle.push(stream);
    }
    idle
}

/// What a watcher at this address is answered, over a connection of its own.
async fn health_from(app: &App, address: Ipv4Addr) -> Option<u16> {
    let http = plain_http().local_address(IpAddr::from(address)).timeout(Duration::from_secs(20));
    let answer = http.build().expect("a client").get(format!("{}/healthz", app.base_url)).send().await;
    answer.ok().map(|answer| answer.status().as_u16())
}

async fn until_ended(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await;
    // A reset is an end, too.
    let _ = ended.expect("the service hangs up");
}

#[tokio::test]
async fn idle_callers_keep_nobody_out() {
    let app = App::simulated()
        .roles(&[Role::Api])
        .set("server.max_connections", "64")
        .set("server.max_connections_per_address", "16")
        .set("server.header_timeout", LONG)
        .start()
        .await;

    // One address: it loses its own.
    let mut idle = idle_from(&app, std::iter::repeat_n(HERE, 100)).await;
    for address in [HERE, THERE] {
        assert_eq!(health_from(&app, address).await, Some(200), "{address}");
    }
    for stream in &mut idle[..80] {
        until_ended(stream).await;
    }

    // Many addresses: nobody has more than others, and whoever comes finds a place.
    let crowd = (0..200).map(|nth| Ipv4Addr::new(127, 0, 1, nth));
    let crowd = idle_from(&app, crowd).await;
    for address in [HERE, THERE] {
        assert_eq!(health_from(&app, address).await, Some(200), "{address}");
    }
    drop((idle, crowd));
    app.stop().await;
}

#[tokio::test]
async fn a_request_under_way_is_not_cut_for_others() {
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
    eventually(Duration::from_secs(20), "the wait is under way", async || {
        let open = "select count(*) from sessions where status = 'busy'";
        (app.count(open).await == 1).then_some(())
    })
    .await;
    let idle = idle_from(&app, std::iter::repeat_n(HERE, 60)).await;
    let crowd = idle_from(&app, (0..60).map(|nth| Ipv4Addr::new(127, 0, 1, nth))).await;
    waiting.await.expect("no panic").expect(200);
    drop((idle, crowd));
    app.stop().await;
}

/// A client that asks for much and reads none of it.
#[tokio::test]
async fn who_reads_nothing_is_cut_off() {
    let app = App::simulated().roles(&[Role::Api]).set("server.write_timeout", "1s").start().await;
    let service: SocketAddr = app.base_url.trim_start_matches("http://").parse().expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a size");
    let mut stream = socket.connect(service).await.expect("the service listens");
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
    // More than what the kernel keeps for somebody who does not read.
    stream.write_all(&request.repeat(200)).await.expect("the service reads");
    eventually(Duration::from_secs(30), "the service hangs up", async || {
        let told = stream.take_error().expect("a socket").is_some();
        // What is written to an end that is closed is answered with a reset.
        let refused = stream.try_write(b"x").is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock);
        (told || refused).then_some(())
    })
    .await;
    app.stop().await;
}

/// Descriptors that run out stop nobody for long, and the log does not tell it over and over.
#[tokio::test]
async fn a_process_that_runs_out_of_files_goes_on() {
    let app = App::simulated()
        .roles(&[Role::Api])
        .files(100, 200)
        .set("server.max_connections", "5000")
        .set("server.max_connections_per_address", "5000")
        .set("server.header_timeout", LONG)
        .start()
        .await;
    assert!(app.log(0).contains(r#""before":100,"now":200"#), "the soft limit is raised: {}", app.log(0));
    let idle = idle_from(&app, std::iter::repeat_n(HERE, 400)).await;
    for address in [HERE, THERE] {
        assert_eq!(health_from(&app, address).await, Some(200), "{address}");
    }
    drop(idle);
    eventually(Duration::from_secs(20), "all is as before", async || health_from(&app, HERE).await).await;
    let complaints = app.log(0).matches("cannot accept connections").count();
    assert!((1..=3).contains(&complaints), "{complaints} complaints");
    app.stop().await;
}
