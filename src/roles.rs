//! The roles that run until a stop signal: everything, the API, or a worker.
//!
//! The worker stops first: it waits a limited time for live sessions and then fails them. The API serves these sessions
//! meanwhile, so that every waiting caller gets an answer. The database stops last because both need it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kitfleet_api::{ApiConfig, ConnectionLimits, LiveConfig, RateLimits, ServeError};
use kitfleet_domain::database::watched;
use kitfleet_domain::encryption_key::{self, KeyStatus};
use kitfleet_domain::workers;
use kitfleet_jobs::wakeups::Wakeups;
use kitfleet_types::ids::WorkerId;
use kitfleet_worker::config::Bounds;
use kitfleet_worker::incarnations::{self, DataDirLock};
use kitfleet_worker::{RunError, Shutdown, WorkerConfig};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ConfigError, DirectDriver, RedisUrl, Secret};
use crate::database::Database;
use crate::session_capacity::Sessions;
use crate::welcome::{self, SignIn};
use crate::{descriptors, owner};

const WORKER_STARTS_WITHIN: Duration = Duration::from_secs(30);
/// The pause doubles after each failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Time limit for the return of database connections when everything else has ended.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// A worker that lived this long restarts with the shortest pause again.
const STEADY: Duration = Duration::from_mins(1);

/// `greet` receives the welcome text when a worker is ready.
///
/// Returns an error when a part ends on its own. All started parts have been stopped by then.
pub async fn up(config: &Config, stop: &Shutdown, greet: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    warn_about_limits(config);
    let listener = listen(config.server.listen, "server.listen").await?;
    let Some(database) = stop.drain.run_until_cancelled(Database::start(config)).await.transpose()? else {
        return Ok(());
    };
    let database = database.for_role("up");
    let served = run_on(config, listener, &database, stop, greet).await;
    database.close().await;
    served
}

async fn run_on(
    config: &Config,
    listener: TcpListener,
    database: &Database,
    stop: &Shutdown,
    greet: impl FnOnce(&str) -> Result<()>,
) -> Result<()> {
    let _data_dir = DataDirLock::take(&config.data_dir)?;
    database.migrate().await?;
    let owner = owner::welcome(&mut database.connect().await?, &config.data_dir).await?;
    let db = database.pool(config).await?;
    let base_url = config.server.base_url_at(listener.local_addr()?);
    check_encryption_key(config, &db).await?;

    // Before the worker is announced, and before a session is placed on a dead worker.
    incarnations::remove_dead(&config.data_dir, &mut *db.acquire().await?).await?;
    let others = live_workers(&db).await?;

    install_metrics()?;
    let worker_config = worker(config, &base_url)?;
    let stop_api = CancellationToken::new();
    let stop_worker = Shutdown { drain: CancellationToken::new(), now: stop.now.clone() };
    let (api_config, wakeups) = (api(config, &base_url)?, wakeups(config, database, &db)?);
    let served = kitfleet_api::serve(listener, api_config, db.clone(), wakeups.clone(), stop_api.clone());
    let mut api = tokio::spawn(served);
    let mut worker = tokio::spawn(restart_on_failure(worker_config, db.clone(), wakeups, stop_worker.clone()));
    let ended = tokio::select! {
        () = stop.drain.cancelled() => Ok(()),
        ended = &mut api => unexpected_end(ended),
        ended = &mut worker => ended.unwrap_or_else(|panic| Err(panic.into())),
        Err(error) = async {
            wait_for_a_worker(&db, &others).await?;
            let owner = if config.log.owner_key { owner } else { owner.without_key() };
            let link = owner::sign_in_link(&mut *db.acquire().await?, &base_url).await?;
            let sign_in = match link {
                Some(link) if config.log.owner_key => Some(SignIn::Link(link)),
                Some(link) => {
                    let file = owner::link_file(&config.data_dir);
                    owner::keep(&file, &link).with_context(|| format!("cannot save a link in {}", file.display()))?;
                    Some(SignIn::In(file))
                }
                None => None,
            };
            greet(&welcome::text(&base_url, &owner::key_file(&config.data_dir), &owner, sign_in.as_ref()))?;
            std::future::pending::<Result<()>>().await
        } => Err(error),
    };
    tracing::info!("process is stopping: the worker drains first, then the API");
    stop_worker.drain.cancel();
    if api.is_finished() {
        // The API has ended, so that sessions cannot be used any more.
        stop_worker.now.cancel();
    }
    join(worker).await;
    stop_api.cancel();
    join(api).await;
    close(&db).await;
    ended
}

/// Workers in `others` may be dead without being marked as lost.
async fn wait_for_a_worker(db: &PgPool, others: &[WorkerId]) -> Result<()> {
    let deadline = Instant::now() + WORKER_STARTS_WITHIN;
    while live_workers(db).await?.iter().all(|worker| others.contains(worker)) {
        if Instant::now() > deadline {
            tracing::error!("no worker is alive: sessions cannot be created; `kitfleet doctor` reports the cause");
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn live_workers(db: &PgPool) -> sqlx::Result<Vec<WorkerId>> {
    Ok(workers::list(&mut *db.acquire().await?, false).await?.into_iter().map(|worker| worker.id).collect())
}

pub async fn api_only(config: &Config) -> Result<()> {
    let stop = stop_on_signals()?;
    let listener = listen(config.server.listen, "server.listen").await?;
    let database = Database::join(config).await?.for_role("api");
    let base_url = config.server.base_url_at(listener.local_addr()?);
    tracing::info!(base_url, "API process listens for requests");
    let db = database.pool(config).await?;
    check_encryption_key(config, &db).await?;
    let wakeups = wakeups(config, &database, &db)?;
    install_metrics()?;
    let served = kitfleet_api::serve(listener, api(config, &base_url)?, db, wakeups, stop.drain);
    // Operations continue without this process, and their callers can ask another API process.
    stop.now.run_until_cancelled(served).await.transpose()?;
    database.close().await;
    Ok(())
}

pub async fn worker_only(config: &Config) -> Result<()> {
    let stop = stop_on_signals()?;
    warn_about_limits(config);
    let _data_dir = DataDirLock::take(&config.data_dir)?;
    let database = Database::join(config).await?.for_role(&format!("worker {}", config.worker.name));
    let base_url = config.server.base_url_at(config.server.listen);
    let (worker, db) = (worker(config, &base_url)?, database.pool(config).await?);
    check_encryption_key(config, &db).await?;
    let wakeups = wakeups(config, &database, &db)?;
    let stop_health = CancellationToken::new();
    let health = match config.worker.listen {
        Some(address) => {
            install_metrics()?;
            let listener = listen(address, "worker.listen").await?;
            let (config, wakeups) = (api(config, &base_url)?, wakeups.clone());
            let served = kitfleet_api::serve_health(listener, config, db.clone(), wakeups, stop_health.clone());
            Some(tokio::spawn(served))
        }
        None => None,
    };
    let ended = restart_on_failure(worker, db, wakeups, stop).await;
    stop_health.cancel();
    if let Some(health) = health {
        join(health).await;
    }
    database.close().await;
    ended
}

/// The process still starts and serves requests that need no key.
async fn check_encryption_key(config: &Config, db: &PgPool) -> Result<()> {
    let status = encryption_key::register(&mut *db.acquire().await?, config.auth().vault.as_ref()).await?;
    match status {
        KeyStatus::Ok | KeyStatus::Retired | KeyStatus::None => {}
        KeyStatus::Missing | KeyStatus::Wrong => tracing::error!(
            encryption_key = <&str>::from(status),
            "{}: this process cannot read sealed data (second factors, webhook secrets, proxies and others) and is not ready; \
             configure the key that sealed them, see \"Retire a leaked encryption key\" in docs/operating.md",
            status.description(),
        ),
    }
    Ok(())
}

/// Before the API serves, and before a worker starts, which counts its browsers at its start.
fn install_metrics() -> Result<()> {
    kitfleet_api::install_metrics(kitfleet_worker::METRICS).map_err(ServeError::Metrics)?;
    Ok(())
}

/// Restarts the worker when it fails, but returns the error when the first start finds that this machine cannot run
/// browsers.
async fn restart_on_failure(config: WorkerConfig, db: PgPool, wakeups: Wakeups, stop: Shutdown) -> Result<()> {
    let mut pause = PAUSES.0;
    for incarnation in 1_u64.. {
        let started = Instant::now();
        let run = tokio::spawn(kitfleet_worker::run(config.clone(), db.clone(), wakeups.clone(), stop.clone()));
        match run.await {
            Ok(Ok(())) => break,
            Ok(Err(error @ RunError::Browser(_))) if incarnation == 1 => {
                return Err(error).context("this machine cannot run browsers (see `kitfleet doctor`)");
            }
            Ok(Err(error)) => tracing::error!(%error, restart_in = ?pause, "worker failed: restarting it"),
            Err(panic) => tracing::error!(%panic, restart_in = ?pause, "worker panicked: restarting it"),
        }
        if started.elapsed() > STEADY {
            pause = PAUSES.0;
        }
        if stop.drain.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            break;
        }
        pause = (pause * 2).min(PAUSES.1);
    }
    Ok(())
}

/// Drains after the first SIGTERM or Ctrl-C, and ends the remaining sessions after the second (contract: workers 22).
/// Exits at once if that takes too long or after a third signal: the kernel then ends browsers, display and database.
pub fn stop_on_signals() -> Result<Shutdown> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = Shutdown::default();
    let shutdown = stop.clone();
    tokio::spawn(async move {
        let mut signalled = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        signalled().await;
        shutdown.drain.cancel();
        signalled().await;
        tracing::warn!("second stop signal: ending the remaining sessions now");
        shutdown.now.cancel();
        let _ = tokio::time::timeout(ENDS_WITHIN, signalled()).await;
        std::process::exit(130);
    });
    Ok(stop)
}

fn warn_about_limits(config: &Config) {
    let (limit, configured) = (descriptors::limit(), config.worker.max_sessions);
    let fitting = Sessions::fit_to_descriptors(limit, config).count;
    if fitting < configured && configured == Config::default().worker.max_sessions {
        tracing::info!(fitting, limit, "worker.max_sessions is set by the limit of open files");
    } else if fitting < configured {
        tracing::error!(
            configured,
            in_effect = fitting,
            limit,
            "worker.max_sessions is lowered to fit the limit of open files: raise `ulimit -Hn`"
        );
    }
}

async fn listen(address: SocketAddr, key: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} ({key})"))
}

fn unexpected_end(ended: Result<Result<(), ServeError>, tokio::task::JoinError>) -> Result<()> {
    ended.context("the API panicked")?.context("the API ended")
}

async fn close(db: &PgPool) {
    if tokio::time::timeout(CLOSE_WITHIN, db.close()).await.is_err() {
        tracing::warn!("closing database connections that are still in use");
    }
}

/// A panic is logged.
async fn join<T>(task: JoinHandle<T>) {
    if !task.is_finished()
        && let Err(panic) = task.await
    {
        tracing::error!(%panic, "task of a role panicked while the process stopped");
    }
}

fn wakeups(config: &Config, database: &Database, db: &PgPool) -> Result<Wakeups> {
    let listening = watched(database.direct_options());
    Ok(Wakeups::start(db, listening, config.redis.url.as_ref().map(RedisUrl::client).transpose()?)?)
}

fn api(config: &Config, base_url: &str) -> Result<ApiConfig> {
    Ok(ApiConfig {
        base_url: base_url.to_owned(),
        errors_url: config.server.errors_url_at(base_url),
        metrics_token: config.metrics.scrape_token.as_ref().map(Secret::reveal).map(str::to_owned),
        limits: config.limits.clone(),
        destinations: config.sessions.destinations(),
        upstreams: config.upstreams(),
        require_customer_egress: config.sessions.require_customer_egress,
        placement: config.worker.placement,
        detect_challenges: config.sessions.detect_challenges,
        open_timeout: config.sessions.open_timeout,
        drain_timeout: config.worker.drain_timeout,
        direct_driver_real: config.sessions.direct_driver == DirectDriver::Real,
        max_body_bytes: config.server.max_body_bytes,
        header_timeout: config.server.header_timeout,
        body_timeout: config.server.body_timeout,
        write_timeout: config.server.write_timeout,
        connections: ConnectionLimits {
            all: config.server.max_connections,
            per_address: config.server.max_connections_per_address,
        },
        data_dir: config.data_dir.clone(),
        trusted_proxies: config.server.trusted_proxies.clone(),
        cors_origins: config.server.cors_origins.clone(),
        auth: config.auth(),
        invite_ttl: config.teams.invite_ttl,
        rate_limits: RateLimits { send_per_minute: config.auth.send_rate_per_minute, ..config.rate_limits.clone() },
        webhook_secret_grace: config.webhooks.secret_grace,
        agents: config.agents(),
        notifications: config.notifications(),
        status: config.status(),
        live: LiveConfig { ticket_ttl: config.live.ticket_ttl, origins: config.live.origins.clone() },
        prices: (&config.billing.prices).into(),
        card: config.billing.card.config(),
        crypto: config.billing.crypto.config(),
        stores: config.stores()?,
        recordings: config.recordings.limits(),
        record_by_default: config.recordings.default,
        timeline_streams: config.recordings.max_streams,
        staff_may_watch: config.staff.may_watch,
        models: config.models()?,
        redis: config.redis.url.as_ref().map(RedisUrl::client).transpose()?,
    })
}

/// The doctor starts a browser with the same values.
pub fn worker(config: &Config, base_url: &str) -> Result<WorkerConfig, ConfigError> {
    let sessions = Sessions::fit_to_descriptors(descriptors::limit(), config);
    Ok(WorkerConfig {
        base_url: base_url.to_owned(),
        mail: config.email.mail_at(base_url)?,
        driver: config.worker.driver,
        name: config.worker.name.clone(),
        max_sessions: sessions.count,
        live_listen: config.worker.live_listen,
        session_connections: sessions.connections,
        warm_pool: config.worker.warm_pool,
        clock: config.clock.clone(),
        status: config.status(),
        data_dir: config.data_dir.clone(),
        host_program: config.worker.host_program.clone(),
        destinations: config.sessions.destinations(),
        upstreams: config.upstreams(),
        probing: config.probing()?,
        sandbox: config.worker.sandbox,
        bounds: Bounds {
            memory: config.worker.session_memory_bytes,
            disk: config.worker.session_disk_bytes,
            free_disk: config.worker.free_disk_bytes,
        },
        challenge_confidence: config.sessions.challenge_confidence,
        open_timeout: config.sessions.open_timeout,
        drain_timeout: config.worker.drain_timeout,
        session_ages: config.sessions.ages(),
        result_retention: config.retention.operation_results,
        outbox_retention: config.retention.outbox,
        retention: config.retention.terms(),
        profile_retention: config.retention.profiles(),
        webhooks: config.webhooks()?,
        byok_reminder_after: config.agents.byok_reminder_after,
        agents: config.agents(),
        models: config.models()?,
        crypto: config.billing.crypto.config(),
        stores: config.stores()?,
        recordings: config.recordings()?,
        limits: config.limits.clone(),
    })
}
