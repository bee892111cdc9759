//! Uploads and downloads with the simulated driver (contract: files).

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::records::uuid_of;
use crate::support::{App, Client, Role, assert_timestamp, at_once, eventually, members, unknown_id};

const MIB: usize = 1024 * 1024;

fn file(name: &str, content: &[u8]) -> Value {
    json!({"name": name, "content": STANDARD.encode(content)})
}

fn upload(files: &[Value]) -> Value {
    json!({"action": {"kind": "upload", "selector": "#file", "files": files}})
}

async fn download(client: &Client, session: &str, name_and_query: &str) -> String {
    let url = format!("https://download.simulated.example/{name_and_query}");
    let answer = client.navigate(session, &url).await;
    answer.body["download"]["id"].as_str().expect("an id").to_owned()
}

fn content_path(session: &str, download: &str) -> String {
    format!("/v1/sessions/{session}/downloads/{download}/content")
}

/// Contract: files 1, 7. The intent of the upload has neither.
#[tokio::test]
async fn upload_leaves_no_name_and_no_content_in_the_database() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let files = [file("secret-name.txt", b"secret-content"), file("empty.txt", b"")];
    let answer = client.operate(&session, "interact", upload(&files)).await.expect(200).body;
    assert_eq!((&answer["ok"], &answer["kind"]), (&json!(true), &json!("upload")));
    let whole = json!({"action": {"kind": "upload", "files": [file("a.bin", &vec![7; 10 * MIB])]}});
    client.operate(&session, "interact", whole).await.expect(200);
    let stored: Vec<String> = sqlx::query_scalar("select intents::text from intents where session_id = $1")
        .bind(uuid_of(&session))
        .fetch_all(&app.database.pool)
        .await
        .expect("intents");
    assert_eq!(stored.len(), 3);
    for row in &stored {
        assert!(!row.contains("secret-name") && !row.contains(&STANDARD.encode("secret-content")), "{row}");
        assert!(row.len() < 4_096, "{} bytes", row.len());
    }
    app.stop().await;
}

/// Contract: files 1, 4, 5; requests 4.
#[tokio::test]
async fn invalid_upload_is_400() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let one = || file("a.txt", b"a");
    for (action, field) in [
        (upload(&[]), "action.files"),
        (upload(&vec![one(); 11]), "action.files"),
        (upload(&[json!({"name": "a.txt", "content": "no base64!"})]), "action.files.0.content"),
        (upload(&[json!({"name": "a.txt", "content": "YQ"})]), "action.files.0.content"),
        (upload(&[json!({"name": "a.txt", "content": 1})]), "action.files.0.content"),
        (upload(&[one(), json!({"name": "a.txt"})]), "action.files.1.content"),
        (upload(&[json!({"content": "YQ=="})]), "action.files.0.name"),
        (upload(&[file("", b"a")]), "action.files.0.name"),
        (upload(&[file(&"x".repeat(4_097), b"a")]), "action.files.0.name"),
        (upload(&[json!({"name": "a", "content_type": "text", "content": ""})]), "action.files.0.content_type"),
        (json!({"action": {"kind": "upload", "selector": "#file"}}), "action.files"),
        (json!({"action": {"kind": "upload", "selector": "", "files": [one()]}}), "action.selector"),
    ] {
        client.operate(&session, "interact", action).await.invalid(field);
    }
    client.operate(&session, "interact", upload(&[file("a\0.txt", b"a")])).await.expect(400);
    for name in ["../../x", "a/b", "\u{202E}gpj.exe", "CON", &"x".repeat(4_096), "日本.txt"] {
        client.operate(&session, "interact", upload(&[file(name, b"a")])).await.expect(200);
    }
    app.stop().await;
}

/// Contract: files 1; requests 5. The limit is 16 MiB of files, in a body of at most 24 MiB.
#[tokio::test]
async fn too_large_upload_is_413() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let halves = |extra: usize| upload(&[file("a", &vec![1; 8 * MIB]), file("b", &vec![2; 8 * MIB + extra])]);
    client.operate(&session, "interact", halves(0)).await.expect(200);
    let refused = client.operate(&session, "interact", halves(1)).await.problem(413, "payload-too-large");
    assert_eq!(refused.body["limit_bytes"], 16 * MIB);
    let padded = format!(r#"{{"padding":"{}"}}"#, "x".repeat(24 * MIB));
    let interact = format!("/v1/sessions/{session}/interact");
    let refused = client.post_raw(&interact, padded).await.problem(413, "payload-too-large");
    assert_eq!(refused.body["limit_bytes"], 24 * MIB);
    let padded = format!(r#"{{"padding":"{}"}}"#, "x".repeat(MIB));
    client.post_raw(&format!("/v1/sessions/{session}/wait"), padded.clone()).await.problem(413, "payload-too-large");
    client.post_raw(&interact, padded).await.invalid("action");
    let sessions = [session.clone(), session];
    let uploads = sessions.map(|session| {
        let (client, body) = (client.clone(), upload(&[file("a", &vec![1; 15 * MIB])]));
        async move { client.operate(&session, "interact", body).await.status.as_u16() }
    });
    let mut answers = at_once(uploads).await;
    answers.sort_unstable();
    assert!(answers[0] == 200 && [200, 409].contains(&answers[1]), "{answers:?}");
    app.stop().await;
}

/// Contract: files 8, 9, 14. The page stays.
#[tokio::test]
async fn navigation_to_a_download_lists_it() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let list = format!("/v1/sessions/{session}/downloads");
    assert_eq!(client.get(&list).await.expect(200).body, json!({"data": []}));
    client.navigate(&session, "https://example.com/").await;
    let url = "https://download.simulated.example/report.pdf?type=application/pdf&bytes=70000";
    let navigated = client.navigate(&session, url).await.body;
    assert_eq!((&navigated["status"], &navigated["final_url"]), (&json!(200), &json!("https://example.com/")));
    assert_eq!(members(&navigated["download"]), BTreeSet::from(["file_name", "id"]));
    let listed = client.get(&list).await.expect(200).body;
    let [entry] = listed["data"].as_array().expect("a list").as_slice() else { unreachable!("{listed}") };
    assert_timestamp(&entry["created_at"]);
    let id = navigated["download"]["id"].as_str().expect("an id");
    assert!(id.starts_with("dl_"), "{id}");
    let expected = json!({
        "id": id, "url": url, "file_name": "report.pdf", "content_type": "application/pdf", "bytes": 70_000,
        "status": "complete", "error": null, "created_at": entry["created_at"],
    });
    assert_eq!(*entry, expected);
    assert_eq!(client.get(&format!("/v1/sessions/{session}/state")).await.body["url"], "https://example.com/");
    app.stop().await;
}

/// Contract: files 10, 11. This holds for every name and type.
#[tokio::test]
async fn content_is_an_attachment() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    for (query, disposition, media_type, policy) in [
        (
            "a.pdf?type=application/pdf",
            r#"attachment; filename="a.pdf"; filename*=UTF-8''a.pdf"#,
            "application/pdf",
            "sandbox",
        ),
        (
            "x?name=..%2F..%2Fx%22%0D%0A",
            r#"attachment; filename="x_"; filename*=UTF-8''x%22"#,
            "application/octet-stream",
            "sandbox",
        ),
        (
            "x?name=r%C3%A9sum%C3%A9.txt",
            r#"attachment; filename="r_sum_.txt"; filename*=UTF-8''r%C3%A9sum%C3%A9.txt"#,
            "application/octet-stream",
            "sandbox",
        ),
        (
            "x?name=a.html&type=text/html",
            r#"attachment; filename="a.html"; filename*=UTF-8''a.html"#,
            "text/html",
            "sandbox; frame-ancestors 'none'",
        ),
    ] {
        let id = download(&client, &session, query).await;
        for method in [Method::GET, Method::HEAD] {
            let request = client.request(method.clone(), &content_path(&session, &id));
            let response = request.send().await.expect("an answer");
            assert_eq!(response.status(), 200, "{query}");
            let header = |name: &str| response.headers()[name].to_str().expect("text").to_owned();
            assert_eq!(header("content-disposition"), disposition, "{query}");
            assert_eq!(header("content-type"), media_type, "{query}");
            assert_eq!(header("content-security-policy"), policy, "{query}");
            assert_eq!(header("x-content-type-options"), "nosniff", "{query}");
            assert_eq!(header("cache-control"), "no-store", "{query}");
            assert_eq!(header("content-length"), "9", "{query}");
            let content = response.bytes().await.expect("a whole body");
            assert_eq!(content, if method == Method::GET { "xxxxxxxxx" } else { "" }, "{query}");
        }
    }
    app.stop().await;
}

/// Contract: files 9, 10, 16.
#[tokio::test]
async fn download_of_another_session_is_404() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let (session, other) = (client.session().await, client.session().await);
    let id = download(&client, &session, "a.txt").await;
    client.get(&content_path(&session, &id)).await.expect(200);
    for (session, id) in [
        (other.as_str(), id.as_str()),
        (session.as_str(), unknown_id("dl").as_str()),
        (session.as_str(), "dl_7"),
        (session.as_str(), "..%2f..%2fetc%2fpasswd"),
        (unknown_id("ses").as_str(), id.as_str()),
    ] {
        client.get(&content_path(session, id)).await.problem(404, "not-found");
    }
    let stranger = app.client().await;
    stranger.get(&content_path(&session, &id)).await.problem(404, "not-found");
    stranger.get(&format!("/v1/sessions/{session}/downloads")).await.problem(404, "not-found");

    let failed = download(&client, &session, "b.txt?status=failed").await;
    let refused = client.get(&content_path(&session, &failed)).await.problem(409, "conflict");
    assert_eq!((&refused.body["download_status"], &refused.body["error"]), (&json!("failed"), &json!("too_large")));

    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    client.get(&content_path(&session, &id)).await.problem(410, "session-destroyed");
    client.get(&format!("/v1/sessions/{session}/downloads")).await.problem(410, "session-destroyed");
    app.stop().await;
}

/// Contract: files 13. Reads are not usage.
#[tokio::test]
async fn reading_downloads_does_not_claim_the_session() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let id = download(&client, &session, "a.txt").await;
    let usage = "select coalesce(sum(count), 0)::bigint from usage_counts where record <> 'session_minute'";
    let before = app.count(usage).await;
    let waiting = client.waiting(&session, 2_000);
    eventually(Duration::from_secs(5), "the session is busy", async || {
        (client.status(&session).await == "busy").then_some(())
    })
    .await;
    client.get(&format!("/v1/sessions/{session}/downloads")).await.expect(200);
    client.get(&content_path(&session, &id)).await.expect(200);
    assert_eq!(client.status(&session).await, "busy");
    waiting.await.expect("no panic").expect(200);
    assert_eq!(app.count(usage).await, before + 1);
    app.stop().await;
}

/// Contract: files 15. It has begun since the previous operation began.
#[tokio::test]
async fn wait_returns_a_new_download() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let wait = json!({"condition": {"kind": "download"}, "timeout_ms": 200, "on_timeout": "return"});
    let none = client.operate(&session, "wait", wait.clone()).await.expect(200).body;
    assert_eq!((&none["matched"], &none["kind"], none.get("download")), (&json!(false), &json!("download"), None));
    let id = download(&client, &session, "a.txt").await;
    let waited = client.operate(&session, "wait", wait.clone()).await.expect(200).body;
    assert_eq!((&waited["matched"], &waited["download"]), (&json!(true), &json!({"id": id, "file_name": "a.txt"})));
    // The operation before this one is the wait.
    assert_eq!(client.operate(&session, "wait", wait).await.expect(200).body["matched"], false);
    app.stop().await;
}

/// Contract: files 10. A client that stops reading stops the transfer.
#[tokio::test]
async fn large_download_takes_little_memory() {
    const BYTES: usize = 300 * MIB;
    let app = App::simulated().in_processes().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let id = download(&client, &session, &format!("a.bin?bytes={BYTES}")).await;
    let path = content_path(&session, &id);
    client.get(&content_path(&session, &download(&client, &session, "b.bin").await)).await.expect(200);
    let before = app.peak_memory_kib(0);
    let mut response = client.request(Method::GET, &path).send().await.expect("an answer");
    let mut read = 0;
    while let Some(piece) = response.chunk().await.expect("a piece") {
        read += piece.len();
    }
    assert_eq!(read, BYTES);
    let stopped = client.request(Method::GET, &path).send().await.expect("an answer");
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(stopped);
    let grown = app.peak_memory_kib(0) - before;
    assert!(grown < 32 * 1024, "a download of {BYTES} bytes took {grown} KiB");
    app.stop().await;
}

/// Contract: files 16.
#[tokio::test]
async fn downloads_of_a_dead_worker_are_502() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let session = client.session().await;
    let id = download(&client, &session, "a.txt").await;
    app.signal(1, Signal::SIGKILL).await;
    let answer = eventually(Duration::from_mins(1), "the worker is declared dead", async || {
        let answer = client.get(&content_path(&session, &id)).await;
        match answer.status.as_u16() {
            503 => None,
            _ => Some(answer),
        }
    })
    .await;
    answer.problem(502, "driver-error");
    client.get(&format!("/v1/sessions/{session}/downloads")).await.problem(502, "driver-error");
    app.stop().await;
}

/// Contract: files 17; agent-grammar 11. A message names the file.
#[tokio::test]
async fn agent_uploads_an_attached_file() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let agent = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let path = format!("/v1/agent-sessions/{}", agent["id"].as_str().expect("an id"));
    let files = format!("{path}/files");
    let attached = client.post(&files, file("../cv.pdf", b"content")).await.expect(201).body;
    assert_eq!(attached["name"], "cv.pdf");
    assert!(attached["id"].as_str().is_some_and(|id| id.starts_with("file_")), "{attached}");
    client.post(&files, json!({"name": "a"})).await.invalid("content");
    client.post(&files, file("", b"a")).await.invalid("name");
    client.post(&files, file("a", &vec![1; 16 * MIB + 1])).await.problem(413, "payload-too-large");
    client.post("/v1/agent-sessions/agt_1/files", file("a", b"a")).await.problem(404, "not-found");

    let send_message = async |message: &str| {
        let answer = client.post(&format!("{path}/message"), json!({"message": message})).await.expect(200);
        answer.body["intents"].as_array().map(|intents| intents[0].clone()).unwrap_or_default()
    };
    for _ in 0..2 {
        let step = send_message("upload \"cv.pdf\" into \"Resume\"").await;
        assert_eq!(
            (&step["kind"], &step["status"], &step["file"]),
            (&json!("upload"), &json!("done"), &json!("cv.pdf")),
            "{step}"
        );
    }
    assert_eq!(send_message("upload \"other.pdf\" into \"Resume\"").await["status"], "failed");

    for number in 0..19 {
        client.post(&files, file(&format!("{number}.txt"), b"a")).await.expect(201);
    }
    client.post(&files, file("one-more.txt", b"a")).await.problem(409, "conflict");
    client.delete(&path).await.expect(204);
    client.post(&files, file("late.txt", b"a")).await.problem(410, "session-destroyed");
    app.stop().await;
}
