//! Decides about requests of pages before they leave the process: sets headers, and holds what scripts send.
//!
//! WebKit asks for each request of a page and its frames, and again for each redirect.

use std::ffi::{CStr, CString, c_char};

use glib::ffi::{g_error_free, g_free, gpointer};
use soup3_sys::{
    SoupMessageHeaders, soup_message_headers_get_one, soup_message_headers_remove, soup_message_headers_replace,
    soup_tld_get_base_domain,
};
use webkit2gtk_sys::{
    WebKitURIRequest, WebKitURIResponse, webkit_security_origin_get_host, webkit_security_origin_new_for_uri,
    webkit_security_origin_to_string, webkit_security_origin_unref, webkit_uri_request_get_http_headers,
    webkit_uri_request_get_http_method, webkit_uri_request_get_uri,
};

use crate::copied;
use crate::ffi::{WebKitWebPage, webkit_web_page_get_uri};
use crate::messages::{send_held, with_state};

/// Returns 1 to cancel the request.
pub unsafe extern "C" fn on_send_request(
    page: *mut WebKitWebPage,
    request: *mut WebKitURIRequest,
    redirect: *mut WebKitURIResponse,
    _: gpointer,
) -> i32 {
    if with_state(|state| !state.holds && state.headers.is_empty()) {
        return 0;
    }
    // SAFETY: the page and the request are valid during the signal, and `redirect` is null or valid.
    unsafe {
        let Some(uri) = copied(webkit_uri_request_get_uri(request)) else { return 0 };
        let Some(target) = Origin::of(&uri) else { return 0 };
        set_headers(request, &target, !redirect.is_null());
        let decision = decide(page, request, &target);
        if decision == Decision::Hold {
            send_held(page);
        }
        i32::from(decision != Decision::Send)
    }
}

/// A redirected request carries the headers of the request before it, from which those for other origins are removed.
///
/// # Safety
/// The request is valid.
unsafe fn set_headers(request: *mut WebKitURIRequest, target: &Origin, is_redirect: bool) {
    with_state(|state| {
        // SAFETY: the caller guarantees the request. The headers belong to it, and are null for other schemes than HTTP.
        let headers = unsafe { webkit_uri_request_get_http_headers(request) };
        if headers.is_null() {
            return;
        }
        for (name, value, origins) in &state.headers {
            let (Ok(name), Ok(value)) = (CString::new(name.as_str()), CString::new(value.as_str())) else { continue };
            let is_for_target = origins.is_empty() || origins.contains(&target.text);
            // SAFETY: the headers are valid, and both are C strings.
            unsafe {
                if is_for_target {
                    soup_message_headers_replace(headers, name.as_ptr(), value.as_ptr());
                } else if is_redirect && header(headers, &name).as_deref().map(str::as_bytes) == Some(value.as_bytes())
                {
                    soup_message_headers_remove(headers, name.as_ptr());
                }
            }
        }
    });
}

/// `None` without headers.
///
/// # Safety
/// The headers are null or valid.
unsafe fn header(headers: *mut SoupMessageHeaders, name: &CStr) -> Option<String> {
    if headers.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees it. The text belongs to the headers.
    unsafe { copied(soup_message_headers_get_one(headers, name.as_ptr())) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Send,
    Hold,
    Drop,
}

/// A request is held if it goes to the site of the page or of the frame that sends it. A frame that hides its origin is
/// assumed to send to its own site. The ping of a link is dropped: a tap on a link would otherwise need approval, and a
/// page that gives another request the type of a ping gains nothing.
///
/// # Safety
/// The page and the request are valid.
unsafe fn decide(page: *mut WebKitWebPage, request: *mut WebKitURIRequest, target: &Origin) -> Decision {
    if !with_state(|state| state.holds) {
        return Decision::Send;
    }
    // SAFETY: the caller guarantees both. The headers belong to the request.
    let (method, page, sender, kind) = unsafe {
        let headers = webkit_uri_request_get_http_headers(request);
        (
            copied(webkit_uri_request_get_http_method(request)),
            copied(webkit_web_page_get_uri(page)),
            header(headers, c"Origin"),
            header(headers, c"Content-Type"),
        )
    };
    if method.is_none_or(|method| method.eq_ignore_ascii_case("GET") || method.eq_ignore_ascii_case("HEAD")) {
        return Decision::Send;
    }
    if kind.is_some_and(|kind| kind.starts_with("text/ping")) {
        return Decision::Drop;
    }
    let is_hidden = sender.as_deref() == Some("null");
    let is_to = |address: Option<String>| {
        address.as_deref().and_then(Origin::of).is_some_and(|origin| origin.site() == target.site())
    };
    if is_hidden || is_to(page) || is_to(sender) { Decision::Hold } else { Decision::Send }
}

struct Origin {
    text: String,
    host: String,
}

impl Origin {
    /// `None` without an origin, such as `data:`.
    fn of(uri: &str) -> Option<Self> {
        let uri = CString::new(uri).ok()?;
        // SAFETY: the address is a C string. The texts are read before the origin is released.
        unsafe {
            let origin = webkit_security_origin_new_for_uri(uri.as_ptr());
            let text = taken(webkit_security_origin_to_string(origin));
            let host = copied(webkit_security_origin_get_host(origin));
            webkit_security_origin_unref(origin);
            Some(Self { text: text?, host: host? })
        }
    }

    /// Below a public suffix. The host itself if it has none, such as an IP address.
    fn site(&self) -> String {
        let Ok(host) = CString::new(self.host.as_str()) else { return self.host.clone() };
        let mut error = std::ptr::null_mut();
        // SAFETY: the host is a C string. The result is a part of it, and the error is released.
        unsafe {
            let site = copied(soup_tld_get_base_domain(host.as_ptr(), &raw mut error));
            if !error.is_null() {
                g_error_free(error);
            }
            site.unwrap_or_else(|| self.host.clone())
        }
    }
}

/// # Safety
/// `text` is null or a C string that the caller owns.
unsafe fn taken(text: *mut c_char) -> Option<String> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let copy = copied(text);
        g_free(text.cast());
        copy
    }
}
