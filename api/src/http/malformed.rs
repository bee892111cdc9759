//! Problem documents for input that is not an HTTP request. hyper rejects a head that it cannot parse with a bare status line,
//! which no layer sees.
//!
//! The connection replaces it with a problem document. Responses of the service always have a request ID; a response without
//! one is hyper's.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use uuid::Uuid;

use crate::http::error::Problem;
use crate::http::kinds;
use crate::http::problems::{MEDIA_TYPE, document};
use crate::http::request_id;

pub struct RejectionRewriter<S> {
    stream: S,
    errors_url: String,
    asked: Vec<u8>,
    /// Further input belongs to another request.
    answered: bool,
    explained: Option<RewrittenRejection>,
}

struct RewrittenRejection {
    answer: Vec<u8>,
    written: usize,
    bare_len: usize,
}

impl<S> RejectionRewriter<S> {
    pub fn new(stream: S, errors_url: &str) -> Self {
        Self { stream, errors_url: errors_url.to_owned(), asked: Vec::new(), answered: false, explained: None }
    }

    fn note(&mut self, read: &[u8]) {
        if read.is_empty() {
            return;
        }
        if std::mem::take(&mut self.answered) {
            self.asked.clear();
        }
        let left = KEPT.saturating_sub(self.asked.len());
        self.asked.extend_from_slice(&read[..read.len().min(left)]);
    }

    fn explain(&self, status: StatusCode, head: &str) -> Vec<u8> {
        let path = if self.answered { "" } else { path_in(&self.asked) };
        explain(status, head, &self.errors_url, path)
    }
}

/// To find the path; far more than any valid path has.
const KEPT: usize = 2_048;

const NO_BODY: &str = "content-length: 0\r\n";

/// Empty when it is not recognisable.
fn path_in(asked: &[u8]) -> &str {
    let line = asked.split(u8::is_ascii_control).next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return "" };
    let Some((method, target)) = line.split_once(' ') else { return "" };
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let path = target.split([' ', '?', '#']).next().unwrap_or_default();
    if is_method && path.starts_with('/') && path.is_ascii() { path } else { "" }
}

/// From a response that hyper wrote.
fn bare_refusal(written: &[u8]) -> Option<(StatusCode, &str)> {
    if !written.starts_with(b"HTTP/1.1 4") || !written.ends_with(b"\r\n\r\n") {
        return None;
    }
    let head = std::str::from_utf8(written).ok()?;
    let ours = head.contains(&format!("\r\n{}: ", request_id::HEADER));
    let status = StatusCode::from_bytes(written.get(9..12)?).ok()?;
    (!ours && head.contains(NO_BODY)).then_some((status, head))
}

fn explain(status: StatusCode, head: &str, errors_url: &str, path: &str) -> Vec<u8> {
    let detail = match status {
        StatusCode::URI_TOO_LONG => "the request URI is too long",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "the request headers are too many or too large",
        _ => "the request is not valid HTTP/1.1",
    };
    let id = Uuid::now_v7().to_string();
    let problem = Problem::new(&kinds::BAD_REQUEST, detail);
    let body = document(problem.into(), status, errors_url, path, Some(&id));
    let headers = format!(
        "content-type: {MEDIA_TYPE}\r\nx-content-type-options: nosniff\r\n{}: {id}\r\ncontent-length: {}\r\n",
        request_id::HEADER,
        body.len()
    );
    // hyper's headers may state several times that there is no body.
    let head = head.replace(NO_BODY, "");
    let head = head.strip_suffix("\r\n").unwrap_or(&head);
    format!("{head}{headers}\r\n{body}").into_bytes()
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RejectionRewriter<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.explained.is_none()
            && let Some((status, head)) = bare_refusal(buf)
        {
            let answer = this.explain(status, head);
            this.explained = Some(RewrittenRejection { answer, written: 0, bare_len: buf.len() });
        }
        let Some(explained) = &mut this.explained else {
            this.answered = true;
            return Pin::new(&mut this.stream).poll_write(cx, buf);
        };
        while let rest @ [_, ..] = &explained.answer[explained.written..] {
            match ready!(Pin::new(&mut this.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => explained.written += written,
            }
        }
        let bare_len = explained.bare_len;
        this.explained = None;
        Poll::Ready(Ok(bare_len))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match bufs.iter().find(|buf| !buf.is_empty()) {
            Some(first) if self.explained.is_some() || bare_refusal(first).is_some() => self.poll_write(cx, first),
            _ => {
                self.answered = true;
                Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RejectionRewriter<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.note(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn sent(written: &[u8]) -> String {
        let mut connection = RejectionRewriter::new(Vec::new(), "https://e");
        connection.write_all(written).await.expect("a Vec takes everything");
        String::from_utf8(connection.stream).expect("a text")
    }

    #[test]
    fn path_is_read_from_the_request_line() {
        for (asked, path) in [
            ("GET /v1/sessions?limit=1 HTTP/1.1\r\nHost: x\r\n", "/v1/sessions"),
            ("GET /v1/sess", "/v1/sess"),
            ("GET http://x/v1/sessions HTTP/1.1\r\n", ""),
            ("\0\0\0", ""),
            ("get /x HTTP/1.1", ""),
        ] {
            assert_eq!(path_in(asked.as_bytes()), path, "{asked}");
        }
    }

    #[tokio::test]
    async fn bare_400_gets_a_body_and_other_bytes_are_unchanged() {
        let sent_instead = sent(b"HTTP/1.1 431 Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
        let (head, body) = sent_instead.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 431 ") && head.contains("x-request-id: "), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        assert!(
            body.starts_with(
                r#"{"type":"https://e/bad-request","code":"bad-request","title":"BadRequest","status":431,"#
            ),
            "{body}"
        );

        for ours in [
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nx-request-id: a\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "anything",
        ] {
            assert_eq!(sent(ours.as_bytes()).await, ours);
        }
    }
}
