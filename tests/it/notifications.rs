//! Notifications of an account, as a list and as an event stream (contract: notifications).

use std::time::{Duration, Instant};

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{App, Client, Role, assert_timestamp, at_once, eventually, members};

const LIST: &str = "/v1/account/notifications";
const STREAM: &str = "/v1/account/notifications/stream";
/// For a notification or the end of a stream, on a busy machine.
const SOON: Duration = Duration::from_secs(15);

struct Stream {
    response: Response,
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Message {
    id: i64,
    event: String,
    data: Value,
}

impl Client {
    async fn open(&self, last: Option<&str>) -> Response {
        let request = self.request(Method::GET, STREAM);
        let request = match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        };
        request.send().await.expect("an answer")
    }

    async fn follow(&self) -> Stream {
        Stream::of(self.open(None).await)
    }

    async fn resume(&self, last: &str) -> Stream {
        Stream::of(self.open(Some(last)).await)
    }

    async fn notified(&self) -> Vec<(String, Value)> {
        let page = self.get(&format!("{LIST}?limit=100")).await.expect(200).body;
        let listed = page["data"].as_array().expect("a list").iter().rev();
        listed.map(|entry| (entry["event"].as_str().expect("an event").to_owned(), entry["data"].clone())).collect()
    }
}

impl Stream {
    fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// `None` at the end of the stream.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(block);
            }
            let chunk = timeout(SOON + Duration::from_secs(5), self.response.chunk())
                .await
                .expect("the stream continues or ends");
            self.text += std::str::from_utf8(&chunk.ok()??).expect("UTF-8");
        }
    }

    async fn next(&mut self) -> Option<Message> {
        loop {
            let block = self.block().await?;
            if block.starts_with(':') {
                continue;
            }
            let field = |name: &str| {
                let mut lines = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                lines.next().unwrap_or_else(|| panic!("no {name} in {block:?}")).trim_start().to_owned()
            };
            let id = field("id").parse().expect("a number");
            let data = serde_json::from_str(&field("data")).expect("JSON");
            return Some(Message { id, event: field("event"), data });
        }
    }

    async fn take(&mut self, count: usize) -> Vec<Message> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.push(self.next().await.expect("the stream continues"));
        }
        taken
    }

    async fn ends(mut self) {
        while self.next().await.is_some() {}
    }
}

fn moment() -> Value {
    json!({"condition": {"kind": "time", "ms": 1}})
}

fn events(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.event.as_str()).collect()
}

fn assert_rising(messages: &[Message]) {
    assert!(messages.is_sorted_by(|one, next| one.id < next.id), "{messages:?}");
}

impl App {
    /// Without a NOTIFY.
    async fn insert_silently(&self, account: AccountId) {
        let insert = "insert into notifications (account_id, event, data) values ($1, 'silent', '{}')";
        self.execute(insert, account.as_uuid()).await;
    }

    async fn streams(&self) -> i64 {
        self.count("select count(*) from notification_streams where until > now()").await
    }
}

/// Contract: notifications 1 to 4, 8. The list has the same events.
#[tokio::test]
async fn session_events_are_streamed_in_order() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let reader = app.client_of(account, &["read"]).await;
    let mut stream = reader.follow().await;
    let session = client.session().await;
    client.operate(&session, "wait", moment()).await.expect(200);
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let messages = stream.take(5).await;
    let life = ["session.created", "session.ready", "operation.started", "operation.ended", "session.completed"];
    assert_eq!(events(&messages), life);
    assert_rising(&messages);
    assert!(messages.iter().all(|message| message.data["session_id"] == session), "{messages:?}");
    assert_eq!(messages[2].data, json!({"session_id": session, "operation": "wait"}));
    assert_eq!(messages[3].data, json!({"session_id": session, "operation": "wait", "outcome": "done"}));
    assert!(messages[4].data["duration_ms"].is_u64());

    let (mut listed, mut path) = (Vec::new(), format!("{LIST}?limit=2"));
    loop {
        let page = reader.get(&path).await.expect(200).body;
        listed.extend(page["data"].as_array().expect("a list").clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{LIST}?limit=2&cursor={cursor}");
    }
    for (message, entry) in messages.iter().rev().zip(&listed) {
        assert_eq!(members(entry), ["created_at", "data", "event", "id"].into());
        assert_timestamp(&entry["created_at"]);
        assert_eq!(entry["id"], message.id.to_string());
        assert_eq!((&entry["event"], &entry["data"]), (&json!(message.event), &message.data));
    }
    assert_eq!(listed.len(), messages.len());
    app.stop().await;
}

/// Contract: notifications 2. They contain nothing that a caller typed.
#[tokio::test]
async fn agents_webhooks_and_failures_create_notifications() {
    let app =
        App::simulated().set("webhooks.auto_disable_after", "1").set("webhooks.retry_schedule", "[]").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    client.get(LIST).await.expect(200);
    let agent = client.post("/v1/agent-sessions", json!({"mode": "pair"})).await.expect(201).body;
    let path = format!("/v1/agent-sessions/{}", agent["id"].as_str().expect("an id"));
    client.post(&format!("{path}/message"), json!({"message": "type 'hunter2' into the 'Password' field"})).await;
    client.post(&format!("{path}/takeover"), json!({"client_id": "ada"})).await.expect(200);
    client.post(&format!("{path}/heartbeat"), json!({"client_id": "ada"})).await.expect(200);
    client.post(&format!("{path}/handback"), json!({"client_id": "ada"})).await.expect(200);
    client.delete(&path).await.expect(204);
    let messages = client.notified().await;
    let changes = messages.iter().filter(|(event, _)| event == "agent_session.changed");
    let changes: Vec<_> = changes.map(|(_, data)| (data["control"].clone(), data["status"].clone())).collect();
    let change = |control: &str, status: &str| (json!(control), json!(status));
    assert_eq!(
        changes,
        [change("ai", "active"), change("human", "active"), change("ai", "active"), change("ai", "closed")],
    );
    let turns: Vec<_> = messages.iter().filter(|(event, _)| event == "agent_turn.completed").collect();
    assert_eq!(turns.len(), 1);
    assert_eq!(members(&turns[0].1), ["agent_session_id", "kind", "tokens_used", "turn_id"].into());
    assert_eq!(turns[0].1["agent_session_id"], agent["id"]);
    assert!(!format!("{messages:?}").contains("hunter2"));

    let disable = "insert into webhook_endpoints (id, account_id, url, events, sealed_secret, secret_prefix)
                   values (gen_random_uuid(), $1, 'https://example.com', '{session.failed}', '', 'whsec')";
    app.execute(disable, account.as_uuid()).await;
    app.execute(
        "update webhook_endpoints set disabled_at = now(), consecutive_failures = 50 where account_id = $1",
        account.as_uuid(),
    )
    .await;
    let (event, data) = client.notified().await.pop().expect("some");
    assert_eq!((event.as_str(), &data["consecutive_failures"]), ("webhook_endpoint.disabled", &json!(50)));

    let session = client.session().await;
    let late = json!({"condition": {"kind": "time", "ms": 30_000}, "timeout_ms": 100});
    client.operate(&session, "wait", late).await.problem(504, "session-timeout");
    let messages = client.notified().await;
    let last = |wanted: &str| messages.iter().rev().find(|(event, _)| event == wanted).map(|(_, data)| data.clone());
    let ended = json!({"session_id": session, "operation": "wait", "outcome": "failed"});
    assert_eq!(last("operation.ended"), Some(ended), "{messages:?}");
    let failed = last("session.failed").expect("the session failed");
    assert_eq!((&failed["session_id"], &failed["error_name"]), (&json!(session), &json!("SessionTimeoutError")));
    app.stop().await;
}

/// Contract: notifications 3, 5, 6, 7. An id that is not a number, belongs to another account or is too old is answered with
/// `reset`, from which the client can continue.
#[tokio::test]
async fn reconnected_stream_continues_after_its_last_event() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let mut stream = client.follow().await;
    let session = client.session().await;
    let last = stream.take(2).await.pop().expect("two").id;
    drop(stream);
    eventually(SOON, "the stream is released", async || (app.streams().await == 0).then_some(())).await;
    for _ in 0..100 {
        client.operate(&session, "wait", moment()).await.expect(200);
    }
    let mut stream = client.resume(&last.to_string()).await;
    let missed = stream.take(200).await;
    assert_rising(&missed);
    assert!(missed[0].id > last);
    for (nth, message) in missed.iter().enumerate() {
        assert_eq!(message.event, ["operation.started", "operation.ended"][nth % 2]);
    }
    let highest = missed.last().expect("some").id;
    let mut at_the_end = client.resume(&highest.to_string()).await;
    let by_query = client.request(Method::GET, &format!("{STREAM}?last_event_id={}", highest - 1)).send().await;
    assert_eq!(Stream::of(by_query.expect("an answer")).next().await.expect("one").id, highest);
    client.operate(&session, "wait", moment()).await.expect(200);
    assert_eq!(events(&at_the_end.take(2).await), ["operation.started", "operation.ended"]);
    let highest = stream.take(2).await[1].id;

    let other = app.client().await;
    let mut theirs = other.follow().await;
    other.session().await;
    let another = theirs.next().await.expect("one").id;
    let bad = ["", "x", "-1", "0", "007", "1e3", "99999999999999999999", "ntf_1"].map(str::to_owned);
    for last in bad.into_iter().chain([another.to_string(), (highest + 1).to_string(), format!("0{highest}")]) {
        let mut reset = client.resume(&last).await;
        assert_eq!(
            reset.next().await,
            Some(Message { id: highest, event: "reset".to_owned(), data: json!({}) }),
            "{last}"
        );
    }
    let mut reset = client.resume("x").await;
    client.operate(&session, "wait", moment()).await.expect(200);
    let after = reset.take(3).await;
    assert_eq!(events(&after), ["reset", "operation.started", "operation.ended"]);
    assert_eq!(client.resume(&highest.to_string()).await.take(2).await, after[1..]);

    // First some notifications after the id have expired, then the account had no reader for a day.
    let age = "update notifications set created_at = created_at - interval '25 hours' where account_id = $1";
    app.execute(age, account.as_uuid()).await;
    assert_eq!(client.resume(&highest.to_string()).await.next().await.expect("one").event, "reset");
    assert_eq!(client.get(LIST).await.expect(200).body["data"], json!([]));
    app.execute("update notification_readers set until = now() where account_id = $1", account.as_uuid()).await;
    let lapsed = client.resume(&after[2].id.to_string()).await.next().await.expect("one");
    assert_eq!((lapsed.id, lapsed.event.as_str()), (after[2].id, "reset"));
    app.stop().await;
}

/// Contract: notifications 3, 12. The number of a late one is higher.
#[tokio::test]
async fn late_commits_are_not_skipped() {
    let app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let mut stream = client.follow().await;
    let mut late = app.database.pool.begin().await.expect("a transaction");
    sqlx::query("select write_notification($1, 'late', '{}')")
        .bind(account.as_uuid())
        .execute(&mut *late)
        .await
        .expect("a notification");
    client.session().await;
    let early = stream.take(2).await;
    late.commit().await.expect("a commit");
    let late_message = stream.next().await.expect("the late notification");
    assert_eq!(late_message.event, "late");
    assert!(late_message.id > early[1].id);
    app.insert_silently(account).await;
    assert_eq!(stream.next().await.expect("the silent notification").event, "silent");

    // Operations that end concurrently are each streamed once to every reader.
    let mut others = [client.follow().await, client.resume(&late_message.id.to_string()).await];
    assert_eq!(others[1].next().await.expect("one").event, "silent");
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(client.session().await);
    }
    at_once(sessions.into_iter().map(|session| {
        let client = client.clone();
        async move {
            for _ in 0..25 {
                client.operate(&session, "wait", moment()).await.expect(200);
            }
        }
    }))
    .await;
    let all = stream.take(4 * 2 + 200).await;
    assert_rising(&all);
    assert_eq!(all.iter().filter(|message| message.event == "operation.ended").count(), 100);
    for other in &mut others {
        assert_eq!(other.take(all.len()).await, all);
    }
    app.stop().await;
}

/// Contract: notifications 9. A closed stream frees its place.
#[tokio::test]
async fn streams_beyond_the_limit_are_429() {
    let app = App::simulated().set("server.max_connections_per_address", "128").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let opened = at_once((0..64).map(|_| {
        let client = client.clone();
        async move { client.open(None).await }
    }))
    .await;
    let (mut open, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(|answer| answer.status() == 200);
    assert_eq!((open.len(), refused.len()), (16, 48));
    for answer in refused {
        assert_eq!(answer.status(), 429);
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!((&body["title"], &body["limit"]), (&json!("ConcurrencyLimit"), &json!(16)));
    }
    // The limit is per account.
    let _other = app.client().await.follow().await;
    open.pop();
    eventually(SOON, "a stream can be opened", async || (client.open(None).await.status() == 200).then_some(())).await;
    app.stop().await;
}

/// Contract: notifications 10, 11. A member can follow the owner's account.
#[tokio::test]
async fn stream_ends_with_its_credential_or_membership() {
    let app = App::simulated().start().await;
    let owner = app.person(Tier::Enterprise).await;
    let member = app.person(Tier::Enterprise).await;
    app.join_team(owner.account, member.account, "member").await;
    let as_member = async || {
        let request = member.client.request(Method::GET, STREAM).header("x-service-account", owner.account.to_string());
        request.send().await.expect("an answer")
    };
    let mut theirs = Stream::of(as_member().await);
    owner.client.session().await;
    assert_eq!(theirs.next().await.expect("one").event, "session.created");
    let key = app.client_of(owner.account, &["read"]).await;
    let (revoked, suspended) = (key.follow().await, owner.client.follow().await);
    app.client_of(owner.account, &["read:sessions"]).await.get(STREAM).await.problem(403, "forbidden");

    let keys = owner.client.get("/v1/api-keys").await.expect(200).body;
    let key = keys["data"].as_array().expect("a list")[1]["id"].as_str().expect("an id").to_owned();
    owner.client.delete(&format!("/v1/api-keys/{key}")).await.expect(204);
    revoked.ends().await;
    app.execute("delete from team_members where member_account_id = $1", member.account.as_uuid()).await;
    theirs.ends().await;
    assert_eq!(as_member().await.status(), 403);
    app.execute("update accounts set status = 'suspended' where id = $1", owner.account.as_uuid()).await;
    suspended.ends().await;
    eventually(SOON, "all streams are closed", async || (app.streams().await == 0).then_some(())).await;
    app.stop().await;
}

/// Contract: notifications 4, 11, 12. Comments keep it alive. Without a reader operations are not recorded.
#[tokio::test]
async fn idle_stream_is_kept_alive_until_shutdown() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.operate(&session, "wait", moment()).await.expect(200);
    assert_eq!(app.count("select count(*) from notifications where event like 'operation.%'").await, 0);
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let mut stream = client.follow().await;
    let opened = Instant::now();
    assert!(stream.block().await.expect("a comment").starts_with(':'));
    assert!((14..18).contains(&opened.elapsed().as_secs()), "{:?}", opened.elapsed());
    let stopping = Instant::now();
    let (ended, ()) = tokio::join!(stream.next(), app.stop());
    assert_eq!(ended, None);
    assert!(stopping.elapsed() < Duration::from_secs(8), "{:?}", stopping.elapsed());
}

/// Contract: notifications 12.
#[tokio::test]
async fn process_listens_only_while_it_has_a_stream() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    // The last statement of the connection that listens.
    let listening_did = async |last: &str| {
        let query = "select count(*) from pg_stat_activity where datname = current_database() and query like $1 || '%'";
        eventually(SOON, last, async || {
            let did: i64 = sqlx::query_scalar(query).bind(last).fetch_one(&app.database.pool).await.expect("an answer");
            (did == 1).then_some(())
        })
        .await;
    };
    for _ in 0..2 {
        let stream = client.follow().await;
        listening_did("LISTEN \"notifications\"").await;
        drop(stream);
        listening_did("UNLISTEN \"notifications\"").await;
    }
    app.stop().await;
}

/// Contract: notifications 11. Other streams are not delayed.
#[tokio::test]
async fn client_that_does_not_read_is_disconnected() {
    let app = App::simulated().set("server.write_timeout", "1s").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let stalled = client.follow().await;
    let mut reading = client.follow().await;
    let large = "select write_notification($1, 'large', json_build_object('filler', repeat('x', 200000)))
                 from generate_series(1, 200)";
    app.execute(large, account.as_uuid()).await;
    assert_eq!(reading.take(200).await.len(), 200);
    eventually(SOON, "the stalled stream is closed", async || (app.streams().await == 1).then_some(())).await;
    drop(stalled);
    app.stop().await;
}

/// Contract: notifications 9. Streams of all processes count.
#[tokio::test]
async fn streams_of_dead_process_count_until_lease_expires() {
    let app = App::simulated().set("notifications.max_streams", "2").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let elsewhere = "insert into notification_streams (id, account_id, until)
                     select gen_random_uuid(), account_id, now() + interval '3 s' from notification_readers";
    let mut stream = client.follow().await;
    sqlx::query(elsewhere).execute(&app.database.pool).await.expect("a stream");
    assert_eq!(client.open(None).await.status(), 429);
    let died = Instant::now();
    eventually(SOON, "the lease has expired", async || (client.open(None).await.status() == 200).then_some(())).await;
    assert!(died.elapsed() > Duration::from_secs(2));
    client.session().await;
    assert_eq!(events(&stream.take(2).await), ["session.created", "session.ready"]);
    app.stop().await;
}
