//! Tunnels against servers that are not of our own making, in networks of their own.

mod support;
mod wireguard;
