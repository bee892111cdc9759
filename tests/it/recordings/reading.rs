//! Readers of recordings: their rights, streams at the same time, staff, and names from pages in files.

use std::io::Read as _;
use std::time::{Duration, Instant};

use flate2::read::DeflateDecoder;
use kitfleet_domain::recordings::RecordingLimits;
use kitfleet_profiles::PlaceConfig;
use kitfleet_recording::Recorder;
use kitfleet_recording::events::{DownloadEvent, DownloadProgress, EventBody, Header, RequestEvent};
use kitfleet_types::ids::DownloadId;
use kitfleet_types::tiers::Tier;
use reqwest::header::{ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{MIB, console, jpeg, limits, lines, list, of, recorder, recordings, request, start, timeline, types};
use crate::api_keys::mint;
use crate::support::records::uuid_of;
use crate::support::{App, Client, eventually};

const SOON: Duration = Duration::from_secs(15);

async fn follow(client: &Client, session: &str, since: u64) -> Response {
    let request = client.request(Method::GET, &of(session, "timeline")).header(ACCEPT, "text/event-stream");
    request.header("last-event-id", since).send().await.expect("an answer")
}

fn ids(stream: &str) -> Vec<u64> {
    let ids = stream.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.map(|id| id.parse().expect("a number")).collect()
}

async fn bytes(client: &Client, session: &str, path: &str) -> Vec<u8> {
    let response = client.request(Method::GET, &of(session, path)).send().await.expect("an answer");
    assert_eq!(response.status(), 200, "{path}");
    response.bytes().await.expect("a whole body").to_vec()
}

/// Names and contents of the entries of a ZIP file.
fn entries(zip: &[u8]) -> Vec<(String, Vec<u8>)> {
    let number = |at: usize, length: usize| {
        zip[at..at + length].iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
    };
    let end = zip.len() - 22;
    assert!(zip[end..].starts_with(b"PK\x05\x06"), "the file has no end");
    let (count, mut at) = (number(end + 10, 2), number(end + 16, 4));
    let mut entries = Vec::new();
    for _ in 0..count {
        assert!(zip[at..].starts_with(b"PK\x01\x02"), "an entry is missing");
        let (method, size, name) = (number(at + 10, 2), number(at + 20, 4), number(at + 28, 2));
        let local = number(at + 42, 4);
        let begin = local + 30 + number(local + 26, 2) + number(local + 28, 2);
        let stored = &zip[begin..begin + size];
        let mut content = Vec::new();
        match method {
            0 => content.extend_from_slice(stored),
            _ => drop(DeflateDecoder::new(stored).read_to_end(&mut content).expect("compressed bytes")),
        }
        entries.push((String::from_utf8(zip[at + 46..at + 46 + name].to_vec()).expect("UTF-8"), content));
        at += 46 + name + number(at + 30, 2) + number(at + 32, 2);
    }
    entries
}

async fn finish(recorder: Recorder, client: &Client, session: &str) {
    recorder.finish().await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
}

/// Contract: recordings 9. The list of operations says the same.
#[tokio::test]
async fn operation_with_a_picture_has_frames_in_the_timeline() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session_with(json!({"record": "steps"})).await;
    client.navigate(&session, "https://example.com/").await;
    let events = eventually(SOON, "a picture", async || {
        let events = timeline(&client, &session).await;
        types(&events).contains(&"frame").then_some(events)
    })
    .await;
    let operations: Vec<_> = events.iter().filter(|event| event["type"] == "operation").collect();
    let has_frames: Vec<_> = operations.iter().map(|operation| &operation["has_frames"]).collect();
    assert_eq!(has_frames, [&json!(false), &json!(true)], "the opening of the browser, and the navigation");
    let listed = list(&client, &of(&session, "operations")).await;
    assert_eq!((&listed[0]["id"], &listed[0]["has_frames"]), (&operations[1]["operation_id"], &json!(true)));
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let text = follow(&client, &session, 0).await.text().await.expect("events");
    assert!(text.contains("\"has_frames\":true"), "{text}");
    app.stop().await;
}

/// Contract: recordings 21, 22. Each reader receives each event once.
#[tokio::test]
async fn two_readers_follow_a_recording_that_is_written() {
    const EVENTS: u64 = 200;
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    // A stream of a session without a recording ends at once.
    recorder.append([console("0")]);
    recorder.flush().await;
    let streams = [0, 0].map(|since| {
        let (client, session) = (client.clone(), session.clone());
        tokio::spawn(async move { follow(&client, &session, since).await.text().await.expect("events") })
    });
    for number in 1..EVENTS {
        recorder.append([console(&number.to_string())]);
        if number % 20 == 0 {
            recorder.flush().await;
            let read = timeline(&client, &session).await;
            assert!(read.is_sorted_by_key(|event| event["seq"].as_u64()), "{read:?}");
            assert_eq!(read.len() as u64, number + 1);
            assert!(bytes(&client, &session, "trace").await.starts_with(b"PK"));
        }
    }
    finish(recorder, &client, &session).await;
    for stream in streams {
        let text = stream.await.expect("a stream");
        assert_eq!(ids(&text), (1..=EVENTS).collect::<Vec<_>>());
        assert_eq!(text.matches("event: end").count(), 1);
    }
    app.stop().await;
}

/// Contract: recordings 22.
#[tokio::test]
async fn timeline_stream_beyond_the_limit_of_the_account_is_429() {
    let app = App::simulated().set("recordings.max_streams", "2").start().await;
    let (client, other) = (app.client().await, app.client().await);
    let (session, elsewhere) = (client.session_with(json!({"record": "steps"})).await, client.session().await);
    let (first, _second) = (follow(&client, &session, 0).await, follow(&client, &session, 0).await);
    for refused in [&session, &elsewhere] {
        let answer = client.request(Method::GET, &of(refused, "timeline")).header(ACCEPT, "text/event-stream");
        let refused = client.send(answer).await.problem(429, "concurrency-limit");
        assert_eq!(refused.body["limit"], 2);
    }
    assert_eq!(client.get(&of(&session, "timeline")).await.status, 200, "a page is no stream");
    let foreign = other.session().await;
    assert_eq!(follow(&other, &foreign, 0).await.status(), 200);
    drop(first);
    eventually(SOON, "a closed stream does not count", async || {
        (follow(&client, &session, 0).await.status() == 200).then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: recordings 22. Streams of all processes count.
#[tokio::test]
async fn timeline_streams_of_a_dead_process_count_until_their_lease_expires() {
    let app = App::simulated().set("recordings.max_streams", "1").start().await;
    let client = app.client().await;
    let session = client.session_with(json!({"record": "steps"})).await;
    let elsewhere = "insert into timeline_streams (id, account_id, until)
                     select gen_random_uuid(), account_id, now() + interval '3 s' from sessions where id = $1";
    app.execute(elsewhere, uuid_of(&session)).await;
    assert_eq!(follow(&client, &session, 0).await.status(), 429);
    let died = Instant::now();
    eventually(SOON, "the lease has expired", async || {
        (follow(&client, &session, 0).await.status() == 200).then_some(())
    })
    .await;
    assert!(died.elapsed() > Duration::from_secs(2));
    app.stop().await;
}

/// Contract: recordings 22. The lease is renewed although nothing polls the stream.
#[tokio::test]
async fn timeline_stream_that_its_client_does_not_read_counts() {
    let app = App::simulated().set("recordings.max_streams", "1").start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    // More than the buffers of a connection hold.
    for _ in 0..16 {
        recorder.append((0..500).map(|_| console(&"é".repeat(2_000))));
        recorder.flush().await;
    }
    let _unread = follow(&client, &session, 0).await;
    let soon = "update timeline_streams set until = now() + interval '12 s'
                where account_id = (select account_id from sessions where id = $1)";
    app.execute(soon, uuid_of(&session)).await;
    sleep(Duration::from_secs(14)).await;
    assert_eq!(follow(&client, &session, 0).await.status(), 429);
    recorder.finish().await;
    app.stop().await;
}

/// Contract: recordings 18. A member may read the list of operations only.
#[tokio::test]
async fn member_may_not_read_a_recording() {
    let app = App::simulated().start().await;
    let (owner, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([console("a")]);
    let frame = recorder.append_frame(None, 1, 1, jpeg(10)).expect("a number");
    recorder.finish().await;
    let frame = format!("frames/{frame}");
    let read = ["timeline", "console", "requests", "har", "trace", "trace-links", &frame];
    for (role, scopes, status) in [
        ("member", &["read:sessions", "write:sessions"][..], 403),
        ("admin", &["read:sessions"], 403),
        ("admin", &["read:sessions", "write:sessions"], 200),
    ] {
        let account = app.account(Tier::Enterprise).await;
        app.join_team(owner, account, role).await;
        let caller = app.client_of(account, scopes).await.on(owner);
        assert_eq!(caller.get(&of(&session, "operations")).await.status, 200, "{role} {scopes:?}");
        for path in read {
            let answer = caller.request(Method::GET, &of(&session, path)).send().await.expect("an answer");
            assert_eq!(answer.status(), status, "{role} {scopes:?}: {path}");
        }
    }
    let narrow = app.client_of(owner, &["read:profiles"]).await;
    for path in read {
        narrow.get(&of(&session, path)).await.problem(403, "forbidden");
    }
    app.stop().await;
}

/// Contract: recordings 34, 35. The hosted viewer may read why.
#[tokio::test]
async fn trace_link_ends_with_the_right_of_its_creator() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([console("a")]);
    recorder.finish().await;
    let minted = mint(&client, &["read:sessions", "write:sessions"]).await;
    let maker = Client::new(&app.base_url, Some(&minted.key));
    let link = maker.post(&of(&session, "trace-links"), json!({"expires_in": 60})).await.expect(201).body;
    let url = link["url"].as_str().expect("an address");
    let path = url[url.find("/traces/").expect("a path")..].to_owned();
    let download = async || app.stranger().request(Method::GET, &path).send().await.expect("an answer");
    assert_eq!(download().await.status(), 200);
    client.delete(&format!("/v1/api-keys/{}", minted.id)).await.expect(204);
    let gone = download().await;
    assert_eq!(gone.status(), 404);
    assert_eq!(gone.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "https://trace.playwright.dev");
    assert!(list(&client, &of(&session, "trace-links")).await.is_empty());
    app.stop().await;
}

/// Contract: recordings 37; staff 39. The customer sees each read with its reason.
#[tokio::test]
async fn staff_reads_a_recording_where_they_may_and_the_customer_sees_it() {
    let app = App::simulated().set("staff.may_watch", "true").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let staff = app.staff().await;
    let session = client.session().await;
    let path = format!("/v1/admin/sessions/{session}/trace");
    let reason = json!({"reason": "ticket 4711"});
    let shown = async || staff.get(&format!("/v1/admin/sessions/{session}")).await.expect(200).body;
    assert_eq!((&shown().await["may_read_recording"], &shown().await["recording"]), (&json!(true), &Value::Null));
    staff.post(&path, reason.clone()).await.problem(404, "not-found");
    let recorder = recorder(&app, &session).await;
    recorder.append([console("a")]);
    recorder.finish().await;
    staff.post(&path, json!({})).await.invalid("reason");
    staff.post(&format!("{path}?format=6"), reason.clone()).await.invalid("format");
    assert!(app.audited(account, "admin.support_note").await.is_empty());
    assert!(shown().await["recording"]["bytes"].as_i64() > Some(0), "{}", shown().await);
    client.post(&path, reason.clone()).await.problem(404, "not-found");
    let trace = staff.request(Method::POST, &format!("{path}?format=8")).json(&reason).send().await.expect("a trace");
    assert_eq!(trace.status(), 200);
    assert!(entries(&trace.bytes().await.expect("a whole file")).iter().any(|(name, _)| name == "trace.trace"));
    let rows = list(&client, "/v1/account/audit-log?action=admin.support_note").await;
    let [row] = &rows[..] else { panic!("not one row: {rows:?}") };
    let expected = json!({"operation": "session.recording_read", "reason": "ticket 4711", "session_id": session});
    assert_eq!((&row["actor_type"], &row["payload"]), (&json!("staff"), &expected));
    assert_eq!(row["target_resource_id"], json!(session));
    client.delete(&of(&session, "recording")).await.expect(204);
    assert_eq!(shown().await["recording"], Value::Null);
    staff.post(&path, reason).await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: recordings 37. Nothing is logged.
#[tokio::test]
async fn staff_may_not_read_a_recording_by_default() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([console("a")]);
    recorder.finish().await;
    let path = format!("/v1/admin/sessions/{session}/trace");
    let staff = app.staff().await;
    staff.post(&path, json!({"reason": "ticket 4711"})).await.problem(403, "forbidden");
    let shown = staff.get(&format!("/v1/admin/sessions/{session}")).await.expect(200).body;
    assert_eq!(shown["may_read_recording"], false);
    let out = app.data_dir.path().join("trace.zip");
    app.run(&["sessions", "trace", &session, "--out", &out.display().to_string()]).await.code(1);
    assert!(!out.exists());
    assert!(app.audited(account, "admin.support_note").await.is_empty());
    app.stop().await;
}

/// Contract: recordings 16, 26, 30. Texts of a page become no path, and no raw control character.
#[tokio::test]
async fn hostile_names_are_escaped_in_files() {
    const NAME: &str = "../../../etc/passwd\0\r\n\u{202e}C:\\x";
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([
        console(NAME),
        EventBody::Request(Box::new(RequestEvent {
            method: format!("GET {NAME}"),
            url: format!("https://a.example/{NAME}"),
            resource_type: NAME.to_owned(),
            mime_type: Some(NAME.to_owned()),
            error: Some(NAME.to_owned()),
            response_headers: vec![Header { name: NAME.to_owned(), value: NAME.to_owned() }],
            ..RequestEvent::default()
        })),
        EventBody::Download(DownloadEvent {
            state: DownloadProgress::Started,
            download_id: DownloadId::generate(),
            url: format!("https://a.example/{NAME}"),
            file_name: NAME.to_owned(),
            bytes: None,
            error: None,
        }),
        request("https://a.example/"),
    ]);
    recorder.append_frame(None, 1, 1, jpeg(10)).expect("a number");
    finish(recorder, &client, &session).await;

    let har = bytes(&client, &session, "har").await;
    assert!(!har.contains(&0), "the HAR file has a NUL");
    let har: Value = serde_json::from_slice(&har).expect("JSON");
    assert_eq!(har["log"]["entries"].as_array().map(Vec::len), Some(2));
    for format in [9, 8, 7] {
        let zip = bytes(&client, &session, &format!("trace?format={format}")).await;
        let entries = entries(&zip);
        let known = |name: &str| {
            ["trace.trace", "trace.network"].contains(&name)
                || name
                    .strip_prefix("resources/frame-")
                    .and_then(|rest| rest.strip_suffix(".jpeg"))
                    .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
        };
        assert!(entries.iter().all(|(name, _)| known(name)), "{entries:?}");
        for (name, content) in entries.iter().filter(|(name, _)| name.starts_with("trace.")) {
            assert!(!content.contains(&0), "{name} has a NUL");
            let text = std::str::from_utf8(content).expect("UTF-8");
            for line in text.lines() {
                serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
            }
        }
    }
    assert_eq!(lines(&timeline(&client, &session).await), [NAME]);
    app.stop().await;
}

fn with_header(name: &str) -> EventBody {
    let header = Header { name: name.to_owned(), value: "hunter2".to_owned() };
    EventBody::Request(Box::new(RequestEvent {
        method: "GET".to_owned(),
        url: "https://a.example/".to_owned(),
        request_headers: vec![header.clone()],
        response_headers: vec![header],
        ..RequestEvent::default()
    }))
}

async fn har_entries(client: &Client, session: &str) -> Vec<Value> {
    let har: Value = serde_json::from_slice(&bytes(client, session, "har").await).expect("JSON");
    har["log"]["entries"].as_array().expect("entries").clone()
}

/// Contract: recordings 16. Headers that an earlier emulation has set stay masked.
#[tokio::test]
async fn values_of_secret_headers_are_masked() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append(["authorization", "Cookie", "set-cookie", "X-SHOP", "x-api-key"].map(with_header));
    recorder.add_secret_headers(["X-Later".to_owned()]);
    recorder.append(["x-later", "x-shop", "x-plain"].map(with_header));
    finish(recorder, &client, &session).await;
    for part in ["request", "response"] {
        let entries = har_entries(&client, &session).await;
        let values: Vec<_> = entries.iter().map(|entry| entry[part]["headers"][0]["value"].as_str()).collect();
        assert_eq!((&values[..7], values[7]), (&[Some("•••"); 7][..], Some("hunter2")));
    }
    assert!(!json!(timeline(&client, &session).await).to_string().contains("hunter2"), "headers are in files only");
    app.stop().await;
}

/// Contract: recordings 13.
#[tokio::test]
async fn requests_beyond_the_quota_of_the_session_have_no_headers() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let limits = RecordingLimits { session_bytes: MIB, ..limits() };
    let recorder = start(&recordings(&app, PlaceConfig::Database, limits).await, &session);
    recorder.append([with_header("x-before")]);
    recorder.append_frame(None, 1, 1, jpeg(1_000_000)).expect("a number");
    let text = "x".repeat(2_000);
    recorder.append((0..40).map(|_| console(&text)));
    recorder.append([with_header("x-after")]);
    finish(recorder, &client, &session).await;
    let headers: Vec<_> =
        har_entries(&client, &session).await.iter().map(|entry| entry["request"]["headers"].clone()).collect();
    assert_eq!(headers, [json!([{"name": "x-before", "value": "hunter2"}]), json!([])]);
    app.stop().await;
}
