//! Usage counters (contract: usage).

use std::collections::BTreeSet;
use std::time::Duration;

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::Role;
use crate::support::records::uuid_of;
use crate::support::{App, Client, at_once, eventually, members};

const USAGE: &str = "/v1/usage";
const SERIES: &str = "/v1/usage/series";
const RECORDS: [&str; 6] = ["session_minute", "navigate", "interact", "wait", "state_capture", "screenshot_capture"];

const BEGAN: &str = "update sessions set created_at = now() - interval '150 seconds' where id = $1";
/// 90 s before the present UTC day.
const BEGAN_YESTERDAY: &str = "update sessions set created_at =
    date_trunc('day', now() at time zone 'utc') at time zone 'utc' - interval '90 seconds' where id = $1";

impl Client {
    async fn totals(&self) -> Value {
        self.get(USAGE).await.expect(200).body["totals"].clone()
    }

    async fn minutes(&self) -> i64 {
        self.totals().await["session_minute"].as_i64().expect("a number")
    }

    async fn buckets(&self, days: u32) -> Vec<Value> {
        let series = self.get(&format!("{SERIES}?days={days}")).await.expect(200).body;
        assert_eq!(members(&series), BTreeSet::from(["from_date", "to_date", "buckets"]));
        series["buckets"].as_array().expect("buckets").clone()
    }
}

impl App {
    /// Negative numbers of days are in the future.
    pub async fn count_usage(&self, account: AccountId, days_ago: i32, record: &str, slot: i16, count: i64) {
        sqlx::query(
            "insert into usage_counts (account_id, day, record, slot, count)
             values ($1, (now() at time zone 'utc')::date - $2, $3, $4, $5)",
        )
        .bind(account.as_uuid())
        .bind(days_ago)
        .bind(record)
        .bind(slot)
        .bind(count)
        .execute(&self.database.pool)
        .await
        .expect("a count");
    }

    async fn date(&self, days_ago: i32) -> String {
        sqlx::query_scalar("select ((now() at time zone 'utc')::date - $1)::text")
            .bind(days_ago)
            .fetch_one(&self.database.pool)
            .await
            .expect("a date")
    }

    /// Recorded session minutes, without those of live sessions.
    async fn minutes_recorded(&self, account: AccountId) -> i64 {
        sqlx::query_scalar(
            "select coalesce(sum(count), 0)::bigint from usage_counts where account_id = $1 and record = 'session_minute'",
        )
        .bind(account.as_uuid())
        .fetch_one(&self.database.pool)
        .await
        .expect("a sum")
    }
}

/// Contract: usage 1, 2, 4, 7. All six record types start at zero and every quota is null.
#[tokio::test]
async fn completed_operations_are_counted() {
    let app = App::simulated().start().await;
    let client = app.client_with(Tier::ApiScale, &["account_owner"]).await;
    let usage = client.get(USAGE).await.expect(200).body;
    assert_eq!(members(&usage), BTreeSet::from(["period_start", "period_end", "tier", "totals", "quotas"]));
    assert_eq!(usage["tier"], "api_scale");
    for record in RECORDS {
        assert_eq!((&usage["totals"][record], &usage["quotas"][record]), (&json!(0), &Value::Null));
    }
    assert_eq!((members(&usage["totals"]), members(&usage["quotas"])), (RECORDS.into(), RECORDS.into()));

    let session = client.session().await;
    let tap = json!({"action": {"kind": "tap", "selector": "#a"}});
    let instant = json!({"condition": {"kind": "time", "ms": 1}});
    let unmet = json!({"condition": {"kind": "time", "ms": 5_000}, "timeout_ms": 100, "on_timeout": "return"});
    let extract = json!({"extractions": [{"name": "a", "selector": "a", "type": "text"}]});
    client.navigate(&session, "https://example.com/").await;
    for (operation, body) in [
        ("interact", tap.clone()),
        ("interact", tap),
        ("interact", json!({"action": {"kind": "select", "selector": "select", "option": "a"}})),
        ("interact", json!({"action": {"kind": "back"}})),
        ("interact", json!({"action": {"kind": "reload"}})),
        ("snapshot", json!({})),
        ("wait", instant.clone()),
        ("wait", instant),
        ("wait", unmet),
        ("capture", json!({"kind": "screenshot"})),
        ("capture", json!({"kind": "dom_snapshot"})),
        ("capture", json!({"kind": "pdf"})),
        ("extract", extract),
    ] {
        client.operate(&session, operation, body).await.expect(200);
    }
    for _ in 0..4 {
        client.get(&format!("/v1/sessions/{session}/state")).await.expect(200);
    }
    client.operate(&session, "navigate", json!({"url": "ftp://x"})).await.expect(400);
    let late = json!({"condition": {"kind": "time", "ms": 5_000}, "timeout_ms": 100});
    client.operate(&session, "wait", late).await.expect(504);
    let totals = json!({
        "session_minute": 1, "navigate": 3, "interact": 3, "wait": 3, "state_capture": 4, "screenshot_capture": 1,
    });
    assert_eq!(client.totals().await, totals);
    assert_eq!(client.buckets(1).await[0]["totals"], json!({}), "the series excludes today");
    let other = app.client().await;
    assert_eq!(other.totals().await["navigate"], 0);
    app.stop().await;
}

/// Contract: usage 5. The statement that writes the outcome of an operation also counts it. No count is lost when many
/// operations end concurrently.
#[tokio::test]
async fn operations_are_counted_in_the_outcomes_transaction() {
    let app = App::simulated().set("worker.max_sessions", "64").start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;
    let together = "select count(*) from intents i join usage_counts u on u.xmin = i.xmin and u.cmin = i.cmin
                    where i.kind = 'navigate' and u.record = 'navigate'";
    assert_eq!(app.count(together).await, 1);

    let mut sessions = vec![session];
    for _ in 1..32 {
        sessions.push(client.session().await);
    }
    for _ in 0..4 {
        let navigations = sessions.clone().into_iter().map(|session| {
            let client = client.clone();
            async move { client.navigate(&session, "https://example.com/").await }
        });
        at_once(navigations).await;
    }
    assert_eq!(client.totals().await["navigate"], 1 + 4 * 32);
    assert_eq!(client.minutes().await, 32, "each session has started one minute");
    app.stop().await;
}

/// Contract: usage 1. `period_end` is the first instant of the next month.
#[tokio::test]
async fn summary_covers_the_utc_month() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::ApiBuilder).await;
    let client = app.client_of(account, &["read:usage"]).await;
    let days_into: i32 = sqlx::query_scalar("select extract(day from now() at time zone 'utc')::int - 1")
        .fetch_one(&app.database.pool)
        .await
        .expect("a number");
    app.count_usage(account, days_into, "navigate", 0, 5).await;
    app.count_usage(account, days_into, "navigate", 31, 7).await;
    app.count_usage(account, days_into + 1, "navigate", 0, 100).await;
    app.count_usage(account, days_into - 40, "navigate", 0, 1_000).await;
    let usage = client.get(USAGE).await.expect(200).body;
    assert_eq!(usage["totals"]["navigate"], 12);
    assert_eq!(usage["period_start"], format!("{}T00:00:00.000Z", app.date(days_into).await));
    let next: String = sqlx::query_scalar(
        "select to_char(date_trunc('month', now() at time zone 'utc') + interval '1 month', 'YYYY-MM-DD')",
    )
    .fetch_one(&app.database.pool)
    .await
    .expect("a date");
    assert_eq!(usage["period_end"], format!("{next}T00:00:00.000Z"));
    app.stop().await;
}

/// Contract: usage 2.
#[tokio::test]
async fn tier_change_does_not_change_counts() {
    let app = App::simulated().start().await;
    let person = app.person(Tier::ApiScale).await;
    let session = person.client.session().await;
    person.client.navigate(&session, "https://example.com/").await;
    app.count_usage(person.account, 0, "wait", 0, 7).await;
    app.count_usage(person.account, 1, "wait", 0, 5).await;
    let (before, yesterday) = (person.client.get(USAGE).await.expect(200).body, person.client.buckets(1).await);
    for tier in ["free", "enterprise", "api_starter"] {
        app.run(&["account", "set-tier", &person.account.to_string(), tier]).await.code(0);
        let after = person.client.get(USAGE).await.expect(200).body;
        assert_eq!(after["tier"], tier);
        for member in ["period_start", "period_end", "totals", "quotas"] {
            assert_eq!(after[member], before[member], "{member} on {tier}");
        }
        assert_eq!(person.client.buckets(1).await, yesterday);
    }
    person.client.navigate(&session, "https://example.com/").await;
    assert_eq!(person.client.totals().await["navigate"], 2, "the count continues");
    app.stop().await;
}

/// Contract: usage 3. The series has 30 days by default, 1 to 90 allowed.
#[tokio::test]
async fn series_ends_yesterday() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::ApiBuilder).await;
    let client = app.client_of(account, &["read:usage"]).await;
    for (days_ago, count) in [(-1, 1), (0, 2), (1, 4), (3, 8), (90, 16), (91, 32)] {
        app.count_usage(account, days_ago, "wait", 0, count).await;
    }
    app.count_usage(account, 3, "wait", 1, 8).await;
    app.count_usage(account, 3, "navigate", 1, 1).await;
    app.count_usage(account, 3, "interact", 1, 0).await;

    let buckets = client.buckets(90).await;
    assert_eq!(buckets.len(), 90);
    for (bucket, days_ago) in buckets.iter().zip((1..=90).rev()) {
        let totals = match days_ago {
            1 => json!({"wait": 4}),
            3 => json!({"navigate": 1, "wait": 16}),
            90 => json!({"wait": 16}),
            _ => json!({}),
        };
        assert_eq!(*bucket, json!({"date": app.date(days_ago).await, "totals": totals}));
    }
    for (query, days) in [("", 30), ("?days=1", 1), ("?days=30", 30), ("?days=90", 90)] {
        let series = client.get(&format!("{SERIES}{query}")).await.expect(200).body;
        assert_eq!(series["buckets"].as_array().map(Vec::len), usize::try_from(days).ok());
        let (from, to) = (app.date(days).await, app.date(1).await);
        assert_eq!((&series["from_date"], &series["to_date"]), (&json!(from), &json!(to)));
        assert_eq!((&series["buckets"][0]["date"], &series["from_date"]), (&json!(from), &json!(from)));
    }
    for days in ["0", "91", "-1", "x", "", "1.5", "%00", "99999999999999999999"] {
        client.get(&format!("{SERIES}?days={days}")).await.invalid("days");
    }
    app.stop().await;
}

/// Contract: limits 1.
#[tokio::test]
async fn series_length_is_configurable() {
    let app = App::simulated().set("limits.usage_days_max", "400").set("limits.usage_days_default", "7").start().await;
    let client = app.client().await;
    assert_eq!(client.buckets(400).await.len(), 400);
    let series = client.get(SERIES).await.expect(200).body;
    assert_eq!(series["buckets"].as_array().map(Vec::len), Some(7));
    client.get(&format!("{SERIES}?days=401")).await.invalid("days");
    app.stop().await;
}

/// Contract: usage 4.
#[tokio::test]
async fn session_minutes_count_when_they_start() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let first = client.session().await;
    assert_eq!(client.minutes().await, 1, "the first minute has started");
    app.execute(BEGAN, uuid_of(&first)).await;
    assert_eq!((client.minutes().await, app.minutes_recorded(account).await), (3, 0));
    client.delete(&format!("/v1/sessions/{first}")).await.expect(204);
    assert_eq!(
        (client.minutes().await, app.minutes_recorded(account).await),
        (3, 3),
        "ending the session does not change the count"
    );
    client.delete(&format!("/v1/sessions/{first}")).await.expect(204);
    assert_eq!(client.minutes().await, 3, "a session ends once");

    let second = client.session().await;
    app.execute(BEGAN_YESTERDAY, uuid_of(&second)).await;
    let yesterday = || async { client.buckets(1).await[0]["totals"].clone() };
    assert_eq!(yesterday().await, json!({"session_minute": 2}));
    client.delete(&format!("/v1/sessions/{second}")).await.expect(204);
    assert_eq!(yesterday().await, json!({"session_minute": 2}));

    // A session that was never ready had no browser and counts no minutes.
    let third = client.session().await;
    let before = client.minutes().await;
    app.execute(
        "update sessions set status = 'creating', operation_id = gen_random_uuid() where id = $1",
        uuid_of(&third),
    )
    .await;
    assert_eq!(client.minutes().await, before - 1);
    client.delete(&format!("/v1/sessions/{third}")).await.expect(204);
    assert_eq!(client.minutes().await, before - 1);
    app.stop().await;
}

/// Contract: usage 4.
#[tokio::test]
async fn every_session_end_records_its_minutes() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;

    let failed = client.session().await;
    app.execute(BEGAN, uuid_of(&failed)).await;
    let late = json!({"condition": {"kind": "time", "ms": 5_000}, "timeout_ms": 100});
    client.operate(&failed, "wait", late).await.expect(504);
    assert_eq!(app.minutes_recorded(account).await, 3, "a failed operation ended the session");

    let busy = client.session().await;
    app.execute(BEGAN, uuid_of(&busy)).await;
    let waiting = client.waiting(&busy, 30_000);
    app.busy(&busy).await;
    assert_eq!(client.minutes().await, 6, "the time of a wait counts");
    client.delete(&format!("/v1/sessions/{busy}")).await.expect(204);
    waiting.await.expect("an answer").expect(410);
    assert_eq!(app.minutes_recorded(account).await, 6, "the session was destroyed during an operation");

    let free = app.account(Tier::Free).await;
    let over = app.person(Tier::Free).await;
    let swept = over.client.session().await;
    let long_ago = "update sessions set created_at = now() - interval '20 minutes 30 seconds' where id = $1";
    app.execute(long_ago, uuid_of(&swept)).await;
    app.run(&["sweep", "free-tier"]).await.code(0);
    assert_eq!(
        (app.minutes_recorded(over.account).await, app.minutes_recorded(free).await),
        (21, 0),
        "the sweep ended the session"
    );

    for ends in ["suspended", "deleted"] {
        let person = app.person(Tier::SoloManual).await;
        let session = person.client.session().await;
        app.execute(BEGAN, uuid_of(&session)).await;
        if ends == "suspended" {
            app.run(&["account", "suspend", &person.account.to_string()]).await.code(0);
        } else {
            let confirm = json!({"confirm": "delete-account"});
            let request = person.client.request(Method::DELETE, "/v1/account/me").json(&confirm);
            person.client.send(request).await.expect(204);
        }
        assert_eq!(app.minutes_recorded(person.account).await, 3, "the account was {ends}");
    }

    let last = client.session().await;
    app.execute(BEGAN, uuid_of(&last)).await;
    app.signal(1, Signal::SIGTERM).await;
    eventually(Duration::from_secs(10), "the session is errored", async || {
        (app.status_of(&last).await == "errored").then_some(())
    })
    .await;
    assert_eq!((client.minutes().await, app.minutes_recorded(account).await), (9, 9), "the worker was stopped");
    app.stop().await;
}

/// At any position relative to midnight.
#[tokio::test]
async fn minutes_per_day_match_a_count_one_by_one() {
    let app = App::simulated().start().await;
    let wrong = "with lives as (
            select since, since + make_interval(secs => (random() * 4 * 86400)::int) + interval '1 microsecond' as until
            from (select timestamptz '2026-02-27 00:00:00Z' + make_interval(secs => random() * 3 * 86400) as since
                  from generate_series(1, 150)
                  union all
                  select timestamptz '2026-02-27 23:59:00Z' + make_interval(secs => n) from generate_series(0, 120) n) begun
        ), one_by_one as (
            select since, until, (minute at time zone 'utc')::date as day, count(*) as minutes
            from lives, generate_series(since, until - interval '1 microsecond', interval '1 minute') minute group by 1, 2, 3
        ), at_once as (
            select since, until, day, minutes from lives, session_minutes(since, until) where minutes > 0
        )
        select count(*) from ((table one_by_one except table at_once) union all (table at_once except table one_by_one)) d";
    assert_eq!(app.count(wrong).await, 0);
    app.stop().await;
}

/// Contract: usage 6.
#[tokio::test]
async fn member_reads_the_owners_usage() {
    let app = App::simulated().start().await;
    let owner = app.account(Tier::AgencyManual).await;
    let member = app.person(Tier::Free).await;
    app.count_usage(owner, 0, "navigate", 0, 3).await;
    app.count_usage(owner, 1, "navigate", 0, 4).await;
    app.join_team(owner, member.account, "member").await;
    let read = async |path: &str| {
        let request = member.client.request(Method::GET, path).header("x-service-account", owner.to_string());
        member.client.send(request).await.expect(200).body
    };
    let usage = read(USAGE).await;
    assert_eq!((&usage["tier"], usage["totals"]["navigate"].as_i64() >= Some(3)), (&json!("agency_manual"), true));
    assert_eq!(read(SERIES).await["buckets"][29]["totals"], json!({"navigate": 4}));
    let own = member.client.get(USAGE).await.expect(200).body;
    assert_eq!((&own["tier"], &own["totals"]["navigate"]), (&json!("free"), &json!(0)));

    for (scope, status) in [("read:usage", 200), ("read", 200), ("account_owner", 200), ("read:sessions", 403)] {
        let client = app.client_of(owner, &[scope]).await;
        client.get(USAGE).await.expect(status);
        client.get(SERIES).await.expect(status);
    }
    app.stop().await;
}

/// Contract: usage 8.
#[tokio::test]
async fn usage_is_broken_down() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let ended = client.session_with(json!({"label": "a"})).await;
    let live = client.session().await;
    for session in [&ended, &live] {
        client.navigate(session, "https://example.com/").await.expect(200);
    }
    client.delete(&format!("/v1/sessions/{ended}")).await.expect(204);
    let breakdown = async |by: &str| client.get(&format!("/v1/usage/breakdown?by={by}&days=1")).await.expect(200).body;
    assert_eq!(breakdown("label").await["data"], json!([]), "today does not count");

    // As if it were the next day.
    app.execute("update usage_breakdown set day = day - 1 where account_id = $1", account.as_uuid()).await;
    let shift = "update sessions set used = (select jsonb_object_agg((day::date - 1)::text, counts) from jsonb_each(used) u (day, counts))
                 where account_id = $1 and live";
    app.execute(shift, account.as_uuid()).await;
    let by_label = breakdown("label").await;
    let of = |key: Value| {
        by_label["data"].as_array().expect("parts").iter().find(|part| part["key"] == key).expect("a part")
    };
    assert_eq!(of(json!("a"))["totals"]["navigate"], 1);
    assert_eq!((&of(Value::Null)["totals"]["navigate"], &of(Value::Null)["label"]), (&json!(1), &Value::Null));
    let by_key = breakdown("api_key").await;
    assert_eq!(by_key["data"][0]["totals"]["navigate"], 2);
    assert!(by_key["data"][0]["key"].as_str().is_some_and(|key| key.starts_with("key_")));
    let by_archetype = breakdown("archetype").await;
    assert!(by_archetype["data"][0]["label"].is_string());
    client.get("/v1/usage/breakdown").await.invalid("by");
    client.get("/v1/usage/breakdown?by=none").await.invalid("by");
    app.stop().await;
}
