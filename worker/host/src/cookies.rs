//! All cookies, read and replaced. The crate of bindings has no binding for these calls.

use std::ffi::{CStr, CString, NulError, c_char};
use std::rc::Rc;

use futures_channel::oneshot;
use gio::ffi::{GAsyncReadyCallback, GAsyncResult, GCancellable};
use glib::ffi::{GError, GList, gpointer};
use glib::gobject_ffi::GObject;
use glib::translate::{IntoGlib, ToGlibPtr, from_glib_full};
use kitfleet_host_protocol::{Cookie, HostError};
use soup3_sys::SoupCookie;
use webkit2gtk::{CookieManager, WebContextExt, WebViewExt, WebsiteDataManagerExt};
use webkit2gtk_sys::WebKitCookieManager;

use crate::browser::Browser;
use crate::failure;

type Answer<T> = oneshot::Sender<Result<T, glib::Error>>;

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
    fn webkit_cookie_manager_replace_cookies(
        manager: *mut WebKitCookieManager,
        cookies: *mut GList,
        cancellable: *mut GCancellable,
        callback: GAsyncReadyCallback,
        data: gpointer,
    );
    fn webkit_cookie_manager_replace_cookies_finish(
        manager: *mut WebKitCookieManager,
        result: *mut GAsyncResult,
        error: *mut *mut GError,
    ) -> glib::ffi::gboolean;
}

/// Every cookie of the browser.
pub async fn all(browser: &Rc<Browser>) -> Result<Vec<Cookie>, HostError> {
    let manager = manager(browser)?;
    let (answer, cookies) = oneshot::channel();
    let answer: Box<Answer<Vec<Cookie>>> = Box::new(answer);
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

/// Replaces every cookie of the browser.
pub async fn replace(browser: &Rc<Browser>, cookies: &[Cookie]) -> Result<(), HostError> {
    let manager = manager(browser)?;
    let list = List::of(cookies).map_err(failure::engine)?;
    let (answer, replaced) = oneshot::channel();
    let answer: Box<Answer<()>> = Box::new(answer);
    // SAFETY: the manager and the list live through the call, which takes a reference of the one and copies the other;
    // `was_replaced` is called once, and takes the box back.
    unsafe {
        webkit_cookie_manager_replace_cookies(
            manager.to_glib_none().0,
            list.0,
            std::ptr::null_mut(),
            Some(was_replaced),
            Box::into_raw(answer).cast(),
        );
    }
    drop(list);
    replaced.await.map_err(failure::engine)?.map_err(failure::engine)
}

fn manager(browser: &Rc<Browser>) -> Result<CookieManager, HostError> {
    browser
        .view
        .context()
        .and_then(|context| context.website_data_manager())
        .and_then(|manager| manager.cookie_manager())
        .ok_or_else(|| failure::engine("there is no cookie manager"))
}

/// Takes WebKit's answer.
///
/// # Safety
/// `source` is the manager that was asked, `result` its answer, and `data` the box that [`all`] gave away.
unsafe extern "C" fn received(source: *mut GObject, result: *mut GAsyncResult, data: gpointer) {
    let mut error = std::ptr::null_mut();
    // SAFETY: as promised to this function; it is called once for the box.
    let (answer, list) = unsafe {
        let answer: Box<Answer<Vec<Cookie>>> = Box::from_raw(data.cast());
        (answer, webkit_cookie_manager_get_all_cookies_finish(source.cast(), result, &raw mut error))
    };
    let cookies = if error.is_null() {
        // The finished call gives away a list of cookies.
        Ok(List(list).read())
    } else {
        // SAFETY: the error is set, and ours to free.
        Err(unsafe { from_glib_full(error) })
    };
    // The command waits for it, unless the host is ending.
    let _ = answer.send(cookies);
}

/// Takes WebKit's word that it has replaced them.
///
/// # Safety
/// `source` is the manager that was told, `result` its answer, and `data` the box that [`replace`] gave away.
unsafe extern "C" fn was_replaced(source: *mut GObject, result: *mut GAsyncResult, data: gpointer) {
    let mut error = std::ptr::null_mut();
    // SAFETY: as promised to this function; it is called once for the box.
    let answer = unsafe {
        let answer: Box<Answer<()>> = Box::from_raw(data.cast());
        webkit_cookie_manager_replace_cookies_finish(source.cast(), result, &raw mut error);
        answer
    };
    // SAFETY: an error that is set is ours to free.
    let replaced = if error.is_null() { Ok(()) } else { Err(unsafe { from_glib_full(error) }) };
    // The command waits for it, unless the host is ending.
    let _ = answer.send(replaced);
}

/// A list of cookies that is ours, with its elements.
struct List(*mut GList);

impl List {
    /// # Errors
    /// When one has a NUL in it.
    fn of(cookies: &[Cookie]) -> Result<Self, NulError> {
        let mut list = Self(std::ptr::null_mut());
        for cookie in cookies.iter().rev() {
            let cookie = make(cookie)?;
            // SAFETY: the list is ours, and takes the cookie.
            list.0 = unsafe { glib::ffi::g_list_prepend(list.0, cookie.cast()) };
        }
        Ok(list)
    }

    fn read(&self) -> Vec<Cookie> {
        let mut cookies = Vec::new();
        let mut link = self.0;
        while !link.is_null() {
            // SAFETY: the links of the list are valid for as long as it is ours; each holds a cookie.
            unsafe {
                cookies.push(read((*link).data.cast()));
                link = (*link).next;
            }
        }
        cookies
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list and its elements are ours, and freed here once.
        unsafe { glib::ffi::g_list_free_full(self.0, Some(free)) };
    }
}

/// # Safety
/// `cookie` is a cookie that nobody uses any more.
unsafe extern "C" fn free(cookie: gpointer) {
    // SAFETY: as promised to this function.
    unsafe { soup3_sys::soup_cookie_free(cookie.cast()) };
}

fn make(cookie: &Cookie) -> Result<*mut SoupCookie, NulError> {
    /// Until it is told when it expires, a cookie ends with the browser.
    const WITH_THE_BROWSER: i32 = -1;
    let (name, value) = (CString::new(cookie.name.as_str())?, CString::new(cookie.value.as_str())?);
    let (domain, path) = (CString::new(cookie.domain.as_str())?, CString::new(cookie.path.as_str())?);
    let same_site = match cookie.same_site.as_str() {
        "Strict" => soup3_sys::SOUP_SAME_SITE_POLICY_STRICT,
        "Lax" => soup3_sys::SOUP_SAME_SITE_POLICY_LAX,
        _ => soup3_sys::SOUP_SAME_SITE_POLICY_NONE,
    };
    let expires = cookie.expires.and_then(|seconds| glib::DateTime::from_unix_utc(seconds).ok());
    // SAFETY: the texts live through the call, which copies them; the setters are given the cookie that it made, and copy
    // the time.
    unsafe {
        let made =
            soup3_sys::soup_cookie_new(name.as_ptr(), value.as_ptr(), domain.as_ptr(), path.as_ptr(), WITH_THE_BROWSER);
        soup3_sys::soup_cookie_set_secure(made, cookie.secure.into_glib());
        soup3_sys::soup_cookie_set_http_only(made, cookie.http_only.into_glib());
        soup3_sys::soup_cookie_set_same_site_policy(made, same_site);
        if let Some(expires) = &expires {
            soup3_sys::soup_cookie_set_expires(made, expires.to_glib_none().0);
        }
        Ok(made)
    }
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
