//! `kitfleet doctor`: checks the requirements of Kitfleet, and prints a remedy for each problem.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use kitfleet_domain::billing;
use kitfleet_domain::database::{MigrationFault, MigrationFaultKind, SchemaState};
use kitfleet_domain::encryption_key::{self, KeyStatus};
use kitfleet_domain::machine::DiskSpace;
use kitfleet_domain::workers::{self, Driver, WorkerStatus};
use kitfleet_worker::WorkerConfig;
use kitfleet_worker::browser::{Pool, StartError};
use kitfleet_worker::config::WarmPool;
use kitfleet_worker::emails::MailTransport;
use serde::Serialize;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::config::{Config, RedisUrl, memory_bytes};
use crate::database::{self, Database};
use crate::embedded::{Folder, Installation, Lock};
use crate::output::Format;
use crate::session_capacity::Sessions;
use crate::{descriptors, owner, roles};

/// The oldest PostgreSQL with every feature that the schema uses.
const OLDEST_POSTGRES: i32 = 14;
/// Seconds. Leases and sweeps use the database's clock, but log times use the machine's.
const CLOCKS_MAY_DIFFER: f64 = 5.0;
const LISTENED_WITHIN: Duration = Duration::from_secs(5);
const MAIL_SERVER_ANSWERS_WITHIN: Duration = Duration::from_secs(5);
const OBJECT_STORE_ANSWERS_WITHIN: Duration = Duration::from_secs(10);

const ALLOW_CONFINEMENT: &str = "apt-get install bubblewrap xdg-dbus-proxy, and allow user namespaces (kernel.unprivileged_userns_clone=1). In a \
     container: packaging/seccomp.json, an unconfined AppArmor profile, and a /proc that is not masked (Docker and podman: \
     --security-opt systempaths=unconfined; Kubernetes: procMount: Unmasked with hostUsers: false)";

const REDIS_ANSWERS_WITHIN: Duration = Duration::from_millis(25);

#[derive(Debug, Serialize)]
struct Check {
    subject: &'static str,
    status: Status,
    finding: String,
    mend: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

impl Check {
    fn ok(subject: &'static str, finding: impl Into<String>) -> Self {
        Self { subject, status: Status::Ok, finding: finding.into(), mend: None }
    }

    fn warn(subject: &'static str, finding: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { subject, status: Status::Warn, finding: finding.into(), mend: Some(mend.into()) }
    }

    fn fail(subject: &'static str, finding: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { subject, status: Status::Fail, finding: finding.into(), mend: Some(mend.into()) }
    }

    fn line(&self) -> String {
        let status = match self.status {
            Status::Ok => "ok  ",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        };
        let mend = self.mend.as_ref().map(|mend| format!("\n      {mend}")).unwrap_or_default();
        format!("{status}  {}: {}{mend}\n", self.subject, self.finding)
    }
}

/// Fails when a check fails.
pub async fn examine(config: &Config, format: Format) -> Result<()> {
    let worker = roles::worker(config, &config.server.base_url_at(config.server.listen))?;
    let mut checks = vec![postgres_programs(config)];
    checks.extend(database(config).await);
    checks.push(redis(config).await);
    checks.push(profiles(config).await);
    checks.push(port(config).await);
    checks.push(disk(&config.data_dir, config.worker.free_disk_bytes));
    checks.push(memory(config));
    checks.push(files(config));
    checks.extend(browsers(&worker).await);
    checks.push(mails(&worker).await);
    checks.push(owner_key(&config.data_dir));
    checks.push(secrets(config));
    checks.push(metrics_token(config));
    checks.push(payments(config));
    format.print(&checks, |checks| checks.iter().map(Check::line).collect())?;
    let failed = checks.iter().filter(|check| check.status == Status::Fail).count();
    if failed > 0 {
        bail!("{failed} of {} checks failed", checks.len());
    }
    Ok(())
}

fn postgres_programs(config: &Config) -> Check {
    let subject = "PostgreSQL programs";
    if config.database.url.is_some() {
        return Check::ok(subject, "not needed: database.url is set");
    }
    match Installation::all().first() {
        Some(newest) => Check::ok(subject, format!("version {} in {}", newest.major, newest.programs.display())),
        None => Check::fail(subject, "not installed", "apt-get install postgresql, or set database.url"),
    }
}

async fn database(config: &Config) -> Vec<Check> {
    if config.database.url.is_none() && !Folder::is_in(&config.data_dir) {
        return vec![Check::ok("database", "none yet: the first `kitfleet up` creates it")];
    }
    let database = match Database::to_migrate(config).await {
        Ok(database) => database,
        Err(error) => return vec![Check::fail("database", format!("{error:#}"), "start it, or correct database.url")],
    };
    let mut checks = match database.connect().await {
        Ok(mut conn) => {
            let checks = inside(&mut conn, config).await;
            // The result is known, so an error of the close does not matter.
            let _ = conn.close().await;
            checks.unwrap_or_else(|error| {
                vec![Check::fail("database", error.to_string(), "repair it, or correct database.url")]
            })
        }
        Err(error) => vec![Check::fail("database", format!("{error:#}"), "start it, or correct database.url")],
    };
    if config.database.listen_url.is_some() {
        checks.push(check_listen_url(&database).await);
    }
    database.close().await;
    checks
}

/// `database.listen_url` bypasses a pooler. Without it no worker starts.
async fn check_listen_url(database: &Database) -> Check {
    let (subject, mend) =
        ("database to listen to", "start it, or correct database.listen_url: workers do not start without it");
    let listen = async {
        let mut conn = PgConnection::connect_with(&database.direct_options()).await?;
        conn.execute("listen kitfleet_doctor").await?;
        conn.close().await
    };
    match tokio::time::timeout(LISTENED_WITHIN, listen).await {
        Ok(Ok(())) => Check::ok(subject, "answers and accepts LISTEN"),
        Ok(Err(error)) => Check::fail(subject, error.to_string(), mend),
        Err(_) => Check::fail(subject, "does not answer", mend),
    }
}

async fn inside(conn: &mut PgConnection, config: &Config) -> sqlx::Result<Vec<Check>> {
    let version: i32 =
        sqlx::query_scalar("select current_setting('server_version_num')::int / 10000").fetch_one(&mut *conn).await?;
    let mut checks = vec![if version < OLDEST_POSTGRES {
        Check::fail(
            "database",
            format!("PostgreSQL {version}"),
            format!("upgrade to PostgreSQL {OLDEST_POSTGRES} or newer"),
        )
    } else {
        Check::ok("database", format!("PostgreSQL {version} answers"))
    }];
    let slots: i32 = sqlx::query_scalar("select current_setting('max_connections')::int").fetch_one(&mut *conn).await?;
    // A process with all roles has 11 connections besides its pool, and PostgreSQL reserves 3 for superusers.
    if i64::from(slots) < i64::from(config.database.max_connections) + 11 + 3 {
        let mend = "raise max_connections of the server, or lower database.max_connections";
        checks.push(Check::warn("database connections", format!("the server allows only {slots}"), mend));
    }
    let apart = kitfleet_domain::database::clock_skew(&mut *conn).await?.abs();
    checks.push(if apart > CLOCKS_MAY_DIFFER {
        Check::warn(
            "clock",
            format!("differs by {apart:.0} s from the database's clock"),
            "synchronise the clocks of both machines (NTP)",
        )
    } else {
        Check::ok("clock", "agrees with the database's clock")
    });
    let faults = database::migration_faults(&mut *conn).await?;
    if !faults.is_empty() {
        checks.extend(faults.iter().map(faulty_migration));
        return Ok(checks);
    }
    checks.push(match database::schema(&mut *conn).await? {
        SchemaState::Older => {
            checks.push(Check::fail("migrations", "the schema is not up to date", "run `kitfleet migrate`"));
            return Ok(checks);
        }
        SchemaState::Current => Check::ok("migrations", "the schema is up to date"),
        SchemaState::Newer => Check::ok("migrations", "the schema is newer than this program"),
    });
    checks.push(workers_alive(conn).await?);
    checks.push(encryption_key(conn, config).await?);
    checks.push(sealed(conn, config).await?);
    Ok(checks)
}

fn faulty_migration(fault: &MigrationFault) -> Check {
    let MigrationFault { version, description, kind } = fault;
    match kind {
        MigrationFaultKind::Failed => Check::fail(
            "migrations",
            format!("migration {version} ({description}) failed, so that only a part of it may have been applied"),
            format!(
                "undo its part in the database, `delete from _sqlx_migrations where version = {version}` there, then `kitfleet migrate`"
            ),
        ),
        MigrationFaultKind::Changed => Check::fail(
            "migrations",
            format!("migration {version} ({description}) differs from the one that was applied to this database"),
            "run a version of Kitfleet whose migrations are those that were applied, or restore the migration's file in a build of your \
             own, then `kitfleet migrate`",
        ),
    }
}

async fn workers_alive(conn: &mut PgConnection) -> sqlx::Result<Check> {
    let (subject, alive) = ("workers", workers::list(&mut *conn, false).await?.len());
    let mend = "start `kitfleet up` or `kitfleet worker`";
    Ok(match workers::best_status(conn).await? {
        None => Check::warn(subject, "none is alive: sessions cannot be created", mend),
        Some(WorkerStatus::Ok) => Check::ok(subject, format!("{alive} alive")),
        Some(WorkerStatus::Draining) => Check::warn(
            subject,
            format!("{alive} alive, but those with browsers are draining: sessions cannot be created"),
            mend,
        ),
        Some(WorkerStatus::NoRoom) => {
            let mend = "free space on their disks (worker.free_disk_bytes), or start another worker";
            Check::warn(
                subject,
                format!(
                    "{alive} alive, but the disks of those with browsers are nearly full: sessions cannot be created"
                ),
                mend,
            )
        }
        Some(WorkerStatus::NoDriver) => {
            Check::warn(subject, format!("{alive} alive, but none has browsers: sessions cannot be created"), mend)
        }
    })
}

async fn encryption_key(conn: &mut PgConnection, config: &Config) -> sqlx::Result<Check> {
    let subject = "encryption key";
    let status = encryption_key::check(conn, config.auth().vault.as_ref()).await?;
    Ok(match status {
        KeyStatus::Ok | KeyStatus::None => Check::ok(subject, status.description()),
        KeyStatus::Retired => Check::warn(
            subject,
            status.description(),
            "configure the key to be used, and run `kitfleet key rotate-sealing`",
        ),
        KeyStatus::Missing | KeyStatus::Wrong => {
            let mend = "configure the key that sealed them, as mfa.encryption_key or in mfa.retired_encryption_keys; when that key is \
                        lost, run `kitfleet key rotate-sealing --replace-probe`";
            Check::fail(subject, status.description(), mend)
        }
    })
}

async fn sealed(conn: &mut PgConnection, config: &Config) -> sqlx::Result<Check> {
    let subject = "sealed secrets";
    let unopenable = encryption_key::count_unopenable(conn, config.auth().vault.as_ref()).await?;
    let count = unopenable.iter().map(|kind| kind.count).sum::<u64>();
    if count == 0 {
        return Ok(Check::ok(subject, "the configured keys open all of them"));
    }
    let kinds: Vec<_> =
        unopenable.iter().map(|kind| format!("{} {}", kind.kind.replace('_', " "), kind.count)).collect();
    let finding = format!("{count} cannot be opened with the configured keys: {}", kinds.join(", "));
    let mend = "configure the key that sealed them, as mfa.encryption_key or in mfa.retired_encryption_keys; then \
                run `kitfleet deliveries requeue` for deliveries that could not be signed";
    Ok(Check::fail(subject, finding, mend))
}

/// A problem is at most a warning: without Redis each process counts rate limits on its own.
async fn redis(config: &Config) -> Check {
    let subject = "Redis";
    let Some(url) = &config.redis.url else {
        return Check::ok(subject, "not needed: each process counts rate limits on its own unless redis.url is set");
    };
    let mend = "start it, allow scripts (EVALSHA, SCRIPT LOAD, TIME, GET, SET) and the channels kitfleet:wakeups:* \
                (PUBLISH, SUBSCRIBE), or correct redis.url; until then each process counts rate limits on its own, and \
                wake-ups use PostgreSQL";
    match redis_latency(url).await {
        Ok(latency) if latency > REDIS_ANSWERS_WITHIN => {
            Check::warn(subject, format!("answers in {latency:.0?}, which is longer than a request waits for it"), mend)
        }
        Ok(latency) => Check::ok(subject, format!("answers in {latency:.1?}")),
        Err(error) => Check::warn(subject, error.to_string(), mend),
    }
}

/// Measures a script call on an open connection, with the script loaded. Also checks that Redis can carry wake-ups.
async fn redis_latency(url: &RedisUrl) -> redis::RedisResult<Duration> {
    const CHANNEL: &str = "kitfleet:wakeups:doctor";
    let patience = Duration::from_secs(2);
    let client = url.client()?;
    let settings = redis::AsyncConnectionConfig::new().set_response_timeout(Some(patience));
    let mut connection = client.get_multiplexed_async_connection_with_config(&settings).await?;
    let subscribed = async { client.get_async_pubsub().await?.subscribe(CHANNEL).await };
    tokio::time::timeout(patience, subscribed).await.map_err(io::Error::from)??;
    let _: i64 = redis::cmd("PUBLISH").arg(&[CHANNEL, ""]).query_async(&mut connection).await?;
    let script = redis::Script::new("return redis.call('TIME')[1]");
    let _: i64 = script.invoke_async(&mut connection).await?;
    let asked = Instant::now();
    let _: i64 = script.invoke_async(&mut connection).await?;
    Ok(asked.elapsed())
}

async fn profiles(config: &Config) -> Check {
    let subject = "profiles' store";
    let objects = match config.profiles.store.objects() {
        Ok(Some(objects)) => objects,
        Ok(None) => return Check::ok(subject, "the database, because profiles.store.url is not set"),
        Err(error) => return Check::fail(subject, error.to_string(), "correct profiles.store.url"),
    };
    let mend = "correct profiles.store.*, or allow this machine to write, read and delete objects there";
    match tokio::time::timeout(OBJECT_STORE_ANSWERS_WITHIN, objects.check()).await {
        Ok(Ok(())) => Check::ok(subject, "an object can be written, read and deleted"),
        Ok(Err(error)) => Check::fail(subject, error.to_string(), mend),
        Err(_) => Check::fail(subject, "the object store does not answer", mend),
    }
}

async fn port(config: &Config) -> Check {
    let (subject, address) = ("port", config.server.listen);
    match TcpListener::bind(address).await {
        Ok(_) => Check::ok(subject, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_up(&config.data_dir) => {
            Check::ok(subject, format!("{address} is in use by `kitfleet up` on this data_dir"))
        }
        Err(error) => Check::warn(
            subject,
            format!("{address}: {error}"),
            "set server.listen, or stop the process that listens there",
        ),
    }
}

/// True when `kitfleet up` runs on this `data_dir`.
fn is_up(data_dir: &Path) -> bool {
    data_dir.join("lock").exists() && Lock::take(data_dir).is_ok_and(|lock| lock.is_none())
}

fn disk(data_dir: &Path, floor: u64) -> Check {
    // A missing folder is created inside its nearest existing ancestor.
    let Some(room) = data_dir.ancestors().find_map(|folder| DiskSpace::on(folder).ok()) else {
        return Check::warn("disk", format!("{} cannot be read", data_dir.display()), "correct data_dir");
    };
    let finding = format!("{} MiB are free on the disk of data_dir", room.left / (1024 * 1024));
    if room.is_below(floor) {
        return Check::fail("disk", finding, "free space: without it nothing is written, and no browser starts");
    }
    Check::ok("disk", finding)
}

fn memory(config: &Config) -> Check {
    let mib = memory_bytes() / (1024 * 1024);
    let sessions = config.worker.max_sessions;
    let finding = format!("{mib} MiB, worker.max_sessions is {sessions}");
    if u64::from(sessions) * 110 > mib {
        return Check::warn("memory", finding, "lower worker.max_sessions: a session takes about 110 MiB");
    }
    Check::ok("memory", finding)
}

fn files(config: &Config) -> Check {
    let (limit, configured) = (descriptors::limit(), config.worker.max_sessions);
    let Sessions { count, connections } = Sessions::fit_to_descriptors(limit, config);
    let finding =
        format!("this process may open {limit}, enough for {count} sessions of {connections} connections each");
    if count < configured {
        let mend = format!("raise the hard limit (`ulimit -Hn`, LimitNOFILE=): worker.max_sessions is {configured}");
        return Check::warn("open files", finding, mend);
    }
    Check::ok("open files", finding)
}

async fn browsers(worker: &WorkerConfig) -> Vec<Check> {
    if worker.driver != Driver::Webkit {
        return vec![Check::ok("browsers", format!("not needed: worker.driver is {}", worker.driver))];
    }
    let mut checks = vec![display().await, fonts()];
    checks.extend(browser(worker.clone()).await);
    checks
}

async fn display() -> Check {
    match succeeds("Xvfb", &["-help"]).await {
        // Some versions do not know `-help`, but print their usage. It is enough that the program starts.
        Ok(_) => Check::ok("Xvfb", "installed"),
        Err(error) => Check::fail("Xvfb", error.to_string(), "apt-get install xvfb"),
    }
}

fn fonts() -> Check {
    let families =
        ["/usr/share/fonts", "/usr/local/share/fonts"].map(Path::new).into_iter().map(count_fonts).sum::<usize>();
    if families == 0 {
        let mend = "apt-get install fonts-liberation fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji";
        return Check::warn("fonts", "not installed: pages show boxes instead of text", mend);
    }
    Check::ok("fonts", format!("{families} files"))
}

fn count_fonts(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |entry: fs::DirEntry| {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return count_fonts(&path);
        }
        let is_font =
            path.extension().is_some_and(|kind| ["ttf", "otf", "ttc", "woff2"].iter().any(|known| kind == *known));
        usize::from(is_font)
    };
    entries.map(count).sum()
}

/// Starts a browser with a blank page, as a worker does.
async fn browser(mut worker: WorkerConfig) -> Vec<Check> {
    let (subject, program) = ("WebKit", worker.host_program.display().to_string());
    worker.warm_pool = WarmPool::Exactly(1);
    let was_there = worker.data_dir.exists();
    let started = Pool::start(&worker).await;
    if let Ok(pool) = &started {
        pool.shut_down().await;
    }
    if !was_there {
        // The check leaves no files behind.
        let _ = fs::remove_dir_all(&worker.data_dir);
    }
    match started {
        Ok(pool) => {
            let shown = Check::ok(subject, format!("{program} starts and shows a page"));
            vec![sandbox(pool.is_confined()), shown]
        }
        Err(StartError::Sandbox(obstacle)) => {
            vec![Check::fail("sandbox", format!("browsers cannot be confined: {obstacle}"), ALLOW_CONFINEMENT)]
        }
        Err(error) => {
            let mend = match &error {
                StartError::Directory(_) => {
                    format!(
                        "allow this user to write to data_dir (here: {}), or set another data_dir",
                        worker.data_dir.display()
                    )
                }
                StartError::Names(_) => "correct /etc/resolv.conf".to_owned(),
                StartError::Threads(_) => "raise the limits for processes and threads".to_owned(),
                StartError::Missing(missing) => {
                    let missing = missing.file_name().unwrap_or_default().display();
                    format!(
                        "a build puts {missing} beside kitfleet; the programs of a browser and its extension must be in the \
                         folder of worker.host_program (here: {program}); packages have the extension in ../lib/kitfleet"
                    )
                }
                StartError::SharedUser => "create a user for Kitfleet only, and run the worker as that user".to_owned(),
                StartError::Sandbox(_) | StartError::Host(_) => format!(
                    "install its dependencies with ops/setup (libwebkit2gtk-4.1-0, xvfb); a build puts kitfleet-host and \
                     kitfleet-keeper beside kitfleet, or set worker.host_program (here: {program})"
                ),
            };
            vec![Check::fail(subject, error.to_string(), mend)]
        }
    }
}

fn sandbox(is_confined: bool) -> Check {
    if is_confined {
        Check::ok("sandbox", "each browser is confined to its own folder and its own egress")
    } else {
        Check::warn("sandbox", "browsers run WITHOUT CONFINEMENT", ALLOW_CONFINEMENT)
    }
}

async fn mails(worker: &WorkerConfig) -> Check {
    let subject = "e-mail";
    match &worker.mail.transport {
        MailTransport::File => Check::ok(subject, "written to files: set email.transport to send mails"),
        MailTransport::Postmark(_) => Check::ok(subject, "sent by Postmark"),
        MailTransport::Smtp(relay) => match tokio::time::timeout(MAIL_SERVER_ANSWERS_WITHIN, relay.check()).await {
            Ok(Ok(())) => Check::ok(subject, "the mail server answers"),
            Ok(Err(error)) => Check::fail(subject, error, "start the mail server, or correct email.smtp_url"),
            Err(_) => Check::fail(
                subject,
                "the mail server does not answer",
                "repair the mail server, or correct email.smtp_url",
            ),
        },
    }
}

/// `Err` when the program cannot be started.
async fn succeeds(program: &str, arguments: &[&str]) -> io::Result<bool> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(Duration::from_secs(5), command.status()).await;
    Ok(ended.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??.success())
}

fn owner_key(data_dir: &Path) -> Check {
    let (subject, file) = ("owner's key", owner::key_file(data_dir));
    match fs::metadata(&file) {
        Err(_) if Folder::is_in(data_dir) => Check::warn(
            subject,
            "not in data_dir",
            "create another with `kitfleet key mint`; `kitfleet up` creates one only once",
        ),
        Err(_) => Check::ok(subject, "not in data_dir: the first `kitfleet up` on an empty database creates one"),
        Ok(_) if owner::read(&file).is_none() => {
            let remove = "remove the file, and create another key with `kitfleet key mint`";
            Check::warn(subject, format!("{} holds no key", file.display()), remove)
        }
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => Check::warn(
            subject,
            format!("other users can read {}", file.display()),
            format!("chmod 600 {}", file.display()),
        ),
        Ok(_) => Check::ok(subject, format!("in {}", file.display())),
    }
}

fn secrets(config: &Config) -> Check {
    match (&config.mfa.encryption_key, config.mfa.retired_encryption_keys.len()) {
        (Some(_), 0) => Check::ok("secrets", "sealed with mfa.encryption_key"),
        (Some(_), retired) => {
            Check::ok("secrets", format!("sealed with mfa.encryption_key; {retired} retired keys are configured"))
        }
        (None, _) => Check::warn(
            "secrets",
            "second factors cannot be enrolled, and the keys of webhook secrets and profiles are stored beside them in the database",
            "set MFA_ENCRYPTION_KEY to the output of `openssl rand -base64 32`, and keep that key",
        ),
    }
}

/// Without the secret of its notices, a customer pays a provider and gets no tier.
fn payments(config: &Config) -> Check {
    let (card, crypto) = (&config.billing.card, &config.billing.crypto);
    let providers = [
        ("billing.card", "secret_key", card.secret_key.is_some(), "webhook_secret", card.webhook_secret.is_some()),
        ("billing.crypto", "api_key", crypto.api_key.is_some(), "ipn_secret", crypto.ipn_secret.is_some()),
    ];
    let half = providers.iter().find(|(_, _, shown, _, signed)| shown != signed);
    if let Some((provider, key, shown, secret, _)) = half {
        let (there, missing) = if *shown { (key, secret) } else { (secret, key) };
        let finding = format!("{provider}.{there} is set, but {provider}.{missing} is not");
        return Check::fail(
            "payments",
            finding,
            "set both: signed notices of the provider give customers the tiers they pay for",
        );
    }
    match providers.iter().filter(|(_, _, shown, ..)| *shown).count() {
        0 => Check::ok("payments", "off: billing.card and billing.crypto have no keys"),
        _ if billing::Prices::from(&config.billing.prices).0.is_empty() => {
            Check::warn("payments", "no tier has a price: customers cannot buy a tier", "set billing.prices")
        }
        _ => Check::ok("payments", "the keys and the notice secrets of the providers are set"),
    }
}

fn metrics_token(config: &Config) -> Check {
    if config.metrics.scrape_token.is_some() {
        Check::ok("metrics", "GET /metrics requires the token")
    } else {
        Check::warn("metrics", "off: GET /metrics answers 503", "set METRICS_SCRAPE_TOKEN to enable them")
    }
}
