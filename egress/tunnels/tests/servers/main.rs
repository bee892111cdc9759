//! Tunnels against servers that are not of our own making, in networks of their own.

mod openvpn;
mod support;
mod traffic;
mod wireguard;
