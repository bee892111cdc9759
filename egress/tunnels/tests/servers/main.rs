//! Tunnels against independent servers, each in its own network namespace.

mod openvpn;
mod support;
mod traffic;
mod wireguard;
