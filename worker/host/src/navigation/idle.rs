//! Waits for an idle network.

use std::rc::Rc;
use std::time::Instant;

use kitfleet_host_protocol::WaitUntil;
use webkit2gtk::{URIRequest, URIRequestExt, WebResource, WebResourceExt};

use super::outcomes::arrived;
use super::state::LoadStage;
use crate::browser::Page;

const EVENT_STREAM: &str = "text/event-stream";

/// No page can read the response of a beacon.
fn is_background(request: &URIRequest) -> bool {
    let Some(headers) = request.http_headers() else { return false };
    let is = |name, value: &str| headers.one(name).is_some_and(|text| text.trim().eq_ignore_ascii_case(value));
    let is_beacon = request.http_method().as_deref() == Some("POST") && is("Sec-Fetch-Mode", "no-cors");
    is_beacon || is("Accept", EVENT_STREAM)
}

pub fn on_started(page: &Rc<Page>, resource: &WebResource, request: &URIRequest) {
    if is_background(request) {
        return;
    }
    page.navigation.stop_idle_timer();
    page.navigation.requests.borrow_mut().begin(resource.clone(), Instant::now());
    wait(page);
    let ended = {
        let page = Rc::downgrade(page);
        move |resource: &WebResource| {
            if let Some(page) = page.upgrade() {
                page.navigation.requests.borrow_mut().end(resource, Instant::now());
                wait(&page);
            }
        }
    };
    resource.connect_finished(ended.clone());
    resource.connect_failed(move |resource, _| ended(resource));
}

/// For a command that waits for an idle network, once the page has loaded.
pub fn wait(page: &Rc<Page>) {
    let navigation = &page.navigation;
    navigation.stop_idle_timer();
    if navigation.stage.get() != LoadStage::Done || !navigation.awaits(WaitUntil::NetworkIdle) {
        return;
    }
    let now = Instant::now();
    let rest = navigation.requests.borrow().idle_at(now).saturating_duration_since(now);
    let weak = Rc::downgrade(page);
    let timer = glib::timeout_add_local_once(rest, move || {
        if let Some(page) = weak.upgrade() {
            // The source has removed itself from the main loop.
            page.navigation.idle_timer.take();
            page.navigation.reply(Ok(arrived(&page)));
        }
    });
    navigation.idle_timer.replace(Some(timer));
}
