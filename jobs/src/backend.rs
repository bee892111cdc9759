//! An apalis backend on apalis's own tables.
//!
//! The backend of apalis-postgres can lose a wake-up, retries without backoff and ends when a query fails. This one
//! replaces polling, claiming and acknowledging:
//!
//! - A wake-up is consumed before the table is polled, never after. A job that is enqueued during a poll therefore causes
//!   another poll.
//! - Even without wake-ups, each worker checks every 2 s for jobs in its queues ([`crate::pending_work`]), and a timer polls
//!   each queue every 30 s.
//! - A claim is one statement. Claims and acknowledgements commit without waiting for the disk: a job that runs twice
//!   finds that its work is done.
//! - A database error is logged and the statement is retried. The running handler finishes and is acknowledged later.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use apalis_codec::json::JsonCodec;
use apalis_core::backend::finalize::Durable;
use apalis_core::backend::persistence::{Persisted, Persistence, State, TaskEvent, TaskPersistLayer};
use apalis_core::backend::{Backend, BackendConfig, WireFormatBackend};
use apalis_core::task::builder::TaskBuilder;
use apalis_core::worker::context::WorkerContext;
use apalis_postgres::{Config, Error, PgTask, queries};
use kitfleet_domain::database::{persist, pool_options};
use kitfleet_types::log_throttle::LogThrottle;
use kitfleet_types::timestamp::Timestamp;
use serde_json::Value;
use sqlx::{FromRow, PgPool};
use tokio::sync::mpsc::Receiver;
use tokio::time::Sleep;

use crate::{Job, SAFETY};

/// Interval of a job worker's heartbeat in apalis's registry. Only the purge of old entries reads it.
const HEARTBEAT_INTERVAL: Duration = Duration::from_mins(1);
pub(crate) const RETRY: Duration = Duration::from_millis(200);
const BATCH: usize = 32;

#[derive(Debug)]
pub struct QueueBackend<J> {
    persisted: Persisted<Queue>,
    codec: JsonCodec<Vec<u8>>,
    wakeups: Receiver<()>,
    safety: Pin<Box<Sleep>>,
    /// The table may hold jobs that were not claimed yet.
    should_poll: bool,
    /// Since the last poll. A full batch means there may be more.
    handed_out: usize,
    job: PhantomData<fn() -> J>,
}

impl<J: Job> QueueBackend<J> {
    /// See [`async_commit_pool`].
    #[must_use]
    pub fn new(async_commit_pool: PgPool, queue: &str, wakeups: Receiver<()>) -> Self {
        let config = Config::default().queue(queue).batch_size(BATCH).heartbeat_interval(HEARTBEAT_INTERVAL);
        Self {
            persisted: Persisted::new(Queue { db: async_commit_pool, config, claims: Arc::default() }),
            codec: JsonCodec::default(),
            wakeups,
            safety: Box::pin(tokio::time::sleep(SAFETY)),
            should_poll: true,
            handed_out: 0,
            job: PhantomData,
        }
    }

    /// Registers the waker with the wake-ups and the safety timer.
    fn poll_wakeups(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = self.wakeups.poll_recv(cx) {
            self.should_poll = true;
        }
        while self.safety.as_mut().poll(cx).is_ready() {
            self.should_poll = true;
            self.safety.set(tokio::time::sleep(SAFETY));
        }
    }
}

/// Creates a pool for claims and acknowledgements, whose commits do not wait for the disk. A database crash that loses the
/// latest commits is harmless: a job that is claimed twice finds that its work is done.
pub async fn async_commit_pool(db: &PgPool) -> sqlx::Result<PgPool> {
    let options = (*db.connect_options()).clone().options([("synchronous_commit", "off")]);
    pool_options(4).connect_with(options).await
}

/// Creates a pool like `async_commit_pool` for long claim statements, whose planning would take several times as long as their
/// execution. Plans are generic and avoid sequential scans: a plan that is made while the tables are empty must stay good as
/// they grow.
pub(crate) fn generic_plan_pool(async_commit_pool: &PgPool, size: u32) -> PgPool {
    let options = (*async_commit_pool.connect_options())
        .clone()
        .options([("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off")]);
    pool_options(size).connect_lazy_with(options)
}

impl<J: Job> Backend for QueueBackend<J> {
    type Task = PgTask;
    type Error = Error;

    fn poll_ready(&mut self, cx: &mut Context<'_>, worker: &WorkerContext) -> Poll<Result<(), Error>> {
        let interval = self.persisted.config.heartbeat_interval;
        self.persisted.poll_ready(cx, worker, interval)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, worker: &WorkerContext) -> Poll<Option<Result<PgTask, Error>>> {
        loop {
            self.poll_wakeups(cx);
            if matches!(self.persisted.state(), State::Ready) {
                if !self.should_poll {
                    return Poll::Pending;
                }
                self.should_poll = false;
                self.handed_out = 0;
            }
            match self.persisted.poll_next(cx, worker) {
                Poll::Ready(task) => {
                    self.handed_out += 1;
                    self.should_poll |= self.handed_out >= BATCH;
                    return Poll::Ready(task);
                }
                Poll::Pending if matches!(self.persisted.state(), State::Fetch(_)) => return Poll::Pending,
                // The table was empty. Acknowledgements may have queued up; after them, poll again or wait.
                Poll::Pending => match self.poll_ready(cx, worker) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, worker: &WorkerContext) -> Poll<Result<(), Error>> {
        self.persisted.poll_close(cx, worker)
    }
}

impl<J> BackendConfig for QueueBackend<J> {
    type Args = J;
    type Kind = Durable;
    type Id = ulid::Ulid;
    type Config = Config;
    type Layer = TaskPersistLayer<JsonCodec<Value>, Value>;

    fn config(&self) -> &Config {
        &self.persisted.config
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> Self::Layer {
        self.persisted.layer(JsonCodec::<Value>::default(), BATCH).persist_results(true).lock_tasks(false)
    }
}

impl<J> WireFormatBackend for QueueBackend<J> {
    type Codec = JsonCodec<Vec<u8>>;
    type Compact = Vec<u8>;

    fn codec(&self) -> &Self::Codec {
        &self.codec
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    db: PgPool,
    config: Config,
    claims: Arc<Mutex<Claims>>,
}

/// Claims run one at a time.
#[derive(Debug, Default)]
struct Claims {
    handed_out: Option<Timestamp>,
    /// A claim has failed since: its transaction may have committed despite the error.
    uncertain: bool,
}

#[derive(FromRow)]
struct ClaimedJob {
    id: String,
    job: Vec<u8>,
    attempts: i32,
    max_attempts: i32,
    lock_at: Timestamp,
}

impl Queue {
    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This worker's jobs that are newer than any it returned: a failed claim may have taken them.
    async fn give_back(&self, worker: &WorkerContext) -> Result<(), Error> {
        let handed_out = self.claims().handed_out;
        sqlx::query(
            "update apalis.jobs set status = 'Pending', lock_by = null, lock_at = null
             where lock_by = $1 and status = 'Running' and ($2::timestamptz is null or lock_at > $2)",
        )
        .bind(worker.name())
        .bind(handed_out)
        .execute(&self.db)
        .await?;
        self.claims().uncertain = false;
        Ok(())
    }

    /// Acknowledges a batch of jobs without their results, after the database has rejected one of these results. The jobs have
    /// ended, and later acknowledgements wait for them.
    async fn acknowledge_without_words(&self, results: &[&queries::ResultPayload], worker: &WorkerContext) {
        let jobs: Vec<_> = results.iter().map(|result| result.task_id.to_string()).collect();
        let ended = sqlx::query(
            "update apalis.jobs set status = 'Failed', done_at = now(),
                    last_result = '{\"Err\": \"its result cannot be stored\"}'
             where id = any($1) and lock_by = $2",
        );
        if let Err(error) = ended.bind(jobs).bind(worker.name()).execute(&self.db).await {
            tracing::error!(%error, queue = %self.config.queue, "cannot acknowledge jobs: their rows keep the status running");
        }
    }

    async fn claim(&self, worker: &WorkerContext) -> Result<Vec<PgTask>, Error> {
        let uncertain = self.claims().uncertain;
        if uncertain {
            self.give_back(worker).await?;
        }
        let claimed: Vec<ClaimedJob> = sqlx::query_as(
            "update apalis.jobs set status = 'Running', lock_by = $1, lock_at = now()
             where id in (
                 select id from apalis.jobs where job_type = $2 and status = 'Pending' and run_at <= now()
                 order by run_at, id limit $3 for update skip locked
             )
             returning id, job, attempts, max_attempts, lock_at",
        )
        .bind(worker.name())
        .bind(self.config.queue.as_ref())
        .bind(i64::try_from(BATCH).unwrap_or(i64::MAX))
        .fetch_all(&self.db)
        .await?;
        if let Some(latest) = claimed.iter().map(|claimed| claimed.lock_at).max() {
            self.claims().handed_out = Some(latest);
        }
        let tasks = claimed.into_iter().filter_map(|claimed| {
            let id = claimed.id.parse().ok()?;
            let attempts = usize::try_from(claimed.attempts).ok()?;
            let max_attempts = usize::try_from(claimed.max_attempts).ok()?;
            Some(TaskBuilder::new(claimed.job).task_id(id).attempt(attempts).max_attempts(max_attempts).build())
        });
        Ok(tasks.collect())
    }
}

impl Persistence for Queue {
    type Compact = Vec<u8>;
    type Response = Value;
    type Error = Error;

    async fn register(&mut self, worker: &WorkerContext) -> Result<(), Error> {
        sqlx::query(
            "insert into apalis.workers (id, worker_type, storage_name, layers, last_seen)
             values ($1, $2, 'kitfleet', $3, now()) on conflict (id) do update set last_seen = now()",
        )
        .bind(worker.name())
        .bind(self.config.queue.as_ref())
        .bind(worker.get_service())
        .execute(&self.db)
        .await?;
        Ok(())
    }

    async fn heartbeat(&mut self, worker: &WorkerContext) -> Result<(), Error> {
        let mut conn = match self.db.acquire().await {
            Ok(conn) => conn,
            Err(error) => {
                tracing::warn!(%error, queue = %self.config.queue, "cannot write the job worker's heartbeat");
                return Ok(());
            }
        };
        if let Err(error) = queries::keep_alive(&mut *conn, self.config.queue.as_ref(), worker).await {
            tracing::warn!(%error, queue = %self.config.queue, "cannot write the job worker's heartbeat");
        }
        Ok(())
    }

    async fn fetch_next(&mut self, worker: &WorkerContext) -> Result<Vec<PgTask>, Error> {
        match self.claim(worker).await {
            Ok(tasks) => Ok(tasks),
            Err(error) => {
                static FAILED: LogThrottle = LogThrottle::new();
                let queue = &self.config.queue;
                FAILED.log(|held_back| tracing::warn!(%error, held_back, %queue, "cannot claim jobs"));
                self.claims().uncertain = true;
                tokio::time::sleep(RETRY).await;
                Ok(Vec::new())
            }
        }
    }

    async fn handle_events(&mut self, events: Vec<TaskEvent<Value>>, worker: &WorkerContext) -> Result<(), Error> {
        let results: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                TaskEvent::Complete(result) => Some(result),
                _ => None,
            })
            .collect();
        if let Err(error) = persist("acknowledge jobs", || acknowledge(&self.db, &results, worker)).await {
            tracing::error!(%error, queue = %self.config.queue, "database rejects the results of jobs");
            self.acknowledge_without_words(&results, worker).await;
        }
        Ok(())
    }

    async fn reenqueue_abandoned(&mut self, tasks: Vec<PgTask>, worker: &WorkerContext) -> Result<u64, Error> {
        let ids: Vec<_> = tasks.iter().filter_map(|task| task.task_id().map(ToString::to_string)).collect();
        let mut conn = self.db.acquire().await?;
        queries::reenqueue_abandoned(&mut *conn, self.config.queue.as_ref(), worker.name(), &ids).await
    }

    async fn push_tasks(&mut self, tasks: Vec<PgTask>) -> Result<(), Error> {
        let mut conn = self.db.acquire().await?;
        queries::push_tasks(&mut *conn, self.config.queue.as_ref(), tasks).await
    }
}

async fn acknowledge(db: &PgPool, results: &[&queries::ResultPayload], worker: &WorkerContext) -> sqlx::Result<()> {
    if results.is_empty() {
        return Ok(());
    }
    let mut conn = db.acquire().await?;
    match queries::handle_results(&mut *conn, results, worker.name()).await {
        Ok(_) => Ok(()),
        Err(Error::Database(error)) => Err(error),
        Err(error) => Err(sqlx::Error::Encode(error.into())),
    }
}
