//! All cookies. The crate of bindings has no binding for this call.

use std::ffi::{CStr, c_char};
use std::rc::Rc;

use futures_channel::oneshot;
use gio::ffi::{GAsyncReadyCallback, GAsyncResult, GCancellable};
use glib::ffi::{GError, GList, gpointer};
use glib::gobject_ffi::GObject;
use glib::translate::{ToGlibPtr, from_glib_full};
use kitfleet_host_protocol::{Cookie, HostError};
use soup3_sys::SoupCookie;
use webkit2gtk::{WebContextExt, WebViewExt, WebsiteDataManagerExt};
use webkit2gtk_sys::WebKitCookieManager;

use crate::browser::Browser;
use crate::failure;

type Answer = oneshot::Sender<Result<Vec<Cookie>, glib::Error>>;

unsafe extern "C" {
    fn webkit_cookie_manager_get_all_cookies(
        manager: *mut WebKitCookieManager,
        cancellable: *mut GCancellable,
        callback: GAsyncReadyCallback,
        data: gpointer,
    );
    fn webkit_cookie_manager_get_all_cookies_finish(
        manager: *mut WebKitCookieManager,
        result: *mut GAsyncResult,
        error: *mut *mut GError,
    ) -> *mut GList;
}

/// Every cookie of the browser.
pub async fn all(browser: &Rc<Browser>) -> Result<Vec<Cookie>, HostError> {
    let manager = browser
        .view
        .context()
        .and_then(|context| context.website_data_manager())
        .and_then(|manager| manager.cookie_manager())
        .ok_or_else(|| failure::engine("there is no cookie manager"))?;
    let (answer, cookies) = oneshot::channel();
    let answer: Box<Answer> = Box::new(answer);
    // SAFETY: the manager lives through the call, which takes a reference of its own; `received` is called once, and
    // takes the box back.
    unsafe {
        webkit_cookie_manager_get_all_cookies(
            manager.to_glib_none().0,
            std::ptr::null_mut(),
            Some(received),
            Box::into_raw(answer).cast(),
        );
    }
    cookies.await.map_err(failure::engine)?.map_err(failure::engine)
}

/// Takes WebKit's answer.
///
/// # Safety
/// `source` is the manager that was asked, `result` its answer, and `data` the box that [`all`] gave away.
unsafe extern "C" fn received(source: *mut GObject, result: *mut GAsyncResult, data: gpointer) {
    let mut error = std::ptr::null_mut();
    // SAFETY: as promised to this function; it is called once for the box.
    let (answer, list) = unsafe {
        let answer: Box<Answer> = Box::from_raw(data.cast());
        (answer, webkit_cookie_manager_get_all_cookies_finish(source.cast(), result, &raw mut error))
    };
    let cookies = if error.is_null() {
        // SAFETY: the finished call gives away a list of cookies.
        Ok(unsafe { take(list) })
    } else {
        // SAFETY: the error is set, and ours to free.
        Err(unsafe { from_glib_full(error) })
    };
    // The command waits for it, unless the host is ending.
    let _ = answer.send(cookies);
}

/// Copies a list of cookies, and frees it.
///
/// # Safety
/// `list` is a list of cookies that the caller owns, with its elements.
unsafe fn take(list: *mut GList) -> Vec<Cookie> {
    let mut cookies = Vec::new();
    let mut link = list;
    while !link.is_null() {
        // SAFETY: links of a list are valid until it is freed, below; each holds a cookie, freed here once.
        unsafe {
            let cookie: *mut SoupCookie = (*link).data.cast();
            cookies.push(read(cookie));
            soup3_sys::soup_cookie_free(cookie);
            link = (*link).next;
        }
    }
    // SAFETY: the list is ours.
    unsafe { glib::ffi::g_list_free(list) };
    cookies
}

/// # Safety
/// `cookie` is valid.
unsafe fn read(cookie: *mut SoupCookie) -> Cookie {
    // SAFETY: the getters borrow from the valid cookie; each text is copied at once.
    unsafe {
        let expires = soup3_sys::soup_cookie_get_expires(cookie);
        Cookie {
            name: text(soup3_sys::soup_cookie_get_name(cookie)),
            value: text(soup3_sys::soup_cookie_get_value(cookie)),
            domain: text(soup3_sys::soup_cookie_get_domain(cookie)),
            path: text(soup3_sys::soup_cookie_get_path(cookie)),
            expires: (!expires.is_null()).then(|| glib::ffi::g_date_time_to_unix(expires)),
            secure: soup3_sys::soup_cookie_get_secure(cookie) != 0,
            http_only: soup3_sys::soup_cookie_get_http_only(cookie) != 0,
            same_site: match soup3_sys::soup_cookie_get_same_site_policy(cookie) {
                soup3_sys::SOUP_SAME_SITE_POLICY_STRICT => "Strict",
                soup3_sys::SOUP_SAME_SITE_POLICY_LAX => "Lax",
                _ => "None",
            }
            .to_owned(),
        }
    }
}

/// # Safety
/// `pointer` is null or a C string.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: as promised to this function.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
