//! The network is idle after [`IDLE_AFTER`] without a request that counts. A request counts while it is in flight, but not for
//! longer than [`COUNTED_FOR`]: streams and long polling would otherwise keep a page busy for as long as it is open. Event
//! streams and beacons do not count at all, so that a stream that reconnects often, and a frequent beacon, are ignored too.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use kitfleet_host_protocol::WaitUntil;
use webkit2gtk::{URIRequest, URIRequestExt, WebResource, WebResourceExt};

use super::{LoadStage, arrived};
use crate::pages::Page;

const IDLE_AFTER: Duration = Duration::from_millis(500);

/// Counts for at most this long.
const COUNTED_FOR: Duration = Duration::from_millis(500);

const EVENT_STREAM: &str = "text/event-stream";

#[derive(Default)]
pub struct Requests {
    /// Start of each.
    in_flight: HashMap<WebResource, Instant>,
    /// A request that counted has then ended, or the page has loaded.
    busy_until: Option<Instant>,
}

impl Requests {
    pub fn keep_only(&mut self, resource: Option<&WebResource>) {
        self.in_flight.retain(|other, _| Some(other) == resource);
    }

    fn begin(&mut self, resource: WebResource, now: Instant) {
        self.in_flight.insert(resource, now);
    }

    fn end(&mut self, resource: &WebResource, now: Instant) {
        if let Some(start) = self.in_flight.remove(resource) {
            self.note(now.min(start + COUNTED_FOR));
        }
    }

    pub fn note(&mut self, time: Instant) {
        self.busy_until = self.busy_until.max(Some(time));
    }

    pub fn is_busy(&self, now: Instant) -> bool {
        self.in_flight.values().any(|start| *start + COUNTED_FOR > now)
    }

    pub fn is_idle(&self, now: Instant) -> bool {
        let counted = self.in_flight.values().map(|start| *start + COUNTED_FOR).max();
        counted.max(self.busy_until).is_none_or(|until| until + IDLE_AFTER <= now)
    }

    /// Time at which the network is idle, unless another request starts.
    fn idle_at(&self, now: Instant) -> Instant {
        let counted = self.in_flight.values().map(|start| *start + COUNTED_FOR).max();
        counted.max(self.busy_until).unwrap_or(now) + IDLE_AFTER
    }
}

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
