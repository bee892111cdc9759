//! Workers and their leases.
//!
//! A row is one run of a worker process, because the browsers end with it. A worker is alive while its last heartbeat
//! is less than [`LEASE`] ago. A worker that was declared lost must stop.

use std::str::FromStr;
use std::time::Duration;

use kitfleet_types::ids::{SessionId, WorkerId};
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use crate::area::{Area, Bound, Purge};

pub(crate) const AREA: Area = Area {
    kept: &[("worker_slots", "deleted with their worker")],
    purges: &[Purge::new("workers", "workers", |conn, terms, limit| Box::pin(purge(conn, terms.workers, limit)))],
    bounds: &[
        ("workers", Bound::Operator("one for each start of a worker; `retention.stopped_workers` (7 days)")),
        ("worker_slots", Bound::Operator("one for each browser of a worker")),
    ],
    ..Area::named("workers")
};

pub const LEASE: Duration = Duration::from_secs(10);
pub const HEARTBEAT: Duration = Duration::from_secs(2);
/// Each needs a row.
pub const MAX_SESSIONS: u32 = 10_000;

/// Browser engine of a worker's sessions (contract: operations 25).
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
    #[default]
    Webkit,
    /// No browser, for load tests.
    Simulated,
    /// No sessions.
    None,
}

impl Driver {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FromStr for Driver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::VARIANTS
            .iter()
            .copied()
            .find(|driver| driver.name() == text)
            .ok_or_else(|| format!("unknown driver {text:?}"))
    }
}

/// Selection of the worker for a new session among those with free slots (contract: workers 17).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    #[default]
    Spread,
    Pack,
}

#[derive(Debug, Clone, Serialize)]
pub struct Worker {
    pub id: WorkerId,
    pub name: String,
    /// `active`, `draining`, `stopped` or `lost`.
    pub status: String,
    pub driver: Driver,
    pub live_sessions: i64,
    pub max_sessions: i32,
    pub started_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub drain_by: Option<Timestamp>,
    /// `None` while the worker does not drain.
    pub drain_began_at: Option<Timestamp>,
    /// Live sessions at that time.
    pub drain_sessions: Option<i64>,
    pub version: Option<String>,
    /// `None` for a worker without real browsers.
    pub is_sandboxed: Option<bool>,
    pub free_disk_bytes: Option<i64>,
    /// Available memory of its machine or control group.
    pub free_memory_bytes: Option<i64>,
    /// Started browsers without a session. `None` for a worker without real browsers.
    pub hot_browsers: Option<i32>,
    /// Load of the last minute, for each processor of its machine.
    pub processor_load: Option<f64>,
    /// Time since the last heartbeat, by the database's clock.
    pub lease_age_seconds: f64,
}

#[derive(Debug)]
pub struct NewWorker<'a> {
    pub id: WorkerId,
    pub name: &'a str,
    pub driver: Driver,
    pub max_sessions: i32,
    /// Public key to which secrets for the worker are sealed.
    pub public_key: &'a [u8],
    pub live: Option<&'a LiveEnd>,
    pub version: &'a str,
    pub is_sandboxed: Option<bool>,
}

/// Endpoint of a worker's live views (contract: live 21).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveEnd {
    /// Address as `address:port`.
    pub address: String,
    /// SHA-256 of its TLS certificate. `None` without TLS, which is permitted only on the same machine.
    pub fingerprint: Option<Vec<u8>>,
}

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

/// `None` when the session has ended or the worker has no live endpoint.
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

pub async fn public_key(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<Vec<u8>> {
    sqlx::query_scalar!("select public_key from workers where id = $1", id as _).fetch_one(conn).await
}

#[derive(Debug)]
pub struct SelectedWorker {
    pub id: WorkerId,
    pub public_key: Vec<u8>,
}

/// Picks a random live worker with browsers.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The worker must not accept more sessions.
    pub draining: bool,
    /// The worker must end its remaining sessions, by the database's clock.
    pub overdue: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Resources {
    /// True when the disk has room for more sessions (contract: workers 17).
    pub has_room: bool,
    pub free_disk_bytes: Option<i64>,
    pub free_memory_bytes: Option<i64>,
    pub hot_browsers: Option<i32>,
    pub processor_load: Option<f64>,
}

/// `None`: the worker was declared lost or stopped, and must not continue.
pub async fn heartbeat(conn: &mut PgConnection, id: WorkerId, resources: Resources) -> sqlx::Result<Option<Lease>> {
    sqlx::query_as!(
        Lease,
        r#"update workers
           set last_seen_at = now(), has_room = $2, free_disk_bytes = $3, free_memory_bytes = $4, hot_browsers = $5,
               processor_load = $6
           where id = $1 and status in ('active', 'draining')
           returning status = 'draining' as "draining!",
                     status = 'draining' and coalesce(drain_by <= now(), false) as "overdue!""#,
        id as _,
        resources.has_room,
        resources.free_disk_bytes,
        resources.free_memory_bytes,
        resources.hot_browsers,
        resources.processor_load,
    )
    .fetch_optional(conn)
    .await
}

/// Contract: workers 11, 20. Waits for creates that hold one of the worker's slots. Returns false when the worker is
/// not active.
pub async fn drain(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    let drained = sqlx::query!("update workers set status = 'draining' where id = $1 and status = 'active'", id as _)
        .execute(&mut *conn)
        .await?;
    let is_new = drained.rows_affected() == 1;
    if is_new {
        note_drain(conn, id).await?;
    }
    Ok(is_new)
}

/// A statement of its own, because it counts the sessions of creates that the change of the status waited for.
async fn note_drain(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<()> {
    sqlx::query!(
        "update workers w
         set drain_began_at = now(),
             drain_sessions = (select count(*) from sessions s where s.worker_id = w.id and s.live)
         where w.id = $1 and w.status = 'draining' and w.drain_began_at is null",
        id as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// No other transaction changes the status until the end of this one.
pub async fn lock_status(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("select status from workers where id = $1 for no key update", id as _)
        .fetch_optional(conn)
        .await
}

/// Contract: workers 28. Returns false when the worker is not draining, is stopping, or runs a version that cannot
/// return to service.
pub async fn undrain(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    let returned = sqlx::query_scalar!(
        r#"with returned as (
               update workers set status = 'active', drain_by = null, drain_began_at = null, drain_sessions = null
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

/// Also prevents the return to service.
pub async fn begin_stop(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<()> {
    sqlx::query!(
        "update workers set status = 'draining', stopping_at = coalesce(stopping_at, now())
         where id = $1 and status in ('active', 'draining')",
        id as _,
    )
    .execute(&mut *conn)
    .await?;
    note_drain(conn, id).await
}

/// A draining worker cannot return to service until the transaction of `conn` ends.
pub async fn hold_drain(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    let status = sqlx::query_scalar!("select status from workers where id = $1 for share", id as _);
    Ok(status.fetch_optional(conn).await?.is_some_and(|status| status == "draining"))
}

pub const LONGEST_DRAIN: Duration = Duration::from_hours(30 * 24);

/// Replaces an earlier deadline (contract: workers 20). Returns false when the worker is not draining.
pub async fn drain_within(conn: &mut PgConnection, id: WorkerId, within: Duration) -> sqlx::Result<bool> {
    let updated = sqlx::query!(
        "update workers set drain_by = now() + make_interval(secs => $2) where id = $1 and status = 'draining'",
        id as _,
        within.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(updated.rows_affected() == 1)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrainProgress {
    pub id: WorkerId,
    pub status: String,
    pub live_sessions: i64,
    /// Sessions that failed after `drain_by`.
    pub ended_sessions: i64,
    pub drain_by: Option<Timestamp>,
}

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

pub async fn is_empty(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select not exists(select from sessions where worker_id = $1 and live) as "empty!""#,
        id as _,
    )
    .fetch_one(conn)
    .await
}

pub async fn stop(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<()> {
    sqlx::query!("update workers set status = 'stopped' where id = $1", id as _).execute(conn).await?;
    Ok(())
}

/// The database's clock decides when leases expire.
pub async fn now(conn: &mut PgConnection) -> sqlx::Result<Timestamp> {
    sqlx::query_scalar!(r#"select now() as "now!: Timestamp""#).fetch_one(conn).await
}

/// Declares workers lost whose lease had expired at time `at`. The caller reads `at` before this statement: if the
/// database stalls in between, workers that cannot renew their leases meanwhile are not declared lost.
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

/// Best state of all live workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, sqlx::Type, strum::VariantNames, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum WorkerStatus {
    Ok,
    /// All workers with browsers are draining.
    Draining,
    /// The workers only run jobs, such as mails and webhooks.
    NoDriver,
    /// The disks of all workers with browsers are nearly full.
    NoRoom,
}

impl WorkerStatus {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;
}

pub async fn best_status(conn: &mut PgConnection) -> sqlx::Result<Option<WorkerStatus>> {
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

pub const STATUSES: [&str; 4] = ["active", "draining", "stopped", "lost"];

/// A worker with an expired lease counts as lost, even if it was not declared lost yet. Stopped and lost workers count
/// for 1 h.
pub async fn count_by_status(conn: &mut PgConnection) -> sqlx::Result<[(&'static str, i64); 4]> {
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

#[derive(Debug)]
pub struct Slots {
    pub all: i64,
    pub free: i64,
}

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

/// Workers and their slots, as staff see them.
#[derive(Debug)]
pub struct Capacity {
    /// Workers that receive sessions.
    pub active: i64,
    pub draining: i64,
    /// Workers whose lease has expired, but that were not declared lost yet.
    pub silent: i64,
    pub slots: i64,
    pub free_slots: i64,
    /// Slots of the active worker that has the most.
    pub largest_worker_slots: i64,
}

pub async fn capacity(conn: &mut PgConnection) -> sqlx::Result<Capacity> {
    sqlx::query_as!(
        Capacity,
        r#"with live as (
               select id, status, has_room, last_seen_at > now() - make_interval(secs => $1) as heard,
                      case driver when 'none' then 0 else max_sessions end as max_sessions
               from workers where status in ('active', 'draining')
           )
           select count(*) filter (where heard and status = 'active') as "active!",
                  count(*) filter (where heard and status = 'draining') as "draining!",
                  count(*) filter (where not heard) as "silent!",
                  coalesce(sum(max_sessions) filter (where heard and status = 'active'), 0)::bigint as "slots!",
                  coalesce(max(max_sessions) filter (where heard and status = 'active'), 0)::bigint as "largest_worker_slots!",
                  (select count(*) from worker_slots s join live w on w.id = s.worker_id
                   where s.session_id is null and w.status = 'active' and w.heard and w.has_room) as "free_slots!"
           from live"#,
        LEASE.as_secs_f64(),
    )
    .fetch_one(conn)
    .await
}

/// What depends on a worker.
#[derive(Debug)]
pub struct Impact {
    pub creating_sessions: i64,
    pub ready_sessions: i64,
    pub busy_sessions: i64,
    /// Live sessions that save a profile at their end.
    pub unsaved_profiles: i64,
    pub agent_sessions: i64,
    /// Free slots of the other workers.
    pub free_slots_elsewhere: i64,
}

/// `None` when there is no such worker.
pub async fn impact(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<Option<Impact>> {
    sqlx::query_as!(
        Impact,
        r#"select count(*) filter (where s.status = 'creating') as "creating_sessions!",
                  count(*) filter (where s.status = 'ready') as "ready_sessions!",
                  count(*) filter (where s.status = 'busy') as "busy_sessions!",
                  count(*) filter (where s.profile_in_hand) as "unsaved_profiles!",
                  count(a.id) as "agent_sessions!",
                  (select count(*) from worker_slots l join workers o on o.id = l.worker_id
                   where l.session_id is null and o.id <> w.id and o.status = 'active' and o.has_room
                     and o.last_seen_at > now() - make_interval(secs => $2)) as "free_slots_elsewhere!"
           from workers w
                left join sessions s on s.worker_id = w.id and s.live
                left join agent_sessions a on a.session_id = s.id
           where w.id = $1 group by w.id"#,
        id as _,
        LEASE.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlotReason {
    Slots,
    /// The lease of a worker has expired, but it was not declared lost yet.
    News,
    Workers,
}

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

/// Workers that stopped, and workers that have been lost for `patience` and have sessions in the state `ready`.
pub async fn dead_with_sessions(conn: &mut PgConnection, patience: Duration) -> sqlx::Result<Vec<DeadWorker>> {
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

#[derive(Debug)]
pub struct DeadWorker {
    pub id: WorkerId,
    /// False when it stopped.
    pub was_lost: bool,
}

/// Deletes workers that ended longer ago than `age` and have neither live sessions nor state to save.
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

/// The worker's machine knows that it has ended. Returns true when it was alive.
pub async fn declare_lost_one(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<bool> {
    let lost =
        sqlx::query!("update workers set status = 'lost' where id = $1 and status in ('active', 'draining')", id as _,)
            .execute(conn)
            .await?;
    Ok(lost.rows_affected() == 1)
}

/// The newest first; with `all` also those that are not live.
pub async fn list(conn: &mut PgConnection, all: bool) -> sqlx::Result<Vec<Worker>> {
    list_before(conn, all, None, 1_000).await
}

pub async fn list_before(
    conn: &mut PgConnection,
    all: bool,
    before: Option<WorkerId>,
    limit: i64,
) -> sqlx::Result<Vec<Worker>> {
    sqlx::query_as!(
        Worker,
        r#"select w.id, w.name, w.status, w.driver as "driver: _", w.max_sessions, w.started_at, w.last_seen_at, w.drain_by,
                  w.drain_began_at, w.drain_sessions, w.version, w.is_sandboxed, w.free_disk_bytes, w.free_memory_bytes, w.hot_browsers, w.processor_load,
                  extract(epoch from now() - w.last_seen_at)::float8 as "lease_age_seconds!",
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

pub async fn find(conn: &mut PgConnection, id: WorkerId) -> sqlx::Result<Option<Worker>> {
    sqlx::query_as!(
        Worker,
        r#"select w.id, w.name, w.status, w.driver as "driver: _", w.max_sessions, w.started_at, w.last_seen_at, w.drain_by,
                  w.drain_began_at, w.drain_sessions, w.version, w.is_sandboxed, w.free_disk_bytes, w.free_memory_bytes, w.hot_browsers, w.processor_load,
                  extract(epoch from now() - w.last_seen_at)::float8 as "lease_age_seconds!",
                  (select count(*) from sessions s
                   where s.worker_id = w.id and s.live) as "live_sessions!"
           from workers w where w.id = $1"#,
        id as _,
    )
    .fetch_optional(conn)
    .await
}
