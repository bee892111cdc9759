//! Pictures of changes, the page's address and title, and dialogs.
//!
//! WebKit keeps the visible page as a picture in this process. GTK's `draw` signal reports which part of it has changed.
//! Drawing the view again onto another surface, at the device's scale, is then only a copy. A request is answered when
//! there is a change, so the viewers determine the rate, and nothing is painted without a request.

pub mod asked;
pub mod input_queue;
pub mod painting;
pub mod state;

use std::rc::Rc;
use std::time::Instant;

use futures_channel::oneshot;
use futures_util::future::select;
use gtk::prelude::*;
use kitfleet_host_protocol::{HostError, LiveEvent, PageInfo, Picture};
use webkit2gtk::WebViewExt;

use self::painting::Rect;
use self::state::LiveUpdate;
use crate::browser::{Browser, Page};

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
    browser.recording.pictures.require_whole();
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
