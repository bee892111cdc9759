//! Requests of pages, with their outcome. A redirect is a request of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use glib::prelude::*;
use kitfleet_host_protocol::{
    RECORDED_HEADER_CHARS, RECORDED_HEADERS, RECORDED_HEADERS_BYTES, RECORDED_URI_CHARS, RequestEntry,
};
use url::Url;
use webkit2gtk::{URIRequest, URIRequestExt, URIResponse, URIResponseExt, WebResource, WebResourceExt, WebViewExt};

use crate::browser::Page;
use crate::text::cut;

/// Of a method, a media type, the name of a header or an error.
const MAX_CHARS: usize = 200;

/// Methods of requests without a body.
const WITHOUT_BODY: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

struct RunningRequest {
    method: RefCell<String>,
    uri: RefCell<String>,
    headers: RefCell<Vec<(String, String)>>,
    bytes: Cell<Option<u64>>,
    started: Cell<Instant>,
    accept: Option<String>,
    is_document: bool,
    frame_uri: Option<String>,
    error: RefCell<Option<String>>,
}

impl RunningRequest {
    fn entry(&self, response: Option<&URIResponse>, error: Option<String>) -> RequestEntry {
        let mime_type = response.and_then(URIResponseExt::mime_type).map(|kind| short(kind.into(), MAX_CHARS));
        let mime_type = mime_type.filter(|kind| !kind.is_empty());
        let is_known = |status: &u16| (100..=599).contains(status);
        let status = response.and_then(|response| u16::try_from(response.status_code()).ok()).filter(is_known);
        // 0 when it is not announced.
        let length = response.map(URIResponseExt::content_length).filter(|length| *length > 0);
        let elapsed = self.started.get().elapsed().as_millis();
        RequestEntry {
            method: self.method.borrow().clone(),
            uri: self.uri.borrow().clone(),
            resource_type: kind(self.is_document, self.accept.as_deref(), mime_type.as_deref()).to_owned(),
            status,
            mime_type,
            request_headers: self.headers.borrow().clone(),
            response_headers: Headers::of_response(response),
            request_bytes: self.bytes.get(),
            response_bytes: length,
            duration_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
            frame_uri: self.frame_uri.clone(),
            error: error.map(|error| short(error, MAX_CHARS)),
        }
    }

    fn redirect(&self, request: &URIRequest) {
        self.set_headers(request);
        self.method.replace(method(request));
        self.uri.replace(short(request.uri().unwrap_or_default().into(), RECORDED_URI_CHARS));
        self.started.set(Instant::now());
    }

    fn set_headers(&self, request: &URIRequest) {
        self.bytes.set(body_bytes(request));
        self.headers.replace(Headers::of_request(request));
    }
}

/// A request that begins while a person sends input is not recorded.
pub fn follow(page: &Rc<Page>, resource: &WebResource, request: &URIRequest) {
    if !page.browser.recording.sees_pages() {
        return;
    }
    let uri = String::from(request.uri().unwrap_or_default());
    if !uri.starts_with("http:") && !uri.starts_with("https:") {
        return;
    }
    let sent = request.http_headers();
    let header = |name: &str| Some(String::from(sent.as_ref()?.one(name)?));
    let is_document = page.view.main_resource().as_ref() == Some(resource);
    let running = Rc::new(RunningRequest {
        method: RefCell::new(method(request)),
        uri: RefCell::new(short(uri, RECORDED_URI_CHARS)),
        headers: RefCell::new(Headers::of_request(request)),
        bytes: Cell::new(body_bytes(request)),
        started: Cell::new(Instant::now()),
        accept: header("Accept"),
        is_document,
        frame_uri: if is_document { None } else { sender(page.uri().0, header("Referer")) },
        error: RefCell::default(),
    });
    resource.connect_failed({
        let running = running.clone();
        move |_, error| drop(running.error.replace(Some(error.message().to_owned())))
    });
    resource.connect_failed_with_tls_errors({
        let running = running.clone();
        move |_, _, _| drop(running.error.replace(Some("the certificate is not trusted".to_owned())))
    });
    // The binding of this signal does not expect a request that is not redirected.
    resource.connect_local("sent-request", false, {
        let (running, weak) = (running.clone(), Rc::downgrade(page));
        move |values| {
            let request = values.get(1).and_then(|value| value.get::<URIRequest>().ok());
            let redirect = values.get(2).and_then(|value| value.get::<Option<URIResponse>>().ok().flatten());
            match (weak.upgrade(), request, redirect) {
                (Some(page), Some(request), Some(redirect)) => {
                    page.browser.recording.note_request(running.entry(Some(&redirect), None));
                    running.redirect(&request);
                }
                // With the headers of the session.
                (_, Some(request), None) => running.set_headers(&request),
                _ => {}
            }
            None
        }
    });
    let weak = Rc::downgrade(page);
    // Also after a failure.
    resource.connect_finished(move |resource| {
        if let Some(page) = weak.upgrade() {
            let error = running.error.take();
            page.browser.recording.note_request(running.entry(resource.response().as_ref(), error));
        }
    });
}

fn method(request: &URIRequest) -> String {
    request.http_method().map_or_else(|| "GET".to_owned(), |method| short(method.into(), MAX_CHARS))
}

/// Headers within the limits. The worker masks secrets before it stores them.
#[derive(Default)]
struct Headers {
    all: Vec<(String, String)>,
    bytes: usize,
}

impl Headers {
    fn of_request(request: &URIRequest) -> Vec<(String, String)> {
        let mut headers = Self::default();
        if let Some(sent) = request.http_headers() {
            sent.foreach(|name, value| headers.add(name, value));
        }
        headers.all
    }

    fn of_response(response: Option<&URIResponse>) -> Vec<(String, String)> {
        let mut headers = Self::default();
        if let Some(received) = response.and_then(URIResponseExt::http_headers) {
            received.foreach(|name, value| headers.add(name, value));
        }
        headers.all
    }

    fn add(&mut self, name: &str, value: &str) {
        let (name, value) = (short(name.to_owned(), MAX_CHARS), short(value.to_owned(), RECORDED_HEADER_CHARS));
        self.bytes += name.len() + value.len();
        if self.all.len() < RECORDED_HEADERS && self.bytes <= RECORDED_HEADERS_BYTES {
            self.all.push((name, value));
        }
    }
}

fn body_bytes(request: &URIRequest) -> Option<u64> {
    let announced = request.http_headers().and_then(|headers| headers.one("Content-Length"));
    length(&method(request), announced.as_deref())
}

/// WebKit does not report the length of a body, unless a header announces it.
fn length(method: &str, announced: Option<&str>) -> Option<u64> {
    announced.and_then(|length| length.parse().ok()).or_else(|| WITHOUT_BODY.contains(&method).then_some(0))
}

fn short(text: String, max: usize) -> String {
    cut(text, max).0
}

/// WebKit does not name the frame. A referrer of the page's own origin is the page, unless it has another path.
fn sender(page: String, referrer: Option<String>) -> Option<String> {
    let Some(referrer) = referrer.filter(|referrer| !referrer.is_empty()) else {
        return Some(short(page, RECORDED_URI_CHARS)).filter(|page| !page.is_empty());
    };
    let of_page = Url::parse(&page).ok().map(|page| page.origin());
    let is_origin_of_page = Url::parse(&referrer)
        .is_ok_and(|referrer| referrer.path() == "/" && of_page.as_ref() == Some(&referrer.origin()));
    Some(short(if is_origin_of_page { page } else { referrer }, RECORDED_URI_CHARS))
}

/// From the request's headers, or else from the response.
fn kind(is_document: bool, accept: Option<&str>, mime_type: Option<&str>) -> &'static str {
    match accept {
        _ if is_document => return "document",
        Some(accept) if accept.starts_with("text/html") => return "document",
        Some(accept) if accept.starts_with("text/css") => return "stylesheet",
        Some(accept) if accept.starts_with("image/") => return "image",
        _ => {}
    }
    match mime_type {
        Some("text/css") => "stylesheet",
        Some(kind) if kind.ends_with("javascript") || kind.ends_with("ecmascript") => "script",
        Some(kind) if kind.starts_with("image/") => "image",
        Some(kind) if kind.starts_with("audio/") || kind.starts_with("video/") => "media",
        Some(kind) if kind.starts_with("font/") || kind.contains("font") => "font",
        Some(_) => "xhr",
        None => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_bounded() {
        let mut headers = Headers::default();
        headers.add("Accept", "text/html");
        headers.add("X-Long", &"é".repeat(2_000));
        for number in 0..100 {
            headers.add("X-Many", &number.to_string());
        }
        assert_eq!(headers.all.len(), RECORDED_HEADERS);
        assert_eq!(headers.all[0], ("Accept".to_owned(), "text/html".to_owned()));
        assert_eq!(headers.all[1].1.chars().count(), RECORDED_HEADER_CHARS);
        let mut large = Headers::default();
        for _ in 0..20 {
            large.add("X-Large", &"x".repeat(1_000));
        }
        assert_eq!(large.all.len(), 8);
    }

    #[test]
    fn length_of_the_body_is_announced_or_follows_from_the_method() {
        assert_eq!(length("GET", None), Some(0));
        assert_eq!(length("POST", None), None);
        assert_eq!(length("POST", Some("12")), Some(12));
        assert_eq!(length("POST", Some("many")), None);
    }

    #[test]
    fn type_follows_from_the_request_and_the_response() {
        assert_eq!(kind(true, None, Some("application/json")), "document");
        assert_eq!(kind(false, Some("text/html,*/*"), None), "document");
        assert_eq!(kind(false, Some("image/webp,*/*"), Some("text/html")), "image");
        assert_eq!(kind(false, Some("*/*"), Some("text/javascript")), "script");
        assert_eq!(kind(false, Some("*/*"), Some("application/json")), "xhr");
        assert_eq!(kind(false, None, Some("font/woff2")), "font");
        assert_eq!(kind(false, Some("*/*"), None), "other");
    }

    #[test]
    fn sender_is_the_page_or_the_frame_that_refers() {
        let page = || "https://example.com/path?a".to_owned();
        let sent_by = |referrer: Option<&str>| sender(page(), referrer.map(str::to_owned)).expect("an address");
        assert_eq!(sent_by(None), page());
        assert_eq!(sent_by(Some("https://example.com/")), page());
        assert_eq!(sent_by(Some("https://example.com/frame")), "https://example.com/frame");
        assert_eq!(sent_by(Some("https://frame.example/")), "https://frame.example/");
    }
}
