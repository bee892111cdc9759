//! HAR 1.2 (contract: recordings 26).

use std::io;

use bytes::Bytes;
use chrono::Duration;
use kitfleet_domain::timestamp::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;
use url::Url;

use crate::events::{EventBody, Header, RequestEvent};
use crate::reader::{ReadError, Reader};
use crate::zip::send;

/// Size from which bytes are passed on.
const CHUNK: usize = 64 * 1024;

/// Writes the file in chunks. An error ends it.
pub async fn write(reader: &Reader, sink: &Sender<io::Result<Bytes>>) -> io::Result<()> {
    let creator = json!({"name": "Kitfleet", "version": env!("CARGO_PKG_VERSION")});
    let mut text =
        format!("{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"pages\":[],\"entries\":[").into_bytes();
    let (mut after, mut is_first) = (0, true);
    while let Some(batch) = reader.events_after(after).await.map_err(broken)? {
        after = batch.last_seq;
        for event in &batch.events {
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
    text.extend_from_slice(b"]}}");
    send(sink, text).await
}

pub(crate) fn broken(error: ReadError) -> io::Error {
    match error {
        ReadError::Io(error) => error,
        other => io::Error::other(other),
    }
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
            "url": request.url,
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
            "redirectURL": "",
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
        assert_eq!(entry["startedDateTime"], "1969-12-31T23:59:59.000Z");
        assert_eq!(entry["request"]["queryString"][0], json!({"name": "q", "value": "a b"}));
        assert_eq!(entry["request"]["bodySize"], -1);
        assert_eq!(entry["response"]["status"], 0);
        assert!(!entry.to_string().contains('\0'));
        for member in ["method", "url", "httpVersion", "cookies", "headers", "queryString", "headersSize", "bodySize"] {
            assert!(entry["request"].get(member).is_some(), "{member}");
        }
        for member in [
            "status",
            "statusText",
            "httpVersion",
            "cookies",
            "headers",
            "content",
            "redirectURL",
            "headersSize",
            "bodySize",
        ] {
            assert!(entry["response"].get(member).is_some(), "{member}");
        }
    }
}
