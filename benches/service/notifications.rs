//! Latency of an account's notifications to their streams, and the memory cost of many streams.

use std::time::{Duration, Instant};

use reqwest::Response;
use sqlx::ConnectOptions as _;
use tokio::time::sleep;

use crate::Result;
use crate::postgres::Postgres;
use crate::processes::memory_mib;
use crate::report::{self, Samples};
use crate::service::Service;

const NOTIFICATIONS: usize = 500;
const ACCOUNTS: usize = 63;
const STREAMS: usize = 16;

pub async fn run() -> Result<()> {
    let postgres = Postgres::start(&["max_connections=200"]).await?;
    let url = postgres.options().to_url_lossy().to_string();
    let settings = [
        ("DATABASE__URL", url.as_str()),
        ("WORKER__DRIVER", "simulated"),
        ("SERVER__MAX_CONNECTIONS", "4000"),
        ("SERVER__MAX_CONNECTIONS_PER_ADDRESS", "4000"),
    ];
    let service = Service::of_roles(&settings, 1, 1).await?;
    let mut conn = postgres.options().connect().await?;
    report::heading("Notifications, through an API");

    let client = service.client("followed")?;
    let mut stream = client.follow().await?;
    let account = client.account.trim_start_matches("acc_");
    let mut delays = Samples::default();
    for index in 0..NOTIFICATIONS {
        // The statement commits on its own, as a publisher's transaction would.
        let begun = Instant::now();
        sqlx::query("select write_notification($1::text::uuid, 'session.ready', json_build_object('told', $2))")
            .bind(account)
            .bind(i64::try_from(index)?)
            .execute(&mut conn)
            .await?;
        until(&mut stream, &format!("\"told\":{index}}}")).await?;
        delays.push(begun.elapsed());
        sleep(Duration::from_millis(5)).await;
    }
    report::durations("written until it is read", &delays, None, Some(20.0));

    let [api] = service.pids_of("api")[..] else { return Err("one API".into()) };
    let before = memory_mib(api)?;
    let mut streams = Vec::new();
    for number in 0..ACCOUNTS {
        let client = service.client(&format!("follower-{number}"))?;
        for _ in 0..STREAMS {
            streams.push(client.follow().await?);
        }
    }
    sleep(Duration::from_secs(2)).await;
    let more = memory_mib(api)? - before;
    report::figure(&format!("memory of {} streams", streams.len()), more, "MiB", "≤ 60 MiB", more <= 60.0);
    Ok(())
}

async fn until(stream: &mut Response, expected: &str) -> Result<()> {
    let mut text = String::new();
    while !text.replace(' ', "").contains(expected) {
        let chunk = stream.chunk().await?.ok_or("the stream has ended")?;
        text += std::str::from_utf8(&chunk)?;
    }
    Ok(())
}
