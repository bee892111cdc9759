//! Ways out of a browser: direct, or through what a customer brings, and the guard in front of all.
//!
//! A [`Guard`] hears from its browser where a connection is to lead, and asks its [`Way`] for it, which was chosen when the
//! session opened and never changes. Only `direct` can look up the name of a site or dial a site. The others dial nothing but what
//! the customer named (`upstream`), hand names on as names, and know nowhere else to go: when what they lead through is
//! dead, so is the connection.
//!
//! This knows neither sessions nor SQL.

mod check;
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
pub use self::local_networks::Judge;
pub use self::names::Names;
pub use self::probe::{Capabilities, Measured, Probes};
pub use self::refusal::{Fault, ProxyReply, Refusal};
pub use self::route::EgressRoute;
pub use self::rules::Rules;
pub use self::target::Target;
pub use self::upstream::{Proxy, Upstream};
