//! What the guards of a worker let through.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use kitfleet_domain::addresses::{Destinations, reached_by};

use crate::local_networks::Judge;
use crate::names::Names;

/// What the guards of this worker let through.
#[derive(Clone)]
pub struct Rules {
    pub(crate) names: Arc<Names>,
    /// Connections of one browser at a time.
    pub(crate) connections: usize,
    /// Where browsers may go.
    sites: Judge,
    /// Where what customers bring may be.
    upstreams: Judge,
    /// Never let through: behind another browser's guard is another browser's way out.
    guards: Arc<Mutex<HashSet<u16>>>,
}

impl Rules {
    /// What a deployment permits, of sites and of what customers bring, and no guard ever. A browser may have so many connections at
    /// a time.
    ///
    /// # Errors
    /// When names cannot be resolved.
    pub fn new(sites: Destinations, upstreams: Destinations, connections: usize) -> io::Result<Self> {
        Ok(Self::asking(Names::of_this_machine().map_err(io::Error::other)?, sites, upstreams, connections))
    }

    pub(crate) fn asking(names: Names, sites: Destinations, upstreams: Destinations, connections: usize) -> Self {
        let (sites, upstreams) = (Judge::new(sites), Judge::new(upstreams));
        Self { names: Arc::new(names), connections, sites, upstreams, guards: Arc::default() }
    }

    /// Whether a browser may go to this address.
    pub(crate) fn permit_site(&self, address: SocketAddr) -> bool {
        !self.is_guard(address) && self.sites.permits(address.ip())
    }

    /// Whether what a customer brings may be there.
    pub(crate) fn permit_upstream(&self, address: SocketAddr) -> bool {
        !self.is_guard(address) && self.upstreams.permits(address.ip())
    }

    /// Whether a name may lead there inside a customer's tunnel. Behind it is the customer's own network, whose addresses are mostly
    /// private; what is at nobody's but the asker's own machine is not a site.
    pub(crate) fn permit_inside_tunnel(address: IpAddr) -> bool {
        let address = reached_by(address);
        let is_link_local = match address {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local)
    }

    /// Whether browsers may go to what is not of the public internet.
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
