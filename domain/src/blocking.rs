//! Runs work whose duration depends on a customer's input without blocking other tasks.
//!
//! A thread of the runtime also runs tasks such as the renewal of the worker's lease, so no task may occupy it for
//! long. Work that takes time in proportion to input from a customer or to a page's content goes through
//! [`run_blocking`].

use std::io;
use std::thread;

use kitfleet_types::json_size::SMALL;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use crate::machine::run_when_idle;

/// `bytes` is the approximate size of the input. If it is large, the other tasks of this thread first move to another
/// thread.
pub fn run_blocking<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_others = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > SMALL && has_others { block_in_place(work) } else { work() }
}

/// Runs work on a separate thread with idle priority, for work that takes longer than the tasks of a thread can wait.
/// The work continues when the caller is cancelled, so `work` must own the permits that limit it.
pub async fn run_idle<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    // A thread of the runtime's pool would delay the exit of the process.
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Without the priority, the work still runs correctly.
        let _ = run_when_idle();
        // The receiver no longer exists if the caller was cancelled.
        let _ = done.send(work());
    })?;
    result.await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_during_blocking_work() {
        let (start, begun) = tokio::sync::oneshot::channel();
        let other = tokio::spawn(async move { start.send(()) });
        // The only thread of this runtime waits for a task that only the runtime can run.
        let received = tokio::spawn(async move { run_blocking(usize::MAX, || begun.blocking_recv()) });
        assert_eq!(received.await.expect("no panic"), Ok(()));
        assert_eq!(other.await.expect("no panic"), Ok(()));
    }

    #[tokio::test]
    async fn single_thread_runtime_runs_the_work_in_place() {
        assert_eq!(run_blocking(usize::MAX, || 1), 1);
    }
}
