//! Connects as a browser does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kitfleet_egress::{Credentials, EgressRoute, Guard, Proxy, Rules, Upstream};
use kitfleet_types::addresses::Destinations;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Host;

/// Proxies may be on this machine.
pub fn rules(private_sites: bool) -> Rules {
    let sites = Destinations { allow_private: private_sites, ..Destinations::default() };
    Rules::new(sites, Destinations { allow_private: true, ..Destinations::default() }, 64).expect("a resolver")
}

pub fn proxy(port: u16, credentials: Option<(&str, &str)>) -> Proxy {
    let credentials = credentials.map(|(username, password)| Credentials {
        username: username.to_owned(),
        password: password.to_owned().into(),
    });
    Proxy { host: Host::Ipv4(Ipv4Addr::LOCALHOST), port, credentials }
}

pub async fn guard(upstream: Upstream, rules: &Rules) -> Guard {
    let route = EgressRoute::open(upstream, rules).await.expect("an egress route");
    Guard::open(Arc::new(route), rules).await.expect("a guard")
}

/// Returns the connection and the reply code.
pub async fn ask(guard: &Guard, name: &[u8], port: u16) -> (TcpStream, u8) {
    let guard = SocketAddr::from((Ipv4Addr::LOCALHOST, guard.port().expect("a port")));
    let mut stream = TcpStream::connect(guard).await.expect("the guard listens");
    let length = u8::try_from(name.len()).expect("a short name");
    let request = [&[5, 1, 0, 5, 1, 0, 3, length][..], name, &port.to_be_bytes()].concat();
    stream.write_all(&request).await.expect("it reads");
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).await.expect("it answers");
    (stream, reply[3])
}

/// Sends a greeting and then echoes.
pub async fn site() -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        while let Ok((mut visitor, _)) = listener.accept().await {
            tokio::spawn(async move {
                visitor.write_all(b"hello ").await?;
                let (mut reader, mut writer) = visitor.split();
                tokio::io::copy(&mut reader, &mut writer).await
            });
        }
    });
    (port, serving)
}

pub async fn converse(mut stream: TcpStream) {
    stream.write_all(b"there").await.expect("it reads");
    let mut echoed = [0; 11];
    stream.read_exact(&mut echoed).await.expect("it answers");
    assert_eq!(&echoed, b"hello there");
}
