//! HAR 1.2 (contract: recordings 26).

use std::fmt::Write as _;
use std::io;

use bytes::Bytes;
use chrono::Duration;
use kitfleet_types::timestamp::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;
use url::Url;

use crate::events::{EventBody, Header, RequestEvent};
use crate::reader::Reader;
use crate::source::Source;
use crate::zip::send;

/// Size from which bytes are passed on.
const CHUNK: usize = 64 * 1024;

/// Writes the file in chunks. An error ends it.
pub async fn write(reader: &Reader, sink: &Sender<io::Result<Bytes>>) -> io::Result<()> {
    write_from(reader, sink).await
}

async fn write_from<S: Source + Sync>(source: &S, sink: &Sender<io::Result<Bytes>>) -> io::Result<()> {
    let creator = json!({"name": "Kitfleet", "version": env!("CARGO_PKG_VERSION")});
    let mut text =
        format!("{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"pages\":[],\"entries\":[").into_bytes();
    let (mut after, mut is_first) = (0, true);
    while let Some((events, last_seq)) = source.events_after(after).await? {
        after = last_seq;
        for event in &events {
            let EventBody::Request(request) = &event.body else { continue };
            if !std::mem::take(&mut is_first) {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, &entry(event.at, request))?;
            if text.len() >= CHUNK {
                send(sink, std::mem::take(&mut text)).await?;
            }
        }
    }
    source.check_exists().await?;
    text.extend_from_slice(b"]}}");
    send(sink, text).await
}

/// Entry of a request that ended at this time. Bodies are not recorded.
pub(crate) fn entry(ended_at: Timestamp, request: &RequestEvent) -> Value {
    let duration_ms = request.duration_ms.unwrap_or_default();
    let started_at = Duration::try_milliseconds(i64::try_from(duration_ms).unwrap_or_default())
        .and_then(|duration| ended_at.0.checked_sub_signed(duration))
        .map_or(ended_at, Timestamp);
    let size = |bytes: Option<u64>| bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let status = request.status.unwrap_or_default();
    let mut entry = json!({
        "startedDateTime": started_at,
        "time": duration_ms,
        "request": {
            "method": request.method,
            "url": uri(&request.url),
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": headers(&request.request_headers),
            "queryString": query(&request.url),
            "headersSize": -1,
            "bodySize": size(request.request_bytes),
        },
        "response": {
            "status": status,
            "statusText": status_text(status),
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": headers(&request.response_headers),
            "content": {
                "size": size(request.response_bytes).max(0),
                "mimeType": request.mime_type.as_deref().unwrap_or("x-unknown"),
            },
            "redirectURL": location(request),
            "headersSize": -1,
            "bodySize": size(request.response_bytes),
        },
        "cache": {},
        "timings": {"send": 0, "wait": duration_ms, "receive": 0},
        "_resourceType": request.resource_type,
    });
    if let Some(error) = &request.error {
        entry["response"]["_failureText"] = error.as_str().into();
    }
    entry
}

fn headers(headers: &[Header]) -> Vec<Value> {
    headers.iter().map(|Header { name, value }| json!({"name": name, "value": value})).collect()
}

/// Readers expect an address without spaces and control characters.
fn uri(url: &str) -> String {
    let is_unfit = |c: char| c.is_whitespace() || c.is_control();
    let mut uri = String::with_capacity(url.len());
    for c in url.chars() {
        if is_unfit(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        } else {
            uri.push(c);
        }
    }
    uri
}

/// Target of a redirect.
fn location(request: &RequestEvent) -> &str {
    let is_redirect = request.status.is_some_and(|status| (300..400).contains(&status));
    let mut headers = request.response_headers.iter().filter(|_| is_redirect);
    headers.find(|header| header.name.eq_ignore_ascii_case("location")).map_or("", |header| &header.value)
}

fn query(url: &str) -> Vec<Value> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    url.query_pairs().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn status_text(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Event;
    use crate::reader::{Attachment, ReadError};
    use crate::source::broken;

    #[test]
    fn entry_has_all_members_of_the_format() {
        let request = RequestEvent {
            method: "GET".to_owned(),
            url: "https://a.example/../x%00?q=a%20b&token=•••".to_owned(),
            duration_ms: Some(1_000),
            error: Some("net\0work".to_owned()),
            ..RequestEvent::default()
        };
        let entry = entry(Timestamp::EPOCH, &request);
        insta::assert_json_snapshot!("har_entry", entry);
    }

    struct DeletedSource;

    impl Source for DeletedSource {
        async fn events_after(&self, _after: u64) -> io::Result<Option<(Vec<Event>, u64)>> {
            Ok(None)
        }

        async fn attachments_after(&self, _after: u64) -> io::Result<Option<(Vec<(u64, Attachment)>, u64)>> {
            Ok(None)
        }

        async fn check_exists(&self) -> io::Result<()> {
            Err(broken(ReadError::Deleted))
        }
    }

    /// Contract: recordings 20.
    #[tokio::test]
    async fn file_of_a_recording_that_was_deleted_meanwhile_is_an_error() {
        let (sink, mut chunks) = tokio::sync::mpsc::channel(2);
        let error = write_from(&DeletedSource, &sink).await.expect_err("an incomplete file");
        assert!(matches!(error.get_ref().and_then(|cause| cause.downcast_ref()), Some(ReadError::Deleted)));
        assert!(chunks.try_recv().is_err(), "no end of the file");
    }

    #[test]
    fn addresses_have_no_spaces_and_control_characters() {
        assert_eq!(
            uri("https://a.example/ä?q=a b&token=•••\0\n\u{2003}"),
            "https://a.example/ä?q=a%20b&token=•••%00%0A%E2%80%83"
        );
    }

    #[test]
    fn redirect_has_its_target() {
        let header = Header { name: "Location".to_owned(), value: "/next".to_owned() };
        let mut request = RequestEvent { status: Some(302), response_headers: vec![header], ..RequestEvent::default() };
        assert_eq!(location(&request), "/next");
        request.status = Some(201);
        assert_eq!(location(&request), "");
    }
}
