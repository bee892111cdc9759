//! Removal of secrets and long texts from events before they are stored (contract: recordings 16).

use kitfleet_types::operations::{Element, Target};
use kitfleet_types::redaction::{MASK, is_secret_header, mask_addresses};

use crate::events::{EventBody, Header, TEXT_CHARS, URL_CHARS};

const HEADERS: usize = 64;
const HEADER_CHARS: usize = 1_024;
/// Of the names and values of the headers of a request, or of a response. The others are left out.
const HEADERS_BYTES: usize = 8 * 1024;
const NAME_CHARS: usize = 255;
/// A session that sets more names has all values masked.
const MAX_SECRET_HEADERS: usize = 1_000;

/// Names of the headers that a session has set by `extra_headers`.
#[derive(Debug, Default)]
pub(crate) struct SecretHeaders {
    names: Vec<String>,
    masks_all: bool,
}

impl SecretHeaders {
    pub(crate) fn add(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            if self.names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                continue;
            }
            if self.names.len() == MAX_SECRET_HEADERS {
                self.masks_all = true;
                return;
            }
            self.names.push(name);
        }
    }

    fn contains(&self, name: &str) -> bool {
        self.masks_all || is_secret_header(name, &self.names)
    }
}

pub(crate) fn redact(body: &mut EventBody, secret_headers: &SecretHeaders) {
    match body {
        EventBody::Operation(operation) => {
            text(&mut operation.described.description);
            operation.error.as_mut().into_iter().for_each(text);
            operation.url.as_mut().into_iter().for_each(address);
            operation.trace.locator.as_mut().into_iter().for_each(locator);
        }
        EventBody::Console(console) => {
            text(&mut console.text);
            console.url.as_mut().into_iter().for_each(address);
        }
        EventBody::Request(request) => {
            address(&mut request.url);
            request.frame_url.as_mut().into_iter().for_each(address);
            request.error.as_mut().into_iter().for_each(text);
            cut(&mut request.method, NAME_CHARS);
            cut(&mut request.resource_type, NAME_CHARS);
            request.mime_type.as_mut().into_iter().for_each(|mime| cut(mime, NAME_CHARS));
            headers(&mut request.request_headers, secret_headers);
            headers(&mut request.response_headers, secret_headers);
        }
        EventBody::Dialog(dialog) => text(&mut dialog.message),
        EventBody::Page(page) => page.url.as_mut().into_iter().for_each(address),
        EventBody::Download(download) => {
            address(&mut download.url);
            cut(&mut download.file_name, NAME_CHARS);
        }
        EventBody::Control(control) => control.client_id.as_mut().into_iter().for_each(|id| cut(id, NAME_CHARS)),
        EventBody::Frame(_) | EventBody::Challenge(_) | EventBody::Recording(_) => {}
    }
}

fn headers(headers: &mut Vec<Header>, secret_headers: &SecretHeaders) {
    headers.truncate(HEADERS);
    for Header { name, value } in headers.iter_mut() {
        if secret_headers.contains(name) {
            MASK.clone_into(value);
        } else {
            replace(value);
            cut(value, HEADER_CHARS);
        }
        cut(name, NAME_CHARS);
    }
    let mut bytes = 0;
    headers.retain(|Header { name, value }| {
        bytes += name.len() + value.len();
        bytes <= HEADERS_BYTES
    });
}

/// A role is one of a list.
fn locator(element: &mut Element) {
    let target = match element {
        Element::Selector(selector) => return text(selector),
        Element::Target(target) | Element::Exact(target) => target,
    };
    match target {
        Target::Role { name, .. } => name.as_mut().into_iter().for_each(text),
        Target::Selector(words)
        | Target::Label(words)
        | Target::Text(words)
        | Target::Placeholder(words)
        | Target::Ref(words) => text(words),
    }
}

fn text(text: &mut String) {
    // The mask is applied first, because a cut address may have lost the name of its secret but not the secret.
    replace(text);
    cut(text, TEXT_CHARS);
}

fn address(url: &mut String) {
    replace(url);
    cut(url, URL_CHARS);
}

fn replace(text: &mut String) {
    if let std::borrow::Cow::Owned(masked) = mask_addresses(text) {
        *text = masked;
    }
}

fn cut(text: &mut String, max: usize) {
    if let Some((end, _)) = text.char_indices().nth(max) {
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{ConsoleEvent, ConsoleLevel, ConsoleSource, RequestEvent};

    #[test]
    fn secrets_are_masked_and_texts_cut() {
        let header = |name: &str, value: &str| Header { name: name.to_owned(), value: value.to_owned() };
        let mut body = EventBody::Request(Box::new(RequestEvent {
            url: "https://a.example/?api_key=1".to_owned(),
            frame_url: Some("https://a.example/#access_token=1".to_owned()),
            error: Some("https://a.example/?token=1".to_owned()),
            request_headers: vec![
                header("cookie", "a=1"),
                header("X-Shop", "1"),
                header("Referer", "https://a.example/?sig=1"),
            ],
            response_headers: vec![header("Set-Cookie", "a=1"), header("Location", "/?code=1"), header("Server", "x")],
            ..RequestEvent::default()
        }));
        let mut secrets = SecretHeaders::default();
        secrets.add(["x-shop".to_owned(), "X-Shop".to_owned()]);
        assert_eq!(secrets.names, ["x-shop"]);
        redact(&mut body, &secrets);
        let EventBody::Request(request) = body else { panic!("another type") };
        assert_eq!(request.url, "https://a.example/?api_key=•••");
        assert_eq!(request.frame_url.as_deref(), Some("https://a.example/#access_token=•••"));
        assert_eq!(request.error.as_deref(), Some("https://a.example/?token=•••"));
        let values = |headers: &[Header]| headers.iter().map(|header| header.value.clone()).collect::<Vec<_>>();
        assert_eq!(values(&request.request_headers), ["•••", "•••", "https://a.example/?sig=•••"]);
        assert_eq!(values(&request.response_headers), ["•••", "/?code=•••", "x"]);

        let mut body = EventBody::Console(ConsoleEvent {
            level: ConsoleLevel::Log,
            source: ConsoleSource::Console,
            text: "é".repeat(TEXT_CHARS + 1),
            url: Some(format!("https://a.example/{}", "a".repeat(9_000))),
            line: None,
        });
        redact(&mut body, &SecretHeaders::default());
        let EventBody::Console(console) = body else { panic!("another type") };
        assert_eq!(console.text.chars().count(), TEXT_CHARS);
        assert_eq!(console.url.map(|url| url.len()), Some(URL_CHARS));
    }

    #[test]
    fn secrets_in_locators_are_masked() {
        let address = || "https://a:b@a.example/?token=1".to_owned();
        let masked = "https://•••@a.example/?token=•••";
        let role = |name| Target::Role { role: "link".to_owned(), name: Some(name) };
        for (mut element, expected) in [
            (Element::Selector(address()), Element::Selector(masked.to_owned())),
            (Element::Target(role(address())), Element::Target(role(masked.to_owned()))),
            (Element::Exact(Target::Text(address())), Element::Exact(Target::Text(masked.to_owned()))),
        ] {
            locator(&mut element);
            assert_eq!(element, expected);
        }
    }

    #[test]
    fn headers_are_bounded() {
        let header = |number: usize| Header { name: format!("x-{number}"), value: "é".repeat(2_000) };
        let mut all: Vec<_> = (0..100).map(header).collect();
        headers(&mut all, &SecretHeaders::default());
        assert_eq!(all.len(), 3, "2 KiB each");
        assert!(all.iter().all(|header| header.value.chars().count() == HEADER_CHARS));
    }

    #[test]
    fn session_with_too_many_secret_headers_has_all_masked() {
        let mut secrets = SecretHeaders::default();
        secrets.add((0..=MAX_SECRET_HEADERS).map(|number| format!("x-{number}")));
        assert_eq!(secrets.names.len(), MAX_SECRET_HEADERS);
        assert!(secrets.contains("accept"));
    }
}
