//! Opening the WebSocket of a live view, as client programs do (RFC 6455).

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The returned connection carries WebSocket frames.
pub async fn open(mut stream: TcpStream, host: &str, session: &str, ticket: &str) -> io::Result<TcpStream> {
    let request = format!(
        "GET /v1/sessions/{session}/live HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: kitfleet.live.v1, ticket.{ticket}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let opened = head.starts_with("http/1.1 101 ")
        && head.contains("sec-websocket-protocol: kitfleet.live.v1\r\n")
        // Example value of RFC 6455, section 1.3.
        && head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n");
    if opened { Ok(stream) } else { Err(io::Error::other(head)) }
}
