//! The webhook ledger (contract: webhooks 27, 28).
//!
//! A seed determines the random choices. The test prints it, and `KITFLEET_TEST_SEED` repeats it. A long run is
//! `KITFLEET_TEST_LEDGER_KILLS=100 cargo nextest run -p kitfleet --test it ledger --no-capture`.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{FromRow, PgPool};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::support::events;
use crate::support::redis::Redis;
use crate::support::sink::{Received, Sink};
use crate::support::{App, Client, Role, eventually, given};
use crate::webhooks;

/// A claim lasts three seconds longer.
const TIMEOUT: &str = "2s";
/// From a worker's death to the repeated attempt, for any `webhooks.timeout` up to the default.
const RESCUE: Duration = Duration::from_secs(15);
/// A request in a socket may arrive this long after its worker's death.
const IN_TRANSIT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
struct Fault {
    began: Instant,
    ended: Instant,
}

fn seeded() -> StdRng {
    let seed = given("KITFLEET_TEST_SEED", rand::random());
    eprintln!("KITFLEET_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// Contract: webhooks 27, 28. Events that were not committed are not sent.
#[tokio::test]
async fn killed_workers_lose_no_events() {
    let (kills, mut chance) = (given("KITFLEET_TEST_LEDGER_KILLS", 4), seeded());
    let sink = Sink::start().await;
    let builder = App::simulated().roles(&[Role::Api, Role::Worker, Role::Worker]);
    let mut app = accounted(builder, &sink).start().await;
    let (one, other) = (app.client().await, app.client().await);
    for path in ["/ok/one", "/first/500/1/", "/status/500"] {
        listen(&one, &sink, path).await;
    }
    listen(&other, &sink, "/ok/other").await;
    let flood = WriteLoad::new(app.database.pool.clone(), &mut chance).await;
    let over = Cell::new(false);
    let killing = async {
        let (mut workers, mut faults) = (vec![1, 2], Vec::new());
        while faults.len() < kills {
            sleep(Duration::from_millis(chance.random_range(300..1_300))).await;
            // One time in four, both workers are killed.
            let victims = if chance.random_ratio(1, 4) { 2 } else { 1 };
            let began = Instant::now();
            for _ in 0..victims {
                let victim = workers.swap_remove(chance.random_range(0..workers.len()));
                app.signal(victim, Signal::SIGKILL).await;
            }
            faults.push(Fault { began, ended: Instant::now() });
            workers.extend((0..victims).map(|_| app.start(Role::Worker)));
        }
        over.set(true);
        faults
    };
    let (faults, (), ()) = tokio::join!(killing, flood.create_events(&over), flood.end_sessions(&other, &over));
    flood.balance(&sink, &faults).await;
    app.stop().await;
}

/// The death of the database ends all connections and claims.
#[tokio::test]
async fn killed_database_loses_no_events() {
    let mut chance = seeded();
    let sink = Sink::start().await;
    let app = accounted(App::simulated().embedded(), &sink).start().await;
    let client = app.owner();
    for path in ["/ok", "/first/500/1/", "/status/500"] {
        listen(&client, &sink, path).await;
    }
    let folder = app.data_dir.path().join("data/postgres");
    let open = fs::File::open(&folder).expect("the folder");
    let socket = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
    let options = PgConnectOptions::new_without_pgpass().socket(socket).username("kitfleet").database("kitfleet");
    let pool = PgPoolOptions::new().acquire_timeout(Duration::from_secs(2)).connect_with(options).await;
    let pool = pool.expect("the embedded database");
    let flood = WriteLoad::new(pool.clone(), &mut chance).await;
    let over = Cell::new(false);
    let killing = async {
        let mut faults = Vec::new();
        for _ in 0..2 {
            sleep(Duration::from_millis(chance.random_range(800..1_600))).await;
            let file = fs::read_to_string(folder.join("postmaster.pid")).expect("the database runs");
            let postmaster = file.lines().next().and_then(|line| line.trim().parse().ok()).expect("a process id");
            let began = Instant::now();
            kill(Pid::from_raw(postmaster), Signal::SIGKILL).expect("the database runs");
            sleep(Duration::from_millis(200)).await;
            let answers = eventually(Duration::from_secs(30), "the database is back", async || {
                sqlx::query("select 1").execute(&pool).await.ok()
            });
            answers.await;
            // A worker that could not write an outcome notices the restart, and its lost claim, some seconds later.
            faults.push(Fault { began, ended: Instant::now() + Duration::from_secs(6) });
        }
        over.set(true);
        faults
    };
    let (faults, (), ()) = tokio::join!(killing, flood.create_events(&over), flood.end_sessions(&client, &over));
    flood.balance(&sink, &faults).await;
    pool.close().await;
    app.stop().await;
}

/// Contract: webhooks 27, 28. Deliveries do not use Redis. Only the attempts in flight are repeated.
#[tokio::test]
async fn killed_worker_and_redis_lose_no_events() {
    let (sink, mut redis) = (Sink::start().await, Redis::start());
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]).set("redis.url", &redis.url());
    let mut app = builder.delivering_to(&sink).set("webhooks.timeout", TIMEOUT).start().await;
    let client = app.client().await;
    listen(&client, &sink, "/ok").await;
    let flood = "insert into events (id, account_id, type, data)
                 select uuid_v7(), account_id, 'session.failed', $1 from webhook_endpoints, generate_series(1, 5000)";
    sqlx::query(flood).bind(events::failed()).execute(&app.database.pool).await.expect("events");
    sink.receives("/ok", 500).await;
    app.signal(1, Signal::SIGKILL).await;
    redis.kill();
    let killed = Instant::now();
    app.start(Role::Worker);
    eventually(Duration::from_mins(1), "all are delivered", async || {
        let open = "select count(*) from webhook_deliveries where status <> 'delivered'";
        (app.count(open).await == 0).then_some(())
    })
    .await;
    let received = sink.received("/ok");
    let again = received.len() - 5_000;
    let came: HashSet<_> = received.iter().map(|one| one.header("x-service-event-id").to_owned()).collect();
    let written: Vec<Uuid> =
        sqlx::query_scalar("select id from events").fetch_all(&app.database.pool).await.expect("the events");
    assert_eq!(came, written.iter().map(Uuid::to_string).collect::<HashSet<_>>());
    assert!(again <= 128, "{again} requests were repeated");
    eprintln!("{again} requests were repeated; all were delivered {:?} after the worker's death", killed.elapsed());
    app.stop().await;
}

/// Contract: webhooks 27. This takes at most 15 s.
#[tokio::test]
async fn attempts_of_killed_worker_are_repeated() {
    let sink = Sink::start().await;
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).delivering_to(&sink).start().await;
    let client = app.client().await;
    let kept = listen(&client, &sink, "/first/hang/1/").await;
    let deleted = listen(&client, &sink, "/hang").await;
    for endpoint in [&kept, &deleted] {
        for _ in 0..5 {
            client.post(&format!("/v1/webhooks/{endpoint}/test"), json!({})).await.expect(202);
        }
    }
    sink.receives("/first/hang/1/", 5).await;
    sink.receives("/hang", 5).await;
    client.delete(&format!("/v1/webhooks/{deleted}")).await.expect(204);
    app.signal(1, Signal::SIGKILL).await;
    let died = Instant::now();
    app.start(Role::Worker);
    eventually(RESCUE * 2, "nothing is in flight", async || {
        let left = app.count("select count(*) from webhook_deliveries where status in ('pending', 'in_flight')").await;
        (left == 0).then_some(())
    })
    .await;
    let received = sink.received("/first/hang/1/");
    assert_eq!(received.len(), 10);
    for again in &received[5..] {
        assert!(again.at - died < RESCUE, "sent again {:?} after its worker's death", again.at - died);
        assert_eq!(received[..5].iter().filter(|first| first.body == again.body).count(), 1);
    }
    assert_eq!(sink.received("/hang").len(), 5);
    for (endpoint, counts) in [
        (&kept, json!({"delivered": 5, "failed": 0, "dlq": 0})),
        (&deleted, json!({"delivered": 0, "failed": 5, "dlq": 0})),
    ] {
        let shown = client.get(&format!("/v1/webhooks/{endpoint}")).await.expect(200).body;
        assert_eq!(shown["delivery_counts"], counts);
        let all = client.get(&format!("/v1/webhooks/{endpoint}/deliveries")).await.expect(200).body;
        // An attempt without a known outcome is not counted.
        let attempts = i32::from(endpoint == &kept);
        assert!(all["data"].as_array().expect("a list").iter().all(|one| one["attempts"] == attempts), "{all}");
    }
    app.stop().await;
}

/// Short claims, three attempts, and endpoints that failures do not disable.
fn accounted(builder: crate::support::app::Builder, sink: &Sink) -> crate::support::app::Builder {
    builder
        .delivering_to(sink)
        .set("webhooks.timeout", TIMEOUT)
        .set("webhooks.retry_schedule", "1s,1s")
        .set("webhooks.auto_disable_after", "1000000")
        // Sessions of killed workers must not use up the capacity.
        .set("worker.max_sessions", "200")
}

async fn listen(client: &Client, sink: &Sink, path: &str) -> String {
    webhooks::id_of(&webhooks::create(client, &sink.url(path), &["session.completed", "session.failed"]).await)
}

/// Batches of rows, and ends of sessions.
struct WriteLoad {
    db: PgPool,
    accounts: Vec<Uuid>,
    chance: RefCell<StdRng>,
    /// Events of committed transactions.
    kept: RefCell<HashSet<Uuid>>,
    /// Events of rolled-back transactions.
    undone: RefCell<HashSet<Uuid>>,
    ended: RefCell<Vec<String>>,
}

#[derive(Debug, FromRow)]
struct Entry {
    event_id: Uuid,
    url: String,
    status: String,
    attempts: i32,
}

impl WriteLoad {
    async fn new(db: PgPool, chance: &mut StdRng) -> Self {
        let accounts = sqlx::query_scalar("select distinct account_id from webhook_endpoints order by account_id");
        let accounts = accounts.fetch_all(&db).await.expect("the endpoints");
        let chance = RefCell::new(StdRng::from_rng(chance));
        let (kept, undone, ended) = Default::default();
        Self { db, accounts, chance, kept, undone, ended }
    }

    /// Writes about 300 events per second; one batch in five is rolled back.
    async fn create_events(&self, over: &Cell<bool>) {
        while !over.get() {
            let (account, batch, keep, pause) = {
                let mut chance = self.chance.borrow_mut();
                let account = self.accounts[chance.random_range(0..self.accounts.len())];
                let batch: Vec<_> = (0..chance.random_range(1..=20)).map(|_| Uuid::now_v7()).collect();
                (account, batch, chance.random_ratio(4, 5), chance.random_range(10..50))
            };
            match self.write(account, &batch, keep).await {
                Ok(()) => (if keep { &self.kept } else { &self.undone }).borrow_mut().extend(batch),
                // The commit may or may not have succeeded; the table decides.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
            sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn write(&self, account: Uuid, batch: &[Uuid], keep: bool) -> sqlx::Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query(
            "insert into events (id, account_id, type, data)
             select id, $2, 'session.failed', $3 from unnest($1::uuid[]) as batch (id)",
        )
        .bind(batch)
        .bind(account)
        .bind(events::failed())
        .execute(&mut *tx)
        .await?;
        if keep { tx.commit().await } else { tx.rollback().await }
    }

    /// Creates and deletes sessions while a worker can open them.
    async fn end_sessions(&self, client: &Client, over: &Cell<bool>) {
        while !over.get() {
            let ended = timeout(Duration::from_secs(2), async {
                let session = client.post("/v1/sessions", json!({})).await.body["id"].as_str()?.to_owned();
                let deleted = client.delete(&format!("/v1/sessions/{session}")).await;
                (deleted.status == 204).then_some(session)
            });
            match ended.await {
                Ok(Some(session)) => self.ended.borrow_mut().push(session),
                // The worker that should have opened the session is dead.
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Waits until all deliveries have ended.
    async fn balance(&self, sink: &Sink, faults: &[Fault]) {
        eventually(Duration::from_mins(1), "every delivery ends", async || {
            let left = "select count(*) from webhook_deliveries where status in ('pending', 'in_flight')";
            (self.count(left).await == 0).then_some(())
        })
        .await;
        // Each event has one delivery to each endpoint. The endpoints exist during the whole test.
        let unequal = "select count(*) from (
                           select count(d.id) from events v
                           join webhook_endpoints e on e.account_id = v.account_id and v.type = any (e.events)
                           left join webhook_deliveries d on d.event_id = v.id and d.endpoint_id = e.id
                           group by v.id, e.id having count(d.id) <> 1) unequal";
        assert_eq!(self.count(unequal).await, 0, "events without a delivery, or with two");
        let events: Vec<Uuid> =
            sqlx::query_scalar("select id from events").fetch_all(&self.db).await.expect("the events");
        let committed: HashSet<_> = events.into_iter().collect();
        assert!(self.kept.borrow().is_subset(&committed), "an acknowledged event is missing");
        assert!(self.undone.borrow().is_disjoint(&committed), "a rolled-back event exists");
        let sessions = self.ended.take();
        for session in &sessions {
            self.assert_one_event(session).await;
        }

        let mut came: HashMap<(String, Uuid), Vec<Received>> = HashMap::new();
        for received in sink.all() {
            let event = received.header("x-service-event-id");
            assert_eq!(received.json()["id"], event, "the header and the envelope name one event");
            let event = event.parse().expect("a UUID");
            came.entry((received.path.clone(), event)).or_default().push(received);
        }
        let entries: Vec<Entry> = sqlx::query_as(
            "select d.event_id, e.url, d.status, d.attempts from webhook_deliveries d
             join webhook_endpoints e on e.id = d.endpoint_id",
        )
        .fetch_all(&self.db)
        .await
        .expect("the deliveries");
        let (deliveries, mut sent_again, mut rescues) = (entries.len(), 0, vec![None; faults.len()]);
        for entry in entries {
            let path = entry.url.trim_start_matches(&sink.url("")).to_owned();
            let came = came.remove(&(path.clone(), entry.event_id)).unwrap_or_default();
            assert!(!came.is_empty(), "the event was not received: {entry:?}");
            assert!(came.iter().all(|one| one.body == came[0].body), "the bodies of the requests differ: {entry:?}");
            let expected = if path == "/status/500" { ("dlq", 3..=3) } else { ("delivered", 1..=3) };
            assert!(entry.status == expected.0 && expected.1.contains(&entry.attempts), "{entry:?}");
            let known = usize::try_from(entry.attempts).expect("a count");
            let lost = lost_between(&came, faults);
            assert!(
                came.len() <= known + lost.len(),
                "{} requests without a fault that explains them: {entry:?}",
                came.len()
            );
            sent_again += came.len().saturating_sub(known);
            if came.len() > known {
                for (fault, after) in lost {
                    let first: &mut Option<Duration> = &mut rescues[fault];
                    *first = Some(first.map_or(after, |first| first.min(after)));
                }
            }
        }
        assert!(came.is_empty(), "requests without a committed event: {:?}", came.keys());
        let slowest = rescues.iter().flatten().max().copied().unwrap_or_default();
        assert!(slowest < RESCUE, "the first lost attempt was repeated after {slowest:?}");
        eprintln!(
            "{} faults, {} events, {deliveries} deliveries, {} sessions ended, {} events rolled back, {sent_again} requests \
             sent again, the first after a fault within {slowest:?}",
            faults.len(),
            committed.len(),
            sessions.len(),
            self.undone.borrow().len(),
        );
    }

    async fn count(&self, query: &'static str) -> i64 {
        let counted = sqlx::query_scalar(query).fetch_one(&self.db).await;
        counted.unwrap_or_else(|error| panic!("cannot count: {error}"))
    }

    async fn assert_one_event(&self, session: &str) {
        let events: Vec<Value> = sqlx::query_scalar("select to_jsonb(v) from events v where data->>'session_id' = $1")
            .bind(session)
            .fetch_all(&self.db)
            .await
            .expect("the events");
        assert_eq!(events.len(), 1, "{session}: {events:?}");
    }
}

/// Faults that can explain the repetition, each with the time from its beginning to the second request.
fn lost_between(came: &[Received], faults: &[Fault]) -> Vec<(usize, Duration)> {
    let between = |pair: &[Received]| {
        let (before, after) = (pair[0].at, pair[1].at);
        let found = faults.iter().position(|fault| before <= fault.ended + IN_TRANSIT && fault.began <= after)?;
        Some((found, after - faults[found].began))
    };
    came.windows(2).filter_map(between).collect()
}
