//! Pictures of changes, the page's address and title, and dialogs.
//!
//! WebKit keeps the visible page as a picture in this process. GTK's `draw` signal reports which part of it has changed.
//! Drawing the view again onto another surface, at the device's scale, is then only a copy. A request is answered when
//! there is a change, so the viewers determine the rate, and nothing is painted without a request.

pub mod asked;
pub mod input_queue;
pub mod painting;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use futures_util::future::select;
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, LiveEvent, PageInfo, Picture};
use webkit2gtk::WebViewExt;

use self::asked::Open;
use self::input_queue::InputQueue;
use self::painting::{Rect, Surface};
use crate::browser::Browser;
use crate::pages::Page;

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
    watched: Cell<bool>,
    /// True while the view draws for [`paint`].
    painting: Cell<bool>,
    /// Changed since it was painted.
    damage: Cell<Option<Rect>>,
    blurred: Cell<Option<Rect>>,
    changed_at: Cell<Option<Instant>>,
    answered_at: Cell<Option<Instant>>,
    page_is_new: Cell<bool>,
    asked_is_new: Cell<bool>,
    open: Open,
    held_input: InputQueue,
    /// Viewer of the last request.
    watcher: Cell<u64>,
    /// Number of the last request.
    turn: Cell<u64>,
    /// Number of the last picture.
    seq: Cell<u32>,
    waiting: RefCell<Option<oneshot::Sender<()>>>,
    surface: Surface,
}

enum LiveUpdate {
    Picture { rect: Rect, sharp: bool },
    Words,
}

impl Live {
    fn wake(&self) {
        if let Some(waiting) = self.waiting.take() {
            // The receiver may have been dropped.
            let _ = waiting.send(());
        }
    }

    pub fn request_again(&self) {
        self.asked_is_new.set(true);
        self.wake();
    }

    fn is_settled(&self) -> bool {
        self.changed_at.get().is_none_or(|at| at.elapsed() >= SETTLED_AFTER)
    }

    fn next_update(&self, view: Rect, whole: bool) -> Option<LiveUpdate> {
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
    fn sleeps(&self, found: bool) -> Duration {
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
}

/// Takes a complete picture if `whole`. A later request ends an earlier one.
pub async fn watch(browser: &Rc<Browser>, whole: bool, watcher: u64) -> Result<LiveEvent, HostError> {
    begin(browser);
    let live = &browser.live;
    live.watcher.set(watcher);
    let turn = live.turn.get() + 1;
    live.turn.set(turn);
    live.wake();
    while live.turn.get() == turn {
        let update = live.next_update(Rect::of(&browser.pages.active().view), whole);
        let pause = live.sleeps(update.is_some());
        match update {
            Some(update) if pause.is_zero() => return send_update(browser, update, whole).await,
            _ => {
                let (wake, woken) = oneshot::channel();
                live.waiting.replace(Some(wake));
                select(woken, glib::timeout_future(pause)).await;
            }
        }
    }
    Ok(LiveEvent::default())
}

async fn send_update(browser: &Rc<Browser>, update: LiveUpdate, whole: bool) -> Result<LiveEvent, HostError> {
    let live = &browser.live;
    live.answered_at.set(Some(Instant::now()));
    let page = (live.page_is_new.take() || whole).then(|| shown(browser));
    let asked = (live.asked_is_new.take() || whole).then(|| asked::asked(browser));
    let picture = match update {
        LiveUpdate::Picture { rect, sharp } => Some(paint(browser, rect, sharp).await?),
        LiveUpdate::Words => None,
    };
    Ok(LiveEvent { picture, page, asked })
}

async fn paint(browser: &Rc<Browser>, rect: Rect, sharp: bool) -> Result<Picture, HostError> {
    let live = &browser.live;
    let page = browser.pages.active();
    let view = Rect::of(&page.view);
    live.damage.set(None);
    let blurred = live.blurred.get();
    live.blurred.set(if sharp {
        blurred.filter(|blurred| !rect.contains(*blurred))
    } else {
        Some(blurred.map_or(rect, |blurred| blurred.union(rect)))
    });
    let seq = live.seq.get() + 1;
    live.seq.set(seq);
    let base = if rect == view { 0 } else { seq - 1 };
    live.painting.set(true);
    let painted = live.surface.paint(&page.view, rect);
    live.painting.set(false);
    let jpeg = painted?.encode(&live.surface, sharp).await?;
    Ok(Picture { seq, base, sharp, view: view.size(), rect: rect.place(), taken_us: jpeg.taken_us, jpeg: jpeg.base64 })
}

/// WebKit keeps the picture.
pub fn draw(page: &Page, context: &cairo::Context) {
    let live = &page.browser.live;
    live.painting.set(true);
    page.view.draw(context);
    live.painting.set(false);
}

fn shown(browser: &Browser) -> PageInfo {
    let page = browser.pages.active();
    PageInfo { uri: page.uri().0, title: page.title() }
}

/// Enables GTK's draw signals, which are suspended without viewers.
fn begin(browser: &Rc<Browser>) {
    let live = &browser.live;
    if live.watched.replace(true) {
        return;
    }
    live.page_is_new.set(true);
    live.asked_is_new.set(true);
    if let Some(surface) = browser.surface() {
        surface.thaw_updates();
    }
}

/// Discards the state of the pictures.
pub fn unwatch(browser: &Browser, watcher: u64) {
    let live = &browser.live;
    if live.watcher.get() != watcher || !live.watched.replace(false) {
        return;
    }
    if let Some(surface) = browser.surface() {
        surface.freeze_updates();
    }
    live.turn.set(live.turn.get() + 1);
    live.wake();
    live.damage.set(None);
    live.blurred.set(None);
    live.surface.clear();
}

/// Shows viewers another page, which has become the active one.
pub fn show(page: &Page) {
    let live = &page.browser.live;
    live.page_is_new.set(true);
    live.blurred.set(None);
    if live.watched.get() {
        live.damage.set(Some(Rect::of(&page.view)));
        live.changed_at.set(Some(Instant::now()));
    }
    live.wake();
}

pub fn follow(page: &Rc<Page>) {
    let weak = Rc::downgrade(page);
    page.view.connect_draw(move |view, context| {
        let Some(page) = weak.upgrade() else { return glib::Propagation::Proceed };
        let live = &page.browser.live;
        if live.painting.get() || !live.watched.get() || !page.is_active() {
            return glib::Propagation::Proceed;
        }
        if let Some(new) = Rect::clipped(context, Rect::of(view)) {
            live.damage.set(Some(live.damage.get().map_or(new, |damage| damage.union(new))));
            live.changed_at.set(Some(Instant::now()));
            live.wake();
        }
        // The display is never visible.
        glib::Propagation::Stop
    });
    let changed = |page: &Rc<Page>| {
        let weak = Rc::downgrade(page);
        move |_: &webkit2gtk::WebView| {
            if let Some(page) = weak.upgrade().filter(|page| page.is_active()) {
                page.browser.live.page_is_new.set(true);
                page.browser.live.wake();
            }
        }
    };
    page.view.connect_uri_notify(changed(page));
    page.view.connect_title_notify(changed(page));
}
