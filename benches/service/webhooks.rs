//! Delivery rate of a flood, latency under an even load, and the effect of hanging endpoints on other accounts.
//!
//! The receiver is a TLS server in this process.

use std::collections::HashMap;
use std::convert::Infallible;
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use uuid::Uuid;

use crate::Result;
use crate::report::{self, Samples};
use crate::service::Service;

/// Number of connections that write events concurrently in a flood.
const WRITERS: usize = 8;
/// Events per second, and duration in seconds.
const OPEN_LOAD: (u32, u32) = (200, 30);
/// Each has a due event.
const HANGING: usize = 1_000;
/// Of the even load, without and with the hanging endpoints.
const TURNS: usize = 5;
const ATTEMPT: Duration = Duration::from_secs(10);
/// Shorter than the timeout of an attempt.
const SLOW: Duration = Duration::from_secs(9);

pub async fn run() -> Result<()> {
    let (sink, service) = start(("LIMITS__WEBHOOK_ENDPOINTS", "1000")).await?;
    let bench = Bench { db: database(&service).await?, service, sink };

    report::heading("A flood of webhooks, deliveries a second from the first commit to the last receipt");
    for (events, endpoints) in [(5_000, 1), (20_000, 1), (5_000, 50), (20_000, 50)] {
        bench.flood(events, endpoints).await?;
    }
    let (rate, seconds) = OPEN_LOAD;
    report::heading(&format!("An even load of {rate} events a second: from commit to receipt, in milliseconds"));
    let account = bench.account("even", "/even", 1).await?;
    let hanging = bench.account("hanging", "/hang", HANGING).await?;
    write(&bench.db, hanging).await?;
    let (mut alone, mut beside) = (Samples::default(), Samples::default());
    // Alternates, because the machine's speed drifts.
    for _ in 0..TURNS {
        bench.pause(hanging, true).await?;
        alone.extend(bench.even_load(account, rate * seconds).await?);
        bench.pause(hanging, false).await?;
        beside.extend(bench.even_load(account, rate * seconds).await?);
    }
    report::durations("no other load", &alone, None, Some(50.0));
    report::durations(&format!("beside {HANGING} that hang"), &beside, None, Some(50.0));
    let (one, other) = (alone.quantile(0.99), beside.quantile(0.99));
    let moved = (other / one - 1.0) * 100.0;
    report::figure("change of the p99", moved, "%", "< 10 %", moved < 10.0);
    Ok(())
}

struct Bench {
    service: Service,
    db: PgPool,
    sink: Sink,
}

impl Bench {
    async fn account(&self, name: &str, path: &str, endpoints: usize) -> Result<Uuid> {
        let client = self.service.client(name)?;
        for _ in 0..endpoints {
            client.listen(&self.sink.url(path), "session.failed").await?;
        }
        let account = sqlx::query_scalar("select account_id from webhook_endpoints order by id desc limit 1");
        Ok(account.fetch_one(&self.db).await?)
    }

    /// Waits until the change has taken effect.
    async fn pause(&self, account: Uuid, paused: bool) -> Result<()> {
        sqlx::query("update webhook_endpoints set active = not $2 where account_id = $1")
            .bind(account)
            .bind(paused)
            .execute(&self.db)
            .await?;
        tokio::time::sleep(ATTEMPT + Duration::from_secs(2)).await;
        Ok(())
    }

    async fn flood(&self, events: usize, endpoints: usize) -> Result<()> {
        let name = format!("flood-{events}-{endpoints}");
        let mut accounts = Vec::new();
        for account in 0..endpoints {
            accounts.push(self.account(&format!("{name}-{account}"), &format!("/{name}"), 1).await?);
        }
        let accounts = Arc::new(accounts);
        let began = Instant::now();
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (db, accounts) = (self.db.clone(), Arc::clone(&accounts));
            writers.spawn(async move {
                let mut written = Vec::new();
                for event in (writer..events).step_by(WRITERS) {
                    written.push(write(&db, accounts[event % accounts.len()]).await?);
                }
                Result::Ok(written)
            });
        }
        let mut written = Vec::with_capacity(events);
        while let Some(ended) = writers.join_next().await {
            written.extend(ended??);
        }
        let committed = began.elapsed();
        let received = self.sink.until_all(&written).await?;
        let last = received.values().max().ok_or("nothing came")?;
        #[allow(clippy::cast_precision_loss, reason = "some thousands")]
        let rate = |time: Duration| events as f64 / time.as_secs_f64();
        let delivered = rate(*last - began);
        let name = format!("{events} events, {endpoints} endpoint(s)");
        report::figure(&name, delivered, "/s", "≥ 1000", delivered >= 1_000.0);
        report::figure("  committed a second", rate(committed), "/s", "no bound", true);
        Ok(())
    }

    /// At a fixed rate, regardless of how long each event takes.
    async fn even_load(&self, account: Uuid, events: u32) -> Result<Samples> {
        let (mut tick, mut writes) = (tokio::time::interval(Duration::from_secs(1) / OPEN_LOAD.0), JoinSet::new());
        for _ in 0..events {
            tick.tick().await;
            let db = self.db.clone();
            writes.spawn(async move { Result::Ok((write(&db, account).await?, Instant::now())) });
        }
        let mut committed = HashMap::new();
        while let Some(written) = writes.join_next().await {
            let (event, at) = written??;
            committed.insert(event, at);
        }
        let received = self.sink.until_all(&committed.keys().copied().collect::<Vec<_>>()).await?;
        let mut samples = Samples::default();
        for (event, at) in committed {
            samples.push(received[&event].saturating_duration_since(at));
        }
        Ok(samples)
    }
}

pub async fn write(db: &PgPool, account: Uuid) -> Result<Uuid> {
    let id = Uuid::now_v7();
    sqlx::query(
        "insert into events (id, account_id, type, data)
         values ($1, $2, 'session.failed', jsonb_build_object('session_id', $1, 'reason', 'unknown DriverError'))",
    )
    .bind(id)
    .bind(account)
    .execute(db)
    .await?;
    Ok(id)
}

/// Starts a receiver, and a service with one more setting that delivers to it.
pub async fn start(setting: (&str, &str)) -> Result<(Sink, Service)> {
    let sink = Sink::start().await?;
    let ca_file = sink.ca_file();
    let settings = [
        ("WORKER__DRIVER", "simulated"),
        ("WEBHOOKS__ALLOW_PRIVATE_TARGETS", "true"),
        ("WEBHOOKS__EXTRA_CA_FILE", ca_file.as_str()),
        setting,
    ];
    let service = Service::start(&settings, 1).await?;
    Ok((sink, service))
}

pub async fn database(service: &Service) -> Result<PgPool> {
    // The path may be too long for a socket, so it goes through a folder that stays open.
    let folder = Box::leak(Box::new(std::fs::File::open(service.data_dir().join("postgres"))?));
    let socket = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let options = PgConnectOptions::new_without_pgpass().socket(socket).username("kitfleet").database("kitfleet");
    Ok(PgPoolOptions::new().max_connections(16).connect_with(options).await?)
}

/// Answers 200: immediately, after [`SLOW`] at `/slow`, and never at `/hang`.
pub struct Sink {
    port: u16,
    folder: tempfile::TempDir,
    received: Arc<Mutex<HashMap<Uuid, Instant>>>,
}

impl Sink {
    async fn start() -> Result<Self> {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let folder = tempfile::TempDir::new()?;
        std::fs::write(folder.path().join("ca.pem"), own.cert.pem())?;
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
        let config =
            ServerConfig::builder().with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let received = Arc::<Mutex<HashMap<Uuid, Instant>>>::default();
        let seen = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, acceptor.clone(), Arc::clone(&seen)));
            }
        });
        Ok(Self { port, folder, received })
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    fn ca_file(&self) -> String {
        self.folder.path().join("ca.pem").display().to_string()
    }

    /// Returns the time of each first arrival.
    pub async fn until_all(&self, events: &[Uuid]) -> Result<HashMap<Uuid, Instant>> {
        let deadline = Instant::now() + Duration::from_mins(2);
        loop {
            {
                let mut received = self.received.lock().map_err(|_| "the sink panicked")?;
                if events.iter().all(|event| received.contains_key(event)) {
                    return Ok(std::mem::take(&mut received));
                }
            }
            if Instant::now() > deadline {
                return Err("not every event came".into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn converse(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    received: Arc<Mutex<HashMap<Uuid, Instant>>>,
) -> Result<Infallible> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let (mut hangs, mut is_slow, mut event, mut length) = (false, false, None, 0);
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Err("the client closed the connection".into());
            }
            hangs |= line.starts_with("POST /hang ");
            is_slow |= line.starts_with("POST /slow ");
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse()?,
                Some((name, value)) if name.eq_ignore_ascii_case("x-service-event-id") => event = Some(value.parse()?),
                _ if line == "\r\n" => break,
                _ => {}
            }
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        if hangs {
            std::future::pending::<()>().await;
        }
        let now = Instant::now();
        received.lock().map_err(|_| "another connection panicked")?.entry(event.ok_or("no event id")?).or_insert(now);
        if is_slow {
            tokio::time::sleep(SLOW).await;
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await?;
        stream.flush().await?;
    }
}
