//! Customers cannot reach addresses of this machine and of its networks, even public ones.
//!
//! Services on a machine's public address are often intended only for its neighbours, and all its IPv6 neighbours have
//! public addresses. The machine's interfaces are queried at most every 5 s. Other paths to this machine, such as a
//! forwarded port on a router, are not visible here; `sessions.deny_networks` covers them.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use kitfleet_types::addresses::{Destinations, Distance, effective_address};
use kitfleet_types::log_throttle::LogThrottle;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::sys::socket::SockaddrStorage;

const GOOD_FOR: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct AddressPolicy(Arc<Destinations>);

impl AddressPolicy {
    #[must_use]
    pub fn new(destinations: Destinations) -> Self {
        Self(Arc::new(destinations))
    }

    #[must_use]
    pub fn permits(&self, address: IpAddr) -> bool {
        self.0.permit(address, distance(address))
    }

    pub(crate) fn permits_private(&self) -> bool {
        self.0.allow_private
    }
}

/// If the interfaces cannot be queried, every address counts as the machine's own.
fn distance(address: IpAddr) -> Distance {
    let Some(interfaces) = interfaces() else { return Distance::Own };
    interfaces.distance(effective_address(address))
}

#[derive(Debug, Default)]
struct Interfaces {
    own: HashSet<IpAddr>,
    networks: Vec<IpNet>,
}

impl Interfaces {
    fn of(addresses: impl Iterator<Item = InterfaceAddress>) -> Self {
        let mut interfaces = Self::default();
        for interface in addresses {
            let ip = |address: Option<SockaddrStorage>| address.as_ref().and_then(ip_of);
            let Some(address) = ip(interface.address) else { continue };
            interfaces.add(address, ip(interface.netmask), ip(interface.destination));
        }
        interfaces
    }

    fn add(&mut self, address: IpAddr, netmask: Option<IpAddr>, other_end: Option<IpAddr>) {
        self.own.insert(address);
        self.networks.extend(other_end.map(IpNet::from));
        let network = netmask.and_then(|mask| IpNet::with_netmask(address, mask).ok());
        // Some tunnels without a network report a netmask of zero.
        self.networks.extend(network.filter(|network| network.prefix_len() > 0));
    }

    fn distance(&self, address: IpAddr) -> Distance {
        if self.own.contains(&address) {
            Distance::Own
        } else if self.networks.iter().any(|network| network.contains(&address)) {
            Distance::Near
        } else {
            Distance::Far
        }
    }
}

/// `None` if they could never be queried.
fn interfaces() -> Option<Arc<Interfaces>> {
    static KNOWN: Mutex<Option<(Instant, Arc<Interfaces>)>> = Mutex::new(None);
    static FAILED: LogThrottle = LogThrottle::new();

    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.as_ref().is_none_or(|(asked_at, _)| asked_at.elapsed() > GOOD_FOR) {
        match getifaddrs() {
            Ok(addresses) => *known = Some((Instant::now(), Arc::new(Interfaces::of(addresses)))),
            // The cached addresses are most likely still correct.
            Err(error) => {
                FAILED.log(|held_back| tracing::error!(%error, held_back, "cannot list this machine's addresses"));
            }
        }
    }
    known.as_ref().map(|(_, interfaces)| Arc::clone(interfaces))
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn network_of_an_interface_is_local() {
        let mut interfaces = Interfaces::default();
        interfaces.add(ip("93.184.216.34"), Some(ip("255.255.255.0")), None);
        interfaces.add(ip("2606:4700::5"), Some(ip("ffff:ffff:ffff:ffff::")), None);
        interfaces.add(ip("9.9.9.1"), Some(ip("255.255.255.255")), Some(ip("9.9.9.2")));
        interfaces.add(ip("9.9.8.1"), Some(ip("0.0.0.0")), None);
        for (address, distance) in [
            ("93.184.216.34", Distance::Own),
            ("93.184.216.35", Distance::Near),
            ("93.184.217.34", Distance::Far),
            ("2606:4700::5", Distance::Own),
            ("2606:4700::6", Distance::Near),
            ("2606:4700:0:1::6", Distance::Far),
            ("9.9.9.1", Distance::Own),
            ("9.9.9.2", Distance::Near),
            ("9.9.9.3", Distance::Far),
            ("9.9.8.1", Distance::Own),
            ("1.1.1.1", Distance::Far),
        ] {
            assert_eq!(interfaces.distance(ip(address)), distance, "{address}");
        }
    }

    #[test]
    fn loopback_addresses_are_local() {
        assert_eq!(distance(ip("127.0.0.1")), Distance::Own);
        assert_eq!(distance(ip("::ffff:127.0.0.1")), Distance::Own);
        assert_eq!(distance(ip("127.1.2.3")), Distance::Near);
    }
}
