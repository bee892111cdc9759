//! Ordinary pages, hostile pages and misbehaving servers, for browsers in tests.

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::walk;

/// Dropping it ends it.
pub struct Site {
    pub base_url: String,
    seen: Arc<Seen>,
    _servers: JoinSet<()>,
    reset_port: u16,
    tls_port: u16,
}

#[derive(Default)]
struct Seen {
    hits: AtomicUsize,
    posts: AtomicUsize,
    user_agents: Mutex<Vec<String>>,
    keys: Mutex<HashSet<String>>,
}

impl Site {
    pub async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub async fn start_at(address: SocketAddr) -> Self {
        Self::start_on(TcpListener::bind(address).await.expect("a port")).await
    }

    /// The listener may be in another network namespace.
    pub async fn start_on(listener: TcpListener) -> Self {
        let seen = Arc::<Seen>::default();
        let router = Router::new()
            .route("/", get(|| page(HOME)))
            .route("/written", get(written).post(written))
            .route("/form", get(|| page(FORM)))
            .route("/submitted", get(submitted))
            .route("/list", get(|| page(LIST)))
            .route("/tall", get(|| page(TALL)))
            .route("/clipboard", get(|| page(CLIPBOARD)))
            .route("/eater", get(|| page(MEMORY_HOG)))
            .route("/wide", get(|| page(WIDE)))
            .route("/late", get(|| page(LATE)))
            .route("/search", get(|| page(SEARCH)))
            .route("/results", get(submitted))
            .route("/login", get(|| page(LOGIN)))
            .route("/spin", get(|| page(SPIN)))
            .route("/stuck", get(|| page("<title>stuck</title><h1>stuck</h1><script>while (true) {}</script>")))
            .route("/alert", get(|| page("<title>alert</title><script>alert('hello')</script><h1 id=after>after</h1>")))
            .route("/dialogs", get(|| page(DIALOGS)))
            .route("/popup", get(|| page("<title>popup</title><a id=open href='/' target=_blank>open</a><script>window.open('/list')</script>")))
            .route("/walk", get(|| page(walk::EXPENSES)))
            .route("/walk/sign-in", get(|| page(walk::SIGN_IN)))
            .route("/cookies", get(cookies))
            .route("/header", get(sent_header))
            .route("/sign-in", get(sign_in))
            .route("/forget", get(forget))
            .route("/remembered", get(remembered))
            .route("/stored", get(|| async { Html(include_str!("stored.html")) }))
            .route("/device", get(|| page(DEVICE)))
            .route("/fetch", get(fetch))
            .route("/embed", get(embed))
            .route("/slow", get(slow).post(slow))
            .route("/never", get(never).post(never))
            .route("/stream", get(stream))
            .route("/then", get(then))
            .route("/status", get(status))
            .route("/redirect", get(redirect).post(redirect))
            .route("/loop", get(|| async { Redirect::temporary("/loop") }))
            .route("/download", get(download))
            .route("/attachment", get(attachment).post(attachment))
            .route("/hit", get(hit).post(hit))
            .route("/no-content", get(|| async { StatusCode::NO_CONTENT }))
            .route("/picture", get(picture))
            .route("/heavy", get(|| page("<title>Heavy</title><h1>heavy</h1><img src='/picture?ms=1500'>")))
            .route("/chatty", get(|| page(CHATTY)))
            .route("/untitled", get(|| page("<h1>no title</h1>")))
            .route("/hop", get(|| page("<title>Hop</title><script>setTimeout(() => location.replace('/list'), 200)</script>")))
            .route("/touches", get(|| page(TOUCHES)))
            .route("/scrolling", get(|| page(SCROLLING)))
            .route("/very-tall", get(|| page(VERY_TALL)))
            .route("/tower", get(|| page(TOWER)))
            .route("/noise", get(|| page(NOISE)))
            .route("/storage", get(storage))
            .route("/many", get(many))
            .route("/long", get(long))
            .route("/many-cookies", get(many_cookies))
            .layer(from_fn_with_state(Arc::clone(&seen), record))
            .with_state(Arc::clone(&seen));
        let base_url = format!("http://{}", listener.local_addr().expect("an address"));
        let resetting = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let reset_port = resetting.local_addr().expect("an address").port();
        let untrusted = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let tls_port = untrusted.local_addr().expect("an address").port();
        let mut servers = JoinSet::new();
        servers.spawn(async move { axum::serve(listener, router).await.expect("the site runs") });
        servers.spawn(reset_connections(resetting));
        servers.spawn(serve_a_self_signed_certificate(untrusted));
        Self { base_url, seen, _servers: servers, reset_port, tls_port }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    pub fn resetting(&self) -> String {
        format!("http://127.0.0.1:{}/", self.reset_port)
    }

    pub fn untrusted(&self) -> String {
        format!("https://127.0.0.1:{}/", self.tls_port)
    }

    pub fn written(&self, html: &str) -> String {
        reqwest::Url::parse_with_params(&self.url("/written"), [("html", html)]).expect("an address").into()
    }

    pub fn url_under(&self, host: &str, path: &str) -> String {
        let port = self.base_url.rsplit(':').next().expect("a port");
        format!("http://{host}:{port}{path}")
    }

    pub fn hits(&self) -> usize {
        self.seen.hits.load(Ordering::SeqCst)
    }

    /// For any path.
    pub fn posts(&self) -> usize {
        self.seen.posts.load(Ordering::SeqCst)
    }

    pub fn user_agents(&self) -> Vec<String> {
        self.seen.user_agents.lock().expect("no panic").clone()
    }
}

async fn record(State(seen): State<Arc<Seen>>, request: Request, next: Next) -> Response {
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    seen.user_agents.lock().expect("no panic").push(agent.to_owned());
    if request.method() == Method::POST {
        seen.posts.fetch_add(1, Ordering::SeqCst);
    }
    next.run(request).await
}

fn page(body: &'static str) -> Ready<Html<String>> {
    let head = "<head><meta name=viewport content='width=device-width'></head>";
    ready(Html(format!("<!doctype html><html>{head}<body>{body}</body></html>")))
}

const HOME: &str = "<title>Home</title><h1 id=title>  Home  </h1><a id=link href='/list'>list</a>
<button id=button onclick='this.textContent = event.isTrusted ? \"trusted\" : \"scripted\"'>press</button>
<div id=hidden style='display:none'>hidden</div>
<script>localStorage.setItem('colour', 'green'); document.cookie = 'page=home'</script>";

const FORM: &str = "<title>Form</title><form action=/submitted><input id=name name=name><input id=secret name=secret type=password>
<textarea id=text name=text></textarea><input id=check name=check type=checkbox><button id=send>send</button></form>
<p id=keys></p><script>addEventListener('keydown', e => { document.querySelector('#keys').textContent += (e.isTrusted ? '' : '!') + e.key + ' ' })</script>";

const SPIN: &str = "<title>spin</title><h1>spin</h1><script>setTimeout(() => { const request = new XMLHttpRequest();
request.open('GET', '/hit', false); request.send(); while (true) {} }, 100)</script>";

const DIALOGS: &str = "<title>Dialogs</title><h1 id=title>dialogs</h1><a id=save href='/download'>save</a> <a id=nothing href='/no-content'>nothing</a>
<button id=close onclick='window.close()'>close</button><p id=answers></p><script>alert('one'); const answers = [confirm('two?'), prompt('three?')];
document.querySelector('#answers').textContent = 'answered ' + answers.length; addEventListener('beforeunload', event => { event.preventDefault(); event.returnValue = 'stay' })</script>";

const CHATTY: &str =
    "<title>Chatty</title><p id=done>not yet</p><script>addEventListener('load', () => setTimeout(() =>
fetch('/slow?ms=800').then(() => { document.querySelector('#done').textContent = 'done' }), 200))</script>";

const TOUCHES: &str = "<title>Touches</title><button id=target style='position:absolute;top:1500px;left:50px'>target</button><p id=log></p><script>
for (const type of ['touchstart', 'touchend', 'pointerdown', 'click']) document.querySelector('#target').addEventListener(type, event => {
document.querySelector('#log').textContent += `${event.isTrusted ? '' : '!'}${type}${event.touches && type === 'touchstart' ? event.touches.length : ''} ` })</script>";

const SCROLLING: &str = "<title>Scrolling</title><style>body{margin:0}#at,#in{position:fixed;top:0}#in{top:2em}</style>
<div style='width:3000px;height:3000px'></div><div id=box style='position:fixed;top:100px;width:100px;height:100px;overflow:auto'>
<div style='width:900px;height:900px'></div></div><p id=at>0,0</p><p id=in>0,0</p><script>const box = document.querySelector('#box');
addEventListener('scroll', () => { document.querySelector('#at').textContent = `${Math.round(scrollX)},${Math.round(scrollY)}` });
box.addEventListener('scroll', () => { document.querySelector('#in').textContent = `${Math.round(box.scrollLeft)},${Math.round(box.scrollTop)}` })</script>";

/// At a device pixel ratio of 2 taller than 32,767 pixels, the limit of one picture of WebKit.
const VERY_TALL: &str = "<title>Very tall</title><style>body{margin:0}div{height:8500px}</style>
<div style='background:rgb(255,0,0)'></div><div style='background:rgb(0,0,255)'></div>";

const TOWER: &str = "<title>Tower</title><style>body{margin:0}div{height:15000px}</style>
<div style='background:rgb(255,0,0)'></div><div style='background:rgb(0,0,255)'></div>";

const NOISE: &str = "<title>Noise</title><canvas width=1000 height=1000></canvas><script>const context = document.querySelector('canvas').getContext('2d');
const image = context.createImageData(1000, 1000); for (let i = 0; i < image.data.length; i++) image.data[i] = i % 4 === 3 ? 255 : Math.random() * 256;
context.putImageData(image, 0, 0)</script>";

const LIST: &str = "<title>List</title><p id=price>Price: $1,234.50</p><p id=none>no number</p>
<ul><li data-id=1><b>one</b> <a href='/a'>first</a></li><li data-id=2><b>two</b> <a href='/b'>second</a></li></ul>
<p id=script>'); document.title = 'pwned'; ('</p>";

const TALL: &str = "<title>Tall</title><style>body{margin:0}</style><div style='height:3000px;background:linear-gradient(red,blue)'>top</div>
<div id=box style='height:50px;overflow:auto'><div style='height:500px'>inner</div></div><p id=end>end</p>";

const CLIPBOARD: &str = "<title>Clipboard</title><input id=field><p id=copied></p><input id=target><p id=pasted></p><script>
const say = id => event => { document.querySelector(id).textContent = event.target.value };
document.querySelector('#field').addEventListener('copy', () => { document.querySelector('#copied').textContent = String(getSelection()) });
document.querySelector('#target').addEventListener('input', say('#pasted'))</script>";

const MEMORY_HOG: &str = "<title>Eater</title><script>
const all = []; const eat = () => { const piece = new Uint8Array(20 << 20); for (let at = 0; at < piece.length; at += 1024) piece[at] = Math.random() * 256;
all.push(piece); setTimeout(eat, 20) };
const write = async () => { const opening = indexedDB.open('eater', 1); opening.onupgradeneeded = () => opening.result.createObjectStore('all');
opening.onsuccess = () => { const next = key => { const piece = new Uint8Array(2 << 20); for (let at = 0; at < piece.length; at++) piece[at] = Math.random() * 256;
const change = opening.result.transaction('all', 'readwrite'); change.objectStore('all').put(piece, key); change.oncomplete = () => next(key + 1) }; next(0) } };
addEventListener('load', () => setTimeout(location.search === '?memory=1' ? eat : write, 2500))</script>";

const WIDE: &str = "<title>Wide</title><style>body{margin:0}</style><div style='width:7600px;height:7600px;background:linear-gradient(red,blue)'>wide</div>";

const LATE: &str = "<title>Late</title><p id=goes>goes</p><script>
setTimeout(() => { const p = document.createElement('p'); p.id = 'comes'; p.textContent = 'came'; document.body.append(p) }, 300);
setTimeout(() => document.querySelector('#goes').remove(), 300); setTimeout(() => history.pushState(null, '', '/late/here'), 300)</script>";

const SEARCH: &str = "<title>Search</title><form action=/results><input type=search name=q placeholder='Search the site'><button>Go</button></form>";

const LOGIN: &str = "<title>Log in</title><form id=form><input name=email type=email autocomplete=username><input name=password type=password>
<button type=submit>Sign in</button></form><script>document.querySelector('#form').addEventListener('submit', event => { event.preventDefault();
const form = new FormData(event.target); const good = form.get('email') === 'ada@example.com' && form.get('password') === 'correct horse';
if (good) { document.body.innerHTML = '<h1 id=welcome>Welcome</h1>'; history.pushState(null, '', '/account') } else { document.querySelector('button').textContent = 'Try again' } })</script>";

const DEVICE: &str = "<title>Device</title><pre id=device></pre><script>
document.querySelector('#device').textContent = JSON.stringify({userAgent: navigator.userAgent, innerWidth, innerHeight, devicePixelRatio,
maxTouchPoints: navigator.maxTouchPoints, platform: navigator.platform, coarse: matchMedia('(pointer: coarse)').matches,
hover: matchMedia('(hover: hover)').matches, screen: [screen.width, screen.height], touch: 'ontouchstart' in window, webdriver: navigator.webdriver})</script>";

#[derive(Deserialize)]
struct Written {
    html: String,
}

/// The page has the HTML of the query and the request header `X-Test`.
async fn sent_header(request: Request) -> Html<String> {
    let value = request.headers().get("x-test").and_then(|value| value.to_str().ok()).unwrap_or_default();
    Html(format!("<!doctype html><title>Header</title><p id=header>{value}</p>"))
}

async fn written(Query(Written { html }): Query<Written>) -> Html<String> {
    let title = if html.contains("<title>") { "" } else { "<title>Written</title>" };
    Html(format!("<!doctype html>{title}{html}"))
}

#[derive(Deserialize)]
struct Form {
    name: Option<String>,
    secret: Option<String>,
    text: Option<String>,
    check: Option<String>,
    q: Option<String>,
}

async fn submitted(Query(form): Query<Form>) -> Html<String> {
    let text = |value: Option<String>| value.unwrap_or_default().replace('&', "&amp;").replace('<', "&lt;");
    let Form { name, secret, text: body, check, q } = form;
    let (name, secret, body, check, q) = (text(name), text(secret), text(body), text(check), text(q));
    Html(format!(
        "<title>Submitted</title><p id=name>{name}</p><p id=secret>{secret}</p><pre id=text>{body}</pre><p id=check>{check}</p><p id=q>{q}</p>"
    ))
}

async fn cookies() -> Response {
    let cookies = [
        (header::SET_COOKIE, "plain=1; Path=/"),
        (header::SET_COOKIE, "hidden=2; Path=/; HttpOnly; SameSite=Strict; Max-Age=3600"),
    ];
    (axum::response::AppendHeaders(cookies), Html("<title>Cookies</title>")).into_response()
}

#[derive(Deserialize)]
struct Person {
    name: String,
    /// Endless loop after the name is stored.
    #[serde(default)]
    stuck: bool,
}

/// In cookies, local storage and `IndexedDB`, and once more in local storage when the page is unloaded.
async fn sign_in(Query(Person { name, stuck }): Query<Person>) -> Response {
    let cookies = [
        (header::SET_COOKIE, format!("visit={name}; Path=/; HttpOnly")),
        (header::SET_COOKIE, format!("login={name}; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600")),
    ];
    let then = if stuck {
        "setTimeout(() => { const request = new XMLHttpRequest(); request.open('GET', '/hit', false); request.send(); while (true) {} }, 100)"
    } else {
        ""
    };
    let page = format!(
        "<title>Sign in</title><p id=done></p><script>{DATABASE}
         localStorage.setItem('name', '{name}'); addEventListener('pagehide', () => localStorage.setItem('left', '{name}'));
         database().then(db => {{ const change = db.transaction('people', 'readwrite'); change.objectStore('people').put('{name}', 'name');
         change.oncomplete = () => {{ document.querySelector('#done').textContent = '{name}'; {then} }} }})</script>"
    );
    (axum::response::AppendHeaders(cookies), Html(page)).into_response()
}

const DATABASE: &str = "const database = () => new Promise((resolve, reject) => { const opening = indexedDB.open('site', 1);
opening.onupgradeneeded = () => opening.result.createObjectStore('people'); opening.onsuccess = () => resolve(opening.result); opening.onerror = reject });";

/// Deletes the cookies and no other data.
async fn forget() -> Response {
    let cookies =
        [(header::SET_COOKIE, "visit=; Path=/; Max-Age=0"), (header::SET_COOKIE, "login=; Path=/; Max-Age=0")];
    (axum::response::AppendHeaders(cookies), Html("<title>Forgotten</title>")).into_response()
}

/// Shows the stored names: from cookies, local storage and `IndexedDB`.
async fn remembered(request: Request) -> Html<String> {
    let cookies = request.headers().get(header::COOKIE).and_then(|cookies| cookies.to_str().ok()).unwrap_or_default();
    Html(format!(
        "<title>Remembered</title><p id=cookies>{cookies}</p><p id=local></p><p id=database></p><script>{DATABASE}
         document.querySelector('#local').textContent = `${{localStorage.getItem('name')}} ${{localStorage.getItem('left')}}`;
         database().then(db => {{ const asked = db.transaction('people').objectStore('people').get('name');
         asked.onsuccess = () => {{ document.querySelector('#database').textContent = String(asked.result) }} }})</script>"
    ))
}

#[derive(Deserialize)]
struct Target {
    url: String,
}

/// Shows the outcome.
async fn fetch(Query(Target { url }): Query<Target>) -> Html<String> {
    let url = serde_json::to_string(&url).expect("a string");
    Html(format!(
        "<title>Fetch</title><p id=outcome></p><script>fetch({url}, {{mode: 'no-cors', signal: AbortSignal.timeout(5000)}})
         .then(() => 'reached', () => 'refused').then(text => {{ document.querySelector('#outcome').textContent = text }})</script>"
    ))
}

/// All ways except for `fetch`.
async fn embed(Query(Target { url }): Query<Target>) -> Html<String> {
    let (attribute, url) = (url.replace('\'', "&#39;"), serde_json::to_string(&url).expect("a string"));
    Html(format!(
        "<title>Embed</title><link rel=stylesheet href='{attribute}'><img src='{attribute}'><iframe src='{attribute}'></iframe>
         <script src='{attribute}'></script><script>navigator.sendBeacon({url}); new EventSource({url}); new Worker(URL.createObjectURL(
         new Blob(['importScripts(' + JSON.stringify({url}) + ')']))); new WebSocket({url}.replace('http', 'ws'))</script>"
    ))
}

#[derive(Deserialize)]
struct Delay {
    ms: u64,
}

async fn slow(Query(Delay { ms }): Query<Delay>) -> Html<String> {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Html("<title>Slow</title><h1>slow</h1>".to_owned())
}

async fn never() -> Response {
    std::future::pending().await
}

#[derive(Deserialize)]
struct StreamType {
    r#type: String,
    /// The body ends if it is present.
    ends: Option<String>,
}

/// Never ends without `ends`.
async fn stream(Query(StreamType { r#type, ends }): Query<StreamType>) -> Response {
    let start = futures_util::stream::once(ready(Ok::<_, Infallible>("retry: 50\ndata: hello\n\n")));
    let body = if ends.is_some() {
        Body::from_stream(start)
    } else {
        Body::from_stream(start.chain(futures_util::stream::pending()))
    };
    ([(header::CONTENT_TYPE, r#type)], body).into_response()
}

#[derive(Deserialize)]
struct Then {
    key: String,
    code: u16,
}

/// A page for the first request with this key, and then this status.
async fn then(State(seen): State<Arc<Seen>>, Query(Then { key, code }): Query<Then>) -> Response {
    if seen.keys.lock().expect("no panic").insert(key) {
        return ([(header::CACHE_CONTROL, "no-store")], Html("<title>Then</title><h1 id=title>then</h1>"))
            .into_response();
    }
    (StatusCode::from_u16(code).expect("a status"), [(header::CACHE_CONTROL, "no-store")]).into_response()
}

#[derive(Deserialize)]
struct Code {
    code: u16,
}

async fn status(Query(Code { code }): Query<Code>) -> Response {
    (StatusCode::from_u16(code).expect("a status"), Html("<title>Status</title><h1>status</h1>")).into_response()
}

#[derive(Deserialize)]
struct To {
    to: String,
}

async fn redirect(Query(To { to }): Query<To>) -> Redirect {
    Redirect::temporary(&to)
}

async fn download() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment; filename=x.bin"),
    ];
    (headers, vec![0_u8; 1024]).into_response()
}

#[derive(Deserialize)]
struct Attachment {
    disposition: Option<String>,
    r#type: Option<String>,
    #[serde(default)]
    bytes: usize,
    /// `Content-Length`. A body that has fewer bytes does not end.
    announced: Option<u64>,
    /// The body does not end if it is present.
    endless: Option<String>,
}

/// The bytes are `x`.
async fn attachment(Query(query): Query<Attachment>) -> Response {
    const PIECE: usize = 64 * 1024;
    let Attachment { disposition, r#type, bytes, announced, endless } = query;
    let pieces = (0..bytes.div_ceil(PIECE)).map(move |piece| (bytes - piece * PIECE).min(PIECE));
    let pieces = futures_util::stream::iter(pieces.map(|length| Ok::<_, Infallible>(vec![b'x'; length])));
    let body = if endless.is_some() || announced.is_some() {
        Body::from_stream(pieces.chain(futures_util::stream::pending()))
    } else {
        Body::from_stream(pieces)
    };
    let disposition = disposition.unwrap_or_else(|| "attachment".to_owned());
    let media_type = r#type.unwrap_or_else(|| "application/octet-stream".to_owned());
    let mut response = ([(header::CONTENT_TYPE, media_type)], body).into_response();
    // A header can have bytes beyond ASCII.
    let disposition = HeaderValue::from_bytes(disposition.as_bytes()).expect("a value");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
    if let Some(announced) = announced {
        response.headers_mut().insert(header::CONTENT_LENGTH, announced.into());
    }
    response
}

async fn hit(State(seen): State<Arc<Seen>>) -> Html<&'static str> {
    seen.hits.fetch_add(1, Ordering::SeqCst);
    Html("<title>Hit</title>")
}

async fn picture(Query(Delay { ms }): Query<Delay>) -> Response {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    ([(header::CONTENT_TYPE, "image/svg+xml")], BLUE_SVG).into_response()
}

const BLUE_SVG: &str =
    "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9' viewBox='0 0 9 9' preserveAspectRatio='none'>
<rect width='9' height='9' fill='#0000ff'/></svg>";

#[derive(Deserialize)]
struct Amount {
    n: usize,
}

async fn storage(Query(Amount { n }): Query<Amount>) -> Html<String> {
    Html(format!("<title>Storage</title><script>localStorage.setItem('large', 'x'.repeat({n}))</script>"))
}

async fn many(Query(Amount { n }): Query<Amount>) -> Html<String> {
    Html(format!("<title>Many</title>{}", "<i></i>".repeat(n)))
}

#[derive(Deserialize)]
struct Length {
    n: usize,
    /// The text consists of control characters if it is present.
    control: Option<String>,
}

async fn long(Query(Length { n, control }): Query<Length>) -> Html<String> {
    let text = if control.is_some() { "\u{1}" } else { "x" };
    Html(format!("<title>Long</title><p hidden>{}</p>", text.repeat(n)))
}

#[derive(Deserialize)]
struct Cookies {
    n: usize,
    #[serde(default)]
    from: usize,
}

async fn many_cookies(Query(Cookies { n, from }): Query<Cookies>) -> Response {
    let cookies = (from..from + n).map(|i| (header::SET_COOKIE, format!("cookie{i}={i}; Path=/"))).collect::<Vec<_>>();
    let mut response = Html("<title>Many cookies</title>").into_response();
    for (name, cookie) in cookies {
        response.headers_mut().append(name, cookie.parse().expect("a header"));
    }
    response
}

async fn reset_connections(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let _ = stream.read(&mut [0; 16]).await;
        let _ = stream.set_zero_linger();
    }
}

async fn serve_a_self_signed_certificate(listener: TcpListener) {
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let own = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("a key that fits")));
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move { acceptor.accept(stream).await.map(drop) });
    }
}
