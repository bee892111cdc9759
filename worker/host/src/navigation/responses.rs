//! Notes the responses that a page receives.

use std::rc::Rc;

use glib::prelude::*;
use webkit2gtk::{URIResponse, URIResponseExt, WebResource, WebResourceExt};

use crate::browser::Page;
use crate::clock::now_us;

/// Responses that are not HTTP, such as those of `blob:`, are not recorded.
fn note(page: &Page, response: &URIResponse) {
    let Ok(status @ 100..=599) = u16::try_from(response.status_code()) else { return };
    let is_http = |uri: &glib::GString| uri.starts_with("http:") || uri.starts_with("https:");
    let Some(uri) = response.uri().filter(is_http) else { return };
    page.browser.responses.add(page.browser.short_uri(uri.into()), status, now_us());
}

/// Redirects, and the last response.
pub fn follow(page: &Rc<Page>, resource: &WebResource) {
    let weak = Rc::downgrade(page);
    resource.connect_response_notify(move |resource| {
        if let Some(page) = weak.upgrade()
            && let Some(response) = resource.response()
        {
            note(&page, &response);
        }
    });
    let weak = Rc::downgrade(page);
    // The binding of this signal does not expect a request that is not redirected.
    resource.connect_local("sent-request", false, move |values| {
        let redirect = values.get(2).and_then(|value| value.get::<Option<URIResponse>>().ok().flatten());
        if let (Some(page), Some(redirect)) = (weak.upgrade(), redirect) {
            note(&page, &redirect);
        }
        None
    });
}
