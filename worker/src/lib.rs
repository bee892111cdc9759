//! Runs jobs, and owns the browsers of the sessions that are placed on it.
//!
//! A call of [`run`] is one incarnation: its queues carry its ID, and its browsers end with it. It must not outlive its lease:
//! once it is declared lost, other processes have already ended its sessions and jobs.

mod agents;
pub mod browser;
mod clock;
pub mod config;
pub mod crypto_orders;
mod draining;
mod egress_routes;
pub mod emails;
mod file_transfers;
pub mod incarnations;
mod live;
pub mod maintenance;
mod proxies;
mod recorder;
mod sessions;
pub mod webhooks;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::{BoxDynError, Data, WorkerBuilder};
use kitfleet_domain::agents::Sealer;
use kitfleet_domain::database::{begin, persist};
use kitfleet_domain::encryption_key::{KeyStatus, KeyWatch};
use kitfleet_domain::file_access::AccessTickets;
use kitfleet_domain::machine::{DiskSpace, Memory, processor_load};
use kitfleet_domain::metrics::{Gauge, MetricDeclaration};
use kitfleet_domain::sealing::Opener;
use kitfleet_domain::workers::{self, Driver, Lease, NewWorker, Resources};
use kitfleet_jobs::QUEUES;
use kitfleet_jobs::agents::TurnJob;
use kitfleet_jobs::backend::{QueueBackend, async_commit_pool};
use kitfleet_jobs::browser::queue_of;
use kitfleet_jobs::emails::EmailJob;
use kitfleet_jobs::maintenance::{self as maintenance_jobs, MaintenanceJob, Scheduled};
use kitfleet_jobs::operations::{OperationBackend, OperationJob};
use kitfleet_jobs::pending_work;
use kitfleet_jobs::proxies::CheckProxy;
use kitfleet_jobs::queues::Queue;
use kitfleet_jobs::replies::Replies;
use kitfleet_jobs::wakeups::Wakeups;
use kitfleet_jobs::webhooks::AttemptJob;
use kitfleet_live::link::Listener;
use kitfleet_models::{ClientError, Models};
use kitfleet_payments::CryptoProcessor;
use kitfleet_profiles::Stores;
use kitfleet_recording::Recordings;
use kitfleet_types::ids::WorkerId;
use kitfleet_types::log_throttle::LogThrottle;
use sqlx::PgPool;
use tokio::sync::OnceCell;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::browser::Pool;
pub use crate::config::WorkerConfig;
use crate::draining::DrainState;
pub use crate::draining::Shutdown;
use crate::emails::Mailer;
use crate::incarnations::Living;
use crate::live::Live;
use crate::sessions::registry::Sessions;

pub const METRICS: &[&dyn MetricDeclaration] = &[
    &SANDBOXED,
    &DISK_FREE,
    &DISK_FLOOR,
    &sessions::registry::WORKER_SESSIONS,
    &sessions::actor::BROWSER_DEATHS,
    &sessions::actor::OPERATION_TIME,
    &recorder::RECORDED_BYTES,
    &recorder::RECORDED_PICTURES,
    &recorder::RECORDING_LOSSES,
    &browser::BROWSERS_HOT,
    &browser::BROWSER_MEMORY,
    &webhooks::ATTEMPTS,
    &webhooks::ATTEMPT_TIME,
    &maintenance::ENTRUSTED_PURGES,
    &maintenance::ROW_PURGES,
];

const SANDBOXED: Gauge =
    Gauge::new("service_worker_sandboxed", "1 when this worker's browsers are confined, 0 when they are not.", []);

const DISK_FREE: Gauge =
    Gauge::new("service_worker_disk_free_bytes", "Free bytes on the disk of this worker's browsers.", []);

const DISK_FLOOR: Gauge = Gauge::new(
    "service_worker_disk_floor_bytes",
    "Free bytes below which this worker takes no sessions and ends the session that wrote most.",
    [],
);

const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Pause between a failed heartbeat and the next one.
const MISSED: Duration = Duration::from_millis(500);

/// One read of the ended sessions serves a burst of wake-ups.
const BATCH_DELAY: Duration = Duration::from_millis(5);

const RETIRE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The lease expired. The worker can be started again at once.
    #[error("this worker was marked as lost: its heartbeat came too late")]
    Lost,
    #[error(transparent)]
    Browser(#[from] browser::StartError),
    #[error("the data directory cannot be used: {0}")]
    DataDirectory(#[from] io::Error),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error("cannot listen for wake-ups at the database (database.listen_url, or database.url if it is not set): {0}")]
    Deaf(sqlx::Error),
    #[error("cannot listen for viewers (worker.live_listen): {0}")]
    LiveListener(io::Error),
    #[error("cannot build the HTTP client for models and payment providers: {0}")]
    Models(#[from] ClientError),
    #[error("the worker of a job queue ended: {0}")]
    Queue(String),
}

pub(crate) struct Context {
    pub(crate) id: WorkerId,
    pub(crate) config: WorkerConfig,
    pub(crate) db: PgPool,
    /// Commits on these connections do not wait for the disk.
    pub(crate) async_commit_pool: PgPool,
    pub(crate) wakeups: Wakeups,
    pub(crate) replies: Replies,
    /// Fetched for the first turn.
    pub(crate) sealer: OnceCell<Sealer>,
    /// For accounts which pay for them or consent.
    pub(crate) models: Models,
    pub(crate) crypto: CryptoProcessor,
    pub(crate) browsers: Pool,
    pub(crate) opener: Opener,
    pub(crate) stores: Stores,
    pub(crate) recordings: Recordings,
    pub(crate) sessions: Sessions,
    pub(crate) live: Live,
    /// Fetched for the first transfer.
    pub(crate) file_tickets: OnceCell<AccessTickets>,
    pub(crate) mailer: Mailer,
    /// Cancelled when the worker must not start new work.
    pub(crate) stopping: CancellationToken,
}

/// A draining worker accepts no sessions. It serves the live ones for at most the configured time and then ends them, so that
/// no process, socket or busy slot remains.
///
/// # Errors
///
/// When the worker cannot start, or was declared lost. Its browsers have ended in both cases.
pub async fn run(config: WorkerConfig, db: PgPool, wakeups: Wakeups, shutdown: Shutdown) -> Result<(), RunError> {
    incarnations::remove_dead(&config.data_dir, &mut *db.acquire().await?).await?;
    let browsers = Pool::start(&config).await?;
    SANDBOXED.series().set(u8::from(browsers.is_confined()));
    sessions::registry::note_count(0);
    let ended = run_with(config, db, wakeups, browsers.clone(), shutdown).await;
    browsers.shut_down().await;
    ended
}

async fn clean_outbox(context: Arc<Context>) {
    context.mailer.remove_older(context.config.outbox_retention).await;
}

/// `None` for a worker without browsers.
async fn bind_live(config: &WorkerConfig) -> Result<Option<Listener>, RunError> {
    match config.driver {
        Driver::None => Ok(None),
        Driver::Webkit | Driver::Simulated => {
            live::bind(config.live_listen).await.map(Some).map_err(RunError::LiveListener)
        }
    }
}

async fn run_with(
    config: WorkerConfig,
    db: PgPool,
    wakeups: Wakeups,
    browsers: Pool,
    shutdown: Shutdown,
) -> Result<(), RunError> {
    let (id, opener) = (WorkerId::generate(), Opener::generate());
    let _living = Living::begin(&config.data_dir, id)?;
    let browser_queue = queue_of(id);
    let mut woken: Vec<_> =
        QUEUES.into_iter().filter(|queue| queue.is_woken()).map(|queue| queue.name_at(id)).collect();
    woken.push(browser_queue.clone());
    let woken: Vec<_> = woken.iter().map(String::as_str).collect();
    let (_listening, mut receivers) = wakeups.serve(&woken).await.map_err(RunError::Deaf)?;
    let listener = bind_live(&config).await?;
    let live_end = listener.as_ref().map(Listener::end);
    let new = NewWorker {
        id,
        name: &config.name,
        driver: config.driver,
        max_sessions: i32::try_from(config.max_sessions).unwrap_or(i32::MAX),
        public_key: &opener.public_key(),
        live: live_end.as_ref(),
        version: env!("CARGO_PKG_VERSION"),
        is_sandboxed: (config.driver == Driver::Webkit).then(|| browsers.is_confined()),
    };
    workers::register(&mut *db.acquire().await?, new).await?;
    tracing::info!(worker = %id, name = config.name, driver = %config.driver, max_sessions = config.max_sessions, "worker started");

    let async_commit_pool = async_commit_pool(&db).await?;
    let stores = Stores::new(db.clone(), config.stores.clone()).await?;
    let recordings = Recordings::new(async_commit_pool.clone(), config.recordings.clone()).await?;
    let mailer = Mailer::new(&config.mail, &config.base_url, &config.data_dir, config.status.update_interval);
    let (sessions, stopping) = (Sessions::default(), CancellationToken::new());
    let (replies, sealer) = (Replies::new(db.clone(), wakeups.clone()), OnceCell::new());
    let models = Models::new(config.models.clone())?;
    let crypto = CryptoProcessor::new(config.crypto.clone())?;
    let _hearing = AbortOnDropHandle::new(tokio::spawn(replies.clone().listen()));
    let _rereading = AbortOnDropHandle::new(tokio::spawn(replies.clone().poll_overdue()));
    let context = Arc::new(Context {
        id,
        config,
        db,
        async_commit_pool,
        wakeups,
        replies,
        sealer,
        models,
        crypto,
        browsers,
        opener,
        stores,
        recordings,
        sessions,
        live: Live::default(),
        file_tickets: OnceCell::new(),
        mailer,
        stopping,
    });
    let _receiving =
        listener.map(|listener| AbortOnDropHandle::new(tokio::spawn(live::receive(listener, Arc::clone(&context)))));
    let _tidying = AbortOnDropHandle::new(tokio::spawn(clean_outbox(Arc::clone(&context))));
    let ((ticking, ticks), (late, lateness), (due, deliveries_due)) = (channel(1), channel(1), channel(1));
    receivers.insert(MaintenanceJob::QUEUE.name.to_owned(), ticks);
    let mut queues = JoinSet::new();
    let mut queue = |name: &str| {
        let receiver = receivers.remove(name).unwrap_or_else(|| unreachable!("listened for above"));
        (receiver, Arc::clone(&context))
    };
    let (ended, closing) = queue(&browser_queue);
    let _closing = AbortOnDropHandle::new(tokio::spawn(close_on_wakeup(closing, ended)));
    let timing = Arc::clone(&context);
    let _timing = AbortOnDropHandle::new(tokio::spawn(async move { schedule_ticks(&timing, ticking, lateness).await }));
    let operations = OperationJob::QUEUE.name_at(id);
    let operating = queue(&operations);
    queues.spawn(operate(operations, operating));
    queues.spawn(webhooks::deliver(queue(AttemptJob::QUEUE.name), deliveries_due));
    for (served, serve) in SERVED {
        let name = served.name_at(id);
        let inputs = queue(&name);
        queues.spawn_blocking(move || serve(&name, inputs));
    }
    let polled = QUEUES.into_iter().filter(|queue| queue.is_in_apalis() && queue.is_woken());
    let rounds = LeasePoll { served: polled.map(|queue| queue.name_at(id)).collect(), late, due };

    let ended = tokio::select! {
        () = shutdown.drain.cancelled() => Ok(()),
        lost = keep_lease(&context, &rounds) => Err(lost),
        Some(ended) = queues.join_next() => Err(RunError::Queue(format!("{ended:?}"))),
    };
    let ended = match ended {
        Ok(()) => tokio::select! {
            () = drain_and_close(&context, &shutdown.now) => Ok(()),
            // The worker stays registered as alive until the last profile is saved.
            lost = keep_lease(&context, &rounds) => Err(lost),
        },
        ended => ended,
    };
    match ended {
        Ok(()) => retire(&context).await,
        Err(_) => close(&context).await,
    }
    while queues.join_next().await.is_some() {}
    tracing::info!(worker = %id, "worker stopped");
    ended
}

type Serve = fn(&str, QueueInputs) -> Result<(), String>;

const SERVED: [(Queue, Serve); 4] = [
    (TurnJob::QUEUE, |name, inputs| serve(name, inputs, agents::handle)),
    (CheckProxy::QUEUE, |name, inputs| serve(name, inputs, proxies::handle)),
    (EmailJob::QUEUE, |name, inputs| serve(name, inputs, emails::handle)),
    (MaintenanceJob::QUEUE, |name, inputs| serve(name, inputs, maintenance::handle)),
];

/// On its own thread: the future of an apalis worker is not `Send`, so it cannot be a Tokio task.
fn serve<J, F, Fut>(queue: &str, (wakeups, context): QueueInputs, handler: F) -> Result<(), String>
where
    J: kitfleet_jobs::Job + Unpin,
    F: Fn(J, Arc<Context>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxDynError>> + Send + 'static,
{
    let name = name_of(queue, context.id);
    let backend = QueueBackend::<J>::new(context.async_commit_pool.clone(), queue, wakeups);
    let run = move |job: J, context: Data<Arc<Context>>| {
        // Each job runs in its own task, because apalis polls all handlers of a queue in one task.
        let running = tokio::spawn(handler(job, Arc::clone(&context)));
        async move { running.await? }
    };
    let stopped = stopped(&context);
    let worker = WorkerBuilder::new(name).backend(backend).data(context).build(run);
    tokio::runtime::Handle::current().block_on(worker.run_until(stopped)).map_err(|error| error.to_string())
}

/// Claims on jobs carry this name. It includes the incarnation, so that a restarted worker does not take over earlier claims.
fn name_of(queue: &str, incarnation: WorkerId) -> String {
    let incarnation = incarnation.to_string();
    if queue.ends_with(&incarnation) { queue.to_owned() } else { format!("{queue}:{incarnation}") }
}

fn stopped(context: &Context) -> impl Future<Output = io::Result<()>> + Send + use<> {
    let stopping = context.stopping.clone();
    async move {
        stopping.cancelled().await;
        Ok(())
    }
}

type QueueInputs = (Receiver<()>, Arc<Context>);

/// A task without a thread of its own, unlike the queues in apalis's tables: each operation would cost thread switches.
async fn operate(queue: String, (wakeups, context): QueueInputs) -> Result<(), String> {
    let backend = OperationBackend::new(context.id, &context.async_commit_pool, wakeups);
    let stopped = stopped(&context);
    // Each job runs in its own task, because apalis polls all handlers of a queue in one task.
    let run = move |job: OperationJob| tokio::spawn(sessions::carry_out(job, Arc::clone(&context)));
    WorkerBuilder::new(queue).backend(backend).build(run).run_until(stopped).await.map_err(|error| error.to_string())
}

/// After each wake-up. If it is lost, the renewal of the lease closes them.
async fn close_on_wakeup(context: Arc<Context>, mut ended: Receiver<()>) {
    let failed = LogThrottle::new();
    while ended.recv().await.is_some() {
        if let Err(error) = context.sessions.close_ended(&context).await {
            failed.log(|held_back| tracing::warn!(%error, held_back, "cannot look up ended sessions: their browsers close after the next heartbeat"));
        }
        tokio::time::sleep(BATCH_DELAY).await;
    }
}

/// Only one worker does this: the first one that schedules a job which is not scheduled yet. The others wait until a tick is
/// late.
async fn schedule_ticks(context: &Context, ticking: Sender<()>, mut late: Receiver<()>) {
    let failed = LogThrottle::new();
    let attempt = || async { maintenance_jobs::schedule(&mut *context.async_commit_pool.acquire().await?).await };
    loop {
        match attempt().await {
            Ok(Scheduled { anew: true, next }) => {
                // A full channel already holds a wake-up, and a closed one means that the worker stops.
                let _ = ticking.try_send(());
                tokio::time::sleep(next).await;
            }
            Ok(Scheduled { anew: false, .. }) => {
                if late.recv().await.is_none() {
                    return;
                }
                let _ = ticking.try_send(());
            }
            Err(error) => {
                failed.log(|held_back| tracing::warn!(%error, held_back, "cannot queue the scheduled jobs"));
                tokio::time::sleep(MISSED).await;
            }
        }
    }
}

/// Woken at each renewal of the lease, in case a wake-up was lost.
struct LeasePoll {
    served: Vec<String>,
    /// Wakes [`schedule_ticks`].
    late: Sender<()>,
    due: Sender<()>,
}

impl LeasePoll {
    async fn make(&self, context: &Context) -> sqlx::Result<()> {
        let waiting =
            pending_work::find(&mut *context.async_commit_pool.acquire().await?, context.id, &self.served).await?;
        waiting.wake(&context.wakeups, context.id);
        // The channels have a capacity of 1: a pending wake-up covers all later ones.
        if waiting.late_ticks {
            let _ = self.late.try_send(());
        }
        if waiting.deliveries {
            let _ = self.due.try_send(());
        }
        Ok(())
    }
}

async fn keep_lease(context: &Context, rounds: &LeasePoll) -> RunError {
    let (failed, mut drained, mut lacked) = (LogThrottle::new(), DrainState::default(), None);
    let key = KeyWatch::default();
    loop {
        let mut pause = workers::HEARTBEAT;
        let (disk, memory) = measure(&context.config).await;
        let room = context.browsers.missing_resource(context.config.bounds, disk, memory);
        let status = key.refresh(&context.async_commit_pool, context.config.webhooks.vault.as_ref()).await;
        let missing_resource =
            if status.is_none_or(KeyStatus::is_usable) { room } else { Some("the deployment's encryption key") };
        match (lacked, missing_resource) {
            (None, Some(what)) => {
                tracing::error!(
                    resource = what,
                    "resource missing: this worker receives no sessions until it is available"
                );
            }
            (Some(what), None) => {
                tracing::info!(resource = what, "resource available again: this worker receives sessions");
            }
            _ => {}
        }
        lacked = missing_resource;
        let bytes = |bytes: u64| i64::try_from(bytes).ok();
        let resources = Resources {
            has_room: missing_resource.is_none(),
            free_disk_bytes: disk.and_then(|room| bytes(room.left)),
            free_memory_bytes: memory.and_then(|memory| bytes(memory.left)),
            hot_browsers: context.browsers.hot().and_then(|hot| i32::try_from(hot).ok()),
            processor_load: processor_load(),
        };
        match heartbeat(context, rounds, &mut drained, resources).await {
            Ok(Some(_)) => {}
            Ok(None) => return RunError::Lost,
            // No process can declare this worker lost while the database is unreachable, but it can as soon as the database
            // returns.
            Err(error) => {
                failed.log(|held_back| tracing::warn!(%error, held_back, "cannot write the worker's heartbeat"));
                pause = MISSED;
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// Also sets the disk metrics.
async fn measure(config: &WorkerConfig) -> (Option<DiskSpace>, Option<Memory>) {
    let folder = config.data_dir.clone();
    let measured = spawn_blocking(move || (DiskSpace::on(&folder).ok(), Memory::now())).await.unwrap_or_default();
    if let Some(room) = measured.0 {
        DISK_FREE.series().set(config::bytes(room.left));
        DISK_FLOOR.series().set(config::bytes(room.floor(config.bounds.free_disk)));
    }
    measured
}

async fn heartbeat(
    context: &Context,
    rounds: &LeasePoll,
    drained: &mut DrainState,
    resources: Resources,
) -> sqlx::Result<Option<Lease>> {
    let lease = workers::heartbeat(&mut *context.async_commit_pool.acquire().await?, context.id, resources).await?;
    if let Some(lease) = lease {
        drained.apply_lease(lease, context).await?;
    }
    context.sessions.close_ended(context).await?;
    rounds.make(context).await?;
    Ok(lease)
}

async fn drain_and_close(context: &Context, now: &CancellationToken) {
    draining::drain(context, now).await;
    close(context).await;
}

async fn close(context: &Context) {
    context.stopping.cancel();
    // An actor that still waits for the database to record an outcome is abandoned. Its browser ends with the pool.
    if tokio::time::timeout(CLOSE_LIMIT, context.sessions.close_all()).await.is_err() {
        tracing::error!("some sessions did not close in time: killing their browsers");
    }
    if tokio::time::timeout(CLOSE_LIMIT, context.live.ended()).await.is_err() {
        tracing::error!("some viewers did not leave in time");
    }
}

/// Before that, sessions that wait for a profile being saved here keep waiting.
async fn retire(context: &Context) {
    let stop = || async {
        let mut tx = begin(&context.db).await?;
        workers::stop(&mut tx, context.id).await?;
        kitfleet_jobs::inspect::mark_dead(&mut tx).await?;
        tx.commit().await
    };
    match tokio::time::timeout(RETIRE_LIMIT, persist("record the stop", stop)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::error!(%error, worker = %context.id, "cannot record that the worker stopped: its lease expires");
        }
        Err(_) => {
            tracing::error!(worker = %context.id, "recording that the worker stopped took too long: its lease expires");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_in_apalis_is_served() {
        let names = |queues: &mut dyn Iterator<Item = Queue>| {
            let mut names: Vec<_> = queues.map(|queue| queue.name).collect();
            names.sort_unstable();
            names
        };
        let declared = names(&mut QUEUES.into_iter().filter(|queue| queue.is_in_apalis()));
        assert_eq!(names(&mut SERVED.into_iter().map(|(queue, _)| queue)), declared);
    }
}
