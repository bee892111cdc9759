//! Name servers that a profile or a server sets.

use std::net::IpAddr;

pub(super) const MAX_DNS: usize = 8;

/// The stack can send to unicast addresses only.
pub(super) fn usable(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let is_one = match address {
        IpAddr::V4(address) => !address.is_broadcast(),
        IpAddr::V6(_) => true,
    };
    (is_one && !address.is_unspecified() && !address.is_multicast()).then_some(address)
}

/// `dns server N address A [A…]`. A server with its own port or transport is ignored.
pub(super) fn servers(words: &[&str]) -> Vec<IpAddr> {
    match words {
        ["server", _, "address", addresses @ ..] => addresses.iter().filter_map(|address| usable(address)).collect(),
        _ => Vec::new(),
    }
}
