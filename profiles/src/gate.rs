//! What a thread may do only as long as somebody waits for it. Dropping a future does not stop the thread that it waits for.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Open until its [`Closing`] is dropped: the flag says that it is closed.
#[derive(Default)]
pub struct Gate(Arc<Mutex<bool>>);

/// Closes a gate when it is dropped, behind whatever passes at that moment.
pub struct Closing(Arc<Mutex<bool>>);

impl Gate {
    pub fn close_when_dropped(&self) -> Closing {
        Closing(Arc::clone(&self.0))
    }

    /// Does a short step, if the gate is open.
    pub fn pass<T>(&self, step: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let closed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed { Err(io::Error::other("nobody waits for it any more")) } else { step() }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}
