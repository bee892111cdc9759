//! Raw HTTP, for clients that misbehave.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

pub async fn connect(base_url: &str) -> (OwnedReadHalf, OwnedWriteHalf) {
    let address = base_url.strip_prefix("http://").expect("plain HTTP");
    TcpStream::connect(address).await.expect("the service listens").into_split()
}

/// A part of the response if the service closed the connection.
///
/// # Panics
/// When the service sends nothing for longer than `limit` and leaves the connection open.
pub async fn answer(reader: &mut OwnedReadHalf, limit: Duration) -> String {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match timeout(limit, reader.read(&mut buffer)).await {
            Ok(Ok(count)) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            Ok(_) => break,
            Err(silence) => panic!("no answer and no end of the connection: {silence}"),
        }
        if is_whole(&String::from_utf8_lossy(&bytes)) {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number of bytes is that of the content length.
fn is_whole(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    let length = head.lines().filter_map(|line| line.split_once(": "));
    let length =
        length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).find_map(|(_, n)| n.parse().ok());
    length.is_some_and(|length: usize| body.len() >= length)
}

/// With `connection: close`.
pub async fn exchange(base_url: &str, request: &[u8]) -> String {
    let (mut reader, mut writer) = connect(base_url).await;
    // The service may respond and close the connection before it has read the whole request.
    let (sent, answered) = tokio::join!(writer.write_all(request), answer(&mut reader, Duration::from_secs(10)));
    drop(sent);
    answered
}

/// `None` when the connection was closed without a response.
pub fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}
