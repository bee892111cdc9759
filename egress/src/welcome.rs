//! A built-in page, so that a first session shows a page even without internet access. The egress guard answers the
//! request itself, and no traffic leaves the machine.

use std::io;
use std::time::Duration;

use fast_socks5::util::target_addr::TargetAddr;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// Plain HTTP. The domain `internal` is not used on the public internet.
const HOST: &str = "welcome.kitfleet.internal";
const PORT: u16 = 80;

const PAGE: &str = include_str!("welcome.html");

/// A browser sends a few hundred bytes.
const HEAD_BYTES: u64 = 16 * 1024;

const WITHIN: Duration = Duration::from_secs(10);

pub fn is_at(target: &TargetAddr) -> bool {
    matches!(target, TargetAddr::Domain(host, PORT) if host.trim_end_matches('.').eq_ignore_ascii_case(HOST))
}

pub async fn serve(browser: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    timeout(WITHIN, answer(browser)).await.map_err(io::Error::from)?
}

async fn answer(browser: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut browser = BufReader::new(browser);
    let mut request = Vec::new();
    let mut head = (&mut browser).take(HEAD_BYTES);
    // Reads to the empty line, or to the size limit.
    while head.read_until(b'\n', &mut request).await? > 0 && !request.ends_with(b"\r\n\r\n") {}
    // The page's form submits to the page itself, with a query.
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
    async fn page_is_served_at_the_root_path_only() {
        let page = asked("GET / HTTP/1.1\r\nHost: welcome.kitfleet.internal\r\n\r\n").await;
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with(PAGE), "{page}");
        assert_eq!(asked("GET /?name=Ada HTTP/1.1\r\n\r\n").await, page);
        let icon = asked("GET /favicon.ico HTTP/1.1\r\n\r\n").await;
        assert!(icon.starts_with("HTTP/1.1 404 Not Found\r\n"), "{icon}");
    }

    #[test]
    fn page_has_one_name_and_port() {
        let at = |host: &str, port| is_at(&TargetAddr::Domain(host.to_owned(), port));
        assert!(at("welcome.kitfleet.internal", 80) && at("Welcome.Kitfleet.Internal.", 80));
        assert!(!at("welcome.kitfleet.internal", 443) && !at("kitfleet.internal", 80));
        assert!(!at("welcome.kitfleet.internal.example", 80));
    }
}
