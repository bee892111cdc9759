//! Time that a profile with data adds to the creation of a session, and time to save a session's data.

use std::time::{Duration, Instant};

use axum::Router;
use axum::http::Uri;
use axum::http::header::SET_COOKIE;
use axum::response::{AppendHeaders, Html, IntoResponse};
use axum::routing::get;
use serde_json::json;
use sqlx::PgConnection;

use crate::Result;
use crate::report::{self, Samples};
use crate::service::{Client, Service};
use crate::site;

const ROUNDS: usize = 20;
/// Of a typical profile, and per response.
const COOKIES: (usize, usize) = (200, 40);

/// About 1 MiB of incompressible data in local storage and the same in `IndexedDB`.
const PAGE: &str = "<!doctype html><title>Bench</title><script>
const noise = new Uint8Array(1 << 20);
for (let at = 0; at < noise.length; at += 65536) crypto.getRandomValues(noise.subarray(at, at + 65536));
for (let piece = 0; piece < 8; piece++) {
  localStorage.setItem(piece, btoa(String.fromCharCode(...noise.subarray(piece * 49152, (piece + 1) * 49152))));
}
const open = indexedDB.open('noise', 1);
open.onupgradeneeded = () => open.result.createObjectStore('noise');
open.onsuccess = () => {
  const write = open.result.transaction('noise', 'readwrite');
  write.objectStore('noise').put(noise, 'noise');
  write.oncomplete = () => { document.body.id = 'kept'; };
};
</script><body>Bench";

pub async fn run() -> Result<()> {
    let url = site::serve(Router::new().fallback(get(page))).await?;
    let settings = [("SESSIONS__ALLOW_PRIVATE_TARGETS", "true"), ("WORKER__WARM_POOL", "2")];
    let service = Service::start(&settings, 1).await?;
    let (client, mut db) = (service.client("profiles")?, service.database().await?);
    let profile = client.profile().await?;
    let session = client.launch(&profile).await?;
    let (cookies, of_each) = COOKIES;
    for first in (0..cookies).step_by(of_each) {
        keep(&client, &session, &format!("{url}{first}")).await?;
    }
    save(&client, &mut db, &session).await?;

    let (mut without, mut with, mut destroyed, mut saved) =
        (Samples::default(), Samples::default(), Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        // Waits until the pool is full again: a taken browser is replaced in the background.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        let session = client.create().await?;
        without.push(begun.elapsed());
        client.delete(&session).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        let session = client.launch(&profile).await?;
        with.push(begun.elapsed());
        keep(&client, &session, &format!("{url}0")).await?;
        let (answered, kept) = save(&client, &mut db, &session).await?;
        destroyed.push(answered);
        saved.push(kept);
    }
    let size: i64 = sqlx::query_scalar("select max(size_bytes) from profiles").fetch_one(&mut db).await?;
    report::heading(&format!("A profile of {cookies} cookies and {} KiB in all, in milliseconds", size / 1024));
    report::durations("create without", &without, None, None);
    report::durations("create with", &with, None, None);
    let added = with.quantile(0.5) - without.quantile(0.5);
    report::figure("what it adds to the median", added, "ms", "≤ 60 ms", added <= 60.0);
    report::durations("delete", &destroyed, Some(30.0), None);
    report::durations("from the delete's answer until it is saved", &saved, Some(300.0), None);
    Ok(())
}

async fn keep(client: &Client, session: &str, url: &str) -> Result<()> {
    client.operate(session, "navigate", json!({"url": url})).await?;
    let kept = json!({"condition": {"kind": "selector", "selector": "#kept"}});
    client.operate(session, "wait", kept).await.map(drop)
}

/// Returns the time of the request, and the time from its response until the profile was saved.
async fn save(client: &Client, db: &mut PgConnection, session: &str) -> Result<(Duration, Duration)> {
    let answered = client.delete(session).await?;
    let began = Instant::now();
    while sqlx::query_scalar("select exists (select from sessions where profile_in_hand)").fetch_one(&mut *db).await? {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok((answered, began.elapsed()))
}

/// The path is the number of the first cookie.
async fn page(uri: Uri) -> impl IntoResponse {
    let first = uri.path().trim_start_matches('/').parse().unwrap_or(0);
    let cookie = |number| (SET_COOKIE, format!("cookie{number}={}; Path=/; HttpOnly; Max-Age=86400", "v".repeat(60)));
    (AppendHeaders((first..first + COOKIES.1).map(cookie)), Html(PAGE))
}
