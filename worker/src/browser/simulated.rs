//! A session on nothing: it answers at once with what a browser might say, so that load tests measure the rest.

use std::time::{Duration, Instant, SystemTime};

use kitfleet_domain::operations::{
    Capture, CaptureKind, Condition, Extraction, Failure, FailureClass, OnTimeout, Operation, Take, Transform, Wait,
};
use kitfleet_domain::timestamp::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::webkit::milliseconds;
use super::{Done, Ended};

/// One white pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDAT\x78\x9c\x63\xf8\x0f\0\x01\x01\x01\0\x1b\xb6\xee\x56\0\0\0\0IEND\xaeB\x60\x82";

/// A document without pages.
const PDF: &[u8] =
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n\
    trailer<</Root 1 0 R>>\n%%EOF\n";

/// A browser that is not there.
pub struct Simulated {
    url: String,
}

impl Simulated {
    /// On a blank page.
    pub fn new() -> Self {
        Self { url: "about:blank".to_owned() }
    }

    /// Does one operation.
    pub async fn run(&mut self, operation: &Operation) -> Ended {
        let started = Instant::now();
        if let Operation::Wait(wait) = operation
            && let Condition::Time { ms } = wait.condition
            && timeout(wait.timeout, sleep(Duration::from_millis(ms))).await.is_err()
        {
            return self.out_of_time(wait, started);
        }
        if let Operation::Navigate(navigate) = operation {
            navigate.url.as_str().clone_into(&mut self.url);
        }
        let Done { value, content } = self.answer(operation, started);
        Ended::Done { value, content }
    }

    fn out_of_time(&self, wait: &Wait, started: Instant) -> Ended {
        match wait.on_timeout {
            OnTimeout::Fail => {
                let detail = "The operation ran out of its time.".to_owned();
                Ended::Failed(Failure { class: FailureClass::Timeout, detail })
            }
            OnTimeout::Return => {
                let (kind, duration_ms) = (wait.condition.kind(), milliseconds(started));
                let value = json!({ "matched": false, "kind": kind, "duration_ms": duration_ms, "url": self.url });
                Ended::Done { value, content: None }
            }
        }
    }

    fn answer(&self, operation: &Operation, started: Instant) -> Done {
        let url = &self.url;
        let duration_ms = milliseconds(started);
        let value = match operation {
            Operation::Navigate(navigate) => {
                json!({ "url": navigate.requested_url, "status": 200, "final_url": url, "duration_ms": duration_ms })
            }
            Operation::Interact(interact) => {
                json!({ "ok": true, "kind": interact.action.kind(), "duration_ms": duration_ms, "url": url })
            }
            Operation::Wait(wait) => {
                json!({ "matched": true, "kind": wait.condition.kind(), "duration_ms": duration_ms, "url": url })
            }
            Operation::StateCapture => json!({
                "url": url,
                "title": "Simulated",
                "cookies": [],
                "local_storage": {},
                "page_state": { "state": "loaded" },
                "captured_at": Timestamp(SystemTime::now().into()),
            }),
            Operation::Capture(capture) => return self.capture(capture, started),
            Operation::Extract(extract) => {
                let value: Map<_, _> =
                    extract.extractions.iter().map(|item| (item.name.clone(), found(item))).collect();
                json!({ "value": value })
            }
            Operation::Search(search) => {
                let mut answer = json!({ "submitted": search.submit, "query_truncated": false });
                if search.wait_for_results_selector.is_some() {
                    answer["results_visible"] = true.into();
                }
                answer["duration_ms"] = duration_ms.into();
                answer
            }
            Operation::Login(_) => json!({
                "submitted": true,
                "credentials_truncated": false,
                "logged_in": true,
                "post_login_url": url,
                "duration_ms": duration_ms,
            }),
        };
        Done { value, content: None }
    }

    fn capture(&self, capture: &Capture, started: Instant) -> Done {
        let (encoding, content) = match capture.kind {
            CaptureKind::Screenshot => ("base64", PNG.to_vec()),
            CaptureKind::Pdf => ("base64", PDF.to_vec()),
            CaptureKind::DomSnapshot => ("utf8", b"<!DOCTYPE html>\n<html><title>Simulated</title></html>".to_vec()),
        };
        let value = json!({
            "kind": capture.kind.name(),
            "encoding": encoding,
            "content_type": capture.kind.content_type(),
            "bytes": content.len(),
            "duration_ms": milliseconds(started),
            "url": self.url,
        });
        Done { value, content: Some(content) }
    }
}

fn found(item: &Extraction) -> Value {
    match (item.take, item.transform) {
        (Take::List, _) => json!([]),
        (Take::Text, Some(Transform::Number)) => json!(1),
        _ => json!("simulated"),
    }
}
