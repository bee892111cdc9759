//! Resolves names with this machine's name servers and hosts file.
//!
//! The C library's resolver blocks a thread while a name server does not answer, and threads are few: a page with many such
//! names would block every session. Here a lookup is a future, and ends when it is dropped.
//!
//! Both files are read again after a change. Other sources of the C library, such as a directory service or multicast DNS, are
//! not used.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::config::{LookupIpStrategy, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};

/// Name servers and static names.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];
/// Interval at which the files are checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

pub struct Names {
    current: Mutex<Current>,
}

struct Current {
    looked_at: Instant,
    stamps: [Option<CacheStamp>; 2],
    sources: Sources,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CacheStamp {
    inode: u64,
    bytes: u64,
    changed_at: (i64, i64),
}

#[derive(Clone)]
struct Sources {
    hosts: Arc<Hosts>,
    resolver: TokioResolver,
}

impl Names {
    /// Without readable name servers, only names in the hosts file resolve.
    pub fn of_this_machine() -> Result<Self, NetError> {
        // Stamps are taken first: a change during the read is then detected at the next check.
        let stamps = stamps();
        let current = Current { looked_at: Instant::now(), stamps, sources: Sources::of_this_machine()? };
        Ok(Self { current: Mutex::new(current) })
    }

    /// IPv4 first: with IPv6 first, a host without IPv6 would often wait for a timeout.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, NetError> {
        let Sources { hosts, resolver } = self.sources();
        let kept = Name::from_utf8(name).map(|name| written_in(&hosts, &name)).unwrap_or_default();
        if !kept.is_empty() {
            return Ok(kept);
        }
        Ok(resolver.lookup_ip(name).await?.iter().collect())
    }

    fn sources(&self) -> Sources {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked_at.elapsed() > POLL_INTERVAL {
            current.looked_at = Instant::now();
            let stamps = stamps();
            if stamps != current.stamps {
                match Sources::of_this_machine() {
                    Ok(sources) => {
                        tracing::info!("name servers or the hosts file changed: using the new configuration");
                        (current.stamps, current.sources) = (stamps, sources);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot read the changed name servers: using the previous configuration");
                    }
                }
            }
        }
        current.sources.clone()
    }
}

impl Sources {
    fn of_this_machine() -> Result<Self, NetError> {
        let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the name server configuration: only addresses and names in the hosts file are reachable");
            TokioResolver::builder_with_config(ResolverConfig::default(), TokioRuntimeProvider::default())
        });
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        Ok(Self { hosts: Arc::new(Hosts::from_system().unwrap_or_default()), resolver: builder.build()? })
    }
}

/// If the hosts file has an address of one family for a name, the other family is not queried.
fn written_in(hosts: &Hosts, name: &Name) -> Vec<IpAddr> {
    let found = [RecordType::A, RecordType::AAAA]
        .into_iter()
        .filter_map(|kind| hosts.lookup_static_host(&Query::query(name.clone(), kind)));
    found
        .flat_map(|found| found.answers().iter().filter_map(|record| record.data.ip_addr()).collect::<Vec<_>>())
        .collect()
}

fn stamps() -> [Option<CacheStamp>; 2] {
    FILES.map(|file| {
        let file = fs::metadata(file).ok()?;
        Some(CacheStamp { inode: file.ino(), bytes: file.len(), changed_at: (file.mtime(), file.mtime_nsec()) })
    })
}

#[cfg(test)]
impl Names {
    /// Resolver without name servers: only names of this machine itself resolve.
    #[must_use]
    pub fn unknown() -> Self {
        Self::asking(ResolverConfig::default())
    }

    fn asking(config: ResolverConfig) -> Self {
        let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()).build();
        let sources = Sources { hosts: Arc::default(), resolver: resolver.expect("a resolver") };
        Self { current: Mutex::new(Current { looked_at: Instant::now(), stamps: stamps(), sources }) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::future::{join_all, select};
    use hickory_resolver::config::NameServerConfig;
    use tokio::net::UdpSocket;

    use super::*;

    fn threads() -> usize {
        fs::read_dir("/proc/self/task").expect("/proc").count()
    }

    #[tokio::test]
    async fn unanswered_lookups_use_no_threads() {
        let mute = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let mut server = NameServerConfig::udp(Ipv4Addr::LOCALHOST.into());
        server.connections[0].port = mute.local_addr().expect("an address").port();
        let names = Names::asking(ResolverConfig::from_name_servers(vec![server]));
        let before = threads();
        let questions: Vec<_> = (0..100).map(|nth| format!("name-{nth}.example.")).collect();
        let asking = join_all(questions.iter().map(|name| names.addresses(name)));
        // All lookups are in flight once so many questions have arrived; none is answered.
        let arriving = async {
            let mut question = [0; 512];
            for _ in 0..100 {
                mute.recv_from(&mut question).await.expect("a question");
            }
        };
        let arrived = tokio::time::timeout(Duration::from_secs(30), select(Box::pin(asking), Box::pin(arriving))).await;
        assert!(matches!(arrived.expect("questions"), futures_util::future::Either::Right(_)));
        assert!(threads() < before + 20, "{} threads, {before} before", threads());
    }

    #[test]
    fn hosts_file_resolves_both_address_families() {
        let mut hosts = Hosts::default();
        let file = "192.0.2.1 here.example other\n2001:db8::1 both.example\n192.0.2.2 both.example\n";
        hosts.read_hosts_conf(file.as_bytes()).expect("a hosts file");
        let found = |name: &str| written_in(&hosts, &Name::from_utf8(name).expect("a name"));
        let ips = |ips: &[&str]| ips.iter().map(|ip| ip.parse().expect("an address")).collect::<Vec<IpAddr>>();
        assert_eq!(found("HERE.example."), ips(&["192.0.2.1"]));
        assert_eq!(found("other"), ips(&["192.0.2.1"]));
        assert_eq!(found("both.example"), ips(&["192.0.2.2", "2001:db8::1"]));
        assert_eq!(found("nowhere.example"), ips(&[]));
    }
}
