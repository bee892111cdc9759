//! Types and rules that need neither SQL nor HTTP, so that crates such as the egress guard can use them alone.
//!
//! With the feature `sqlx`, which only the domain turns on, some types are columns of the database. A function whose work
//! grows with the input of a customer or of a page says so, and its caller moves large work off the threads of the runtime
//! ([`json_size`]).

pub mod addresses;
pub mod commands;
pub mod dictionary;
pub mod emulation;
pub mod files;
pub mod ids;
pub mod json_size;
pub mod limits;
pub mod log_throttle;
pub mod operations;
pub mod redaction;
pub mod tiers;
pub mod timestamp;
pub mod validation;
