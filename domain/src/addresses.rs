//! Which network addresses are out in the public internet.
//!
//! The egress guard dials nothing else, so this is an allow-list with holes: what no registry has handed out to the
//! public is refused, and an IPv6 address that carries an IPv4 one is judged by what it carries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::{Ipv4Net, Ipv6Net};

/// IPv4 space that is not the public internet (IANA special-purpose registry, multicast and class E).
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

/// The only IPv6 space handed out to the public.
static GLOBAL_UNICAST_V6: LazyLock<Vec<Ipv6Net>> = LazyLock::new(|| parsed(&["2000::/3"]));

/// Its holes: protocol assignments (Teredo among them), documentation, 6to4, and the direct delegation AS112 service.
static NOT_PUBLIC_V6: LazyLock<Vec<Ipv6Net>> =
    LazyLock::new(|| parsed(&["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]));

/// Whether `address` belongs to the public internet.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => carried_v4(v6).map_or_else(|| is_public_v6(v6), is_public_v4),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC_V4.iter().any(|net| net.contains(&address))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    GLOBAL_UNICAST_V6.iter().any(|net| net.contains(&address))
        && !NOT_PUBLIC_V6.iter().any(|net| net.contains(&address))
}

/// The IPv4 address inside a mapped one (`::ffff:0:0/96`) or a NAT64 one (`64:ff9b::/96`), which reach IPv4 hosts.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
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
    use super::is_public;

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
