//! What payment providers tell, and what comes of it.

pub mod card;
