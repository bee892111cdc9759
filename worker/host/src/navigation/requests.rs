//! The network is idle after [`IDLE_AFTER`] without a request that counts. A request counts while it is in flight, but not for
//! longer than [`COUNTED_FOR`]: streams and long polling would otherwise keep a page busy for as long as it is open. Event
//! streams and beacons do not count at all, so that a stream that reconnects often, and a frequent beacon, are ignored too.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use webkit2gtk::WebResource;

const IDLE_AFTER: Duration = Duration::from_millis(500);

/// Counts for at most this long.
const COUNTED_FOR: Duration = Duration::from_millis(500);

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

    pub fn begin(&mut self, resource: WebResource, now: Instant) {
        self.in_flight.insert(resource, now);
    }

    pub fn end(&mut self, resource: &WebResource, now: Instant) {
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
    pub fn idle_at(&self, now: Instant) -> Instant {
        let counted = self.in_flight.values().map(|start| *start + COUNTED_FOR).max();
        counted.max(self.busy_until).unwrap_or(now) + IDLE_AFTER
    }
}
