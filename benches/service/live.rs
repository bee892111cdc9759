//! Cost and latency of a live view, through an API process and a worker process.
#![allow(clippy::cast_precision_loss, reason = "counts of some thousands")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use kitfleet_live::pictures::Picture;
use serde_json::{Value, json};
use sqlx::ConnectOptions as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

use crate::Result;
use crate::live_socket;
use crate::postgres::Postgres;
use crate::processes::with_descendants;
use crate::report::{self, Samples};
use crate::service::{Client, Service};
use crate::site;

const TOUCHES: usize = 100;
/// Pictures are counted meanwhile.
const SPAN: Duration = Duration::from_secs(6);
/// Measuring time of an idle page.
const REST: Duration = Duration::from_secs(10);
/// Of one session.
const MANY: usize = 20;
/// 2 Mbit/s.
const SLOW: usize = 250_000;
/// Chunk size of the slow connection.
const CHUNK: usize = 2_500;

/// Its colour changes on a touch.
const TOUCHED: &str = "<!doctype html><meta name=viewport content='width=device-width'><style>body { margin: 0; background: white }
div { position: absolute; left: 40px; top: 60px; width: 160px; height: 160px; background: #f00 } .on { background: #00f }</style>
<div id=box></div><script>addEventListener('touchstart', () => box.classList.toggle('on'))</script>";

/// Text and colours scroll continuously.
const SCROLLING: &str = "<!doctype html><meta name=viewport content='width=device-width'><style>body { margin: 0; font: 16px sans-serif }
p { margin: 0; padding: 12px } </style><script>for (let i = 0; i < 400; i++) document.write(`<p style='background: hsl(${i * 7} 70% 85%)'>
Paragraph ${i}: the quick brown fox jumps over the lazy dog, and the lazy dog does not care.</p>`);
const step = () => { scrollTo(0, window.at = ((window.at || 0) + 8) % 12000); requestAnimationFrame(step) }; step()</script>";

const RESTING: &str = "<!doctype html><meta name=viewport content='width=device-width'><h1>Nothing happens</h1>";

pub async fn run() -> Result<()> {
    let pages = [("/touched", TOUCHED), ("/scrolling", SCROLLING), ("/resting", RESTING)];
    let pages =
        pages.into_iter().fold(Router::new(), |pages, (path, page)| pages.route(path, get(async move || Html(page))));
    let site = site::serve(pages).await?;
    let postgres = Postgres::start(&[]).await?;
    let url = postgres.options().to_url_lossy().to_string();
    let settings = [
        ("DATABASE__URL", url.as_str()),
        ("SESSIONS__ALLOW_PRIVATE_TARGETS", "true"),
        ("RATE_LIMITS__CREDENTIAL_PER_MINUTE", "100000"),
    ];
    let service = Service::of_roles(&settings, 1, 1).await?;
    let client = service.client("live")?;
    let session = client.create().await?;
    let bench = Bench { service, client, session, site };
    report::heading("Live view, through an API and a worker");
    bench.touches().await?;
    bench.scrolling().await?;
    bench.resting().await?;
    bench.a_slow_line().await?;
    bench.many().await
}

struct Bench {
    service: Service,
    client: Client,
    session: String,
    site: String,
}

impl Bench {
    async fn show(&self, page: &str) -> Result<()> {
        let url = format!("{}{page}", self.site);
        self.client.operate(&self.session, "navigate", json!({"url": url})).await.map(drop)
    }

    async fn watch(&self, role: &str) -> Result<Viewer> {
        let stream = TcpStream::connect(self.host()).await?;
        self.watch_over(stream, role).await
    }

    async fn watch_over(&self, stream: TcpStream, role: &str) -> Result<Viewer> {
        stream.set_nodelay(true)?;
        let ticket = self.client.live_ticket(&self.session, role).await?;
        let stream = live_socket::open(stream, self.host(), &self.session, &ticket).await?;
        Ok(Viewer { socket: WebSocketStream::from_raw_socket(stream, Role::Client, None).await, sharp: false })
    }

    fn host(&self) -> &str {
        self.client.base_url.trim_start_matches("http://")
    }

    /// Without the page's processes, which run with or without viewers.
    fn processor(&self) -> Result<Duration> {
        with_descendants(&[self.service.pids_of("api"), self.service.pids_of("worker")].concat(), "kitfleet")
    }

    async fn touches(&self) -> Result<()> {
        self.show("touched").await?;
        let mut viewer = self.watch("controller").await?;
        let mut seen = Samples::default();
        for touch in 0..TOUCHES {
            // A sharp picture is not sent again.
            if !viewer.sharp {
                viewer.until(|picture, _| picture.sharp).await?;
            }
            let step = |phase: &str| json!({"type": "touch", "finger": 0, "phase": phase, "x": 100, "y": 120});
            let blue = touch % 2 == 0;
            let begun = Instant::now();
            viewer.act(&json!([step("begin"), step("end")])).await?;
            viewer
                .until(|picture, jpeg| colour(picture, jpeg, [100, 120]).is_some_and(|[red, _, _]| (red < 128) == blue))
                .await?;
            seen.push(begun.elapsed());
        }
        report::durations("a touch until it is seen", &seen, Some(35.0), None);
        let late = seen.quantile(0.95);
        report::figure("a touch until it is seen, p95", late, "ms", "≤ 45 ms", late <= 45.0);
        // Operations are accepted again 1 s after the last touch.
        sleep(Duration::from_secs(2)).await;
        Ok(())
    }

    /// During `span`.
    async fn unwatched(&self, span: Duration) -> Result<Duration> {
        // Waits until earlier viewers have been removed.
        sleep(Duration::from_secs(2)).await;
        let before = self.processor()?;
        sleep(span).await;
        Ok(self.processor()?.saturating_sub(before))
    }

    async fn scrolling(&self) -> Result<()> {
        self.show("scrolling").await?;
        let alone = self.unwatched(SPAN).await?;
        let mut viewer = self.watch("viewer").await?;
        viewer.read_for(Duration::from_secs(1)).await?;
        let before = self.processor()?;
        let read = viewer.read_for(SPAN).await?;
        let watched = self.processor()?.saturating_sub(before);
        let rate = read.a_second();
        report::figure("pictures while it scrolls", rate, "a second", "≥ 25", rate >= 25.0);
        let each = watched.saturating_sub(alone).as_secs_f64() * 1e3 / read.pictures as f64;
        report::figure("processor time of a picture", each, "ms", "≤ 10 ms", each <= 10.0);
        report::figure("bytes of a picture", read.bytes as f64 / read.pictures as f64 / 1e3, "KB", "-", true);
        Ok(())
    }

    async fn resting(&self) -> Result<()> {
        self.show("resting").await?;
        let alone = self.unwatched(REST).await?;
        let mut viewer = self.watch("viewer").await?;
        viewer.until(|picture, _| picture.sharp).await?;
        viewer.read_for(Duration::from_secs(2)).await?;
        let before = self.processor()?;
        let read = viewer.read_for(REST).await?;
        let watched = self.processor()?.saturating_sub(before);
        report::figure("bytes while it rests", read.bytes as f64, "in 10 s", "0", read.bytes == 0);
        let share = watched.saturating_sub(alone).as_secs_f64() / REST.as_secs_f64() * 100.0;
        report::figure("processor while it rests, for watching", share, "% of a core", "< 0.5 %", share < 0.5);
        Ok(())
    }

    async fn a_slow_line(&self) -> Result<()> {
        self.show("scrolling").await?;
        let mut fast = self.watch("viewer").await?;
        fast.read_for(Duration::from_secs(1)).await?;
        let alone = fast.read_for(SPAN).await?.a_second();
        let mut slow = self.watch_over(slow_line(self.host()).await?, "viewer").await?;
        slow.read_for(Duration::from_secs(1)).await?;
        let (beside, slowly) = tokio::join!(fast.read_for(SPAN), slow.read_for(SPAN));
        let (beside, slowly) = (beside?, slowly?);
        let oldest = slowly.ages.quantile(1.0);
        report::durations("age of a picture, behind 2 Mbit/s", &slowly.ages, None, None);
        report::figure("age of the oldest picture there", oldest, "ms", "≤ 600 ms", oldest <= 600.0);
        report::figure("pictures there", slowly.a_second(), "a second", "-", true);
        let ratio = beside.a_second() / alone;
        report::figure("pictures of a fast viewer beside it, relative to alone", ratio, "", "≥ 0.9", ratio >= 0.9);
        Ok(())
    }

    async fn many(&self) -> Result<()> {
        self.show("scrolling").await?;
        let mut reading = JoinSet::new();
        for _ in 0..MANY {
            let mut viewer = self.watch("viewer").await?;
            reading.spawn(async move {
                viewer.read_for(Duration::from_secs(2)).await?;
                viewer.read_for(SPAN).await
            });
        }
        let mut fewest = f64::INFINITY;
        while let Some(read) = reading.join_next().await {
            fewest = fewest.min(read??.a_second());
        }
        report::figure("pictures of the slowest of 20 viewers", fewest, "a second", "≥ 15", fewest >= 15.0);
        Ok(())
    }
}

struct Viewer {
    socket: WebSocketStream<TcpStream>,
    sharp: bool,
}

#[derive(Default)]
struct Read {
    pictures: usize,
    bytes: usize,
    ages: Samples,
    elapsed: Duration,
}

impl Read {
    fn a_second(&self) -> f64 {
        self.pictures as f64 / self.elapsed.as_secs_f64()
    }
}

impl Viewer {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let message = self.socket.next().await.ok_or("the view has ended")??;
        let Message::Binary(message) = message else { return Ok(None) };
        let (picture, _) = Picture::read(&message).ok_or("no picture")?;
        self.sharp = picture.sharp;
        self.send(&json!({"type": "ack", "seq": picture.seq})).await?;
        Ok(Some(message))
    }

    async fn until(&mut self, wanted: impl Fn(&Picture, &[u8]) -> bool) -> Result<()> {
        loop {
            if let Some(message) = self.next().await?
                && Picture::read(&message).is_some_and(|(picture, jpeg)| wanted(&picture, jpeg))
            {
                return Ok(());
            }
        }
    }

    async fn read_for(&mut self, span: Duration) -> Result<Read> {
        let mut read = Read::default();
        let begun = Instant::now();
        while let Ok(next) = timeout_at((begun + span).into(), self.next()).await {
            let Some(message) = next? else { continue };
            let (picture, _) = Picture::read(&message).ok_or("no picture")?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            read.pictures += 1;
            read.bytes += message.len();
            read.ages.push(now.saturating_sub(Duration::from_micros(picture.taken_us)));
        }
        read.elapsed = begun.elapsed();
        Ok(read)
    }

    async fn act(&mut self, events: &Value) -> Result<()> {
        self.send(&json!({"type": "input", "events": events})).await
    }

    async fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.socket.send(Message::text(message.to_string())).await?)
    }
}

/// `None` if the picture does not contain the pixel.
fn colour(picture: &Picture, jpeg: &[u8], [x, y]: [usize; 2]) -> Option<[u8; 3]> {
    let [left, top, across, down] = picture.rect.map(usize::from);
    let (x, y) = (x.checked_sub(left)?, y.checked_sub(top)?);
    if x >= across || y >= down {
        return None;
    }
    let mut decoder = JpegDecoder::new(ZCursor::new(jpeg));
    let pixels = decoder.decode().ok()?;
    let (width, height) = decoder.dimensions()?;
    let at = ((y * height / down) * width + x * width / across) * 3;
    pixels.get(at..at + 3)?.try_into().ok()
}

/// The relay limits the rate and has small buffers.
async fn slow_line(host: &str) -> Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let here = listener.local_addr()?;
    let far = TcpSocket::new_v4()?;
    far.set_recv_buffer_size(8_192)?;
    let far = far.connect(host.parse()?).await?;
    let near = TcpStream::connect(here).await?;
    let (line, _) = listener.accept().await?;
    for end in [&far, &line] {
        end.set_nodelay(true)?;
    }
    tokio::spawn(async move {
        let ((mut from_far, mut to_far), (mut from_near, mut to_near)) = (far.into_split(), line.into_split());
        let up = async { tokio::io::copy(&mut from_near, &mut to_far).await };
        let down = async {
            let (mut chunk, mut free) = ([0; CHUNK], tokio::time::Instant::now());
            loop {
                let count = from_far.read(&mut chunk).await?;
                if count == 0 {
                    return Ok::<_, std::io::Error>(0);
                }
                free = free.max(tokio::time::Instant::now()) + Duration::from_secs_f64(count as f64 / SLOW as f64);
                sleep_until(free).await;
                to_near.write_all(&chunk[..count]).await?;
            }
        };
        tokio::select! { _ = up => (), _ = down => () }
    });
    Ok(near)
}
