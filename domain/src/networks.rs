//! Networks of clients: an approximate origin that does not identify a single device.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// The /24 of an IPv4 address or the /48 of an IPv6 address.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct Network(String);

impl Network {
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { 24 } else { 48 };
        Self(IpNet::new_assert(address, bits).trunc().to_string())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_network_have_the_same_name() {
        for (address, network) in [
            ("192.0.2.1", "192.0.2.0/24"),
            ("192.0.2.255", "192.0.2.0/24"),
            ("::ffff:192.0.2.7", "192.0.2.0/24"),
            ("192.0.3.1", "192.0.3.0/24"),
            ("2001:db8:1:2::3", "2001:db8:1::/48"),
            ("2001:db8:1:ffff::", "2001:db8:1::/48"),
            ("2001:db8:2::", "2001:db8:2::/48"),
        ] {
            assert_eq!(Network::of(address.parse().expect("an address")).to_string(), network);
        }
    }
}
