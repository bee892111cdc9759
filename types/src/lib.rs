//! Types and rules that need neither a database nor HTTP, so that crates such as the egress guard can use them alone.

pub mod addresses;
pub mod log_throttle;
