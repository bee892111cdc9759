//! Cost of egress through a customer's proxy compared with a direct session.
//!
//! The cost of a tunnel is measured by the tests `measure_throughput` in `egress/tunnels/tests/servers`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Result;
use crate::proxy::{Manner, PASSWORD, Proxy, USER};
use crate::report::{self, Samples};
use crate::service::{Client, Service};
use crate::site;

const ROUNDS: usize = 40;
const LONGER: f64 = 1.15;
/// Maximum additional milliseconds of a create.
const BEYOND: f64 = 60.0;

pub async fn run() -> Result<()> {
    let url = site::start().await?;
    let address: SocketAddr = url.trim_start_matches("http://").trim_end_matches('/').parse()?;
    let key = STANDARD.encode([7; 32]);
    let settings = [
        ("SESSIONS__ALLOW_PRIVATE_TARGETS", "true"),
        ("WORKER__WARM_POOL", "2"),
        ("MFA__ENCRYPTION_KEY", key.as_str()),
        ("EGRESS__PROBES", "false"),
    ];
    let service = Service::start(&settings, 1).await?;
    let client = service.client("egress")?;
    for scheme in ["socks5", "http"] {
        let proxy = Proxy::start(scheme, Manner::Good, address).await;
        let saved = client.proxy(proxy.body()).await?;
        report::heading(&format!("Egress through a proxy, {scheme}, one client, in milliseconds"));
        creates(&client, &saved).await?;
        pages(&client, &saved, (scheme, proxy.port), address).await?;
    }
    Ok(())
}

async fn creates(client: &Client, proxy: &str) -> Result<()> {
    let (mut direct, mut through) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS / 2 {
        for (proxy, samples) in [(None, &mut direct), (Some(proxy), &mut through)] {
            // A taken browser is replaced in the background.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let begun = Instant::now();
            let (_, session) = match proxy {
                Some(proxy) => client.agent_through(proxy).await?,
                None => client.agent().await?,
            };
            samples.push(begun.elapsed());
            client.delete(&session).await?;
        }
    }
    report::durations("create, direct", &direct, None, None);
    report::durations("create, through the proxy", &through, None, None);
    let beyond = through.quantile(0.5) - direct.quantile(0.5);
    report::figure("create: what the proxy adds, median", beyond, "ms", "≤ 60 ms", beyond <= BEYOND);
    Ok(())
}

async fn pages(client: &Client, proxy: &str, (scheme, port): (&str, u16), site: SocketAddr) -> Result<()> {
    let ((_, direct), (_, through)) = (client.agent().await?, client.agent_through(proxy).await?);
    let [mut page, mut page_through, mut bare, mut bare_through] = [(); 4].map(|()| Samples::default());
    for round in 0..ROUNDS {
        // A query of its own keeps each page out of the cache.
        let body = json!({"url": format!("http://{site}/?{round}")});
        page.push(client.operate(&direct, "navigate", body.clone()).await?.total);
        page_through.push(client.operate(&through, "navigate", body).await?.total);
        bare.push(fetch(None, site).await?);
        bare_through.push(fetch(Some((scheme, port)), site).await?);
    }
    for session in [direct, through] {
        client.delete(&session).await?;
    }
    report::durations("page, direct", &page, None, None);
    report::durations("page, through the proxy", &page_through, None, None);
    report::durations("without a browser, direct", &bare, None, None);
    report::durations("without a browser, through the proxy", &bare_through, None, None);
    let hop = bare_through.quantile(0.5) - bare.quantile(0.5);
    let ratio = (page_through.quantile(0.5) - hop) / page.quantile(0.5);
    report::figure("page: ratio without the proxy's hop, median", ratio, "", "≤ 1.15", ratio <= LONGER);
    Ok(())
}

/// Without a browser. Returns the time, including the connection.
async fn fetch(through: Option<(&str, u16)>, site: SocketAddr) -> Result<Duration> {
    let begun = Instant::now();
    let mut stream = match through {
        Some((_, port)) => TcpStream::connect(("127.0.0.1", port)).await?,
        None => TcpStream::connect(site).await?,
    };
    match through {
        Some(("http", _)) => {
            let credentials = STANDARD.encode(format!("{USER}:{PASSWORD}"));
            let head =
                format!("CONNECT {site} HTTP/1.1\r\nHost: {site}\r\nProxy-Authorization: Basic {credentials}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                answer.push(stream.read_u8().await?);
            }
        }
        Some(_) => {
            let field = |text: &str| [&[u8::try_from(text.len()).unwrap_or(u8::MAX)], text.as_bytes()].concat();
            stream.write_all(&[5, 1, 2]).await?;
            stream.read_u16().await?;
            stream.write_all(&[&[1][..], &field(USER), &field(PASSWORD)].concat()).await?;
            stream.read_u16().await?;
            let port = site.port().to_be_bytes();
            stream.write_all(&[5, 1, 0, 1, 127, 0, 0, 1, port[0], port[1]]).await?;
            stream.read_exact(&mut [0; 10]).await?;
        }
        None => {}
    }
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {site}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    stream.read_to_end(&mut Vec::new()).await?;
    Ok(begun.elapsed())
}
