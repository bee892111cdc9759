//! Where passwords are hashed. One hash takes a core for tens of milliseconds and 19 MiB of memory, and anybody may ask for
//! one by logging in.
//!
//! So there are as many threads for it as cores, which bounds the memory, and they yield to everything else: while logins
//! flood in, other requests find a core at once, and the flood gets all that is left over. Whoever wants a hash takes a turn
//! first, and there are two for each thread, so that none of them is ever idle. A request that reads the database before it
//! hashes does so in its turn: hundreds of logins that wait hold no connection, and do not make the pool open more of them,
//! which would go cold and slow everybody down. Those that wait for a turn are bounded too, and beyond that answered 503 at
//! once. A job keeps its turn until it is done: a client that hangs up makes no room for another.

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use kitfleet_domain::machine::yield_to_others;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::http::error::{Problem, Result};

/// Requests that wait for a turn, beyond those that have one. It is a few seconds' work: whoever came later would hardly
/// wait for the answer.
const MOST_WAITING: usize = 256;
/// Turns a thread: while one hashes, the next gets ready.
const TURNS_A_THREAD: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// The threads that hash. They end with the last clone and the last turn.
#[derive(Clone)]
pub struct Hashing {
    jobs: Sender<Job>,
    /// One for each request that has a turn or waits for one.
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl Hashing {
    /// # Errors
    /// When the machine allows no more threads.
    pub fn start() -> io::Result<Self> {
        Self::start_with(thread::available_parallelism().map_or(1, NonZeroUsize::get), MOST_WAITING)
    }

    fn start_with(threads: usize, most_waiting: usize) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let waiting = waiting.clone();
            thread::Builder::new().name("hashing".to_owned()).spawn(move || work(&waiting))?;
        }
        let turns = threads * TURNS_A_THREAD;
        Ok(Self {
            jobs,
            places: Arc::new(Semaphore::new(turns + most_waiting)),
            turns: Arc::new(Semaphore::new(turns)),
        })
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// When too many others wait.
    pub async fn turn(&self) -> Result<Turn> {
        let place = self.places.clone().try_acquire_owned();
        let place =
            place.map_err(|_| Problem::unavailable_for_now("too many passwords are being checked at the moment"))?;
        let turn = self.turns.clone().acquire_owned().await.map_err(|closed| Problem::internal(&closed))?;
        Ok(Turn { jobs: self.jobs.clone(), held: Arc::new((turn, place)) })
    }

    /// Waits for a turn and runs `hash` in it.
    ///
    /// # Errors
    /// When too many others wait, and when it panics.
    pub async fn run<T: Send + 'static>(&self, hash: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        self.turn().await?.run(hash).await
    }
}

/// The right to have something hashed.
pub struct Turn {
    jobs: Sender<Job>,
    held: Arc<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl Turn {
    /// Runs `hash` on one of the threads.
    ///
    /// # Errors
    /// When it panics.
    pub async fn run<T: Send + 'static>(&self, hash: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (done, result) = oneshot::channel();
        let held = self.held.clone();
        let job = move || {
            // Nobody waits any more, perhaps.
            let _ = done.send(hash());
            drop(held);
        };
        self.jobs.send(Box::new(job)).map_err(|_| Problem::internal(&"the threads that hash have ended"))?;
        result.await.map_err(|_| Problem::internal(&"the hashing of a password panicked"))
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    // Logins go on all the same, about one a second and core, on a machine that is busy with everything else.
    if let Err(error) = yield_to_others() {
        tracing::warn!(%error, "cannot lower the priority of password hashing");
    }
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // The panic hook writes the message; the caller learns of it by the result that never comes.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use kitfleet_domain::limits::Limits;
    use kitfleet_domain::passwords::NewPassword;

    use super::*;

    #[tokio::test]
    async fn a_password_is_hashed_on_a_thread_that_yields() {
        let hashing = Hashing::start().expect("threads");
        let password = NewPassword::parse("correct horse battery", "password", &Limits::default());
        let password = password.unwrap_or_else(|_| panic!("a sound password"));
        let hash = hashing.run(move || password.hash()).await.expect("a result");
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));

        let nice = || fs::read_to_string("/proc/thread-self/stat").map(|stat| nice_value(&stat));
        let (here, there) = (nice().expect("/proc"), hashing.run(nice).await.expect("a result").expect("/proc"));
        assert_eq!(there, (here + 19).min(19));
    }

    /// The 19th field of the file, counted after the name in parentheses.
    fn nice_value(stat: &str) -> i32 {
        let fields = stat.rsplit(") ").next().expect("fields");
        fields.split(' ').nth(16).and_then(|value| value.parse().ok()).expect("a nice value")
    }

    #[tokio::test]
    async fn what_waits_is_bounded_also_when_clients_hang_up() {
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
        // It gives up at once, but what it asked for waits and keeps its turn.
        let gone = tokio::time::timeout(Duration::ZERO, hashing.run(|| ())).await;
        assert!(gone.is_err());
        // This one waits for a turn.
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
    async fn a_panic_takes_no_thread_away() {
        let hashing = Hashing::start_with(1, 1).expect("threads");
        let panicked = hashing.run(|| panic!("a defect")).await.map(|(): ()| ());
        assert_eq!(panicked.expect_err("no result").parts().kind.status, 500);
        assert_eq!(hashing.run(|| 7).await.ok(), Some(7));
    }
}
