//! Agents: what a customer says in words, who reads it, and what is done about it.

pub mod decomposers;
pub mod grammar;
pub mod wishes;
