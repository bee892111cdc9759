//! Profiles: what a phone remembers from one session to the next (decisions D8).

pub mod keeping;
