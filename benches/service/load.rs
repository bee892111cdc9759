//! Scaling: any number of processes of each role on one PostgreSQL with durable commits, and any number of clients at full
//! speed. Reports the cost of an operation per role, and the database's wait events.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use nix::unistd::Pid;
use procfs::{CurrentSI as _, KernelStats};
use serde::Serialize;
use serde_json::Value;
use sqlx::{ConnectOptions as _, PgConnection};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Result;
use crate::postgres::Postgres;
use crate::processes::{self, own, time};
use crate::report::Samples;
use crate::service::{Client, Service};

/// Maximum number of clients per account. Each uses two sessions, and this is as many sessions as an account of the largest
/// tier may have.
const CLIENTS: usize = 16;
/// Duration of the load before the measurement.
const WARM_UP: Duration = Duration::from_secs(2);
/// Interval at which wait events are sampled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Options after the section's name.
#[derive(Parser)]
#[command(name = "load", no_binary_name = true)]
struct Options {
    /// Number of API processes
    #[arg(long, default_value_t = 1)]
    api: usize,
    /// Numbers of worker processes, measured one after another
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32])]
    workers: Vec<usize>,
    /// Numbers of clients, measured one after another; each waits for an answer before its next request
    #[arg(long, value_delimiter = ',', default_values_t = [16, 64])]
    clients: Vec<usize>,
    /// Work of the clients
    #[arg(long, value_enum, default_value_t = Work::Waits)]
    work: Work,
    /// Number of accounts; by default one per client for creates, otherwise one per 16 clients
    #[arg(long)]
    accounts: Option<NonZeroUsize>,
    /// Measuring time in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Additional microseconds per flush of the log, as on a slow disk
    #[arg(long, default_value_t = 0)]
    commit_delay: u64,
    /// URL of a Redis that the processes share
    #[arg(long)]
    redis: Option<String>,
    /// Also report the cost of each statement, which adds overhead in the database
    #[arg(long)]
    statements: bool,
    /// Folder for `load.json` and `load.csv`
    #[arg(long, default_value = "target")]
    into: PathBuf,
}

impl Options {
    /// Number of accounts for this many clients: the requested number, within the limits of clients and sessions.
    fn accounts_of(&self, clients: usize) -> usize {
        let needed = clients.div_ceil(CLIENTS);
        let wanted = match self.work {
            Work::Waits => needed,
            Work::Creates => clients,
        };
        self.accounts.map_or(wanted, NonZeroUsize::get).clamp(needed, clients)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Work {
    /// Operations without work for the browser
    Waits,
    /// Creating and destroying sessions
    Creates,
}

/// Results of one load. Processor times are in milliseconds per operation.
#[derive(Serialize)]
struct LoadResult {
    work: Work,
    api: usize,
    workers: usize,
    clients: usize,
    accounts: usize,
    commit_delay_us: u64,
    redis: bool,
    seconds: f64,
    operations: usize,
    per_second: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    postgres_ms: f64,
    api_ms: f64,
    worker_ms: f64,
    client_ms: f64,
    statements: f64,
    commits: f64,
    flushes: f64,
    wal_bytes: f64,
    /// Average number of busy processors.
    busy: f64,
    /// Wait events of active backends, most frequent first, with their share of all samples.
    waits: String,
}

pub async fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse_from(arguments);
    println!(
        "\n{:>3} {:>3} {:>4} {:>4} {:>8} {:>7} {:>7} {:>7}  {:>6} {:>6} {:>6} {:>6}  {:>5} {:>5} {:>5} {:>6} {:>5}  waits",
        "api",
        "wrk",
        "clts",
        "accs",
        "op/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "pg ms",
        "api ms",
        "wrk ms",
        "clt ms",
        "stmts",
        "comm",
        "flush",
        "WAL B",
        "busy"
    );
    let mut all = Vec::new();
    for workers in &options.workers {
        let tracking = if options.statements {
            "pg_stat_statements.track_planning=on"
        } else {
            "pg_stat_statements.track_planning=off"
        };
        let commit_delay = format!("commit_delay={}", options.commit_delay);
        let settings = [
            "max_connections=2000",
            "shared_buffers=512MB",
            "max_wal_size=4GB",
            &commit_delay,
            "commit_siblings=0",
            tracking,
        ];
        let postgres = Postgres::start(&settings).await?;
        let service = start(&options, &postgres, *workers).await?;
        for clients in &options.clients {
            let results = measure(&options, &postgres, &service, *workers, *clients).await?;
            print(&results);
            if options.statements {
                print_statements(&postgres, results.operations).await?;
            }
            all.push(results);
        }
    }
    fs::create_dir_all(&options.into)?;
    fs::write(options.into.join("load.json"), serde_json::to_string_pretty(&all)?)?;
    let mut csv = csv::Writer::from_path(options.into.join("load.csv"))?;
    for results in &all {
        csv.serialize(results)?;
    }
    csv.flush()?;
    Ok(())
}

async fn start(options: &Options, postgres: &Postgres, workers: usize) -> Result<Service> {
    let counting = "create extension pg_stat_statements";
    sqlx::query(counting).execute(&mut postgres.options().connect().await?).await?;
    let url = postgres.options().to_url_lossy().to_string();
    let mut settings = vec![
        ("DATABASE__URL", url.as_str()),
        ("WORKER__DRIVER", "simulated"),
        ("WORKER__MAX_SESSIONS", "300"),
        ("RATE_LIMITS__CREDENTIAL_PER_MINUTE", "10000000"),
    ];
    if let Some(redis) = &options.redis {
        settings.push(("REDIS__URL", redis));
    }
    Service::of_roles(&settings, options.api, workers).await
}

async fn measure(
    options: &Options,
    postgres: &Postgres,
    service: &Service,
    workers: usize,
    clients: usize,
) -> Result<LoadResult> {
    let load = Arc::new(Load::default());
    let mut running = JoinSet::new();
    let accounts = options.accounts_of(clients);
    let owners = (0..accounts).map(|account| service.client(&format!("load-{workers}-{clients}-{account}")));
    let owners = owners.collect::<Result<Vec<_>>>()?;
    for n in 0..clients {
        let owner = owners[n % accounts].at(&service.base_urls[n % service.base_urls.len()]);
        let caller = Caller::connect(&owner).await?;
        running.spawn(keep_on(caller, options.work, Arc::clone(&load)));
    }
    tokio::time::sleep(WARM_UP).await;
    let mut conn = postgres.options().connect().await?;
    sqlx::query("select pg_stat_statements_reset()").execute(&mut conn).await?;
    let (before, began) = (Counts::now(&mut conn, postgres, service).await?, Instant::now());
    load.counts.store(true, Ordering::Relaxed);
    let waits = look_for(Duration::from_secs(options.seconds), &mut conn).await?;
    load.counts.store(false, Ordering::Relaxed);
    let (after, elapsed) = (Counts::now(&mut conn, postgres, service).await?, began.elapsed().as_secs_f64());
    load.ended.store(true, Ordering::Relaxed);
    while let Some(client) = running.join_next().await {
        client??;
    }
    let samples = load.samples.lock().unwrap_or_else(PoisonError::into_inner);
    let operations = samples.len();
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let count = operations.max(1) as f64;
    let milliseconds = |of: fn(&Counts) -> Duration| of(&after).saturating_sub(of(&before)).as_secs_f64() * 1e3 / count;
    let each = |of: fn(&Counts) -> f64| (of(&after) - of(&before)) / count;
    Ok(LoadResult {
        work: options.work,
        api: options.api,
        workers,
        clients,
        accounts,
        commit_delay_us: options.commit_delay,
        redis: options.redis.is_some(),
        seconds: elapsed,
        operations,
        per_second: count / elapsed,
        p50_ms: samples.quantile(0.5),
        p95_ms: samples.quantile(0.95),
        p99_ms: samples.quantile(0.99),
        postgres_ms: milliseconds(|counts| counts.postgres),
        api_ms: milliseconds(|counts| counts.api),
        worker_ms: milliseconds(|counts| counts.worker),
        client_ms: milliseconds(|counts| counts.client),
        statements: each(|counts| counts.statements),
        commits: each(|counts| counts.commits),
        flushes: each(|counts| counts.flushes),
        wal_bytes: each(|counts| counts.wal_bytes),
        busy: after.machine.saturating_sub(before.machine).as_secs_f64() / elapsed,
        waits,
    })
}

/// Minimal client with its own connection, because it shares the machine with the measured processes.
struct Caller {
    connection: SendRequest<Full<Bytes>>,
    client: Client,
}

impl Caller {
    async fn connect(client: &Client) -> Result<Self> {
        let address = client.base_url.strip_prefix("http://").ok_or("the service speaks plain HTTP")?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { connection: sender, client: client.clone() })
    }

    async fn call(&mut self, method: Method, path: &str, body: &'static str) -> Result<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(AUTHORIZATION, format!("Bearer {}", self.client.key))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))?;
        self.connection.ready().await?;
        let response = self.connection.send_request(request).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        if status.is_success() { Ok(bytes) } else { Err(format!("{path}: {status} {bytes:?}").into()) }
    }

    /// Runs an operation without work for the browser.
    async fn wait(&mut self, path: &str) -> Result<()> {
        self.call(Method::POST, path, r##"{"condition": {"kind": "selector", "selector": "#there"}}"##).await.map(drop)
    }

    async fn create(&mut self) -> Result<String> {
        let session: Value = serde_json::from_slice(&self.call(Method::POST, "/v1/sessions", "{}").await?)?;
        Ok(format!("/v1/sessions/{}", session["id"].as_str().ok_or("a session without an id")?))
    }

    async fn destroy(&mut self, path: &str) -> Result<()> {
        self.call(Method::DELETE, path, "").await.map(drop)
    }
}

/// Works until the load has ended. Records durations while the measurement runs.
async fn keep_on(mut caller: Caller, work: Work, load: Arc<Load>) -> Result<()> {
    let session = caller.create().await?;
    let path = format!("{session}/wait");
    while !load.ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        let destroyed = match work {
            Work::Waits => caller.wait(&path).await.map(|()| None)?,
            Work::Creates => Some(caller.create().await?),
        };
        let elapsed = began.elapsed();
        if let Some(destroyed) = destroyed {
            caller.destroy(&destroyed).await?;
        }
        if load.counts.load(Ordering::Relaxed) {
            load.samples.lock().unwrap_or_else(PoisonError::into_inner).push(elapsed);
        }
    }
    caller.destroy(&session).await
}

#[derive(Default)]
struct Load {
    counts: AtomicBool,
    ended: AtomicBool,
    samples: Mutex<Samples>,
}

/// Samples the wait events of backends for this time.
async fn look_for(long: Duration, conn: &mut PgConnection) -> Result<String> {
    let (mut looks, began) = (BTreeMap::<String, i64>::new(), Instant::now());
    while began.elapsed() < long {
        let waits: Vec<(String, i64)> = sqlx::query_as(
            "select coalesce(wait_event_type || ':' || wait_event, 'processor'), count(*) from pg_stat_activity
             where datname = current_database() and state = 'active' and pid <> pg_backend_pid() group by 1",
        )
        .fetch_all(&mut *conn)
        .await?;
        for (wait, backends) in waits {
            *looks.entry(wait).or_default() += backends;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let all: i64 = looks.values().sum();
    let mut waits: Vec<_> = looks.into_iter().collect();
    waits.sort_by_key(|(_, backends)| -backends);
    let share = |(wait, backends): (String, i64)| format!("{wait} {} %", backends * 100 / all.max(1));
    Ok(waits.into_iter().take(4).map(share).collect::<Vec<_>>().join(", "))
}

/// Counters of the kernel and the database.
struct Counts {
    postgres: Duration,
    api: Duration,
    worker: Duration,
    client: Duration,
    machine: Duration,
    statements: f64,
    commits: f64,
    flushes: f64,
    wal_bytes: f64,
}

impl Counts {
    async fn now(conn: &mut PgConnection, postgres: &Postgres, service: &Service) -> Result<Self> {
        let (statements, commits, flushes, wal_bytes): (f64, f64, f64, f64) = sqlx::query_as(
            "select (select coalesce(sum(calls), 0)::float8 from pg_stat_statements),
                    (select xact_commit::float8 from pg_stat_database where datname = current_database()),
                    wal_sync::float8, wal_bytes::float8 from pg_stat_wal",
        )
        .fetch_one(conn)
        .await?;
        let processes = processes::all()?;
        let of = |pids: &[i32]| -> Duration {
            processes.iter().filter(|process| pids.contains(&process.pid)).map(own).sum()
        };
        // Backends are children of the server process, which has collected the times of those that have ended.
        let server = postgres.pid().as_raw();
        let ended =
            processes.iter().filter(|process| process.pid == server).map(|process| process.cutime + process.cstime);
        let ended = time(ended.sum::<i64>().try_into()?);
        let backends: Duration = processes.iter().filter(|process| process.ppid == server).map(own).sum();
        let all = KernelStats::current()?.total;
        Ok(Self {
            postgres: of(&[server]) + ended + backends,
            api: of(&service.pids_of("api")),
            worker: of(&service.pids_of("worker")),
            client: of(&[Pid::this().as_raw()]),
            // All time except idle and I/O wait.
            machine: time(all.user + all.nice + all.system + all.irq.unwrap_or(0) + all.softirq.unwrap_or(0)),
            statements,
            commits,
            flushes,
            wal_bytes,
        })
    }
}

fn print(results: &LoadResult) {
    let LoadResult { api, workers, clients, accounts, per_second, p50_ms, p95_ms, p99_ms, waits, .. } = results;
    let LoadResult { postgres_ms, api_ms, worker_ms, client_ms, statements, commits, flushes, wal_bytes, busy, .. } =
        results;
    println!(
        "{api:>3} {workers:>3} {clients:>4} {accounts:>4} {per_second:>8.0} {p50_ms:>7.2} {p95_ms:>7.2} {p99_ms:>7.2}  {postgres_ms:>6.2} \
         {api_ms:>6.2} {worker_ms:>6.2} {client_ms:>6.2}  {statements:>5.1} {commits:>5.1} {flushes:>5.2} {wal_bytes:>6.0} \
         {busy:>5.2}  {waits}"
    );
}

/// Prints the cost per operation of the most expensive statements.
async fn print_statements(postgres: &Postgres, operations: usize) -> Result<()> {
    let statements: Vec<(String, i64, f64, f64, f64, f64)> = sqlx::query_as(
        "select regexp_replace(query, '\\s+', ' ', 'g'), calls, total_plan_time, total_exec_time,
                (shared_blks_hit + shared_blks_read)::float8, wal_bytes::float8
         from pg_stat_statements order by total_plan_time + total_exec_time desc limit 12",
    )
    .fetch_all(&mut postgres.options().connect().await?)
    .await?;
    println!("{:>6} {:>8} {:>8} {:>6} {:>7}  an operation", "calls", "plan ms", "exec ms", "pages", "WAL B");
    for (query, calls, plan, exec, pages, wal) in statements {
        #[allow(clippy::cast_precision_loss, reason = "some thousands")]
        let (operations, calls) = (operations.max(1) as f64, calls as f64);
        let each = |total: f64| total / operations;
        let query: String = query.chars().take(100).collect();
        let (calls, plan, exec) = (each(calls), each(plan), each(exec));
        println!("{calls:>6.2} {plan:>8.3} {exec:>8.3} {:>6.1} {:>7.0}  {query}", each(pages), each(wal));
    }
    Ok(())
}
