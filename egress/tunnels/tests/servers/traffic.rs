//! Traffic through a tunnel of any protocol.

use std::time::{Duration, Instant};

use kitfleet_tunnels::{ConnectError, Stream, Tunnel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};
use url::Host;

use super::support::{FAR, PORT};

pub async fn site(tunnel: &Tunnel) -> Stream {
    tunnel.connect(Host::Ipv4(FAR), PORT).await.expect("a connection")
}

pub async fn download(mut stream: Stream, bytes: usize) -> std::io::Result<()> {
    stream.write_all(format!("down {bytes}\n").as_bytes()).await?;
    let count = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    assert_eq!(count, bytes as u64);
    Ok(())
}

/// Checks the count that the site returns.
pub async fn upload(mut stream: Stream, bytes: usize) -> std::io::Result<()> {
    stream.write_all(b"up\n").await?;
    let chunk = vec![b'.'; 256 << 10];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(chunk.len());
        stream.write_all(&chunk[..length]).await?;
        left -= length;
    }
    stream.shutdown().await?;
    let mut count = String::new();
    stream.read_to_string(&mut count).await?;
    assert_eq!(count, bytes.to_string());
    Ok(())
}

/// A running download survives a pause of the server, and new connections fail during the pause.
pub async fn survives_a_pause(tunnel: &Tunnel, pause: impl Future<Output = ()>, end: impl FnOnce()) {
    let going_on = tokio::spawn(download(site(tunnel).await, 40_000_000));
    pause.await;
    assert_eq!(tunnel.connect(Host::Ipv4(FAR), PORT).await.err(), Some(ConnectError::TunnelDead));
    end();
    let deadline = Instant::now() + Duration::from_secs(10);
    while tunnel.connect(Host::Ipv4(FAR), PORT).await.is_err() {
        assert!(Instant::now() < deadline, "it answers again");
        sleep(Duration::from_millis(50)).await;
    }
    timeout(Duration::from_secs(30), going_on).await.expect("in time").expect("no panic").expect("all of it");
}

pub async fn is_shared(tunnel: &Tunnel) {
    let connecting: Vec<_> = (0..256)
        .map(|_| {
            let tunnel = tunnel.clone();
            tokio::spawn(async move { site(&tunnel).await })
        })
        .collect();
    let mut open = Vec::new();
    for connection in connecting {
        open.push(connection.await.expect("a connection"));
    }
    let working: Vec<_> = open.into_iter().map(|stream| tokio::spawn(download(stream, 200_000))).collect();
    for work in working {
        work.await.expect("no panic").expect("all of it");
    }
}
