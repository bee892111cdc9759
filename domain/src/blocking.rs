//! Work that a customer can make long, out of the way of everybody else's.
//!
//! A thread of the runtime serves whoever is next, renews the worker's lease among others, so that nothing may keep it for
//! more than a moment. What takes time in proportion to something that a customer has sent, or a page has made, goes through
//! [`heavy`].

use std::io;
use std::thread;

use serde::Serialize;
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::block_in_place;

use crate::machine::run_when_idle;

/// Bytes up to which work is done where it stands: it takes less time than handing a thread's other tasks on.
const LIGHT: usize = 64 * 1024;

/// Does work on about so many bytes. When that is long, the other tasks of this thread go to another one first.
pub fn run_blocking<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_others = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > LIGHT && has_others { block_in_place(work) } else { work() }
}

/// Does work on a thread of its own, which yields to everything else: for what takes longer than the tasks of one thread may wait. The
/// work goes on when nobody waits for it any more, so that whatever bounds it is moved into it.
///
/// # Errors
/// When the machine has no thread for it, or the work panics.
pub async fn run_idle<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    // Not one of the runtime's threads, for which a process that stops would wait.
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Where that is refused, everything works as before.
        let _ = run_when_idle();
        // Nobody waits any more, perhaps.
        let _ = done.send(work());
    })?;
    result.await.map_err(io::Error::other)
}

/// How many bytes something has as JSON. They are counted as they would be written, and held nowhere. What cannot be written has
/// as many as there can be.
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

/// About how many bytes a value has as JSON, counted no further than to what is heavy.
#[must_use]
pub fn weight(value: &Value) -> usize {
    let mut bytes = 0;
    weigh(value, &mut bytes);
    bytes
}

fn weigh(value: &Value, bytes: &mut usize) {
    *bytes += match value {
        Value::String(text) => text.len() + 2,
        _ => 4,
    };
    match value {
        Value::Array(items) => {
            for item in items {
                if *bytes > LIGHT {
                    return;
                }
                weigh(item, bytes);
            }
        }
        Value::Object(members) => {
            for (name, item) in members {
                if *bytes > LIGHT {
                    return;
                }
                *bytes += name.len() + 4;
                weigh(item, bytes);
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
    fn bytes_are_counted_as_they_would_be_written() {
        for value in [json!(null), json!({"ä": ["\n", 1.5, true, {"b": "\u{1}"}]}), json!(["x".repeat(LIGHT)])] {
            assert_eq!(json_bytes(&value), value.to_string().len());
        }
    }

    #[test]
    fn a_value_is_weighed_no_further_than_needed() {
        assert!((10..40).contains(&weight(&json!({"a": [1, "two", null]}))));
        assert!(weight(&json!("x".repeat(LIGHT))) > LIGHT);
        let many = json!(vec![0; 10 * LIGHT]);
        assert!((LIGHT..LIGHT + 100).contains(&weight(&many)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_meanwhile() {
        let (start, begun) = tokio::sync::oneshot::channel();
        let other = tokio::spawn(async move { start.send(()) });
        // The only thread of this runtime waits for a task that only the runtime can run.
        let heard = tokio::spawn(async move { run_blocking(usize::MAX, || begun.blocking_recv()) });
        assert_eq!(heard.await.expect("no panic"), Ok(()));
        assert_eq!(other.await.expect("no panic"), Ok(()));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_does_it_where_it_stands() {
        assert_eq!(run_blocking(usize::MAX, || 1), 1);
    }
}
