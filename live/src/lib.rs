//! The live view between its ends (contract: live 17 to 23): what viewers and workers say to each other, and the connection between
//! an api process and a worker that carries it.
//!
//! An api process opens a [`link`] to the worker that has the session, shows it the viewer's ticket, and forwards bytes from then on. It
//! never reads them, so that [`messages`] and [`pictures`] are the worker's and the viewer's alone.

pub mod link;
pub mod messages;
pub mod pictures;

/// The WebSocket subprotocol.
pub const PROTOCOL: &str = "kitfleet.live.v1";

/// How many may watch one session at the same time (contract: live 5).
pub const MOST_VIEWERS: usize = 64;
