//! Workers and their leases.
//!
//! A row is one incarnation: a worker that restarts is another one, because its browsers are gone. It lives as long as
//! its heartbeat is younger than [`LEASE`]; a worker that finds itself declared lost must not go on.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use crate::area::{Area, Bound, Purge};
use crate::ids::{SessionId, WorkerId};
use crate::timestamp::Timestamp;

pub(crate) const AREA: Area = Area {
    kept: &[("worker_slots", "they go with their worker")],
    purges: &[Purge::new("workers", "workers", |conn, terms, limit| Box::pin(purge(conn, terms.workers, limit)))],
    bounds: &[
        ("workers", Bound::Operator("one for each start of a worker; `retention.stopped_workers` (7 days)")),
        ("worker_slots", Bound::Operator("one for each browser of a worker")),
    ],
    ..Area::named("workers")
};

/// How long a worker lives without a heartbeat.
pub const LEASE: Duration = Duration::from_secs(10);
/// How often it sends one.
pub const HEARTBEAT: Duration = Duration::from_secs(2);
/// Live sessions that any worker may have at most: each of them is a row.
pub const MOST_SESSIONS: u32 = 10_000;

/// What a worker's sessions are made of (contract: operations 25).
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    sqlx::Type,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Driver {
    /// The real engine.
    #[default]
    Webkit,
    /// Nothing: for load tests.
    Simulated,
    /// It takes no sessions.
    None,
}

impl Driver {
    /// As the configuration spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::VARIANTS.iter().copied().find(|driver| driver.name() == text).ok_or_else(|| format!("no driver {text:?}"))
    }
}

/// On which worker a session is placed, of those that have room (contract: workers 17).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The one with the most free slots.
    #[default]
    Spread,
    /// One worker is filled after the other.
    Pack,
}

/// A worker, as operators see it.
#[derive(Debug, Clone, Serialize)]
pub struct Worker {
    /// This incarnation.
    pub id: WorkerId,
    /// What its operator calls it.
    pub name: String,
    /// `active`, `draining`, `stopped` or `lost`.
    pub status: String,
    /// What its sessions are made of.
    pub driver: Driver,
    /// Live sessions now.
    pub live_sessions: i64,
    /// Live sessions at most.
    pub max_sessions: i32,
    /// When it started.
    pub started_at: Timestamp,
    /// Its last heartbeat.
    pub last_seen_at: Timestamp,
    /// Time at which the sessions of a draining worker are ended.
    pub drain_by: Option<Timestamp>,
    /// Version of its program.
    pub version: Option<String>,
    /// Whether its browsers are confined; `None` for a worker without real browsers.
    pub is_sandboxed: Option<bool>,
    /// Free space on the disk of its browsers.
    pub free_disk_bytes: Option<i64>,
    /// Memory that its machine, or its control group, has left.
    pub free_memory_bytes: Option<i64>,
}

/// A worker that starts.
#[derive(Debug)]
pub struct NewWorker<'a> {
    /// This incarnation.
    pub id: WorkerId,
    /// What its operator calls it.
    pub name: &'a str,
    /// What its sessions are made of.
    pub driver: Driver,
    /// Live sessions at most.
    pub max_sessions: i32,
    /// What secrets are sealed to.
    pub public_key: &'a [u8],
    /// Where its browsers can be seen, if they can.
    pub live: Option<&'a LiveEnd>,
    /// Version of its program.
    pub version: &'a str,
    /// Whether its browsers are confined; `None` for a worker without real browsers.
    pub is_sandboxed: Option<bool>,
}

/// Where the browsers of a worker can be seen (contract: live 21).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveEnd {
    /// As `address:port`.
    pub address: String,
    /// SHA-256 of the certificate that it has there. `None` where it speaks no TLS, which is on its own machine alone.
    pub fingerprint: Option<Vec<u8>>,
}

/// Begins an incarnation, with the slots that sessions are placed in.
///
/// # Errors
/// When the database fails.
pub async fn register(conn: &mut PgConnection, new: NewWorker<'_>) -> sqlx::Result<()> {
    sqlx::query!(
        "with worker as (
             insert into workers
                 (id, name, driver, max_sessions, public_key, live_address, live_fingerprint, version, is_sandboxed)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning id
         )
         insert into worker_slots (worker_id, number) select id, generate_series(1, $4) from worker",
        new.id as _,
        new.name,
        new.driver as _,
        new.max_sessions,
        new.public_key,
        new.live.map(|live| live.address.as_str()),
        new.live.and_then(|live| live.fingerprint.as_deref()),
        new.version,
        new.is_sandboxed,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Where the browser of a live session can be seen. `None` when the session has ended, or its worker shows nothing.
///
/// # Errors
/// When the database fails.
pub async fn live_end(conn: &mut PgConnection, session: SessionId) -> sqlx::Result<Option<LiveEnd>> {
    let end = sqlx::query!(
        r#"select w.live_address as "address!", w.live_fingerprint as fingerprint
           from sessions s join workers w on w.id = s.worker_id
           where s.id = $1 and s.live and w.status in ('active', 'draining') and w.live_address is not null"#,
        session as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(end.map(|end| LiveEnd { address: end.address, fingerprint: end.fingerprint }))
}

/// What secrets are sealed to that are for this worker.
///
/// # Errors
/// When there is no such worker, or the database fails.
pub async fn public_key(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<Vec<u8>> {
    sqlx::query_scalar!("select public_key from workers where id = $1", id as _).fetch_one(conn).await
}

/// A worker that is to do something.
#[derive(Debug)]
pub struct SelectedWorker {
    /// Which.
    pub id: WorkerId,
    /// What secrets are sealed to that are for it.
    pub public_key: Vec<u8>,
}

/// Any worker that lives and has browsers. `None` when there is none.
///
/// # Errors
/// When the database fails.
pub async fn any(conn: &mut PgConnection) -> sqlx::Result<Option<SelectedWorker>> {
    sqlx::query_as!(
        SelectedWorker,
        "select id, public_key from workers
         where status = 'active' and driver <> 'none' and last_seen_at > now() - make_interval(secs => $1)
         order by random() limit 1",
        LEASE.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await
}

/// What a worker hears when it renews its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// It takes no more sessions.
    pub draining: bool,
    /// What still lives on it is to be ended, by the database's time.
    pub overdue: bool,
}

/// Resources of a worker's machine, as a heartbeat reports them.
#[derive(Debug, Clone, Copy)]
pub struct Resources {
    /// Whether the disk has room for more sessions (contract: workers 17).
    pub has_room: bool,
    /// Free space on the disk of its browsers.
    pub free_disk_bytes: Option<i64>,
    /// Memory that the machine, or the control group of the worker, has left.
    pub free_memory_bytes: Option<i64>,
}

/// Renews a worker's lease and reports its resources. `None` when it was declared lost, or stopped: it must not go on.
///
/// # Errors
/// When the database fails.
pub async fn heartbeat(conn: &mut PgConnection, id: WorkerId, resources: Resources) -> sqlx::Result<Option<Lease>> {
    sqlx::query_as!(
        Lease,
        r#"update workers set last_seen_at = now(), has_room = $2, free_disk_bytes = $3, free_memory_bytes = $4
           where id = $1 and status in ('active', 'draining')
           returning status = 'draining' as "draining!",
                     status = 'draining' and coalesce(drain_by <= now(), false) as "overdue!""#,
        id as _,
        resources.has_room,
        resources.free_disk_bytes,
        resources.free_memory_bytes,
    )
    .fetch_optional(conn)
    .await
}

/// Takes no more sessions; those it has live on (contract: workers 11, 20). Creates that had a slot of it in their hands are done
/// when this is. `false` when no such worker is active.
///
/// # Errors
/// When the database fails.
pub async fn drain(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    let drained = sqlx::query!("update workers set status = 'draining' where id = $1 and status = 'active'", id as _)
        .execute(conn)
        .await?;
    Ok(drained.rows_affected() == 1)
}

/// Returns a draining worker to service, with the slots that it lost when it began to drain (contract: workers 28). `false` when no such
/// worker drains, when it was told to stop, and when it runs a version that cannot return to service.
///
/// # Errors
/// When the database fails.
pub async fn undrain(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    let returned = sqlx::query_scalar!(
        r#"with returned as (
               update workers set status = 'active', drain_by = null
               where id = $1 and status = 'draining' and stopping_at is null and version is not null
               returning id, max_sessions
           ), slots as (
               insert into worker_slots (worker_id, number) select id, generate_series(1, max_sessions) from returned
               on conflict do nothing
           )
           select id as "id: WorkerId" from returned"#,
        id as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(returned.is_some())
}

/// Drains a worker that was told to stop, and keeps it from returning to service.
///
/// # Errors
/// When the database fails.
pub async fn begin_stop(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<()> {
    sqlx::query!(
        "update workers set status = 'draining', stopping_at = coalesce(stopping_at, now())
         where id = $1 and status in ('active', 'draining')",
        id as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Whether a worker drains. It cannot return to service before the transaction of `conn` has ended.
///
/// # Errors
/// When the database fails.
pub async fn hold_drain(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    let status = sqlx::query_scalar!("select status from workers where id = $1 for share", id as _);
    Ok(status.fetch_optional(conn).await?.is_some_and(|status| status == "draining"))
}

/// Longest time that a worker can be given to drain.
pub const LONGEST_DRAIN: Duration = Duration::from_hours(30 * 24);

/// Says when what still lives on a worker that drains is ended (contract: workers 20), in place of what was said before. `false`
/// when no such worker drains.
///
/// # Errors
/// When the database fails.
pub async fn drain_within(conn: &mut PgConnection, id: WorkerId, within: Duration) -> sqlx::Result<bool> {
    let said = sqlx::query!(
        "update workers set drain_by = now() + make_interval(secs => $2) where id = $1 and status = 'draining'",
        id as _,
        within.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(said.rows_affected() == 1)
}

/// How far a worker has come that drains, by the database's time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrainProgress {
    /// Which.
    pub id: WorkerId,
    /// `active`, `draining`, `stopped` or `lost`.
    pub status: String,
    /// Live sessions now.
    pub live_sessions: i64,
    /// Sessions that it failed since it was to end what still lived.
    pub ended_sessions: i64,
    /// When that is, or was.
    pub drain_by: Option<Timestamp>,
}

/// How far a worker has come that drains. `None` when there is no such worker.
///
/// # Errors
/// When the database fails.
pub async fn drained(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<Option<DrainProgress>> {
    sqlx::query_as!(
        DrainProgress,
        r#"select w.id, w.status, w.drain_by,
                  (select count(*) from sessions s where s.worker_id = w.id and s.live) as "live_sessions!",
                  (select count(*) from sessions s
                   where s.worker_id = w.id and not s.live and s.ended = 'errored' and s.ended_at >= w.drain_by) as "ended_sessions!"
           from workers w where w.id = $1"#,
        id as _,
    )
    .fetch_optional(conn)
    .await
}

/// Whether a worker has no live session.
///
/// # Errors
/// When the database fails.
pub async fn is_empty(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select not exists(select from sessions where worker_id = $1 and live) as "empty!""#,
        id as _,
    )
    .fetch_one(conn)
    .await
}

/// Ended in an orderly way.
///
/// # Errors
/// When the database fails.
pub async fn stop(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<()> {
    sqlx::query!("update workers set status = 'stopped' where id = $1", id as _).execute(conn).await?;
    Ok(())
}

/// The database's time, by which leases are judged.
///
/// # Errors
/// When the database fails.
pub async fn now(conn: &mut PgConnection) -> sqlx::Result<Timestamp> {
    sqlx::query_scalar!(r#"select now() as "now!: Timestamp""#).fetch_one(conn).await
}

/// Declares workers lost whose lease had run out at that moment, whenever the database gets to it. Answers which.
///
/// # Errors
/// When the database fails.
pub async fn declare_lost(conn: &mut PgConnection, at: Timestamp) -> sqlx::Result<Vec<WorkerId>> {
    sqlx::query_scalar!(
        "update workers set status = 'lost'
         where status in ('active', 'draining') and last_seen_at <= $2::timestamptz - make_interval(secs => $1) returning id",
        LEASE.as_secs_f64(),
        at as _,
    )
    .fetch_all(conn)
    .await
}

/// What the workers that are alive do for whoever wants a session: the best of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type, strum::VariantNames, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum WorkerStatus {
    /// One takes sessions.
    Ok,
    /// Those that have browsers serve the sessions that they have, and take no more.
    Draining,
    /// None has browsers. They send mails and webhooks, and sweep.
    NoDriver,
    /// The disks of those that have browsers are nearly full: they serve the sessions that they have.
    NoRoom,
}

impl WorkerStatus {
    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;
}

/// How the workers stand; `None` when none is alive.
///
/// # Errors
/// When the database fails.
pub async fn standing(conn: &mut PgConnection) -> sqlx::Result<Option<WorkerStatus>> {
    sqlx::query_scalar!(
        r#"select case when driver = 'none' then 'no_driver' when status = 'draining' then 'draining' when not has_room then 'no_room' else 'ok' end
                  as "standing!: WorkerStatus"
           from workers where status in ('active', 'draining') and last_seen_at > now() - make_interval(secs => $1)
           order by driver = 'none', status = 'draining', not has_room limit 1"#,
        LEASE.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await
}

/// How workers stand, as [`census`] tells it.
pub const STATUSES: [&str; 4] = ["active", "draining", "stopped", "lost"];

/// How many workers there are, by status. Whose lease has run out is lost, whether somebody has said so yet or not. Those that are gone
/// count for an hour.
///
/// # Errors
/// When the database fails.
pub async fn census(conn: &mut PgConnection) -> sqlx::Result<[(&'static str, i64); 4]> {
    let counted = sqlx::query!(
        r#"select case when status in ('active', 'draining') and last_seen_at <= now() - make_interval(secs => $1)
                       then 'lost' else status end as "status!", count(*) as "workers!"
           from workers where status in ('active', 'draining') or last_seen_at > now() - interval '1 hour' group by 1"#,
        LEASE.as_secs_f64(),
    )
    .fetch_all(conn)
    .await?;
    Ok(STATUSES.map(|status| (status, counted.iter().find(|row| row.status == status).map_or(0, |row| row.workers))))
}

/// Room for sessions.
#[derive(Debug)]
pub struct Slots {
    /// What there is.
    pub all: i64,
    /// What nobody has.
    pub free: i64,
}

/// The slots of the workers that take sessions.
///
/// # Errors
/// When the database fails.
pub async fn slots(conn: &mut PgConnection) -> sqlx::Result<Slots> {
    sqlx::query_as!(
        Slots,
        r#"select count(*) as "all!", count(*) filter (where s.session_id is null and w.has_room) as "free!"
           from worker_slots s join workers w on w.id = s.worker_id
           where w.status = 'active' and w.last_seen_at > now() - make_interval(secs => $1)"#,
        LEASE.as_secs_f64(),
    )
    .fetch_one(conn)
    .await
}

/// Why there is no slot to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlotReason {
    /// Of slots: all are taken, or their workers take no more.
    Slots,
    /// Of news: there are workers that nobody has heard of for a while, and that were not found dead.
    News,
    /// Of workers.
    Workers,
}

/// Why no session can be placed, when none can.
///
/// # Errors
/// When the database fails.
pub async fn lack(conn: &mut PgConnection) -> sqlx::Result<NoSlotReason> {
    let workers = sqlx::query!(
        r#"select coalesce(bool_or(heard), false) as "heard!", coalesce(bool_or(not heard and status = 'active'), false) as "silent!"
           from (select status, last_seen_at > now() - make_interval(secs => $1) as heard from workers
                 where status in ('active', 'draining') and driver <> 'none') w"#,
        LEASE.as_secs_f64(),
    )
    .fetch_one(conn)
    .await?;
    Ok(if workers.heard {
        NoSlotReason::Slots
    } else if workers.silent {
        NoSlotReason::News
    } else {
        NoSlotReason::Workers
    })
}

/// Workers that left live sessions which nobody ends any more: all that stopped, and those that have been lost for `patience`
/// and have some that are `ready`.
///
/// # Errors
/// When the database fails.
pub async fn forsakers(conn: &mut PgConnection, patience: Duration) -> sqlx::Result<Vec<DeadWorker>> {
    sqlx::query_as!(
        DeadWorker,
        r#"select w.id as "id: _", w.status = 'lost' as "was_lost!" from workers w
           where w.status = 'stopped' and exists(
                     select from sessions s where s.worker_id = w.id and s.live)
              or w.status = 'lost' and w.last_seen_at < now() - make_interval(secs => $1) and exists(
                     select from sessions s where s.worker_id = w.id and s.live and s.status = 'ready')
           order by w.id"#,
        patience.as_secs_f64(),
    )
    .fetch_all(conn)
    .await
}

/// A worker that left live sessions.
#[derive(Debug)]
pub struct DeadWorker {
    /// Which.
    pub id: WorkerId,
    /// Whether it was found dead, and did not stop in good order.
    pub was_lost: bool,
}

/// Deletes workers that are gone for longer than `age`, of whose sessions none is live and nothing is still to be saved, up
/// to `limit`. Answers how many.
///
/// # Errors
/// When the database fails.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from workers where id = any(array(
             select w.id from workers w
             where w.status in ('stopped', 'lost') and w.last_seen_at < now() - make_interval(secs => $1)
               and not exists (select from sessions s
                               where s.worker_id = w.id and s.live)
               and not exists (select from sessions s where s.worker_id = w.id and s.profile_in_hand)
             order by w.id limit $2 for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Declares one worker lost, which its machine knows to be gone.
///
/// # Errors
/// When the database fails.
pub async fn declare_lost_one(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    let lost =
        sqlx::query!("update workers set status = 'lost' where id = $1 and status in ('active', 'draining')", id as _,)
            .execute(conn)
            .await?;
    Ok(lost.rows_affected() == 1)
}

/// The workers that live, and with `all` the others too, the newest first.
///
/// # Errors
/// When the database fails.
pub async fn list(conn: &mut PgConnection, all: bool) -> sqlx::Result<Vec<Worker>> {
    list_before(conn, all, None, 1_000).await
}

/// Those of them that are older than one, up to `limit`.
///
/// # Errors
/// When the database fails.
pub async fn list_before(
    conn: &mut PgConnection,
    all: bool,
    before: Option<WorkerId>,
    limit: i64,
) -> sqlx::Result<Vec<Worker>> {
    sqlx::query_as!(
        Worker,
        r#"select w.id, w.name, w.status, w.driver as "driver: _", w.max_sessions, w.started_at, w.last_seen_at, w.drain_by,
                  w.version, w.is_sandboxed, w.free_disk_bytes, w.free_memory_bytes,
                  (select count(*) from sessions s
                   where s.worker_id = w.id and s.live) as "live_sessions!"
           from workers w where ($1 or w.status in ('active', 'draining')) and w.id < $2 order by w.id desc limit $3"#,
        all,
        before.map_or(Uuid::max(), |before| before.as_uuid()),
        limit,
    )
    .fetch_all(conn)
    .await
}

/// A worker, whether it lives or not.
///
/// # Errors
/// When the database fails.
pub async fn find(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<Option<Worker>> {
    sqlx::query_as!(
        Worker,
        r#"select w.id, w.name, w.status, w.driver as "driver: _", w.max_sessions, w.started_at, w.last_seen_at, w.drain_by,
                  w.version, w.is_sandboxed, w.free_disk_bytes, w.free_memory_bytes,
                  (select count(*) from sessions s
                   where s.worker_id = w.id and s.live) as "live_sessions!"
           from workers w where w.id = $1"#,
        id as _,
    )
    .fetch_optional(conn)
    .await
}
