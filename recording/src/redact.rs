//! Removal of secrets and long texts from events before they are stored (contract: recordings 16).

use kitfleet_domain::redaction::{MASK, is_secret_header, mask_addresses};

use crate::events::{EventBody, Header, TEXT_CHARS, URL_CHARS};

const HEADERS: usize = 64;
const HEADER_CHARS: usize = 1_024;
const NAME_CHARS: usize = 255;

pub(crate) fn redact(body: &mut EventBody, secret_headers: &[String]) {
    match body {
        EventBody::Operation(operation) => {
            text(&mut operation.described.description);
            operation.error.as_mut().into_iter().for_each(text);
            operation.url.as_mut().into_iter().for_each(address);
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

fn headers(headers: &mut Vec<Header>, secret_headers: &[String]) {
    headers.truncate(HEADERS);
    for Header { name, value } in headers {
        if is_secret_header(name, secret_headers) {
            MASK.clone_into(value);
        } else {
            replace(value);
            cut(value, HEADER_CHARS);
        }
        cut(name, NAME_CHARS);
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

fn cut(text: &mut String, most: usize) {
    if let Some((end, _)) = text.char_indices().nth(most) {
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
        redact(&mut body, &["x-shop".to_owned()]);
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
        redact(&mut body, &[]);
        let EventBody::Console(console) = body else { panic!("another type") };
        assert_eq!(console.text.chars().count(), TEXT_CHARS);
        assert_eq!(console.url.map(|url| url.len()), Some(URL_CHARS));
    }
}
