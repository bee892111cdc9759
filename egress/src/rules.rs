//! Rules of a worker's guards.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use kitfleet_types::addresses::{Destinations, effective_address};

use crate::local_networks::AddressPolicy;
use crate::names::Names;

#[derive(Clone)]
pub struct Rules {
    pub(crate) names: Arc<Names>,
    pub(crate) connections: usize,
    sites: AddressPolicy,
    /// Rules for addresses of customers' proxies and tunnels.
    upstreams: AddressPolicy,
    /// Always denied: another browser's guard leads to that browser's route.
    guards: Arc<Mutex<HashSet<u16>>>,
}

impl Rules {
    /// `upstreams` are customers' proxies and tunnels. `connections` is the limit of each browser.
    pub fn new(sites: Destinations, upstreams: Destinations, connections: usize) -> io::Result<Self> {
        Ok(Self::asking(Names::of_this_machine().map_err(io::Error::other)?, sites, upstreams, connections))
    }

    pub(crate) fn asking(names: Names, sites: Destinations, upstreams: Destinations, connections: usize) -> Self {
        let (sites, upstreams) = (AddressPolicy::new(sites), AddressPolicy::new(upstreams));
        Self { names: Arc::new(names), connections, sites, upstreams, guards: Arc::default() }
    }

    pub(crate) fn permit_site(&self, address: SocketAddr) -> bool {
        !self.is_guard(address) && self.sites.permits(address.ip())
    }

    pub(crate) fn permit_upstream(&self, address: SocketAddr) -> bool {
        !self.is_guard(address) && self.upstreams.permits(address.ip())
    }

    /// Addresses of the customer's network, mostly private, are allowed; loopback, link-local, multicast and
    /// unspecified addresses are not.
    pub(crate) fn permit_inside_tunnel(address: IpAddr) -> bool {
        let address = effective_address(address);
        let is_link_local = match address {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local)
    }

    pub(crate) fn permit_private_sites(&self) -> bool {
        self.sites.permits_private()
    }

    pub(crate) fn with_guards<T>(&self, change: impl FnOnce(&mut HashSet<u16>) -> T) -> T {
        change(&mut self.guards.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_guard(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        (ip.is_loopback() || ip.is_unspecified()) && self.with_guards(|ports| ports.contains(&address.port()))
    }
}
