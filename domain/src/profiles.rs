//! Profiles (interface, "Profiles and launch"; decisions D8).

pub mod keeping;
pub mod stores;
