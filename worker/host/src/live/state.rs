//! State of the pictures for viewers, and of the input of a person.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use gtk::prelude::*;
use kitfleet_host_protocol::TouchPhase;
use webkit2gtk::{OptionMenu, WebView};

use super::painting::{Rect, Surface};
use crate::acknowledgement::state::Acknowledgements;

/// Between two answers.
const PACE: Duration = Duration::from_millis(33);

/// Blurred parts are then sent again, sharp.
const SETTLED_AFTER: Duration = Duration::from_millis(150);

/// Of a request when nothing is due. The request continues after it.
const LONG: Duration = Duration::from_hours(1);

/// Divides the viewport's area. A change up to that size, such as a typed letter or a caret, is sent sharp at once.
const SMALL: u32 = 8;

#[derive(Default)]
pub struct Live {
    /// True while there is a viewer.
    pub(super) watched: Cell<bool>,
    /// True while the view draws for a picture.
    pub(super) painting: Cell<bool>,
    /// Changed since it was painted.
    pub(super) damage: Cell<Option<Rect>>,
    pub(super) blurred: Cell<Option<Rect>>,
    pub(super) changed_at: Cell<Option<Instant>>,
    pub(super) answered_at: Cell<Option<Instant>>,
    pub(super) page_is_new: Cell<bool>,
    pub(super) asked_is_new: Cell<bool>,
    pub(super) open: Open,
    pub(super) held_input: InputQueue,
    /// Viewer of the last request.
    pub(super) watcher: Cell<u64>,
    /// Number of the last request.
    pub(super) turn: Cell<u64>,
    /// Number of the last picture.
    pub(super) seq: Cell<u32>,
    pub(super) waiting: RefCell<Option<oneshot::Sender<()>>>,
    pub(super) surface: Surface,
}

pub(super) enum LiveUpdate {
    Picture { rect: Rect, sharp: bool },
    Words,
}

impl Live {
    pub(super) fn wake(&self) {
        if let Some(waiting) = self.waiting.take() {
            // The receiver may have been dropped.
            let _ = waiting.send(());
        }
    }

    pub fn is_watched(&self) -> bool {
        self.watched.get()
    }

    pub fn request_again(&self) {
        self.asked_is_new.set(true);
        self.wake();
    }

    pub(super) fn is_settled(&self) -> bool {
        self.changed_at.get().is_none_or(|at| at.elapsed() >= SETTLED_AFTER)
    }

    pub(super) fn next_update(&self, view: Rect, whole: bool) -> Option<LiveUpdate> {
        if whole {
            return Some(LiveUpdate::Picture { rect: view, sharp: self.is_settled() });
        }
        if let Some(rect) = self.damage.get() {
            let rect = rect.even_within(view);
            return Some(LiveUpdate::Picture { rect, sharp: rect.area() * SMALL <= view.area() });
        }
        match self.blurred.get() {
            Some(rect) if self.is_settled() => Some(LiveUpdate::Picture { rect: rect.even_within(view), sharp: true }),
            _ => (self.page_is_new.get() || self.asked_is_new.get()).then_some(LiveUpdate::Words),
        }
    }

    /// Depends on whether there is content to send.
    pub(super) fn sleeps(&self, found: bool) -> Duration {
        let left =
            |of: Duration, since: Option<Instant>| since.map_or(Duration::ZERO, |at| of.saturating_sub(at.elapsed()));
        if found {
            left(PACE, self.answered_at.get())
        } else if self.blurred.get().is_some() {
            left(SETTLED_AFTER, self.changed_at.get())
        } else {
            LONG
        }
    }

    /// WebKit keeps the picture.
    pub fn draw(&self, view: &WebView, context: &cairo::Context) {
        self.painting.set(true);
        view.draw(context);
        self.painting.set(false);
    }
}

#[derive(Default)]
pub struct Open {
    /// A person sends input.
    pub(super) person: Cell<bool>,
    pub(super) menu: RefCell<Option<OptionMenu>>,
}

#[derive(Default)]
pub struct InputQueue {
    /// Set if the page has not handled all of it.
    pub(super) sent: RefCell<Option<SentInput>>,
    pub(super) waiting: RefCell<VecDeque<NextInput>>,
    /// True while [`super::input_queue`] waits for the page.
    pub(super) is_awaited: Cell<bool>,
    /// The page receives the rest of the touch, even if another page becomes active.
    pub(super) touched: RefCell<HashMap<usize, u32>>,
}

pub(super) enum NextInput {
    Touch {
        finger: usize,
        phase: TouchPhase,
        place: (f64, f64),
    },
    Key(String),
    Text(String),
    /// Everything before it was sent.
    Acknowledge(oneshot::Sender<()>),
}

pub(super) struct SentInput {
    pub(super) page: u32,
    pub(super) kind: Kind,
    /// Count at which the page has handled the input.
    pub(super) reports: usize,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Touch,
    Key,
}

impl InputQueue {
    /// Page that the touch has begun on, which may be closed.
    pub(super) fn touched_page(&self, next: &NextInput) -> Option<u32> {
        match next {
            NextInput::Touch { finger, phase, .. } if *phase != TouchPhase::Begin => {
                self.touched.borrow().get(finger).copied()
            }
            _ => None,
        }
    }
}

impl NextInput {
    pub(super) fn ends(&self) -> bool {
        matches!(self, Self::Touch { phase: TouchPhase::End | TouchPhase::Cancel, .. })
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        match self {
            Self::Touch { .. } => Some(Kind::Touch),
            Self::Key(_) => Some(Kind::Key),
            Self::Text(_) | Self::Acknowledge(_) => None,
        }
    }
}

impl Kind {
    /// A lifted finger counts as handled with its click.
    pub(super) fn reports(self, reports: &Acknowledgements) -> usize {
        match self {
            Self::Touch => reports.touches.get() + reports.refusals.get() + reports.clicks.get(),
            Self::Key => reports.keys.get(),
        }
    }
}
