use std::collections::VecDeque;
use std::mem;

use kitfleet_host_protocol::PageEvent;

/// Keeps the newest events, and counts the others.
pub struct Queue {
    /// With the size of their texts. Oldest first.
    events: VecDeque<(PageEvent, usize)>,
    bytes: usize,
    dropped: u64,
    max: usize,
    max_bytes: usize,
}

impl Queue {
    pub fn new(max: usize, max_bytes: usize) -> Self {
        Self { events: VecDeque::new(), bytes: 0, dropped: 0, max, max_bytes }
    }

    /// Drops the oldest ones beyond the limits.
    pub fn push(&mut self, event: PageEvent, bytes: usize) {
        self.bytes += bytes;
        self.events.push_back((event, bytes));
        while self.events.len() > self.max || self.bytes > self.max_bytes {
            let Some((_, bytes)) = self.events.pop_front() else { break };
            self.bytes -= bytes;
            self.drop_more(1);
        }
    }

    /// Counts events that were dropped elsewhere.
    pub fn drop_more(&mut self, events: u64) {
        self.dropped = self.dropped.saturating_add(events);
    }

    /// Returns the events, and the number of those that were dropped since the last call.
    pub fn take(&mut self) -> (Vec<PageEvent>, u64) {
        self.bytes = 0;
        (mem::take(&mut self.events).into_iter().map(|(event, _)| event).collect(), mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use kitfleet_host_protocol::PageEventBody;

    use super::*;

    fn event(number: u32) -> PageEvent {
        PageEvent { at_us: number.into(), body: PageEventBody::PageClosed { page: number } }
    }

    #[test]
    fn oldest_events_are_dropped_and_counted() {
        let mut queue = Queue::new(10, 1_000);
        for number in 0..13 {
            queue.push(event(number), 1);
        }
        queue.drop_more(10);
        let (events, dropped) = queue.take();
        assert_eq!((events.len(), events[0].at_us, dropped), (10, 3, 13));
        let (events, dropped) = queue.take();
        assert_eq!((events.len(), dropped), (0, 0));
    }

    #[test]
    fn texts_are_bounded() {
        let mut queue = Queue::new(100, 1_000);
        for number in 0..100 {
            queue.push(event(number), 300);
        }
        assert_eq!((queue.events.len(), queue.bytes), (3, 900));
        queue.push(event(100), 2_000);
        assert_eq!((queue.events.len(), queue.bytes, queue.dropped), (0, 0, 101));
    }
}
