//! Agent sessions: who reads what a customer says, and what becomes of it.

pub mod decomposers;
