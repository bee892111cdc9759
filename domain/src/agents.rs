//! Agents: what a customer says in words, and what is done about it.

pub mod grammar;
pub mod wishes;
