//! Profiles (interface, "Profiles and launch"; decisions D8).

pub mod stores;
