//! Warm browsers: hosts that already show a blank page, so that a session opens in milliseconds.
//!
//! GTK fixes the device pixel ratio at its start, so warm browsers have that of the default archetype. Browsers with another
//! ratio or time zone start cold.
//!
//! A browser that is taken is replaced at once. Several start in parallel, but not while a session is opening, which needs the
//! processors. A session without a warm browser takes either a permit to start one or the next warm browser, as soon as one of
//! them is available.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use kitfleet_domain::archetypes::{self, Archetype};
use kitfleet_domain::machine::{DiskSpace, Memory};
use kitfleet_domain::sessions::BehavioralProfile;
use kitfleet_domain::workers::Driver;
use kitfleet_egress::{EgressRoute, Rules};
use kitfleet_types::emulation::Emulation;
use kitfleet_types::log_throttle::LogThrottle;
use kitfleet_types::operations::{DialogPolicy, Failure, FailureClass};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::bounds::Watchdog;
use super::confinement::{Confinement, located};
use super::directories::WorkerDirectory;
use super::host::{Host, HostLaunch, driver_failure};
use super::processes::Spawner;
use super::simulated::Simulated;
use super::user_ids::UserIds;
use super::warm_browsers::{CountedBrowser, WarmBrowsers};
use super::webkit::Webkit;
use super::{Browser, Engine, StartError, user_ids};
use crate::config::{Bounds, WorkerConfig};

/// A warm browser may have died, or demand or memory may have decreased.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// After a failed start.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

const GONE_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Pool {
    kind: Kind,
    rules: Rules,
}

#[derive(Clone)]
enum Kind {
    Webkit(Arc<Slots>),
    Simulated,
    None,
}

impl Pool {
    /// Also starts the warm browsers.
    ///
    /// # Errors
    ///
    /// When the machine lacks something that browsers need.
    pub async fn start(config: &WorkerConfig) -> Result<Self, StartError> {
        let (sites, upstreams) = (config.destinations.clone(), config.upstreams.clone());
        let rules = Rules::new(sites, upstreams, config.session_connections).map_err(StartError::Names)?;
        let kind = match config.driver {
            Driver::Webkit => Kind::Webkit(Arc::new(Slots::start(config, &rules).await?)),
            Driver::Simulated => Kind::Simulated,
            Driver::None => Kind::None,
        };
        Ok(Self { kind, rules })
    }

    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The caller limits the time.
    pub async fn open(
        &self,
        archetype: &'static Archetype,
        profile: BehavioralProfile,
        route: &Arc<EgressRoute>,
        (emulation, dialogs, is_recorded): (&Emulation, DialogPolicy, bool),
    ) -> Result<Browser, Failure> {
        let engine = match &self.kind {
            Kind::Webkit(slots) => {
                let (browser, place) =
                    slots.hosts.open(archetype, profile, route, (emulation, dialogs, is_recorded)).await?;
                Engine::Webkit(Box::new(browser), place)
            }
            Kind::Simulated => Engine::Simulated(Box::new(Simulated::new(
                archetype,
                Arc::clone(route),
                (emulation, dialogs, is_recorded),
            ))),
            Kind::None => {
                let detail = "This worker has no browsers.".to_owned();
                return Err(Failure { class: FailureClass::NotIntegrated, detail });
            }
        };
        Ok(Browser(engine))
    }

    /// Sessions that are being opened are still served.
    pub fn stop_refilling(&self) {
        if let Kind::Webkit(slots) = &self.kind {
            slots.hosts.warm_browsers.close();
        }
    }

    /// Undoes [`Pool::stop_refilling`].
    pub fn resume(&self) {
        if let Kind::Webkit(slots) = &self.kind {
            slots.hosts.warm_browsers.reopen();
        }
    }

    /// True when every browser is confined to its own folder and egress route.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        match &self.kind {
            Kind::Webkit(slots) => slots.hosts.confinement.is_whole(),
            Kind::Simulated | Kind::None => true,
        }
    }

    /// Started browsers without a session. `None` without real browsers.
    #[must_use]
    pub fn hot(&self) -> Option<usize> {
        match &self.kind {
            Kind::Webkit(slots) => Some(slots.hosts.warm_browsers.hot()),
            Kind::Simulated | Kind::None => None,
        }
    }

    /// `disk` or `memory`. Simulated browsers use neither and save nothing, so they also run on a full machine
    /// (contract: workers 17).
    #[must_use]
    pub fn missing_resource(
        &self,
        bounds: Bounds,
        disk: Option<DiskSpace>,
        memory: Option<Memory>,
    ) -> Option<&'static str> {
        let Kind::Webkit(_) = &self.kind else { return None };
        if disk.is_some_and(|space| space.is_below(bounds.free_disk)) {
            return Some("disk");
        }
        memory.is_some_and(|memory| memory.is_short()).then_some("memory")
    }

    pub async fn shut_down(&self) {
        if let Kind::Webkit(slots) = &self.kind {
            slots.hosts.shut_down().await;
        }
    }
}

/// Maintained as long as a [`Pool`] exists.
struct Slots {
    hosts: Arc<Hosts>,
    _until_dropped: DropGuard,
}

impl Slots {
    async fn start(config: &WorkerConfig, rules: &Rules) -> Result<Self, StartError> {
        let spawner = Spawner::start().map_err(StartError::Threads)?;
        if user_ids::is_shared().map_err(StartError::Directory)? {
            return Err(StartError::SharedUser);
        }
        let users = UserIds::find().map_err(StartError::Directory)?;
        let directory = WorkerDirectory::claim(&config.data_dir, users).map_err(StartError::Directory)?;
        let program = located(&config.host_program).map_err(StartError::Missing)?;
        let trial = directory.browser().map_err(StartError::Directory)?;
        let confinement = Confinement::find(&spawner, config.sandbox, &program, &trial).await;
        trial.remove().await;
        let hosts = Arc::new(Hosts {
            config: config.clone(),
            rules: rules.clone(),
            program,
            confinement: confinement?,
            directory,
            watchdog: Arc::new(Watchdog::new(config.bounds)),
            spawner,
            warm_browsers: Arc::new(WarmBrowsers::new(config.warm_pool, config.max_sessions)),
            starts: Semaphore::new(thread::available_parallelism().map_or(1, usize::from)),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        // A machine that cannot start a browser fails here, and not at its first session.
        hosts.fill().await.map_err(|failure| StartError::Host(failure.detail))?;
        let keeper = Arc::clone(&hosts);
        hosts.tasks.spawn(async move { keeper.stopping.run_until_cancelled(keeper.keep_hot()).await });
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
    warm_browsers: Arc<WarmBrowsers>,
    /// Each start keeps one processor busy, so more of them would only be slower.
    starts: Semaphore,
    stopping: CancellationToken,
    /// The tasks that maintain warm browsers, and the task that ends each host.
    tasks: TaskTracker,
}

enum PooledBrowser<'a> {
    Hot(Host),
    Turn(SemaphorePermit<'a>),
}

impl Hosts {
    /// The caller holds the count among the worker's sessions until the browser is gone.
    async fn open(
        &self,
        archetype: &Archetype,
        profile: BehavioralProfile,
        route: &Arc<EgressRoute>,
        (emulation, dialogs, is_recorded): (&Emulation, DialogPolicy, bool),
    ) -> Result<(Webkit, CountedBrowser), Failure> {
        let opening = async {
            let place = self.warm_browsers.place();
            let timezone = emulation.timezone.as_deref();
            let turn = match self.find(archetype, timezone).await? {
                PooledBrowser::Hot(host) => {
                    match self.prepare(host, archetype, profile, route, (emulation, dialogs, is_recorded)).await {
                        Ok(browser) => return Ok((browser, place)),
                        Err(failure) => {
                            tracing::warn!(detail = failure.detail, "warm browser failed: starting a cold one");
                            self.turn().await?
                        }
                    }
                }
                PooledBrowser::Turn(turn) => turn,
            };
            let host = self.start_host(archetype, timezone, turn).await?;
            Ok((self.prepare(host, archetype, profile, route, (emulation, dialogs, is_recorded)).await?, place))
        };
        let opened = self.stopping.run_until_cancelled(opening).await;
        opened.unwrap_or_else(|| Err(driver_failure("The worker is shutting down.")))
    }

    async fn find(&self, archetype: &Archetype, timezone: Option<&str>) -> Result<PooledBrowser<'_>, Failure> {
        if archetype.device_pixel_ratio != archetypes::launch().device_pixel_ratio || timezone.is_some() {
            return self.turn().await.map(PooledBrowser::Turn);
        }
        self.warm_browsers.note(self.config.clock.now());
        if let Some(host) = self.warm_browsers.take() {
            return Ok(PooledBrowser::Hot(host));
        }
        tokio::select! {
            biased;
            host = self.warm_browsers.take_next() => Ok(PooledBrowser::Hot(host)),
            turn = self.turn() => turn.map(PooledBrowser::Turn),
        }
    }

    async fn prepare(
        &self,
        host: Host,
        archetype: &Archetype,
        profile: BehavioralProfile,
        route: &Arc<EgressRoute>,
        (emulation, dialogs, is_recorded): (&Emulation, DialogPolicy, bool),
    ) -> Result<Webkit, Failure> {
        let _preparing = self.warm_browsers.begin_preparation();
        let (limits, confinement) = (self.config.limits.clone(), self.confinement.clone());
        Webkit::open(
            host,
            archetype,
            (profile, emulation, dialogs, is_recorded),
            (route, &self.rules),
            limits,
            confinement,
        )
        .await
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Failure> {
        self.starts.acquire().await.map_err(|error| driver_failure(error.to_string()))
    }

    async fn start_host(
        &self,
        archetype: &Archetype,
        timezone: Option<&str>,
        _turn: SemaphorePermit<'_>,
    ) -> Result<Host, Failure> {
        let directory = self.directory.browser();
        let directory = directory.map_err(|error| driver_failure(format!("no folder for a browser: {error}")))?;
        let start = HostLaunch {
            program: &self.program,
            archetype,
            timezone,
            confinement: &self.confinement,
            directory,
            watchdog: &self.watchdog,
            spawner: &self.spawner,
            stopping: &self.stopping,
            tasks: &self.tasks,
        };
        Host::start(start).await
    }

    async fn start_hot(&self, turn: SemaphorePermit<'_>) -> Result<(), Failure> {
        let start = timeout(self.config.open_timeout, self.start_host(archetypes::launch(), None, turn));
        let host = start.await.map_err(|_| driver_failure("the browser did not start in time"))??;
        self.warm_browsers.put(host);
        Ok(())
    }

    async fn fill(&self) -> Result<(), Failure> {
        let missing = self.warm_browsers.settle(self.config.clock.now());
        let started = (0..missing).map(|_| async { self.start_hot(self.turn().await?).await });
        try_join_all(started).await.map(drop)
    }

    /// Never returns.
    async fn keep_hot(&self) {
        static FAILED: LogThrottle = LogThrottle::new();
        let (mut starting, mut resting_until) = (FuturesUnordered::new(), Instant::now());
        loop {
            let missing = self.warm_browsers.settle(self.config.clock.now());
            while starting.len() < missing
                && resting_until <= Instant::now()
                && let Ok(turn) = self.starts.try_acquire()
            {
                starting.push(self.start_hot(turn));
            }
            tokio::select! {
                Some(started) = starting.next() => if let Err(failure) = started {
                    FAILED.log(|held_back| tracing::error!(detail = failure.detail, held_back, "cannot start a warm browser"));
                    resting_until = Instant::now() + RETRY_PAUSE;
                },
                () = self.warm_browsers.changed() => {}
                () = sleep(POLL_INTERVAL) => {}
            }
        }
    }

    async fn shut_down(&self) {
        self.stopping.cancel();
        self.tasks.close();
        if timeout(GONE_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::error!("browsers remain after the pool shut down");
        }
        self.directory.remove();
    }
}
