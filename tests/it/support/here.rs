//! The service in the process of the test: everything that `kitfleet up` runs, on its own threads.
//!
//! The service shares the log, the metrics and the panic hook with the test. nextest runs each test in its own process.

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

/// For the tasks of the service after it has stopped. sqlx gives a connection 5 s to close.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// As a process would have written them.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

pub struct Service {
    /// Separate, so that leftover tasks can be counted.
    runtime: Option<Runtime>,
    stop: Shutdown,
    up: JoinHandle<anyhow::Result<()>>,
}

impl Service {
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

    pub fn log() -> String {
        String::from_utf8_lossy(&log()).into_owned()
    }

    pub fn has_ended(&self) -> bool {
        self.up.is_finished()
    }

    /// Starts the shutdown, as a signal does.
    pub fn request_stop(&self) {
        self.stop.drain.cancel();
    }

    /// No task and no blocking call is left.
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
        // After a failed test the runtime is not awaited, because that is not allowed within a task.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn log() -> MutexGuard<'static, Vec<u8>> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of all threads except for the test's, as a process would write them to standard error.
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

struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        log().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
