//! Egress routes of browsers: direct, or through a customer's proxy or tunnel, and the guard that filters them.
//!
//! A [`Guard`] connects its browser to each target through its [`EgressRoute`], which is chosen when the session opens
//! and never changes. Only `direct` resolves the names of sites and dials sites. The other routes dial only the
//! customer's proxy or tunnel server (`upstream`) and pass names on unresolved. If that upstream fails, the connection
//! fails; there is no fallback.
//!
//! This crate depends on neither sessions nor SQL.

mod check;
mod connection;
mod direct;
mod guard;
mod http;
mod local_networks;
mod names;
mod probe;
mod refusal;
mod route;
mod rules;
mod socks5;
mod target;
mod tunnel;
mod upstream;
mod welcome;

pub use kitfleet_tunnels::{Credentials, openvpn, wireguard};

pub use self::check::{Checked, check};
pub use self::guard::Guard;
pub use self::local_networks::AddressPolicy;
pub use self::names::Names;
pub use self::probe::{Capabilities, Measured, Probes};
pub use self::refusal::{Fault, ProxyReply, Refusal};
pub use self::route::EgressRoute;
pub use self::rules::Rules;
pub use self::target::Target;
pub use self::upstream::{Proxy, Upstream};
