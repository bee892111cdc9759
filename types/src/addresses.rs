//! Decides which network addresses can be dialled: addresses of the public internet, and those that a deployment
//! allows.
//!
//! The egress guard dials no other address. Address space that no registry has assigned to the public is refused. An
//! IPv6 address that embeds an IPv4 address is treated as that IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IANA special-purpose registry, multicast and class E.
static NOT_PUBLIC_V4: LazyLock<Vec<Ipv4Net>> = LazyLock::new(|| {
    parsed(&[
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ])
});

static GLOBAL_UNICAST_V6: LazyLock<Vec<Ipv6Net>> = LazyLock::new(|| parsed(&["2000::/3"]));

/// Protocol assignments (including Teredo), documentation, 6to4, and the direct delegation AS112 service.
static NOT_PUBLIC_V6: LazyLock<Vec<Ipv6Net>> =
    LazyLock::new(|| parsed(&["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]));

static DOCUMENTATION: LazyLock<Vec<IpNet>> =
    LazyLock::new(|| parsed(&["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"]));

/// The public internet by default, with changes by the deployment.
#[derive(Debug, Clone, Default)]
pub struct Destinations {
    pub allow_private: bool,
    /// An address of the machine itself must be listed alone (as a /32 or /128): an allowed network does not include
    /// the machine, because the operator allows the network for its other hosts.
    pub allow: Vec<IpNet>,
    /// Takes precedence over the other settings.
    pub deny: Vec<IpNet>,
}

/// Location of an address in relation to the machine that dials it. The address alone does not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    Own,
    /// Address in a network that the machine is connected to.
    Near,
    Far,
}

impl Destinations {
    /// Returns true when `address` can be dialled from a machine at this distance.
    #[must_use]
    pub fn permit(&self, address: IpAddr, distance: Distance) -> bool {
        let address = effective_address(address);
        let is_own = distance == Distance::Own || address.is_loopback() || address.is_unspecified();
        let is_named = |net: &IpNet| net.contains(&address) && (!is_own || net.prefix_len() == net.max_prefix_len());
        if self.deny.iter().any(|net| net.contains(&address)) {
            return false;
        }
        self.allow_private || self.allow.iter().any(is_named) || (distance == Distance::Far && is_public(address))
    }

    /// A request can contain an address that can be dialled from far away, or a documentation address that is not
    /// denied. Dialling a documentation address fails with its own error.
    #[must_use]
    pub fn permit_literal(&self, address: IpAddr) -> bool {
        let is_documentation = DOCUMENTATION.iter().any(|net| net.contains(&effective_address(address)));
        let denied = || self.deny.iter().any(|net| net.contains(&effective_address(address)));
        self.permit(address, Distance::Far) || is_documentation && !denied()
    }
}

/// An IPv4 address that is embedded in an IPv6 address.
#[must_use]
pub fn effective_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => embedded_v4(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match effective_address(address) {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC_V4.iter().any(|net| net.contains(&address))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    GLOBAL_UNICAST_V6.iter().any(|net| net.contains(&address))
        && !NOT_PUBLIC_V6.iter().any(|net| net.contains(&address))
}

/// Mapped (`::ffff:0:0/96`) and NAT64 (`64:ff9b::/96`) addresses reach IPv4 hosts.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    address.to_ipv4_mapped().or_else(|| match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))),
        _ => None,
    })
}

fn parsed<N: std::str::FromStr<Err: std::fmt::Debug>>(nets: &[&str]) -> Vec<N> {
    nets.iter().map(|net| net.parse().expect("the tables above hold well-formed prefixes")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Destinations, Distance, IpNet, is_public};

    #[test]
    fn documentation_address_is_permitted_as_literal_only() {
        let open = Destinations::default();
        let closed =
            Destinations { deny: vec!["203.0.113.0/24".parse().expect("a prefix")], ..Destinations::default() };
        for (address, literal) in [
            ("203.0.113.7", true),
            ("::ffff:203.0.113.7", true),
            ("2001:db8::7", true),
            ("10.0.0.7", false),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("fd00::7", false),
            ("224.0.0.1", false),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(open.permit_literal(address), literal, "{address}");
            assert!(!open.permit(address, Distance::Far), "{address}");
        }
        assert!(!closed.permit_literal("203.0.113.7".parse().expect("an address")));
    }

    /// A denied network overrides an allowed one, and an allowed network does not include the machine itself.
    #[test]
    fn deployment_overrides_the_defaults() {
        let nets = |nets: &[&str]| -> Vec<IpNet> { nets.iter().map(|net| net.parse().expect("a prefix")).collect() };
        let permitted = |destinations: &Destinations, address: &str, distance| {
            destinations.permit(address.parse().expect("an address"), distance)
        };
        let closed = Destinations::default();
        assert!(permitted(&closed, "1.1.1.1", Distance::Far));
        for distance in [Distance::Near, Distance::Own] {
            assert!(!permitted(&closed, "1.1.1.1", distance), "{distance:?}");
        }
        let custom = Destinations {
            allow: nets(&["10.1.0.0/16", "1.1.1.0/24", "10.9.9.9/32", "fd00::/64"]),
            deny: nets(&["10.1.2.0/24", "8.8.8.0/24"]),
            allow_private: false,
        };
        for (address, distance, allowed) in [
            ("10.1.1.1", Distance::Near, true),
            ("::ffff:10.1.1.1", Distance::Far, true),
            ("fd00::1", Distance::Far, true),
            ("10.1.1.1", Distance::Own, false),
            ("10.9.9.9", Distance::Own, true),
            ("10.1.2.3", Distance::Near, false),
            ("10.2.0.1", Distance::Far, false),
            ("1.1.1.1", Distance::Near, true),
            ("8.8.8.8", Distance::Far, false),
            ("64:ff9b::808:808", Distance::Far, false),
            ("9.9.9.9", Distance::Far, true),
        ] {
            assert_eq!(permitted(&custom, address, distance), allowed, "{address} {distance:?}");
        }
        let open = Destinations { allow_private: true, ..custom };
        assert!(permitted(&open, "127.0.0.1", Distance::Own));
        assert!(!permitted(&open, "10.1.2.3", Distance::Near));
        let wide = Destinations { allow: nets(&["0.0.0.0/0"]), ..Destinations::default() };
        assert!(!permitted(&wide, "127.0.0.1", Distance::Far), "loopback belongs to the machine at any distance");
    }

    #[test]
    fn only_the_public_internet_is_public() {
        for public in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"] {
            assert!(is_public(public.parse().expect("an address")), "{public}");
        }
        for refused in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.31.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::7f00:1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
        ] {
            assert!(!is_public(refused.parse().expect("an address")), "{refused}");
        }
    }
}
