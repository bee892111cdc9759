//! The pages that the bench's browsers visit.

use axum::Router;
use axum::response::Html;
use axum::routing::get;

use crate::Result;

const PAGE: &str = "<!doctype html><html><head><title>Bench</title><meta name=viewport content='width=device-width'>
<style>body{font:16px sans-serif;background:linear-gradient(#fff,#9cf)}</style></head><body><h1>Bench</h1>
<button id=button onclick='this.textContent = \"pressed\"'>press</button><input id=input>
<script>for (let i = 0; i < 60; i++) { const p = document.createElement('p'); p.textContent = 'paragraph ' + i; document.body.append(p) }</script></body></html>";

const CONTROLS: &str = "<!doctype html><title>Controls</title><body><script>document.body.innerHTML =
Array.from({length: 500}, (_, i) => `<input aria-label='Field ${i}'><button>Button ${i}</button>`).join('')</script>";

/// Until the process ends. Returns the address of the first page.
pub async fn start() -> Result<String> {
    let pages = Router::new().route("/", get(|| async { Html(PAGE) }));
    serve(pages.route("/controls", get(|| async { Html(CONTROLS) }))).await
}

/// Until the process ends.
pub async fn serve(pages: Router) -> Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, pages).await });
    Ok(format!("http://{address}/"))
}
