//! A requeue of 100,000 dead letters: its effect on deliveries of other accounts, and its progress.
//!
//! Beside it, the dead letters of another account are requeued, whose endpoint takes nine seconds for each request.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use uuid::Uuid;

use crate::Result;
use crate::report::{self, Samples};
use crate::service::{Client, Service};
use crate::webhooks::{Sink, database, start, write};

const DEAD_LETTERS: i32 = 100_000;
/// Of the endpoint that takes long for each request.
const SLOW_DEAD_LETTERS: i32 = 1_000;
/// Deliveries that count as requeued and delivered from the start: a count of the outcome takes as long as at the end.
const DELIVERED_BEFORE: i32 = 90_000;
/// Accounts whose deliveries are measured, and their events per second.
const OTHERS: (usize, u32) = (8, 200);
/// Turns without and with the requeue, and the seconds of each.
const TURNS: (usize, u32) = (8, 6);
/// As the staff board does.
const POLL: Duration = Duration::from_secs(1);
/// A paused requeue begins again when its scheduled job is due.
const PATIENCE: Duration = Duration::from_secs(20);
const REASON: &str = "their server is back";
const REQUEUES: &str = "/v1/admin/webhook-deliveries/requeues";

pub async fn run() -> Result<()> {
    let (sink, service) = start(("RATE_LIMITS__CREDENTIAL_PER_MINUTE", "10000000")).await?;
    let bench = Bench { db: database(&service).await?, staff: service.staff()?, service, sink };
    let mut others = Vec::new();
    for other in 0..OTHERS.0 {
        others.push(bench.account(&format!("other-{other}"), "/other").await?.0);
    }
    let requeues =
        [bench.requeue("fast", "/fast", DEAD_LETTERS).await?, bench.requeue("slow", "/slow", SLOW_DEAD_LETTERS).await?];
    bench.deliver_before(&requeues[0]).await?;

    report::heading(&format!(
        "{} events a second of {} other accounts: from commit to receipt, in milliseconds",
        OTHERS.1, OTHERS.0
    ));
    // The first deliveries open connections and plan statements.
    bench.even_load(&others, OTHERS.1 * 3).await?;
    let (mut alone, mut beside) = (Load::default(), Load::default());
    let (mut alone_p99, mut beside_p99) = (Vec::new(), Vec::new());
    let mut progress = Progress::default();
    // Alternates, because the machine's speed drifts.
    for _ in 0..TURNS.0 {
        let turn = bench.even_load(&others, OTHERS.1 * TURNS.1).await?;
        alone_p99.push(turn.receipts.quantile(0.99));
        alone.extend(turn);
        bench.resume(&requeues).await?;
        let watched = bench.watch(&requeues[0]);
        let (turn, watched) = tokio::join!(bench.even_load(&others, OTHERS.1 * TURNS.1), watched);
        let turn = turn?;
        beside_p99.push(turn.receipts.quantile(0.99));
        beside.extend(turn);
        progress.extend(watched?);
        bench.pause(&requeues).await?;
    }
    report::durations("without a requeue", &alone.receipts, None, None);
    report::durations("beside a requeue", &beside.receipts, None, None);
    report::durations("commit of an event without a requeue", &alone.commits, None, None);
    report::durations("commit of an event beside a requeue", &beside.commits, None, None);
    let change = |one: f64, other: f64| (other / one - 1.0) * 100.0;
    let of_turns = change(median(&mut alone_p99), median(&mut beside_p99));
    report::figure("change of the median p99 of the turns", of_turns, "%", "no bound", true);
    let moved = change(alone.receipts.quantile(0.99), beside.receipts.quantile(0.99));
    let is_harmless = moved < 10.0;
    report::figure("change of the p99", moved, "%", "< 10 %", is_harmless);

    let rate = progress.grown_by / progress.seconds;
    report::figure("requeued", rate, "/s", "no bound", true);
    report::figure("  so that 100,000 take", f64::from(DEAD_LETTERS) / rate / 60.0, "min", "no bound", true);
    let reports = progress.reports / progress.seconds;
    let is_shown = reports >= 0.95;
    report::figure("reports of further progress, polled each second", reports, "/s", "≥ 0.95", is_shown);
    report::durations("  a poll of the progress", &progress.polls, None, None);
    let slow = bench.progress(&requeues[1]).await?;
    report::figure("requeued to the slow endpoint", number(&slow, "requeued")?, "deliveries", "no bound", true);
    if is_harmless && is_shown { Ok(()) } else { Err("a requeue misses its goals".into()) }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn number(row: &Value, name: &str) -> Result<f64> {
    row[name].as_f64().ok_or_else(|| format!("{row} has no {name}").into())
}

/// Times from an event's commit to its receipt, and of its commit.
#[derive(Default)]
struct Load {
    receipts: Samples,
    commits: Samples,
}

impl Load {
    fn extend(&mut self, other: Self) {
        self.receipts.extend(other.receipts);
        self.commits.extend(other.commits);
    }
}

/// Of a requeue, as a page that polls it sees it.
#[derive(Default)]
struct Progress {
    seconds: f64,
    grown_by: f64,
    /// Polls that saw more than the one before.
    reports: f64,
    polls: Samples,
}

impl Progress {
    fn extend(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.grown_by += other.grown_by;
        self.reports += other.reports;
        self.polls.extend(other.polls);
    }
}

struct Bench {
    service: Service,
    staff: Client,
    db: PgPool,
    sink: Sink,
}

impl Bench {
    /// Returns it and its endpoint.
    async fn account(&self, name: &str, path: &str) -> Result<(Uuid, Uuid)> {
        self.service.client(name)?.listen(&self.sink.url(path), "session.failed").await?;
        let made = sqlx::query_as("select account_id, id from webhook_endpoints order by id desc limit 1");
        Ok(made.fetch_one(&self.db).await?)
    }

    /// Begins a requeue of dead letters from an hour ago, and pauses it. Returns its id.
    async fn requeue(&self, name: &str, path: &str, count: i32) -> Result<String> {
        let (account, endpoint) = self.account(name, path).await?;
        self.insert(account, endpoint, count, "dlq", None).await?;
        let body = json!({"account_id": format!("acc_{account}"), "reason": REASON});
        let begun = self.staff.post("/v1/admin/webhook-deliveries/requeue", body).await?.body;
        let id = begun["id"].as_str().ok_or("a requeue without an id")?.to_owned();
        self.change(&id, "pause").await?;
        Ok(id)
    }

    /// All are of one event, whose row the fan-out does not see.
    async fn insert(
        &self,
        account: Uuid,
        endpoint: Uuid,
        count: i32,
        status: &str,
        requeue: Option<Uuid>,
    ) -> Result<()> {
        let mut tx = self.db.begin().await?;
        sqlx::query("set local session_replication_role = replica").execute(&mut *tx).await?;
        sqlx::query(
            "with event as (
                 insert into events (id, account_id, type, data)
                 values (uuid_v7(), $1, 'session.failed', jsonb_build_object('session_id', $1, 'reason', 'unknown DriverError'))
                 returning id
             )
             insert into webhook_deliveries
                 (id, account_id, endpoint_id, event_id, event_type, status, attempts, next_attempt_at, due, last_response_status,
                  created_at, updated_at, requeue_id)
             select uuid_v7(), $1, $2, event.id, 'session.failed', $4, 6, null, false, 503, now() - interval '1 hour',
                    now() - interval '1 hour', $5
             from event, generate_series(1, $3)",
        )
        .bind(account)
        .bind(endpoint)
        .bind(count)
        .bind(status)
        .bind(requeue)
        .execute(&mut *tx)
        .await?;
        let dead = "update webhook_endpoints set dlq = dlq + $2 where id = $1";
        if status == "dlq" {
            sqlx::query(dead).bind(endpoint).bind(i64::from(count)).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        sqlx::raw_sql("vacuum analyze webhook_deliveries").execute(&self.db).await?;
        Ok(())
    }

    async fn deliver_before(&self, requeue: &str) -> Result<()> {
        let id: Uuid = requeue.trim_start_matches("rqu_").parse()?;
        let (account, endpoint) = sqlx::query_as(
            "select r.account_id, e.id from delivery_requeues r join webhook_endpoints e on e.account_id = r.account_id
             where r.id = $1",
        )
        .bind(id)
        .fetch_one(&self.db)
        .await?;
        self.insert(account, endpoint, DELIVERED_BEFORE, "delivered", Some(id)).await
    }

    async fn change(&self, requeue: &str, change: &str) -> Result<()> {
        self.staff.post(&format!("{REQUEUES}/{requeue}/{change}"), json!({"reason": REASON})).await.map(drop)
    }

    async fn progress(&self, requeue: &str) -> Result<Value> {
        Ok(self.staff.get(&format!("{REQUEUES}/{requeue}")).await?.body)
    }

    /// Waits until the first one goes on.
    async fn resume(&self, requeues: &[String; 2]) -> Result<()> {
        let before = number(&self.progress(&requeues[0]).await?, "requeued")?;
        for requeue in requeues {
            self.change(requeue, "resume").await?;
        }
        let deadline = Instant::now() + PATIENCE;
        while number(&self.progress(&requeues[0]).await?, "requeued")? <= before {
            if Instant::now() > deadline {
                return Err("a resumed requeue does not go on".into());
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Waits until no delivery of the first one is under way.
    async fn pause(&self, requeues: &[String; 2]) -> Result<()> {
        for requeue in requeues {
            self.change(requeue, "pause").await?;
        }
        let id: Uuid = requeues[0].trim_start_matches("rqu_").parse()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let waiting: i64 = sqlx::query_scalar(
                "select count(*) from webhook_deliveries where requeue_id = $1 and status in ('pending', 'in_flight')",
            )
            .bind(id)
            .fetch_one(&self.db)
            .await?;
            if waiting == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err("requeued deliveries do not arrive".into());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Polls for the time of a turn.
    async fn watch(&self, requeue: &str) -> Result<Progress> {
        let mut progress = Progress { seconds: (POLL * TURNS.1).as_secs_f64(), ..Progress::default() };
        let first = number(&self.progress(requeue).await?, "requeued")?;
        let (mut last, mut tick) = (first, interval(POLL));
        tick.tick().await;
        for _ in 0..TURNS.1 {
            tick.tick().await;
            let answer = self.staff.get(&format!("{REQUEUES}/{requeue}")).await?;
            progress.polls.push(answer.total);
            let now = number(&answer.body, "requeued")?;
            progress.reports += f64::from(u8::from(now > last));
            last = now;
        }
        progress.grown_by = last - first;
        Ok(progress)
    }

    /// At a fixed rate, regardless of how long each event takes, with the accounts in turn.
    async fn even_load(&self, accounts: &[Uuid], events: u32) -> Result<Load> {
        let (mut tick, mut writes) = (interval(Duration::from_secs(1) / OTHERS.1), JoinSet::new());
        for (_, account) in (0..events).zip(accounts.iter().copied().cycle()) {
            tick.tick().await;
            let db = self.db.clone();
            writes.spawn(async move {
                let began = Instant::now();
                Result::Ok((write(&db, account).await?, began, Instant::now()))
            });
        }
        let (mut load, mut committed) = (Load::default(), HashMap::new());
        while let Some(written) = writes.join_next().await {
            let (event, began, at) = written??;
            load.commits.push(at - began);
            committed.insert(event, at);
        }
        let received = self.sink.until_all(&committed.keys().copied().collect::<Vec<_>>()).await?;
        for (event, at) in committed {
            load.receipts.push(received[&event].saturating_duration_since(at));
        }
        Ok(load)
    }
}
