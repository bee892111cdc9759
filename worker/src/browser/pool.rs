//! Hot browsers: hosts that already show a blank page, so that a session opens in milliseconds.
//!
//! They are as the default archetype is, whose device pixel ratio GTK fixes as it starts; everything else about a device is
//! set on a running host. Other ratios start cold.
//!
//! How many there are is the business of `demand.rs`. What was taken is replaced at once, and several start side by side, but
//! in no processor's turn that a customer waits for. A customer who finds none hot takes his turn or the next one that is hot,
//! whichever comes first.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use kitfleet_domain::archetypes::{self, Archetype};
use kitfleet_domain::log_throttle::LogThrottle;
use kitfleet_domain::machine::{DiskSpace, Memory};
use kitfleet_domain::operations::{Failure, FailureClass};
use kitfleet_domain::sessions::BehavioralProfile;
use kitfleet_domain::workers::Driver;
use kitfleet_egress::{EgressRoute, Rules};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::bounds::Watchdog;
use super::confinement::{Confinement, located};
use super::directories::WorkerDirectory;
use super::host::{Host, HostLaunch, driver_failure};
use super::processes::Spawner;
use super::shelf::{CountedBrowser, WarmShelf};
use super::simulated::Simulated;
use super::user_ids::UserIds;
use super::webkit::Webkit;
use super::{Browser, Engine, StartError, user_ids};
use crate::config::{Bounds, WorkerConfig};

/// How often hot browsers are looked after: one may have died, be forgotten by those who wanted it, or be in memory's way.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// How long none is started after one that did not start.
const REST: Duration = Duration::from_secs(1);

/// How long everything that was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Opens browsers.
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
    /// Starts what the configured driver needs, and the hot browsers.
    ///
    /// # Errors
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

    /// What browsers' ways out may lead to.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Opens a browser that is this device, and leaves this way. How long that may take is the caller's business.
    ///
    /// # Errors
    /// When the worker has none, or it does not open.
    pub async fn open(
        &self,
        archetype: &'static Archetype,
        profile: BehavioralProfile,
        way: &Arc<EgressRoute>,
    ) -> Result<Browser, Failure> {
        let engine = match &self.kind {
            Kind::Webkit(slots) => {
                let (browser, place) = slots.hosts.open(archetype, profile, way).await?;
                Engine::Webkit(Box::new(browser), place)
            }
            Kind::Simulated => Engine::Simulated(Simulated::new(archetype, Arc::clone(way))),
            Kind::None => {
                let detail = "This worker has no browsers.".to_owned();
                return Err(Failure { class: FailureClass::NotIntegrated, detail });
            }
        };
        Ok(Browser(engine))
    }

    /// Keeps none hot any more. Whoever has still to be served is.
    pub fn wind_down(&self) {
        if let Kind::Webkit(slots) = &self.kind {
            slots.hosts.shelf.close();
        }
    }

    /// Keeps browsers hot again, after [`Pool::wind_down`].
    pub fn resume(&self) {
        if let Kind::Webkit(slots) = &self.kind {
            slots.hosts.shelf.reopen();
        }
    }

    /// Whether every browser is confined to its own folder and its own way out.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        match &self.kind {
            Kind::Webkit(slots) => slots.hosts.confinement.is_whole(),
            Kind::Simulated | Kind::None => true,
        }
    }

    /// Why the machine has no room for more browsers: its disk or its memory is nearly full. Simulated browsers take
    /// neither and save nothing, so that they are served on a full machine as well (contract: workers 17).
    #[must_use]
    pub fn lacks(&self, bounds: Bounds, disk: Option<DiskSpace>, memory: Option<Memory>) -> Option<&'static str> {
        let Kind::Webkit(_) = &self.kind else { return None };
        if disk.is_some_and(|room| room.is_below(bounds.free_disk)) {
            return Some("disk");
        }
        memory.is_some_and(|memory| memory.is_short()).then_some("memory")
    }

    /// Kills every browser, open or hot, and waits until nothing is left, no socket and no folder.
    pub async fn shut_down(&self) {
        if let Kind::Webkit(slots) = &self.kind {
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
            shelf: Arc::new(WarmShelf::new(config.warm_pool, config.max_sessions)),
            starts: Semaphore::new(thread::available_parallelism().map_or(1, usize::from)),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        // A machine that cannot start a browser says so now, not to its first customer.
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
    shelf: Arc<WarmShelf>,
    /// Starting a host keeps a processor busy: more at once would only be slower.
    starts: Semaphore,
    stopping: CancellationToken,
    /// The keeper of hot browsers, and the burial of every host.
    tasks: TaskTracker,
}

/// What a customer waits for.
enum PooledBrowser<'a> {
    /// A hot browser.
    Hot(Host),
    /// His turn to have one started.
    Turn(SemaphorePermit<'a>),
}

impl Hosts {
    /// A browser, and its place among those that this worker may have, which it keeps until nothing is left of it.
    async fn open(
        &self,
        archetype: &Archetype,
        profile: BehavioralProfile,
        way: &Arc<EgressRoute>,
    ) -> Result<(Webkit, CountedBrowser), Failure> {
        let opening = async {
            let place = self.shelf.place();
            let turn = match self.find(archetype).await? {
                PooledBrowser::Hot(host) => match self.dress(host, archetype, profile, way).await {
                    Ok(browser) => return Ok((browser, place)),
                    Err(failure) => {
                        tracing::warn!(failure.detail, "hot browser failed: starting a cold one");
                        self.turn().await?
                    }
                },
                PooledBrowser::Turn(turn) => turn,
            };
            let host = self.start_host(archetype, turn).await?;
            Ok((self.dress(host, archetype, profile, way).await?, place))
        };
        let opened = self.stopping.run_until_cancelled(opening).await;
        opened.unwrap_or_else(|| Err(driver_failure("The worker is shutting down.")))
    }

    async fn find(&self, archetype: &Archetype) -> Result<PooledBrowser<'_>, Failure> {
        if archetype.device_pixel_ratio != archetypes::launch().device_pixel_ratio {
            return self.turn().await.map(PooledBrowser::Turn);
        }
        self.shelf.note(self.config.clock.now());
        if let Some(host) = self.shelf.take() {
            return Ok(PooledBrowser::Hot(host));
        }
        tokio::select! {
            biased;
            host = self.shelf.take_next() => Ok(PooledBrowser::Hot(host)),
            turn = self.turn() => turn.map(PooledBrowser::Turn),
        }
    }

    async fn dress(
        &self,
        host: Host,
        archetype: &Archetype,
        profile: BehavioralProfile,
        way: &Arc<EgressRoute>,
    ) -> Result<Webkit, Failure> {
        let _dressing = self.shelf.dressing();
        let (limits, confinement) = (self.config.limits.clone(), self.confinement.clone());
        Webkit::open(host, archetype, profile, (way, &self.rules), limits, confinement).await
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, Failure> {
        self.starts.acquire().await.map_err(|error| driver_failure(error.to_string()))
    }

    async fn start_host(&self, archetype: &Archetype, _turn: SemaphorePermit<'_>) -> Result<Host, Failure> {
        let directory = self.directory.browser();
        let directory = directory.map_err(|error| driver_failure(format!("no folder for a browser: {error}")))?;
        let start = HostLaunch {
            program: &self.program,
            archetype,
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
        let start = timeout(self.config.open_timeout, self.start_host(archetypes::launch(), turn));
        let host = start.await.map_err(|_| driver_failure("the browser did not start in time"))??;
        self.shelf.put(host);
        Ok(())
    }

    /// Starts as many hot browsers as there are to be.
    async fn fill(&self) -> Result<(), Failure> {
        let missing = self.shelf.settle(self.config.clock.now());
        let started = (0..missing).map(|_| async { self.start_hot(self.turn().await?).await });
        try_join_all(started).await.map(drop)
    }

    /// Keeps as many of them as there are to be.
    async fn keep_hot(&self) {
        static FAILED: LogThrottle = LogThrottle::new();
        let (mut starting, mut resting_until) = (FuturesUnordered::new(), Instant::now());
        loop {
            let missing = self.shelf.settle(self.config.clock.now());
            while starting.len() < missing
                && resting_until <= Instant::now()
                && let Ok(turn) = self.starts.try_acquire()
            {
                starting.push(self.start_hot(turn));
            }
            tokio::select! {
                Some(started) = starting.next() => if let Err(failure) = started {
                    FAILED.say(|held_back| tracing::error!(failure.detail, held_back, "cannot start a hot browser"));
                    resting_until = Instant::now() + REST;
                },
                () = self.shelf.changed() => {}
                () = sleep(LOOK_AFTER) => {}
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
