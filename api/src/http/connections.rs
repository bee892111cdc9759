//! Open connections by address, and the choice of idle connections to close when the limits are reached. A connection costs its
//! client nothing, but costs this process one of few file descriptors: there are limits for all connections and for each
//! address. At a limit, a new connection replaces an idle one: one of the same address if that address is at its limit,
//! otherwise one of the address with the most connections. A connection with a request in progress is never closed. A reserve
//! for addresses without a connection keeps the process reachable for monitoring, even when all other connections are busy.
//!
//! Trusted proxies carry many clients: they have no limit of their own, and their connections are closed last.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ipnet::IpNet;
use tokio_util::sync::CancellationToken;

/// Other parts need descriptors, too.
const AT_A_TIME: usize = 16;

#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// One sixteenth, at least one, is reserved for addresses without a connection.
    pub all: usize,
    /// Never more than half of all.
    pub per_address: usize,
}

impl ConnectionLimits {
    fn reserved_for_new_clients(self) -> usize {
        (self.all / 16).max(1)
    }

    /// Each live view uses two more descriptors, to its worker and on the worker.
    #[must_use]
    pub fn views(self) -> usize {
        (self.all / 4).max(1)
    }

    fn of_one(self) -> usize {
        self.per_address.min(self.all / 2).max(1)
    }
}

/// An IPv4 address, or the IPv6 network that a subscriber chooses addresses from.
pub fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

pub struct Connections {
    limits: ConnectionLimits,
    trusted_proxies: Vec<IpNet>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    of: HashMap<IpAddr, Address>,
    count: usize,
    next: u64,
}

struct Address {
    is_trusted: bool,
    connections: HashMap<u64, Arc<Activity>>,
}

struct ActivityState {
    /// Requests, and connections that were upgraded.
    under_way: usize,
    idle_since: Instant,
}

pub struct Activity {
    busy: Mutex<ActivityState>,
    /// True while a response waits for a slow reader.
    is_sending: AtomicBool,
    end: CancellationToken,
}

impl Activity {
    fn new() -> Self {
        Self {
            busy: Mutex::new(ActivityState { under_way: 0, idle_since: Instant::now() }),
            is_sending: AtomicBool::new(false),
            end: CancellationToken::new(),
        }
    }

    /// `None` while the connection is busy.
    fn idle_since(&self) -> Option<Instant> {
        if self.is_sending.load(Ordering::Relaxed) {
            return None;
        }
        let busy = self.busy();
        (busy.under_way == 0).then_some(busy.idle_since)
    }

    fn busy(&self) -> MutexGuard<'_, ActivityState> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_idle(&self) -> bool {
        self.idle_since().is_some()
    }

    pub fn sending(&self, is_sending: bool) {
        self.is_sending.store(is_sending, Ordering::Relaxed);
    }

    /// In progress until the value is dropped.
    pub fn begin(self: &Arc<Self>) -> RequestGuard {
        self.busy().under_way += 1;
        RequestGuard(Arc::clone(self))
    }

    /// The connection must make room for another.
    pub async fn close_requested(&self) {
        self.end.cancelled().await;
    }
}

pub struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut busy = self.0.busy();
        busy.under_way -= 1;
        busy.idle_since = Instant::now();
    }
}

/// Freed on drop.
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    address: IpAddr,
    number: u64,
    pub activity: Arc<Activity>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.table().remove(self.address, self.number);
    }
}

impl Connections {
    pub fn new(limits: ConnectionLimits, trusted_proxies: &[IpNet]) -> Arc<Self> {
        Arc::new(Self { limits, trusted_proxies: trusted_proxies.to_vec(), table: Mutex::default() })
    }

    /// `None` when all connections are busy.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
        let (address, limits) = (subscriber(peer), self.limits);
        let peer = peer.to_canonical();
        let is_trusted = self.trusted_proxies.iter().any(|net| net.contains(&peer));
        let mut table = self.table();
        if !is_trusted && table.count_of(address) >= limits.of_one() {
            table.close_idlest_of(address).then_some(())?;
        }
        if table.count + limits.reserved_for_new_clients() >= limits.all && !table.close_idlest() {
            (table.count_of(address) == 0 && table.count < limits.all).then_some(())?;
        }
        let (number, activity) = (table.next, Arc::new(Activity::new()));
        table.next += 1;
        table.count += 1;
        let of_address = table.of.entry(address).or_insert_with(|| Address { is_trusted, connections: HashMap::new() });
        of_address.connections.insert(number, Arc::clone(&activity));
        drop(table);
        Some(ConnectionSlot { connections: Arc::clone(self), address, number, activity })
    }

    /// Returns whether there were any idle ones.
    pub fn make_room(&self) -> bool {
        let mut table = self.table();
        (0..AT_A_TIME).take_while(|_| table.close_idlest()).count() > 0
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn count_of(&self, address: IpAddr) -> usize {
        self.of.get(&address).map_or(0, |of_address| of_address.connections.len())
    }

    /// Takes the address with the most idle connections, and a trusted proxy only if no other has one.
    fn close_idlest(&mut self) -> bool {
        let idle = |of_address: &Address| of_address.connections.values().filter(|one| one.is_idle()).count();
        let candidates = self.of.iter().map(|(address, of)| ((!of.is_trusted, idle(of)), *address));
        let max = candidates.filter(|((_, idle), _)| *idle > 0).max_by_key(|(rank, _)| *rank);
        max.is_some_and(|(_, address)| self.close_idlest_of(address))
    }

    fn close_idlest_of(&mut self, address: IpAddr) -> bool {
        let Some(of_address) = self.of.get(&address) else { return false };
        let idle = of_address.connections.iter().filter_map(|(number, one)| Some((one.idle_since()?, *number)));
        let Some((_, number)) = idle.min() else { return false };
        if let Some(ended) = self.remove(address, number) {
            ended.end.cancel();
        }
        true
    }

    fn remove(&mut self, address: IpAddr, number: u64) -> Option<Arc<Activity>> {
        let of_address = self.of.get_mut(&address)?;
        let removed = of_address.connections.remove(&number)?;
        if of_address.connections.is_empty() {
            self.of.remove(&address);
        }
        self.count -= 1;
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(all: usize, per_address: usize) -> Arc<Connections> {
        let proxies = ["192.0.2.1/32".parse().expect("a prefix")];
        Connections::new(ConnectionLimits { all, per_address }, &proxies)
    }

    fn admit(connections: &Arc<Connections>, peer: &str) -> Option<ConnectionSlot> {
        connections.admit(peer.parse().expect("an address"))
    }

    fn is_ended(place: &ConnectionSlot) -> bool {
        place.activity.end.is_cancelled()
    }

    #[test]
    fn address_at_its_limit_loses_its_idlest_connection() {
        let server = connections(100, 2);
        let [first, second] = [(); 2].map(|()| admit(&server, "198.51.100.1").expect("a place"));
        let other = admit(&server, "198.51.100.2").expect("a place");
        let busy = first.activity.begin();
        let third = admit(&server, "198.51.100.1").expect("a place");
        assert_eq!([&first, &second, &third, &other].map(is_ended), [false, true, false, false]);
        let also_busy = third.activity.begin();
        assert!(admit(&server, "198.51.100.1").is_none(), "all of its connections are busy");
        drop(also_busy);
        assert!(admit(&server, "198.51.100.1").is_some());
        assert_eq!([&first, &third].map(is_ended), [false, true]);
        drop(busy);
    }

    #[test]
    fn ipv6_prefix_is_one_address() {
        let server = connections(100, 1);
        let one = admit(&server, "2606:4700::1").expect("a place");
        let _neighbour = admit(&server, "2606:4700::2:1").expect("a place");
        assert!(is_ended(&one));
    }

    #[test]
    fn full_server_closes_idlest_connection_of_busiest_client() {
        let server = connections(16, 100);
        let many: Vec<_> = (0..7).map(|_| admit(&server, "198.51.100.1").expect("a place")).collect();
        let few: Vec<_> = (0..3).map(|_| admit(&server, "198.51.100.2").expect("a place")).collect();
        let proxied: Vec<_> = (0..5).map(|_| admit(&server, "192.0.2.1").expect("a place")).collect();
        let newcomer = admit(&server, "198.51.100.3").expect("a place");
        assert!(is_ended(&many[0]) && !is_ended(&many[1]));
        assert!(!few.iter().chain(&proxied).chain([&newcomer]).any(is_ended));

        // If no other connection is idle, the proxy's are closed; if none is idle at all, only new addresses get a slot.
        let mut busy: Vec<_> = many.iter().chain(&few).chain([&newcomer]).map(|place| place.activity.begin()).collect();
        let eleventh = admit(&server, "198.51.100.2").expect("a place");
        assert!(is_ended(&proxied[0]));
        busy.extend(proxied.iter().chain([&eleventh]).map(|place| place.activity.begin()));
        assert!(admit(&server, "198.51.100.2").is_none());
        let watcher = admit(&server, "198.51.100.4").expect("the place that was kept");
        let _answer = watcher.activity.begin();
        assert!(admit(&server, "198.51.100.5").is_none(), "every place is taken");
    }

    #[test]
    fn connection_that_sends_a_response_is_not_idle() {
        let server = connections(100, 1);
        let place = admit(&server, "198.51.100.1").expect("a place");
        place.activity.sending(true);
        assert!(admit(&server, "198.51.100.1").is_none());
        place.activity.sending(false);
        assert!(admit(&server, "198.51.100.1").is_some());
    }

    #[test]
    fn connection_slots_are_released() {
        let server = connections(100, 100);
        let places: Vec<_> = (0..40).map(|_| admit(&server, "198.51.100.1").expect("a place")).collect();
        drop(places);
        assert_eq!(server.table().count, 0);
        assert!(server.table().of.is_empty());
    }
}
