//! Runs work whose duration depends on a customer's input without blocking other tasks.
//!
//! A thread of the runtime also runs tasks such as the renewal of the worker's lease, so no task may occupy it for
//! long. Work that takes time in proportion to input from a customer or to a page's content goes through
//! [`run_blocking`].

use std::io;
use std::thread;

use serde::Serialize;
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use crate::machine::run_when_idle;

/// Up to this size, work takes less time than moving the thread's other tasks.
const SMALL: usize = 64 * 1024;

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

/// Counts during serialization without storing the bytes. `usize::MAX` for a value that cannot be serialized.
#[must_use]
pub fn json_bytes(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An estimate, which stops once the value is large enough for [`run_blocking`] to move other tasks.
#[must_use]
pub fn weight(value: &Value) -> usize {
    let mut bytes = 0;
    add_weight(value, &mut bytes);
    bytes
}

fn add_weight(value: &Value, bytes: &mut usize) {
    *bytes += match value {
        Value::String(text) => text.len() + 2,
        _ => 4,
    };
    match value {
        Value::Array(items) => {
            for item in items {
                if *bytes > SMALL {
                    return;
                }
                add_weight(item, bytes);
            }
        }
        Value::Object(members) => {
            for (name, item) in members {
                if *bytes > SMALL {
                    return;
                }
                *bytes += name.len() + 4;
                add_weight(item, bytes);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_bytes_equals_the_serialized_length() {
        for value in [json!(null), json!({"ä": ["\n", 1.5, true, {"b": "\u{1}"}]}), json!(["x".repeat(SMALL)])] {
            assert_eq!(json_bytes(&value), value.to_string().len());
        }
    }

    #[test]
    fn weight_stops_counting_at_the_limit() {
        assert!((10..40).contains(&weight(&json!({"a": [1, "two", null]}))));
        assert!(weight(&json!("x".repeat(SMALL))) > SMALL);
        let many = json!(vec![0; 10 * SMALL]);
        assert!((SMALL..SMALL + 100).contains(&weight(&many)));
    }

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
