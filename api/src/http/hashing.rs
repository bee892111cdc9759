//! Threads that hash passwords. One hash takes a core for tens of milliseconds and 19 MiB, and any client can request one by
//! logging in.
//!
//! One thread per core bounds the memory. Low priority leaves a core to other requests during a flood of logins. A request
//! takes one of two turns per thread before it reads the database, so that waiting logins hold no connections. A job keeps its
//! turn until it is done, even if the client hangs up.

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use kitfleet_domain::machine::lower_thread_priority;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::http::error::{Problem, Result};

/// In addition to those that have a turn. They are a few seconds of work; a client would hardly wait longer.
const MAX_WAITING: usize = 256;
/// While one request hashes, the next prepares.
const SLOTS_PER_THREAD: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// They end with the last clone and the last turn.
#[derive(Clone)]
pub struct Hashing {
    jobs: Sender<Job>,
    /// For requests that have a turn or wait for one.
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl Hashing {
    pub fn start() -> io::Result<Self> {
        Self::start_with(thread::available_parallelism().map_or(1, NonZeroUsize::get), MAX_WAITING)
    }

    fn start_with(threads: usize, max_waiting: usize) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let waiting = waiting.clone();
            thread::Builder::new().name("hashing".to_owned()).spawn(move || work(&waiting))?;
        }
        let turns = threads * SLOTS_PER_THREAD;
        Ok(Self { jobs, places: Arc::new(Semaphore::new(turns + max_waiting)), turns: Arc::new(Semaphore::new(turns)) })
    }

    /// Too many waiting requests are an error.
    pub async fn turn(&self) -> Result<HashPermit> {
        let place = self.places.clone().try_acquire_owned();
        let place =
            place.map_err(|_| Problem::unavailable_for_now("too many passwords are being checked; try again later"))?;
        let turn = self.turns.clone().acquire_owned().await.map_err(|closed| Problem::internal(&closed))?;
        Ok(HashPermit { jobs: self.jobs.clone(), held: Arc::new((turn, place)) })
    }

    /// # Errors
    /// Too many other requests wait, or `hash` panics.
    pub async fn run<T: Send + 'static>(&self, hash: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        self.turn().await?.run(hash).await
    }
}

pub struct HashPermit {
    jobs: Sender<Job>,
    held: Arc<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl HashPermit {
    pub async fn run<T: Send + 'static>(&self, hash: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (done, result) = oneshot::channel();
        let held = self.held.clone();
        let job = move || {
            // The receiver may be gone.
            let _ = done.send(hash());
            drop(held);
        };
        self.jobs.send(Box::new(job)).map_err(|_| Problem::internal(&"the threads that hash have ended"))?;
        result.await.map_err(|_| Problem::internal(&"the hashing of a password panicked"))
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    // Without low priority, logins still work, but compete with other requests for the processor.
    if let Err(error) = lower_thread_priority() {
        tracing::warn!(%error, "cannot lower the priority of password hashing");
    }
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // The panic hook logs the message; the caller sees that the result channel closes.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use kitfleet_domain::passwords::NewPassword;
    use kitfleet_types::limits::Limits;

    use super::*;

    #[tokio::test]
    async fn password_is_hashed_on_a_low_priority_thread() {
        let hashing = Hashing::start().expect("threads");
        let password = NewPassword::parse("correct horse battery", "password", &Limits::default());
        let password = password.unwrap_or_else(|_| panic!("a sound password"));
        let hash = hashing.run(move || password.hash()).await.expect("a result");
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));

        let nice = || fs::read_to_string("/proc/thread-self/stat").map(|stat| nice_value(&stat));
        let (here, there) = (nice().expect("/proc"), hashing.run(nice).await.expect("a result").expect("/proc"));
        assert_eq!(there, (here + 19).min(19));
    }

    /// Field 19 of the file; fields are counted after the name in parentheses.
    fn nice_value(stat: &str) -> i32 {
        let fields = stat.rsplit(") ").next().expect("fields");
        fields.split(' ').nth(16).and_then(|value| value.parse().ok()).expect("a nice value")
    }

    #[tokio::test]
    async fn hashing_queue_is_bounded_when_clients_disconnect() {
        let hashing = Hashing::start_with(1, 1).expect("threads");
        let (started, is_started) = oneshot::channel();
        let (release, released) = mpsc::channel::<()>();
        let clone = hashing.clone();
        let first = tokio::spawn(async move {
            let job = move || {
                let _ = started.send(());
                released.recv()
            };
            clone.run(job).await.map(drop)
        });
        is_started.await.expect("the only thread is taken");
        // The caller gives up immediately, but the job still waits and keeps its turn.
        let gone = tokio::time::timeout(Duration::ZERO, hashing.run(|| ())).await;
        assert!(gone.is_err());
        // This request waits for a turn.
        let clone = hashing.clone();
        let waiting = tokio::spawn(async move { clone.run(|| ()).await });
        while hashing.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = hashing.run(|| ()).await.expect_err("nobody else may wait");
        assert_eq!(refused.parts().kind.status, 503);
        release.send(()).expect("the first job waits");
        first.await.expect("no panic").expect("the first job is done");
        waiting.await.expect("no panic").expect("it had its turn");
        while hashing.run(|| ()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn panic_does_not_end_the_hashing_thread() {
        let hashing = Hashing::start_with(1, 1).expect("threads");
        let panicked = hashing.run(|| panic!("a defect")).await.map(|(): ()| ());
        assert_eq!(panicked.expect_err("no result").parts().kind.status, 500);
        assert_eq!(hashing.run(|| 7).await.ok(), Some(7));
    }
}
