//! Recordings while a worker, the database or the bucket fails, or has no room.

use std::time::{Duration, Instant};

use kitfleet_domain::recordings::RecordingLimits;
use kitfleet_domain::vault::Vault;
use kitfleet_profiles::PlaceConfig;
use kitfleet_recording::{Recorder, Recordings, RecordingsConfig};
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use reqwest::header::ACCEPT;
use serde_json::{Value, json};
use sqlx::Executor as _;
use tokio::time::sleep;

use super::{
    MIB, changes, console, jpeg, limits, lines, list, of, recorder, recordings, session_id, start, timeline, types,
};
use crate::outages::{let_in, server_of};
use crate::support::s3::{KEY_ID, S3, SECRET, URL};
use crate::support::{App, Client, Role, eventually};

/// Two seconds, and the time to store an event on a busy machine.
const STORED_WITHIN: Duration = Duration::from_secs(3);

/// Longer than the longest pause between two attempts to store.
const RECOVERED_WITHIN: Duration = Duration::from_secs(30);

/// The whole stream, which ends by itself.
async fn stream(client: &Client, session: &str) -> String {
    let request = client.request(Method::GET, &of(session, "timeline")).header(ACCEPT, "text/event-stream");
    let reading = async { request.send().await.expect("a stream").text().await.expect("events") };
    tokio::time::timeout(Duration::from_mins(1), reading).await.expect("the stream ends")
}

/// Eight pictures of 800 kB, of which five do not fit into the 4 MiB that a worker keeps.
fn append_pictures(recorder: &Recorder) {
    let began = Instant::now();
    for number in 0..8 {
        recorder.append([console(&format!("during {number}"))]);
        recorder.append_frame(None, 1, 1, jpeg(800_000));
    }
    assert!(began.elapsed() < Duration::from_millis(500), "an append waited: {:?}", began.elapsed());
}

fn expected_lines() -> Vec<String> {
    std::iter::once("before".to_owned()).chain((0..8).map(|number| format!("during {number}"))).collect()
}

/// The recording reports five missing pictures, and has all lines and the last three pictures.
async fn assert_only_pictures_are_missing(client: &Client, session: &str) {
    let events = eventually(RECOVERED_WITHIN, "the recording says what is missing", async || {
        let answer = client.get(&of(session, "timeline?limit=100")).await;
        let events = (answer.status == 200).then(|| answer.body["data"].as_array().cloned())??;
        (!changes(&events).is_empty()).then_some(events)
    })
    .await;
    assert_eq!(lines(&events), expected_lines());
    assert_eq!(types(&events).iter().filter(|kind| **kind == "frame").count(), 3);
    let [change] = changes(&events)[..] else { panic!("not one change: {events:?}") };
    let members = (&change["state"], &change["reason"], &change["dropped_frames"], change.get("dropped_events"));
    assert_eq!(members, (&json!("dropped"), &json!("storage"), &json!(5), None));
    for event in events.iter().filter(|event| event["type"] == "frame") {
        let path = of(session, &format!("frames/{}", event["seq"]));
        assert_eq!(client.request(Method::GET, &path).send().await.expect("an answer").status(), 200, "{event}");
    }
}

/// Contract: recordings 11, 22. The stream ends also when no process has marked the end of the recording.
#[tokio::test]
async fn killed_worker_loses_at_most_two_seconds() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let session = client.session_with(json!({"record": "steps"})).await;
    let (began, mut acknowledged) = (Instant::now(), Vec::new());
    while began.elapsed() < 2 * STORED_WITHIN {
        let url = format!("https://example.com/{}", acknowledged.len());
        client.navigate(&session, &url).await;
        acknowledged.push((Instant::now(), url));
        sleep(Duration::from_millis(100)).await;
    }
    let killed = Instant::now();
    app.signal(1, Signal::SIGKILL).await;
    let events = timeline(&client, &session).await;
    let urls: Vec<_> = events.iter().filter(|event| event["type"] == "operation").map(|event| &event["url"]).collect();
    let kept = acknowledged.iter().filter(|(at, _)| killed - *at > STORED_WITHIN);
    let missing: Vec<_> = kept.filter(|(_, url)| !urls.contains(&&json!(url))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(urls.len() > 10, "{urls:?}");

    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let text = stream(&client, &session).await;
    assert!(text.trim_end().ends_with("event: end\ndata: {}"), "{text}");
    let trace = client.request(Method::GET, &of(&session, "trace")).send().await.expect("a trace");
    assert!(trace.bytes().await.expect("a whole file").starts_with(b"PK"));
    app.stop().await;
}

/// Contract: recordings 12.
#[tokio::test]
async fn database_outage_drops_pictures_first() {
    let app = App::simulated().in_processes().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([console("before")]);
    recorder.flush().await;
    let mut server = server_of(&app.database).await;
    let_in(&mut server, &app.database, false).await;
    append_pictures(&recorder);
    sleep(STORED_WITHIN).await;
    let_in(&mut server, &app.database, true).await;
    assert_only_pictures_are_missing(&client, &session).await;
    recorder.finish().await;
    app.stop().await;
}

/// Contract: recordings 12. Their number is in the recording.
#[tokio::test]
async fn long_database_outage_drops_events_beyond_the_bound() {
    const EVENTS: usize = 3_000;
    let app = App::simulated().in_processes().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = recorder(&app, &session).await;
    recorder.append([console("before")]);
    recorder.flush().await;
    let mut server = server_of(&app.database).await;
    let_in(&mut server, &app.database, false).await;
    append_pictures(&recorder);
    let text = "x".repeat(2_000);
    recorder.append((0..EVENTS).map(|_| console(&text)));
    sleep(STORED_WITHIN).await;
    let_in(&mut server, &app.database, true).await;
    recorder.append([console("after")]);
    eventually(RECOVERED_WITHIN, "the database is there", async || {
        recorder.flush().await;
        let answer = client.get(&of(&session, "timeline?limit=1")).await;
        (answer.status == 200).then_some(())
    })
    .await;
    recorder.finish().await;
    let events = timeline(&client, &session).await;
    let dropped = |member: &str| changes(&events).iter().filter_map(|change| change[member].as_u64()).sum::<u64>();
    let stored = lines(&events).len();
    assert_eq!(dropped("dropped_events"), (1 + 8 + EVENTS + 1 - stored) as u64, "{stored} lines");
    assert!((1_500..2_500).contains(&stored), "4 MiB of {stored} lines");
    assert_eq!((dropped("dropped_frames"), types(&events).contains(&"frame")), (8, false));
    assert_eq!(lines(&events).first(), Some(&"before"));
    app.stop().await;
}

/// Contract: recordings 12, 17. Meanwhile the recording cannot be read.
#[tokio::test]
async fn bucket_outage_drops_pictures_first() {
    let s3 = S3::start().await;
    let app = App::simulated()
        .set("profiles.store.url", URL)
        .set("profiles.store.endpoint", &s3.endpoint)
        .set("profiles.store.access_key_id", KEY_ID)
        .set("profiles.store.secret_access_key", SECRET);
    let app = app.start().await;
    let client = app.client().await;
    let session = client.session().await;
    let recorder = start(&recordings(&app, PlaceConfig::Objects(s3.objects(SECRET)), limits()).await, &session);
    recorder.append([console("before")]);
    recorder.flush().await;
    assert_eq!(lines(&timeline(&client, &session).await), ["before"]);
    s3.set_away(true);
    append_pictures(&recorder);
    sleep(STORED_WITHIN).await;
    client.get(&of(&session, "timeline")).await.problem(503, "feature-unavailable");
    s3.set_away(false);
    assert_only_pictures_are_missing(&client, &session).await;
    recorder.finish().await;
    app.stop().await;
}

/// Contract: recordings 11, 12. The recorder of a worker that stops gives up.
#[tokio::test]
async fn recording_ends_in_time_while_the_bucket_is_away() {
    let (app, s3) = (App::simulated().start().await, S3::start().await);
    let client = app.client().await;
    let session = client.session().await;
    let recordings = recordings(&app, PlaceConfig::Objects(s3.objects(SECRET)), limits()).await;
    let (recorder, task) = recordings.record(session_id(&session), Vec::new());
    let task = tokio::spawn(task.run());
    s3.set_away(true);
    recorder.append([console("lost")]);
    let began = Instant::now();
    recorder.finish().await;
    tokio::time::timeout(Duration::from_secs(5), task).await.expect("the task ends").expect("no panic");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    app.stop().await;
}

/// Contract: recordings 11, 12. The disk of the database is full for segments.
#[tokio::test]
async fn full_disk_delays_no_operation_and_loses_no_event() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let full = "create function refuse() returns trigger language plpgsql as $$
                begin raise exception 'No space left on device' using errcode = 'disk_full'; end $$;
                create trigger refuse before insert on recording_segments for each row execute function refuse();";
    app.database.pool.execute(full).await.expect("a trigger");
    let session = client.session_with(json!({"record": "steps"})).await;
    let began = Instant::now();
    let mut operations = 0;
    while began.elapsed() < STORED_WITHIN {
        let asked = Instant::now();
        client.navigate(&session, &format!("https://example.com/{operations}")).await;
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
        operations += 1;
        sleep(Duration::from_millis(200)).await;
    }
    assert!(timeline(&client, &session).await.is_empty());
    app.database.pool.execute("drop trigger refuse on recording_segments").await.expect("the trigger is dropped");
    eventually(RECOVERED_WITHIN, "all operations are recorded", async || {
        let events = timeline(&client, &session).await;
        let recorded = types(&events).iter().filter(|kind| **kind == "operation").count();
        // With the opening of the browser.
        (recorded == operations + 1).then(|| assert_eq!(changes(&events), Vec::<&Value>::new()))
    })
    .await;
    app.stop().await;
}

/// Contract: recordings 17; command-line 15. Also one that is being written.
#[tokio::test]
async fn recording_is_read_after_a_rotation_of_the_key() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let with_vault = async |vault: Vault| {
        let config = RecordingsConfig { vault: Some(vault), place: PlaceConfig::Database, limits: limits() };
        Recordings::new(app.database.pool.clone(), config).await.expect("recordings")
    };
    let old = with_vault(Vault::new([1; 32], &[])).await;
    let recorder = start(&old, &session);
    recorder.append([console("before")]);
    recorder.flush().await;

    let rotating = Vault::new([2; 32], &[[1; 32]]);
    let id = session_id(&session);
    let (purpose, text) = (kitfleet_domain::recordings::KEY_PURPOSE, id.to_string());
    let sealed: Vec<u8> = sqlx::query_scalar("select sealed_key from recordings where session_id = $1")
        .bind(id)
        .fetch_one(&app.database.pool)
        .await
        .expect("a key");
    let resealed = rotating.reseal(purpose, &text, &sealed).expect("the old key opens it");
    sqlx::query("update recordings set sealed_key = $2 where session_id = $1")
        .bind(id)
        .bind(resealed)
        .execute(&app.database.pool)
        .await
        .expect("an update");
    recorder.append([console("after")]);
    recorder.finish().await;

    let new = with_vault(Vault::new([2; 32], &[])).await;
    let reader = new.reader(id).await.expect("the new key opens it").expect("a recording");
    let page = reader.page(0, 10, |_| true).await.expect("events");
    assert_eq!(page.events.len(), 2);
    assert!(old.reader(id).await.is_err(), "the old key opens it");
    app.stop().await;
}

/// Contract: recordings 5, 22, 30. The operation that was running is in it.
#[tokio::test]
async fn recording_of_a_session_destroyed_midway_is_complete() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session_with(json!({"record": "steps"})).await;
    client.navigate(&session, "https://example.com/").await;
    let waiting = client.waiting(&session, 60_000);
    app.busy(&session).await;
    let following = tokio::spawn({
        let (client, session) = (client.clone(), session.clone());
        async move { stream(&client, &session).await }
    });
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    waiting.await.expect("a task").problem(410, "session-destroyed");
    let text = following.await.expect("a task");
    assert!(text.trim_end().ends_with("event: end\ndata: {}"), "{text}");
    let events = timeline(&client, &session).await;
    let operations: Vec<_> = events.iter().filter(|event| event["type"] == "operation").collect();
    assert_eq!(operations.len(), 3, "{events:?}");
    assert_eq!((&operations[2]["kind"], &operations[2]["outcome"]), (&json!("wait"), &json!("destroyed")));
    for path in ["har", "trace"] {
        assert_eq!(
            client.request(Method::GET, &of(&session, path)).send().await.expect("a file").status(),
            200,
            "{path}"
        );
    }
    let streamed = text.lines().filter(|line| line.starts_with("id:")).count();
    assert_eq!(streamed, events.len());
    app.stop().await;
}

/// Contract: recordings 14, 15. Recordings of live sessions are not deleted.
#[tokio::test]
async fn pictures_stop_at_the_quota_of_the_account_while_only_live_sessions_are_left() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    client.get("/v1/account/notifications").await.expect(200);
    let limits = RecordingLimits { account_bytes: 3 * MIB, ..limits() };
    let recordings = recordings(&app, PlaceConfig::Database, limits).await;
    let (first, second) = (client.session().await, client.session().await);
    let recorders = [start(&recordings, &first), start(&recordings, &second)];
    for recorder in &recorders {
        for _ in 0..25 {
            recorder.append_frame(None, 1, 1, jpeg(100_000));
            recorder.flush().await;
        }
    }
    assert_eq!(recorders.each_ref().map(Recorder::wants_pictures), [true, false]);
    for recorder in recorders {
        recorder.append([console("last")]);
        recorder.finish().await;
    }
    let kept = timeline(&client, &first).await;
    assert_eq!((types(&kept).iter().filter(|kind| **kind == "frame").count(), lines(&kept)), (25, vec!["last"]));
    let stopped = timeline(&client, &second).await;
    let [change] = changes(&stopped)[..] else { panic!("not one change: {stopped:?}") };
    assert_eq!((&change["state"], &change["reason"]), (&json!("stopped"), &json!("account_quota")));
    assert_eq!(lines(&stopped), ["last"], "other events continue");
    let told = list(&client, "/v1/account/notifications?limit=100").await;
    let told: Vec<_> =
        told.iter().filter(|entry| entry["event"] == "recording.stopped").map(|entry| &entry["data"]).collect();
    assert_eq!(told, [&json!({"session_id": second, "reason": "account_quota"})]);
    app.stop().await;
}
