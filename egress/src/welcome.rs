//! A page that a browser can reach wherever it runs: a first session shows something on a machine without the internet. The
//! egress guard answers for it instead of dialling, so that there is no server, and nothing leaves the machine.

use std::io;
use std::time::Duration;

use fast_socks5::util::target_addr::TargetAddr;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// Where it is, over plain HTTP. The domain `internal` is nobody's on the public internet.
const HOST: &str = "welcome.kitfleet.internal";
const PORT: u16 = 80;

const PAGE: &str = include_str!("welcome.html");

/// Bytes that a request's head may have; a browser's has a few hundred.
const HEAD_BYTES: u64 = 16 * 1024;

/// How long a browser may take to ask, and to take the answer.
const WITHIN: Duration = Duration::from_secs(10);

/// Whether this is where the page is.
pub fn is_at(target: &TargetAddr) -> bool {
    matches!(target, TargetAddr::Domain(host, PORT) if host.trim_end_matches('.').eq_ignore_ascii_case(HOST))
}

/// Answers one request.
///
/// # Errors
/// When the browser hangs up, or takes too long.
pub async fn serve(browser: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    timeout(WITHIN, answer(browser)).await.map_err(io::Error::from)?
}

async fn answer(browser: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut browser = BufReader::new(browser);
    let mut request = Vec::new();
    let mut head = (&mut browser).take(HEAD_BYTES);
    // Up to the empty line, or as far as a head may go.
    while head.read_until(b'\n', &mut request).await? > 0 && !request.ends_with(b"\r\n\r\n") {}
    // Its form comes back to it, with a query.
    let is_asked_for = request.starts_with(b"GET / ") || request.starts_with(b"GET /?");
    let (status, page) = if is_asked_for { ("200 OK", PAGE) } else { ("404 Not Found", "") };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{page}",
        length = page.len(),
    );
    browser.write_all(answer.as_bytes()).await?;
    browser.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    async fn asked(request: &str) -> String {
        let (mut browser, guard) = duplex(64 * 1024);
        let serving = tokio::spawn(serve(guard));
        browser.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        browser.read_to_string(&mut answer).await.expect("it answers");
        serving.await.expect("no panic").expect("an answer");
        answer
    }

    #[tokio::test]
    async fn the_page_is_at_the_root_and_nothing_beside_it() {
        let page = asked("GET / HTTP/1.1\r\nHost: welcome.kitfleet.internal\r\n\r\n").await;
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with(PAGE), "{page}");
        assert_eq!(asked("GET /?name=Ada HTTP/1.1\r\n\r\n").await, page);
        let icon = asked("GET /favicon.ico HTTP/1.1\r\n\r\n").await;
        assert!(icon.starts_with("HTTP/1.1 404 Not Found\r\n"), "{icon}");
    }

    #[test]
    fn it_is_at_one_name_and_port() {
        let at = |host: &str, port| is_at(&TargetAddr::Domain(host.to_owned(), port));
        assert!(at("welcome.kitfleet.internal", 80) && at("Welcome.Kitfleet.Internal.", 80));
        assert!(!at("welcome.kitfleet.internal", 443) && !at("kitfleet.internal", 80));
        assert!(!at("welcome.kitfleet.internal.example", 80));
    }
}
