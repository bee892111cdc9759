//! Stops a thread's side effects when its caller gives up: dropping a future does not stop the thread that it waits
//! for.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// True when its [`Closing`] was dropped.
#[derive(Default)]
pub struct Gate(Arc<Mutex<bool>>);

/// Closes the gate on drop, after a step that is in progress.
pub struct Closing(Arc<Mutex<bool>>);

impl Gate {
    pub fn close_when_dropped(&self) -> Closing {
        Closing(Arc::clone(&self.0))
    }

    /// Runs a short step if the gate is open.
    pub fn pass<T>(&self, step: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let closed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed { Err(io::Error::other("the caller has given up")) } else { step() }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}
