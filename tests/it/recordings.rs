//! Operations, timelines, recordings and traces (contract: recordings). The tests write recordings as a worker does.

mod faults;
mod reading;

use std::time::Duration;

use bytes::Bytes;
use kitfleet_domain::recordings::RecordingLimits;
use kitfleet_profiles::PlaceConfig;
use kitfleet_recording::events::{ConsoleEvent, ConsoleLevel, ConsoleSource, EventBody, Header, RequestEvent};
use kitfleet_recording::{Recorder, Recordings, RecordingsConfig};
use kitfleet_types::ids::{IntentId, OperationId, SessionId};
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use reqwest::header::{ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE};
use serde_json::{Value, json};

use crate::support::records::uuid_of;
use crate::support::s3::{S3, SECRET};
use crate::support::{App, Client, eventually};

const MIB: u64 = 1024 * 1024;

fn limits() -> RecordingLimits {
    RecordingLimits::default()
}

async fn recordings(app: &App, place: PlaceConfig, limits: RecordingLimits) -> Recordings {
    let config = RecordingsConfig { vault: None, place, limits };
    Recordings::new(app.database.pool.clone(), config).await.expect("recordings")
}

async fn recorder(app: &App, session: &str) -> Recorder {
    start(&recordings(app, PlaceConfig::Database, limits()).await, session)
}

fn start(recordings: &Recordings, session: &str) -> Recorder {
    let (recorder, task) = recordings.record(session_id(session), vec!["X-Shop".to_owned()]);
    tokio::spawn(task.run());
    recorder
}

fn session_id(session: &str) -> SessionId {
    session.parse().expect("an id")
}

fn console(text: &str) -> EventBody {
    let (level, source) = (ConsoleLevel::Log, ConsoleSource::Console);
    EventBody::Console(ConsoleEvent { level, source, text: text.to_owned(), url: None, line: None })
}

fn request(url: &str) -> EventBody {
    EventBody::Request(Box::new(RequestEvent {
        method: "GET".to_owned(),
        url: url.to_owned(),
        resource_type: "document".to_owned(),
        status: Some(200),
        duration_ms: Some(5),
        request_headers: vec![Header { name: "x-shop".to_owned(), value: "hunter2".to_owned() }],
        ..RequestEvent::default()
    }))
}

fn jpeg(bytes: usize) -> Bytes {
    Bytes::from(vec![0xd8; bytes])
}

fn of(session: &str, rest: &str) -> String {
    format!("/v1/sessions/{session}/{rest}")
}

async fn list(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).await.expect(200).body["data"].as_array().expect("a list").clone()
}

/// Of all pages.
async fn timeline(client: &Client, session: &str) -> Vec<Value> {
    let (mut events, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&of(session, &format!("timeline?limit=100{cursor}"))).await.expect(200).body;
        events.extend(page["data"].as_array().expect("a list").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return events,
        }
    }
}

fn lines(events: &[Value]) -> Vec<&str> {
    events.iter().filter(|event| event["type"] == "console").filter_map(|event| event["text"].as_str()).collect()
}

/// Of type `recording`.
fn changes(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["type"] == "recording").collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

/// Contract: recordings 1 to 5.
#[tokio::test]
async fn operations_are_listed_without_a_recording() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/?token=hunter2").await.expect(200);
    let typed = json!({"action": {"kind": "type", "selector": "#name", "text": "hunter2"}});
    client.operate(&session, "interact", typed).await.expect(200);
    let operations = list(&client, &of(&session, "operations")).await;
    let words: Vec<_> = operations.iter().filter_map(|operation| operation["description"].as_str()).collect();
    assert_eq!(words, ["Type into #name", "Navigate to https://example.com/?token=•••", "Open the browser"]);
    assert!(!json!(operations).to_string().contains("hunter2"));
    let newest = &operations[0];
    assert_eq!(
        (&newest["kind"], &newest["action"], &newest["outcome"]),
        (&json!("interact"), &json!("type"), &json!("done"))
    );
    assert_eq!((&newest["actor"]["type"], &newest["has_frames"]), (&json!("api_key"), &json!(false)));
    assert!(newest["id"].as_str().is_some_and(|id| id.starts_with("op_")) && newest["url"].is_string());
    let first = client.get(&of(&session, "operations?limit=1")).await.expect(200).body;
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = list(&client, &of(&session, &format!("operations?limit=1&cursor={cursor}"))).await;
    assert_eq!(second[0]["id"], operations[1]["id"]);
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    assert_eq!(list(&client, &of(&session, "operations")).await.len(), 3);
    app.stop().await;
}

/// Contract: recordings 9, 16, 21, 23 to 27.
#[tokio::test]
async fn recording_is_read_while_it_is_written_and_after_the_end() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    for path in ["timeline", "console", "requests"] {
        assert!(list(&client, &of(&session, path)).await.is_empty(), "{path}");
    }
    for path in ["frames/1", "har", "trace"] {
        client.get(&of(&session, path)).await.problem(404, "not-found");
    }
    let recorder = recorder(&app, &session).await;
    let operation = OperationId::from(IntentId::generate());
    recorder.append([console("https://a.example/?api_key=hunter2"), request("https://a.example/?token=hunter2")]);
    let frame = recorder.append_frame(Some(operation), 393, 659, jpeg(1_000)).expect("a number");
    recorder.flush().await;
    assert_eq!(types(&list(&client, &of(&session, "timeline")).await), ["console", "request", "frame"]);
    recorder.append([console("later")]);
    recorder.finish().await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);

    let events = list(&client, &of(&session, "timeline")).await;
    assert_eq!(types(&events), ["console", "request", "frame", "console"]);
    assert_eq!(
        events[2],
        json!({"seq": frame, "at": events[2]["at"], "type": "frame", "operation_id": operation, "width": 393, "height": 659})
    );
    assert!(!json!(events).to_string().contains("hunter2"));
    let lines = list(&client, &of(&session, "console?limit=1")).await;
    assert_eq!(lines.len(), 1);
    let expected = json!({"seq": 1, "at": lines[0]["at"], "level": "log", "source": "console", "text": "https://a.example/?api_key=•••", "url": null, "line": null});
    assert_eq!(lines[0], expected);
    assert_eq!(list(&client, &of(&session, "requests")).await[0]["url"], "https://a.example/?token=•••");

    let picture =
        client.request(Method::GET, &of(&session, &format!("frames/{frame}"))).send().await.expect("a picture");
    assert_eq!(
        (picture.status().as_u16(), &picture.headers()[CONTENT_TYPE]),
        (200, &"image/jpeg".parse().expect("a type"))
    );
    assert_eq!(picture.bytes().await.expect("bytes"), jpeg(1_000));
    client.get(&of(&session, "frames/1")).await.problem(404, "not-found");
    let har = client.get(&of(&session, "har")).await.expect(200).body;
    assert_eq!((&har["log"]["version"], har["log"]["entries"].as_array().map(Vec::len)), (&json!("1.2"), Some(1)));
    assert_eq!(har["log"]["entries"][0]["request"]["headers"][0]["value"], "•••");
    for format in ["", "?format=8", "?format=7"] {
        let trace =
            client.request(Method::GET, &of(&session, &format!("trace{format}"))).send().await.expect("a trace");
        assert_eq!(trace.headers()[CONTENT_TYPE], "application/zip");
        assert!(trace.bytes().await.expect("bytes").starts_with(b"PK\x03\x04"));
    }
    client.get(&of(&session, "trace?format=6")).await.invalid("format");
    let clear: i64 =
        sqlx::query_scalar("select count(*) from recording_segments where position('later'::bytea in content) > 0")
            .fetch_one(&app.database.pool)
            .await
            .expect("a count");
    assert_eq!(clear, 0);
    app.stop().await;
}

/// Contract: recordings 18.
#[tokio::test]
async fn recording_of_another_account_is_404() {
    let app = App::simulated().start().await;
    let (client, stranger) = (app.client().await, app.client().await);
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([console("a")]);
    recorder.finish().await;
    for path in ["operations", "timeline", "frames/1", "console", "requests", "har", "trace", "trace-links"] {
        stranger.get(&of(&session, path)).await.problem(404, "not-found");
    }
    stranger.delete(&of(&session, "recording")).await.problem(404, "not-found");
    stranger.post(&of(&session, "trace-links"), json!({})).await.problem(404, "not-found");
    assert_eq!(list(&client, &of(&session, "timeline")).await.len(), 1);
    app.stop().await;
}

/// Contract: recordings 22.
#[tokio::test]
async fn timeline_stream_ends_after_the_last_event() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([console("one"), console("two")]);
    recorder.flush().await;
    let follow = |since: &str| {
        let request = client.request(Method::GET, &of(&session, "timeline"));
        request.header(ACCEPT, "text/event-stream").header("last-event-id", since.to_owned()).send()
    };
    let (whole, rest) = (follow("0").await.expect("a stream"), follow("1").await.expect("a stream"));
    recorder.append([console("three")]);
    recorder.finish().await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let (whole, rest) = (whole.text().await.expect("events"), rest.text().await.expect("events"));
    let ids =
        |text: &str| text.lines().filter_map(|line| line.strip_prefix("id: ").map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(ids(&whole), ["1", "2", "3"], "{whole}");
    assert_eq!(ids(&rest), ["2", "3"], "{rest}");
    for text in [&whole, &rest] {
        assert!(text.contains("event: end"), "{text}");
    }
    app.stop().await;
}

/// Contract: recordings 31 to 36.
#[tokio::test]
async fn trace_link_ends_with_revocation_or_deletion() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    client.post(&of(&session, "trace-links"), json!({})).await.problem(404, "not-found");
    let recorder = recorder(&app, &session).await;
    recorder.append([console("a")]);
    recorder.finish().await;
    for bad in [59, 604_801] {
        client.post(&of(&session, "trace-links"), json!({"expires_in": bad})).await.invalid("expires_in");
    }
    let mut links = Vec::new();
    for _ in 0..2 {
        links.push(client.post(&of(&session, "trace-links"), json!({"expires_in": 60})).await.expect(201).body);
    }
    let download = async |link: &Value| {
        let url = link["url"].as_str().expect("an address");
        let path = &url[url.find("/traces/").expect("a path")..];
        app.stranger().request(Method::GET, path).send().await.expect("an answer")
    };
    let trace = download(&links[0]).await;
    assert_eq!(trace.status(), 200);
    assert_eq!(trace.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "https://trace.playwright.dev");
    assert!(trace.bytes().await.expect("bytes").starts_with(b"PK"));
    let listed = list(&client, &of(&session, "trace-links")).await;
    assert_eq!(listed.iter().map(|link| &link["id"]).collect::<Vec<_>>(), [&links[1]["id"], &links[0]["id"]]);
    assert!(listed[0].get("url").is_none());
    let path = format!("/v1/trace-links/{}", links[0]["id"].as_str().expect("an id"));
    client.delete(&path).await.expect(204);
    client.delete(&path).await.problem(404, "not-found");
    assert_eq!(download(&links[0]).await.status(), 404);
    assert_eq!(download(&links[1]).await.status(), 200);

    client.delete(&of(&session, "recording")).await.expect(204);
    assert_eq!(download(&links[1]).await.status(), 404);
    assert!(list(&client, &of(&session, "timeline")).await.is_empty());
    client.delete(&of(&session, "recording")).await.expect(204);
    for (action, count) in [("trace_link.created", 2), ("trace_link.revoked", 1), ("session.recording_deleted", 1)] {
        let rows = list(&client, &format!("/v1/account/audit-log?action={action}")).await;
        assert_eq!(rows.len(), count, "{action}");
    }
    assert_eq!(app.count("select count(*) from recording_segments").await, 0);
    app.stop().await;
}

/// Contract: recordings 20.
#[tokio::test]
async fn deleted_recording_of_a_live_session_does_not_begin_again() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([console("a")]);
    recorder.flush().await;
    client.delete(&of(&session, "recording")).await.expect(204);
    recorder.append([console("b")]);
    recorder.finish().await;
    assert!(list(&client, &of(&session, "timeline")).await.is_empty());
    app.stop().await;
}

/// Contract: recordings 13.
#[tokio::test]
async fn pictures_stop_at_the_quota_of_the_session() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let limits = RecordingLimits { session_bytes: MIB, ..limits() };
    let recorder = start(&recordings(&app, PlaceConfig::Database, limits).await, &session);
    let taken = (0..20).filter(|_| recorder.append_frame(None, 1, 1, jpeg(100_000)).is_some()).count();
    assert_eq!(taken, 10);
    assert!(!recorder.wants_pictures());
    recorder.append([console("after")]);
    recorder.finish().await;
    let events = list(&client, &of(&session, "timeline")).await;
    let stopped = events.iter().find(|event| event["type"] == "recording").expect("an event");
    assert_eq!((&stopped["state"], &stopped["reason"]), (&json!("stopped"), &json!("session_quota")));
    assert_eq!(events.last().map(|event| &event["text"]), Some(&json!("after")));
    app.stop().await;
}

/// Contract: recordings 14.
#[tokio::test]
async fn oldest_recordings_are_deleted_at_the_quota_of_the_account() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let limits = RecordingLimits { account_bytes: 5 * MIB / 2, ..limits() };
    let recordings = recordings(&app, PlaceConfig::Database, limits).await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let session = client.session().await;
        let recorder = start(&recordings, &session);
        for _ in 0..10 {
            recorder.append_frame(None, 1, 1, jpeg(100_000)).expect("a number");
        }
        recorder.finish().await;
        sessions.push(session);
    }
    let mut kept = Vec::new();
    for session in &sessions {
        kept.push(!list(&client, &of(session, "timeline")).await.is_empty());
    }
    assert_eq!(kept, [false, true, true, true]);
    app.stop().await;
}

/// Contract: recordings 17.
#[tokio::test]
async fn segments_live_in_the_bucket_of_profiles() {
    let (app, s3) = (App::simulated().start().await, S3::start().await);
    let client = app.client().await;
    let session = client.session().await;
    let recordings = recordings(&app, PlaceConfig::Objects(s3.objects(SECRET)), limits()).await;
    let recorder = start(&recordings, &session);
    recorder.append([console("a")]);
    let frame = recorder.append_frame(None, 1, 1, jpeg(10)).expect("a number");
    recorder.finish().await;
    assert_eq!(app.count("select count(*) from recording_segments where content is null and is_stored").await, 2);
    let reader = recordings.reader(session_id(&session)).await.expect("a key").expect("a recording");
    assert_eq!(reader.frame(frame).await.expect("a bucket"), Some(jpeg(10)));
    client.delete(&of(&session, "recording")).await.expect(204);
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    sqlx::query("update recordings set removable_at = now()").execute(&app.database.pool).await.expect("an update");
    recordings.sweep(Duration::from_hours(1), 10).await.expect("a sweep");
    assert!(reader.frame(frame).await.expect("a row").is_none());
    app.stop().await;
}

/// Contract: recordings 7; retention 17.
#[tokio::test]
async fn recording_is_removed_after_its_term() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recordings = recordings(&app, PlaceConfig::Database, limits()).await;
    let recorder = start(&recordings, &session);
    recorder.append([console("a")]);
    recorder.finish().await;
    sqlx::query("update recordings set updated_at = now() - interval '8 days'")
        .execute(&app.database.pool)
        .await
        .expect("an update");
    let term = Duration::from_hours(7 * 24);
    assert_eq!(recordings.sweep(term, 10).await.expect("a sweep"), 0);
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    assert_eq!(recordings.sweep(term, 10).await.expect("a sweep"), 1);
    let rows = "select (select count(*) from recordings) + (select count(*) from recording_segments)";
    assert_eq!(app.count(rows).await, 0);
    client.get(&of(&session, "trace")).await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: recordings 20; accounts.
#[tokio::test]
async fn page_at_rest_adds_no_rows() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    recorder.finish().await;
    let rows: i64 = sqlx::query_scalar("select count(*) from recordings where session_id = $1")
        .bind(uuid_of(&session))
        .fetch_one(&app.database.pool)
        .await
        .expect("a count");
    assert_eq!(rows, 0);
    app.stop().await;
}

/// Contract: recordings 11.
#[tokio::test]
async fn event_is_stored_within_two_seconds() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([console("a")]);
    eventually(Duration::from_secs(4), "the event is stored", async || {
        (list(&client, &of(&session, "timeline")).await.len() == 1).then_some(())
    })
    .await;
    recorder.finish().await;
    app.stop().await;
}
