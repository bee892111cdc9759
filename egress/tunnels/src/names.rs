//! Resolves names with a tunnel's own name servers, through the tunnel: over UDP first, and over TCP for long answers.
//!
//! This module reads no file of this machine and has no path around the tunnel. Its sockets do not keep the tunnel open.

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

const MAX_LOOKUPS: usize = 16;

const REMEMBERED: u64 = 512;

/// Answers and failures, regardless of their TTL.
const REMEMBERED_FOR: Duration = Duration::from_hours(1);
const NEGATIVE_TTL: Duration = Duration::from_secs(30);

/// Timeout of a query, and number of retries.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const LOOKUP_RETRIES: usize = 1;

/// Maximum number of name servers used from a configuration.
const SERVERS: usize = 4;

const ADDRESSES: usize = 16;

const CONNECT_WITHIN: Duration = Duration::from_secs(3);

pub struct Names {
    resolver: Resolver<TunnelRuntime>,
    turns: Semaphore,
}

impl Names {
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
        options.attempts = LOOKUP_RETRIES;
        options.num_concurrent_reqs = 1;
        options.cache_size = REMEMBERED;
        options.positive_max_ttl = Some(REMEMBERED_FOR);
        options.negative_max_ttl = Some(NEGATIVE_TTL);
        Ok(Self { resolver: builder.build()?, turns: Semaphore::new(MAX_LOOKUPS) })
    }

    /// IPv4 first.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, ConnectError> {
        let mut name = Name::from_utf8(name).map_err(|_| ConnectError::NameNotFound)?;
        name.set_fqdn(true);
        let _turn = self.turns.acquire().await.map_err(|_| ConnectError::NameNotFound)?;
        let found = self.resolver.lookup_ip(name).await.map_err(|error| {
            tracing::debug!(%error, "target host name does not resolve inside the tunnel");
            ConnectError::NameNotFound
        })?;
        Ok(found.iter().take(ADDRESSES).collect())
    }
}

/// Runtime of hickory: only sockets inside the tunnel.
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
