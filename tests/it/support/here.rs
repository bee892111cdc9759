//! The service inside the test's own process: all that `kitfleet up` runs, on threads of its own.
//!
//! What a process has once, the service shares with the test: the log, the metrics, the hook that panics run. nextest gives
//! each test a process.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{panic, thread};

use kitfleet::{Config, Shutdown};
use kitfleet_worker::config::Clock;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinHandle;

use super::app::STOPS_WITHIN;
use super::eventually;

/// How long what the service has begun may take to end once it has said that it is stopped.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// What was logged, as a process would have written it.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A service that runs.
pub struct Service {
    /// Its own, so that what it leaves behind can be counted.
    runtime: Option<Runtime>,
    stop: Shutdown,
    up: JoinHandle<anyhow::Result<()>>,
}

impl Service {
    /// Starts a service with these variables, as if they were its environment, that goes by this clock.
    pub fn start(variables: impl IntoIterator<Item = (OsString, OsString)>, clock: Clock) -> Self {
        kitfleet::raise_descriptors().expect("a limit of open files");
        let mut config = Config::from_variables(variables).unwrap_or_else(|error| panic!("{error}"));
        config.clock = clock;
        log_panics();
        kitfleet::log_to(&config, || Line);
        let runtime = runtime::Builder::new_multi_thread().thread_name("service").enable_all().build();
        let runtime = runtime.expect("threads");
        let stop = Shutdown::default();
        let told = stop.clone();
        let up = runtime.spawn(async move {
            let greet = |text: &str| Ok(writeln!(Line, "{text}")?);
            kitfleet::up(&config, &told, greet).await.inspect_err(|error| drop(writeln!(Line, "kitfleet: {error:#}")))
        });
        Self { runtime: Some(runtime), stop, up }
    }

    /// What services of this process have logged.
    pub fn log() -> String {
        String::from_utf8_lossy(&log()).into_owned()
    }

    /// Whether it has ended, by itself or because it was told to.
    pub fn has_ended(&self) -> bool {
        self.up.is_finished()
    }

    /// Tells it to stop, as a signal does.
    pub fn tell_to_stop(&self) {
        self.stop.drain.cancel();
    }

    /// Waits until it has stopped, and asserts that it has nothing under way then: no task, no blocking call.
    ///
    /// # Panics
    /// When it ended with an error, or something is left.
    pub async fn stopped(&mut self) {
        let up = tokio::time::timeout(STOPS_WITHIN, &mut self.up).await.expect("the service stops");
        up.expect("the service does not panic").expect("the service ends well");
        let runtime = self.runtime.take().expect("it stops once");
        let tasks = runtime.metrics();
        eventually(ENDS_WITHIN, "no task is left", async || (tasks.num_alive_tasks() == 0).then_some(())).await;
        let ended = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            runtime.shutdown_timeout(ENDS_WITHIN);
            started.elapsed()
        });
        assert!(ended.await.expect("threads end") < ENDS_WITHIN, "a blocking call is left");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Of a test that failed midway: a runtime may not be waited for where tasks run.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn log() -> MutexGuard<'static, Vec<u8>> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Panics of all threads but the test's are written down in the log, as the standard error of a process would have them.
fn log_panics() {
    static ONCE: Once = Once::new();
    let test = thread::current().id();
    ONCE.call_once(|| {
        let shown = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if thread::current().id() != test {
                let _ = writeln!(Line, "{panic}");
            }
            shown(panic);
        }));
    });
}

/// Writes to the log.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        log().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
