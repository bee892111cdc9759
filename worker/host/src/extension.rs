//! Start and state of the web-process extension (`extension/`).
//!
//! It runs in the processes that pages may control. A flood of reports takes little memory here, because only the newest
//! console lines are kept, and a forged report at most holds back a step of its own session.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use glib::prelude::*;
use kitfleet_host_protocol::{EXTENSION, ExtraHeader, HostError, MAX_HEADER_BYTES, MAX_HEADERS};
use url::Url;
use webkit2gtk::{UserMessage, UserMessageExt, WebContext, WebContextExt};

use crate::failure;

/// Name, value, and the origins that receive it.
type Header = (String, String, Vec<String>);

/// In all web processes, present and future.
pub struct Extension {
    context: WebContext,
    is_ready: Rc<Cell<bool>>,
    /// True when the first page was loaded without the extension.
    pub is_missing: Cell<bool>,
    holds: Cell<bool>,
    is_offline: Cell<bool>,
    records: Cell<bool>,
    /// WebKit derives the header from the languages without the language of a region.
    accept_language: RefCell<Option<String>>,
    headers: RefCell<Vec<Header>>,
}

impl Extension {
    /// No web process may run yet.
    pub fn load(context: &WebContext, directory: &Path) -> Result<Self, String> {
        let file = directory.join(EXTENSION);
        if !file.is_file() {
            return Err(format!("the web-process extension {} is missing", file.display()));
        }
        let path = directory.to_str().ok_or_else(|| format!("{} is not UTF-8", directory.display()))?;
        context.set_web_extensions_directory(path);
        let is_ready = Rc::new(Cell::new(false));
        context.connect_user_message_received({
            let is_ready = is_ready.clone();
            move |_, message| {
                let known = message.name().is_some_and(|name| name == "ready");
                is_ready.set(is_ready.get() || known);
                known
            }
        });
        let extension = Self {
            context: context.clone(),
            is_ready,
            is_missing: Cell::new(false),
            holds: Cell::new(false),
            is_offline: Cell::new(false),
            records: Cell::new(false),
            accept_language: RefCell::default(),
            headers: RefCell::default(),
        };
        extension.publish();
        Ok(extension)
    }

    pub fn is_ready(&self) -> bool {
        self.is_ready.get()
    }

    /// A page receives this before later input.
    pub fn hold(&self, holds: bool) {
        if self.holds.replace(holds) != holds {
            self.publish();
        }
    }

    pub fn set_offline(&self, is_offline: bool) {
        if self.is_offline.replace(is_offline) != is_offline {
            self.publish();
        }
    }

    /// From here on, pages report their console lines.
    pub fn record(&self) {
        if !self.records.replace(true) {
            self.publish();
        }
    }

    /// A header of the customer with this name replaces it.
    pub fn set_accept_language(&self, value: String) {
        self.accept_language.replace(Some(value));
        self.publish();
    }

    /// Sets the headers of all later requests. They replace the previous ones.
    pub fn set_headers(&self, headers: Vec<ExtraHeader>) -> Result<(), HostError> {
        let bytes: usize = headers.iter().map(|header| header.name.len() + header.value.len()).sum();
        if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
            return Err(failure::engine("there are too many headers"));
        }
        let headers: Vec<_> = headers.into_iter().map(checked).collect::<Result<_, _>>()?;
        let is_new = *self.headers.borrow() != headers;
        if is_new {
            self.headers.replace(headers);
            self.publish();
        }
        Ok(())
    }

    /// To all processes, and to those that start later.
    fn publish(&self) {
        let language = self.accept_language.borrow().clone();
        let language = language.map(|value| ("Accept-Language".to_owned(), value, Vec::new()));
        let headers: Vec<Header> = language.into_iter().chain(self.headers.borrow().iter().cloned()).collect();
        let state = (self.holds.get(), self.is_offline.get(), self.records.get(), headers).to_variant();
        self.context.set_web_extensions_initialization_user_data(&state);
        self.context.send_message_to_all_extensions(&UserMessage::new("state", Some(&state)));
    }
}

/// A header must not end its line. Its origins are normalized.
fn checked(header: ExtraHeader) -> Result<Header, HostError> {
    let ExtraHeader { name, value, origins } = header;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty()
        || !name.bytes().all(is_token)
        || !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
    {
        return Err(failure::engine("a header has invalid characters"));
    }
    let origin = |origin: String| match Url::parse(&origin) {
        Ok(url) if url.origin().is_tuple() => Ok(url.origin().ascii_serialization()),
        _ => Err(failure::engine("a header names something that is not an origin")),
    };
    // An empty list would mean all origins.
    if origins.as_ref().is_some_and(Vec::is_empty) {
        return Err(failure::engine("a header names no origin"));
    }
    let origins = origins.unwrap_or_default().into_iter().map(origin).collect::<Result<_, _>>()?;
    Ok((name, value, origins))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str, origins: Option<&[&str]>) -> ExtraHeader {
        let origins = origins.map(|origins| origins.iter().map(|origin| (*origin).to_owned()).collect());
        ExtraHeader { name: name.to_owned(), value: value.to_owned(), origins }
    }

    #[test]
    fn origins_are_normalized() {
        let sent = checked(header("X-Key", "a b", Some(&["HTTPS://Example.com:443/path"]))).expect("a header");
        assert_eq!(sent, ("X-Key".to_owned(), "a b".to_owned(), vec!["https://example.com".to_owned()]));
        assert_eq!(checked(header("X-Key", "", None)).expect("a header").2, Vec::<String>::new());
    }

    #[test]
    fn headers_with_line_breaks_or_without_origins_are_rejected() {
        for rejected in [
            header("", "x", None),
            header("A:", "x", None),
            header("A\r\n", "x", None),
            header("A", "x\ny", None),
            header("A", "x\0", None),
            header("A", "x", Some(&[])),
            header("A", "x", Some(&["data:text/html,x"])),
            header("A", "x", Some(&["example.com"])),
        ] {
            assert!(checked(rejected.clone()).is_err(), "{rejected:?}");
        }
    }
}
