//! Protocol of the live view (contract: live 17 to 23), between viewers and workers, and between API processes and
//! workers.
//!
//! An API process opens a [`link`] to the session's worker, sends it the viewer's ticket, and then forwards bytes
//! without reading them. Only the worker and the viewer interpret [`messages`] and [`pictures`].
//!
//! The same connections carry [`files`].

pub mod files;
pub mod link;
pub mod messages;
pub mod pictures;

pub const PROTOCOL: &str = "kitfleet.live.v1";

/// Maximum number of concurrent viewers of a session (contract: live 5).
pub const MAX_VIEWERS: usize = 64;
