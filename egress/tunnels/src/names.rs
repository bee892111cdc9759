//! Names as a tunnel's own servers know them, asked through the tunnel: hickory over sockets of the tunnel's stack, UDP first
//! and TCP for what is too long.
//!
//! Nothing here reads a file of this machine or has a way around the tunnel. Its sockets do not keep the tunnel alive.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hickory_resolver::Resolver;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::iocompat::AsyncIoTokioAsStd;
use hickory_resolver::net::runtime::{DnsUdpSocket, RuntimeProvider, TokioHandle, TokioTime};
use hickory_resolver::proto::rr::Name;
use tokio::sync::Semaphore;

use crate::ConnectError;
use crate::stack::{Sockets, Stack, TcpStream, UdpSocket};

/// Names that are looked up at a time.
const LOOK_UPS: usize = 16;

/// Answers that are remembered.
const REMEMBERED: u64 = 512;

/// How long they are at most, whatever they say themselves.
const REMEMBERED_FOR: Duration = Duration::from_hours(1);
const UNKNOWN_FOR: Duration = Duration::from_secs(30);

/// How long a server may take, and how often it is asked again.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const ASKED_AGAIN: usize = 1;

/// Servers that are asked, of those a configuration names.
const SERVERS: usize = 4;

/// Addresses of a name that are of use to anybody.
const ADDRESSES: usize = 16;

/// How long a connection to a server may take to come about.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Finds the addresses of names inside a tunnel.
pub struct Names {
    resolver: Resolver<TunnelRuntime>,
    turns: Semaphore,
}

impl Names {
    /// Asks these servers, through this stack.
    ///
    /// # Errors
    /// When there is no resolver to be had.
    pub fn over(stack: &Stack, servers: &[IpAddr]) -> Result<Self, NetError> {
        let servers = servers.iter().take(SERVERS).map(|server| NameServerConfig::udp_and_tcp(*server)).collect();
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        let inside = TunnelRuntime { sockets: stack.sockets(), handle: TokioHandle::default() };
        let mut builder = Resolver::builder_with_config(config, inside);
        let options = builder.options_mut();
        options.use_hosts_file = ResolveHosts::Never;
        options.ip_strategy = match (stack.has_ipv4(), stack.has_ipv6()) {
            (true, true) => LookupIpStrategy::Ipv4AndIpv6,
            (_, false) => LookupIpStrategy::Ipv4Only,
            (false, true) => LookupIpStrategy::Ipv6Only,
        };
        options.timeout = ANSWER_WITHIN;
        options.attempts = ASKED_AGAIN;
        options.num_concurrent_reqs = 1;
        options.cache_size = REMEMBERED;
        options.positive_max_ttl = Some(REMEMBERED_FOR);
        options.negative_max_ttl = Some(UNKNOWN_FOR);
        Ok(Self { resolver: builder.build()?, turns: Semaphore::new(LOOK_UPS) })
    }

    /// The addresses of a name, those of IPv4 first.
    ///
    /// # Errors
    /// When it has none, or nobody says.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, ConnectError> {
        let mut name = Name::from_utf8(name).map_err(|_| ConnectError::NameNotFound)?;
        name.set_fqdn(true);
        let _turn = self.turns.acquire().await.map_err(|_| ConnectError::NameNotFound)?;
        let found = self.resolver.lookup_ip(name).await.map_err(|error| {
            tracing::debug!(%error, "name does not resolve inside the tunnel");
            ConnectError::NameNotFound
        })?;
        Ok(found.iter().take(ADDRESSES).collect())
    }
}

/// What hickory runs on: sockets inside the tunnel, and nothing else.
#[derive(Clone)]
struct TunnelRuntime {
    sockets: Sockets,
    handle: TokioHandle,
}

type Future<T> = Pin<Box<dyn std::future::Future<Output = io::Result<T>> + Send>>;

impl RuntimeProvider for TunnelRuntime {
    type Handle = TokioHandle;
    type Timer = TokioTime;
    type Udp = QuerySocket;
    type Tcp = AsyncIoTokioAsStd<TcpStream>;

    fn create_handle(&self) -> TokioHandle {
        self.handle.clone()
    }

    fn connect_tcp(&self, server: SocketAddr, _: Option<SocketAddr>, within: Option<Duration>) -> Future<Self::Tcp> {
        let sockets = self.sockets.clone();
        Box::pin(async move {
            let connected = sockets.connect(server, within.unwrap_or(CONNECT_WITHIN)).await;
            connected.map(AsyncIoTokioAsStd).map_err(io::Error::other)
        })
    }

    fn bind_udp(&self, _: SocketAddr, server: SocketAddr) -> Future<QuerySocket> {
        let bound = self.sockets.bind(server);
        Box::pin(async move { bound.map(QuerySocket) })
    }
}

/// A socket for one question.
struct QuerySocket(UdpSocket);

impl DnsUdpSocket for QuerySocket {
    type Time = TokioTime;

    fn poll_recv_from(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        let length = ready!(self.0.poll_receive(cx, buffer))?;
        Poll::Ready(Ok((length, self.0.remote())))
    }

    fn poll_send_to(&self, cx: &mut Context<'_>, bytes: &[u8], _: SocketAddr) -> Poll<io::Result<usize>> {
        self.0.poll_send(cx, bytes)
    }
}
