//! Hot slots: hosts that already show a blank page, so that a session opens in milliseconds.
//!
//! A slot is kept for the device pixel ratio of the default archetype, which GTK fixes as it starts; everything else
//! about a device is set on a running host. Other ratios start cold.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kitfleet_domain::archetypes::{self, Archetype};
use kitfleet_domain::operations::{Failure, FailureClass};
use kitfleet_domain::sessions::BehavioralProfile;
use kitfleet_domain::workers::Driver;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::bounds::Watchdog;
use super::confinement::{Confinement, located};
use super::directories::WorkerDirectory;
use super::egress::Rules;
use super::host::{Host, Start, driver_failure};
use super::processes::Spawner;
use super::simulated::Simulated;
use super::webkit::Webkit;
use super::{Browser, Engine, StartError};
use crate::config::WorkerConfig;

/// How often slots are looked after: one may have died.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// How long a session that has just taken a slot has the processors to itself before the next slot starts.
const REFILL_AFTER: Duration = Duration::from_millis(200);

/// How long everything that was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Opens browsers.
#[derive(Clone)]
pub struct Pool(Kind);

#[derive(Clone)]
enum Kind {
    Webkit(Arc<Slots>),
    Simulated,
    None,
}

impl Pool {
    /// Starts what the configured driver needs, and warms the slots.
    ///
    /// # Errors
    /// When the machine lacks something that browsers need.
    pub async fn start(config: &WorkerConfig) -> Result<Self, StartError> {
        let kind = match config.driver {
            Driver::Webkit => Kind::Webkit(Arc::new(Slots::start(config).await?)),
            Driver::Simulated => Kind::Simulated,
            Driver::None => Kind::None,
        };
        Ok(Self(kind))
    }

    /// Opens a browser that is this device. How long that may take is the caller's business.
    ///
    /// # Errors
    /// When the worker has none, or it does not open.
    pub async fn open(&self, archetype: &'static Archetype, profile: BehavioralProfile) -> Result<Browser, Failure> {
        let engine = match &self.0 {
            Kind::Webkit(slots) => Engine::Webkit(Box::new(slots.hosts.open(archetype, profile).await?)),
            Kind::Simulated => Engine::Simulated(Simulated::new()),
            Kind::None => {
                let detail = "This worker has no browsers.".to_owned();
                return Err(Failure { class: FailureClass::NotIntegrated, detail });
            }
        };
        Ok(Browser(engine))
    }

    /// Whether every browser is confined to its own folder and its own way out.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        match &self.0 {
            Kind::Webkit(slots) => slots.hosts.confinement.is_whole(),
            Kind::Simulated | Kind::None => true,
        }
    }

    /// Kills every browser, open or hot, and waits until nothing is left, no socket and no folder.
    pub async fn shut_down(&self) {
        if let Kind::Webkit(slots) = &self.0 {
            slots.hosts.shut_down().await;
        }
    }
}

/// Hosts that are kept hot for as long as anyone can open them.
struct Slots {
    hosts: Arc<Hosts>,
    _until_dropped: DropGuard,
}

impl Slots {
    async fn start(config: &WorkerConfig) -> Result<Self, StartError> {
        let spawner = Spawner::start().map_err(StartError::Threads)?;
        let directory = WorkerDirectory::claim(&config.data_dir).map_err(StartError::Directory)?;
        let program = located(&config.host_program).map_err(StartError::Missing)?;
        let trial = directory.browser().map_err(StartError::Directory)?;
        let confinement = Confinement::find(&spawner, config.sandbox, &program, &trial.session()).await;
        trial.remove().await;
        let hosts = Arc::new(Hosts {
            config: config.clone(),
            rules: Rules::new(config).map_err(StartError::Names)?,
            program,
            confinement: confinement?,
            directory,
            watchdog: Arc::new(Watchdog::new(config.bounds)),
            spawner,
            hot: Mutex::default(),
            taken: Notify::new(),
            starts: Semaphore::new(thread::available_parallelism().map_or(1, usize::from)),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        // A machine that cannot start a browser says so now, not to its first customer.
        hosts.warm().await.map_err(|failure| StartError::Host(failure.detail))?;
        let keeper = Arc::clone(&hosts);
        hosts.tasks.spawn(async move { keeper.stopping.run_until_cancelled(keeper.keep_warm()).await });
        let looking = Arc::clone(&hosts.watchdog).run();
        let stopping = hosts.stopping.clone();
        hosts.tasks.spawn(async move { stopping.run_until_cancelled(looking).await });
        let until_dropped = hosts.stopping.clone().drop_guard();
        Ok(Self { hosts, _until_dropped: until_dropped })
    }
}

struct Hosts {
    config: WorkerConfig,
    rules: Rules,
    program: PathBuf,
    confinement: Confinement,
    directory: WorkerDirectory,
    watchdog: Arc<Watchdog>,
    spawner: Spawner,
    hot: Mutex<VecDeque<Host>>,
    taken: Notify,
    /// Starting a host keeps a processor busy: more at once would only be slower.
    starts: Semaphore,
    stopping: CancellationToken,
    /// The keeper of slots, and the burial of every host.
    tasks: TaskTracker,
}

impl Hosts {
    async fn open(&self, archetype: &Archetype, profile: BehavioralProfile) -> Result<Webkit, Failure> {
        let opening = async {
            if let Some(host) = self.take_hot(archetype.device_pixel_ratio) {
                match self.dress(host, archetype, profile).await {
                    Ok(browser) => return Ok(browser),
                    Err(failure) => tracing::warn!(failure.detail, "a hot slot was of no use: starting cold"),
                }
            }
            let host = self.start_host(archetype.device_pixel_ratio).await?;
            self.dress(host, archetype, profile).await
        };
        let opened = self.stopping.run_until_cancelled(opening).await;
        opened.unwrap_or_else(|| Err(driver_failure("The worker is shutting down.")))
    }

    async fn dress(&self, host: Host, archetype: &Archetype, profile: BehavioralProfile) -> Result<Webkit, Failure> {
        let (limits, confinement) = (self.config.limits.clone(), self.confinement.clone());
        Webkit::open(host, archetype, profile, &self.rules, limits, confinement).await
    }

    async fn start_host(&self, scale: u32) -> Result<Host, Failure> {
        let _turn = self.starts.acquire().await.map_err(|error| driver_failure(error.to_string()))?;
        let directory = self.directory.browser();
        let directory = directory.map_err(|error| driver_failure(format!("no folder for a browser: {error}")))?;
        let start = Start {
            program: &self.program,
            scale,
            confinement: &self.confinement,
            directory,
            watchdog: &self.watchdog,
            spawner: &self.spawner,
            stopping: &self.stopping,
            tasks: &self.tasks,
        };
        Host::start(start).await
    }

    fn take_hot(&self, scale: u32) -> Option<Host> {
        if scale != warm_scale() {
            return None;
        }
        let host = self.with_hot(|hot| {
            hot.retain(Host::is_alive);
            hot.pop_front()
        });
        self.taken.notify_one();
        host
    }

    async fn keep_warm(&self) {
        loop {
            if timeout(LOOK_AFTER, self.taken.notified()).await.is_ok() {
                sleep(REFILL_AFTER).await;
            }
            if let Err(failure) = self.warm().await {
                tracing::error!(failure.detail, "a slot does not start");
                sleep(LOOK_AFTER).await;
            }
        }
    }

    /// Starts hosts until there are as many slots as there should be.
    async fn warm(&self) -> Result<(), Failure> {
        let wanted = usize::try_from(self.config.warm_pool).unwrap_or(usize::MAX);
        loop {
            let living = self.with_hot(|hot| {
                hot.retain(Host::is_alive);
                hot.len()
            });
            if living >= wanted {
                return Ok(());
            }
            let start = timeout(self.config.open_timeout, self.start_host(warm_scale()));
            let host = start.await.map_err(|_| driver_failure("the browser did not start in time"))??;
            self.with_hot(|hot| hot.push_back(host));
        }
    }

    async fn shut_down(&self) {
        self.stopping.cancel();
        self.tasks.close();
        if timeout(GONE_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::error!("browsers are left over");
        }
        self.directory.remove();
    }

    fn with_hot<T>(&self, change: impl FnOnce(&mut VecDeque<Host>) -> T) -> T {
        change(&mut self.hot.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn warm_scale() -> u32 {
    archetypes::launch().device_pixel_ratio
}
