//! Contract: files 8 to 16.

use std::time::{Duration, Instant};

use reqwest::{Method, Url};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::eventually;
use crate::webkit::Scene;

const PAGE: &str = "<!doctype html><title>Files</title><h1 id=title>files</h1>
<a id=attachment href='/attachment?bytes=5'>attachment</a>
<a id=named href='/attachment?bytes=5&disposition=inline&type=text/plain' download='named.txt'>named</a>
<a id=data href='data:text/plain,hello' download='data.txt'>data</a>
<a id=blob download='blob.txt'>blob</a><button id=made>made</button>
<form method=post action='/attachment?bytes=5'><button id=post>post</button></form><script>
blob.href = URL.createObjectURL(new Blob(['hello'], {type: 'text/plain'}));
made.onclick = () => { const link = document.createElement('a'); link.href = blob.href; link.download = 'made.txt'; link.click() }</script>";

impl Scene {
    fn attachment(&self, query: &[(&str, &str)]) -> String {
        Url::parse_with_params(&self.site.url("/attachment"), query).expect("an address").into()
    }

    async fn downloads(&self) -> Vec<Value> {
        let listed = self.client.get(&format!("/v1/sessions/{}/downloads", self.session)).await.expect(200);
        listed.body["data"].as_array().expect("a list").clone()
    }

    async fn ended_download(&self) -> Value {
        eventually(Duration::from_mins(1), "a download has ended", async || {
            self.downloads().await.pop().filter(|download| download["status"] != "in_progress")
        })
        .await
    }

    async fn content(&self, download: &Value) -> Vec<u8> {
        let id = download["id"].as_str().expect("an id");
        let path = format!("/v1/sessions/{}/downloads/{id}/content", self.session);
        let response = self.client.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(response.status(), 200, "{download}");
        response.bytes().await.expect("a whole body").to_vec()
    }
}

/// Contract: files 8, 9, 15. The page stays.
#[tokio::test]
async fn every_kind_of_download_is_kept() {
    let scene = Scene::start().await;
    for (element, name, content) in [
        ("#attachment", None, "xxxxx"),
        ("#named", Some("named.txt"), "xxxxx"),
        ("#data", Some("data.txt"), "hello"),
        ("#blob", Some("blob.txt"), "hello"),
        ("#made", Some("made.txt"), "hello"),
        ("#post", None, "xxxxx"),
    ] {
        scene.show(PAGE).await;
        scene.act(json!({"kind": "tap", "selector": element})).await.expect(200);
        let waited = scene.wait(json!({"kind": "download"})).await.expect(200).body;
        assert_eq!(waited["matched"], true, "{element}");
        let download = scene.downloads().await.pop().expect("a download");
        assert_eq!(download["id"], waited["download"]["id"], "{element}");
        let ended = (&download["status"], &download["error"], &download["bytes"]);
        assert_eq!(ended, (&json!("complete"), &json!(null), &json!(5)), "{element}: {download}");
        if let Some(name) = name {
            assert_eq!(download["file_name"], name, "{element}");
        }
        assert_eq!(scene.content(&download).await, content.as_bytes(), "{element}");
        assert_eq!(scene.text("#title").await, "files", "{element}");
    }
    assert_eq!(scene.downloads().await.len(), 6);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: files 9, 14.
#[tokio::test]
async fn navigation_to_a_download_has_a_safe_name() {
    let scene = Scene::start().await;
    scene.visit("/").await;
    for (disposition, name) in [
        ("attachment; filename=\"report 7.pdf\"", "report 7.pdf"),
        ("attachment; filename*=UTF-8''r%C3%A9sum%C3%A9%20%E6%97%A5.pdf", "résumé 日.pdf"),
        ("attachment; filename=\"../../../etc/passwd\"", "passwd"),
        ("attachment; filename*=UTF-8''..%2F..%2Fetc%2Fcron.d%2Fx", "x"),
        ("attachment; filename*=UTF-8''invoice%E2%80%AEfdp.exe", "invoice_fdp.exe"),
        ("attachment; filename=\"..\"", "file"),
        ("attachment; filename=\"NUL\"", "_NUL"),
    ] {
        let answer = scene
            .client
            .navigate(&scene.session, &scene.attachment(&[("disposition", disposition), ("bytes", "3")]))
            .await;
        assert_eq!(answer.body["status"], 200, "{disposition}");
        let download = scene.ended_download().await;
        assert_eq!(answer.body["download"]["id"], download["id"], "{disposition}");
        if name != "file" {
            assert_eq!(download["file_name"], name, "{disposition}");
            assert_eq!(answer.body["download"]["file_name"], name, "{disposition}");
        }
        assert_eq!(scene.content(&download).await, b"xxx", "{disposition}");
    }
    let long = format!("attachment; filename=\"{}.pdf\"", "x".repeat(4_096));
    scene.client.navigate(&scene.session, &scene.attachment(&[("disposition", &long), ("bytes", "3")])).await;
    let download = scene.ended_download().await;
    assert!(download["file_name"].as_str().is_some_and(|name| name.len() <= 255), "{download}");
    assert_eq!(scene.content(&download).await, b"xxx");
    assert_eq!(scene.text("#title").await, "Home");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: files 8, 10, 15. Downloads that are too large fail.
#[tokio::test]
async fn download_without_an_end_does_not_harm_the_session() {
    let scene = Scene::start().await;
    let large = (65 * 1024 * 1024).to_string();
    // A browser reads the first 512 bytes before it decides how to handle a response.
    for size in [[("announced", "10000000000"), ("bytes", "1024")], [("bytes", large.as_str()), ("unused", "")]] {
        let query = [size[0], size[1], ("type", "application/zip")];
        scene.client.navigate(&scene.session, &scene.attachment(&query)).await;
        let download = eventually(Duration::from_secs(30), "the download has failed", async || {
            scene.downloads().await.pop().filter(|download| download["status"] == "failed")
        })
        .await;
        assert_eq!(download["error"], "too_large", "{query:?}");
        let path =
            format!("/v1/sessions/{}/downloads/{}/content", scene.session, download["id"].as_str().expect("an id"));
        let refused = scene.client.get(&path).await.problem(409, "conflict");
        assert_eq!(refused.body["error"], "too_large");
    }
    scene
        .client
        .navigate(&scene.session, &scene.attachment(&[("endless", ""), ("bytes", "1024"), ("type", "application/zip")]))
        .await;
    let started = Instant::now();
    let waited = scene.wait(json!({"kind": "download"})).await.expect(200).body;
    assert_eq!(waited["matched"], true);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let download = scene.downloads().await.pop().expect("a download");
    assert_eq!((&download["id"], &download["status"]), (&waited["download"]["id"], &json!("in_progress")));
    scene.visit("/").await;
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: files 9. A file that is shorter than announced, because the connection has ended, is not complete.
#[tokio::test]
async fn download_with_a_lost_connection_fails() {
    let scene = Scene::start().await;
    for version in ["1.0", "1.1"] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut request = [0; 4_096];
                let _ = connection.read(&mut request).await;
                let head = format!(
                    "HTTP/{version} 200 OK\r\nContent-Type: application/zip\r\nContent-Disposition: attachment\r\n\
                     Content-Length: 4096\r\n\r\n"
                );
                let _ = connection.write_all(&[head.as_bytes(), &[b'x'; 1_024][..]].concat()).await;
                let _ = connection.shutdown().await;
            }
        });
        scene.client.navigate(&scene.session, &format!("http://{address}/")).await;
        let download = scene.ended_download().await;
        assert_eq!((&download["status"], &download["error"]), (&json!("failed"), &json!("network")), "{download}");
        server.abort();
    }
    assert_eq!(scene.downloads().await.len(), 2);
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: files 8. It fills at most the session's share.
#[tokio::test]
async fn page_cannot_start_downloads_without_limit() {
    let scene = Scene::start().await;
    let page = "<!doctype html><h1 id=title>many</h1><a id=link href='data:text/plain,hello' download='a.txt'></a>
        <script>for (let i = 0; i < 1000; i++) setTimeout(() => link.click(), 3 * i)</script>";
    scene.show(page).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let downloads = scene.downloads().await;
    let kept = downloads.iter().filter(|download| download["status"] != "failed").count();
    assert!((1..=100).contains(&kept) && downloads.len() <= 200, "{kept} of {}", downloads.len());
    let refused = downloads.iter().filter(|download| download["status"] == "failed");
    assert!(refused.clone().all(|download| download["error"] == "too_large"), "{downloads:?}");
    assert_eq!(scene.text("#title").await, "many");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: files 10.
#[tokio::test]
async fn large_download_is_complete() {
    const BYTES: usize = 50 * 1024 * 1024;
    let scene = Scene::start().await;
    let (bytes, url) = (BYTES.to_string(), |bytes: &str| scene.attachment(&[("bytes", bytes)]));
    scene.client.navigate(&scene.session, &url(&bytes)).await;
    let download = scene.ended_download().await;
    assert_eq!((&download["status"], &download["bytes"]), (&json!("complete"), &json!(BYTES)));
    let content = scene.content(&download).await;
    assert!(content.len() == BYTES && content.iter().all(|byte| *byte == b'x'), "{} bytes", content.len());
    scene.client.delete(&format!("/v1/sessions/{}", scene.session)).await.expect(204);
    scene.app.stop().await;
}
